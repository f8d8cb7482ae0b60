//! Predictors against the slowdowns of the simulated machine, which they have no formula of, and against what they must give by definition.

use castell_cachesim::MissRatioCurve;
use castell_cachesim::machine::Chip;
use castell_cachesim::programs::{kernels::kernels, table_2};
use castell_interference::errors::{split_by_pair, split_by_program};
use castell_interference::scn::{NO_CONTENTION, ScnError, median};
use castell_interference::sharing::{Fitted, SharingError, forecast};
use castell_interference::simulated::{Measured, measure};
use castell_interference::{Behaviour, BesideProbe, Class, Errors, Host, Pair, Profile, Readings, Scn};
use proptest::prelude::*;

/// Each pair that is tested on, with what SCN says that was trained on others.
fn said_by_scn(measured: &Measured, splits: Vec<(Vec<Pair>, Vec<Pair>)>) -> Vec<(Pair, f64)> {
    let mut said = Vec::new();
    for (train, test) in splits {
        let scn = Scn::train(&measured.profiles, &train, measured.host.bytes_per_second_max).expect("pairs");
        let of = |program: usize| &measured.profiles[program];
        said.extend(
            test.iter()
                .map(|pair| (*pair, scn.predict(of(pair.program), of(pair.neighbour)).expect("readings"))),
        );
    }
    said
}

fn errors<'a>(said: impl IntoIterator<Item = &'a (Pair, f64)>) -> Errors {
    Errors::of(said.into_iter().map(|(pair, predicted)| (*predicted, pair.slowdown)))
}

struct Spread {
    scn: [Errors; 2],
    beside_s: Errors,
    c_beside_c: Errors,
    ours: Errors,
    answered: Errors,
    median: Errors,
    no_contention: Errors,
    inside: f64,
}

fn spread(measured: &Measured) -> Spread {
    let pairs = measured.pairs(|| ()).expect("all ways");
    let count = measured.profiles.len();
    assert_eq!(pairs.len(), count * count);
    let class = |program: usize| measured.profiles[program].class;
    let by_pair = said_by_scn(measured, split_by_pair(&pairs));
    let by_program = said_by_scn(measured, split_by_program(&pairs, count));
    assert_eq!((by_pair.len(), by_program.len()), (pairs.len(), pairs.len()));
    let fitted: Vec<Fitted> = measured
        .profiles
        .iter()
        .map(|profile| Fitted::of(&measured.host, profile).expect("distances"))
        .collect();
    let forecasts: Vec<_> = pairs
        .iter()
        .map(|pair| (*pair, forecast(&measured.host, &[&fitted[pair.program], &fitted[pair.neighbour]])[0]))
        .collect();
    let always = |value: f64| Errors::of(pairs.iter().map(|pair| (value, pair.slowdown)));
    let inside =
        forecasts.iter().filter(|(pair, said)| (said.low * 0.95..=said.high * 1.05).contains(&pair.slowdown));
    Spread {
        beside_s: errors(by_pair.iter().filter(|(pair, _)| class(pair.neighbour) == Class::S)),
        c_beside_c: errors(
            by_pair
                .iter()
                .filter(|(pair, _)| class(pair.program) == Class::C && class(pair.neighbour) == Class::C),
        ),
        scn: [errors(&by_pair), errors(&by_program)],
        ours: Errors::of(forecasts.iter().map(|(pair, said)| (said.slowdown, pair.slowdown))),
        answered: Errors::of(
            forecasts
                .iter()
                .filter(|(_, said)| !said.cannot_tell())
                .map(|(pair, said)| (said.slowdown, pair.slowdown)),
        ),
        median: always(median(&pairs).expect("pairs")),
        no_contention: always(NO_CONTENTION),
        inside: inside.count() as f64 / pairs.len() as f64,
    }
}

fn classes(measured: &Measured) -> [usize; 3] {
    Class::ALL.map(|class| measured.profiles.iter().filter(|profile| profile.class == class).count())
}

