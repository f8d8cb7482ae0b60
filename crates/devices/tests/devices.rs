//! Tasks on a device between tasks on the processors; the same for OpenCL (in CI PoCL, whose device is the processors) and CUDA.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_devices::{Argument, Cuda, Device, DeviceError, OpenCl};
use castell_tasks::data::Data;
use castell_tasks::{Context, LeafKind, Runtime};
use std::process::Command;

/// One kind of devices.
struct Api<D> {
    /// In the list of what may be missing.
    key: &'static str,
    open: fn(&str, &str) -> Result<D, DeviceError>,
    devices: fn() -> Result<Vec<String>, DeviceError>,
    source: &'static str,
    broken: &'static str,
}

const OPENCL: Api<OpenCl> = Api {
    key: "opencl",
    open: OpenCl::open,
    devices: OpenCl::devices,
    source: "
kernel void axpy(global float *y, global const float *x, float a) {
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
kernel void square(global float *y) { y[get_global_id(0)] *= y[get_global_id(0)]; }
kernel void nothing(global float *y) { }
",
    broken: "kernel void broken( {",
};

const CUDA: Api<Cuda> = Api {
    key: "cuda",
    open: Cuda::open,
    devices: Cuda::devices,
    source: r#"
extern "C" __global__ void axpy(float *y, const float *x, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 4096) y[i] += a * x[i];
}
extern "C" __global__ void square(float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000) y[i] *= y[i];
}
extern "C" __global__ void nothing(float *y) { }
"#,
    broken: "extern \"C\" __global__ void broken( {",
};

/// The device, or none and a skip.
fn device<D: Device>(api: &Api<D>) -> Option<D> {
    match (api.open)("", api.source) {
        Ok(device) => Some(device),
        Err(error @ DeviceError::NoLibrary { .. }) => {
            skipped::skip(api.key, &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn axpy<D: Device + 'static>(context: &Context<'_>, y: &mut [f32], x: &[f32], a: f32) {
    let device = context.device::<D>().expect("a task for this kind runs on the device's worker");
    let items = y.len();
    let mut arguments = [Argument::output(y), Argument::input(x), Argument::value(&a)];
    // SAFETY: the kernel's arguments, and as many items as the buffers have.
    if let Err(error) = unsafe { device.run("axpy", &mut arguments, items) } {
        context.fail(error);
    }
}

fn runs_between_tasks_on_processors<D: Device + 'static>(api: &Api<D>) {
    let Some(device) = device(api) else { return };
    eprintln!("on {}", device.name());
    let runtime =
        Runtime::builder().workers(2).device(LeafKind::ACCELERATOR, device).build().expect("threads");
    const LENGTH: usize = 4096;
    let result = runtime.run(|context| {
        let (x, mut y) = (Data::from(vec![0_f32; LENGTH]), Data::from(vec![1_f32; LENGTH]));
        for round in 0..8_u8 {
            // On a processor: x; on the device: y += 2 x; on a processor: y += 1.
            context.submit(x.write(), move |context, mut x| {
                assert!(context.device::<D>().is_none());
                x.iter_mut().enumerate().for_each(|(index, x)| *x = f32::from(round) + (index % 7) as f32);
            });
            let on_device = context.task().label("axpy").on(LeafKind::ACCELERATOR);
            on_device
                .submit((y.write(), x.read()), |context, (mut y, x)| axpy::<D>(context, &mut y, &x, 2.0));
            context.submit(y.write(), |_, mut y| y.iter_mut().for_each(|y| *y += 1.0));
        }
        y.get(context).expect("nothing fails").to_vec()
    });
    let result = result.expect("nothing fails");
    let mut expected = vec![1_f32; LENGTH];
    for round in 0..8_u8 {
        for (index, y) in expected.iter_mut().enumerate() {
            *y = *y + 2.0 * (f32::from(round) + (index % 7) as f32) + 1.0;
        }
    }
    assert_eq!(result, expected);
}

/// A number of items that fills no block, none at all, buffers without a byte.
fn lengths_of_all_kinds<D: Device>(api: &Api<D>) {
    let Some(device) = device(api) else { return };
    let mut y: Vec<f32> = (0..1000).map(|y| y as f32).collect();
    let expected: Vec<f32> = y.iter().map(|y| y * y).collect();
    // SAFETY: the kernel's argument; it stays inside.
    unsafe { device.run("square", &mut [Argument::output(&mut y)], 1000) }.expect("runs");
    assert_eq!(y, expected);
    // SAFETY: nothing is run.
    unsafe { device.run("square", &mut [Argument::output(&mut y)], 0) }.expect("nothing to do");
    assert_eq!(y, expected);
    // SAFETY: this kernel touches nothing.
    unsafe { device.run("nothing", &mut [Argument::output::<f32>(&mut [])], 7) }.expect("runs");
}

/// Each thread gets what it computes, though they share the device.
fn many_threads<D: Device>(api: &Api<D>) {
    let Some(device) = device(api) else { return };
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..20_u8 {
                    let mut y = vec![f32::from(thread) + f32::from(round); 1000];
                    // SAFETY: the kernel's argument; it stays inside.
                    unsafe { device.run("square", &mut [Argument::output(&mut y)], 1000) }.expect("runs");
                    let expected = (f32::from(thread) + f32::from(round)).powi(2);
                    assert!(y.iter().all(|&y| y == expected), "thread {thread}, round {round}");
                }
            });
        }
    });
}

