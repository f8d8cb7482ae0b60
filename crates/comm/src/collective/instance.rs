//! A call that was compiled: its schedule, and the memory that belongs to it.

use super::board::{Parts, Record};
use super::call::{Call, Layout, Neighbourhood};
use super::choice::{choose, label};
use super::error::Reason;
use super::layout::{Needs, Seat, listed, total};
use super::operator::Combiner;
use super::{DataType, Operation};
use crate::job::Job;
use crate::slot::certificate::{Certificate, Size, certify};
use crate::slot::heap;
use crate::slot::program::{Program, Seat as SlotSeat, Strips};
use crate::slot::{self, HEAP_BYTES, STRIPS_MAX};
use castell_base::Rank;
use castell_collectives::collective::{
    Blocks, Collective, CollectiveError, Memory, Messages, Neighbours, Shape,
};
use castell_collectives::decision;
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use castell_goal::schedule::{OpId, Schedule};
use std::cell::{RefCell, UnsafeCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a call's buffers up to which they are copied, so that one schedule serves all addresses.
pub(crate) const STAGED_BYTES_MAX: u64 = 4096;
/// Strips in which large vectors and blocks are worked on: one rank copies a strip while another one copies or reduces the one
/// before. Bytes.
const STRIP_BYTES: u64 = 32 << 10;
/// Where ranks share processors each strip costs changes of processes. Bytes.
const STRIP_BYTES_CROWDED: u64 = 512 << 10;
/// From here on blocks are read out of the senders' own buffers where one rank needs each of them. Bytes.
const SHOWN_BYTES_MIN: u64 = 256 << 10;
/// The same where the sender's copy into its heap is hidden well. Bytes.
const SHOWN_LATE_BYTES_MIN: u64 = 384 << 10;
/// The same of vectors of two ranks that are reduced. Bytes.
const SHOWN_VECTOR_BYTES_MIN: u64 = 2 << 20;
/// Where each rank has a processor, larger messages that are not cut in strips go through pipes, where the receiver copies
/// while the sender does. Bytes.
const WHOLE_BYTES_MAX: u64 = 128 << 10;

/// What makes two calls alike, as far as it fits a few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) operation: Operation,
    pub(crate) in_place: bool,
    pub(crate) is_staged: bool,
    /// The caller waits for its end.
    pub(crate) is_blocking: bool,
    pub(crate) root: u32,
    pub(crate) element: DataType,
    pub(crate) reduction: u64,
    /// `u64::MAX`: blocks of different sizes.
    pub(crate) count: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// The rest of it, for calls that have more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    algorithm: Option<Box<str>>,
    layouts: [Option<OwnedLayout>; 2],
    neighbours: Option<(Vec<Rank>, Vec<Rank>)>,
    spans: [u64; 2],
}

type OwnedLayout = (Vec<u64>, Option<Vec<u64>>);

impl Details {
    fn of(call: &Call<'_>) -> Details {
        let own = |layout: Layout<'_>| (layout.counts.to_vec(), layout.starts.map(<[u64]>::to_vec));
        let neighbours = |them: Neighbourhood<'_>| (them.sources.to_vec(), them.destinations.to_vec());
        Details {
            algorithm: call.algorithm.map(Into::into),
            layouts: [call.leaving.map(own), call.arriving.map(own)],
            neighbours: call.neighbours.map(neighbours),
            spans: Details::spans(call),
        }
    }

    /// The sizes of buffers follow from the count where there is one.
    fn spans(call: &Call<'_>) -> [u64; 2] {
        match call.count {
            super::Count::Listed => [call.input.count, call.output.count],
            _ => [0; 2],
        }
    }

    pub(crate) fn are_of(&self, call: &Call<'_>) -> bool {
        let same = |own: &Option<OwnedLayout>, layout: Option<Layout<'_>>| match (own, layout) {
            (None, None) => true,
            (Some((counts, starts)), Some(layout)) => {
                counts == layout.counts && starts.as_deref() == layout.starts
            }
            _ => false,
        };
        let neighbours = match (&self.neighbours, call.neighbours) {
            (None, None) => true,
            (Some((sources, destinations)), Some(them)) => {
                sources == them.sources && destinations == them.destinations
            }
            _ => false,
        };
        self.algorithm.as_deref() == call.algorithm
            && same(&self.layouts[0], call.leaving)
            && same(&self.layouts[1], call.arriving)
            && neighbours
            && self.spans == Details::spans(call)
    }
}

