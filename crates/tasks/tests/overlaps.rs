//! A task may declare the same bytes more than once (not as commutative): it gets what all its declarations ask for.

use castell_tasks::dependences::{Declaration, Kind};
use castell_tasks::task::Attributes;
use castell_tasks::{Context, Runtime};

#[test]
fn a_task_declares_the_same_bytes_several_times() {
    const KINDS: [Kind; 4] = [Kind::In, Kind::Out, Kind::InOut, Kind::Concurrent];
    let mut places = [0_u64; 2];
    let address = std::ptr::from_mut(&mut places) as usize;
    let mut expected = 0;
    Runtime::builder()
        .workers(2)
        .build()
        .expect("threads start")
        .run(|context| {
            for first in KINDS {
                for second in KINDS {
                    for overlap in [0, 8] {
                        // The last asks for all of it alone, so each task has its turn.
                        let declared = |start, length, kind| Declaration {
                            start,
                            length,
                            kind,
                            weak: false,
                            reduction: 0,
                        };
                        let all = [
                            declared(address, 16, first),
                            declared(address + overlap, 8, second),
                            declared(address, 16, Kind::InOut),
                        ];
                        let number = expected;
                        expected += 1;
                        let body = move |_: &Context<'_>| {
                            // SAFETY: declared, and the places outlive the run.
                            let places = unsafe { &mut *(address as *mut [u64; 2]) };
                            assert_eq!(*places, [number; 2]);
                            places.iter_mut().for_each(|place| *place += 1);
                        };
                        // SAFETY: as declared.
                        unsafe { context.submit_raw(Attributes::NONE, &all, body) };
                    }
                }
            }
        })
        .expect("in order");
    assert_eq!(places, [expected; 2]);
}
