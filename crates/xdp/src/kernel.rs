//! The program and its maps, in the kernel for as long as this lives.

use crate::error::XdpError;
use crate::layout::{
    self, CHANNEL_WORDS, COUNTERS, EDGES_MAX, OPERATIONS_MAX, RUNS, SCHEDULES_MAX, STEP_WORDS,
};
use crate::mapped::Mapped;
use aya::maps::{DevMap, HashMap, Map, MapData, MapError, RingBuf};
use aya::programs::links::FdLink;
use aya::programs::{ProgramError, Xdp, XdpMode};
use aya::{Ebpf, EbpfError, EbpfLoader, TestRun, TestRunOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schedules.o"));
const WHY_NOT: &str = include_str!(concat!(env!("OUT_DIR"), "/why.txt"));

/// Shortest frame that the kernel takes for a trial, with what the `user` program reads.
const QUESTION_BYTES: usize = 32;

/// What became of castell's frames at an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All that came.
    pub came: u64,
    /// Of sessions that are not here.
    pub foreign: u64,
    /// Of nobody who takes part.
    pub forged: u64,
    /// With numbers that cannot be.
    pub malformed: u64,
    /// Messages that no receive is for.
    pub unexpected: u64,
    /// Messages that were here already.
    pub doubled: u64,
    /// Messages of runs that are too far ahead.
    pub early: u64,
    /// Messages of runs that are over.
    pub late: u64,
    /// Messages that another processor took on.
    pub left_to_others: u64,
    /// Frames that were turned round with one message.
    pub alone: u64,
    /// Frames that were copied, for several messages.
    pub cloned: u64,
    /// Requests and questions that were answered.
    pub answered: u64,
    /// Messages that did not fit into the frame at hand.
    pub not_sent: u64,
}

/// Program and maps.
pub struct Kernel {
    /// Holds the programs, and the maps that they use.
    programs: Ebpf,
    pub schedules: Mapped,
    pub steps: Mapped,
    pub edges: Mapped,
    pub channels: Mapped,
    pub runs: Mapped,
    pub memories: Mapped,
    counters: Mapped,
    tables: Mutex<Tables>,
    events: Mutex<RingBuf<MapData>>,
}

/// Who is found by what.
struct Tables {
    sessions: HashMap<MapData, [u32; 4], u32>,
    lookup: HashMap<MapData, [u32; 4], u32>,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> XdpError {
    move |error| XdpError::Refused { what, error: error.to_string() }
}

/// Whether the system's answer is that this process may not.
pub fn is_forbidden(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::PermissionDenied;
        }
        next = error.source();
    }
    false
}

