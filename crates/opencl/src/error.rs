//! What can go wrong with OpenCL.

use opencl3::error_codes::ClError;

/// Why a device or a kernel is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenClError {
    /// There is no OpenCL library, or it knows no platform.
    #[error(
        "no OpenCL here ({reason}): install a device's driver, or for the processors `apt install pocl-opencl-icd`"
    )]
    NoOpenCl {
        /// What the library, or the search for it, said.
        reason: String,
    },
    /// No device has such a name.
    #[error("no OpenCL device is called `{name}`; there are: {found}")]
    NoDevice {
        /// What was looked for.
        name: String,
        /// The names of those that there are.
        found: String,
    },
    /// A source does not compile.
    #[error("the kernels cannot be built for {device}: {log}")]
    Build {
        /// The device.
        device: String,
        /// The compiler's words.
        log: String,
    },
    /// The source has no such kernel.
    #[error("there is no kernel `{name}`; the source has: {known}")]
    NoKernel {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A kernel was called with too few arguments or too many.
    #[error("kernel `{kernel}` takes {takes} arguments, not {given}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// How many it takes.
        takes: usize,
        /// How many there were.
        given: usize,
    },
    /// OpenCL refused something.
    #[error("cannot {what}: OpenCL says {code}")]
    Call {
        /// What, as it continues "cannot ...".
        what: &'static str,
        /// The code.
        code: ClError,
    },
}

impl OpenClError {
    /// Says what was wanted.
    pub(crate) fn call(what: &'static str) -> impl Fn(ClError) -> OpenClError {
        move |code| OpenClError::Call { what, code }
    }
}
