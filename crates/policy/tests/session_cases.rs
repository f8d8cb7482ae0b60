//! What each policy does, case by case.

use castell_policy::session::{
    Cluster, Decision, Event, Foreseen, Needs, Policy, Refused, Request, Rules, Scheduler, SessionId, Shape,
    Slot, Slowdown, State,
};
use std::collections::BTreeSet;

fn asked(scheduler: &mut Scheduler, now: u64, id: u64, request: Request) -> Vec<Decision> {
    scheduler.handle(now, Event::Request(SessionId(id), request)).expect("it is possible")
}

fn ended(scheduler: &mut Scheduler, now: u64, id: u64) -> Vec<Decision> {
    scheduler.handle(now, Event::End(SessionId(id))).expect("it is there")
}

fn flat(nodes: u32, slots: u32, policy: Policy) -> Scheduler {
    Scheduler::new(Cluster::uniform(nodes, Shape::flat(slots)).expect("a cluster"), Rules::new(policy))
}

fn kinds(decisions: &[Decision]) -> Vec<(char, u64)> {
    let kind = |decision: &Decision| match decision {
        Decision::Start(id, _) => ('s', id.0),
        Decision::Suspend(id) => ('z', id.0),
        Decision::Continue(id) => ('c', id.0),
        Decision::Repin(id, _) => ('p', id.0),
    };
    decisions.iter().map(kind).collect()
}

#[test]
fn the_four_policies_as_the_paper_has_them() {
    // A simulation on all of 4 nodes with 40 slots, then an analysis of 32.
    for (policy, expected) in [
        (Policy::Wait, vec![]),
        (Policy::Surpass, vec![('z', 0), ('s', 1)]),
        (Policy::Overbook, vec![('s', 1)]),
        (Policy::Sidestep, vec![('s', 1), ('p', 0)]),
    ] {
        let mut scheduler = flat(4, 40, policy);
        assert_eq!(kinds(&asked(&mut scheduler, 0, 0, Request::new(160))), [('s', 0)]);
        let decisions = asked(&mut scheduler, 1, 1, Request::new(32));
        assert_eq!(kinds(&decisions), expected, "{policy}");
        if let [Decision::Start(_, analysis), Decision::Repin(_, simulation)] = &decisions[..] {
            assert_eq!(analysis.runs().next(), Some(0..32));
            let mut crowd = [0; 160];
            simulation.slots().for_each(|slot| crowd[slot.0 as usize] += 1);
            assert_eq!(crowd[..40], [[0; 8], [0; 8], [0; 8], [0; 8], [5; 8]].concat());
            assert!(crowd[40..].iter().all(|count| *count == 1));
        }
        let after: &[_] = match policy {
            Policy::Wait => &[],
            Policy::Surpass => &[('c', 0)],
            Policy::Overbook => &[],
            _ => &[('p', 0)],
        };
        if policy != Policy::Wait {
            assert_eq!(kinds(&ended(&mut scheduler, 2, 1)), after, "{policy}");
        } else {
            assert_eq!(kinds(&ended(&mut scheduler, 2, 0)), [('s', 1)]);
        }
    }
    let mut spread = Scheduler::new(
        Cluster::uniform(4, Shape::flat(40)).expect("a cluster"),
        "sidestep+spread".parse().expect("a policy"),
    );
    asked(&mut spread, 0, 0, Request::new(160));
    let decisions = asked(&mut spread, 1, 1, Request::new(32));
    let Decision::Start(_, analysis) = &decisions[0] else { panic!("{decisions:?}") };
    assert_eq!(analysis.runs().collect::<Vec<_>>(), [0..8, 40..48, 80..88, 120..128]);
}

