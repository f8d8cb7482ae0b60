//! PMIx: through its library, loaded when a process was started by a launcher that offers nothing else.
//!
//! Only the few calls and structures are declared that are needed; they have kept their layout from PMIx 2 to 5.

use super::keyvalue::KeyValueSpace;
use super::membership::{BootstrapError, LIBPMIX_VARIABLE};
use castell_base::Rank;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::ptr::{self, NonNull};

const PROTOCOL: &str = "PMIx";
const NAMESPACE_BYTES: usize = 256;
const KEY_BYTES: usize = 512;
const RANK_WILDCARD: u32 = u32::MAX - 1;
const SCOPE_GLOBAL: u8 = 3;
const TYPE_BOOL: u16 = 1;
const TYPE_STRING: u16 = 3;
const TYPE_UINT32: u16 = 14;
const SUCCESS: c_int = 0;
const VALUE_BYTES_MAX: usize = 4096;

/// A process's name: `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Name {
    namespace: [c_char; NAMESPACE_BYTES],
    rank: u32,
}

/// A typed value: `pmix_value_t`. The library allocates what it gives; what we give is only read.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

/// The members that are used, and one as large as the largest.
#[repr(C)]
union Data {
    string: *mut c_char,
    uint32: u32,
    flag: bool,
    whole: [u64; 3],
}

/// A directive of a call: `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Name>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);

impl Info {
    /// That a fence brings what was put to all hosts. Services that fetch it when it is asked for may have looked before it was put.
    fn collect_data() -> Info {
        let mut key = [0; KEY_BYTES];
        for (to, from) in key.iter_mut().zip(b"pmix.collect") {
            *to = from.cast_signed();
        }
        let mut value = Value { kind: TYPE_BOOL, data: Data { whole: [0; 3] } };
        value.data.flag = true;
        Info { key, flags: 0, value }
    }
}