fn refuses<D: Device + 'static>(api: &Api<D>) {
    let Some(device) = device(api) else { return };
    let mut few = [Argument::value(&1_f32)];
    // SAFETY: neither starts a kernel.
    unsafe {
        let error = device.run("axpy", &mut few, 1).expect_err("three arguments").to_string();
        assert_eq!(error, "kernel `axpy` takes 3 arguments, not 1");
        let error = device.run("gemm", &mut [], 1).expect_err("no such kernel").to_string();
        assert!(error.contains("the source has: axpy, nothing, square"), "{error}");
    }
    let (mut y, x) = ([1_f32; 4], [1_f32; 4]);
    let mut long = [Argument::output(&mut y), Argument::input(&x), Argument::value(&1_f64)];
    // SAFETY: it is refused.
    unsafe { device.run("axpy", &mut long, 4) }.expect_err("a float");
    assert_eq!(y, [1.; 4]);
    let runtime =
        Runtime::builder().workers(1).device(LeafKind::ACCELERATOR, device).build().expect("threads");
    let failed = runtime.run(|context| {
        context.task().label("gemm").on(LeafKind::ACCELERATOR).submit((), |context, ()| {
            let device = context.device::<D>().expect("the device's worker");
            // SAFETY: there is no such kernel.
            if let Err(error) = unsafe { device.run("gemm", &mut [], 1) } {
                context.fail(error);
            }
        });
        context.taskwait().expect_err("no such kernel").to_string()
    });
    let message = failed.expect("the taskwait has seen it");
    assert!(message.contains("task `gemm` failed: there is no kernel `gemm`"), "{message}");
}

fn opens_what_there_is_alone<D: Device>(api: &Api<D>) {
    if device(api).is_none() {
        return;
    }
    for source in [api.broken, "\0"] {
        let error = (api.open)("", source).err().expect("no source").to_string();
        assert!(error.contains("cannot be built"), "{error}");
    }
    let error = (api.open)("no such device", api.source).err().expect("no such device").to_string();
    assert!(error.contains("`no such device`; there are: "), "{error}");
    assert!(!(api.devices)().expect("a library").is_empty());
}

macro_rules! for_each_api {
    ($($api:ident: $kind:ident)*) => {$(
        mod $api {
            use super::*;

            #[test]
            fn a_kernel_runs_between_tasks_on_processors() {
                runs_between_tasks_on_processors(&$kind);
            }

            #[test]
            fn any_number_of_items_and_bytes_will_do() {
                lengths_of_all_kinds(&$kind);
            }

            #[test]
            fn threads_take_turns() {
                many_threads(&$kind);
            }

            #[test]
            fn what_a_device_refuses_reaches_the_wait() {
                refuses(&$kind);
            }

            #[test]
            fn sources_that_do_not_compile_and_devices_that_are_not_there_are_errors() {
                opens_what_there_is_alone(&$kind);
            }
        }
    )*};
}
for_each_api! { opencl: OPENCL cuda: CUDA }

/// The driver is enough for what was compiled before.
#[test]
fn cuda_runs_ptx() {
    const TWICE: &str = "
.version 7.0
.target sm_50
.address_size 64
.visible .entry twice(.param .u64 start)
{
    .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<2>; .reg .pred %p;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r0, %r1, %r2;
    setp.ge.u32 %p, %r3, 5;
    @%p ret;
    ld.param.u64 %d0, [start]; cvta.to.global.u64 %d1, %d0;
    mul.wide.u32 %d2, %r3, 4; add.s64 %d3, %d1, %d2;
    ld.global.f32 %f0, [%d3]; add.f32 %f1, %f0, %f0; st.global.f32 [%d3], %f1;
    ret;
}";
    if device(&CUDA).is_none() {
        return;
    }
    let device = Cuda::open_ptx("", TWICE).expect("the driver compiles it");
    let mut y = [1_f32, 2., 3., 4., 5.];
    // SAFETY: the kernel's argument; it stays inside.
    unsafe { device.run("twice", &mut [Argument::output(&mut y)], 5) }.expect("runs");
    assert_eq!(y, [2., 4., 6., 8., 10.]);
    for ptx in ["no PTX", "\0"] {
        let error = Cuda::open_ptx("", ptx).expect_err("no PTX").to_string();
        assert!(error.contains("cannot be built"), "{error}");
    }
}

/// In a process of its own: the library is loaded once a process.
#[test]
fn without_opencl_the_error_says_what_to_install() {
    const INSIDE: &str = "CASTELL_TEST_WITHOUT_OPENCL";
    if std::env::var_os(INSIDE).is_some() {
        let error = OpenCl::open("", OPENCL.source).expect_err("there is none").to_string();
        assert!(error.contains("no OpenCL here") && error.contains("pocl-opencl-icd"), "{error}");
        return;
    }
    for (name, value) in [("OCL_ICD_VENDORS", "/nowhere"), ("OPENCL_DYLIB_PATH", "libc.so.6")] {
        again("without_opencl_the_error_says_what_to_install", &[(INSIDE, "1"), (name, value)]);
    }
}

/// Where there are GPUs, none of them is seen.
#[test]
fn without_cuda_the_error_says_what_to_install() {
    const INSIDE: &str = "CASTELL_TEST_WITHOUT_CUDA";
    if std::env::var_os(INSIDE).is_some() {
        let error = Cuda::open("", CUDA.source).expect_err("there is none").to_string();
        assert!(error.contains("no CUDA here") && error.contains("nvidia-driver"), "{error}");
        return;
    }
    again("without_cuda_the_error_says_what_to_install", &[(INSIDE, "1"), ("CUDA_VISIBLE_DEVICES", "-1")]);
}

/// One test of this program, in another process.
fn again(test: &str, environment: &[(&str, &str)]) {
    let me = std::env::current_exe().expect("a program knows its path");
    let inside = Command::new(me).args(["--exact", test]).envs(environment.iter().copied()).output();
    let inside = inside.expect("the test can be started");
    assert!(inside.status.success(), "{environment:?}: {}", String::from_utf8_lossy(&inside.stdout));
}
