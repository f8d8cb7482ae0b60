//! OpenCL devices: kernels over host memory, for tasks that run on a device's worker.
//!
//! What this room does: it finds devices, builds kernels and runs them, one at a time a device. What it refuses to do:
//! threads, tasks, choosing what runs where; `castell-tasks` does that, and keeps an [`OpenCl`] for the worker of its
//! device (`Builder::device`). The OpenCL library is loaded when a device is asked for; without one that is an error.
//!
//! Start at [`OpenCl::open`], then [`OpenCl::run`].

mod error;

pub use error::OpenClError;

use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device, get_all_devices};
use opencl3::kernel::{Kernel, create_program_kernels};
use opencl3::memory::{Buffer, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE};
use opencl3::program::Program;
use opencl3::types::CL_BLOCKING;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Held while a device is looked for or kernels are built.
static OPENING: Mutex<()> = Mutex::new(());

/// A device with the kernels that were built for it.
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

/// Numbers as OpenCL has them, too.
///
/// # Safety
/// Any bytes are a value, and none of them is padding.
pub unsafe trait Element: Copy + 'static {}

macro_rules! elements {
    ($($type:ty),*) => {
        // SAFETY: numbers.
        $(unsafe impl Element for $type {})*
    };
}
elements!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// What a kernel is called with.
pub enum Argument<'a> {
    /// A buffer that it reads.
    Input(&'a [u8]),
    /// A buffer that it reads and writes.
    Output(&'a mut [u8]),
    /// A value.
    Value(&'a [u8]),
}

impl<'a> Argument<'a> {
    /// A buffer that the kernel reads.
    pub fn input<T: Element>(elements: &'a [T]) -> Argument<'a> {
        Argument::Input(bytes(elements))
    }

    /// A buffer that the kernel reads and writes.
    pub fn output<T: Element>(elements: &'a mut [T]) -> Argument<'a> {
        let (start, length) = (elements.as_mut_ptr(), size_of_val(elements));
        // SAFETY: numbers are bytes, and any bytes are numbers; the borrow goes on.
        Argument::Output(unsafe { std::slice::from_raw_parts_mut(start.cast(), length) })
    }

    /// A value.
    pub fn value<T: Element>(value: &'a T) -> Argument<'a> {
        Argument::Value(bytes(std::slice::from_ref(value)))
    }
}

fn bytes<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: numbers are bytes; the borrow goes on.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

impl OpenCl {
    /// The names of all devices that the OpenCL library offers.
    ///
    /// # Errors
    /// There is no such library.
    pub fn devices() -> Result<Vec<String>, OpenClError> {
        let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        all()?.into_iter().map(|device| name_of(&device)).collect()
    }

    /// Opens the first device whose name contains `name` (any, if it is empty) and builds the kernels of `source`, OpenCL C.
    ///
    /// # Errors
    /// No library, no such device, or a source that does not compile: the error has the compiler's words.
    pub fn open(name: &str, source: &str) -> Result<OpenCl, OpenClError> {
        // PoCL 3.1 crashes when two threads load or build at the same time.
        let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let devices = all()?;
        let mut names = Vec::new();
        for device in devices {
            let found = name_of(&device)?;
            if found.contains(name) {
                return OpenCl::build(&device, found, source);
            }
            names.push(found);
        }
        Err(OpenClError::NoDevice { name: name.to_owned(), found: names.join(", ") })
    }

    fn build(device: &Device, name: String, source: &str) -> Result<OpenCl, OpenClError> {
        let context = Context::from_device(device).map_err(OpenClError::call("make a context"))?;
        let queue = CommandQueue::create_default_with_properties(&context, 0, 0);
        let queue = queue.map_err(OpenClError::call("make a command queue"))?;
        let program = Program::create_and_build_from_source(&context, source, "")
            .map_err(|log| OpenClError::Build { device: name.clone(), log })?;
        let mut kernels = HashMap::new();
        for kernel in create_program_kernels(&program).map_err(OpenClError::call("list the kernels"))? {
            let name = kernel.function_name().map_err(OpenClError::call("ask a kernel's name"))?;
            kernels.insert(name, kernel);
        }
        Ok(OpenCl { name, context, inside: Mutex::new(Inside { queue, kernels }) })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a kernel over `items` work items: copies the inputs to the device, waits for the kernel, copies the outputs back.
    ///
    /// # Errors
    /// There is no such kernel, the arguments are not what it takes, or the device refuses.
    ///
    /// # Safety
    /// The kernel must stay inside its buffers, and the arguments must be in its order and of its types.
    pub unsafe fn run(
        &self,
        kernel: &str,
        arguments: &mut [Argument<'_>],
        items: usize,
    ) -> Result<(), OpenClError> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = inside.kernels.get(kernel) else {
            let mut known: Vec<&str> = inside.kernels.keys().map(String::as_str).collect();
            known.sort_unstable();
            return Err(OpenClError::NoKernel { name: kernel.to_owned(), known: known.join(", ") });
        };
        let takes = found.num_args().map_err(OpenClError::call("count a kernel's arguments"))?;
        if takes as usize != arguments.len() {
            let given = arguments.len();
            return Err(OpenClError::Arguments { kernel: kernel.to_owned(), takes: takes as usize, given });
        }
        let buffers = self.buffers(arguments)?;
        // SAFETY: the caller promises that these are what the kernel takes.
        unsafe { set_arguments(found, arguments, &buffers) }?;
        if items > 0 {
            // SAFETY: the arguments are set, and the caller answers for what the kernel does with them.
            let launched = unsafe {
                inside.queue.enqueue_nd_range_kernel(
                    found.get(),
                    1,
                    std::ptr::null(),
                    &raw const items,
                    std::ptr::null(),
                    &[],
                )
            };
            launched.map_err(OpenClError::call("start the kernel"))?;
        }
        for (argument, buffer) in arguments.iter_mut().zip(&buffers) {
            if let (Argument::Output(bytes), Some(buffer)) = (argument, buffer)
                && !bytes.is_empty()
            {
                // SAFETY: as long as the buffer; the queue is in order, so this comes after the kernel.
                let read = unsafe { inside.queue.enqueue_read_buffer(buffer, CL_BLOCKING, 0, bytes, &[]) };
                read.map_err(OpenClError::call("read a buffer"))?;
            }
        }
        inside.queue.finish().map_err(OpenClError::call("finish"))
    }

    /// On the device, what is more than a value.
    fn buffers(&self, arguments: &mut [Argument<'_>]) -> Result<Vec<Option<Buffer<u8>>>, OpenClError> {
        let mut buffers = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let (flags, start, length) = match argument {
                Argument::Input(bytes) => (CL_MEM_READ_ONLY, bytes.as_ptr(), bytes.len()),
                Argument::Output(bytes) => (CL_MEM_READ_WRITE, bytes.as_ptr(), bytes.len()),
                Argument::Value(_) => {
                    buffers.push(None);
                    continue;
                }
            };
            // A buffer has at least a byte, of which nobody takes notice.
            let flags = if length > 0 { flags | CL_MEM_COPY_HOST_PTR } else { flags };
            let start = if length > 0 { start.cast_mut().cast::<c_void>() } else { std::ptr::null_mut() };
            // SAFETY: the bytes are borrowed, and copied before this returns.
            let buffer = unsafe { Buffer::<u8>::create(&self.context, flags, length.max(1), start) };
            buffers.push(Some(buffer.map_err(OpenClError::call("make a buffer"))?));
        }
        Ok(buffers)
    }
}

/// # Safety
/// The kernel takes these arguments, in this order.
unsafe fn set_arguments(
    kernel: &Kernel,
    arguments: &[Argument<'_>],
    buffers: &[Option<Buffer<u8>>],
) -> Result<(), OpenClError> {
    for (index, (argument, buffer)) in arguments.iter().zip(buffers).enumerate() {
        // SAFETY: the caller promises that this is what the kernel takes there; OpenCL copies it.
        let set = unsafe {
            match (argument, buffer) {
                (Argument::Value(bytes), _) => opencl3::kernel::set_kernel_arg(
                    kernel.get(),
                    index as u32,
                    bytes.len(),
                    bytes.as_ptr().cast(),
                )
                .map_err(opencl3::error_codes::ClError),
                (_, Some(buffer)) => kernel.set_arg(index as u32, buffer),
                (_, None) => unreachable!("all but values have a buffer"),
            }
        };
        set.map_err(OpenClError::call("set a kernel's argument"))?;
    }
    Ok(())
}

impl fmt::Debug for OpenCl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCl").field("name", &self.name).finish_non_exhaustive()
    }
}

fn all() -> Result<Vec<Device>, OpenClError> {
    let devices = get_all_devices(CL_DEVICE_TYPE_ALL);
    let devices = devices.map_err(|code| OpenClError::NoOpenCl { reason: code.to_string() })?;
    if devices.is_empty() {
        return Err(OpenClError::NoOpenCl { reason: "the library knows no device".to_owned() });
    }
    Ok(devices.into_iter().map(Device::new).collect())
}

fn name_of(device: &Device) -> Result<String, OpenClError> {
    device.name().map_err(OpenClError::call("ask a device's name"))
}