/// A call in the words in which the next one like it differs or not, whatever its layout and its neighbours are.
struct Words {
    root: Option<u32>,
    count: super::Count,
    spans: [u64; 2],
    /// There are no blocks of different sizes and no neighbours.
    is_plain: bool,
}

impl Words {
    fn of(call: &Call<'_>) -> Words {
        let is_plain = call.leaving.is_none() && call.arriving.is_none() && call.neighbours.is_none();
        let spans = [call.input.count, call.output.count];
        Words { root: call.root, count: call.count, spans, is_plain }
    }
}

/// Memory that the program's buffers are copied to and from.
struct Staging {
    words: Box<[u128]>,
    /// Bytes that are copied in: the input, and what the output holds before.
    input: usize,
    before: usize,
    /// Bytes of the output that the call writes.
    after: usize,
}

/// A compiled call. One run at a time.
pub(crate) struct Instance {
    pub(crate) key: Key,
    pub(crate) details: Details,
    /// The call that it was compiled for.
    words: Words,
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) record: Record,
    /// The same as straight lines, if its messages have slots; the schedule is the first one's.
    pub(crate) strips: Option<Strips>,
    /// Of started calls: all ranks send before they wait, so that nobody depends on them any more, and none need carry another
    /// one's part on.
    pub(crate) sends_first: bool,
    /// Somebody uses it.
    pub(crate) is_busy: AtomicBool,
    staging: Option<UnsafeCell<Staging>>,
    /// For alltoalls in place: where the blocks that leave are copied to first.
    saved: Option<UnsafeCell<Box<[u128]>>>,
    saved_bytes: usize,
    _temporary: Box<[u128]>,
    _combiner: Combiner,
}

// SAFETY: the cells are used by whoever set `is_busy`, and by the schedule's runs that it started; kernels are only read,
// and their functions may be called from any thread.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

fn words(bytes: u64) -> Box<[u128]> {
    vec![0; bytes.div_ceil(16) as usize].into_boxed_slice()
}

/// What surrounds a call.
pub(crate) struct Surroundings<'a> {
    pub(crate) job: &'a Job,
    pub(crate) seat: Seat,
    /// The ranks of the communicator; `None`: the world.
    pub(crate) members: Option<&'a Arc<[Rank]>>,
    /// Of blocking calls whose context has slots: where these are.
    pub(crate) slots: Option<SlotSeat<'a>>,
    /// What is known of collectives.
    pub(crate) known: &'a Certificates,
}

/// What was found out about collectives, by signature, whether operands keep their order, and which of a call's straight
/// lines it is.
#[derive(Default)]
pub(crate) struct Certificates(RefCell<HashMap<(u64, bool, Part), Finding>>);

/// `None`: it cannot go through slots.
type Finding = Option<Arc<Certificate>>;

/// One of a call's straight lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// The only one, with messages of this size.
    Whole(Size),
    Strip,
    LastStrip,
    /// As if messages stayed in their senders' buffers.
    ShownStrip,
    LastShownStrip,
}

impl Part {
    fn size(self) -> Size {
        match self {
            Part::Whole(size) => size,
            Part::Strip | Part::LastStrip => Size::Large,
            Part::ShownStrip | Part::LastShownStrip => Size::Shown,
        }
    }

    /// Of what is certified as this part if it may stay in its sender's buffers.
    fn shown(self) -> Option<Part> {
        match self {
            Part::Whole(Size::Large) => Some(Part::Whole(Size::Shown)),
            Part::Strip => Some(Part::ShownStrip),
            Part::LastStrip => Some(Part::LastShownStrip),
            _ => None,
        }
    }
}

/// Collectives of which it is kept whether they can go through slots.
const CERTIFICATES: usize = 512;

impl Certificates {
    fn of(&self, record: &Record, part: Part, collective: &Collective, rank: u32) -> Finding {
        let mut known = self.0.borrow_mut();
        if known.len() >= CERTIFICATES {
            known.clear();
        }
        let size = part.size();
        let find = || certify(collective, rank, size).map(Arc::new);
        let in_order = collective.shape().in_order;
        known.entry((record.signature(), in_order, part)).or_insert_with(find).clone()
    }
}

