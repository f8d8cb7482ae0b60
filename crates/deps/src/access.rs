//! What a task declares: a kind of access to a region.

use std::fmt;

use crate::region::Region;

/// What a task does with the bytes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Reads. Consecutive readers run at once.
    In = 0,
    /// Writes without reading. Orders tasks exactly as [`Kind::InOut`] does: nothing is renamed.
    Out = 1,
    /// Reads and writes.
    InOut = 2,
    /// Reads and writes; consecutive commutative tasks run one at a time in any order.
    ///
    /// A task takes all its strong commutative bytes at once and keeps them until it and its children have finished with them.
    /// So that nobody waits for others while holding a turn, weak accesses of such a task count as strong: see [`settled`].
    Commutative = 3,
    /// Reads and writes with the program's own synchronisation; consecutive concurrent tasks run at once.
    Concurrent = 4,
    /// Adds to a private copy, which is combined with the original later; consecutive reductions with the same
    /// [`ReductionId`] run at once.
    Reduction = 5,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; 6] =
        [Kind::In, Kind::Out, Kind::InOut, Kind::Commutative, Kind::Concurrent, Kind::Reduction];

    /// Whether neighbours of this same kind may share the bytes instead of waiting for each other.
    #[inline]
    pub const fn shares(self) -> bool {
        !matches!(self, Kind::Out | Kind::InOut)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::In => "in",
            Kind::Out => "out",
            Kind::InOut => "inout",
            Kind::Commutative => "commutative",
            Kind::Concurrent => "concurrent",
            Kind::Reduction => "reduction",
        })
    }
}

/// Tells reductions apart: the operator and element type, numbered by whoever runs the tasks. Neighbours form a group only
/// if their ids are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReductionId(pub u32);

/// One declared access of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The bytes.
    pub region: Region,
    /// What is done with them.
    pub kind: Kind,
    /// Weak: the task itself does not touch the bytes, only its descendants may. A weak access never delays its task.
    pub weak: bool,
    /// The reduction, for [`Kind::Reduction`]; otherwise ignored.
    pub reduction: ReductionId,
}

/// What is wrong with the accesses that a task declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// A reduction and something else on the same bytes of one task.
    #[error(
        "a task declares a reduction on {region} and another access to the same bytes; declare only one of them"
    )]
    ReductionOverlaps {
        /// The bytes declared twice.
        region: Region,
    },
}

impl Access {
    /// An access that the task itself makes.
    pub const fn strong(kind: Kind, region: Region) -> Access {
        Access { region, kind, weak: false, reduction: ReductionId(0) }
    }

    /// An access that only descendants of the task may make.
    pub const fn weak(kind: Kind, region: Region) -> Access {
        Access { region, kind, weak: true, reduction: ReductionId(0) }
    }

    /// A reduction of the given id.
    pub const fn reduction(reduction: ReductionId, region: Region) -> Access {
        Access { region, kind: Kind::Reduction, weak: false, reduction }
    }

    /// Whether this access and `next`, its neighbour behind it, may hold the bytes together.
    pub fn groups_with(&self, next: &Access) -> bool {
        self.kind.shares()
            && self.kind == next.kind
            && (self.kind != Kind::Reduction || self.reduction == next.reduction)
    }
}

/// Whether no two of the accesses share a byte. Tasks register only such lists; [`disjoint`] makes one.
///
/// Costs a comparison a pair up to eight accesses, a sorted copy above.
pub fn are_disjoint(accesses: &[Access]) -> bool {
    if accesses.len() <= 8 {
        return accesses
            .iter()
            .enumerate()
            .all(|(index, one)| accesses[..index].iter().all(|other| !one.region.overlaps(other.region)));
    }
    let mut regions: Vec<Region> = accesses.iter().map(|access| access.region).collect();
    regions.sort_unstable_by_key(|region| region.start());
    regions.windows(2).all(|pair| !pair[0].overlaps(pair[1]))
}

/// Whether the accesses are such that tasks may register them as they are: no two share a byte, and none is weak beside a
/// strong commutative one.
pub fn are_settled(accesses: &[Access]) -> bool {
    !holds_turn_while_waiting(accesses) && are_disjoint(accesses)
}