/// Slots go offline and come back.
#[test]
fn slots_that_are_offline_are_kept_and_given_to_nobody() {
    for policy in [Policy::Wait, Policy::Surpass, Policy::Overbook, Policy::Sidestep] {
        let mut scheduler = flat(1, 2, policy);
        let only = |offline: &[u32]| Event::Offline(offline.iter().copied().map(Slot).collect());
        asked(&mut scheduler, 0, 0, Request::new(1));
        asked(&mut scheduler, 1, 1, Request::new(1));
        let moved = kinds(&scheduler.handle(2, only(&[1])).expect("a slot"));
        // Elsewhere whoever carries the decisions out knows where else there is room.
        assert_eq!(moved, if policy == Policy::Sidestep { vec![('p', 1)] } else { vec![] }, "{policy}");
        assert_eq!(scheduler.state(SessionId(1)), Some(State::Running), "{policy}");
        // Who wants more than is left waits, and holds up nobody.
        assert_eq!(kinds(&asked(&mut scheduler, 3, 2, Request::new(2))), [], "{policy}");
        assert_eq!(scheduler.explain(3, SessionId(2)).map(|said| said.offline), Some(1));
        ended(&mut scheduler, 4, 1);
        let started = asked(&mut scheduler, 5, 3, Request::new(1));
        let placed = started.iter().find_map(|decision| match decision {
            Decision::Start(SessionId(3), placement) => Some(placement.slots().collect::<Vec<_>>()),
            _ => None,
        });
        let waits = policy == Policy::Wait;
        assert_eq!(placed, if waits { None } else { Some(vec![Slot(0)]) }, "{policy}: {started:?}");
        let after: Vec<SessionId> = ended(&mut scheduler, 6, 0)
            .iter()
            .filter_map(|it| if let Decision::Start(id, _) = it { Some(*id) } else { None })
            .collect();
        assert_eq!(after, if waits { vec![SessionId(3)] } else { vec![] }, "{policy}");
        ended(&mut scheduler, 7, 3);
        assert_eq!(scheduler.state(SessionId(2)), Some(State::Waiting), "{policy}");
        assert_eq!(kinds(&scheduler.handle(8, only(&[])).expect("slots")), [('s', 2)], "{policy}");
        assert!(matches!(scheduler.handle(9, only(&[2])), Err(Refused::NoSlot { slot: 2, there: 2 })));
    }
}

#[test]
fn what_never_fits_is_told_at_once() {
    let mut scheduler = flat(2, 4, Policy::Surpass);
    let refused = |scheduler: &mut Scheduler, request| {
        scheduler.handle(0, Event::Request(SessionId(9), request)).expect_err("it never fits")
    };
    assert_eq!(refused(&mut scheduler, Request::new(9)), Refused::TooManySlots { wanted: 9, there: 8 });
    let wide = Request { threads: 5, ..Request::new(1) };
    assert!(matches!(refused(&mut scheduler, wide), Refused::NeverFits { fitting: 0, .. }));
    let odd = Request { threads: 3, ..Request::new(3) };
    let Refused::TooManySlots { .. } = refused(&mut scheduler, odd) else { panic!("nine slots") };
    let nobody = Request { with: Some(SessionId(3)), ..Request::new(1) };
    assert_eq!(refused(&mut scheduler, nobody), Refused::Unknown { session: SessionId(3) });
    assert_eq!(refused(&mut scheduler, Request::new(0)), Refused::Nothing);
    assert_eq!(scheduler.counts(), [0, 0, 0]);
}

#[test]
fn suspended_sessions_keep_their_memory() {
    let shape = Shape { memory_bytes: 10, ..Shape::flat(2) };
    let cluster = Cluster::uniform(1, shape).expect("a cluster");
    let mut scheduler = Scheduler::new(cluster, Rules::new(Policy::Surpass));
    asked(&mut scheduler, 0, 0, Request { memory_bytes: 3, ..Request::new(2) });
    let heavy = Request { memory_bytes: 5, ..Request::new(1) };
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, heavy)), [], "6 of 10 bytes are taken");
    let light = Request { memory_bytes: 4, ..Request::new(1) };
    assert_eq!(kinds(&asked(&mut scheduler, 2, 2, light)), [('z', 0), ('s', 2)]);
    assert_eq!(kinds(&ended(&mut scheduler, 3, 2)), [('c', 0)]);
    assert_eq!(kinds(&ended(&mut scheduler, 4, 0)), [('s', 1)]);
}

#[test]
fn who_talks_to_each_other_is_not_separated() {
    for policy in Policy::ALL {
        let mut scheduler = flat(1, 2, policy);
        asked(&mut scheduler, 0, 0, Request::new(2));
        let mate = Request { with: Some(SessionId(0)), ..Request::new(1) };
        assert_eq!(
            kinds(&asked(&mut scheduler, 1, 1, mate)),
            [('s', 1)],
            "{policy}: it neither waits nor suspends"
        );
        if policy == Policy::Surpass {
            assert_eq!(kinds(&asked(&mut scheduler, 2, 2, Request::new(1))), [('z', 0), ('z', 1), ('s', 2)]);
            assert_eq!(kinds(&ended(&mut scheduler, 3, 2)), [('c', 0), ('c', 1)]);
        }
    }
}

