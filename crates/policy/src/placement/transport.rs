//! The fractional side of matching: each program gives away as many halves of pairs as it has instances.
//!
//! Two copies of the programs, one giving and one taking, is a transportation problem; half of what flows both ways is a matching
//! but for odd circles of halves, and its potentials bound what any matching costs. It depends on programs, not on jobs, so a
//! million jobs of a hundred programs cost no more than a thousand. Solved by cheapest augmenting paths.

use super::dual::Cost;

/// The cheapest way to give all away.
#[derive(Debug)]
pub(super) struct Transport {
    /// From program (row by row) to program, how many jobs. Not symmetric.
    pub flow: Vec<u64>,
    /// Of a program: no pair costs less than the potentials of its two.
    pub potentials: Vec<i64>,
    /// What the flow costs: at most twice the cheapest matching. In units of [`Cost`].
    pub total: i128,
}

/// Solves it for programs with so many instances each. `None`: some jobs have no possible partner left.
pub(super) fn solve(instances: &[u64], cost: &impl Fn(usize, usize) -> Cost) -> Option<Transport> {
    let programs = instances.len();
    let mut flow = vec![0u64; programs * programs];
    let mut take = instances.to_vec();
    let (mut rows, mut columns) = (vec![0i64; programs], vec![0i64; programs]);
    for (row, &jobs) in instances.iter().enumerate() {
        let mut give = jobs;
        while give > 0 {
            let mut path = Path::new(programs);
            let end = path.find(row, &flow, (&rows, &columns), &take, cost)?;
            path.move_potentials(end, &mut rows, &mut columns);
            let amount = path.amount(row, end, &flow).min(give).min(take[end]);
            path.augment(row, end, amount, &mut flow);
            give -= amount;
            take[end] -= amount;
        }
    }
    let mut total = 0;
    for (row, &jobs) in instances.iter().enumerate() {
        total += i128::from(jobs) * (i128::from(rows[row]) + i128::from(columns[row]));
    }
    // Rounded down to even numbers: still no more than the pair costs, and fit to start from.
    let potentials =
        rows.iter().zip(&columns).map(|(row, column)| (row + column).div_euclid(4) * 2).collect();
    Some(Transport { flow, potentials, total })
}

/// Dijkstra's search from a row over reduced costs.
struct Path {
    programs: usize,
    /// Of a column: how far, and from which row.
    far: Vec<i64>,
    through: Vec<usize>,
    /// Whether its distance is final.
    is_done: Vec<bool>,
    /// Of a row that was reached: its distance, and from which column back.
    rows: Vec<(usize, i64, usize)>,
    is_reached: Vec<bool>,
    back: Vec<usize>,
}

impl Path {
    fn new(programs: usize) -> Path {
        Path {
            programs,
            far: vec![i64::MAX; programs],
            through: vec![usize::MAX; programs],
            is_done: vec![false; programs],
            rows: Vec::new(),
            is_reached: vec![false; programs],
            back: vec![usize::MAX; programs],
        }
    }

    /// The nearest column that still takes jobs.
    fn find(
        &mut self,
        start: usize,
        flow: &[u64],
        (rows, columns): (&[i64], &[i64]),
        take: &[u64],
        cost: &impl Fn(usize, usize) -> Cost,
    ) -> Option<usize> {
        self.reach(start, 0, usize::MAX, (rows, columns), cost);
        loop {
            let open = (0..self.programs).filter(|&column| !self.is_done[column]);
            let column = open.min_by_key(|&column| self.far[column])?;
            if self.far[column] == i64::MAX {
                return None;
            }
            self.is_done[column] = true;
            if take[column] > 0 {
                return Some(column);
            }
            for row in 0..self.programs {
                if flow[row * self.programs + column] > 0 && !self.is_reached[row] {
                    self.reach(row, self.far[column], column, (rows, columns), cost);
                }
            }
        }
    }

    fn reach(
        &mut self,
        row: usize,
        far: i64,
        from: usize,
        (rows, columns): (&[i64], &[i64]),
        cost: &impl Fn(usize, usize) -> Cost,
    ) {
        self.is_reached[row] = true;
        self.back[row] = from;
        self.rows.push((row, far, from));
        for (column, &potential) in columns.iter().enumerate() {
            if self.is_done[column] {
                continue;
            }
            if let Cost::Of(cost) = cost(row, column) {
                let length = far + (cost - rows[row] - potential);
                if length < self.far[column] {
                    self.far[column] = length;
                    self.through[column] = row;
                }
            }
        }
    }

    /// Makes the edges of the path tight, and none too cheap.
    fn move_potentials(&self, end: usize, rows: &mut [i64], columns: &mut [i64]) {
        let length = self.far[end];
        for &(row, far, _) in &self.rows {
            rows[row] += length - far;
        }
        for (column, potential) in columns.iter_mut().enumerate() {
            if self.is_done[column] && column != end {
                *potential -= length - self.far[column];
            }
        }
    }

    /// What every edge back on the path can give.
    fn amount(&self, start: usize, end: usize, flow: &[u64]) -> u64 {
        let (mut column, mut amount) = (end, u64::MAX);
        loop {
            let row = self.through[column];
            if row == start {
                return amount;
            }
            column = self.back[row];
            amount = amount.min(flow[row * self.programs + column]);
        }
    }

    fn augment(&self, start: usize, end: usize, amount: u64, flow: &mut [u64]) {
        let mut column = end;
        loop {
            let row = self.through[column];
            flow[row * self.programs + column] += amount;
            if row == start {
                return;
            }
            column = self.back[row];
            flow[row * self.programs + column] -= amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::blossom;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn it_bounds_every_matching(
            instances in proptest::collection::vec(1u64..4, 1..6),
            costs in proptest::collection::vec(0i64..50, 36),
        ) {
            let cost = |one: usize, other: usize| Cost::Of(2 * costs[one.min(other) * 6 + one.max(other)]);
            let solved = solve(&instances, &cost).unwrap();
            for one in 0..instances.len() {
                let sent: u64 = (0..instances.len()).map(|other| solved.flow[one * instances.len() + other]).sum();
                prop_assert_eq!(sent, instances[one]);
                for other in 0..instances.len() {
                    let Cost::Of(cost) = cost(one, other) else { unreachable!() };
                    prop_assert!(solved.potentials[one] + solved.potentials[other] <= cost);
                }
            }
            let flows = (0..instances.len()).flat_map(|one| (0..instances.len()).map(move |other| (one, other)));
            let value: i128 = flows.map(|(one, other)| {
                let Cost::Of(cost) = cost(one, other) else { unreachable!() };
                i128::from(solved.flow[one * instances.len() + other]) * i128::from(cost)
            }).sum();
            prop_assert_eq!(value, solved.total);
            let jobs: Vec<usize> = instances.iter().enumerate().flat_map(|(program, &jobs)| vec![program; jobs as usize]).collect();
            if jobs.len().is_multiple_of(2) {
                let potentials = jobs.iter().map(|&program| solved.potentials[program]).collect();
                let of_jobs = |one: usize, other: usize| cost(jobs[one], jobs[other]);
                let (_, dual) = blossom::match_all(jobs.len(), &of_jobs, potentials, vec![usize::MAX; jobs.len()]).unwrap();
                prop_assert!(solved.total <= 2 * dual);
            }
        }
    }
}