/// What a task that declares `accesses` registers: for each byte the strongest combination of what it declares there
/// ([`disjoint`]); and if some of it is strong and commutative, all of it strong. A task that holds a turn, whose children wait
/// through its weak accesses for tasks that wait for that turn, would wait for ever.
///
/// # Errors
/// [`AccessError::ReductionOverlaps`] where a reduction meets another access.
///
/// ```
/// use castell_deps::{Access, Kind, Region, access::settled};
/// let (one, other) = (Region::new(0, 8).unwrap(), Region::new(8, 8).unwrap());
/// let declared = [Access::strong(Kind::Commutative, one), Access::weak(Kind::InOut, other)];
/// let registered = settled(&declared).unwrap();
/// assert_eq!(registered, [Access::strong(Kind::Commutative, one), Access::strong(Kind::InOut, other)]);
/// ```
pub fn settled(accesses: &[Access]) -> Result<Vec<Access>, AccessError> {
    let mut result = disjoint(accesses)?;
    if holds_turn_while_waiting(&result) {
        result.iter_mut().for_each(|access| access.weak = false);
    }
    Ok(result)
}

fn holds_turn_while_waiting(accesses: &[Access]) -> bool {
    accesses.iter().any(|access| access.weak)
        && accesses.iter().any(|access| access.kind == Kind::Commutative && !access.weak)
}

