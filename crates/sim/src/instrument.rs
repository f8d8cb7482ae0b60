//! What can be watched while a program is simulated.

use castell_base::{Rank, Tag, Time};
use castell_goal::schedule::OpId;
use castell_trace::{Activity, Travel};

/// What let an operation become ready, or an event happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The beginning of the program.
    Start,
    /// An operation of the same rank that started or finished.
    Operation(OpId),
    /// The end, at its receive, of a message that this send had sent: rendezvous lets the sender go on.
    Receive(Rank, OpId),
}

/// A message under way, as instruments see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Number of the message in this run, in order of departure.
    pub number: u64,
    /// Sender.
    pub from: Rank,
    /// Receiver.
    pub to: Rank,
    /// Its label; 0 for puts and gets.
    pub tag: Tag,
    /// Its size.
    pub bytes: u64,
    /// The send, put or get.
    pub operation: OpId,
    /// When that started.
    pub started: Time,
}

/// Watches a run. Every method does nothing unless it is overridden; none can change what happens.
///
/// Instruments can be combined: a pair, an `Option` and a `Vec` of them are one, and so is `&mut` to one.
///
/// Calls come in the order in which the engine looks at things, which is nearly but not always the order of time: what
/// is certain to happen later may be told at once.
#[allow(unused_variables)]
pub trait Instrument {
    /// Everything that `operation` waited for is there; it may start at `at` if its resources are free.
    fn ready(&mut self, rank: Rank, operation: OpId, at: Time, cause: Cause) {}
    /// The operation starts.
    fn started(&mut self, rank: Rank, operation: OpId, at: Time) {}
    /// The operation has finished, or will have at `at`.
    fn finished(&mut self, rank: Rank, operation: OpId, at: Time) {}
    /// A processor of `rank` is occupied by an operation, or by the arrival of the message that one (of another rank,
    /// `sender`) sent. A `processor` of `None`: concurrent, on no processor.
    fn busy(
        &mut self,
        rank: Rank,
        processor: Option<u8>,
        activity: Activity,
        (sender, operation): (Rank, OpId),
        from: Time,
        to: Time,
    ) {
    }
    /// A message leaves its sender: its first byte is on the wire.
    fn departed(&mut self, message: &Flight, at: Time) {}
    /// A message reaches its receiver and is looked at; its data are complete at `complete`.
    fn arrived(&mut self, message: &Flight, at: Time, complete: Time) {}
    /// What the time went into from its departure until its data are complete; told directly after [`arrived`](Self::arrived).
    fn travelled(&mut self, message: &Flight, travel: Travel) {}
    /// A message meets its receive at `at`; the receive has finished at `done`.
    fn received(&mut self, message: &Flight, receive: OpId, at: Time, done: Time) {}
    /// So many receives and messages wait at a rank now.
    fn queues(&mut self, rank: Rank, at: Time, posted: usize, unexpected: usize) {}
    /// A link of the network is taken by a message.
    fn passed(&mut self, message: &Flight, link: u32, from: Time, to: Time) {}
    /// A message waits for a link of the network.
    fn contended(&mut self, message: &Flight, link: u32, from: Time, to: Time) {}
}

/// Who watches a run, if anybody does: one type, so that engines are compiled once and not for each instrument.
pub(crate) type Watcher<'a> = Option<&'a mut (dyn Instrument + 'a)>;

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blind;

impl Instrument for Blind {}

/// Passes every call on to everything in each of `$all`.
macro_rules! forward {
    ($self:ident, $($all:expr),+) => {
        fn ready(&mut $self, rank: Rank, operation: OpId, at: Time, cause: Cause) {
            $(for each in $all { each.ready(rank, operation, at, cause); })+
        }
        fn started(&mut $self, rank: Rank, operation: OpId, at: Time) {
            $(for each in $all { each.started(rank, operation, at); })+
        }
        fn finished(&mut $self, rank: Rank, operation: OpId, at: Time) {
            $(for each in $all { each.finished(rank, operation, at); })+
        }
        fn busy(
            &mut $self,
            rank: Rank,
            processor: Option<u8>,
            activity: Activity,
            operation: (Rank, OpId),
            from: Time,
            to: Time,
        ) {
            $(for each in $all { each.busy(rank, processor, activity, operation, from, to); })+
        }
        fn departed(&mut $self, message: &Flight, at: Time) {
            $(for each in $all { each.departed(message, at); })+
        }
        fn arrived(&mut $self, message: &Flight, at: Time, complete: Time) {
            $(for each in $all { each.arrived(message, at, complete); })+
        }
        fn travelled(&mut $self, message: &Flight, travel: Travel) {
            $(for each in $all { each.travelled(message, travel); })+
        }
        fn received(&mut $self, message: &Flight, receive: OpId, at: Time, done: Time) {
            $(for each in $all { each.received(message, receive, at, done); })+
        }
        fn queues(&mut $self, rank: Rank, at: Time, posted: usize, unexpected: usize) {
            $(for each in $all { each.queues(rank, at, posted, unexpected); })+
        }
        fn passed(&mut $self, message: &Flight, link: u32, from: Time, to: Time) {
            $(for each in $all { each.passed(message, link, from, to); })+
        }
        fn contended(&mut $self, message: &Flight, link: u32, from: Time, to: Time) {
            $(for each in $all { each.contended(message, link, from, to); })+
        }
    };
}

impl<I: Instrument + ?Sized> Instrument for &mut I {
    forward!(self, [&mut **self]);
}

impl<A: Instrument, B: Instrument> Instrument for (A, B) {
    forward!(self, [&mut self.0], [&mut self.1]);
}

impl<I: Instrument> Instrument for Option<I> {
    forward!(self, self.iter_mut());
}

impl<I: Instrument> Instrument for Vec<I> {
    forward!(self, self.iter_mut());
}
