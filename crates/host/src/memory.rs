//! Copies between the memories of two processes in one step, without shared memory.
//!
//! The kernel copies directly from one address space into the other (`process_vm_readv`, `process_vm_writev`). It may
//! refuse: containers, other users, other user namespaces and security modules forbid it. Callers keep another way
//! ready for [`CopyError::Forbidden`].

use crate::process::Pid;
use std::io;

/// A range of some process's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first byte's address, in the process that the region belongs to.
    pub address: usize,
    /// The length in bytes.
    pub bytes: usize,
}

/// Why a copy between processes did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The kernel does not let this process touch the other's memory: take another way.
    #[error("the kernel forbids copies from or to process {pid}: {source}")]
    Forbidden {
        /// The other process.
        pid: Pid,
        /// The system's answer.
        source: io::Error,
    },
    /// The other process has ended.
    #[error("process {pid} is gone")]
    PeerGone {
        /// The other process.
        pid: Pid,
    },
    /// A region is not (wholly) mapped, here or there, or not with the needed rights.
    #[error("bad address in a copy from or to process {pid}, after {copied} bytes")]
    BadAddress {
        /// The other process.
        pid: Pid,
        /// How many bytes had been copied before.
        copied: usize,
    },
    /// Anything else.
    #[error("cannot copy from or to process {pid}: {source}")]
    Other {
        /// The other process.
        pid: Pid,
        /// The system's answer.
        source: io::Error,
    },
}

/// How many regions a single system call is given at most on each side.
const WINDOW: usize = 64;

/// Lets every process of the same user copy from and to this process, where a security module (Yama) would allow
/// that to ancestors only. No effect elsewhere.
pub fn permit_peers() {
    // SAFETY: prctl with PR_SET_PTRACER only sets a flag of this process; failure means that no such module is there.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

/// Fills `local` from the memory of process `pid` at `address`.
pub fn read(pid: Pid, address: usize, local: &mut [u8]) -> Result<(), CopyError> {
    let here = [Region { address: local.as_mut_ptr() as usize, bytes: local.len() }];
    // SAFETY: `here` is exactly `local`, which is ours to write.
    unsafe { read_regions(pid, &[Region { address, bytes: local.len() }], &here) }
}

/// Copies the regions `remote` of process `pid` into our regions `local`, both taken as one run of bytes; the
/// shorter side decides how many.
///
/// # Safety
/// The regions `local` must be memory that the caller may overwrite.
pub unsafe fn read_regions(pid: Pid, remote: &[Region], local: &[Region]) -> Result<(), CopyError> {
    // SAFETY: as the caller promises; reading the other process cannot harm ours.
    unsafe { copy(pid, remote, local, libc::process_vm_readv) }
}

/// Copies our regions `local` over the regions `remote` of process `pid`, both taken as one run of bytes; the shorter
/// side decides how many.
///
/// # Safety
/// The regions `remote` must be memory that the other process expects to be overwritten, and `local` must not be
/// written meanwhile if its content matters.
pub unsafe fn write_regions(pid: Pid, remote: &[Region], local: &[Region]) -> Result<(), CopyError> {
    // SAFETY: as the caller promises.
    unsafe { copy(pid, remote, local, libc::process_vm_writev) }
}

type Transfer = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// # Safety
/// As for [`read_regions`] or [`write_regions`], whichever `transfer` is.
unsafe fn copy(pid: Pid, remote: &[Region], local: &[Region], transfer: Transfer) -> Result<(), CopyError> {
    let total = |regions: &[Region]| regions.iter().map(|region| region.bytes).sum::<usize>();
    let bytes = total(remote).min(total(local));
    let (mut there, mut here) = (Cursor::new(remote), Cursor::new(local));
    let mut copied = 0;
    while copied < bytes {
        let (far, far_count) = there.window(bytes - copied);
        let (near, near_count) = here.window(bytes - copied);
        // SAFETY: both lists are live for the call; what they point at is as the caller promised.
        let moved = unsafe {
            transfer(pid.raw(), near.as_ptr(), near_count as u64, far.as_ptr(), far_count as u64, 0)
        };
        if moved < 0 {
            let source = io::Error::last_os_error();
            return Err(match source.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) => continue,
                Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => CopyError::Forbidden { pid, source },
                Some(libc::ESRCH) => CopyError::PeerGone { pid },
                Some(libc::EFAULT) => CopyError::BadAddress { pid, copied },
                _ => CopyError::Other { pid, source },
            });
        }
        if moved == 0 {
            // The address space is being torn down: the process is ending, though still known by its number.
            return Err(CopyError::PeerGone { pid });
        }
        copied += moved as usize;
        there.advance(moved as usize);
        here.advance(moved as usize);
    }
    Ok(())
}

