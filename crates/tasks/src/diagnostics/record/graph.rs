//! Which task had to wait for which, from declarations in their order: a second opinion, as the journal's.
//!
//! Each body's children are registered in a map from bytes to who touched them last, as the model says; where nobody among the
//! siblings did, a weak access of the parent passes on what the parent would wait for. Whoever waits for a task on some
//! bytes waits for its body, and for those of its descendants that touched these bytes last; that is known at the end only.

use crate::dependences::{Declaration, Kind};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A task, and the bytes on which somebody waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    task: usize,
    start: usize,
    end: usize,
}

/// Who touched some bytes last: neighbours that may run at once, and whom all of these waited for.
#[derive(Clone)]
struct Segment {
    end: usize,
    kind: Kind,
    reduction: u32,
    group: Vec<usize>,
    before: Rc<Vec<Member>>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Dependences {
    /// By parent: its children's bytes, by their start. Roots depend on nobody.
    domains: HashMap<usize, BTreeMap<usize, Segment>>,
    /// By task: for whom it waits, and for whom it would if its weak accesses were strong.
    strong: Vec<Vec<Member>>,
    weak: HashMap<usize, Vec<Member>>,
}

impl Dependences {
    /// A task is created; tasks come in order, from 0.
    pub(crate) fn declare(&mut self, task: usize, parent: Option<usize>, declared: &[Declaration]) {
        let mut strong = Vec::new();
        if let Some(parent) = parent {
            for access in declared {
                let found = self.access(task, parent, access);
                if access.weak {
                    self.weak.entry(task).or_default().extend(found);
                } else {
                    strong.extend(found);
                }
            }
        }
        self.strong.push(strong);
    }

    /// Registers one access; for whom it waits.
    fn access(&mut self, task: usize, parent: usize, access: &Declaration) -> Vec<Member> {
        let (start, end) = (access.start, access.start + access.length);
        let inherited = self.weak.get(&parent).cloned().unwrap_or_default();
        let domain = self.domains.entry(parent).or_default();
        split(domain, start);
        split(domain, end);
        let mut found = Vec::new();
        let mut covered = start;
        let mut gaps = Vec::new();
        for (&from, segment) in domain.range_mut(start..end) {
            if covered < from {
                gaps.push((covered, from));
            }
            covered = segment.end;
            let joins = access.kind.shares()
                && (segment.kind, segment.reduction) == (access.kind, access.reduction)
                || segment.group == [task];
            if !joins {
                let members = segment.group.iter();
                let before = members.map(|&task| Member { task, start: from, end: segment.end }).collect();
                *segment = Segment {
                    end: segment.end,
                    kind: access.kind,
                    reduction: access.reduction,
                    group: Vec::new(),
                    before: Rc::new(before),
                };
            }
            if !segment.group.contains(&task) {
                segment.group.push(task);
            }
            found.extend(segment.before.iter().copied());
        }
        if covered < end {
            gaps.push((covered, end));
        }
        for (from, to) in gaps {
            let before: Vec<Member> = inherited.iter().filter_map(|member| clip(member, from, to)).collect();
            found.extend(before.iter().copied());
            let (kind, reduction, group) = (access.kind, access.reduction, vec![task]);
            domain.insert(from, Segment { end: to, kind, reduction, group, before: Rc::new(before) });
        }
        found
    }

    /// By task: the bodies for which it waits, in order, each once.
    pub(crate) fn resolve(&self) -> Vec<Vec<usize>> {
        let resolve = |(task, members): (usize, &Vec<Member>)| {
            let mut bodies = Vec::new();
            let mut open: Vec<Member> = members.clone();
            while let Some(member) = open.pop() {
                bodies.push(member.task);
                let Some(domain) = self.domains.get(&member.task) else { continue };
                let first =
                    domain.range(..=member.start).next_back().map_or(member.start, |(&start, _)| start);
                for (&start, segment) in domain.range(first..member.end) {
                    let bytes = (start.max(member.start), segment.end.min(member.end));
                    if bytes.0 < bytes.1 {
                        let last = segment.group.iter();
                        open.extend(last.map(|&task| Member { task, start: bytes.0, end: bytes.1 }));
                    }
                }
            }
            bodies.sort_unstable();
            bodies.dedup();
            bodies.retain(|&body| body != task);
            bodies
        };
        self.strong.iter().enumerate().map(resolve).collect()
    }
}

fn clip(member: &Member, from: usize, to: usize) -> Option<Member> {
    let (start, end) = (member.start.max(from), member.end.min(to));
    (start < end).then_some(Member { start, end, ..*member })
}

/// Cuts the segment that goes across `at`, if one does.
fn split(domain: &mut BTreeMap<usize, Segment>, at: usize) {
    if let Some((_, segment)) = domain.range_mut(..at).next_back().filter(|(_, segment)| segment.end > at) {
        let behind = segment.clone();
        segment.end = at;
        domain.insert(at, behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(start: usize, length: usize, kind: Kind) -> Declaration {
        Declaration { start, length, kind, weak: false, reduction: 0 }
    }

    fn weak(declaration: Declaration) -> Declaration {
        Declaration { weak: true, ..declaration }
    }

    #[test]
    fn readers_wait_for_writers_and_writers_for_readers() {
        let mut dependences = Dependences::default();
        dependences.declare(0, None, &[]);
        dependences.declare(1, Some(0), &[access(0, 16, Kind::Out)]);
        dependences.declare(2, Some(0), &[access(0, 8, Kind::In)]);
        dependences.declare(3, Some(0), &[access(4, 8, Kind::In)]);
        dependences.declare(4, Some(0), &[access(6, 1, Kind::InOut)]);
        dependences.declare(5, Some(0), &[access(12, 8, Kind::In)]);
        let expected: [&[usize]; 6] = [&[], &[], &[1], &[1], &[2, 3], &[1]];
        assert_eq!(dependences.resolve(), expected);
    }

    #[test]
    fn weak_accesses_pass_on_and_descendants_are_waited_for() {
        let mut dependences = Dependences::default();
        dependences.declare(0, None, &[]);
        dependences.declare(1, Some(0), &[access(0, 16, Kind::Out)]);
        dependences.declare(2, Some(0), &[weak(access(0, 16, Kind::InOut))]);
        // The last is created before the children of the second.
        dependences.declare(3, Some(0), &[access(8, 8, Kind::In)]);
        dependences.declare(4, Some(2), &[access(0, 8, Kind::InOut)]);
        dependences.declare(5, Some(2), &[access(8, 8, Kind::InOut)]);
        let expected: [&[usize]; 6] = [&[], &[], &[], &[2, 5], &[1], &[1]];
        assert_eq!(dependences.resolve(), expected);
    }
}
