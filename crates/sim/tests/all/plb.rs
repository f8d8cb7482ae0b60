//! Under PLB: the thesis' drawn examples, and the closed formulas.

use castell_base::Time;
use castell_collectives::generator::{Generator, Options};
use castell_collectives::language::{Fitted, Word};
use castell_model::{Model, Plb};
use castell_sim::instruments::Counts;
use castell_sim::{Machine, Outcome, Simulation};

/// Section 5.6 of "Larger-scale collectives" (2020): latency 500 ns, of which messages overlap all but 100 ns.
const DRAWN: &str = "plb:alpha_p=500ns,alpha_r=100ns,beta=0.4ns";
const DRAWN_EMPTY: &str = "plb:alpha_p=500ns,alpha_r=100ns";

fn simulate(word: &str, ranks: u32, compute: Time, model: &str) -> (Outcome, u64) {
    let options = Options { compute, ..Options::new(ranks) };
    let pattern = Generator::parse(&format!("allreduce:{word}"), &options).unwrap_or_else(|e| panic!("{e}"));
    let machine = Machine::new(Model::parse(model).unwrap());
    let mut counts = Counts::default();
    let outcome = Simulation::new(&pattern, &machine).run_with(&mut counts);
    (outcome.unwrap_or_else(|error| panic!("{word}: {error}")), counts.messages())
}

/// The table was made independently of this program, and agrees rank by rank with the thesis' author's own.
#[test]
fn drawn_examples_end_when_they_should() {
    for (ranks, word, messages, end_ps, skew_ps, empty_ns, free_ns) in [
        (8, "a2,a2,a2", 24, 1_839_600, 0, Some(1830), 1800),
        (8, "a8", 56, 1_213_200, 0, Some(1210), 1200),
        (7, "c6m2,a2,a2,e6m2", 14, 2_452_800, 1_016_400, None, 2400),
        (7, "m1g2a3,n1g3a2", 23, 1_426_400, 100_000, Some(1420), 1400),
        (7, "m3g2a2,n3g2a2", 20, 1_426_400, 200_000, Some(1420), 1400),
        (6, "a3,a2", 18, 1_326_400, 0, Some(1320), 1300),
    ] {
        let (outcome, sent) = simulate(word, ranks, Time::from_ns(10), DRAWN);
        assert_eq!(
            (outcome.makespan(), outcome.skew(), sent),
            (Time(end_ps), Time(skew_ps), messages),
            "{word}"
        );
        if let Some(empty_ns) = empty_ns {
            let (outcome, _) = simulate(word, ranks, Time::from_ns(10), DRAWN_EMPTY);
            assert_eq!(outcome.makespan(), Time::from_ns(empty_ns), "{word}");
        }
        let (outcome, _) = simulate(word, ranks, Time::ZERO, DRAWN_EMPTY);
        assert_eq!(outcome.makespan(), Time::from_ns(free_ns), "{word}");
    }
}

/// All ordered factorisations of a number into factors of at least 2.
fn factorisations(number: u32) -> Vec<Vec<u32>> {
    if number == 1 {
        return vec![vec![]];
    }
    let first = (2..=number).filter(|first| number.is_multiple_of(*first));
    let rest = first.flat_map(|first| {
        factorisations(number / first).into_iter().map(move |rest| [vec![first], rest].concat())
    });
    rest.collect()
}

fn models() -> impl Iterator<Item = (Plb, Machine)> {
    let texts =
        [DRAWN, DRAWN_EMPTY, "plb", "plb:alpha_p=7ps,alpha_r=1ns,beta=13ps", "plb:alpha_p=0,alpha_r=3ns"];
    texts.into_iter().map(|text| {
        let model = Model::parse(text).unwrap();
        let Model::Plb(plb) = &model else { unreachable!() };
        (plb.clone(), Machine::new(model))
    })
}

fn end(word: &Word, ranks: u32, machine: &Machine) -> Time {
    let pattern = Generator::parse(&format!("allreduce:{word}"), &Options::new(ranks)).unwrap();
    Simulation::new(&pattern, machine).run().unwrap().makespan()
}

#[test]
fn every_pure_factor_schedule_up_to_64_ranks_takes_what_the_formula_says() {
    let mut compared = 0;
    for ranks in 2..=64 {
        for factors in factorisations(ranks) {
            let word = Word::of_factors(factors);
            let cost = Fitted::new(word.clone(), ranks).unwrap().cost(8);
            // All models on few ranks; on many, the one whose parameters all count.
            for (plb, machine) in models().take(if ranks <= 24 { 5 } else { 1 }) {
                assert_eq!(end(&word, ranks, &machine), cost.plb(&plb), "{word} on {ranks} ranks, {plb:?}");
                compared += 1;
            }
        }
    }
    println!("{compared} runs");
}

#[test]
fn merged_schedules_are_never_later_than_the_formula_says() {
    let (mut earlier, mut equal) = (0, 0);
    for ranks in 5u32..=40 {
        for remainder in 1..ranks.div_ceil(2) {
            for factors in factorisations(ranks - remainder).into_iter().filter(|factors| factors.len() >= 2)
            {
                let word = Word::merged(&factors, remainder);
                let Ok(fitted) = Fitted::new(word.clone(), ranks) else { continue };
                let cost = fitted.cost(8);
                for (plb, machine) in models().take(1) {
                    let (end, formula) = (end(&word, ranks, &machine), cost.plb(&plb));
                    assert!(end <= formula, "{word} on {ranks} ranks, {plb:?}: {end} after {formula}");
                    if end < formula { earlier += 1 } else { equal += 1 }
                }
            }
        }
    }
    println!("{earlier} end earlier, {equal} as the formula says");
    assert!(earlier > 0 && equal > 0);
}
