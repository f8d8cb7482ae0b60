//! A call that was compiled: its schedule, and the memory that belongs to it.

use super::call::{Call, Layout, Neighbourhood};
use super::choice::{choose, label, wants_same_bits};
use super::error::Reason;
use super::layout::{Needs, Seat, listed, total};
use super::operator::Combiner;
use super::record::{self, Parts};
use super::segments::{Cut, zero_copy_up_to};
use super::{DataType, Operation};
use castell_base::Rank;
use castell_collectives::collective::{
    Blocks, Collective, CollectiveError, Memory, Messages, Neighbours, Placement, Shape,
};
use castell_collectives::decision;
use castell_engine::board::Record;
use castell_engine::slot::bounce;
use castell_engine::slot::certificate::{Certificate, Size, certify};
use castell_engine::slot::program::{Program, Seat as SlotSeat, Segments, ZeroCopy};
use castell_engine::slot::{self, SEGMENTS_MAX};
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use castell_goal::schedule::{OpId, Schedule};
use castell_shm::job::Job;
use std::cell::{RefCell, UnsafeCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a call's buffers up to which they are copied, so that one schedule serves all addresses.
pub(crate) const STAGED_BYTES_MAX: u64 = 4096;
/// Where each rank has a processor, larger messages that are not cut in segments go through pipes, where the receiver copies
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
    /// The same as compiled programs, if its messages have slots; the schedule is the first one's.
    pub(crate) segments: Option<Arc<Segments>>,
    /// Of started calls without: all ranks send before they wait, so that nobody depends on them any more, and none need carry another
    /// one's part on.
    pub(crate) sends_first: bool,
    /// Of blocking calls of a rank that is alone: what goes from its input to its output, and all that there is to do. Bytes.
    pub(crate) alone: Option<usize>,
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
    /// On which hosts the ranks are, if on several.
    pub(crate) placement: Option<&'a Arc<Placement>>,
    /// If the context has slots: where these are.
    pub(crate) slots: Option<SlotSeat<'a>>,
    /// What is known of collectives.
    pub(crate) known: &'a Certificates,
}

/// What was found out about collectives, by signature, whether operands keep their order, and which of a call's compiled
/// programs it is.
#[derive(Default)]
pub(crate) struct Certificates(RefCell<HashMap<(u64, bool, Part), Finding>>);

/// `None`: it cannot go through slots.
type Finding = Option<Arc<Certificate>>;

/// One of a call's compiled programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// The only one, with messages of this size.
    Whole(Size),
    Segment,
    LastSegment,
    /// As if messages stayed in their senders' buffers.
    ZeroCopySegment,
    LastZeroCopySegment,
}

impl Part {
    fn size(self) -> Size {
        match self {
            Part::Whole(size) => size,
            Part::Segment | Part::LastSegment => Size::Large,
            Part::ZeroCopySegment | Part::LastZeroCopySegment => Size::ZeroCopy,
        }
    }

