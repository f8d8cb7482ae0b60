//! CUDA's devices: the driver's library runs kernels, and NVRTC, the toolkit's, compiles their sources.

use crate::argument::outputs;
use crate::{Argument, Device, DeviceError, choose};
use cudarc::driver::result::launch_kernel;
use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr as _, DriverError, sys};
use cudarc::nvrtc::{CompileError, CompileOptions, Ptx, compile_ptx_with_opts};
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

const API: &str = "CUDA";
/// The first driver that tells what a kernel takes.
const DRIVER: i32 = 12_040;
/// Threads of a block, unless a kernel has registers for fewer.
const BLOCK: usize = 256;

/// A device of CUDA's, with the kernels that were built for it.
pub struct Cuda {
    name: String,
    stream: Arc<CudaStream>,
    kernels: HashMap<String, CudaFunction>,
    /// One kernel at a time, so that each has the whole device.
    turn: Mutex<()>,
}

impl Cuda {
    /// The names of all devices that the driver has.
    ///
    /// # Errors
    /// There is no driver, or none that is new enough.
    pub fn devices() -> Result<Vec<String>, DeviceError> {
        driver()?;
        let count = CudaContext::device_count().map_err(|error| none(error.to_string()))?;
        if count == 0 {
            return Err(none("the driver knows no device".to_owned()));
        }
        let name = |ordinal| {
            cudarc::driver::result::device::get(ordinal).and_then(cudarc::driver::result::device::get_name)
        };
        (0..count).map(name).collect::<Result<_, _>>().map_err(failed("ask a device's name"))
    }

    /// Opens the first device whose name contains `name` (any, if it is empty) and builds the kernels of `source`: CUDA C, whose
    /// kernels are `extern "C"`.
    ///
    /// # Errors
    /// No driver, no NVRTC, no such device, or a source that does not compile: the error has the compiler's words.
    pub fn open(name: &str, source: &str) -> Result<Cuda, DeviceError> {
        Cuda::with(name, |context, device| compiled(context, device, source))
    }

    /// [`open`](Cuda::open) with PTX that was made before (`nvcc --ptx`): without the toolkit, the driver is enough.
    ///
    /// # Errors
    /// No driver, no such device, or PTX that the driver refuses.
    pub fn open_ptx(name: &str, ptx: &str) -> Result<Cuda, DeviceError> {
        Cuda::with(name, |_, device| {
            DeviceError::ends_early(device, ptx)?;
            Ok(Ptx::from_src(ptx))
        })
    }

    fn with(
        name: &str,
        ptx: impl FnOnce(&CudaContext, &str) -> Result<Ptx, DeviceError>,
    ) -> Result<Cuda, DeviceError> {
        let mut names = Cuda::devices()?;
        let chosen = choose(API, &names, name)?;
        let name = names.swap_remove(chosen);
        let context = CudaContext::new(chosen).map_err(failed("make a context"))?;
        // Who waits for the device leaves its processor to others.
        context.set_blocking_synchronize().map_err(failed("have threads sleep while they wait"))?;
        let stream = context.new_stream().map_err(failed("make a stream"))?;
        let ptx = ptx(&context, &name)?;
        let entries = entries(&ptx.to_src());
        let module = context.load_module(ptx).map_err(|error| refused(&name, error))?;
        let mut kernels = HashMap::new();
        for entry in entries {
            let kernel = module.load_function(&entry).map_err(failed("find a kernel"))?;
            kernels.insert(entry, kernel);
        }
        Ok(Cuda { name, stream, kernels, turn: Mutex::new(()) })
    }

