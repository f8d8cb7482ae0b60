//! What simulated processors did, as a timeline.

use castell_base::Rank;
use castell_sched::LeafId;
use castell_sched::program::Pieces;
use castell_trace::{Activity, Dependence, Rows, Span, Timeline};

const PS_PER_NS: u64 = 1000;

/// A piece that ran: its number, where, from when to when.
pub type Ran = (u64, LeafId, u64, u64);

/// A row a processor, a bar a piece with work, and what each waited for last.
pub fn of(
    pieces: &Pieces,
    names: &[String],
    leaves: usize,
    ran: &[Ran],
    (title, subtitle): (&str, &str),
) -> Timeline {
    let mut ends: Vec<Option<(u64, LeafId)>> = vec![None; pieces.len()];
    let mut timeline = Timeline {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        ranks: leaves as u32,
        rows: Rows::Workers,
        ..Timeline::default()
    };
    // They come in the order in which they begin: what one waited for is there.
    for &(piece, leaf, start_ns, end_ns) in ran {
        let ended = pieces.after(piece).iter().filter_map(|&before| ends[before as usize]);
        let last = ended.max_by_key(|(ns, leaf)| (*ns, leaf.index()));
        if start_ns == end_ns {
            // Pieces without work are nothing but moments: who waits for one waits for what that waited for.
            ends[piece as usize] = last;
            continue;
        }
        ends[piece as usize] = Some((end_ns, leaf));
        timeline.spans.push(Span {
            rank: Rank(leaf.0),
            name: names[piece as usize].clone(),
            activity: Activity::Compute,
            start_ps: start_ns * PS_PER_NS,
            end_ps: end_ns * PS_PER_NS,
        });
        timeline.dependences.extend(last.map(|(ended_ns, from)| Dependence {
            from: Rank(from.0),
            ended_ps: ended_ns * PS_PER_NS,
            to: Rank(leaf.0),
            began_ps: start_ns * PS_PER_NS,
        }));
    }
    timeline.coloured_by_label()
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_trace::path::critical_path;

    #[test]
    fn the_end_waits_through_pieces_without_work() {
        let mut pieces = Pieces::default();
        let first = pieces.add(10, vec![]);
        let nothing = pieces.add(0, vec![first]);
        pieces.add(5, vec![nothing]);
        pieces.add(20, vec![nothing]);
        let names = ["a_0", "a_done", "b_1", "b_2"].map(str::to_owned);
        let ran =
            [(0, LeafId(0), 0, 10), (1, LeafId(1), 11, 11), (2, LeafId(1), 11, 16), (3, LeafId(0), 12, 32)];
        let timeline = of(&pieces, &names, 2, &ran, ("t", "s"));
        assert_eq!(timeline.kinds, ["b", "a"]);
        let steps: Vec<_> = critical_path(&timeline)
            .iter()
            .map(|step| (step.name(&timeline), step.start_ps / 1000, step.end_ps / 1000))
            .collect();
        assert_eq!(steps, [("computing", 0, 10), ("starting tasks", 10, 12), ("computing", 12, 32)]);
    }
}