#[test]
fn short_ones_fill_gaps_without_delaying_the_first() {
    let mut scheduler = flat(1, 4, Policy::Wait);
    let with_estimate = |processes, estimate| Request { estimate: Some(estimate), ..Request::new(processes) };
    asked(&mut scheduler, 0, 0, with_estimate(3, 100));
    asked(&mut scheduler, 0, 1, with_estimate(4, 10));
    assert_eq!(kinds(&asked(&mut scheduler, 1, 2, with_estimate(1, 100))), [], "it would end too late");
    assert_eq!(kinds(&asked(&mut scheduler, 1, 3, with_estimate(1, 99))), [('s', 3)]);
    assert_eq!(kinds(&ended(&mut scheduler, 50, 3)), [], "what is left is too long");
    assert_eq!(kinds(&ended(&mut scheduler, 100, 0)), [('s', 1)]);
}

#[test]
fn give_way_suspends_long_ones_for_short_ones_only() {
    let mut scheduler = flat(1, 2, Policy::GiveWay);
    let with_estimate = |estimate| Request { estimate: Some(estimate), ..Request::new(2) };
    asked(&mut scheduler, 0, 0, with_estimate(1000));
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, with_estimate(900))), [], "not much shorter");
    assert_eq!(kinds(&asked(&mut scheduler, 2, 2, with_estimate(10))), [('z', 0), ('s', 2)]);
    assert_eq!(kinds(&ended(&mut scheduler, 12, 2)), [('c', 0)]);
    assert_eq!(kinds(&asked(&mut scheduler, 13, 3, Request::new(1))), [], "nobody knows how long it takes");
}

fn steered(scheduler: &mut Scheduler, now: u64, event: Event) -> Vec<(char, u64)> {
    kinds(&scheduler.handle(now, event).expect("it is possible"))
}

#[test]
fn who_is_stopped_makes_room_where_the_policy_suspends() {
    let [old, new] = [0, 1].map(SessionId);
    for (policy, stopped, resumed) in [
        (Policy::Surpass, vec![('z', 1), ('c', 0)], vec![('z', 0), ('c', 1)]),
        (Policy::Overbook, vec![('z', 1)], vec![('c', 1)]),
        (Policy::Sidestep, vec![('z', 1)], vec![('c', 1)]),
    ] {
        let mut scheduler = flat(1, 2, policy);
        asked(&mut scheduler, 0, 0, Request::new(2));
        asked(&mut scheduler, 1, 1, Request::new(2));
        assert_eq!(steered(&mut scheduler, 2, Event::Stop(new)), stopped, "{policy}");
        assert_eq!((scheduler.state(new), scheduler.is_stopped(new)), (Some(State::Suspended), true));
        assert_eq!(steered(&mut scheduler, 3, Event::Stop(new)), [], "{policy}: it is");
        assert_eq!(steered(&mut scheduler, 4, Event::Resume(new)), resumed, "{policy}");
        assert_eq!(
            scheduler.handle(5, Event::Resume(new)),
            Err(Refused::NotStopped { session: new }),
            "{policy}"
        );
        let explained = scheduler.explain(6, new).expect("it is there");
        assert_eq!((explained.stops, explained.since, explained.ran), (1, 4, 3), "{policy}");
        let suspensions = scheduler.explain(6, old).expect("it is there").suspensions;
        assert_eq!(suspensions, if policy == Policy::Surpass { 2 } else { 0 });
    }
    // Where nobody is ever suspended, nobody else gets the slots.
    let mut scheduler = flat(1, 2, Policy::Wait);
    asked(&mut scheduler, 0, 0, Request::new(2));
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, Request::new(2))), []);
    assert_eq!(steered(&mut scheduler, 2, Event::Stop(old)), [('z', 0)]);
    assert_eq!(steered(&mut scheduler, 3, Event::Resume(old)), [('c', 0)]);
}

#[test]
fn who_is_stopped_before_it_starts_is_passed_over() {
    let mut scheduler = flat(1, 2, Policy::Wait);
    for id in 0..3 {
        asked(&mut scheduler, id, id, Request::new(2));
    }
    assert_eq!(steered(&mut scheduler, 3, Event::Stop(SessionId(1))), []);
    assert_eq!(kinds(&ended(&mut scheduler, 4, 0)), [('s', 2)]);
    assert_eq!(steered(&mut scheduler, 5, Event::Resume(SessionId(1))), []);
    assert_eq!(kinds(&ended(&mut scheduler, 6, 2)), [('s', 1)]);
}

