//! Tasks on an OpenCL device (PoCL: the processors) between tasks on the processors.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_opencl::{Argument, OpenCl, OpenClError};
use castell_tasks::data::Data;
use castell_tasks::{Context, LeafKind, Runtime};

const SOURCE: &str = "
kernel void axpy(global float *y, global const float *x, float a) {
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
kernel void square(global float *y) { y[get_global_id(0)] *= y[get_global_id(0)]; }
";

/// The device, or none and a skip.
fn device() -> Option<OpenCl> {
    match OpenCl::open("", SOURCE) {
        Ok(device) => Some(device),
        Err(error @ OpenClError::NoOpenCl { .. }) => {
            skipped::skip("opencl", &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn axpy(context: &Context<'_>, y: &mut [f32], x: &[f32], a: f32) {
    let device = context.device::<OpenCl>().expect("a task for this kind runs on the device's worker");
    let items = y.len();
    let mut arguments = [Argument::output(y), Argument::input(x), Argument::value(&a)];
    // SAFETY: the kernel's arguments, and as many items as the buffers have.
    if let Err(error) = unsafe { device.run("axpy", &mut arguments, items) } {
        context.fail(error);
    }
}

#[test]
fn a_kernel_runs_between_tasks_on_processors() {
    let Some(device) = device() else { return };
    eprintln!("on {}", device.name());
    let runtime =
        Runtime::builder().workers(2).device(LeafKind::ACCELERATOR, device).build().expect("threads");
    const LENGTH: usize = 4096;
    let result = runtime.run(|context| {
        let (x, mut y) = (Data::from(vec![0_f32; LENGTH]), Data::from(vec![1_f32; LENGTH]));
        for round in 0..8_u8 {
            // On a processor: x; on the device: y += 2 x; on a processor: y += 1.
            context.submit(x.write(), move |context, mut x| {
                assert!(context.device::<OpenCl>().is_none());
                x.iter_mut().enumerate().for_each(|(index, x)| *x = f32::from(round) + (index % 7) as f32);
            });
            let on_device = context.task().label("axpy").on(LeafKind::ACCELERATOR);
            on_device.submit((y.write(), x.read()), |context, (mut y, x)| axpy(context, &mut y, &x, 2.0));
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

#[test]
fn what_a_device_refuses_reaches_the_wait() {
    let Some(device) = device() else { return };
    let mut few = [Argument::value(&1_f32)];
    // SAFETY: neither starts a kernel.
    unsafe {
        let error = device.run("axpy", &mut few, 1).expect_err("three arguments").to_string();
        assert_eq!(error, "kernel `axpy` takes 3 arguments, not 1");
        let error = device.run("gemm", &mut [], 1).expect_err("no such kernel").to_string();
        assert!(error.contains("the source has: axpy, square"), "{error}");
    }
    let runtime =
        Runtime::builder().workers(1).device(LeafKind::ACCELERATOR, device).build().expect("threads");
    let failed = runtime.run(|context| {
        context.task().label("gemm").on(LeafKind::ACCELERATOR).submit((), |context, ()| {
            let device = context.device::<OpenCl>().expect("the device's worker");
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

#[test]
fn sources_that_do_not_compile_and_devices_that_are_not_there_are_errors() {
    if device().is_none() {
        return;
    }
    let error = OpenCl::open("", "kernel void broken( {").expect_err("no OpenCL C").to_string();
    assert!(error.contains("cannot be built"), "{error}");
    let error = OpenCl::open("no such device", SOURCE).expect_err("no such device").to_string();
    assert!(error.contains("`no such device`; there are: "), "{error}");
    assert!(!OpenCl::devices().expect("a library").is_empty());
}

/// In a process of its own: the library is loaded once a process.
#[test]
fn without_opencl_the_error_says_what_to_install() {
    const INSIDE: &str = "CASTELL_TEST_WITHOUT_OPENCL";
    if std::env::var_os(INSIDE).is_some() {
        let error = OpenCl::open("", SOURCE).expect_err("there is none").to_string();
        assert!(error.contains("no OpenCL here") && error.contains("pocl-opencl-icd"), "{error}");
        return;
    }
    let me = std::env::current_exe().expect("a program knows its path");
    for (name, value) in [("OCL_ICD_VENDORS", "/nowhere"), ("OPENCL_DYLIB_PATH", "libc.so.6")] {
        let inside = std::process::Command::new(&me)
            .args(["--exact", "without_opencl_the_error_says_what_to_install"])
            .env(INSIDE, "1")
            .env(name, value)
            .output()
            .expect("the test can be started");
        assert!(inside.status.success(), "{name}: {}", String::from_utf8_lossy(&inside.stdout));
    }
}
