//! Cpusets that are not as they should be, and those of other users' sessions: where a runner may make none itself, root's agent makes one below the runner's group, and moves the
//! runner into it before the program is started.

use super::{Live, Sessions};
use crate::Tree;
use crate::guard::{find_cpuset, groups_in, make_cpuset};
use castell_host::control_group::Groups;
use castell_host::descriptor::own_user;
use castell_policy::session::Decision;
use castell_policy::session::protocol::Part;

impl Sessions {
    /// Moves sessions, once, whose cpusets have become others than they should be: somebody took a processor away and gave it back before it
    /// was noticed, or a session was started in between.
    pub(super) fn repin_who_has_drifted(&mut self, usable: &[u32]) {
        let mut decisions = Vec::new();
        // Who hears nobody has not done as yet what it was told.
        let hears = |live: &Live| live.client.is_some() && !live.paused && live.leaving.is_none();
        for (id, live) in self.live.iter_mut().filter(|(_, live)| hears(live)) {
            let is_off = |part: &Part| {
                let set = groups_in(&live.wanted.mark, &live.groups()).cpuset;
                set.is_some_and(|set| set.cpus() != part.cpus)
                    && part.cpus.iter().all(|cpu| usable.contains(cpu))
            };
            let has_drifted = live.parts.first().is_some_and(is_off);
            if let (true, false, Some(pinned)) = (has_drifted, live.has_drifted, self.scheduler.pinned(*id)) {
                decisions.push(Decision::Repin(*id, pinned.clone()));
            }
            live.has_drifted = has_drifted;
        }
        self.orders.add(decisions);
    }

    /// Brings spawned processes back to where they were pinned to, if they have undone that since.
    pub(super) fn keep_spawned(&mut self) {
        for live in self.live.values_mut().filter(|live| live.leaving.is_none()) {
            let cpus = live.cpus();
            let Some(spawned) = live.spawned.as_mut().filter(|spawned| spawned.looks > 0) else { continue };
            spawned.looks -= 1;
            if !cpus.is_empty() {
                Tree::marked(&live.wanted.mark).keep_on(&cpus);
            }
        }
    }
}

impl Live {
    /// Has the session's cpuset, where that is this agent's affair, allow what the session has now.
    pub(super) fn keep_on_parts(&mut self) {
        let [part] = &self.parts[..] else { return };
        if !self.is_kept_here() {
            return;
        }
        if self.kept.is_none() {
            self.kept = make_cpuset(&self.wanted.mark, self.wanted.pid);
        }
        let cpuset = groups_in(&self.wanted.mark, self.kept.as_slice()).cpuset;
        Tree::marked(&self.wanted.mark).in_groups(Groups { cpuset, ..Groups::default() }).allow(&part.cpus);
    }

    /// The last agent may have been killed before it had written down what it has made.
    pub(super) fn find_kept(&mut self) {
        if self.kept.is_none() && self.is_kept_here() {
            self.kept = find_cpuset(&self.wanted.mark, self.wanted.pid);
        }
    }

    /// Whether a control group keeps its processes from having more memory than it has asked for.
    pub(super) fn limits_memory(&self) -> bool {
        let memory = groups_in(&self.wanted.mark, &self.groups()).memory;
        memory.and_then(|memory| memory.bytes_max()).is_some_and(|bytes| bytes <= self.wanted.memory_bytes)
    }

    fn is_kept_here(&self) -> bool {
        let is_ours = own_user() == 0 && self.user != 0 && self.wanted.spawned_by.is_none();
        is_ours && groups_in(&self.wanted.mark, &self.wanted.groups).cpuset.is_none()
    }

    /// Where the session's groups lie, whoever has made them.
    pub(super) fn groups(&self) -> Vec<String> {
        self.wanted.groups.iter().chain(&self.kept).cloned().collect()
    }
}