#[test]
fn a_stopped_session_is_surpassed_by_any_number_and_left_alone_when_it_is_resumed() {
    let mut scheduler = flat(1, 1, Policy::Surpass);
    let most = u64::from(scheduler.rules().surpassed_max);
    asked(&mut scheduler, 0, 0, Request::new(1));
    steered(&mut scheduler, 0, Event::Stop(SessionId(0)));
    for id in 1..=2 * most {
        assert_eq!(kinds(&asked(&mut scheduler, id, id, Request::new(1))), [('s', id)]);
        assert_eq!(kinds(&ended(&mut scheduler, id, id)), []);
    }
    assert_eq!(steered(&mut scheduler, 99, Event::Resume(SessionId(0))), [('c', 0)]);
    for id in 100..100 + most {
        assert_eq!(kinds(&asked(&mut scheduler, id, id, Request::new(1))), [('z', 0), ('s', id)]);
        assert_eq!(kinds(&ended(&mut scheduler, id, id)), [('c', 0)]);
    }
    assert_eq!(kinds(&asked(&mut scheduler, 200, 200, Request::new(1))), [], "it is left alone");
    assert_eq!(steered(&mut scheduler, 201, Event::Stop(SessionId(0))), [('z', 0), ('s', 200)]);
    assert_eq!(steered(&mut scheduler, 202, Event::Resume(SessionId(0))), [], "it came first");
    assert_eq!(kinds(&ended(&mut scheduler, 203, 200)), [('c', 0)]);
}

#[test]
fn a_stopped_session_delays_nobody_under_give_way_however_soon_it_is_due() {
    let with_estimate = |estimate| Request { estimate: Some(estimate), ..Request::new(1) };
    for later in [1, 1_000] {
        let mut scheduler = flat(1, 1, Policy::GiveWay);
        asked(&mut scheduler, 0, 0, with_estimate(20));
        assert_eq!(
            kinds(&asked(&mut scheduler, later, 1, with_estimate(10))),
            [],
            "it is no longer than others"
        );
        assert_eq!(steered(&mut scheduler, later, Event::Stop(SessionId(0))), [('z', 0), ('s', 1)]);
    }
}

#[test]
fn another_priority_is_another_turn() {
    let mut scheduler = flat(1, 2, Policy::Wait);
    for id in 0..3 {
        asked(&mut scheduler, id, id, Request::new(2));
    }
    assert_eq!(scheduler.explain(3, SessionId(2)).expect("it waits").before, [SessionId(1)]);
    assert_eq!(steered(&mut scheduler, 3, Event::Priority(SessionId(2), 1)), []);
    assert_eq!(scheduler.explain(3, SessionId(2)).expect("it waits").before, []);
    assert_eq!(kinds(&ended(&mut scheduler, 4, 0)), [('s', 2)]);
    // Under surpass, it is enough to have the higher one.
    let mut scheduler = flat(1, 2, Policy::Surpass);
    asked(&mut scheduler, 0, 0, Request { priority: 1, ..Request::new(2) });
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, Request::new(2))), []);
    assert_eq!(steered(&mut scheduler, 2, Event::Priority(SessionId(1), 2)), [('z', 0), ('s', 1)]);
}

#[test]
fn another_policy_takes_over_what_it_would_allow() {
    let to = |policy| Event::Rules(Rules::new(policy));
    // What waits starts where sharing is allowed; then there is no way back until one has ended.
    let mut scheduler = flat(1, 2, Policy::Wait);
    asked(&mut scheduler, 0, 0, Request::new(2));
    asked(&mut scheduler, 1, 1, Request::new(1));
    assert_eq!(steered(&mut scheduler, 2, to(Policy::Sidestep)), [('s', 1), ('p', 0)]);
    let [one, other] = [0, 1].map(SessionId);
    for policy in [Policy::Wait, Policy::Surpass, Policy::GiveWay] {
        let refused = scheduler.handle(3, to(policy));
        assert_eq!(refused, Err(Refused::Shared { one, other, policy }));
    }
    assert_eq!(scheduler.rules().policy, Policy::Sidestep);
    assert_eq!(steered(&mut scheduler, 4, to(Policy::Overbook)), [('p', 0)]);
    assert_eq!(kinds(&ended(&mut scheduler, 5, 1)), []);
    assert_eq!(steered(&mut scheduler, 6, to(Policy::Surpass)), []);
    // Who is suspended goes on where nobody is.
    assert_eq!(kinds(&asked(&mut scheduler, 7, 2, Request::new(1))), [('z', 0), ('s', 2)]);
    assert_eq!(
        scheduler.handle(8, to(Policy::Wait)),
        Err(Refused::Shared { one, other: SessionId(2), policy: Policy::Wait })
    );
    assert_eq!(steered(&mut scheduler, 9, to(Policy::GiveWay)), []);
    assert_eq!(steered(&mut scheduler, 10, to(Policy::Overbook)), [('c', 0)]);
    // Stopped by its user it takes no place where the policy suspends.
    assert_eq!(steered(&mut scheduler, 11, Event::Stop(one)), [('z', 0)]);
    assert_eq!(steered(&mut scheduler, 12, to(Policy::Surpass)), []);
    assert_eq!(steered(&mut scheduler, 13, Event::Resume(one)), [], "the other one came later");
    assert_eq!(kinds(&ended(&mut scheduler, 14, 2)), [('c', 0)]);
}