    /// There, the kernel, and back; nothing of it need be over when this returns.
    fn turn(
        &self,
        kernel: &CudaFunction,
        arguments: &mut [Argument<'_>],
        items: usize,
    ) -> Result<(), DeviceError> {
        let buffers = self.buffers(arguments)?;
        if items > 0 {
            self.launch(kernel, arguments, &buffers, items)?;
        }
        for (bytes, buffer) in outputs(arguments, &buffers) {
            self.stream.memcpy_dtoh(buffer, bytes).map_err(failed("copy from the device"))?;
        }
        Ok(())
    }

    /// On the device, what is more than a value.
    fn buffers(&self, arguments: &[Argument<'_>]) -> Result<Vec<Option<CudaSlice<u8>>>, DeviceError> {
        let copied = arguments.iter().map(|argument| match argument.buffer() {
            None => Ok(None),
            // A buffer has at least a byte, of which nobody takes notice.
            Some([]) => self.stream.alloc_zeros(1).map(Some),
            Some(bytes) => self.stream.clone_htod(bytes).map(Some),
        });
        copied.collect::<Result<_, _>>().map_err(failed("copy to the device"))
    }

    fn launch(
        &self,
        kernel: &CudaFunction,
        arguments: &[Argument<'_>],
        buffers: &[Option<CudaSlice<u8>>],
        items: usize,
    ) -> Result<(), DeviceError> {
        let most = kernel.max_threads_per_block().map_err(failed("ask what a kernel needs"))?;
        let block = BLOCK.min(most.max(1) as usize);
        let blocks = u32::try_from(items.div_ceil(block));
        let blocks =
            blocks.map_err(|_| DeviceError::call(API, "start the kernel")("more than 2^32 - 1 blocks"))?;
        let starts: Vec<_> = buffers
            .iter()
            .map(|buffer| buffer.as_ref().map_or(0, |buffer| buffer.device_ptr(&self.stream).0))
            .collect();
        let mut passed: Vec<*mut c_void> = arguments
            .iter()
            .zip(&starts)
            .map(|(argument, start)| match argument {
                Argument::Value(bytes) => bytes.as_ptr().cast_mut().cast(),
                _ => std::ptr::from_ref(start).cast_mut().cast(),
            })
            .collect();
        // SAFETY: CUDA copies the parameters, whose sizes are the kernel's; the caller of `run` answers for what it does with them.
        let launched = unsafe {
            launch_kernel(
                kernel.cu_function(),
                (blocks, 1, 1),
                (block as u32, 1, 1),
                0,
                self.stream.cu_stream(),
                &mut passed,
            )
        };
        launched.map_err(failed("start the kernel"))
    }
}

impl Device for Cuda {
    fn name(&self) -> &str {
        &self.name
    }

    unsafe fn run(
        &self,
        kernel: &str,
        arguments: &mut [Argument<'_>],
        items: usize,
    ) -> Result<(), DeviceError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.kernels.get(kernel);
        let found = found.ok_or_else(|| DeviceError::no_kernel(kernel, &self.kernels))?;
        self.stream.context().bind_to_thread().map_err(failed("use the device on this thread"))?;
        check(kernel, arguments, &parameters(found)?)?;
        let ran = self.turn(found, arguments, items);
        // After an error, too: what was copied belongs to the caller again.
        let waited = self.stream.synchronize().map_err(failed("wait for the device"));
        ran.and(waited)
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("name", &self.name).finish_non_exhaustive()
    }
}

/// There is a driver that is new enough.
fn driver() -> Result<(), DeviceError> {
    // SAFETY: looks for the library, which may run what starts with it.
    if !unsafe { sys::is_culib_present() } {
        return Err(none("there is no libcuda.so.1".to_owned()));
    }
    let mut version = 0;
    // SAFETY: the library is there, and all versions of it have this.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(|error| none(error.to_string()))?;
    if version < DRIVER {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(none(format!(
            "the driver has version {major}.{minor}, and 12.4 is the first that will do"
        )));
    }
    Ok(())
}

/// The source, for this device's generation.
fn compiled(context: &CudaContext, device: &str, source: &str) -> Result<Ptx, DeviceError> {
    // SAFETY: looks for the library, which may run what starts with it.
    if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        let remedy = "install the CUDA toolkit's NVRTC and have LD_LIBRARY_PATH name its folder, or give PTX to `Cuda::open_ptx`";
        return Err(DeviceError::NoLibrary {
            api: "NVRTC",
            reason: "there is no libnvrtc.so".to_owned(),
            remedy,
        });
    }
    DeviceError::ends_early(device, source)?;
    let (major, minor) = context.compute_capability().map_err(failed("ask the device's generation"))?;
    let options = vec![format!("--gpu-architecture=compute_{major}{minor}")];
    compile_ptx_with_opts(source, CompileOptions { options, ..CompileOptions::default() }).map_err(|error| {
        match error {
            CompileError::CompileError { log, .. } => refused(device, log.to_string_lossy().trim()),
            other => refused(device, other),
        }
    })
}

/// The names of a text's kernels: each stands behind `.entry`.
fn entries(ptx: &str) -> Vec<String> {
    let code = ptx.lines().map(|line| line.split("//").next().unwrap_or_default());
    let words = code.flat_map(|line| line.split(|c: char| c.is_whitespace() || c == '('));
    let mut words = words.filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if word == ".entry" {
            found.extend(words.next().map(str::to_owned));
        }
    }
    found
}

/// How long each parameter of a kernel is.
fn parameters(kernel: &CudaFunction) -> Result<Vec<usize>, DeviceError> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the kernel is loaded as long as it is borrowed; both results are ours.
        let asked = unsafe {
            sys::cuFuncGetParamInfo(kernel.cu_function(), sizes.len(), &raw mut offset, &raw mut size)
        };
        match asked {
            sys::CUresult::CUDA_SUCCESS => sizes.push(size),
            // There are no more.
            sys::CUresult::CUDA_ERROR_INVALID_VALUE => return Ok(sizes),
            other => return Err(failed("ask what a kernel takes")(DriverError(other))),
        }
    }
}

