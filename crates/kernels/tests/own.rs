//! Applications whose own strategies say where their collections go, in front of the node's.

use castell_base::Time;
use castell_kernels::mailbox::{Mailbox, SLOTS, State};
use castell_kernels::protocol::Shape;
use castell_kernels::{Desk, Held};
use castell_strategy::own::Own;
use castell_strategy::{Decision, Fault, FirstFit, Input, Keeper, Node, ResourceId, ResourceKind, Strategy};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const NAMES: [&str; 3] = ["one_core", "all_cores", "gpu"];

/// A desk, its applications, and their own strategies.
struct Scene {
    desk: Desk,
    mailboxes: Vec<Arc<Mailbox>>,
    owns: Vec<Option<Own>>,
    now: Time,
}

impl Scene {
    fn new(applications: u64) -> Scene {
        let mut node = Node::new(NAMES.map(|name| (name.to_owned(), ResourceKind::of(name)))).expect("names");
        node.set_forbidden("low", &["gpu".to_owned()]).expect("it is there");
        let mut desk = Desk::new(Keeper::new(node, Box::new(FirstFit)));
        desk.keep_inputs();
        assert!(desk.open(Time::ZERO).is_empty());
        let mailboxes: Vec<_> =
            (0..applications).map(|_| Arc::new(Mailbox::create().expect("memory"))).collect();
        for (member, mailbox) in (0..).zip(&mailboxes) {
            desk.join(member, Held { name: "any".into(), pid: 1, user: 1, mailbox: mailbox.clone() });
            for names in [&NAMES[..], &["gpu", "one_core"]] {
                let kernels = names.iter().map(|name| ((*name).to_owned(), Some(5))).collect();
                desk.register(member, &Shape { kernels, rankings: Vec::new() }).expect("they are there");
            }
            desk.take_in(Time::ZERO, member).expect("it is new");
        }
        let owns = mailboxes.iter().map(|_| None).collect();
        Scene { desk, mailboxes, owns, now: Time::ZERO }
    }

    fn brings(&mut self, member: u64, strategy: Box<dyn Strategy>) {
        self.owns[member as usize] = Some(Own::new(self.desk.keeper().node(), strategy));
        self.desk.set_own(self.now, member);
        self.tell();
    }

    /// Until nobody has anything to say.
    fn tell(&mut self) {
        loop {
            self.now += Time::from_us(1);
            let news = self.desk.take_news();
            if news.is_empty() {
                return;
            }
            for (member, news) in news {
                let own = self.owns[member as usize].as_mut().expect("it has news, so it has one");
                match own.hear(self.now, news) {
                    Ok(chosen) => self.desk.own_says(self.now, member, &chosen),
                    Err(_) => self.desk.end_own(self.now, member),
                }
            }
        }
    }

    fn asks(&mut self, member: u64, slot: usize, shape: u32, steps: u32) {
        let _ = self.mailboxes[member as usize].words().ask(slot, shape, steps, self.now.0);
        self.serve(member);
    }

    fn serve(&mut self, member: u64) {
        self.desk.serve(self.now, member).expect("nothing wrong is written");
        self.tell();
    }

    fn state(&self, member: u64, slot: usize) -> State {
        self.mailboxes[member as usize].words().slot(slot).state.expect("a state")
    }

    fn ends(&mut self, member: u64, slot: usize) {
        let _ = self.mailboxes[member as usize].words().end_step(slot);
        self.serve(member);
    }

    /// With which kernel the slot's step runs, if one does.
    fn kernel(&self, member: u64, slot: usize) -> Option<u32> {
        let said = self.mailboxes[member as usize].words().slot(slot);
        (said.state == Some(State::Granted)).then_some(said.kernel)
    }
}

/// All that waits onto one resource, the last that came first.
struct LastFirst(ResourceId);

impl Strategy for LastFirst {
    fn name(&self) -> &str {
        "last-first"
    }

    fn tick(&self) -> Option<Time> {
        None
    }

    fn choose(&mut self, node: &Node) -> Result<Option<Decision>, Fault> {
        let last = node.waiting().last().filter(|_| node.resources()[self.0.0].is_free());
        Ok(last.map(|collection| Decision { collection: *collection, resource: self.0 }))
    }