/// The same demands as `accesses`, as disjoint accesses in ascending order: where several overlap, the bytes get their union
/// (equal kinds stay, different ones make an inout; weak only if all are).
///
/// # Errors
/// [`AccessError::ReductionOverlaps`] where a reduction meets another access.
pub fn disjoint(accesses: &[Access]) -> Result<Vec<Access>, AccessError> {
    let mut cuts: Vec<usize> =
        accesses.iter().flat_map(|access| [access.region.start(), access.region.end()]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut sorted = accesses.to_vec();
    sorted.sort_by_key(|access| access.region.start());
    let mut open: Vec<Access> = Vec::new();
    let mut waiting = sorted.into_iter().peekable();
    let mut result: Vec<Access> = Vec::new();
    for cut in cuts.windows(2) {
        open.retain(|access| access.region.end() > cut[0]);
        while let Some(access) = waiting.next_if(|access| access.region.start() <= cut[0]) {
            open.push(access);
        }
        let (Some(first), Some(region)) = (open.first(), Region::between(cut[0], cut[1])) else { continue };
        let mut union = Access { region, ..*first };
        for access in &open[1..] {
            union = union_of(union, *access)?;
        }
        append(&mut result, union, &open);
    }
    Ok(result)
}

/// Appends `piece`, or extends the last access if it is of the same single declaration.
fn append(result: &mut Vec<Access>, piece: Access, open: &[Access]) {
    if let (Some(last), [only]) = (result.last_mut(), open) {
        let same = Access { region: piece.region, ..*last } == piece;
        if same && last.region.end() == piece.region.start() && only.region.covers(last.region) {
            last.region =
                Region::between(last.region.start(), piece.region.end()).expect("both are not empty");
            return;
        }
    }
    result.push(piece);
}

fn union_of(one: Access, other: Access) -> Result<Access, AccessError> {
    let weak = one.weak && other.weak;
    if one.kind == other.kind && one.reduction == other.reduction {
        return Ok(Access { weak, ..one });
    }
    if one.kind == Kind::Reduction || other.kind == Kind::Reduction {
        return Err(AccessError::ReductionOverlaps { region: one.region });
    }
    let kind = if one.kind == other.kind { one.kind } else { Kind::InOut };
    Ok(Access { kind, weak, ..one })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_called_as_in_programs() {
        let names = Kind::ALL.map(|kind| kind.to_string());
        assert_eq!(names, ["in", "out", "inout", "commutative", "concurrent", "reduction"]);
    }

    fn access(kind: Kind, start: usize, end: usize) -> Access {
        Access::strong(kind, Region::between(start, end).expect("not empty"))
    }

    #[test]
    fn unions_of_overlapping_accesses() {
        let declared = [access(Kind::In, 0, 10), access(Kind::Out, 5, 15), access(Kind::In, 20, 30)];
        let expected = [
            access(Kind::In, 0, 5),
            access(Kind::InOut, 5, 10),
            access(Kind::Out, 10, 15),
            access(Kind::In, 20, 30),
        ];
        assert!(!are_disjoint(&declared));
        assert_eq!(disjoint(&declared).expect("legal"), expected);
        assert!(are_disjoint(&expected));
    }

    #[test]
    fn a_strong_access_wins_over_a_weak_one() {
        let region = Region::between(0, 8).expect("not empty");
        let both = [Access::weak(Kind::In, region), Access::strong(Kind::In, region)];
        assert_eq!(disjoint(&both).expect("legal"), [Access::strong(Kind::In, region)]);
    }

    #[test]
    fn a_reduction_tolerates_no_company() {
        let region = Region::between(0, 8).expect("not empty");
        let both = [Access::reduction(ReductionId(1), region), Access::strong(Kind::In, region)];
        assert_eq!(disjoint(&both), Err(AccessError::ReductionOverlaps { region }));
    }

    #[test]
    fn every_two_kinds_on_the_same_bytes_have_a_union_or_are_refused() {
        let region = Region::between(0, 8).expect("not empty");
        for one in Kind::ALL {
            for other in Kind::ALL {
                for (weak, also) in [(false, false), (false, true), (true, true)] {
                    let both = [
                        Access { weak, ..Access::strong(one, region) },
                        Access { weak: also, ..Access::strong(other, region) },
                    ];
                    let reduces = one == Kind::Reduction || other == Kind::Reduction;
                    let kind = if one == other { one } else { Kind::InOut };
                    let union = Access { weak: weak && also, ..Access::strong(kind, region) };
                    let expected = if reduces && one != other {
                        Err(AccessError::ReductionOverlaps { region })
                    } else {
                        Ok(vec![union])
                    };
                    assert!(!are_settled(&both));
                    assert_eq!(settled(&both), expected, "{one} and {other}");
                }
            }
        }
    }

    #[test]
    fn only_the_same_reduction_meets_itself() {
        let region = Region::between(0, 8).expect("not empty");
        let [one, other] = [1, 2].map(|id| Access::reduction(ReductionId(id), region));
        assert_eq!(settled(&[one, one]), Ok(vec![one]));
        assert_eq!(settled(&[one, other]), Err(AccessError::ReductionOverlaps { region }));
    }

    #[test]
    fn who_takes_turns_has_no_weak_access() {
        let weak = |start, end| Access { weak: true, ..access(Kind::InOut, start, end) };
        let waits = [access(Kind::Commutative, 0, 8), weak(8, 16)];
        assert!(!are_settled(&waits));
        assert_eq!(settled(&waits).expect("legal"), [waits[0], access(Kind::InOut, 8, 16)]);
        // Weak and commutative, but nobody's turn: an inout takes none.
        let all_weak = [Access { weak: true, ..waits[0] }, weak(8, 16)];
        assert!(are_settled(&all_weak));
        let union = settled(&[access(Kind::Commutative, 0, 8), access(Kind::In, 0, 8), weak(8, 16)]);
        assert_eq!(union.expect("legal"), [access(Kind::InOut, 0, 8), weak(8, 16)]);
    }

    #[test]
    fn declarations_that_do_not_overlap_stay_whole() {
        let many: Vec<Access> =
            (0..12).map(|index| access(Kind::InOut, index * 10, index * 10 + 10)).collect();
        assert!(are_disjoint(&many));
        assert_eq!(disjoint(&many).expect("legal"), many);
    }

    /// Few are compared each with each, many in their order.
    #[test]
    fn an_overlap_is_found_among_any_number() {
        for count in 1..=20 {
            let mut accesses: Vec<Access> =
                (0..count).map(|index| access(Kind::In, 100 - 5 * index, 105 - 5 * index)).collect();
            assert!(are_disjoint(&accesses), "{count}");
            for index in 1..count {
                let whole = std::mem::replace(&mut accesses[index], access(Kind::In, 100, 101));
                assert!(!are_disjoint(&accesses), "{index} of {count}");
                accesses[index] = whole;
            }
        }
    }

    #[test]
    fn what_lies_behind_a_weaker_one_goes_on() {
        let weak = Access { weak: true, ..access(Kind::In, 4, 8) };
        let declared = [access(Kind::In, 0, 16), weak, access(Kind::In, 16, 20)];
        let expected = [access(Kind::In, 0, 4), access(Kind::In, 4, 16), access(Kind::In, 16, 20)];
        assert_eq!(disjoint(&declared).expect("legal"), expected);
    }
}