impl Instance {
    /// Compiles a call.
    pub(crate) fn new(
        call: &Call<'_>,
        key: Key,
        needs: Needs,
        surroundings: &Surroundings<'_>,
    ) -> Result<Instance, Reason> {
        let seat = surroundings.seat;
        let width = call.element.bytes();
        let combiner = match &call.reduction {
            Some(reduction) => Combiner::new(reduction, call.element).map_err(Reason::Argument)?,
            None => Combiner::Local(
                Arithmetic::new(Operator::Copy, ElementType::U8).expect("bytes can be copied"),
            ),
        };
        let staging = key.is_staged.then(|| stage(call, needs, width, seat));
        let staged_at = staging.as_ref().map_or(0, |staging| staging.words.as_ptr() as u64);
        let output_at = staging.as_ref().map_or(0, |staging| staging.input.next_multiple_of(16) as u64);
        let mut input = if key.is_staged { staged_at } else { call.input.address };
        let output = if key.is_staged { staged_at + output_at } else { call.output.address };
        let mut in_place = call.in_place;
        let saves = in_place && call.operation == Operation::Alltoall;
        let saved_bytes = if saves { needs.output.unwrap_or(0) * width } else { 0 };
        let saved = saves.then(|| words(saved_bytes));
        if let Some(saved) = &saved {
            (input, in_place) = (saved.as_ptr() as u64, false);
        }
        let memory = Memory {
            input: Place::user(input),
            output: Place::user(output),
            temporary: Place::scratch(0),
            in_place,
            combine: &combiner,
        };
        let woven = if call.operation.is_among_neighbours() {
            exchange(call, key, surroundings, &memory)?
        } else {
            weave(call, key, surroundings, memory, combiner.wants_addresses())?
        };
        Ok(Instance {
            key,
            details: Details::of(call),
            words: Words::of(call),
            schedule: woven.schedule,
            record: woven.record,
            strips: woven.strips,
            sends_first: woven.sends_first,
            is_busy: AtomicBool::new(true),
            staging: staging.map(UnsafeCell::new),
            saved: saved.map(UnsafeCell::new),
            saved_bytes: saved_bytes as usize,
            _temporary: woven.temporary,
            _combiner: combiner,
        })
    }

    /// Whether a blocking call in the same communicator is the very same as that which this was compiled for, which has passed
    /// all checks: a quick look, and false where it would take a long one.
    #[inline(always)]
    pub(crate) fn is_again(&self, call: &Call<'_>) -> bool {
        let (key, words) = (&self.key, &self.words);
        words.is_plain
            && key.is_blocking
            && key.operation == call.operation
            && key.in_place == call.in_place
            && key.element == call.element
            && key.reduction == call.reduction.as_ref().map_or(0, super::Reduction::id)
            && words.root == call.root
            && words.count == call.count
            && words.spans == [call.input.count, call.output.count]
            && (key.is_staged || (key.input == call.input.address && key.output == call.output.address))
            && self.details.algorithm.as_deref() == call.algorithm
            && call.leaving.is_none()
            && call.arriving.is_none()
            && call.neighbours.is_none()
    }

    /// Brings the program's data to where the schedule reads it.
    ///
    /// # Safety
    /// The caller has the instance for itself, and the call's buffers are what they were said to be.
    #[inline]
    pub(crate) unsafe fn bring_in(&self, call: &Call<'_>) {
        if let Some(staging) = &self.staging {
            // SAFETY: the instance is the caller's alone; sizes were checked against the buffers.
            unsafe {
                let staging = &mut *staging.get();
                let base = staging.words.as_mut_ptr().cast::<u8>();
                copy(call.input.address as *const u8, base, staging.input);
                let output = base.add(staging.input.next_multiple_of(16));
                copy(call.output.address as *const u8, output, staging.before);
            }
        }
        // SAFETY: as above.
        unsafe { self.save(call.output.address) };
    }

    /// Copies what an alltoall in place sends.
    ///
    /// # Safety
    /// As for [`Instance::bring_in`].
    #[inline]
    pub(crate) unsafe fn save(&self, output: u64) {
        if let Some(saved) = &self.saved {
            // SAFETY: the caller's promise.
            unsafe { copy(output as *const u8, (*saved.get()).as_mut_ptr().cast(), self.saved_bytes) };
        }
    }

