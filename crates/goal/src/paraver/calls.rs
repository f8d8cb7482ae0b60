//! A thread's MPI calls, and which messages each of them sent, asked for and got.

use super::records::{Detail, Mark, Message, Thread};

/// What a call does for the thread that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sends, and comes back when the buffer may be used again.
    Send,
    /// Comes back at once.
    ImmediateSend,
    Recv,
    ImmediateRecv,
    SendRecv,
    /// Starts persistent sends and receives.
    Start,
    /// Comes back when one request is done.
    Wait,
    WaitAll,
    /// Comes back when it is known which requests are done, if any.
    WaitSome,
    Collective,
    OneSided,
    /// Collective calls among neighbours, of whom the trace does not tell.
    Neighbour,
    /// The end of all.
    Finalize,
    Other,
}

impl Kind {
    /// The kind of a call by the number that Extrae gives it (its `MPI_EventEncoding.h`).
    fn of(call: u32) -> Kind {
        match call {
            1 | 33..=35 => Kind::Send,
            3 | 36..=38 => Kind::ImmediateSend,
            2 | 192 => Kind::Recv,
            4 | 193 => Kind::ImmediateRecv,
            41 | 42 => Kind::SendRecv,
            123 | 124 => Kind::Start,
            5 => Kind::Wait,
            6 => Kind::WaitAll,
            39 | 59 | 60 | 125 | 126 | 128 => Kind::WaitSome,
            7..=18 | 30 | 80 | 154..=171 | 214 | 215 => Kind::Collective,
            65..=67 | 172 | 184 | 185 => Kind::OneSided,
            174..=183 => Kind::Neighbour,
            32 => Kind::Finalize,
            _ => Kind::Other,
        }
    }

    fn may_send(self) -> bool {
        matches!(self, Kind::Send | Kind::ImmediateSend | Kind::SendRecv | Kind::Start)
    }

    fn may_post(self) -> bool {
        matches!(self, Kind::Recv | Kind::ImmediateRecv | Kind::SendRecv | Kind::Start)
    }

    fn may_complete(self) -> bool {
        matches!(self, Kind::Recv | Kind::SendRecv | Kind::Wait | Kind::WaitAll | Kind::WaitSome)
    }
}

/// One call, or a message that is in no call (of a tracer that records none).
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub kind: Kind,
    /// MPI's call by Extrae's number.
    pub number: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Messages by their number.
    pub sends: Vec<usize>,
    /// Messages asked for here, and whether they came here, too.
    pub receives: Vec<(usize, bool)>,
    /// Messages asked for in an earlier call that came here.
    pub completes: Vec<usize>,
    /// Of collective calls.
    pub send_bytes: u64,
    pub recv_bytes: u64,
    pub is_root: bool,
    pub communicator: Option<u64>,
}

impl Call {
    fn new(number: u32, start_ns: u64) -> Call {
        Call {
            kind: Kind::of(number),
            number,
            start_ns,
            end_ns: start_ns,
            sends: Vec::new(),
            receives: Vec::new(),
            completes: Vec::new(),
            send_bytes: 0,
            recv_bytes: 0,
            is_root: false,
            communicator: None,
        }
    }

    /// Whether nothing that could follow it waits for its messages.
    pub fn is_immediate(&self) -> bool {
        matches!(self.kind, Kind::ImmediateSend | Kind::Start)
    }
}

/// The calls of a thread in order of time, with their messages.
pub(super) fn find(thread: &Thread, messages: &[Message]) -> Vec<Call> {
    let mut calls = calls(&thread.marks);
    add_lonely(thread, messages, &mut calls);
    details(&thread.details, &mut calls);
    for &number in &thread.sent {
        let sent_ns = messages[number].sent_ns;
        let place = begun(&calls, sent_ns, Kind::may_send).or_else(|| at(&calls, sent_ns, Kind::may_send));
        calls[place.expect("lonely messages have calls")].sends.push(number);
    }
    for &number in &thread.received {
        let message = &messages[number];
        let posted = begun(&calls, message.posted_ns, Kind::may_post);
        let posted = posted.or_else(|| at(&calls, message.posted_ns, Kind::may_post));
        let completed = at(&calls, message.received_ns, Kind::may_complete);
        let posted = posted.or(completed).expect("lonely messages have calls");
        // A message that came between two calls is taken by the second.
        let completed = completed.or_else(|| next(&calls, message.received_ns));
        calls[posted].receives.push((number, completed.is_some_and(|completed| completed <= posted)));
        if let Some(completed) = completed.filter(|completed| *completed > posted) {
            calls[completed].completes.push(number);
        }
    }
    calls
}

