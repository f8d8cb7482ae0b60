//! Fits a table of the combined slowdowns of ten programs to what de Blanche and Lundqvist print about theirs ("Terrible twins", COSH 2016),
//! and prints it as `castell place --slowdowns` reads it. What remains is told on standard error.
//!
//!     cargo run --release -p castell-policy --example fit_table > experiments/cosh-4/table.csv

use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;

const NAMES: [&str; 10] = ["BT", "CG", "DC", "EP", "FT", "IS", "LU", "MG", "SP", "UA"];
/// Low, middle and high twins: numbers of programs.
const GROUPS: [&[usize]; 3] = [&[2, 3, 9], &[0, 5, 7, 8], &[1, 4, 6]];
/// Table 2 in percent: best, average, worst.
const TABLE: [(&str, [f64; 3]); 6] = [
    ("all", [3.66, 6.59, 12.66]),
    ("no twins", [3.81, 5.92, 9.01]),
    ("all twins", [3.66, 7.18, 12.66]),
    ("low twins", [4.47, 7.05, 12.66]),
    ("mid twins", [3.66, 6.83, 12.66]),
    ("high twins", [5.18, 8.10, 12.66]),
];
const JOBS: f64 = 20.0;
const PAIRS: usize = 55;
/// Combined slowdowns of the 55 pairs in percent: least, most, mean; the three worst twins; all twins together.
const LEAST: f64 = 0.04;
const MEAN: f64 = 14.15;
const WORST_TWINS: [(usize, f64); 3] = [(1, 80.6), (4, 60.0), (6, 47.0)];
const ALL_TWINS: f64 = 12.3;
const ROUNDS: usize = 240;

/// The ten pairs of a way, and how often it counts in each subset of the table as the paper counts: the last pair is not looked at, and
/// ways with twins of a group count once for each pair of them.
struct Way {
    pairs: [u8; 10],
    weight: [u8; 6],
}

fn number(one: usize, other: usize) -> usize {
    other * (other + 1) / 2 + one
}

fn list(
    left: &mut [u32; 10],
    (first, from): (usize, usize),
    way: &mut Vec<(usize, usize)>,
    ways: &mut Vec<Way>,
) {
    let Some(next) = (first..10).find(|&program| left[program] > 0) else {
        let twins: Vec<usize> = way[..9].iter().filter(|pair| pair.0 == pair.1).map(|pair| pair.0).collect();
        let of = |group: &[usize]| twins.iter().filter(|twin| group.contains(twin)).count() as u8;
        let has_twins = u8::from(!twins.is_empty());
        let weight = [1, 1 - has_twins, has_twins, of(GROUPS[0]), of(GROUPS[1]), of(GROUPS[2])];
        ways.push(Way { pairs: std::array::from_fn(|at| number(way[at].0, way[at].1) as u8), weight });
        return;
    };
    let from = if next == first { from } else { next };
    left[next] -= 1;
    for second in from..10 {
        if left[second] > 0 {
            left[second] -= 1;
            way.push((next, second));
            list(left, (next, second), way, ways);
            way.pop();
            left[second] += 1;
        }
    }
    left[next] += 1;
}

fn cost(way: &Way, table: &[f64; PAIRS]) -> f64 {
    way.pairs.iter().map(|&pair| table[pair as usize]).sum()
}

/// A sum that has to be something.
struct Equation {
    factors: [f64; PAIRS],
    value: f64,
}

fn equations(ways: &[Way]) -> Vec<Equation> {
    let mut twins = [0.0; PAIRS];
    (0..10).for_each(|program| twins[number(program, program)] = 1.0);
    let mut all = vec![
        Equation { factors: [1.0; PAIRS], value: MEAN * PAIRS as f64 },
        Equation { factors: twins, value: ALL_TWINS * JOBS },
    ];
    for (subset, (_, [_, average, _])) in TABLE.iter().enumerate() {
        let (mut factors, mut count) = ([0.0; PAIRS], 0.0);
        for way in ways {
            let weight = f64::from(way.weight[subset]);
            count += weight;
            way.pairs.iter().for_each(|&pair| factors[pair as usize] += weight);
        }
        factors.iter_mut().for_each(|factor| *factor /= count);
        all.push(Equation { factors, value: average * JOBS });
    }
    all
}

/// Moves the table towards what the equations say, one after the other.
fn project(table: &mut [f64; PAIRS], equations: &[Equation]) {
    for _ in 0..40 {
        for equation in equations {
            let value: f64 = equation.factors.iter().zip(&*table).map(|(factor, entry)| factor * entry).sum();
            let length: f64 = equation.factors.iter().map(|factor| factor * factor).sum();
            let step = (equation.value - value) / length;
            equation.factors.iter().zip(&mut *table).for_each(|(factor, entry)| *entry += step * factor);
            hold(table);
        }
    }
}

/// What is printed is kept, and nothing is outside of what is printed.
fn hold(table: &mut [f64; PAIRS]) {
    table.iter_mut().for_each(|entry| *entry = entry.clamp(LEAST, 46.0));
    WORST_TWINS.iter().for_each(|&(program, value)| table[number(program, program)] = value);
    table[number(3, 3)] = LEAST;
    for (group, (least, most)) in [(0, (LEAST, 4.0)), (1, (4.0, 30.0))] {
        for &program in GROUPS[group] {
            let entry = &mut table[number(program, program)];
            *entry = entry.clamp(least, most);
        }
    }
}

