//! What can go wrong with a device.

use std::collections::HashMap;
use std::fmt::Display;

/// Why a device or a kernel is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no library of that kind, or it knows no device.
    #[error("no {api} here ({reason}): {remedy}")]
    NoLibrary {
        /// `OpenCL` or `CUDA`.
        api: &'static str,
        /// What the library, or the search for it, said.
        reason: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// No device has such a name.
    #[error("no {api} device is called `{name}`; there are: {found}")]
    NoDevice {
        /// `OpenCL` or `CUDA`.
        api: &'static str,
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
    /// An argument is not as long as the kernel's parameter.
    #[error("argument {index} of kernel `{kernel}` has {takes} bytes, not {given}")]
    Argument {
        /// The kernel.
        kernel: String,
        /// Which argument, from 0.
        index: usize,
        /// How long the parameter is.
        takes: usize,
        /// How long the value was.
        given: usize,
    },
    /// The library refused something.
    #[error("cannot {what}: {api} says {code}")]
    Call {
        /// `OpenCL` or `CUDA`.
        api: &'static str,
        /// What, as it continues "cannot ...".
        what: &'static str,
        /// What the library calls it.
        code: String,
    },
}

impl DeviceError {
    /// Says what was wanted of the library.
    pub(crate) fn call<E: Display>(api: &'static str, what: &'static str) -> impl Fn(E) -> DeviceError {
        move |code| DeviceError::Call { api, what, code: code.to_string() }
    }

    /// A text for a compiler ends at its first zero; it has none.
    pub(crate) fn ends_early(device: &str, text: &str) -> Result<(), DeviceError> {
        if !text.contains('\0') {
            return Ok(());
        }
        Err(DeviceError::Build { device: device.to_owned(), log: "there is a zero in the text".to_owned() })
    }

    /// There is no kernel of this name among those.
    pub(crate) fn no_kernel<T>(name: &str, kernels: &HashMap<String, T>) -> DeviceError {
        let mut known: Vec<&str> = kernels.keys().map(String::as_str).collect();
        known.sort_unstable();
        DeviceError::NoKernel { name: name.to_owned(), known: known.join(", ") }
    }
}
