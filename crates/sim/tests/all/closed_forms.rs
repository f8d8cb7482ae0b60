//! Every model's closed formulas against runs of the programs that they are formulas for.

use castell_base::Time;
use castell_collectives::generator::{Generator, Options};
use castell_model::{ClosedForms, Model, Tree};
use castell_sim::{Machine, Simulation};

/// Each model, with its defaults and with parameters that make other terms the longest.
const MODELS: [&str; 20] = [
    "bsp",
    "bsp:g=3us,G=2ns,l=1us",
    "lb",
    "lb:alpha=100ns,beta=7ns",
    "logp",
    "logp:L=3us,o=100ns,g=2us",
    "loggp",
    "loggp:L=500ns,o=100ns,g=2us,G=3ns",
    "loggps:S=16",
    "loggops",
    "loggops:O=2ns",
    "loggops:L=100ns,o=50ns,O=40ns,G=6ns,g=10ns",
    "loggops:L=100ns,o=3us,g=1ns,G=100ps/3B",
    "lop",
    "lop:L=1us,o_s=300ns,o_r=200ns,h_s=50ns,h_r=20ns",
    "logfp",
    "logfp:L=1us,o_min=100ns,o_max=50ns,g=2us,f=2",
    "plb",
    "plb:alpha_p=500ns,alpha_r=100ns,beta=0.4ns",
    "plb:alpha_p=table(8:880ns,2048:960ns),alpha_r=table(8:380ns,2048:790ns)",
];

/// When the ranks of a pattern end.
fn ends(name: &str, ranks: u32, bytes: u64, model: &Model) -> Vec<Time> {
    let options = Options { bytes, ..Options::new(ranks) };
    let pattern = Generator::parse(name, &options).unwrap_or_else(|error| panic!("{error}"));
    let machine = Machine::new(model.clone());
    let outcome = Simulation::new(&pattern, &machine).run();
    outcome.unwrap_or_else(|error| panic!("{name} under {model}: {error}")).end
}

/// For each model and some sizes of messages.
fn under_all_models(check: impl Fn(&Model, u64)) {
    for text in MODELS {
        let model = Model::parse(text).unwrap_or_else(|error| panic!("{error}"));
        [1, 8, 100, 3000].into_iter().for_each(|bytes| check(&model, bytes));
    }
}

#[test]
fn ping_pong_ends_when_the_formula_says() {
    under_all_models(|model, bytes| {
        let found = ends("pingpong", 2, bytes, model)[0];
        assert_eq!(found, model.ping_pong(bytes), "{model}, {bytes} bytes");
    });
}

#[test]
fn multicasts_and_trees_reach_their_last_rank_when_the_formulas_say() {
    under_all_models(|model, bytes| {
        for ranks in [2, 3, 5, 8, 13, 16, 31] {
            let last = |name: &str| ends(name, ranks, bytes, model)[1..].iter().copied().max().unwrap();
            let context = format!("{model}, {ranks} ranks, {bytes} bytes");
            let ranks = u64::from(ranks);
            assert_eq!(last("multicast"), model.multicast(ranks - 1, bytes), "multicast, {context}");
            assert_eq!(
                last("scatter:linear"),
                model.broadcast(Tree::Linear, ranks, bytes),
                "linear, {context}"
            );
            assert_eq!(
                last("bcast:binomial"),
                model.broadcast(Tree::BINOMIAL, ranks, bytes),
                "binomial, {context}"
            );
            assert_eq!(last("bcast:chain"), model.broadcast(Tree::Chain, ranks, bytes), "chain, {context}");
        }
    });
}

#[test]
fn exchanges_end_when_the_formulas_say() {
    under_all_models(|model, bytes| {
        for ranks in [2, 4, 7, 16, 32] {
            let last = |name: &str| ends(name, ranks, bytes, model).into_iter().max().unwrap();
            let context = format!("{model}, {ranks} ranks, {bytes} bytes");
            let formula = model.dissemination(u64::from(ranks), bytes);
            assert_eq!(last("barrier:dissemination"), formula, "dissemination, {context}");
            if ranks.is_power_of_two() {
                let formula = model.recursive_doubling(u64::from(ranks), bytes, Time::ZERO);
                assert_eq!(last("allreduce:recursive-doubling"), formula, "recursive doubling, {context}");
            }
        }
    });
}
