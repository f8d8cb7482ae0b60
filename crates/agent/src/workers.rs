//! Programs of castell's tasks within a session: as many of their workers run tasks as the session has processors. They are asked through their
//! CPU mailboxes, and do so between two tasks; programs without one share the processors that they are pinned to.

use castell_host::mailbox::{Agent, FOLDER, WorkerState, found_in};
use std::path::Path;

/// Has a program's runtime make a mailbox, unless its user has said otherwise.
pub(crate) const MAILBOX: &str = "CASTELL_TASKS_MAILBOX";

/// Asks those of a session's processes that listen for as many workers as there are processors. Nobody waits for that: a task that is long
/// ends when it does.
pub(crate) fn fit(processes: impl FnOnce() -> Vec<u32>, cpus: &[u32]) {
    let found = found_in(Path::new(FOLDER)).unwrap_or_default();
    let listening: Vec<Agent> = found.iter().filter_map(|path| Agent::open(path).ok()).collect();
    if listening.is_empty() {
        return;
    }
    let processes = processes();
    for agent in listening.iter().filter(|agent| processes.contains(&agent.owner())) {
        let (take, give) = change(&agent.workers(), cpus);
        if !take.is_empty() || !give.is_empty() {
            // Who has ended meanwhile has no workers.
            let _ = agent.ask(&take, &give);
        }
    }
}

/// Which workers have to stop, and which may run again: those that are bound to other processors, and of all others as many as there is
/// no processor for. Who was taken away by hand stays so, and takes nobody's place. Workers of devices stay.
fn change(workers: &[WorkerState], cpus: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (mut take, mut give) = (Vec::new(), Vec::new());
    let bound = |state: &&WorkerState| !state.held && state.place.cpu.is_some_and(|cpu| cpus.contains(&cpu));
    let on_cores = || workers.iter().filter(|state| state.place.kind == 0);
    let mut left = cpus.len().saturating_sub(on_cores().filter(bound).count());
    for (number, state) in workers.iter().enumerate().filter(|(_, state)| state.place.kind == 0) {
        let runs = match state.place.cpu {
            _ if state.held => false,
            Some(cpu) => cpus.contains(&cpu),
            None => {
                let runs = left > 0;
                left = left.saturating_sub(1);
                runs
            }
        };
        match (state.wanted, runs) {
            (true, false) => take.push(number as u32),
            (false, true) => give.push(number as u32),
            _ => {}
        }
    }
    (take, give)
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_host::mailbox::Place;

    fn worker(cpu: Option<u32>, kind: u8, wanted: bool) -> WorkerState {
        WorkerState { place: Place { cpu, kind }, wanted, enabled: wanted, held: false }
    }

    #[test]
    fn as_many_run_as_there_are_processors() {
        let free = |wanted: [bool; 4]| wanted.map(|wanted| worker(None, 0, wanted));
        assert_eq!(change(&free([true; 4]), &[0, 5]), (vec![2, 3], vec![]));
        assert_eq!(change(&free([true, true, false, false]), &[0, 1, 2, 3, 4]), (vec![], vec![2, 3]));
        assert_eq!(change(&free([false, true, true, false]), &[1]), (vec![1, 2], vec![0]));
        assert_eq!(change(&free([true, true, false, false]), &[1, 2]), (vec![], vec![]));
    }

    #[test]
    fn who_was_taken_by_hand_runs_nowhere() {
        let held = |state: WorkerState| WorkerState { held: true, ..state };
        let workers = [held(worker(None, 0, true)), worker(None, 0, false), held(worker(None, 0, false))];
        assert_eq!(change(&workers, &[0, 1, 2]), (vec![0], vec![1]));
        let bound = [held(worker(Some(3), 0, true)), worker(None, 0, false)];
        assert_eq!(change(&bound, &[3]), (vec![0], vec![1]));
    }

    #[test]
    fn bound_ones_go_by_their_processors_and_devices_stay() {
        let workers = [
            worker(Some(3), 0, true),
            worker(Some(4), 0, false),
            worker(Some(3), 1, true),
            worker(None, 0, true),
        ];
        assert_eq!(change(&workers, &[4]), (vec![0, 3], vec![1]));
        assert_eq!(change(&workers, &[4, 6]), (vec![0], vec![1]));
    }
}