#[test]
fn who_is_to_go_on_together_does() {
    let mut scheduler = flat(1, 4, Policy::Surpass);
    asked(&mut scheduler, 0, 0, Request::new(2));
    asked(&mut scheduler, 1, 1, Request { with: Some(SessionId(0)), ..Request::new(2) });
    assert_eq!(kinds(&asked(&mut scheduler, 2, 2, Request::new(4))), [('z', 0), ('z', 1), ('s', 2)]);
    assert_eq!(steered(&mut scheduler, 3, Event::Stop(SessionId(0))), []);
    assert_eq!(steered(&mut scheduler, 3, Event::Priority(SessionId(0), 1)), []);
    assert_eq!(steered(&mut scheduler, 4, Event::Resume(SessionId(0))), [], "not without the other one");
    assert_eq!(kinds(&ended(&mut scheduler, 5, 2)), [('c', 0), ('c', 1)]);
}

#[test]
fn why_it_waits_and_until_when() {
    let mut scheduler = flat(1, 2, Policy::Wait);
    let with_estimate = |estimate| Request { estimate: Some(estimate), ..Request::new(2) };
    asked(&mut scheduler, 0, 0, with_estimate(100));
    asked(&mut scheduler, 10, 1, with_estimate(50));
    asked(&mut scheduler, 20, 2, with_estimate(1));
    let waits = scheduler.explain(30, SessionId(2)).expect("it waits");
    assert_eq!((waits.state, waits.since, waits.slots, waits.free), (State::Waiting, 20, 2, 0));
    assert_eq!((waits.before, waits.begins), (vec![SessionId(1)], Some(150)));
    let [holder] = &waits.holders[..] else { panic!("{:?}", waits.holders) };
    assert_eq!((holder.session, holder.slots, holder.left), (SessionId(0), 2, Some(70)));
    // Who takes longer than it said, or says nothing, may take for ever.
    assert_eq!(scheduler.explain(101, SessionId(2)).expect("it waits").begins, None);
    assert_eq!(steered(&mut scheduler, 101, Event::Estimate(SessionId(0), Some(120))), []);
    assert_eq!(scheduler.explain(101, SessionId(2)).expect("it waits").begins, Some(170));
    assert_eq!(steered(&mut scheduler, 102, Event::Estimate(SessionId(0), None)), []);
    assert_eq!(scheduler.explain(102, SessionId(2)).expect("it waits").begins, None);
    assert_eq!(scheduler.explain(102, SessionId(9)), None);
    // Who is suspended ends later, also under another policy.
    let mut scheduler = flat(1, 2, Policy::Surpass);
    asked(&mut scheduler, 0, 0, with_estimate(100));
    asked(&mut scheduler, 10, 1, with_estimate(200));
    for policy in [Policy::Surpass, Policy::GiveWay] {
        assert_eq!(steered(&mut scheduler, 20, Event::Rules(Rules::new(policy))), []);
        let suspended = scheduler.explain(20, SessionId(0)).expect("it is suspended");
        assert_eq!((suspended.ran, suspended.begins), (10, Some(210)));
        assert_eq!((suspended.suspensions, &suspended.suspended_by[..]), (1, &[SessionId(1)][..]));
    }
}

