//! A provider's endpoint with its queue, address table and registered memory: what of libfabric castell uses, as methods.

use crate::abi::{self, Entry, Region};
use crate::hidden::Hidden;
use crate::library::Library;
use crate::offers::{Offer, OwnedInfo};
use castell_host::random::random_bytes;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

/// What a provider may use behind the context of an operation, in words.
pub(crate) const CONTEXT_WORDS: usize = 8;
/// Completions that the queue has room for at least.
const QUEUE_ENTRIES: usize = 1024;

/// What an operation is known by until it ends. Those of a set lie in one place for as long as the set.
#[repr(C)]
struct Context {
    of_the_provider: [usize; CONTEXT_WORDS],
    id: u64,
}

/// Contexts, by number.
pub(crate) struct Contexts(Vec<NonNull<Context>>);

// SAFETY: memory that only the holder of the set and the provider use, the latter under the holder's lock.
unsafe impl Send for Contexts {}

impl Contexts {
    pub(crate) fn new(ids: impl Iterator<Item = u64>) -> Contexts {
        let make = |id| Box::leak(Box::new(Context { of_the_provider: [0; CONTEXT_WORDS], id })).into();
        Contexts(ids.map(make).collect())
    }

    pub(crate) fn at(&self, index: usize) -> ContextRef {
        ContextRef(self.0[index])
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        for context in &self.0 {
            // SAFETY: leaked when the set was made, freed once.
            drop(unsafe { Box::from_raw(context.as_ptr()) });
        }
    }
}

/// The context of one operation.
#[derive(Clone, Copy)]
pub(crate) struct ContextRef(NonNull<Context>);

/// Why something was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBegun {
    /// No room now.
    Again,
    /// An error's number.
    Failed(i32),
}

/// The end of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Of its context; none where it had none.
    pub(crate) id: Option<u64>,
    /// Bytes that were received, or the error's number.
    pub(crate) outcome: Result<usize, i32>,
}

/// Registered memory; ends when it is dropped.
pub(crate) struct Registered {
    opened: Arc<Opened>,
    region: NonNull<Region>,
    address: usize,
}

// SAFETY: an object of libfabric's, which is used under the lock of whoever holds the port.
unsafe impl Send for Registered {}

impl Registered {
    fn describe(&self) -> *mut c_void {
        // SAFETY: the object lives.
        unsafe { self.region.as_ref() }.mem_desc
    }

    /// By what others name the memory.
    pub(crate) fn key(&self) -> u64 {
        // SAFETY: the object lives.
        unsafe { self.region.as_ref() }.key
    }

    /// Where it begins for others.
    pub(crate) fn remote_address(&self) -> u64 {
        if self.opened.mr_mode & abi::MR_VIRTUAL_ADDRESS != 0 { self.address as u64 } else { 0 }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.opened.forget(self.address);
        close(self.region.as_ptr().cast());
    }
}

/// Memory of its own, registered if the provider wants that.
pub(crate) struct Memory {
    registered: Option<Registered>,
    address: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory of its own.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// A part of it.
    pub(crate) fn part_mut(&mut self, at: usize, bytes: usize) -> &mut [u8] {
        assert!(at + bytes <= self.layout.size(), "inside the memory");
        // SAFETY: inside the memory; the provider uses no part that its holder writes.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr().add(at), bytes) }
    }

    fn describe(&self) -> *mut c_void {
        self.registered.as_ref().map_or(null_mut(), Registered::describe)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.registered = None;
        // SAFETY: allocated with this layout, freed once, and not registered any more.
        unsafe { dealloc(self.address.as_ptr(), self.layout) };
    }
}

fn close(object: *mut abi::Fid) {
    // SAFETY: an object of libfabric's that was opened, and is closed once.
    unsafe { ((*(*object).ops).close)(object) };
}

/// The library, and what of it all else needs.
struct Opened {
    libfabric: Arc<Library>,
    fabric: NonNull<abi::Fabric>,
    domain: NonNull<abi::Domain>,
    mr_mode: c_int,
    hidden: Hidden,
    /// By address: bytes. Only where a test looks after it.
    registered: Mutex<BTreeMap<usize, usize>>,
}

// SAFETY: objects that are used under the lock of whoever holds the port; the table has a lock of its own.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

fn check(library: &Library, what: &'static str, answer: c_int) -> Result<(), Refusal> {
    if answer == 0 { Ok(()) } else { Err(Refusal { what, error: library.explain(answer) }) }
}

type Objects = (NonNull<abi::Queue>, NonNull<abi::Addresses>, NonNull<abi::Endpoint>);