/// A place in a list of regions taken as one run of bytes.
struct Cursor<'a> {
    regions: &'a [Region],
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn new(regions: &'a [Region]) -> Cursor<'a> {
        Cursor { regions, offset: 0 }
    }

    /// The next regions from here on, at most [`WINDOW`] of them and `limit` bytes, and how many they are.
    fn window(&self, limit: usize) -> ([libc::iovec; WINDOW], usize) {
        let mut list = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; WINDOW];
        let (mut offset, mut left, mut count) = (self.offset, limit, 0);
        for (entry, region) in list.iter_mut().zip(self.regions) {
            if left == 0 {
                break;
            }
            let bytes = (region.bytes - offset).min(left);
            *entry = libc::iovec { iov_base: (region.address + offset) as *mut libc::c_void, iov_len: bytes };
            (offset, left, count) = (0, left - bytes, count + 1);
        }
        (list, count)
    }

    fn advance(&mut self, mut bytes: usize) {
        while let [first, rest @ ..] = self.regions {
            let left = first.bytes - self.offset;
            if bytes < left {
                self.offset += bytes;
                return;
            }
            bytes -= left;
            (self.regions, self.offset) = (rest, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use crate::skipped::skip;

    fn region(bytes: &[u8]) -> Region {
        Region { address: bytes.as_ptr() as usize, bytes: bytes.len() }
    }

    /// Whether this sandbox lets processes copy at all; the other tests then have nothing to look at.
    fn forbidden(result: &Result<(), CopyError>) -> bool {
        let forbidden = matches!(result, Err(CopyError::Forbidden { .. }));
        if forbidden {
            skip("process_vm_readv", "the kernel forbids it here");
        }
        forbidden
    }

    #[test]
    fn reads_and_writes_a_child() {
        let data: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7) as u8).collect();
        let address = data.as_ptr() as usize;
        // SAFETY: the child only sleeps.
        let child = unsafe {
            process::fork(|| {
                permit_peers();
                std::thread::sleep(std::time::Duration::from_secs(20));
                0
            })
        }
        .expect("fork");
        let mut copy = vec![0; data.len()];
        let result = read(child.pid(), address, &mut copy);
        if !forbidden(&result) {
            result.expect("a read");
            assert!(copy == data);
            // Many pieces, cut differently on the two sides.
            let remote: Vec<Region> = data.chunks(997).map(region).collect();
            let mut back = vec![0; data.len()];
            let local: Vec<Region> = back.chunks_mut(1013).map(|chunk| region(chunk)).collect();
            // SAFETY: the local regions are `back`.
            unsafe { read_regions(child.pid(), &remote, &local) }.expect("a read in pieces");
            assert!(back == data);
            copy[5..9].copy_from_slice(b"castell"[..4].as_ref());
            // SAFETY: the child does not look at its copy of `data`.
            unsafe { write_regions(child.pid(), &[region(&data)], &[region(&copy)]) }.expect("a write");
            read(child.pid(), address, &mut back).expect("a read");
            assert!(back == copy);
            assert!(matches!(read(child.pid(), 8, &mut back), Err(CopyError::BadAddress { copied: 0, .. })));
        }
        child.signal(libc::SIGKILL).expect("kill");
        child.wait().expect("wait");
        let gone = read(child.pid(), address, &mut copy);
        assert!(matches!(gone, Err(CopyError::PeerGone { .. } | CopyError::Forbidden { .. })), "{gone:?}");
    }

    #[test]
    fn empty_regions_are_stepped_over() {
        let (from, mut to) = (*b"abcdef", [0u8; 4]);
        let remote = [region(&from[..0]), region(&from[..1]), region(&from[..0]), region(&from[3..])];
        let local = [region(&to[..0]), region(&to)];
        // SAFETY: the local regions are `to`.
        let result = unsafe { read_regions(Pid::current(), &remote, &local) };
        if !forbidden(&result) {
            result.expect("a read");
            assert_eq!(&std::mem::take(&mut to), b"adef");
        }
    }
}