#[test]
fn what_cannot_have_been_saved_is_refused() {
    let mut scheduler = flat(2, 2, Policy::Surpass);
    asked(&mut scheduler, 0, 1, Request::new(4));
    asked(&mut scheduler, 1, 2, Request { memory_bytes: 7, ..Request::new(2) });
    asked(&mut scheduler, 2, 3, Request { with: Some(SessionId(2)), ..Request::new(1) });
    let saved = scheduler.saved();
    let states: Vec<_> = saved.states().collect();
    assert_eq!(states[..2], [(SessionId(1), State::Suspended), (SessionId(2), State::Running)]);
    let restore = |saved, nodes| {
        let cluster = Cluster::uniform(nodes, Shape::flat(2)).expect("a cluster");
        Scheduler::restore(cluster, saved, BTreeSet::new(), Foreseen::new(), 9)
            .map(|(scheduler, decisions)| (scheduler.saved(), decisions))
    };
    assert_eq!(restore(saved.clone(), 2), Ok((saved.clone(), Vec::new())));
    assert!(restore(saved.clone(), 1).is_err(), "another cluster");
    let text = serde_json::to_string(&saved).expect("it is text");
    let broken = [
        (r#""policy":"surpass""#, r#""policy":"wait""#),
        (r#""state":"suspended""#, r#""state":"waiting""#),
        (r#""state":"suspended""#, r#""state":"running""#),
        (r#""arrival":1"#, r#""arrival":0"#),
        (r#""arrivals":3"#, r#""arrivals":1"#),
        (r#""runs":[[0,4]]"#, r#""runs":[[1,4]]"#),
        (r#""runs":[[0,4]]"#, r#""runs":[[4294967295,4]]"#),
        (r#""runs":[[0,4]]"#, r#""runs":[[0,0]]"#),
        (r#""per_process":1"#, r#""per_process":0"#),
        (r#""starts":3"#, r#""starts":0"#),
    ];
    for (before, after) in broken {
        assert!(text.contains(before), "{before} in {text}");
        let saved = serde_json::from_str(&text.replacen(before, after, 1)).expect("it has the form");
        assert!(restore(saved, 2).is_err(), "{after}");
    }
}

/// A program of one slot that allows so much.
fn runs(program: &str, slowdown_max: Option<f64>) -> Request {
    let slowdown_max = slowdown_max.map(Slowdown::of_factor);
    Request { program: Some(program.into()), slowdown_max, ..Request::new(1) }
}

/// A stream that is slowed down by half by its like, and slows down what is small by a quarter, which does nothing to anybody.
fn streams() -> Event {
    let mut foreseen = Foreseen::new();
    foreseen.set("stream", "stream", Slowdown::of_factor(1.5));
    foreseen.set("small", "stream", Slowdown::of_factor(1.25));
    foreseen.set("stream", "small", Slowdown::of_factor(1.0));
    Event::Foreseen(foreseen)
}

#[test]
fn who_would_slow_others_too_much_waits_or_goes_elsewhere() {
    for policy in [Policy::Wait, Policy::Overbook, Policy::Sidestep, Policy::Surpass, Policy::GiveWay] {
        let mut scheduler = flat(2, 4, policy);
        scheduler.handle(0, streams()).expect("it is possible");
        assert_eq!(kinds(&asked(&mut scheduler, 0, 1, runs("stream", None))), [('s', 1)]);
        // Whose limit it is does not matter: on the first node both would be too slow.
        asked(&mut scheduler, 1, 2, runs("stream", Some(1.4)));
        let node = |scheduler: &Scheduler, id| {
            scheduler.home(SessionId(id)).map(|home| home.nodes(scheduler.cluster())[0].0)
        };
        assert_eq!((node(&scheduler, 1), node(&scheduler, 2)), (Some(0), Some(1)), "{policy}");
        // Now there is a stream everywhere: beside the first one all would be well by its own limit, but not by that of the second.
        assert_eq!(kinds(&asked(&mut scheduler, 2, 3, runs("stream", Some(1.4)))), [], "{policy}");
        let explained = scheduler.explain(3, SessionId(3)).expect("it is there");
        let why: Vec<(u64, u64, f64)> = explained
            .hindrances
            .iter()
            .map(|why| (why.beside.0, why.slowed.0, why.slowdown.factor()))
            .collect();
        assert_eq!(why, [(1, 3, 1.5), (2, 3, 1.5)], "{policy}");
        // A small one without a limit of its own goes where nobody is too slow because of it; one with a limit waits, too.
        assert_eq!(kinds(&asked(&mut scheduler, 4, 4, runs("small", None))), [('s', 4)], "{policy}");
        assert_eq!(kinds(&asked(&mut scheduler, 5, 5, runs("small", Some(1.2)))), [], "{policy}");
        // Of others nothing is known.
        assert_eq!(kinds(&asked(&mut scheduler, 6, 6, runs("new", Some(1.0)))), [('s', 6)], "{policy}");
        assert_eq!(
            scheduler.explain(7, SessionId(1)).expect("it is there").beside,
            [SessionId(4), SessionId(6)],
            "{policy}"
        );
        // The first stream ends: the other one starts in its place, and small ones wait as before.
        assert_eq!(kinds(&ended(&mut scheduler, 8, 1)), [('s', 3)], "{policy}");
        let limit = Event::SlowdownMax(Some(SessionId(5)), Some(Slowdown::of_factor(1.3)));
        assert_eq!(kinds(&scheduler.handle(9, limit).expect("it is there")), [('s', 5)], "{policy}");
    }
}

#[test]
fn factors_of_several_neighbours_are_multiplied() {
    let mut scheduler = flat(1, 8, Policy::Wait);
    scheduler.handle(0, streams()).expect("it is possible");
    scheduler.handle(0, Event::SlowdownMax(None, Some(Slowdown::of_factor(2.0)))).expect("it is possible");
    asked(&mut scheduler, 0, 1, runs("stream", None));
    assert_eq!(kinds(&asked(&mut scheduler, 1, 2, runs("stream", None))), [('s', 2)]);
    // 1.5 by each of two: none of the three would keep to its limit.
    assert_eq!(kinds(&asked(&mut scheduler, 2, 3, runs("stream", None))), []);
    assert_eq!(
        scheduler.explain(3, SessionId(3)).expect("it is there").hindrances[0].slowdown,
        Slowdown::of_factor(2.25)
    );
    // It turns out to be something else.
    let named = scheduler.handle(4, Event::Program(SessionId(3), Some("other".into())));
    assert_eq!(kinds(&named.expect("it is there")), [('s', 3)]);
}

#[test]
fn who_waits_for_neighbours_is_overtaken_a_bounded_number_of_times() {
    let rules = Rules { overtaken_max: 3, ..Rules::new(Policy::Overbook) };
    let mut scheduler = Scheduler::new(Cluster::uniform(1, Shape::flat(8)).expect("a cluster"), rules);
    scheduler.handle(0, streams()).expect("it is possible");
    asked(&mut scheduler, 0, 0, runs("stream", None));
    assert_eq!(kinds(&asked(&mut scheduler, 1, 1, runs("stream", Some(1.4)))), []);
    let others: Vec<_> =
        (2..9).map(|id| kinds(&asked(&mut scheduler, id, id, runs("new", None))).len()).collect();
    assert_eq!(others, [1, 1, 1, 0, 0, 0, 0], "three go first, and then nobody does");
    assert_eq!(kinds(&ended(&mut scheduler, 9, 0)), [1, 5, 6, 7, 8].map(|id| ('s', id)));
}

#[test]
fn who_talks_to_one_that_runs_waits_for_no_neighbour() {
    let mut scheduler = flat(1, 8, Policy::Wait);
    scheduler.handle(0, streams()).expect("it is possible");
    asked(&mut scheduler, 0, 1, runs("stream", None));
    asked(&mut scheduler, 1, 2, runs("new", None));
    let spawned = Request { with: Some(SessionId(2)), ..runs("stream", Some(1.1)) };
    assert_eq!(kinds(&asked(&mut scheduler, 2, 3, spawned)), [('s', 3)]);
}

fn home(scheduler: &Scheduler, id: u64) -> Vec<u32> {
    scheduler.home(SessionId(id)).expect("it was started").slots().map(|slot| slot.0).collect()
}

#[test]
fn slots_that_are_named_are_had_or_waited_for() {
    for policy in Policy::ALL {
        let mut scheduler = flat(2, 4, policy);
        asked(&mut scheduler, 0, 0, Request::exactly([6, 1]));
        assert_eq!(home(&scheduler, 0), [1, 6]);
        asked(&mut scheduler, 1, 1, Request::new(2));
        assert_eq!(home(&scheduler, 1), [0, 2], "{policy}");
        let third = asked(&mut scheduler, 2, 2, Request::exactly([2, 3, 4]));
        match policy {
            // Nobody has said a time, so nobody gives way.
            Policy::Wait | Policy::GiveWay => {
                assert!(third.is_empty(), "{policy}");
                ended(&mut scheduler, 3, 1);
            }
            Policy::Surpass => assert_eq!(kinds(&third), [('z', 1), ('s', 2)]),
            Policy::Overbook => assert_eq!(kinds(&third), [('s', 2)]),
            Policy::Sidestep => assert_eq!(kinds(&third), [('s', 2), ('p', 1)]),
        }
        assert_eq!(home(&scheduler, 2), [2, 3, 4], "{policy}");
    }
    let mut scheduler = flat(1, 4, Policy::Wait);
    let refused = |scheduler: &mut Scheduler, request| {
        scheduler.handle(0, Event::Request(SessionId(9), request)).expect_err("it cannot be")
    };
    assert_eq!(refused(&mut scheduler, Request::exactly([4])), Refused::NoSlot { slot: 4, there: 4 });
    let twice = Request { slots: vec![1, 1], ..Request::new(2) };
    assert_eq!(refused(&mut scheduler, twice), Refused::NotExact);
    let other_count = Request { slots: vec![1], ..Request::new(2) };
    assert_eq!(refused(&mut scheduler, other_count), Refused::NotExact);
}

#[test]
fn who_waits_for_slots_by_name_is_promised_when_their_holders_end() {
    let mut scheduler = flat(1, 4, Policy::Wait);
    let on =
        |slots: &[u32], estimate| Request { estimate: Some(estimate), ..Request::exactly(slots.to_vec()) };
    asked(&mut scheduler, 0, 0, on(&[0], 100));
    asked(&mut scheduler, 0, 1, on(&[1], 10));
    asked(&mut scheduler, 1, 2, on(&[0, 3], 5));
    assert_eq!(scheduler.explain(1, SessionId(2)).expect("it waits").begins, Some(100));
    // Its slots would be free for as long, but not the one that the first of those that wait has named.
    let mut rules = *scheduler.rules();
    rules.overtaken_max = 1;
    scheduler.handle(1, Event::Rules(rules)).expect("they are the same sessions");
    assert_eq!(kinds(&asked(&mut scheduler, 1, 3, on(&[2], 50))), [('s', 3)], "it has ended by then");
    assert!(asked(&mut scheduler, 1, 4, on(&[3], 500)).is_empty(), "it would be in the way");
}

#[test]
fn who_runs_gets_more_or_less_where_that_is_free() {
    let needs =
        |processes, slots: &[u32], memory_bytes| Needs { processes, slots: slots.to_vec(), memory_bytes };
    for policy in Policy::ALL {
        let shape = Shape { memory_bytes: 100, ..Shape::flat(4) };
        let cluster = Cluster::uniform(2, shape).expect("a cluster");
        let mut scheduler = Scheduler::new(cluster, Rules::new(policy));
        asked(&mut scheduler, 0, 0, Request { memory_bytes: 10, ..Request::new(2) });
        asked(&mut scheduler, 0, 1, Request { memory_bytes: 40, ..Request::exactly([3]) });
        let mut need = |needs| scheduler.handle(1, Event::Needs(SessionId(0), needs));
        assert_eq!(kinds(&need(needs(3, &[], 10)).expect("there is one free")), [('p', 0)], "{policy}");
        assert!(matches!(need(needs(4, &[], 10)), Err(Refused::NotFree { wanted: 4, .. })), "{policy}");
        assert!(matches!(need(needs(1, &[3], 10)), Err(Refused::NotFree { .. })), "{policy}");
        assert!(matches!(need(needs(1, &[4], 10)), Err(Refused::NotFree { .. })), "another node");
        assert_eq!(kinds(&need(needs(1, &[2], 60)).expect("it has it")), [('p', 0)], "{policy}");
        assert_eq!(need(needs(1, &[2], 61)), Err(Refused::NoMemory { session: SessionId(0) }));
        assert!(need(needs(1, &[2], 50)).expect("it is less").is_empty());
        assert_eq!(home(&scheduler, 0), [2]);
        // What it has given up is there for others.
        asked(&mut scheduler, 2, 2, Request::exactly([0, 1]));
        assert_eq!(
            (home(&scheduler, 2), scheduler.explain(2, SessionId(2)).expect("it runs").holders.len()),
            (vec![0, 1], 0)
        );
    }
    let mut scheduler = flat(1, 4, Policy::Wait);
    asked(&mut scheduler, 0, 0, Request::new(3));
    asked(&mut scheduler, 0, 1, Request::new(2));
    let decisions = scheduler.handle(1, Event::Needs(SessionId(1), needs(1, &[], 0))).expect("it waits");
    assert_eq!((kinds(&decisions), home(&scheduler, 1)), (vec![('s', 1)], vec![3]));
    scheduler.handle(2, Event::Stop(SessionId(1))).expect("it runs");
    let stands = scheduler.handle(3, Event::Needs(SessionId(1), needs(2, &[], 0)));
    assert_eq!(stands, Err(Refused::StandsStill { session: SessionId(1) }));
}