impl Opened {
    /// A network and a device of it.
    fn open(library: &Arc<Library>, info: &OwnedInfo, hidden: Hidden) -> Result<Arc<Opened>, Refusal> {
        let (mut fabric, mut domain) = (null_mut(), null_mut());
        let attributes = info.get().fabric_attr;
        // SAFETY: what the library has offered, and a place for the object.
        let answer = unsafe { (library.open_fabric)(attributes, &mut fabric, null_mut()) };
        check(library, "open the network", answer)?;
        let fabric = NonNull::new(fabric).expect("it was opened");
        // SAFETY: as above; the object was opened just now.
        let answer = unsafe {
            ((*fabric.as_ref().ops).domain)(fabric.as_ptr(), info.as_ptr(), &mut domain, null_mut())
        };
        if let Err(refusal) = check(library, "open the device", answer) {
            close(fabric.as_ptr().cast());
            return Err(refusal);
        }
        let domain = NonNull::new(domain).expect("it was opened");
        let mr_mode = info.part(|info| info.domain_attr).mr_mode;
        let library = Arc::clone(library);
        Ok(Arc::new(Opened {
            libfabric: library,
            fabric,
            domain,
            mr_mode,
            hidden,
            registered: Mutex::default(),
        }))
    }

    /// A queue, a table of so many addresses, and an endpoint.
    fn objects(&self, info: &OwnedInfo, peers: usize, descriptor: bool) -> Result<Objects, Refusal> {
        let (mut queue, mut addresses, mut endpoint) = (null_mut(), null_mut(), null_mut());
        let mut wanted = abi::QueueAttributes {
            size: QUEUE_ENTRIES.max(info.part(|info| info.rx_attr).size),
            format: abi::CQ_MESSAGES,
            wait_obj: if descriptor { abi::WAIT_DESCRIPTOR } else { abi::WAIT_NONE },
            ..abi::QueueAttributes::default()
        };
        let domain = self.domain.as_ptr();
        // SAFETY: an open domain.
        let ops = unsafe { &*self.domain.as_ref().ops };
        // SAFETY: an open domain, and places for wishes and the object.
        let answer = unsafe { (ops.cq_open)(domain, &mut wanted, &mut queue, null_mut()) };
        check(&self.libfabric, "open a queue that can be slept on", answer)?;
        let queue = NonNull::new(queue).expect("it was opened");
        let kind = info.part(|info| info.domain_attr).av_type;
        let mut table =
            abi::AddressesAttributes { kind, count: peers, ..abi::AddressesAttributes::default() };
        // SAFETY: as above.
        let answer = unsafe { (ops.av_open)(domain, &mut table, &mut addresses, null_mut()) };
        if let Err(refusal) = check(&self.libfabric, "open a table of addresses", answer) {
            close(queue.as_ptr().cast());
            return Err(refusal);
        }
        let addresses = NonNull::new(addresses).expect("it was opened");
        // SAFETY: as above.
        let answer = unsafe { (ops.endpoint)(domain, info.as_ptr(), &mut endpoint, null_mut()) };
        if let Err(refusal) = check(&self.libfabric, "open an endpoint", answer) {
            close(queue.as_ptr().cast());
            close(addresses.as_ptr().cast());
            return Err(refusal);
        }
        Ok((queue, addresses, NonNull::new(endpoint).expect("it was opened")))
    }

    fn forget(&self, address: usize) {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }

    /// For a provider that seems to want registration: it was.
    fn check(&self, address: *const u8, bytes: usize) {
        if self.hidden.wants_registration {
            let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
            let (from, end) = (address as usize, address as usize + bytes);
            let is_inside =
                registered.range(..=from).next_back().is_some_and(|(at, length)| end <= at + length);
            assert!(is_inside, "{bytes} bytes at {address:?} are used without registration");
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        close(self.domain.as_ptr().cast());
        close(self.fabric.as_ptr().cast());
    }
}

/// An endpoint. One thread at a time.
pub(crate) struct Port {
    endpoint: NonNull<abi::Endpoint>,
    queue: NonNull<abi::Queue>,
    addresses: NonNull<abi::Addresses>,
    opened: Arc<Opened>,
    is_tagged: bool,
    needs_registration: bool,
    inject_bytes: usize,
    descriptor: Option<c_int>,
    /// Sends and writes that have not ended.
    pub(crate) under_way: usize,
    next_key: u64,
    key_bytes: usize,
    info: OwnedInfo,
}

// SAFETY: objects of libfabric's, opened to be used by one thread at a time, whichever that is.
unsafe impl Send for Port {}

/// What was tried, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) what: &'static str,
    pub(crate) error: String,
}

