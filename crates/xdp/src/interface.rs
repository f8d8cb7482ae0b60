//! A network interface with castell's program at its XDP hook.

use crate::error::XdpError;
use crate::kernel::{Counters, Kernel, XDP_DROP, XDP_PASS, XDP_REDIRECT, XDP_TX};
use crate::layout::{MESSAGE_BYTES_MAX, SCHEDULES_MAX};
use aya::programs::XdpMode;
use aya::programs::links::FdLink;
use castell_esp::Mac;
use castell_esp::frame::ETHERTYPE;
use castell_host::packet::{Frames, PacketSocket};
use castell_host::topology::Processors;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver where it can, else generic. At a veth generic: behind a bridge that is faster, and it asks nothing of the other end.
    #[default]
    Auto,
    /// In the driver, before the kernel has made a packet of the frame.
    Native,
    /// Behind the driver: at every interface, and slower.
    Generic,
}

/// What the program makes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is castell's, and nothing is sent for it; or it is dropped.
    Taken,
    /// It is none of castell's.
    Passed,
    /// This is sent in its place.
    Turned(Vec<u8>),
    /// Several are sent in its place.
    Copied,
}

/// An interface of this host's that carries schedules out, until it is dropped or its process ends, however that happens. It takes
/// part in everything else as before: frames that are not castell's go on untouched.
#[derive(Clone)]
pub struct Interface {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub name: String,
    pub mac: Mac,
    pub mtu_bytes: usize,
    /// None: it is for trials, and nothing leaves it.
    pub socket: Option<PacketSocket>,
    pub kernel: Kernel,
    mode: Mode,
    /// Whoever waits may look again and again for a moment: there is a processor for whom it waits for.
    pub spins: bool,
    /// Frames go back by redirecting them, which a veth's other end takes more readily.
    pub redirects: bool,
    /// Closing it takes the program away.
    _link: Option<FdLink>,
    places: Mutex<[Place; SCHEDULES_MAX]>,
}

/// Room that a schedule has taken.
pub(crate) struct Taken {
    pub at: usize,
    /// Wakes its process.
    pub bell: Arc<OwnedFd>,
    /// So many words of messages that come and that go are to be cleared.
    pub used: [usize; 2],
}

/// Room for a schedule.
#[derive(Default)]
struct Place {
    /// What wakes its process; `None`: the place is free.
    bell: Option<Arc<OwnedFd>>,
    /// So many words of messages that come and that go the schedule before has left.
    used: [usize; 2],
}

