//! Groups of ranks over real sockets in one thread: the clock is the test's, so that nothing depends on how busy the machine is, and
//! whoever finds nothing while something is under way gives the system a moment.

#[path = "../../../transport/tests/patient/mod.rs"]
mod patient;
pub mod relay;

use castell_base::{Lent, Rank};
use castell_tcp::{Clock, Secret, Settings, Tcp, TcpOptions};
use castell_transport::conformance::Group;
use castell_transport::faults::{Faults, Faulty, Profile};
use castell_transport::{Address, Down};
use patient::{Between, Patient, Shared, UnderWay, lock};
use relay::{Relay, Weather};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// How much time each look takes, and how much while a path's end is waited for.
const TICK_NS: u64 = 2_000;
const QUICK_TICK_NS: u64 = 50_000;

/// The relay works once in so many looks: it makes a system call for each door and connection.
const LOOKS_A_PUMP: u64 = 8;

/// What kind of group.
#[derive(Clone, Debug)]
pub struct Options {
    pub listen: Vec<IpAddr>,
    pub encrypts: bool,
    pub message_bytes_max: usize,
    pub window_bytes: usize,
    pub profile: Profile,
    /// All connections go through a relay in which this happens.
    pub weather: Option<Weather>,
    /// How many connections that relay has harmed.
    pub harmed: Arc<AtomicU64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: vec![V4],
            encrypts: false,
            message_bytes_max: 5000,
            window_bytes: 1 << 16,
            profile: Profile::default(),
            weather: None,
            harmed: Arc::default(),
        }
    }
}

/// What is between the ranks of a group: perhaps a relay, and the clock.
#[derive(Default)]
pub struct World {
    under_way: UnderWay,
    relay: Option<Relay>,
    clock: Arc<AtomicU64>,
    tick_ns: u64,
    looks: u64,
}

impl Between for World {
    fn under_way(&mut self) -> &mut UnderWay {
        &mut self.under_way
    }

    fn moves_on(&mut self) {
        self.clock.fetch_add(self.tick_ns, Ordering::Relaxed);
        self.looks += 1;
        if let Some(relay) = self.relay.as_mut().filter(|_| self.looks.is_multiple_of(LOOKS_A_PUMP)) {
            relay.pump();
        }
    }

    fn is_busy(&self) -> bool {
        self.relay.is_some()
    }

    fn door(&mut self, from: u32, to: u32, at: &Address) -> Option<Address> {
        self.relay.as_mut().map(|relay| relay.stand_before(from, to, at))
    }
}

type End = Patient<Faulty<Tcp>, World>;

pub struct Ranks {
    world: Shared<World>,
    ends: Vec<End>,
    make: Box<dyn Fn(u32) -> End>,
}

impl Ranks {
    pub fn new(ranks: u32, seed: u64, options: &Options) -> Ranks {
        let clock = Arc::new(AtomicU64::new(1_000_000_000));
        let relay = options.weather.map(|weather| Relay::new(seed, weather, Arc::clone(&options.harmed)));
        let world = World { relay, clock: Arc::clone(&clock), tick_ns: TICK_NS, ..World::default() };
        let world: Shared<World> = Arc::new(Mutex::new(world));
        let settings = Settings {
            message_bytes_max: options.message_bytes_max,
            placed_bytes_min: 64,
            window_bytes: options.window_bytes,
            acknowledge_ns: 2_000_000,
            redial_ns: 500_000,
            resume_ns: 60_000_000,
            ..Settings::default()
        };
        let (listen, encrypts) = (options.listen.clone(), options.encrypts);
        let tcp =
            TcpOptions { listen, settings, clock: Clock::Virtual(clock), dials_from_there: true, encrypts };
        let secret = Secret::new([seed as u8; 32]);
        let faults = Faults::new(seed, options.profile);
        let shared = Arc::clone(&world);
        let make = move |rank| {
            let inner = Tcp::new(Rank(rank), ranks, secret.clone(), &tcp).expect("a socket");
            Patient { inner: faults.wrap(Rank(rank), inner), me: rank, world: Arc::clone(&shared) }
        };
        Ranks { world, ends: (0..ranks).map(&make).collect(), make: Box::new(make) }
    }
}

impl Group for Ranks {
    type Transport = End;

    fn transport(&mut self, rank: Rank) -> &mut End {
        lock(&self.world).moves_on();
        &mut self.ends[rank.index()]
    }

    fn end(&mut self, rank: Rank, why: Down) -> bool {
        match why {
            Down::Died => {
                lock(&self.world).under_way.forget(rank.0);
                // The system closes its sockets; the launcher tells the others.
                self.ends[rank.index()] = (self.make)(rank.0);
                for end in self.ends.iter_mut().filter(|end| end.me != rank.0) {
                    end.inner.inner().is_gone(rank, Down::Died);
                }
            }
            Down::Left => self.ends[rank.index()].inner.inner().leave(),
            Down::PathLost => {
                let mut world = lock(&self.world);
                world.under_way.forget(rank.0);
                world.tick_ns = QUICK_TICK_NS;
                let Some(relay) = &mut world.relay else { return false };
                relay.sever(0, rank.0);
            }
        }
        true
    }

    /// Through a relay that cuts, what is under way may need many attempts.
    fn patience(&self) -> usize {
        let world = lock(&self.world);
        if world.relay.is_some() && world.under_way.is_something() { 100_000 } else { 3000 }
    }

    fn memory(&mut self, _rank: Rank, bytes: usize) -> Lent {
        Lent::leak(bytes)
    }
}
