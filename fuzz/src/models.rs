//! What has to hold for any text that is given as a model, a network, detours or measurements: the fuzz target asserts
//! it, and so does a quick test of `castell-model`.

use castell_base::random::Key;
use castell_base::{Rank, Time};
use castell_model::fit::{
    Estimator, Measurements, Options, Template, Weighting, fit, fit_by_size, from_parameters,
};
use castell_model::noise::{Detours, NoisyModel};
use castell_model::topology::{LinkCost, Listed, Topology};
use castell_model::{ClosedForms, Model, Tree};

/// Every parser refuses the text or reads it; what is read prints as a text that reads as the same.
pub fn any_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(model) = Model::parse(text) {
        same_model(&model);
    }
    if let Ok(model) = Model::from_toml(text) {
        same_model(&model);
    }
    // Files have the text's other lines.
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mut file = |_: &str| Ok(rest.to_owned());
    if let Ok(noisy) = NoisyModel::parse(first, &mut file) {
        same_noise(&noisy, rest);
    }
    if let Ok(noisy) = NoisyModel::from_toml(text, &mut file) {
        same_noise(&noisy, rest);
    }
    if let Ok(network) = Topology::parse(first, &mut file) {
        let printed = network.to_string();
        let again = Topology::parse(&printed, &mut file).unwrap_or_else(|error| panic!("{printed}: {error}"));
        assert_eq!(again.to_string(), printed);
        routes(&network);
    }
    // As the command line hands it on.
    let _ = Listed::parse(text, LinkCost::default());
    if let Ok(detours) = Detours::parse(text) {
        let phase = detours.phase(1, Rank(2), false);
        assert!(phase < detours.period());
        detours.delay(phase, Time(1_000), Time(1_000_000));
        detours.delay(Time::MAX, Time::MAX, Time::MAX);
    }
    if let Ok(measurements) = Measurements::parse(text, None) {
        fits(&measurements);
    }
}

fn same_model(model: &Model) {
    let printed = model.to_string();
    assert_eq!(Model::parse(&printed).as_ref(), Ok(model), "{printed}");
    let toml = model.to_toml();
    assert_eq!(Model::from_toml(&toml).as_ref(), Ok(model), "{toml}");
    model.ping_pong(8);
    model.broadcast(Tree::BINOMIAL, 1_000_000_007, 8);
    model.broadcast(Tree::Linear, u64::MAX, u64::MAX);
    model.broadcast(Tree::Chain, 9, 0);
    model.recursive_doubling(100, u64::MAX, Time::MAX);
    model.dissemination(u64::MAX, 3);
}

fn same_noise(noisy: &NoisyModel, rest: &str) {
    let printed = noisy.to_string();
    let again = NoisyModel::parse(&printed, &mut |_| Ok(rest.to_owned()));
    assert_eq!(again.as_ref().map(ToString::to_string), Ok(printed));
    same_model(&noisy.mean());
    same_model(&noisy.least());
    let key = Key { seed: 1, rank: Rank(2), operation: 3 };
    noisy.noise.compute(Time(1_000), key);
    match &noisy.model {
        Model::Plb(plb) => drop(noisy.noise.plb(plb, 64, key, 0)),
        model => drop(model.as_loggops().map(|loggops| noisy.noise.loggops(&loggops, key, 1))),
    }
}

/// Routes of networks that are small enough for them to be short.
fn routes(network: &Topology) {
    let ranks = network.ranks();
    if ranks > 4_096 {
        return;
    }
    for (from, to) in [(0, ranks - 1), (ranks / 2, ranks / 3), (ranks - 1, 0)] {
        let route = network.route(Rank(from), Rank(to));
        let end = route.iter().fold(from, |node, &link| {
            let (start, end) = network.ends(link);
            assert_eq!(start, node, "{network}: from {from} to {to}");
            network.transfer(link, u64::MAX);
            end
        });
        assert_eq!(end, to, "{network}");
    }
}

fn fits(measurements: &Measurements) {
    let template = |text| Template::parse(text).expect("it is one");
    let samples = match measurements {
        Measurements::Samples(samples) => samples,
        Measurements::Parameters(rows) => {
            let taken = from_parameters(&template("plb"), rows).expect("plb has such parameters");
            taken.0.iter().for_each(same_model);
            return;
        }
    };
    let relative = Options { weighting: Weighting::Relative, estimator: Estimator::Median };
    let all = Options { estimator: Estimator::All, ..Options::default() };
    for text in ["plb", "lb", "loggp:o=1us", "bsp"] {
        for options in [Options::default(), relative, all] {
            let Ok(fit) = fit(&template(text), samples, options) else { continue };
            fit.model.iter().for_each(same_model);
            assert!(!fit.residuals.is_empty());
        }
    }
    if let Ok(fit) = fit_by_size(&template("plb"), samples, relative) {
        fit.model.iter().for_each(same_model);
    }
}
