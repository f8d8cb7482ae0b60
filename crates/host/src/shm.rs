//! Memory that several processes share, without a name in any file system.
//!
//! A [`Segment`] lives as long as a process maps it or holds its descriptor: when the last one is gone, however it
//! ended, the memory is gone too. Nothing can be left over.

use crate::HostError;
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

/// Whether this process may map, and files may have, as much as there are addresses.
pub fn is_unlimited() -> bool {
    [Resource::As, Resource::Fsize].into_iter().all(|resource| getrlimit(resource).current.is_none())
}

/// A mapped piece of shared memory of a fixed size, zeroed when it is created.
///
/// Its size is sealed, so no other process can take pages away under this one's feet. What the bytes mean, and which
/// of them may be touched at the same time, is the caller's matter: hence the raw pointer.
#[derive(Debug)]
pub struct Segment {
    map: MmapRaw,
    descriptor: OwnedFd,
}

impl Segment {
    /// Makes a zeroed segment; `label` is seen only in `/proc/PID/maps`. Pages cost memory once they are touched.
    pub fn create(label: &str, bytes: usize) -> Result<Segment, HostError> {
        let what = || format!("create a shared memory segment of {bytes} bytes");
        // Beyond the limit the kernel ends the process (SIGXFSZ) unless that is ignored, which is not ours to decide.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| bytes as u64 > limit) {
            return Err(HostError::FileLimit { bytes });
        }
        let descriptor = rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|error| HostError::system(what(), error))?;
        rustix::fs::ftruncate(&descriptor, bytes as u64).map_err(|error| HostError::system(what(), error))?;
        rustix::fs::fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(|error| HostError::system(what(), error))?;
        Segment::map(descriptor, bytes)
    }

    /// Maps a segment that another process made, from a descriptor of it.
    ///
    /// The descriptor is closed on exec from now on.
    pub fn from_fd(descriptor: OwnedFd) -> Result<Segment, HostError> {
        let number = descriptor.as_raw_fd();
        let refuse = |found: String| HostError::NotASegment { descriptor: number, found };
        let seals = rustix::fs::fcntl_get_seals(&descriptor).map_err(|error| refuse(error.to_string()))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(refuse("its size may change".into()));
        }
        let status = rustix::fs::fstat(&descriptor).map_err(|error| refuse(error.to_string()))?;
        let bytes = usize::try_from(status.st_size).unwrap_or(0);
        if bytes == 0 {
            return Err(refuse("it is empty".into()));
        }
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)
            .map_err(|error| refuse(error.to_string()))?;
        Segment::map(descriptor, bytes)
    }

    /// [`Segment::from_fd`] for a descriptor that was inherited under a known number.
    ///
    /// # Safety
    /// Nobody else in this process may own or use the descriptor `number`: it belongs to the segment from now on, and
    /// is left open where it turns out not to be a segment.
    pub unsafe fn from_inherited_fd(number: RawFd) -> Result<Segment, HostError> {
        let refuse = |found: String| HostError::NotASegment { descriptor: number, found };
        // SAFETY: fcntl with F_GET_SEALS only reads, and copes with any number.
        if number < 0 || unsafe { libc::fcntl(number, libc::F_GET_SEALS) } < 0 {
            return Err(refuse(std::io::Error::last_os_error().to_string()));
        }
        // SAFETY: the descriptor is open, and the caller gives it to us.
        Segment::from_fd(unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// Maps memory that the kernel shares through a descriptor which is no file of memory, such as a BPF array's. It is as long as the caller
    /// says, and never shrinks.
    ///
    /// # Errors
    /// The kernel shares nothing by it, or not so much.
    pub fn of_kernel(descriptor: OwnedFd, bytes: usize) -> Result<Segment, HostError> {
        Segment::map(descriptor, bytes)
    }

    fn map(descriptor: OwnedFd, bytes: usize) -> Result<Segment, HostError> {
        let map = MmapOptions::new()
            .len(bytes)
            .map_raw(&descriptor)
            .map_err(|error| HostError::system(format!("map {bytes} bytes of shared memory"), error))?;
        Ok(Segment { map, descriptor })
    }

    /// Where the segment lies in this process: aligned to a page, valid as long as the segment lives.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// The segment as words that any process may read and write at any time. A rest of less than a word is left out.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as `self` lives, aligned to a page, and atomics may be shared and hold any bits.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len() / size_of::<AtomicU64>()) }
    }

    /// The same in words of 32 bits, on which threads can sleep ([`crate::futex`]).
    pub fn short_words(&self) -> &[AtomicU32] {
        // SAFETY: as for `words`.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len() / size_of::<AtomicU32>()) }
    }

    /// The size in bytes; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// The descriptor, for handing the segment on to other processes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Takes memory for these bytes now, so that there is some when they are touched. Where the kernel cannot do that it is taken then.
    ///
    /// # Errors
    /// There is not so much.
    pub fn reserve(&self, offset: usize, bytes: usize) -> Result<(), HostError> {
        let answer =
            rustix::fs::fallocate(&self.descriptor, FallocateFlags::KEEP_SIZE, offset as u64, bytes as u64);
        match answer {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) | Ok(()) => Ok(()),
            Err(error) => Err(HostError::system(format!("get {bytes} bytes of shared memory"), error)),
        }
    }

    /// Gives the memory of whole pages back; they are zero when they are touched again.
    pub fn give_back(&self, offset: usize, bytes: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Where the kernel cannot, the memory goes with the segment.
        let _ = rustix::fs::fallocate(&self.descriptor, flags, offset as u64, bytes as u64);
        // The compiler takes it for a call that leaves this process's memory alone.
        compiler_fence(Ordering::SeqCst);
    }

    /// Leaves the first bytes, whole pages, out of this process's core files, where the system knows how.
    pub fn leave_out_of_core_files(&self, bytes: usize) {
        let _ = self.map.advise_range(Advice::DontDump, 0, bytes);
    }

    /// Asks for huge pages; says whether the kernel agreed. Never needed for correctness.
    pub fn advise_huge_pages(&self) -> bool {
        self.map.advise(Advice::HugePage).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn children_see_what_parents_write_and_the_reverse() {
        let segment = Segment::create("castell-test", 10_000).expect("memfd");
        assert_eq!(segment.len(), 10_000);
        // SAFETY: inside the segment, nobody else touches it yet.
        unsafe { segment.as_ptr().write(41) };
        let number = segment.fd().as_raw_fd();
        let address = segment.as_ptr() as usize;
        // SAFETY: the child only maps memory, compares and writes a byte: no locks, no allocation that could be held.
        let child = unsafe {
            process::fork(|| {
                let copy = rustix::io::dup(BorrowedFd::borrow_raw(number)).expect("dup");
                let mine = Segment::from_fd(copy).expect("a segment");
                let seen = mine.as_ptr().read_volatile();
                mine.as_ptr().add(9_999).write_volatile(seen + 1);
                i32::from(mine.as_ptr() as usize == address)
            })
        }
        .expect("fork");
        assert_eq!(child.wait().expect("wait"), process::Ended::Exited(0));
        // SAFETY: inside the segment, the child is gone.
        assert_eq!(unsafe { segment.as_ptr().add(9_999).read() }, 42);
    }

    #[test]
    fn other_descriptors_are_refused() {
        let file = tempfile::tempfile().expect("a file");
        let error = Segment::from_fd(file.into()).expect_err("a file is no segment");
        assert!(error.to_string().contains("not a sealed shared memory segment"), "{error}");
        // SAFETY: nobody has this number; the call finds out.
        let error = unsafe { Segment::from_inherited_fd(987_654) }.expect_err("no such descriptor");
        assert!(error.to_string().contains("987654"), "{error}");
        let loose = rustix::fs::memfd_create("loose", MemfdFlags::ALLOW_SEALING).expect("memfd");
        let error = Segment::from_fd(loose).expect_err("not sealed");
        assert!(error.to_string().contains("size may change"), "{error}");
    }

    #[test]
    fn what_is_given_back_is_zero() {
        let segment = Segment::create("castell-test", 1 << 20).expect("memfd");
        segment.reserve(4096, 8192).expect("so little");
        // SAFETY: inside the segment, and nobody else's.
        unsafe {
            segment.as_ptr().add(5000).write(7);
            segment.give_back(4096, 8192);
            assert_eq!(segment.as_ptr().add(5000).read(), 0);
        }
        assert!(segment.reserve(1 << 20, 4096).is_err(), "beyond the end");
    }

    #[test]
    fn size_is_sealed() {
        let segment = Segment::create("castell-test", 4096).expect("memfd");
        assert!(rustix::fs::ftruncate(segment.fd(), 0).is_err());
        segment.advise_huge_pages();
        assert_eq!(segment.words().len(), 512);
        assert!(segment.words().iter().all(|word| word.load(std::sync::atomic::Ordering::Relaxed) == 0));
    }
}