    /// Brings the result to the program.
    ///
    /// # Safety
    /// As for [`Instance::bring_in`]; the run has ended.
    #[inline]
    pub(crate) unsafe fn bring_out(&self, call: &Call<'_>) {
        let Some(staging) = &self.staging else { return };
        // SAFETY: as in `bring_in`.
        unsafe {
            let staging = &*staging.get();
            let output = staging.words.as_ptr().cast::<u8>().add(staging.input.next_multiple_of(16));
            copy(output, call.output.address as *mut u8, staging.after);
        }
    }

    /// Takes it, if nobody has it.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        let is_busy = self.is_busy.load(Ordering::Acquire);
        if !is_busy {
            self.is_busy.store(true, Ordering::Relaxed);
        }
        !is_busy
    }

    /// Gives it back.
    #[inline]
    pub(crate) fn release(&self) {
        self.is_busy.store(false, Ordering::Release);
    }
}

/// # Safety
/// Both are valid for so many bytes, and apart.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
        0 => {}
        // The usual size, without a call.
        // SAFETY: the caller's promise.
        8 => unsafe { to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()) },
        // SAFETY: the caller's promise.
        _ => unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) },
    }
}

fn stage(call: &Call<'_>, needs: Needs, width: u64, seat: Seat) -> Staging {
    let input = (needs.input.unwrap_or(0) * width) as usize;
    let output = (needs.output.unwrap_or(0) * width) as usize;
    let is_root = call.root == Some(seat.rank);
    let comes_in = match call.operation {
        Operation::Broadcast => is_root,
        Operation::Scatter => false,
        _ => call.in_place,
    };
    let keeps = match call.operation {
        // Rank 0 gets nothing.
        Operation::Exscan => seat.rank == 0,
        Operation::Broadcast => is_root,
        _ => false,
    };
    let before = if comes_in { output } else { 0 };
    let after = if keeps { 0 } else { output };
    // Of a reduce-scatter in place only the start is the result, but the rest is what it was.
    Staging { words: words((input.next_multiple_of(16) + output) as u64), input, before, after }
}

/// What all ranks know of the call.
fn record(call: &Call<'_>, key: Key, count: Option<u64>, algorithm: &str) -> Record {
    let known = match (count, call.operation) {
        (Some(count), _) => count,
        (None, Operation::Allgather) => total(call.arriving),
        (None, Operation::ReduceScatter) => total(call.leaving),
        (None, _) => 0,
    };
    let width = call.element.bytes();
    let reduction = call.reduction.as_ref();
    // Where nothing is reduced only the bytes count.
    let (element, count, element_bytes) = match reduction {
        Some(_) => (call.element.code(), known, width),
        None => (0, known.saturating_mul(width), 1),
    };
    Record::new(&Parts {
        operation: call.operation as u8,
        operator: reduction.map_or(0, super::Reduction::code),
        element,
        root: call.root,
        count,
        element_bytes,
        is_started: !key.is_blocking,
        algorithm,
    })
}

fn messages(record: &Record, surroundings: &Surroundings<'_>, even_empty: bool) -> Messages {
    Messages { first_tag: record.first_tag(), members: surroundings.members.cloned(), even_empty }
}

/// What is known once a graph is made.
struct Woven {
    /// What all ranks know of the call.
    record: Record,
    /// The temporary memory that has addresses.
    temporary: Box<[u128]>,
    schedule: Arc<Schedule>,
    /// If it can go through slots.
    strips: Option<Strips>,
    /// Of calls that do not: see [`Instance::sends_first`].
    sends_first: bool,
}