/// Calls from their starts and ends. A call without an end lasts until the next begins.
fn calls(marks: &[Mark]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open = false;
    for &Mark { time_ns, call } in marks {
        if open && let Some(last) = calls.last_mut() {
            last.end_ns = time_ns;
        }
        open = call != 0;
        if open {
            calls.push(Call::new(call, time_ns));
        }
    }
    calls
}

/// Makes calls for the messages that lie in none.
fn add_lonely(thread: &Thread, messages: &[Message], calls: &mut Vec<Call>) {
    const SEND: u32 = 1;
    const RECV: u32 = 2;
    let lonely = |time_ns: u64| at(calls, time_ns, |_| true).is_none();
    let sent = thread.sent.iter().map(|&number| messages[number].sent_ns);
    let sends = sent.filter(|time_ns| lonely(*time_ns)).map(|time_ns| Call::new(SEND, time_ns));
    let received = thread.received.iter().map(|&number| &messages[number]);
    let received = received.filter(|message| lonely(message.posted_ns) && lonely(message.received_ns));
    let receives = received.map(|message| Call::new(RECV, message.received_ns));
    let mut made: Vec<Call> = sends.chain(receives).collect();
    if !made.is_empty() {
        calls.append(&mut made);
        calls.sort_by_key(|call| (call.start_ns, call.end_ns));
    }
}

/// Gives collective calls what was noted at their starts.
fn details(details: &[(u64, Detail)], calls: &mut [Call]) {
    let mut details = details.iter().peekable();
    for call in calls.iter_mut().filter(|call| call.kind == Kind::Collective) {
        while details.next_if(|(time_ns, _)| *time_ns < call.start_ns).is_some() {}
        while let Some((_, detail)) = details.next_if(|(time_ns, _)| *time_ns == call.start_ns) {
            match *detail {
                Detail::SendBytes(bytes) => call.send_bytes = bytes,
                Detail::RecvBytes(bytes) => call.recv_bytes = bytes,
                Detail::Root => call.is_root = true,
                Detail::Communicator(number) => call.communicator = Some(number),
            }
        }
    }
}

/// So many calls that touch the same moment are looked at.
const TOUCHING_MAX: usize = 16;

/// A call that `suits` and begins at a moment; if there are several, one without messages.
fn begun(calls: &[Call], time_ns: u64, suits: impl Fn(Kind) -> bool) -> Option<usize> {
    let first = calls.partition_point(|call| call.start_ns < time_ns);
    let begun = calls[first..].iter().take_while(|call| call.start_ns == time_ns).take(TOUCHING_MAX);
    let mut suiting = (first..first + begun.count()).filter(|&index| suits(calls[index].kind));
    let is_free = |&index: &usize| calls[index].sends.is_empty() && calls[index].receives.is_empty();
    let any = suiting.clone().next();
    suiting.find(is_free).or(any)
}

/// The call in which a moment lies: where one ends as the next begins, the first that `suits`.
fn at(calls: &[Call], time_ns: u64, suits: impl Fn(Kind) -> bool) -> Option<usize> {
    let first = calls.partition_point(|call| call.end_ns < time_ns);
    let touching = calls[first..].iter().take_while(|call| call.start_ns <= time_ns).take(TOUCHING_MAX);
    let mut found = None;
    for (index, call) in touching.enumerate() {
        if suits(call.kind) {
            return Some(first + index);
        }
        found = found.or(Some(first + index));
    }
    found
}

