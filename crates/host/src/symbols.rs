//! Functions of libraries that were loaded behind the one that asks.

use std::ffi::{CString, c_void};
use std::ptr::NonNull;

/// The next definition of `name` behind the calling library's, in the order in which the dynamic linker searches: for libraries that
/// catch calls on their way to others. `None` if there is none.
///
/// # Panics
/// `name` has a zero in it.
pub fn next(name: &str) -> Option<NonNull<c_void>> {
    let name = CString::new(name).expect("names have no zeros");
    // SAFETY: a name that ends with a zero.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) })
}