/// The library's calls. `info` arrays are passed to fences only: else null and 0.
struct Calls {
    init: unsafe extern "C" fn(*mut Name, *const c_void, usize) -> c_int,
    finalize: unsafe extern "C" fn(*const c_void, usize) -> c_int,
    put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int,
    commit: unsafe extern "C" fn() -> c_int,
    fence: unsafe extern "C" fn(*const Name, usize, *const Info, usize) -> c_int,
    get: unsafe extern "C" fn(*const Name, *const c_char, *const c_void, usize, *mut *mut Value) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Calls {
    /// Loads the library, which stays loaded.
    fn load(path: Option<String>) -> Result<Calls, BootstrapError> {
        // An MPI of the program's may have brought one of its own: two of them would take each other's files.
        if let (None, Ok(calls)) = (&path, Calls::find(&Library::of_the_program())) {
            return Ok(calls);
        }
        let names = match path {
            Some(path) => vec![path],
            None => vec!["libpmix.so.2".into(), "libpmix.so".into()],
        };
        let mut reasons = Vec::new();
        for name in names {
            match Library::open(&name).and_then(|library| Calls::find(&library)) {
                Ok(calls) => return Ok(calls),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(BootstrapError::Lost {
            sign: "its launcher set PMIX_NAMESPACE and PMIX_RANK".into(),
            why: format!("the PMIx client library cannot be used: {}", reasons.join("; ")),
            advice: format!(
                "install it (Debian: apt install libpmix2), or say where it is in {LIBPMIX_VARIABLE}, or use \
                 `castell launch -n N` or `srun --mpi=pmi2`"
            ),
        })
    }

    fn find(library: &Library) -> Result<Calls, String> {
        // SAFETY: these are functions of the PMIx standard, with the types that it declares for them.
        unsafe {
            Ok(Calls {
                init: library.function(c"PMIx_Init")?,
                finalize: library.function(c"PMIx_Finalize")?,
                put: library.function(c"PMIx_Put")?,
                commit: library.function(c"PMIx_Commit")?,
                fence: library.function(c"PMIx_Fence")?,
                get: library.function(c"PMIx_Get")?,
                error_string: library.function(c"PMIx_Error_string")?,
            })
        }
    }

    fn check(&self, request: &str, status: c_int) -> Result<(), BootstrapError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: takes any number, gives a string that is never freed.
        let text = unsafe { (self.error_string)(status) };
        let text = NonNull::new(text.cast_mut()).map_or_else(String::new, |text| {
            // SAFETY: not null, and a C string.
            unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
        });
        let answer = format!("{text} ({status})");
        Err(BootstrapError::Protocol { protocol: PROTOCOL, request: request.into(), answer })
    }
}

/// A shared library, open for good.
struct Library {
    name: String,
    handle: *mut c_void,
}

impl Library {
    fn open(name: &str) -> Result<Library, String> {
        let c_name = CString::new(name).map_err(|_| format!("{name:?} is no file name"))?;
        // SAFETY: a C string; the library's own constructors are what the caller asks for. Its plugins expect to find
        // its symbols, hence global.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() { Err(loader_error()) } else { Ok(Library { name: name.into(), handle }) }
    }

    /// What the program was linked with, and what was loaded for all to see.
    fn of_the_program() -> Library {
        Library { name: "the program".into(), handle: libc::RTLD_DEFAULT }
    }

    /// Finds a function.
    ///
    /// # Safety
    /// `Function` has to be the type of a pointer to that function.
    unsafe fn function<Function>(&self, symbol: &CStr) -> Result<Function, String> {
        assert!(size_of::<Function>() == size_of::<*mut c_void>());
        // SAFETY: an open library and a C string.
        let address = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        if address.is_null() {
            return Err(format!("{} lacks {}", self.name, symbol.to_string_lossy()));
        }
        // SAFETY: the same size, and the type as the caller promises.
        Ok(unsafe { mem::transmute_copy(&address) })
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

/// A connection to a PMIx service.
pub(super) struct Pmix {
    calls: Calls,
    me: Name,
    ranks: u32,
}

impl Pmix {
    /// Opens the service that the environment names, with the library at `path` or where the loader finds it.
    pub(super) fn open(path: Option<String>) -> Result<Pmix, BootstrapError> {
        let calls = Calls::load(path)?;
        let mut me = Name { namespace: [0; NAMESPACE_BYTES], rank: 0 };
        // SAFETY: `me` is live and filled by the call.
        let status = unsafe { (calls.init)(&mut me, ptr::null(), 0) };
        calls.check("PMIx_Init", status)?;
        let mut pmix = Pmix { calls, me, ranks: 0 };
        pmix.ranks = pmix.lookup(RANK_WILDCARD, c"pmix.job.size", TYPE_UINT32, |data| {
            // SAFETY: the type was checked.
            unsafe { data.uint32 }
        })?;
        Ok(pmix)
    }

    /// Gets a value of a known type; `read` copies it out.
    fn lookup<T>(
        &self,
        rank: u32,
        key: &CStr,
        kind: u16,
        read: impl FnOnce(&Data) -> T,
    ) -> Result<T, BootstrapError> {
        let request = || format!("PMIx_Get {} of rank {rank}", key.to_string_lossy());
        let from = Name { rank, ..self.me };
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: all pointers are live; the call stores an allocated value on success.
        let status = unsafe { (self.calls.get)(&from, key.as_ptr(), ptr::null(), 0, &mut value) };
        self.calls.check(&request(), status)?;
        let wrong =
            |answer: String| BootstrapError::Protocol { protocol: PROTOCOL, request: request(), answer };
        // SAFETY: null or a value of the library's.
        let found = unsafe { value.as_ref() }.ok_or_else(|| wrong("nothing".into()))?;
        let result = if found.kind == kind {
            Ok(read(&found.data))
        } else {
            Err(wrong(format!("type {}", found.kind)))
        };
        // SAFETY: allocated with malloc by the library, as its own release macro assumes; not used any more.
        unsafe {
            if found.kind == TYPE_STRING {
                libc::free(found.data.string.cast());
            }
            libc::free(value.cast());
        }
        result
    }
}

impl KeyValueSpace for Pmix {
    fn rank(&self) -> Rank {
        Rank(self.me.rank)
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        let request = format!("PMIx_Put {key}");
        let (key, text) = (c_string(&format!("castell.{key}")), c_string(value));
        let mut value = Value { kind: TYPE_STRING, data: Data { whole: [0; 3] } };
        value.data.string = text.as_ptr().cast_mut();
        // SAFETY: live C strings and a live value, which the library copies.
        let status = unsafe { (self.calls.put)(SCOPE_GLOBAL, key.as_ptr(), &mut value) };
        self.calls.check(&request, status)?;
        // SAFETY: no arguments.
        self.calls.check("PMIx_Commit", unsafe { (self.calls.commit)() })
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        let collect = Info::collect_data();
        // SAFETY: no list of processes means all of the job; one live directive, which is only read.
        self.calls.check("PMIx_Fence", unsafe { (self.calls.fence)(ptr::null(), 0, &collect, 1) })
    }

    fn get(&mut self, from: Rank, key: &str) -> Result<String, BootstrapError> {
        self.lookup(from.0, &c_string(&format!("castell.{key}")), TYPE_STRING, |data| {
            // SAFETY: the type was checked: a C string.
            unsafe { CStr::from_ptr(data.string) }.to_string_lossy().into_owned()
        })
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    /// The library counts who has begun and ended.
    fn leaves_once(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<(), BootstrapError> {
        // SAFETY: no list of directives.
        self.calls.check("PMIx_Finalize", unsafe { (self.calls.finalize)(ptr::null(), 0) })
    }
}

/// Our keys and values are quoted text, without zero bytes.
fn c_string(text: &str) -> CString {
    CString::new(text).expect("keys and quoted values have no zero bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_told() {
        let error = Pmix::open(Some("/nowhere/libpmix.so.2".into())).err().expect("no library").to_string();
        assert!(error.contains("/nowhere/libpmix.so.2") && error.contains(LIBPMIX_VARIABLE), "{error}");
        let error = Pmix::open(Some("libc.so.6".into())).err().expect("no PMIx").to_string();
        assert!(error.contains("libc.so.6 lacks PMIx_Init"), "{error}");
    }
}
