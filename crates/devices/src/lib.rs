//! Devices of OpenCL and CUDA: kernels over host memory, for tasks that run on a device's worker.
//!
//! What this room does: it finds devices, builds kernels and runs them, one at a time a device. What it refuses to do:
//! threads, tasks, choosing what runs where; `castell-tasks` does that, and keeps a [`Device`] for the worker of its kind
//! (`Builder::device`). A library is loaded when a device is asked for; without one that is an error, and nothing else fails.
//!
//! Start at [`OpenCl::open`] or [`Cuda::open`], then [`Device::run`].

mod argument;
mod cuda;
mod error;
mod opencl;

pub use argument::{Argument, Element};
pub use cuda::Cuda;
pub use error::DeviceError;
pub use opencl::OpenCl;

/// A device with the kernels that were built for it. Any thread may use it; kernels run one after another.
pub trait Device: Send + Sync {
    /// The device's name.
    fn name(&self) -> &str;

    /// Runs a kernel over `items` work items: copies the inputs to the device, waits for the kernel, copies the outputs back.
    ///
    /// OpenCL starts as many work items, CUDA whole blocks of threads: there a kernel has to see itself whether its index is one.
    ///
    /// # Errors
    /// There is no such kernel, the arguments are not what it takes, or the device refuses.
    ///
    /// # Safety
    /// The kernel must stay inside its buffers, and the arguments must be in its order and of its types.
    unsafe fn run(
        &self,
        kernel: &str,
        arguments: &mut [Argument<'_>],
        items: usize,
    ) -> Result<(), DeviceError>;
}

/// Which of these devices is the first one whose name contains `wanted`.
fn choose(api: &'static str, names: &[String], wanted: &str) -> Result<usize, DeviceError> {
    names.iter().position(|name| name.contains(wanted)).ok_or_else(|| DeviceError::NoDevice {
        api,
        name: wanted.to_owned(),
        found: names.join(", "),
    })
}