    fn on_tick(&mut self, _: &Node) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn it_says_where_and_in_which_order() {
    let mut scene = Scene::new(1);
    scene.brings(0, Box::new(LastFirst(ResourceId(1))));
    (0..4).for_each(|slot| scene.asks(0, slot, 0, 1));
    for slot in [0, 3, 2, 1] {
        assert_eq!(scene.kernel(0, slot), Some(1), "all_cores only, the last first");
        let granted = (0..4).filter(|slot| scene.kernel(0, *slot).is_some()).count();
        assert_eq!(granted, 1);
        scene.ends(0, slot);
        assert_eq!(scene.state(0, slot), State::Done);
    }
}

#[test]
fn each_step_is_sent_somewhere_by_itself() {
    let mut scene = Scene::new(1);
    scene.brings(0, Box::new(LastFirst(ResourceId(0))));
    scene.asks(0, 9, 0, 3);
    scene.ends(0, 9);
    let said = scene.mailboxes[0].words().slot(9);
    assert_eq!((said.state, said.steps_done, said.kernel), (Some(State::Granted), 1, 0));
    // Another one: the step that runs is run to its end, the next goes elsewhere.
    scene.brings(0, Box::new(LastFirst(ResourceId(2))));
    assert_eq!(scene.kernel(0, 9), Some(0));
    scene.ends(0, 9);
    let said = scene.mailboxes[0].words().slot(9);
    assert_eq!((said.state, said.steps_done, said.kernel), (Some(State::Granted), 2, 2));
    scene.ends(0, 9);
    assert_eq!(scene.state(0, 9), State::Done);
    let status = scene.desk.status();
    assert_eq!((status.done, status.steps), (1, 3));
}

/// It has no more of the node than the node's strategy gives: others come first where they came first.
#[test]
fn it_stands_in_line_with_all_others() {
    let mut scene = Scene::new(2);
    scene.brings(1, Box::new(LastFirst(ResourceId(2))));
    // The first application likes the GPU best, and has one of its own there and one behind it.
    let only_gpu = Shape { kernels: vec![("gpu".into(), None)], rankings: Vec::new() };
    scene.desk.register(0, &only_gpu).expect("it is there");
    (0..2).for_each(|slot| scene.asks(0, slot, 2, 1));
    (0..3).for_each(|slot| scene.asks(1, slot, 0, 1));
    assert_eq!((scene.kernel(0, 0), scene.kernel(0, 1)), (Some(0), None));
    scene.ends(0, 0);
    assert_eq!(scene.kernel(0, 1), Some(0), "it was there first");
    assert!((0..3).all(|slot| scene.kernel(1, slot).is_none()), "nothing goes where it was not sent");
    scene.ends(0, 1);
    assert_eq!((0..3).filter(|slot| scene.kernel(1, *slot) == Some(2)).count(), 1);
}

#[test]
fn what_stands_in_line_for_what_is_forbidden_comes_back() {
    let mut scene = Scene::new(2);
    scene.brings(1, Box::new(FirstFit));
    scene.asks(0, 0, 1, 1);
    scene.asks(0, 1, 1, 1);
    // Both of the first one's run, so this one stands in line for the GPU.
    scene.asks(1, 0, 1, 1);
    assert_eq!((scene.kernel(0, 0), scene.kernel(0, 1), scene.kernel(1, 0)), (Some(0), Some(1), None));
    scene.desk.change(scene.now, Input::Governor("low".into()));
    scene.tell();
    scene.ends(0, 0);
    assert_eq!(scene.kernel(1, 0), None, "the GPU is forbidden");
    scene.ends(0, 1);
    assert_eq!(scene.kernel(1, 0), Some(1), "it went to the other one");
}

/// Well-behaved applications, and own strategies that come and go: each step runs once, in order, nothing stays behind, and what happened
/// is decided alike once more.
#[test]
fn nothing_is_lost_whoever_decides() {
    for seed in 0..300 {
        let outcome = std::panic::catch_unwind(|| at_random(seed));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

fn at_random(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut scene = Scene::new(2);
    let mut replayed = Keeper::new(scene.desk.keeper().node().clone(), Box::new(FirstFit));
    let (mut left, mut ran, mut wanted) = (60, 0, 0);
    let mut turns = 0;
    while left > 0 || (0..2).any(|member| (0..SLOTS).any(|slot| is_under_way(&scene, member, slot))) {
        turns += 1;
        assert!(turns < 100_000, "something is never run");
        let (member, slot) = (random.random_range(0..2), random.random_range(0..12));
        match random.random_range(0..if left > 0 { 14 } else { 10 }) {
            0..=7 => {
                let granted: Vec<_> =
                    (0..SLOTS).filter(|slot| scene.kernel(member, *slot).is_some()).collect();
                if let Some(slot) = granted.get(random.random_range(0..granted.len().max(1))) {
                    ran += 1;
                    scene.ends(member, *slot);
                }
            }
            8 => {
                let level = ["high", "low"][random.random_range(0..2)];
                scene.desk.change(scene.now, Input::Governor(level.into()));
                scene.tell();
            }
            9 => scene.desk.change(scene.now, Input::Governor("high".into())),
            10 => {
                let on = ResourceId(random.random_range(0..3));
                match random.random_range(0..3) {
                    0 => scene.brings(member, Box::new(FirstFit)),
                    // It fails as soon as it sends something where it has no kernel.
                    1 => scene.brings(member, Box::new(LastFirst(on))),
                    _ => scene.desk.end_own(scene.now, member),
                }
            }
            _ if !is_under_way(&scene, member, slot) => {
                let steps = random.random_range(1..4);
                wanted += steps;
                left -= 1;
                let shape = random.random_range(0..2);
                scene.asks(member, slot, shape, steps);
            }
            _ => {}
        }
        scene.tell();
    }
    let status = scene.desk.status();
    assert_eq!((ran, status.steps, status.done), (wanted, u64::from(wanted), 60));
    assert!(status.waiting.is_empty() && status.applications.iter().all(|shown| shown.collections == 0));
    for (at, input) in scene.desk.take_inputs() {
        replayed.apply(at, input).expect("it happened before");
        while replayed.decide() {}
    }
    assert_eq!(replayed.take_events(), scene.desk.take_log());
}

fn is_under_way(scene: &Scene, member: u64, slot: usize) -> bool {
    !matches!(scene.state(member, slot), State::Free | State::Done | State::Refused)
}