/// Makes the schedule of a collective.
fn weave(
    call: &Call<'_>,
    key: Key,
    surroundings: &Surroundings<'_>,
    memory: Memory<'_>,
    wants_addresses: bool,
) -> Result<Woven, Reason> {
    let seat = surroundings.seat;
    let count = (key.count != u64::MAX).then_some(key.count);
    let shape = seat.shape(call, count);
    let commutes = call.reduction.as_ref().is_none_or(super::Reduction::commutes);
    let is_private = count.is_none() && matches!(call.operation, Operation::Gather | Operation::Scatter);
    let bytes = bytes_each(call, count, seat.size);
    let question = decision::Question {
        commutative: commutes,
        // Where blocks lie is each rank's own business, except in reduce-scatters.
        packed: count.is_some() || call.operation == Operation::ReduceScatter,
        uniform: count.is_some(),
        started: !key.is_blocking,
        ..decision::Question::new(call.operation, seat.size, bytes)
    };
    let choice = choose(surroundings.job, seat.rank, call.operation, call.algorithm, &question)?;
    let choice = if is_private && call.algorithm.is_none() {
        decision::Choice::new(format!("{}:linear", call.operation.name()))
    } else {
        choice
    };
    let label = label(&choice);
    let name = choice.algorithm.into_owned();
    let shape = Shape {
        ways: choice.ways,
        segment: (choice.segment_bytes / shape.element_bytes.max(1)).max(1),
        ..shape
    };
    let private = is_private || (count.is_none() && call.operation == Operation::Alltoall);
    if is_private && !matches!(name.split_once(':'), Some((_, "linear" | "linear-sync"))) {
        let text = format!("{name} needs blocks whose sizes all ranks know: take `linear` or `linear-sync`");
        return Err(Reason::Argument(text));
    }
    let record = record(call, key, count, &label);
    let named =
        |shape| if commutes { Collective::new(&name, shape) } else { Collective::in_order(&name, shape) };
    let with_messages =
        |collective: Collective| collective.with_messages(messages(&record, surroundings, private));
    let collective = with_messages(named(shape.clone())?);
    let rank = Rank(seat.rank);
    let is_empty = collective.shape().element_bytes == 0;
    let void = |place: Place| if is_empty { Place::VOID } else { place };
    let mut memory = Memory { input: void(memory.input), output: void(memory.output), ..memory };
    let mut temporary = Box::default();
    if wants_addresses && !is_empty {
        temporary = words(collective.temporary_bytes(rank, memory.in_place)?);
        memory.temporary = Place::user(<[u128]>::as_ptr(&temporary) as u64);
    }
    let known = surroundings.known;
    let Some(slots) = surroundings.slots.as_ref().filter(|_| count.is_some()) else {
        let (schedule, _) = compile(&collective, rank, &memory)?;
        let finding = || known.of(&record, Part::Whole(Size::Small), &collective, seat.rank);
        let sends_first =
            !key.is_blocking && count.is_some() && finding().is_some_and(|finding| finding.sends_first);
        return Ok(Woven { record, temporary, schedule: Arc::new(schedule.0), strips: None, sends_first });
    };
    let making = Making { record: &record, rank, memory: &memory, seat: slots, known };
    let is_crowded = seat.size > surroundings.job.processors();
    let cut = Cut::of(call.operation, &name, &shape, count.unwrap_or(0), is_crowded);
    // Functions that are called do not tell where they read and write.
    let bytes_max = if wants_addresses { slot::BYTES_MAX as u64 } else { u64::MAX };
    let part = |cut: &Cut, elements| named(cut.part(&shape, elements)).map(with_messages);
    let mut strips =
        if bytes <= bytes_max { making.straight(&collective, bytes, cut, is_crowded, part)? } else { None };
    let shows = shown_from(call.operation, seat.size, is_crowded).is_some_and(|least| bytes >= least);
    if let Some(strips) = strips.as_mut().filter(|_| shows) {
        strips.shown = making.program(Part::Whole(Size::Shown), &collective)?.map(|(program, _)| program);
    }
    let schedule = match &strips {
        Some(strips) => Arc::clone(&strips.first.schedule),
        None => Arc::new(compile(&collective, rank, &memory)?.0.0),
    };
    Ok(Woven { record, temporary, schedule, strips, sends_first: false })
}

/// How many bytes a rank has, on average where they differ.
fn bytes_each(call: &Call<'_>, count: Option<u64>, ranks: u32) -> u64 {
    let elements = match (count, call.operation) {
        (Some(count), _) => return count * call.element.bytes(),
        (None, Operation::Allgather) => total(call.arriving),
        (None, Operation::ReduceScatter) => total(call.leaving),
        (None, _) => 0,
    };
    elements * call.element.bytes() / u64::from(ranks)
}