impl Interface {
    /// Puts the program at the interface of this name in this process's network namespace; without a name, at the only one that is up.
    ///
    /// # Errors
    /// See [`XdpError`]: it is not built, this process may not, there is no such interface, or it has a program already.
    pub fn open(name: &str, mode: Mode) -> Result<Interface, XdpError> {
        let name = &*castell_host::interfaces::ethernet(name)?;
        let system = |what: &'static str| {
            move |error: std::io::Error| XdpError::System { interface: name.into(), what, error }
        };
        // It gets nothing: no frame of this EtherType has another one.
        let nothing = Frames::Only { ethertype: ETHERTYPE, pairs: &[(12, [0, 0])] };
        let socket = PacketSocket::open(name, nothing).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => XdpError::Forbidden { interface: name.into() },
            _ if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {
                XdpError::NoInterface { interface: name.into() }
            }
            _ => system("open a packet socket")(error),
        })?;
        let mac = Mac(socket.mac().map_err(system("find its hardware address"))?);
        let mtu_bytes = socket.mtu_bytes().map_err(system("find its MTU"))?;
        let index = rustix::net::netdevice::name_to_index(&socket, name);
        let index = index.map_err(|error| system("find its number")(error.into()))?;
        let mut kernel = Kernel::load(name)?;
        let is_veth = castell_host::interfaces::driver(name).is_ok_and(|driver| driver == "veth");
        let mode = if mode == Mode::Auto && is_veth { Mode::Generic } else { mode };
        let (link, mode) = match mode {
            Mode::Native => (kernel.attach(name, index, XdpMode::Driver)?, mode),
            Mode::Generic => (kernel.attach(name, index, XdpMode::Skb)?, mode),
            Mode::Auto => match kernel.attach(name, index, XdpMode::Driver) {
                Ok(link) => (link, Mode::Native),
                Err(XdpError::Refused { .. }) => (kernel.attach(name, index, XdpMode::Skb)?, Mode::Generic),
                Err(error) => return Err(error),
            },
        };
        kernel.open_ways(index)?;
        let redirects = mode == Mode::Native && is_veth;
        let places = Mutex::default();
        let (socket, _link) = (Some(socket), Some(link));
        let shared = Shared {
            name: name.into(),
            mac,
            mtu_bytes,
            socket,
            kernel,
            mode,
            spins: spins(),
            redirects,
            _link,
            places,
        };
        Ok(Interface { shared: Arc::new(shared) })
    }

    /// One that is not there: the program gets the frames that are given to it by [`Interface::try_frame`], and none leaves. For trials.
    ///
    /// # Errors
    /// The program is not built, or the kernel does not take it.
    pub fn detached(mac: Mac) -> Result<Interface, XdpError> {
        let name = "(none)";
        let shared = Shared {
            name: name.into(),
            mac,
            mtu_bytes: 1500,
            socket: None,
            kernel: Kernel::load(name)?,
            mode: Mode::Generic,
            spins: spins(),
            redirects: false,
            _link: None,
            places: Mutex::default(),
        };
        Ok(Interface { shared: Arc::new(shared) })
    }

    /// Gives the program a frame, as if it had come in, and what it makes of it.
    ///
    /// # Errors
    /// The kernel takes frames from 14 bytes on, and not beyond a page.
    pub fn try_frame(&self, frame: &[u8]) -> Result<Verdict, XdpError> {
        let mut out = vec![0; frame.len() + MESSAGE_BYTES_MAX];
        let (what, bytes) = self.shared.kernel.try_frame(frame, &mut out)?;
        out.truncate(bytes);
        Ok(match what {
            XDP_DROP => Verdict::Taken,
            XDP_PASS => Verdict::Passed,
            XDP_TX => Verdict::Turned(out),
            XDP_REDIRECT => Verdict::Copied,
            other => panic!("the program ended with {other}"),
        })
    }

    /// Its hardware address, which the peers have to know.
    pub fn mac(&self) -> Mac {
        self.shared.mac
    }

    /// Where the program runs: never [`Mode::Auto`].
    pub fn mode(&self) -> Mode {
        self.shared.mode
    }

    /// What became of frames so far.
    pub fn counters(&self) -> Counters {
        self.shared.kernel.counters()
    }
}

fn spins() -> bool {
    Processors::usable().count() > 1
}

impl Shared {
    /// A place for a schedule; `None`: all are taken.
    pub fn take_place(&self) -> Result<Option<Taken>, Errno> {
        let mut places = self.places();
        let Some(at) = places.iter().position(|place| place.bell.is_none()) else {
            return Ok(None);
        };
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = Arc::new(rustix::event::eventfd(0, flags)?);
        places[at].bell = Some(Arc::clone(&bell));
        Ok(Some(Taken { at, bell, used: places[at].used }))
    }

    pub fn give_place_back(&self, at: usize, used: [usize; 2]) {
        self.places()[at] = Place { bell: None, used };
    }

    fn places(&self) -> MutexGuard<'_, [Place; SCHEDULES_MAX]> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the kernel told; the processes of other schedules than `mine` are woken, too.
    pub fn hear(&self, mine: usize) {
        let places = self.places();
        self.kernel.take_events(|of| {
            if let Some(bell) = places.get(of).and_then(|place| place.bell.as_ref()).filter(|_| of != mine) {
                // One that is full wakes as well.
                let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
            }
        });
    }
}