#[test]
fn with_the_seeds_flows_scn_is_as_good_as_in_the_seed_and_ours_is_better() {
    let chip = Chip::xeon_e5_4620(16);
    let measured = measure(&chip, &table_2::programs(&chip), |_| ()).expect("all ways");
    // S, C, N: as printed, every one of them.
    assert_eq!(classes(&measured), [5, 11, 3]);
    let spread = spread(&measured);
    for scn in &spread.scn {
        assert!(scn.count() == 361 && scn.below(0.05) >= 0.55 && scn.below(0.3) >= 0.94, "{scn:?}");
        assert!(spread.ours.below(0.05) > scn.below(0.05) && spread.ours.below(0.3) >= scn.below(0.3));
        assert!(spread.ours.mean() < scn.mean());
    }
    assert!(spread.beside_s.below(0.3) >= 0.72, "{:?}", spread.beside_s);
    assert!(spread.c_beside_c.below(0.3) >= 0.97, "{:?}", spread.c_beside_c);
    for naive in [&spread.median, &spread.no_contention] {
        assert!(spread.ours.below(0.05) > naive.below(0.05) && spread.ours.mean() < naive.mean());
    }
    assert!(spread.answered.count() >= 300 && spread.answered.below(0.3) == 1.0, "{:?}", spread.answered);
    assert!(spread.inside > 0.95, "{}", spread.inside);
}

#[test]
fn with_loops_of_numerical_codes_ours_is_better_than_scn_and_both_naive_ones() {
    let chip = Chip::xeon_e5_4620(32);
    let measured = measure(&chip, &kernels(&chip), |_| ()).expect("all ways");
    let [s, c, n] = classes(&measured);
    assert!(s >= 5 && c >= 11 && n >= 3, "{s} {c} {n}");
    let spread = spread(&measured);
    for other in spread.scn.iter().chain([&spread.median, &spread.no_contention]) {
        assert!(
            spread.ours.below(0.05) > other.below(0.05),
            "{} {}",
            spread.ours.below(0.05),
            other.below(0.05)
        );
        assert!(spread.ours.below(0.3) > other.below(0.3) && spread.ours.mean() < other.mean());
    }
    assert!(spread.answered.below(0.3) > 0.95, "{}", spread.answered.below(0.3));
}

fn streaming(name: &str, class: Class, into_llc: f64) -> Profile {
    let readings = Readings::new(2.0 * into_llc, into_llc, into_llc).ok();
    Profile { name: name.to_owned(), class, readings, behaviour: None }
}

proptest! {
    /// Slowdowns that follow the formulas give back their constants.
    #[test]
    fn training_finds_the_constants(
        alpha in 0.0..2e-10f64, beta in 1.0..2.0f64, constants in prop::array::uniform5(1.0..3.0f64),
    ) {
        let [c1, c2, c3, c4, c5] = constants;
        let scn = Scn { bytes_per_second_max: 14e9, alpha, beta, c1, c2, c3, c4, c5 };
        let profiles: Vec<Profile> = [
            (Class::S, 8e9), (Class::S, 11e9), (Class::C, 1e9), (Class::C, 2e9), (Class::N, 0.0), (Class::N, 1e8),
        ].into_iter().enumerate().map(|(at, (class, flow))| streaming(&at.to_string(), class, flow)).collect();
        let mut pairs = Vec::new();
        for program in 0..6 {
            for neighbour in 0..6 {
                let slowdown = scn.predict(&profiles[program], &profiles[neighbour]).expect("readings");
                pairs.push(Pair { program, neighbour, slowdown });
            }
        }
        let found = Scn::train(&profiles, &pairs, 14e9).expect("pairs");
        for pair in &pairs {
            let again = found.predict(&profiles[pair.program], &profiles[pair.neighbour]).expect("readings");
            prop_assert!((again / pair.slowdown - 1.0).abs() < 1e-9, "{:?}", pair);
        }
    }

    #[test]
    fn each_pair_is_tested_on_once_and_never_trained_on(programs in 1..12usize) {
        let all = (0..programs).flat_map(|program| (0..programs).map(move |neighbour| (program, neighbour)));
        let pairs: Vec<Pair> =
            all.map(|(program, neighbour)| Pair { program, neighbour, slowdown: 1.0 }).collect();
        for (splits, by_program) in [(split_by_pair(&pairs), false), (split_by_program(&pairs, programs), true)] {
            let mut tested = Vec::new();
            for (train, test) in splits {
                for pair in &test {
                    prop_assert!(!train.contains(pair));
                    let known = |other: &Pair| other.program == pair.program || other.neighbour == pair.program;
                    prop_assert!(!by_program || !train.iter().any(known));
                }
                tested.extend(test.iter().map(|pair| (pair.program, pair.neighbour)));
            }
            tested.sort_unstable();
            let wanted: Vec<(usize, usize)> = pairs.iter().map(|pair| (pair.program, pair.neighbour)).collect();
            prop_assert_eq!(tested, wanted);
        }
    }
}