impl Port {
    /// Opens what is offered. With `descriptor` only if there is one to sleep on.
    pub(crate) fn open(
        library: &Arc<Library>,
        offer: Offer,
        (peers, is_tagged, descriptor): (usize, bool, bool),
        hidden: Hidden,
    ) -> Result<Port, Refusal> {
        let info = offer.info;
        let opened = Opened::open(library, &info, hidden)?;
        let (queue, addresses, endpoint) = opened.objects(&info, peers, descriptor)?;
        let attributes = info.part(|info| info.domain_attr);
        let mut port = Port {
            endpoint,
            queue,
            addresses,
            is_tagged,
            needs_registration: attributes.mr_mode & abi::MR_LOCAL != 0 || hidden.wants_registration,
            inject_bytes: if hidden.inject { 0 } else { info.part(|info| info.tx_attr).inject_size },
            descriptor: None,
            under_way: 0,
            next_key: 1,
            key_bytes: attributes.mr_key_size,
            opened,
            info,
        };
        port.enable().map_err(|(what, error)| Refusal { what, error: library.explain(error) })?;
        if descriptor {
            let mut found: c_int = -1;
            let place: *mut c_int = &mut found;
            // SAFETY: the queue was opened with a descriptor, which is a number to be stored at the place.
            let answer = unsafe {
                ((*(*queue.as_ptr()).fid.ops).control)(
                    queue.as_ptr().cast(),
                    abi::CONTROL_GET_WAIT,
                    place.cast(),
                )
            };
            check(library, "find the queue's descriptor", answer)?;
            port.descriptor = Some(found);
        }
        Ok(port)
    }

    fn enable(&mut self) -> Result<(), (&'static str, c_int)> {
        let check = |what, answer| if answer == 0 { Ok(()) } else { Err((what, answer)) };
        let object: *mut abi::Fid = self.endpoint.as_ptr().cast();
        // SAFETY: the endpoint, its queue and its table were opened in one domain.
        unsafe {
            let ops = &*(*object).ops;
            let both = abi::FLAG_TRANSMIT | abi::FLAG_RECEIVE;
            check("bind the queue", (ops.bind)(object, self.queue.as_ptr().cast(), both))?;
            check("bind the table of addresses", (ops.bind)(object, self.addresses.as_ptr().cast(), 0))?;
            check("enable the endpoint", (ops.control)(object, abi::CONTROL_ENABLE, null_mut()))
        }
    }