fn check(kernel: &str, arguments: &[Argument<'_>], parameters: &[usize]) -> Result<(), DeviceError> {
    let (takes, given) = (parameters.len(), arguments.len());
    if takes != given {
        return Err(DeviceError::Arguments { kernel: kernel.to_owned(), takes, given });
    }
    for (index, (argument, &takes)) in arguments.iter().zip(parameters).enumerate() {
        let given = match argument {
            Argument::Value(bytes) => bytes.len(),
            _ => size_of::<sys::CUdeviceptr>(),
        };
        if takes != given {
            return Err(DeviceError::Argument { kernel: kernel.to_owned(), index, takes, given });
        }
    }
    Ok(())
}

fn none(reason: String) -> DeviceError {
    let remedy = "a GPU of NVIDIA's needs its driver, which has libcuda.so.1 (apt: nvidia-driver)";
    DeviceError::NoLibrary { api: API, reason, remedy }
}

fn refused(device: &str, log: impl fmt::Display) -> DeviceError {
    DeviceError::Build { device: device.to_owned(), log: log.to_string() }
}

fn failed(what: &'static str) -> impl Fn(DriverError) -> DeviceError {
    DeviceError::call(API, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_in_a_text() {
        let text = ".version 8.0\n// .entry not_this\n.visible .entry axpy(\n .param .u64 y\n)\n{ ret; }\n.entry square (.param .u64 y) { ret; }\n.func (.reg .u32 r) helper() { ret; }";
        assert_eq!(entries(text), ["axpy", "square"]);
        assert!(entries("").is_empty() && entries(".entry").is_empty());
    }

    #[test]
    fn arguments_are_as_many_and_as_long_as_parameters() {
        let (mut y, a) = ([0_f32; 2], 1_f32);
        let arguments = [Argument::output(&mut y), Argument::value(&a)];
        check("axpy", &arguments, &[8, 4]).expect("as it should be");
        let error = check("axpy", &arguments, &[8]).expect_err("one more").to_string();
        assert_eq!(error, "kernel `axpy` takes 1 arguments, not 2");
        let error = check("axpy", &arguments, &[8, 8]).expect_err("a double").to_string();
        assert_eq!(error, "argument 1 of kernel `axpy` has 8 bytes, not 4");
    }
}
