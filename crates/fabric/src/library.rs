//! libfabric itself, found and loaded while the program runs.

use crate::abi::{self, Fabric, FabricAttributes, Info};
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Names the library where it is not the system's.
pub const LIBRARY_VARIABLE: &str = "CASTELL_LIBFABRIC";
/// What the system's loader is asked for.
const USUAL: &str = "libfabric.so.1";

/// Why the library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// It cannot be loaded.
    #[error(
        "castell cannot load {name}: {why}. Install libfabric 1.17 or later (`apt install libfabric1`, `dnf install libfabric`), or say \
         where one is with {LIBRARY_VARIABLE}=/path/to/libfabric.so.1"
    )]
    Missing {
        /// What was looked for.
        name: String,
        /// What the loader says.
        why: String,
    },
    /// It is older than what castell knows.
    #[error(
        "{name} is libfabric {major}.{minor}; castell needs 1.17 or later: name a newer one with {LIBRARY_VARIABLE}=/path/to/libfabric.so.1"
    )]
    TooOld {
        /// Which one.
        name: String,
        /// Its version.
        major: u32,
        /// Its version, second number.
        minor: u32,
    },
}

type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;

/// The functions of a library that is loaded for good.
pub(crate) struct Library {
    pub(crate) version: (u32, u32),
    pub(crate) get_info: GetInfo,
    pub(crate) free_info: unsafe extern "C" fn(*mut Info),
    pub(crate) dup_info: unsafe extern "C" fn(*const Info) -> *mut Info,
    pub(crate) open_fabric:
        unsafe extern "C" fn(*mut FabricAttributes, *mut *mut Fabric, *mut c_void) -> c_int,
    error_text: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// Those that were loaded, by name: once a process.
static LOADED: Mutex<Vec<(PathBuf, Arc<Library>)>> = Mutex::new(Vec::new());

impl Library {
    /// The one that the environment names, else the system's.
    pub(crate) fn usual() -> Result<Arc<Library>, LibraryError> {
        let named = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty());
        Library::load(Path::new(&named.unwrap_or_else(|| OsString::from(USUAL))))
    }

    /// The one at this place.
    pub(crate) fn load(name: &Path) -> Result<Arc<Library>, LibraryError> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, library)) = loaded.iter().find(|(other, _)| *other == *name) {
            return Ok(Arc::clone(library));
        }
        let library = Arc::new(open(name)?);
        loaded.push((name.to_owned(), Arc::clone(&library)));
        Ok(library)
    }

    /// What an error's number means.
    pub(crate) fn explain(&self, error: i32) -> String {
        // SAFETY: takes any number, gives a C string that is never freed.
        let text = unsafe { (self.error_text)(error.abs()) };
        match NonNull::new(text.cast_mut()) {
            // SAFETY: not null, and a C string.
            Some(text) => unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned(),
            None => format!("error {error}"),
        }
    }
}

fn open(path: &Path) -> Result<Library, LibraryError> {
    let name = path.display().to_string();
    let missing = |why: String| LibraryError::Missing { name: name.clone(), why };
    let c_name = CString::new(path.as_os_str().as_bytes()).map_err(|_| missing("no file name".into()))?;
    // SAFETY: a C string; the library's constructors are what the caller asks for.
    let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(missing(loader_error()));
    }
    let find = |symbol: &CStr| {
        // SAFETY: an open library and a C string.
        let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        match address.is_null() {
            true => Err(missing(format!("it lacks {}", symbol.to_string_lossy()))),
            false => Ok(address),
        }
    };
    // SAFETY: that is the type of this function in all versions.
    let version =
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(find(c"fi_version")?) }();
    let (major, minor) = (version >> 16, version & 0xFFFF);
    if version < abi::VERSION {
        return Err(LibraryError::TooOld { name, major, minor });
    }
    // SAFETY: the functions have these types, as the manual pages of version 1.17 say; later versions keep them.
    unsafe {
        Ok(Library {
            version: (major, minor),
            get_info: std::mem::transmute::<*mut c_void, GetInfo>(find(c"fi_getinfo")?),
            free_info: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Info)>(find(
                c"fi_freeinfo",
            )?),
            dup_info: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const Info) -> *mut Info>(
                find(c"fi_dupinfo")?,
            ),
            open_fabric: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut FabricAttributes, *mut *mut Fabric, *mut c_void) -> c_int,
            >(find(c"fi_fabric")?),
            error_text: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(
                find(c"fi_strerror")?,
            ),
        })
    }
}

fn loader_error() -> String {
    // SAFETY: gives a C string or null, valid until the next call of the loader in this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".into();
    }
    // SAFETY: not null, a C string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_the_remedy() {
        let error = Library::load(Path::new("/nowhere/libfabric.so.1")).err().expect("it is not there");
        let said = error.to_string();
        assert!(said.contains("apt install libfabric1") && said.contains(LIBRARY_VARIABLE), "{said}");
        // A library, but another one.
        let error = Library::load(Path::new("libc.so.6")).err().expect("it is another");
        assert!(error.to_string().contains("it lacks fi_version"), "{error}");
    }

    #[test]
    fn one_that_is_too_old_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, old) = (folder.path().join("old.c"), folder.path().join("libfabric.so.1"));
        std::fs::write(&source, "unsigned fi_version(void) { return 1u << 16 | 11; }\n").expect("written");
        let compiled =
            std::process::Command::new("gcc").args(["-shared", "-fPIC", "-o"]).args([&old, &source]).status();
        assert!(compiled.expect("gcc is there").success());
        let error = Library::load(&old).err().expect("it is old");
        assert!(matches!(error, LibraryError::TooOld { major: 1, minor: 11, .. }), "{error}");
        assert!(error.to_string().contains("1.17 or later"));
    }
}