    /// Where others find it, up to so many bytes.
    pub(crate) fn name(&self, bytes_max: usize) -> Result<Vec<u8>, Refusal> {
        let (mut bytes, mut length) = (vec![0_u8; bytes_max], bytes_max);
        let object: *mut abi::Fid = self.endpoint.as_ptr().cast();
        // SAFETY: the endpoint is enabled; at most so many bytes are written.
        let answer =
            unsafe { ((*self.endpoint.as_ref().cm).getname)(object, bytes.as_mut_ptr().cast(), &mut length) };
        if answer != 0 || length > bytes_max {
            return Err(Refusal {
                what: "find the endpoint's address",
                error: self.opened.libfabric.explain(answer),
            });
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// What becomes readable when there is something to read, if there is such a thing.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: it is the queue's, and open as long as that is.
        self.descriptor.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether whoever sleeps on the descriptor now will be woken.
    pub(crate) fn may_sleep(&self) -> bool {
        let mut queue: *mut abi::Fid = self.queue.as_ptr().cast();
        // SAFETY: an open queue of this fabric.
        unsafe {
            ((*self.opened.fabric.as_ref().ops).trywait)(self.opened.fabric.as_ptr(), &mut queue, 1) == 0
        }
    }

    /// The format of its names.
    pub(crate) fn address_format(&self) -> u32 {
        self.info.get().addr_format
    }

    pub(crate) fn explain(&self, error: i32) -> String {
        self.opened.libfabric.explain(error)
    }

    /// Adds a peer's address; its number.
    pub(crate) fn insert(&mut self, address: &[u8]) -> Option<u64> {
        let mut found = u64::MAX;
        // SAFETY: an open table; an address in the provider's format, which its own endpoint has told. Whoever sent it has proved to know the
        // job's secret.
        let count = unsafe {
            ((*self.addresses.as_ref().ops).insert)(
                self.addresses.as_ptr(),
                address.as_ptr().cast(),
                1,
                &mut found,
                0,
                null_mut(),
            )
        };
        (count == 1).then_some(found)
    }

    /// Memory of its own for sending and receiving.
    pub(crate) fn memory(&mut self, bytes: usize) -> Result<Memory, i32> {
        let layout = Layout::from_size_align(bytes.max(1), 4096).expect("a size");
        // SAFETY: of a size that is not zero.
        let Some(address) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        let mut memory = Memory { registered: None, address, layout };
        if self.needs_registration {
            let access = abi::ACCESS_SEND | abi::ACCESS_RECEIVE;
            memory.registered = Some(self.register(memory.address(), bytes, access)?);
        }
        Ok(memory)
    }

    /// Memory of others, to write from, if the provider wants that registered.
    pub(crate) fn lend(&mut self, address: *mut u8, bytes: usize) -> Result<Option<Registered>, i32> {
        self.needs_registration.then(|| self.register(address, bytes, abi::ACCESS_WRITE)).transpose()
    }

    /// Memory to which a peer may write.
    pub(crate) fn open_to_peers(&mut self, address: *mut u8, bytes: usize) -> Result<Registered, i32> {
        self.register(address, bytes, abi::ACCESS_REMOTE_WRITE)
    }

    fn register(&mut self, address: *mut u8, bytes: usize, access: u64) -> Result<Registered, i32> {
        let domain = self.opened.domain;
        // Where peers get in by a key, nobody else may guess it.
        let key = if self.key_bytes >= 8 {
            u64::from_le_bytes(random_bytes().map_err(|_| libc::EAGAIN)?)
        } else {
            self.next_key
        };
        self.next_key += 1;
        let mut region = null_mut();
        // SAFETY: an open domain; memory that lives until the object is dropped, as the callers see to.
        let answer = unsafe {
            ((*domain.as_ref().mr).reg)(
                domain.as_ptr().cast(),
                address.cast(),
                bytes,
                access,
                0,
                key,
                0,
                &mut region,
                null_mut(),
            )
        };
        if answer != 0 {
            return Err(answer);
        }
        let region = NonNull::new(region).expect("it was made");
        let registered = Registered { opened: Arc::clone(&self.opened), region, address: address as usize };
        if self.opened.hidden.wants_registration {
            let mut table = self.opened.registered.lock().unwrap_or_else(PoisonError::into_inner);
            table.insert(address as usize, bytes);
        }
        if self.opened.mr_mode & abi::MR_ENDPOINT != 0 {
            let object: *mut abi::Fid = region.as_ptr().cast();
            // SAFETY: the region and the endpoint are of one domain.
            let answer = unsafe {
                let ops = &*(*object).ops;
                match (ops.bind)(object, self.endpoint.as_ptr().cast(), 0) {
                    0 => (ops.control)(object, abi::CONTROL_ENABLE, null_mut()),
                    error => error,
                }
            };
            if answer != 0 {
                return Err(answer);
            }
        }
        Ok(registered)
    }

    fn context(&self, context: ContextRef) -> *mut c_void {
        if self.opened.hidden.wants_contexts {
            // SAFETY: the provider's part of a context that lives; nobody else may use it.
            unsafe { (*context.0.as_ptr()).of_the_provider = [usize::MAX / 3; CONTEXT_WORDS] };
        }
        context.0.as_ptr().cast()
    }

    /// Receives into a part of memory, which is the provider's until the operation ends.
    pub(crate) fn receive(
        &mut self,
        into: &Memory,
        at: usize,
        bytes: usize,
        context: ContextRef,
    ) -> Result<(), NotBegun> {
        assert!(at + bytes <= into.layout.size(), "inside the memory");
        let address = into.address().wrapping_add(at);
        self.opened.check(address, bytes);
        let (endpoint, describe, context) = (self.endpoint.as_ptr(), into.describe(), self.context(context));
        // SAFETY: an enabled endpoint; memory inside a block that outlives it, as the context does.
        begun(unsafe {
            let ops = self.endpoint.as_ref();
            match self.is_tagged {
                true => {
                    ((*ops.tagged).recv)(endpoint, address.cast(), bytes, describe, u64::MAX, 0, 0, context)
                }
                false => ((*ops.msg).recv)(endpoint, address.cast(), bytes, describe, u64::MAX, context),
            }
        })
    }

    /// Sends a part of memory, which stays as it is until the operation ends. True: it has ended already.
    pub(crate) fn send(
        &mut self,
        to: u64,
        (from, at, bytes): (&Memory, usize, usize),
        context: ContextRef,
    ) -> Result<bool, NotBegun> {
        assert!(at + bytes <= from.layout.size(), "inside the memory");
        let address: *const c_void = from.address().wrapping_add(at).cast();
        let endpoint = self.endpoint.as_ptr();
        // SAFETY: an enabled endpoint.
        let ops = unsafe { self.endpoint.as_ref() };
        if bytes <= self.inject_bytes {
            // SAFETY: memory of so many bytes, which is copied before this returns.
            return begun(unsafe {
                match self.is_tagged {
                    true => ((*ops.tagged).inject)(endpoint, address, bytes, to, 0),
                    false => ((*ops.msg).inject)(endpoint, address, bytes, to),
                }
            })
            .map(|()| true);
        }
        self.opened.check(address.cast(), bytes);
        let (describe, context) = (from.describe(), self.context(context));
        // SAFETY: memory inside a block that outlives the endpoint, as the context does.
        begun(unsafe {
            match self.is_tagged {
                true => ((*ops.tagged).send)(endpoint, address, bytes, describe, to, 0, context),
                false => ((*ops.msg).send)(endpoint, address, bytes, describe, to, context),
            }
        })
        .map(|()| {
            self.under_way += 1;
            false
        })
    }

    /// Writes to a peer's memory.
    ///
    /// # Safety
    /// The memory stays as it is until the operation ends; if the provider wants it registered, it is.
    pub(crate) unsafe fn write(
        &mut self,
        to: u64,
        (from, bytes, registered): (*const u8, usize, Option<&Registered>),
        (address, key): (u64, u64),
        context: ContextRef,
    ) -> Result<(), NotBegun> {
        self.opened.check(from, bytes);
        let describe = registered.map_or(null_mut(), Registered::describe);
        let (endpoint, context) = (self.endpoint.as_ptr(), self.context(context));
        // SAFETY: an enabled endpoint whose provider can do that, and memory as the caller promises.
        begun(unsafe {
            ((*self.endpoint.as_ref().rma).write)(
                endpoint,
                from.cast(),
                bytes,
                describe,
                to,
                address,
                key,
                context,
            )
        })
        .map(|()| self.under_way += 1)
    }

    /// Moves things on, and says what has ended.
    pub(crate) fn look(&mut self, into: &mut Vec<Done>, at_most: usize) {
        const AT_A_TIME: usize = 16;
        let mut entries = [Entry { op_context: null_mut(), flags: 0, len: 0 }; AT_A_TIME];
        while into.len() < at_most {
            let wanted = AT_A_TIME.min(at_most - into.len());
            // SAFETY: an open queue of entries of this kind, and room for so many.
            let count = unsafe {
                ((*self.queue.as_ref().ops).read)(self.queue.as_ptr(), entries.as_mut_ptr().cast(), wanted)
            };
            match count {
                1.. => {
                    for entry in &entries[..count as usize] {
                        // Bytes of a send are none that were received.
                        let is_receive = entry.flags & abi::FLAG_RECEIVE != 0;
                        let bytes = if is_receive { entry.len } else { 0 };
                        into.push(Done { id: self.id_of(entry.op_context), outcome: Ok(bytes) });
                    }
                    if (count as usize) < wanted {
                        return;
                    }
                }
                error if -error == abi::ERROR_AVAILABLE => match self.look_at_error() {
                    Some(done) => into.push(done),
                    None => return,
                },
                _ => return,
            }
        }
    }

    fn look_at_error(&mut self) -> Option<Done> {
        // SAFETY: all zero is an entry.
        let mut entry: abi::ErrorEntry = unsafe { std::mem::zeroed() };
        // SAFETY: an open queue, and room for the entry.
        let count = unsafe { ((*self.queue.as_ref().ops).readerr)(self.queue.as_ptr(), &mut entry, 0) };
        (count == 1).then(|| Done { id: self.id_of(entry.op_context), outcome: Err(entry.err.abs().max(1)) })
    }

    fn id_of(&self, context: *mut c_void) -> Option<u64> {
        let context = NonNull::new(context.cast::<Context>())?;
        if self.opened.hidden.wants_contexts {
            // SAFETY: as in `context`.
            unsafe { (*context.as_ptr()).of_the_provider = [usize::MAX / 5; CONTEXT_WORDS] };
        }
        // SAFETY: a context that was handed over with the operation, and lives as long as the port.
        Some(unsafe { context.as_ref() }.id)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        close(self.endpoint.as_ptr().cast());
        close(self.queue.as_ptr().cast());
        close(self.addresses.as_ptr().cast());
    }
}

fn begun(answer: isize) -> Result<(), NotBegun> {
    match answer {
        0 => Ok(()),
        error if -error == abi::ERROR_AGAIN => Err(NotBegun::Again),
        error => Err(NotBegun::Failed(error as i32)),
    }
}
