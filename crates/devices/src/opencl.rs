//! OpenCL's devices.

use crate::argument::outputs;
use crate::{Argument, Device, DeviceError, choose};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{self, CL_DEVICE_TYPE_ALL, get_all_devices};
use opencl3::error_codes::ClError;
use opencl3::kernel::{Kernel, create_program_kernels, set_kernel_arg};
use opencl3::memory::{Buffer, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE};
use opencl3::program::Program;
use opencl3::types::CL_BLOCKING;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

const API: &str = "OpenCL";

/// A device of OpenCL's, with the kernels that were built for it.
pub struct OpenCl {
    name: String,
    context: Context,
    /// One kernel at a time: a kernel's arguments are part of its state.
    inside: Mutex<Inside>,
}

struct Inside {
    queue: CommandQueue,
    kernels: HashMap<String, Kernel>,
}

impl OpenCl {
    /// The names of all devices that the OpenCL library offers.
    ///
    /// # Errors
    /// There is no such library.
    pub fn devices() -> Result<Vec<String>, DeviceError> {
        let _one = opening();
        Ok(all()?.1)
    }

    /// Opens the first device whose name contains `name` (any, if it is empty) and builds the kernels of `source`, OpenCL C.
    ///
    /// # Errors
    /// No library, no such device, or a source that does not compile: the error has the compiler's words.
    pub fn open(name: &str, source: &str) -> Result<OpenCl, DeviceError> {
        let _one = opening();
        let (devices, mut names) = all()?;
        let chosen = choose(API, &names, name)?;
        OpenCl::build(&devices[chosen], names.swap_remove(chosen), source)
    }

    fn build(device: &device::Device, name: String, source: &str) -> Result<OpenCl, DeviceError> {
        DeviceError::ends_early(&name, source)?;
        let context = Context::from_device(device).map_err(failed("make a context"))?;
        let queue = CommandQueue::create_default_with_properties(&context, 0, 0);
        let queue = queue.map_err(failed("make a command queue"))?;
        let program = Program::create_and_build_from_source(&context, source, "")
            .map_err(|log| DeviceError::Build { device: name.clone(), log })?;
        let mut kernels = HashMap::new();
        for kernel in create_program_kernels(&program).map_err(failed("list the kernels"))? {
            let name = kernel.function_name().map_err(failed("ask a kernel's name"))?;
            kernels.insert(name, kernel);
        }
        Ok(OpenCl { name, context, inside: Mutex::new(Inside { queue, kernels }) })
    }

    /// On the device, what is more than a value.
    fn buffers(&self, arguments: &[Argument<'_>]) -> Result<Vec<Option<Buffer<u8>>>, DeviceError> {
        let mut buffers = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let Some(bytes) = argument.buffer() else {
                buffers.push(None);
                continue;
            };
            let flags = match argument {
                Argument::Output(_) => CL_MEM_READ_WRITE,
                _ => CL_MEM_READ_ONLY,
            };
            // A buffer has at least a byte, of which nobody takes notice.
            let (flags, start) = match bytes {
                [] => (flags, std::ptr::null_mut()),
                _ => (flags | CL_MEM_COPY_HOST_PTR, bytes.as_ptr().cast_mut().cast::<c_void>()),
            };
            // SAFETY: the bytes are borrowed, and copied before this returns.
            let buffer = unsafe { Buffer::<u8>::create(&self.context, flags, bytes.len().max(1), start) };
            buffers.push(Some(buffer.map_err(failed("make a buffer"))?));
        }
        Ok(buffers)
    }
}

impl Device for OpenCl {
    fn name(&self) -> &str {
        &self.name
    }

    unsafe fn run(
        &self,
        kernel: &str,
        arguments: &mut [Argument<'_>],
        items: usize,
    ) -> Result<(), DeviceError> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let found = inside.kernels.get(kernel);
        let found = found.ok_or_else(|| DeviceError::no_kernel(kernel, &inside.kernels))?;
        let takes = found.num_args().map_err(failed("count a kernel's arguments"))? as usize;
        if takes != arguments.len() {
            return Err(DeviceError::Arguments { kernel: kernel.to_owned(), takes, given: arguments.len() });
        }
        let buffers = self.buffers(arguments)?;
        // SAFETY: the caller promises that these are what the kernel takes.
        unsafe { set_arguments(found, arguments, &buffers) }?;
        if items > 0 {
            let (everywhere, in_groups) = (std::ptr::null(), std::ptr::null());
            // SAFETY: the arguments are set, and the caller answers for what the kernel does with them.
            let launched = unsafe {
                inside.queue.enqueue_nd_range_kernel(
                    found.get(),
                    1,
                    everywhere,
                    &raw const items,
                    in_groups,
                    &[],
                )
            };
            launched.map_err(failed("start the kernel"))?;
        }
        for (bytes, buffer) in outputs(arguments, &buffers) {
            // SAFETY: as long as the buffer; the queue is in order, so this comes after the kernel.
            let read = unsafe { inside.queue.enqueue_read_buffer(buffer, CL_BLOCKING, 0, bytes, &[]) };
            read.map_err(failed("read a buffer"))?;
        }
        inside.queue.finish().map_err(failed("finish"))
    }
}

impl fmt::Debug for OpenCl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCl").field("name", &self.name).finish_non_exhaustive()
    }
}

/// # Safety
/// The kernel takes these arguments, in this order.
unsafe fn set_arguments(
    kernel: &Kernel,
    arguments: &[Argument<'_>],
    buffers: &[Option<Buffer<u8>>],
) -> Result<(), DeviceError> {
    for (index, (argument, buffer)) in arguments.iter().zip(buffers).enumerate() {
        // SAFETY: the caller promises that this is what the kernel takes there; OpenCL copies it.
        let set = unsafe {
            match (argument, buffer) {
                (Argument::Value(bytes), _) => {
                    set_kernel_arg(kernel.get(), index as u32, bytes.len(), bytes.as_ptr().cast())
                        .map_err(ClError)
                }
                (_, Some(buffer)) => kernel.set_arg(index as u32, buffer),
                (_, None) => unreachable!("all but values have a buffer"),
            }
        };
        set.map_err(failed("set a kernel's argument"))?;
    }
    Ok(())
}

/// One at a time looks for a device or builds kernels: PoCL 3.1 crashes when two threads load or build at the same time.
fn opening() -> MutexGuard<'static, ()> {
    static OPENING: Mutex<()> = Mutex::new(());
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All devices, and their names.
fn all() -> Result<(Vec<device::Device>, Vec<String>), DeviceError> {
    let devices = get_all_devices(CL_DEVICE_TYPE_ALL).map_err(|code| none(code.to_string()))?;
    if devices.is_empty() {
        return Err(none("the library knows no device".to_owned()));
    }
    let devices: Vec<_> = devices.into_iter().map(device::Device::new).collect();
    let names = devices.iter().map(|device| device.name().map_err(failed("ask a device's name")));
    let names = names.collect::<Result<_, _>>()?;
    Ok((devices, names))
}

fn none(reason: String) -> DeviceError {
    let remedy = "install a device's driver, or for the processors `apt install pocl-opencl-icd`";
    DeviceError::NoLibrary { api: API, reason, remedy }
}

fn failed(what: &'static str) -> impl Fn(ClError) -> DeviceError {
    DeviceError::call(API, what)
}