    /// Of what is certified as this part if it may stay in its sender's buffers.
    fn zero_copy(self) -> Option<Part> {
        match self {
            Part::Whole(Size::Large) => Some(Part::Whole(Size::ZeroCopy)),
            Part::Segment => Some(Part::ZeroCopySegment),
            Part::LastSegment => Some(Part::LastZeroCopySegment),
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
            segments: woven.segments.map(Arc::new),
            sends_first: woven.sends_first,
            alone: alone(call, key, needs, seat),
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
        let reduction = match &call.reduction {
            Some(reduction) => reduction.id(),
            None => 0,
        };
        words.is_plain
            && key.is_blocking
            && key.operation == call.operation
            && key.in_place == call.in_place
            && key.element == call.element
            && key.reduction == reduction
            && words.root == call.root
            && words.count == call.count
            && words.spans == [call.input.count, call.output.count]
            && (key.is_staged || (key.input == call.input.address && key.output == call.output.address))
            && self.details.algorithm.as_deref() == call.algorithm
            && call.leaving.is_none()
            && call.arriving.is_none()
            && call.neighbours.is_none()
    }

    /// Does what there is to do where a rank is alone.
    ///
    /// # Safety
    /// The call's buffers are what they were said to be, and so many bytes long.
    #[inline(always)]
    pub(crate) unsafe fn pass_on(call: &Call<'_>, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { copy(call.input.address as *const u8, call.output.address as *mut u8, bytes) };
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

/// See [`Instance::alone`].
fn alone(call: &Call<'_>, key: Key, needs: Needs, seat: Seat) -> Option<usize> {
    let is_plain = key.count != u64::MAX && !call.operation.is_among_neighbours();
    let stays = call.in_place
        || matches!(call.operation, Operation::Barrier | Operation::Broadcast | Operation::Exscan);
    let elements = if stays { 0 } else { needs.output.unwrap_or(0) };
    (seat.size == 1 && key.is_blocking && is_plain).then_some((elements * call.element.bytes()) as usize)
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
    record::note(&Parts {
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
    segments: Option<Segments>,
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
    let is_private = is_private(call, key);
    let bytes = bytes_each(call, count, seat.size);
    let choice = decide(call, key, surroundings, bytes)?;
    let label = label(&choice);
    let name = choice.algorithm.into_owned();
    let shape = Shape {
        ways: choice.ways,
        segment: (choice.segment_bytes / shape.element_bytes.max(1)).max(1),
        is_exact: call.reduction.as_ref().is_some_and(|reduction| reduction.is_exact(call.element)),
        placement: surroundings.placement.cloned(),
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
    let finding = || known.of(&record, Part::Whole(Size::Small), &collective, seat.rank);
    let sends_first =
        !key.is_blocking && count.is_some() && finding().is_some_and(|finding| finding.sends_first);
    // Of started calls only those in which nobody waits for a rank once it has started.
    let goes_through_slots = count.is_some() && (key.is_blocking || sends_first);
    let Some(slots) = surroundings.slots.as_ref().filter(|_| goes_through_slots) else {
        let (schedule, _) = compile(&collective, rank, &memory)?;
        return Ok(Woven { record, temporary, schedule: Arc::new(schedule.0), segments: None, sends_first });
    };
    let is_oversubscribed = seat.size > surroundings.job.processors();
    let making = Making {
        record: &record,
        rank,
        memory: &memory,
        seat: slots,
        known,
        is_oversubscribed,
        wants_addresses,
    };
    let segments = if key.is_blocking {
        let cut = Cut::of(call.operation, &name, &shape, count.unwrap_or(0), is_oversubscribed);
        let part = |cut: &Cut, elements| named(cut.part(&shape, elements)).map(with_messages);
        making.blocking(call.operation, &collective, bytes, cut, part)?
    } else {
        making.small(&collective)?
    };
    let schedule = match &segments {
        Some(segments) => Arc::clone(&segments.first.schedule),
        None => Arc::new(compile(&collective, rank, &memory)?.0.0),
    };
    Ok(Woven { record, temporary, schedule, segments, sends_first: false })
}

/// By which algorithm a call is made, of so many bytes a rank.
fn decide<'a>(
    call: &Call<'_>,
    key: Key,
    surroundings: &Surroundings<'a>,
    bytes: u64,
) -> Result<decision::Choice<'a>, Reason> {
    let (seat, is_uniform) = (surroundings.seat, key.count != u64::MAX);
    let question = decision::Question {
        commutative: call.reduction.as_ref().is_none_or(super::Reduction::commutes),
        // Where blocks lie is each rank's own business, except in reduce-scatters.
        packed: is_uniform || call.operation == Operation::ReduceScatter,
        uniform: is_uniform,
        started: !key.is_blocking,
        hosts: surroundings.placement.map_or(1, |placement| placement.hosts()),
        same_bits: wants_same_bits(),
        ..decision::Question::new(call.operation, seat.size, bytes)
    };
    let choice = choose(surroundings.job, seat.rank, call.operation, call.algorithm, &question)?;
    if is_private(call, key) && call.algorithm.is_none() {
        return Ok(decision::Choice::new(format!("{}:linear", call.operation.name())));
    }
    Ok(choice)
}

/// Whether the root alone knows the sizes of the blocks.
fn is_private(call: &Call<'_>, key: Key) -> bool {
    key.count == u64::MAX && matches!(call.operation, Operation::Gather | Operation::Scatter)
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

/// A graph compiled: the schedule, and under which ids the vertices are found there.
type Compiled = ((Schedule, Vec<OpId>), Graph);

fn compile(collective: &Collective, rank: Rank, memory: &Memory<'_>) -> Result<Compiled, Reason> {
    let mut graph = Graph::new();
    collective.weave(rank, memory, &mut graph)?;
    Ok((graph.compile_with_ids()?, graph))
}

/// Makes compiled programs of a call.
struct Making<'a> {
    record: &'a Record,
    rank: Rank,
    memory: &'a Memory<'a>,
    seat: &'a SlotSeat<'a>,
    known: &'a Certificates,
    is_oversubscribed: bool,
    wants_addresses: bool,
}

impl Making<'_> {
    /// The compiled program of a call with small messages.
    fn small(&self, whole: &Collective) -> Result<Option<Segments>, Reason> {
        Ok(self.program(Part::Whole(Size::Small), whole)?.map(|(program, _)| Segments::whole(program)))
    }

    /// The compiled programs of a blocking call, also as if messages stayed in their senders' buffers, where that may be worth while.
    fn blocking(
        &self,
        operation: Operation,
        whole: &Collective,
        bytes: u64,
        cut: Option<Cut>,
        part: impl Fn(&Cut, u64) -> Result<Collective, CollectiveError>,
    ) -> Result<Option<Segments>, Reason> {
        // Functions that are called do not tell where they read and write.
        if self.wants_addresses && bytes > slot::BYTES_MAX as u64 {
            return Ok(None);
        }
        let mut segments = self.programs(whole, bytes, cut, part)?;
        let up_to = zero_copy_up_to(operation, whole.shape().ranks, bytes, self.is_oversubscribed);
        if let (Some(segments), Some(dearness_max)) = (&mut segments, up_to) {
            let program = self.program(Part::Whole(Size::ZeroCopy), whole)?;
            segments.zero_copy = program.map(|(program, _)| ZeroCopy { program, dearness_max });
        }
        Ok(segments)
    }

    /// The compiled programs of a call; `None`: it cannot go through slots. Only what all ranks know decides. (A block's size is
    /// known to all where all have the same.)
    ///
    /// `part` has the same collective on so many elements.
    fn programs(
        &self,
        whole: &Collective,
        bytes: u64,
        cut: Option<Cut>,
        part: impl Fn(&Cut, u64) -> Result<Collective, CollectiveError>,
    ) -> Result<Option<Segments>, Reason> {
        let is_small = bytes <= slot::BYTES_MAX as u64;
        // Not every algorithm takes blocks that do not lie one behind the other.
        let first = cut.filter(|_| !is_small).and_then(|cut| Some((cut, part(&cut, cut.elements).ok()?)));
        let Some((cut, first)) = first else {
            if is_small {
                return self.small(whole);
            }
            if bytes > WHOLE_BYTES_MAX && !self.is_oversubscribed {
                return Ok(None);
            }
            let program = self.program(Part::Whole(Size::Large), whole)?;
            return Ok(program.map(|(program, _)| Segments::whole(program)));
        };
        if cut.count > SEGMENTS_MAX {
            return Ok(None);
        }
        let Some((mut first, graph)) = self.program(Part::Segment, &first)? else { return Ok(None) };
        let stride = cut.elements * whole.shape().element_bytes;
        let leaves_alone = |writer: &Graph| bounce::leaves_alone(&graph, writer, stride, cut.count);
        let mut stays = leaves_alone(&graph);
        let rest = cut.whole % cut.elements;
        let mut last = None;
        if rest > 0 {
            let Some((program, graph)) = self.program(Part::LastSegment, &part(&cut, rest)?)? else {
                return Ok(None);
            };
            stays &= leaves_alone(&graph);
            last = Some(program);
        }
        first.may_stay &= stays;
        last.iter_mut().for_each(|last| last.may_stay &= stays);
        Ok(Some(Segments { first, last, count: cut.count, stride: stride as usize, zero_copy: None }))
    }

    /// The compiled program of a part of the call; `None`: it cannot go through slots.
    fn program(&self, part: Part, collective: &Collective) -> Result<Option<(Program, Graph)>, Reason> {
        let known = |part| self.known.of(self.record, part, collective, self.rank.0);
        let Some(certificate) = known(part) else { return Ok(None) };
        if part == Part::Whole(Size::ZeroCopy) && !certificate.is_safe_in_place {
            // Nobody knows who calls in place.
            return Ok(None);
        }
        let zero_copy = part.zero_copy().and_then(known);
        let ((schedule, ids), graph) = compile(collective, self.rank, self.memory)?;
        let size = part.size();
        let schedule = (Arc::new(schedule), &ids[..]);
        let may_stay = zero_copy.is_some();
        let mut program =
            Program::new(&graph, schedule, (&certificate, size, may_stay), self.record, self.seat);
        // That it waits for others, or others for it, is known to all; what it does itself is its own business.
        program.may_stay =
            zero_copy.is_some_and(|zero_copy| zero_copy.is_safe_in_place || !self.memory.in_place);
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
    Ok(Woven { record, temporary: Box::default(), schedule, segments: None, sends_first: false })
}