/// Best, average and worst of each subset, in percent, and how many ways are worse than all twins together.
fn outcome(ways: &[Way], costs: &[f64], table: &[f64; PAIRS]) -> ([[f64; 3]; 6], usize) {
    let mut outcome = [[f64::MAX, 0.0, f64::MIN]; 6];
    let mut counts = [0.0; 6];
    let twins: f64 = (0..10).map(|program| table[number(program, program)]).sum();
    for (way, &cost) in ways.iter().zip(costs) {
        for (subset, [best, sum, worst]) in
            outcome.iter_mut().enumerate().filter(|(at, _)| way.weight[*at] > 0)
        {
            let weight = f64::from(way.weight[subset]);
            (*best, *worst) = (best.min(cost / JOBS), worst.max(cost / JOBS));
            *sum += weight * cost / JOBS;
            counts[subset] += weight;
        }
    }
    outcome.iter_mut().zip(counts).for_each(|([_, sum, _], count)| *sum /= count);
    (outcome, costs.iter().filter(|&&cost| cost > twins + 1e-9).count())
}

/// Moves the ends of the subsets: ways beyond an end are moved inside, and the outermost way to the end.
fn move_ends(table: &mut [f64; PAIRS], ways: &[Way], costs: &[f64], pace: f64) {
    for (subset, (_, [best, _, worst])) in TABLE.iter().enumerate() {
        for (sign, end) in [(1.0, best * JOBS), (-1.0, worst * JOBS)] {
            let (mut beyond, mut count, mut least) = ([0.0; PAIRS], 0.0, (f64::MAX, 0));
            let mut furthest = 0.0f64;
            for (at, (way, cost)) in
                ways.iter().zip(costs).enumerate().filter(|(_, (way, _))| way.weight[subset] > 0)
            {
                let over = sign * (cost - end);
                if over < least.0 {
                    least = (over, at);
                }
                if over < 0.0 {
                    way.pairs.iter().for_each(|&pair| beyond[pair as usize] -= over);
                    count -= over;
                    furthest = furthest.max(-over);
                }
            }
            if count > 0.0 {
                let length: f64 = beyond.iter().map(|of| of * of).sum::<f64>() / count / count;
                table
                    .iter_mut()
                    .zip(beyond)
                    .for_each(|(entry, of)| *entry += sign * pace * furthest * of / count / length);
            } else {
                ways[least.1]
                    .pairs
                    .iter()
                    .for_each(|&pair| table[pair as usize] -= sign * pace * least.0 / 10.0);
            }
            hold(table);
        }
    }
}

fn residual(outcome: &[[f64; 3]; 6]) -> f64 {
    let printed = TABLE.iter().flat_map(|(_, printed)| printed);
    outcome.iter().flatten().zip(printed).map(|(found, printed)| (found - printed).abs()).fold(0.0, f64::max)
}

fn main() {
    let mut ways = Vec::new();
    list(&mut [2; 10], (0, 0), &mut Vec::new(), &mut ways);
    assert_eq!(ways.len(), 1_436_714);
    let equations = equations(&ways);
    let mut random = Philox::new(4, Rank(0), 0, 0);
    // Who wants more suffers more, and makes others suffer.
    let wants: [f64; 10] = [0.5, 1.0, 0.25, 0.02, 0.85, 0.5, 0.75, 0.6, 0.55, 0.3];
    let mut table = [0.0; PAIRS];
    for other in 0..10 {
        for one in 0..=other {
            let noise = 0.5 + (random.next_u32() as f64) / f64::from(u32::MAX);
            table[number(one, other)] = 45.0 * wants[one] * wants[other] * noise;
        }
    }
    hold(&mut table);
    let mut kept = (f64::MAX, table);
    for round in 0..ROUNDS {
        project(&mut table, &equations);
        let costs: Vec<f64> = ways.iter().map(|way| cost(way, &table)).collect();
        let found = outcome(&ways, &costs, &table);
        if residual(&found.0) < kept.0 {
            kept = (residual(&found.0), table);
        }
        if round % 40 == 0 {
            eprintln!("round {round}: at most {:.3} off, {:.3} so far", residual(&found.0), kept.0);
        }
        move_ends(&mut table, &ways, &costs, 0.3 / (1.0 + round as f64 / 40.0));
    }
    report(&kept.1, &ways);
}

fn report(table: &[f64; PAIRS], ways: &[Way]) {
    // As it is printed below.
    let table = table.map(|entry| (entry * 1e4).round() / 1e4);
    let costs: Vec<f64> = ways.iter().map(|way| cost(way, &table)).collect();
    let (outcome, worse) = outcome(ways, &costs, &table);
    for ((name, printed), found) in TABLE.iter().zip(outcome) {
        eprintln!("{name:<12} printed {printed:>5.2?} found {found:>5.2?}");
    }
    let twins: f64 = (0..10).map(|program| table[number(program, program)]).sum();
    eprintln!(
        "55 pairs: mean {:.2}, from {:.2} to {:.2}; all twins {:.2}, {} ways are worse",
        table.iter().sum::<f64>() / PAIRS as f64,
        table.iter().fold(f64::MAX, |least, &entry| least.min(entry)),
        table.iter().fold(0.0, |most: f64, &entry| most.max(entry)),
        twins / JOBS,
        worse
    );
    println!(
        "# Fitted to what is printed about the pairs and schedules; each of two shares half of what both suffer."
    );
    println!("program,{}", NAMES.join(","));
    for (row, name) in NAMES.iter().enumerate() {
        let entry = |column: usize| table[number(row.min(column), row.max(column))] / 2.0;
        let fields: Vec<String> = (0..10).map(|column| format!("{:.5}%", entry(column))).collect();
        println!("{name},{}", fields.join(","));
    }
}