/// From how many bytes on messages of an operation are read out of their senders' buffers: where each is read by one rank. What
/// several read is faster out of a heap, where it is copied once, and page by page by nobody. Where data goes one way and
/// each rank has a processor, sender and receiver work at the same time on strips.
fn shown_from(operation: Operation, ranks: u32, is_crowded: bool) -> Option<u64> {
    match operation {
        Operation::Alltoall => Some(SHOWN_BYTES_MIN),
        Operation::Scatter if is_crowded => Some(SHOWN_BYTES_MIN),
        Operation::Allgather if ranks == 2 => Some(SHOWN_LATE_BYTES_MIN),
        Operation::Allreduce if ranks == 2 => Some(SHOWN_VECTOR_BYTES_MIN),
        _ => None,
    }
}

/// How the vectors of a call, or the blocks of each rank, are cut in strips.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Elements of a strip, but for the last one.
    elements: u64,
    /// How many strips there are.
    count: u64,
    /// Elements of what is cut.
    whole: u64,
    /// Each rank has a block, and all of them are cut alike.
    has_blocks: bool,
}

impl Cut {
    /// `None`: it stays in one piece, since it is small, or since results would depend on where elements lie.
    fn of(operation: Operation, name: &str, shape: &Shape, count: u64, is_crowded: bool) -> Option<Cut> {
        let has_blocks = match operation {
            Operation::Allreduce | Operation::Broadcast | Operation::Reduce => false,
            Operation::Gather | Operation::Scatter | Operation::Allgather => true,
            Operation::Alltoall | Operation::ReduceScatter => true,
            _ => return None,
        };
        // Round a ring each part of a vector begins with another rank.
        if name == "allreduce:ring" || shape.element_bytes == 0 {
            return None;
        }
        let whole = if has_blocks { count } else { shape.count };
        let line = 64u64.div_ceil(shape.element_bytes);
        let most = match operation {
            _ if is_crowded => STRIP_BYTES_CROWDED,
            // All copy at the same time anyhow.
            _ if !operation.is_one_way() => 2 * STRIP_BYTES,
            _ => STRIP_BYTES,
        };
        let sends_many =
            matches!(operation, Operation::Scatter | Operation::Alltoall | Operation::ReduceScatter);
        let room = HEAP_BYTES as u64 / if sends_many { u64::from(shape.ranks) } else { 1 };
        let most = (most.min(room) / shape.element_bytes).max(1);
        // An odd number: strips and calls take turns with two heaps.
        let wanted = whole.div_ceil(most) | 1;
        let elements = whole.div_ceil(wanted).next_multiple_of(line).min(whole);
        let count = whole.div_ceil(elements.max(1));
        (count > 1).then_some(Cut { elements, count, whole, has_blocks })
    }

    /// The shape of a strip of so many elements: the first one.
    fn part(&self, shape: &Shape, elements: u64) -> Shape {
        if !self.has_blocks {
            return Shape { count: elements, ..shape.clone() };
        }
        let block = |rank| (u64::from(rank) * self.whole, elements);
        let blocks = Blocks::Listed((0..shape.ranks).map(block).collect());
        // A vector that is reduced is as long as all blocks.
        let count = shape.count / self.whole * elements;
        Shape { count, arriving: blocks.clone(), blocks, ..shape.clone() }
    }
}

/// A graph compiled: the schedule, and under which ids the vertices are found there.
type Compiled = ((Schedule, Vec<OpId>), Graph);

fn compile(collective: &Collective, rank: Rank, memory: &Memory<'_>) -> Result<Compiled, Reason> {
    let mut graph = Graph::new();
    collective.weave(rank, memory, &mut graph)?;
    Ok((graph.compile_with_ids()?, graph))
}

/// Makes straight lines of a call.
struct Making<'a> {
    record: &'a Record,
    rank: Rank,
    memory: &'a Memory<'a>,
    seat: &'a SlotSeat<'a>,
    known: &'a Certificates,
}

