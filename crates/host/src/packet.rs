//! Sockets for raw Ethernet frames on one network interface. They need CAP_NET_RAW.

use crate::descriptor::duplicate_inherited;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Bytes in front of each frame by which the kernel tells what it has put off ([`Frames::AllWithOffload`]): checksums, and cutting into
/// segments.
pub const OFFLOAD_BYTES: usize = 10;

const PACKET_VNET_HDR: i32 = 15;
const PACKET_IGNORE_OUTGOING: i32 = 23;
/// Where the EtherType stands.
const ETHERTYPE_AT: u32 = 12;
/// What the kernel keeps for a socket that nobody reads, and takes from one that writes.
const BUFFER_BYTES: i32 = 4 << 20;

/// Which of the frames that come in a socket gets.
#[derive(Clone, Copy, Debug)]
pub enum Frames<'a> {
    /// Every one, also longer ones than the interface's MTU, each with [`OFFLOAD_BYTES`] in front.
    AllWithOffload,
    /// Those of one EtherType in which these pairs of bytes stand where they are told to.
    Only {
        /// The EtherType.
        ethertype: u16,
        /// Where, and what stands there.
        pairs: &'a [(u32, [u8; 2])],
    },
}

/// A socket that gets frames which come in at an interface, not those that go out, and sends frames there. It never blocks.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    name: CString,
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl PacketSocket {
    /// One at the interface of this name in this process's network namespace.
    ///
    /// # Errors
    /// There is no such interface, or this process may not ([`io::ErrorKind::PermissionDenied`]).
    pub fn open(interface: &str, frames: Frames<'_>) -> io::Result<PacketSocket> {
        let name = CString::new(interface).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: a string that lives as long as the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // Bound to nothing yet, so that nothing of other interfaces, and nothing unwanted, gets in.
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let socket = PacketSocket { socket, name };
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER_BYTES)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &BUFFER_BYTES)?;
        let ethertype = match frames {
            Frames::AllWithOffload => {
                socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1)?;
                libc::ETH_P_ALL as u16
            }
            Frames::Only { ethertype, pairs } => {
                socket.filter(&[&[(ETHERTYPE_AT, ethertype.to_be_bytes())], pairs].concat())?;
                // Whoever is given the socket may bind it anew, and hears no more of what others say then.
                socket.set(libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1)?;
                ethertype
            }
        };
        // SAFETY: plain data.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ethertype.to_be();
        address.sll_ifindex = index as i32;
        let (at, bytes) = ((&raw const address).cast(), size_of_val(&address) as libc::socklen_t);
        // SAFETY: `address` is live and so long.
        check(unsafe { libc::bind(socket.socket.as_raw_fd(), at, bytes) })?;
        Ok(socket)
    }

    /// One that this process has inherited by this number, so that it may have been opened by a process with more rights.
    ///
    /// # Errors
    /// It is none, or its interface is gone.
    pub fn inherited(number: RawFd) -> io::Result<PacketSocket> {
        let socket = duplicate_inherited(number)?;
        // SAFETY: plain data.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut bytes = size_of_val(&address) as libc::socklen_t;
        // SAFETY: `address` is live and so long.
        check(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut bytes) })?;
        if address.sll_family != libc::AF_PACKET as u16 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no packet socket"));
        }
        // SAFETY: plain data.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = address.sll_ifindex;
        // In the socket's network namespace, which may be another one than the process's.
        // SAFETY: the call reads the number and fills the name of a live struct.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME, &raw mut request) })?;
        let name: Vec<u8> = request.ifr_name.iter().map(|byte| byte.cast_unsigned()).collect();
        let name =
            CStr::from_bytes_until_nul(&name).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(PacketSocket { socket, name: name.to_owned() })
    }

    fn set<T>(&self, level: i32, option: i32, value: &T) -> io::Result<()> {
        let (at, bytes) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
        // SAFETY: `value` is live and so long.
        check(unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, option, at, bytes) })
    }

    /// Only frames with these bytes get in: a program for the kernel that looks at each pair.
    fn filter(&self, pairs: &[(u32, [u8; 2])]) -> io::Result<()> {
        const LOAD_PAIR: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
        const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
        let mut program = Vec::new();
        for (at, (offset, bytes)) in pairs.iter().enumerate() {
            let to_the_end = 2 * (pairs.len() - at) - 1;
            program.push(step(LOAD_PAIR, 0, *offset));
            let value = u16::from_be_bytes(*bytes).into();
            let to_the_end =
                u8::try_from(to_the_end).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            program.push(step(JUMP_IF_EQUAL, to_the_end, value));
        }
        program.push(step(RETURN, 0, u32::MAX));
        program.push(step(RETURN, 0, 0));
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    /// The interface's name.
    pub fn interface(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// The interface's hardware address.
    ///
    /// # Errors
    /// It has none of six bytes, or is gone.
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        let request = self.ask(libc::SIOCGIFHWADDR)?;
        // SAFETY: what the call has filled.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is no Ethernet interface"));
        }
        Ok(std::array::from_fn(|at| address.sa_data[at] as u8))
    }

    /// How long a frame may be behind Ethernet's header, bytes.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn mtu_bytes(&self) -> io::Result<usize> {
        let request = self.ask(libc::SIOCGIFMTU)?;
        // SAFETY: what the call has filled.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as usize)
    }

    fn ask(&self, what: libc::Ioctl) -> io::Result<libc::ifreq> {
        // SAFETY: plain data.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.as_bytes_with_nul()) {
            *to = from.cast_signed();
        }
        // SAFETY: the call reads the name, which ends with a zero, and fills the rest of a live struct.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), what, &raw mut request) })?;
        Ok(request)
    }

    /// The next frame that has come: how many bytes.
    ///
    /// # Errors
    /// None has ([`io::ErrorKind::WouldBlock`]), or the interface is down.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let (_, bytes) = rustix::net::recv(&self.socket, into, rustix::net::RecvFlags::empty())?;
        Ok(bytes)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// There is no room now ([`io::ErrorKind::WouldBlock`]; `ENOBUFS`: the interface's own queue has dropped it), or the interface is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.socket, frame, rustix::net::SendFlags::empty())?;
        Ok(())
    }
}

impl From<PacketSocket> for OwnedFd {
    fn from(socket: PacketSocket) -> OwnedFd {
        socket.socket
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