/// The first call that ends behind a moment.
fn next(calls: &[Call], time_ns: u64) -> Option<usize> {
    let index = calls.partition_point(|call| call.end_ns < time_ns);
    (index < calls.len()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Rank;

    const OTHER: u32 = 99;
    const SENDS: [u32; 4] = [1, 33, 34, 35];
    const IMMEDIATE_SENDS: [u32; 4] = [3, 36, 37, 38];
    const RECEIVES: [u32; 2] = [2, 192];
    const IMMEDIATE_RECEIVES: [u32; 2] = [4, 193];
    const BOTH: [u32; 2] = [41, 42];
    const STARTS: [u32; 2] = [123, 124];
    const TESTS: [u32; 6] = [39, 59, 60, 125, 126, 128];

    /// A thread with calls (number, start, end), and messages that it sends (when) and receives (posted, received).
    fn found(calls: &[(u32, u64, u64)], sent: &[u64], received: &[(u64, u64)]) -> Vec<Call> {
        let marks = calls
            .iter()
            .flat_map(|&(call, start, end)| [Mark { time_ns: start, call }, Mark { time_ns: end, call: 0 }]);
        let message = |sent_ns, posted_ns, received_ns| Message {
            from: Rank(0),
            to: Rank(0),
            bytes: 1,
            tag: 0,
            sent_ns,
            posted_ns,
            received_ns,
        };
        let messages: Vec<Message> = sent
            .iter()
            .map(|&sent_ns| message(sent_ns, 0, 0))
            .chain(received.iter().map(|&(posted_ns, received_ns)| message(0, posted_ns, received_ns)))
            .collect();
        let (sent, received) = ((0..sent.len()).collect(), (sent.len()..messages.len()).collect());
        find(&Thread { marks: marks.collect(), sent, received, ..Thread::default() }, &messages)
    }

    fn sends(calls: &[Call]) -> Vec<&[usize]> {
        calls.iter().map(|call| &call.sends[..]).collect()
    }

    type Received<'a> = (&'a [(usize, bool)], &'a [usize]);

    fn receives(calls: &[Call]) -> Vec<Received<'_>> {
        calls.iter().map(|call| (&call.receives[..], &call.completes[..])).collect()
    }

    #[test]
    fn calls_have_the_kinds_of_their_numbers() {
        let kinds = |numbers: &[u32], kind: Kind| numbers.iter().all(|number| Kind::of(*number) == kind);
        assert!(kinds(&SENDS, Kind::Send) && kinds(&IMMEDIATE_SENDS, Kind::ImmediateSend));
        assert!(kinds(&RECEIVES, Kind::Recv) && kinds(&IMMEDIATE_RECEIVES, Kind::ImmediateRecv));
        assert!(kinds(&BOTH, Kind::SendRecv) && kinds(&STARTS, Kind::Start) && kinds(&TESTS, Kind::WaitSome));
        assert!(kinds(&[5], Kind::Wait) && kinds(&[6], Kind::WaitAll) && kinds(&[32], Kind::Finalize));
        assert!(kinds(&[65, 66, 67, 172, 184, 185], Kind::OneSided));
        assert!((174..=183).all(|number| Kind::of(number) == Kind::Neighbour));
        assert!(kinds(&[0, 31, OTHER, 173, 186, 216, u32::MAX], Kind::Other));
    }

    /// Another call ends where it begins, and a third begins and ends there.
    #[test]
    fn a_message_is_sent_by_the_call_that_can_send() {
        for call in [&SENDS[..], &IMMEDIATE_SENDS, &BOTH, &STARTS].concat() {
            let calls =
                found(&[(OTHER, 0, 5), (OTHER, 90, 100), (OTHER, 100, 100), (call, 100, 110)], &[100], &[]);
            assert_eq!(sends(&calls), [&[][..], &[], &[], &[0]], "{call}");
            // Within it, not at its beginning.
            let calls =
                found(&[(OTHER, 0, 5), (OTHER, 90, 100), (call, 100, 110), (OTHER, 110, 120)], &[110], &[]);
            assert_eq!(sends(&calls), [&[][..], &[], &[0], &[]], "{call}");
        }
        // Where no call can send, whatever the moment lies in.
        assert_eq!(sends(&found(&[(OTHER, 0, 5), (2, 100, 110)], &[105], &[])), [&[][..], &[0]]);
        // Of several at once, each sends one.
        let three = [(3, 5, 10), (3, 100, 100), (3, 100, 100), (3, 100, 110)];
        assert_eq!(sends(&found(&three, &[5, 100, 100, 100], &[])), [[0], [1], [2], [3]]);
        assert_eq!(
            sends(&found(&[(3, 100, 100), (3, 200, 210)], &[100, 100, 200], &[])),
            [&[0, 1][..], &[2]]
        );
    }

    #[test]
    fn a_message_is_received_by_the_calls_that_ask_for_it_and_complete_it() {
        for call in [&IMMEDIATE_RECEIVES[..], &STARTS].concat() {
            for wait in [&TESTS[..], &[5, 6]].concat() {
                let calls = [
                    (OTHER, 0, 5),
                    (OTHER, 90, 100),
                    (OTHER, 100, 100),
                    (call, 100, 110),
                    (OTHER, 200, 200),
                    (wait, 200, 220),
                ];
                for received_ns in [200, 210, 220] {
                    let calls = found(&calls, &[], &[(100, received_ns)]);
                    let asked: [(usize, bool); 1] = [(0, false)];
                    assert_eq!(
                        receives(&calls),
                        [(&[][..], &[][..]), (&[], &[]), (&[], &[]), (&asked, &[]), (&[], &[]), (&[], &[0])],
                        "{call} {wait} {received_ns}"
                    );
                }
            }
        }
        for call in [RECEIVES, BOTH].concat() {
            let calls = found(
                &[(OTHER, 90, 100), (OTHER, 100, 100), (call, 100, 110), (OTHER, 110, 120)],
                &[],
                &[(100, 110)],
            );
            assert_eq!(
                receives(&calls),
                [(&[][..], &[][..]), (&[], &[]), (&[(0, true)], &[]), (&[], &[])],
                "{call}"
            );
        }
    }

    #[test]
    fn a_message_between_calls_is_taken_by_the_next() {
        let calls = [(OTHER, 0, 5), (4, 100, 110), (OTHER, 120, 130), (OTHER, 200, 210)];
        let asked: &[(usize, bool)] = &[(0, false)];
        let none: Received<'_> = (&[], &[]);
        assert_eq!(receives(&found(&calls, &[], &[(100, 150)])), [none, (asked, &[]), none, (&[], &[0])]);
        assert_eq!(receives(&found(&calls, &[], &[(100, 115)])), [none, (asked, &[]), (&[], &[0]), none]);
        // Behind the last call nobody takes it.
        assert_eq!(receives(&found(&calls, &[], &[(100, 300)])), [none, (asked, &[]), none, none]);
        // Asked for between two calls, it came with the second.
        assert_eq!(receives(&found(&calls, &[], &[(150, 205)])), [none, none, none, (&[(0, true)], &[])]);
    }

    #[test]
    fn messages_in_no_call_get_calls_of_their_own() {
        let calls = found(&[(OTHER, 100, 110)], &[50, 105, 200], &[(10, 20), (115, 120)]);
        let told: Vec<_> =
            calls.iter().map(|call| (call.kind, call.number, call.start_ns, call.end_ns)).collect();
        let expected = [
            (Kind::Recv, 2, 20, 20),
            (Kind::Send, 1, 50, 50),
            (Kind::Other, OTHER, 100, 110),
            (Kind::Recv, 2, 120, 120),
            (Kind::Send, 1, 200, 200),
        ];
        assert_eq!(told, expected);
        assert_eq!(sends(&calls), [&[][..], &[0], &[1], &[], &[2]]);
        assert_eq!(receives(&calls)[0], (&[(3, true)][..], &[][..]));
        assert_eq!(receives(&calls)[3], (&[(4, true)][..], &[][..]));
    }

    #[test]
    fn a_call_without_an_end_lasts_until_the_next() {
        let marks =
            [(100, 3), (150, 4), (160, 0), (170, 0), (180, 5)].map(|(time_ns, call)| Mark { time_ns, call });
        let calls = find(&Thread { marks: marks.into(), ..Thread::default() }, &[]);
        let times: Vec<_> = calls.iter().map(|call| (call.number, call.start_ns, call.end_ns)).collect();
        assert_eq!(times, [(3, 100, 150), (4, 150, 160), (5, 180, 180)]);
    }

    #[test]
    fn collective_calls_have_the_details_of_their_starts() {
        let marks = [(100, 7), (110, 0), (150, 1), (160, 0), (200, 9), (210, 0), (220, 10)];
        let marks = marks.map(|(time_ns, call)| Mark { time_ns, call }).into();
        let details = [
            (50, Detail::SendBytes(1)),
            (100, Detail::SendBytes(2)),
            (100, Detail::RecvBytes(3)),
            (105, Detail::Root),
            (150, Detail::SendBytes(4)),
            (200, Detail::Root),
            (200, Detail::Communicator(6)),
            (300, Detail::SendBytes(7)),
        ];
        let calls = find(&Thread { marks, details: details.into(), ..Thread::default() }, &[]);
        let told = |call: &Call| (call.send_bytes, call.recv_bytes, call.is_root, call.communicator);
        let told: Vec<_> = calls.iter().map(told).collect();
        assert_eq!(
            told,
            [(2, 3, false, None), (0, 0, false, None), (0, 0, true, Some(6)), (0, 0, false, None)]
        );
    }
}