impl Making<'_> {
    /// The straight lines of a call; `None`: it cannot go through slots. Only what all ranks know decides. (A block's size is
    /// known to all where all have the same.)
    ///
    /// `part` has the same collective on so many elements.
    fn straight(
        &self,
        whole: &Collective,
        bytes: u64,
        cut: Option<Cut>,
        is_crowded: bool,
        part: impl Fn(&Cut, u64) -> Result<Collective, CollectiveError>,
    ) -> Result<Option<Strips>, Reason> {
        let is_small = bytes <= slot::BYTES_MAX as u64;
        // Not every algorithm takes blocks that do not lie one behind the other.
        let first = cut.filter(|_| !is_small).and_then(|cut| Some((cut, part(&cut, cut.elements).ok()?)));
        let Some((cut, first)) = first else {
            if bytes > WHOLE_BYTES_MAX && !is_crowded {
                return Ok(None);
            }
            let size = if is_small { Size::Small } else { Size::Large };
            return Ok(self.program(Part::Whole(size), whole)?.map(|(program, _)| Strips::whole(program)));
        };
        if cut.count > STRIPS_MAX {
            return Ok(None);
        }
        let Some((mut first, graph)) = self.program(Part::Strip, &first)? else { return Ok(None) };
        let stride = cut.elements * whole.shape().element_bytes;
        let leaves_alone = |writer: &Graph| heap::leaves_alone(&graph, writer, stride, cut.count);
        let mut stays = leaves_alone(&graph);
        let rest = cut.whole % cut.elements;
        let mut last = None;
        if rest > 0 {
            let Some((program, graph)) = self.program(Part::LastStrip, &part(&cut, rest)?)? else {
                return Ok(None);
            };
            stays &= leaves_alone(&graph);
            last = Some(program);
        }
        first.may_stay &= stays;
        last.iter_mut().for_each(|last| last.may_stay &= stays);
        Ok(Some(Strips { first, last, count: cut.count, stride: stride as usize, shown: None }))
    }

    /// The straight line of a part of the call; `None`: it cannot go through slots.
    fn program(&self, part: Part, collective: &Collective) -> Result<Option<(Program, Graph)>, Reason> {
        let known = |part| self.known.of(self.record, part, collective, self.rank.0);
        let Some(certificate) = known(part) else { return Ok(None) };
        if part == Part::Whole(Size::Shown) && !certificate.is_safe_in_place {
            // Nobody knows who calls in place.
            return Ok(None);
        }
        let shown = part.shown().and_then(known);
        let ((schedule, ids), graph) = compile(collective, self.rank, self.memory)?;
        let size = part.size();
        let schedule = (Arc::new(schedule), &ids[..]);
        let may_stay = shown.is_some();
        let mut program =
            Program::new(&graph, schedule, (&certificate, size, may_stay), self.record, self.seat);
        // That it waits for others, or others for it, is known to all; what it does itself is its own business.
        program.may_stay = shown.is_some_and(|shown| shown.is_safe_in_place || !self.memory.in_place);
        Ok(Some((program, graph)))
    }
}

/// Makes the schedule of a neighbour collective.
fn exchange(
    call: &Call<'_>,
    key: Key,
    surroundings: &Surroundings<'_>,
    memory: &Memory<'_>,
) -> Result<Woven, Reason> {
    let seat = surroundings.seat;
    if call.algorithm.is_some() {
        return Err(Reason::Argument("neighbour collectives have one algorithm only".into()));
    }
    if call.in_place {
        return Err(Reason::Argument("neighbour collectives have no calls in place".into()));
    }
    let them = call.neighbours.expect("neighbour collectives have neighbours");
    let shared = |layout: Option<Layout<'_>>, count: u64, blocks: usize| match layout {
        Some(_) => Ok(listed(layout)),
        None if blocks == 0 => Ok(Blocks::Uniform(0)),
        None if count.is_multiple_of(blocks as u64) => Ok(Blocks::Uniform(count / blocks as u64)),
        None => Err(Reason::Argument(format!(
            "{count} elements cannot be cut in a block for each of {blocks} neighbours"
        ))),
    };
    let all_the_same = call.operation == Operation::NeighbourAllgather;
    let leaving = if all_the_same {
        Blocks::Uniform(call.input.count)
    } else {
        shared(call.leaving, call.input.count, them.destinations.len())?
    };
    let neighbours = Neighbours {
        sources: them.sources.to_vec(),
        destinations: them.destinations.to_vec(),
        element_bytes: call.element.bytes(),
        leaving,
        arriving: shared(call.arriving, call.output.count, them.sources.len())?,
    };
    let record = record(call, key, None, "");
    let messages = messages(&record, surroundings, true);
    let mut graph = Graph::new();
    neighbours.with_messages(&messages, all_the_same, Rank(seat.rank), memory, &mut graph)?;
    let schedule = Arc::new(graph.compile_with_ids()?.0);
    Ok(Woven { record, temporary: Box::default(), schedule, strips: None, sends_first: false })
}