#[test]
fn two_streams_are_told_by_the_seeds_formula_turned_round() {
    let scn = Scn {
        bytes_per_second_max: 10e9,
        alpha: 0.0,
        beta: 1.0,
        c1: 1.0,
        c2: 1.0,
        c3: 1.0,
        c4: 1.0,
        c5: 1.0,
    };
    let (small, large) = (streaming("small", Class::S, 3e9), streaming("large", Class::S, 9e9));
    assert_eq!(scn.predict(&small, &large), Ok(1.2));
    assert_eq!(scn.predict(&small, &small), Ok(1.0));
    let unknown = Profile { readings: None, ..small.clone() };
    assert_eq!(scn.predict(&unknown, &large), Err(ScnError::NoReadings("small".to_owned())));
    assert_eq!(Scn::train(&[small], &[], 1e9), Err(ScnError::NoPairs));
}

const HOST: Host = Host {
    llc_blocks: 16384.0,
    block_bytes: 64.0,
    llc_seconds: 12e-9,
    memory_seconds: 87e-9,
    bytes_per_second_max: 14e9,
};

fn looping(blocks: f64, accesses_per_second: f64, beside: Vec<BesideProbe>) -> Profile {
    let curve = MissRatioCurve::cyclic(blocks);
    let behaviour = Behaviour { curve, accesses_per_second, private_blocks: 256.0, beside };
    Profile { name: format!("loop of {blocks}"), class: Class::C, readings: None, behaviour: Some(behaviour) }
}

fn first_of(programs: [&Profile; 2]) -> castell_interference::sharing::Forecast {
    let fitted = programs.map(|profile| Fitted::of(&HOST, profile).expect("distances"));
    forecast(&HOST, &[&fitted[0], &fitted[1]])[0]
}

#[test]
fn without_runs_beside_probes_a_user_of_the_cache_cannot_be_told_beside_a_stream() {
    let stream = looping(1e6, 150e6, Vec::new());
    let said = first_of([&looping(8000.0, 80e6, Vec::new()), &stream]);
    assert!(said.cannot_tell() && said.low == 1.0 && said.high > 5.0, "{said:?}");
    assert!(said.because().starts_with("I can't tell: between 1.00 and 7."), "{}", said.because());
    let swept = BesideProbe { blocks: 65536.0, accesses_per_second: 180e6, slowdown: 7.25 };
    let said = first_of([&looping(8000.0, 80e6, vec![swept]), &stream]);
    assert!(!said.cannot_tell() && (said.slowdown / 7.25 - 1.0).abs() < 0.1, "{said:?}");
}

#[test]
fn what_fits_its_own_caches_or_beside_another_is_not_slowed() {
    let stream = looping(1e6, 150e6, Vec::new());
    let small = looping(200.0, 1e9, Vec::new());
    assert_eq!(first_of([&small, &stream]).slowdown, 1.0);
    let (one, other) = (looping(6000.0, 80e6, Vec::new()), looping(7000.0, 60e6, Vec::new()));
    let said = first_of([&one, &other]);
    assert!(said.slowdown < 1.001 && !said.cannot_tell(), "{said:?}");
}

#[test]
fn what_is_missing_is_named() {
    let none = streaming("bare", Class::S, 1e9);
    assert_eq!(Fitted::of(&HOST, &none).unwrap_err(), SharingError::NoBehaviour("bare".to_owned()));
    let stopped = looping(100.0, 0.0, Vec::new());
    assert!(matches!(Fitted::of(&HOST, &stopped), Err(SharingError::NoPace(_))));
    let no_machine = Host { memory_seconds: 0.0, ..HOST };
    assert!(Fitted::of(&no_machine, &looping(100.0, 1e6, Vec::new())).is_err());
}