impl Kernel {
    /// Puts program and maps into the kernel. `interface`: for whom, in errors.
    pub fn load(interface: &str) -> Result<Kernel, XdpError> {
        if OBJECT.is_empty() {
            return Err(XdpError::NotBuilt { why: WHY_NOT });
        }
        let forbidden = || XdpError::Forbidden { interface: interface.into() };
        let loaded: Result<Ebpf, EbpfError> = EbpfLoader::new().load(OBJECT);
        let mut programs = loaded.map_err(|error| match is_forbidden(&error) {
            true => forbidden(),
            false => refused("make its maps")(&error),
        })?;
        for name in ["frame", "user", "each"] {
            let program: &mut Xdp =
                programs.program_mut(name).expect("it is in the object").try_into().expect("an XDP program");
            program.load().map_err(|error| match is_forbidden(&error) {
                true => forbidden(),
                false => refused("load it")(&error),
            })?;
        }
        let mapped = |name: &str, values: usize, bytes: usize| -> Result<Mapped, XdpError> {
            let Some(Map::Array(data)) = programs.map(name) else {
                unreachable!("`{name}` is an array of the object's")
            };
            let known = data.info().map_err(|error| refused("look at its maps")(&error))?;
            assert_eq!(
                (known.value_size() as usize, known.max_entries() as usize),
                (bytes, values),
                "layout.rs and layout.h differ in `{name}`"
            );
            let descriptor = data.fd().as_fd().try_clone_to_owned();
            let descriptor = descriptor.map_err(|error| refused("share its maps")(&error))?;
            Ok(Mapped::new(descriptor, values, bytes.next_multiple_of(8))?)
        };
        let schedules = mapped("schedules", SCHEDULES_MAX, layout::schedule::BYTES)?;
        let steps = mapped("steps", SCHEDULES_MAX, 4 * STEP_WORDS * OPERATIONS_MAX)?;
        let edges = mapped("edges", SCHEDULES_MAX, 4 * EDGES_MAX)?;
        let channels = mapped("channels", SCHEDULES_MAX, 4 * CHANNEL_WORDS * OPERATIONS_MAX)?;
        let runs = mapped("runs", SCHEDULES_MAX * RUNS, layout::run::BYTES)?;
        let memories = mapped("memories", SCHEDULES_MAX * RUNS, layout::memory::BYTES)?;
        let counters = mapped("counters", 1, 8 * 16)?;
        let mut take = |name: &str| programs.take_map(name).expect("it is in the object");
        let wrong = |error: MapError| refused("look at its maps")(&error);
        Ok(Kernel {
            schedules,
            steps,
            edges,
            channels,
            runs,
            memories,
            counters,
            tables: Mutex::new(Tables {
                sessions: take("sessions").try_into().map_err(wrong)?,
                lookup: take("lookup").try_into().map_err(wrong)?,
            }),
            events: Mutex::new(take("events").try_into().map_err(wrong)?),
            programs,
        })
    }

    fn program(&self, name: &str) -> &Xdp {
        self.programs.program(name).expect("it is in the object").try_into().expect("an XDP program")
    }

    /// From here on frames that come in at the interface go through the program, until the link that this gives is closed, however that happens.
    pub fn attach(&mut self, name: &str, index: u32, mode: XdpMode) -> Result<FdLink, XdpError> {
        let program: &mut Xdp = self
            .programs
            .program_mut("frame")
            .expect("it is in the object")
            .try_into()
            .expect("an XDP program");
        let failed = |error: ProgramError| {
            let number = system_error(&error);
            match number.and_then(|error| error.raw_os_error()) {
                Some(number)
                    if number == rustix::io::Errno::BUSY.raw_os_error()
                        || number == rustix::io::Errno::EXIST.raw_os_error() =>
                {
                    XdpError::Busy { interface: name.into() }
                }
                Some(number) if number == rustix::io::Errno::PERM.raw_os_error() => {
                    XdpError::Forbidden { interface: name.into() }
                }
                _ => refused("attach it")(&error),
            }
        };
        let id = program.attach_to_if_index(index, mode).map_err(failed)?;
        let link = program.take_link(id).map_err(failed)?;
        // One that does not end with its descriptor would outlive a process that is killed; it is taken away here.
        FdLink::try_from(link).map_err(|error| refused("attach it for as long as this process lives")(&error))
    }

    /// Ways out by which frames go through the program `each`: so many copies of one. Each way has it, as the kernel takes the program of the
    /// first frame for all that leave together.
    pub fn open_ways(&mut self, index: u32) -> Result<(), XdpError> {
        for copies in [1_u32, 2, 4, 8, 16, 32, 64] {
            let each: &Xdp = self
                .programs
                .program("each")
                .expect("it is in the object")
                .try_into()
                .expect("an XDP program");
            let each = each
                .fd()
                .and_then(|each| Ok(each.try_clone()?))
                .map_err(|error| refused("look at it")(&error))?;
            let map = self.programs.map_mut(&format!("devices_{copies}")).expect("it is in the object");
            let mut map: DevMap<&mut MapData> =
                map.try_into().map_err(|error: MapError| refused("look at its maps")(&error))?;
            for at in 0..copies {
                map.set(at, index, Some(&each), 0)
                    .map_err(|error| refused("send by the interface")(&error))?;
            }
        }
        Ok(())
    }

    /// Who is asked for: the number of the schedule that a session is for `me`.
    pub fn enter_session(&self, session: u64, me: u32, schedule: Option<u32>) -> Result<(), XdpError> {
        let key = [session as u32, (session >> 32) as u32, me, 0];
        let sessions = &mut lock(&self.tables).sessions;
        let done = match schedule {
            Some(schedule) => sessions.insert(key, schedule, 0),
            None => sessions.remove(&key),
        };
        done.map_err(|error| refused("enter a session")(&error))
    }

    /// Where something of a rank is found: its number among the peers, or a channel's.
    pub fn enter(&self, key: [u32; 4], at: Option<u32>) -> Result<(), XdpError> {
        let lookup = &mut lock(&self.tables).lookup;
        let done = match at {
            Some(at) => lookup.insert(key, at, 0),
            None => lookup.remove(&key),
        };
        done.map_err(|error| refused("enter a channel")(&error))
    }

    /// Has the program look at a run here and now, at its beginning or later. True: it did; false: a processor is at it already.
    pub fn look(&self, schedule: usize, run: u32, begins: bool) -> Result<bool, XdpError> {
        let mut question = [0; QUESTION_BYTES];
        for (word, value) in question.chunks_mut(4).zip([schedule as u32, run, begins.into()]) {
            word.copy_from_slice(&value.to_le_bytes());
        }
        let options = TestRunOptions { data_in: Some(&question), ..TestRunOptions::new() };
        let result = self.program("user").test_run(options).map_err(|error| refused("run it")(&error))?;
        match result.return_value {
            XDP_TX => Ok(true),
            XDP_DROP => Ok(false),
            other => panic!("the program has no such schedule: it ended with {other}"),
        }
    }

    /// Gives the program a frame as if it had come in: what is to be done with it, and what has become of it.
    pub fn try_frame(&self, frame: &[u8], out: &mut [u8]) -> Result<(u32, usize), XdpError> {
        let options = TestRunOptions { data_in: Some(frame), data_out: Some(out), ..TestRunOptions::new() };
        let result = self.program("frame").test_run(options).map_err(|error| refused("run it")(&error))?;
        Ok((result.return_value, result.data_size_out as usize))
    }

    /// What became of frames.
    pub fn counters(&self) -> Counters {
        let at: [u64; COUNTERS] =
            std::array::from_fn(|at| self.counters.long(0, 8 * at).load(Ordering::Relaxed));
        let [
            came,
            foreign,
            forged,
            malformed,
            unexpected,
            doubled,
            early,
            late,
            left_to_others,
            alone,
            cloned,
            answered,
            not_sent,
        ] = at;
        Counters {
            came,
            foreign,
            forged,
            malformed,
            unexpected,
            doubled,
            early,
            late,
            left_to_others,
            alone,
            cloned,
            answered,
            not_sent,
        }
    }

    /// Becomes readable when a run has ended whose process sleeps: watched by this epoll from here on.
    pub fn watch_events(&self, epoll: &OwnedFd, token: u64) -> Result<(), rustix::io::Errno> {
        castell_host::epoll::watch(epoll, lock(&self.events).as_fd(), token, false)
    }

    /// Takes what was told: of which schedules runs have ended.
    pub fn take_events(&self, mut of: impl FnMut(usize)) {
        let mut events = lock(&self.events);
        while let Some(event) = events.next() {
            of(u32::from_ne_bytes(*event.first_chunk().expect("an event has two words")) as usize);
        }
    }
}

/// What the program says about a frame.
pub const XDP_DROP: u32 = 1;
pub const XDP_PASS: u32 = 2;
pub const XDP_TX: u32 = 3;
pub const XDP_REDIRECT: u32 = 4;

fn system_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        next = error.source();
    }
    None
}
