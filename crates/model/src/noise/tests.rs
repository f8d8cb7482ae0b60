use super::*;
use castell_base::Rank;

fn parse(text: &str) -> Result<NoisyModel, ModelError> {
    NoisyModel::parse(text, &mut |name| match name {
        "times.txt" => Ok("# us\n1.5us 2us,\n\n3us".to_owned()),
        "plain.txt" => Ok("1.5\n2\n".to_owned()),
        "empty.txt" => Ok("# nothing\n".to_owned()),
        other => Err(format!("cannot read {other}")),
    })
}

fn key(operation: u64) -> Key {
    Key { seed: 5, rank: Rank(1), operation }
}

fn loggops(noisy: &NoisyModel) -> LogGops {
    noisy.model.as_loggops().unwrap()
}

#[test]
fn what_does_not_vary_is_exactly_the_model_without_noise() {
    for (noisy, plain) in [
        ("loggops:o=normal(1500ns,0ns)", "loggops:o=1500ns"),
        ("loggops:o=1500ns+exponential(0ns),L=2us*lognormal(1,0)", "loggops:o=1500ns,L=2us"),
        ("loggops:G=uniform(100ps/3B,100ps/3B)", "loggops:G=100ps/3B"),
        ("loggops:G=100ps/3B+exponential(0ns)", "loggops:G=100ps/3B"),
        (
            "plb:alpha_p=sample(1us,1us),alpha_r=table(8:1ns,64:2ns)*normal(1,0)",
            "plb:alpha_p=1us,alpha_r=table(8:1ns,64:2ns)",
        ),
        ("logp:L=123456789012345678ps+normal(1ps,0ps)", "logp:L=123456789012345679ps"),
        ("lb:compute=normal(1,0)", "lb"),
        ("plb", "plb"),
    ] {
        let found = parse(noisy).unwrap_or_else(|error| panic!("{noisy}: {error}"));
        assert_eq!(found, NoisyModel::from(Model::parse(plain).unwrap()), "{noisy}");
        assert!(found.noise.is_none());
    }
}

#[test]
fn a_printed_model_reads_as_itself() {
    for text in [
        "loggops:L=2.5us,o=normal(1.5us,100ns),g=1us,G=gamma(6ns,1ns),O=0ns,S=65535",
        "loggops:L=2.5us+exponential(200ns),o=1.5us,g=uniform(1us,2us),G=6ns*pareto(0.5,2),O=0ns,S=65535",
        "plb:alpha_p=sample(times.txt),alpha_r=table(8:1ns,64:2ns)*lognormal(1,0.1),beta=0ns,gamma=0ns,compute=normal(1,0.05)",
        "lb:alpha=sample(plain.txt,us),beta=sample(1ns,2ns),gamma=0ns",
        "lop:L=1us,o_s=table(1:2ns,2:1ns)+exponential(5ns),o_r=1ns,h_s=0ns,h_r=0ns",
    ] {
        let noisy = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(noisy.to_string(), text);
        assert!(!noisy.noise.is_none());
    }
}

#[test]
fn draws_depend_on_key_event_and_parameter_only() {
    let noisy = parse("loggops:o=uniform(1us,2us),g=uniform(1us,2us)").unwrap();
    let base = loggops(&noisy);
    let first = noisy.noise.loggops(&base, key(7), 0);
    assert_eq!(first, noisy.noise.loggops(&base, key(7), 0));
    assert_ne!(first.overhead, first.gap);
    assert_ne!(first.overhead, noisy.noise.loggops(&base, key(8), 0).overhead);
    assert_ne!(first.overhead, noisy.noise.loggops(&base, key(7), 1).overhead);
    assert_eq!((first.latency, first.gap_per_byte), (base.latency, base.gap_per_byte));
    assert_eq!(base.overhead, Time::from_ns(1500), "the mean stands in the model");
    // Another parameter's noise changes nothing.
    let alone = parse("loggops:o=uniform(1us,2us)").unwrap();
    assert_eq!(alone.noise.loggops(&base, key(7), 0).overhead, first.overhead);
}

#[test]
fn two_parameters_drawn_together_have_the_values_that_each_has_alone() {
    let pair = [Parameter::Latency, Parameter::Overhead];
    for text in [
        "loggops:o=normal(1us,300ns),L=2us+exponential(1us)",
        "loggops:o=gamma(1us,2us),L=lognormal(1us,1us)",
        "loggops:L=uniform(1us,2us)",
        "loggops:o=uniform(1us,2us)",
    ] {
        let noisy = parse(text).unwrap();
        let base = loggops(&noisy);
        // So many that some numbers are rejected and drawn again.
        for operation in 0..2000 {
            let key = key(operation);
            let [latency, overhead] = noisy.noise.times(pair, [base.latency, base.overhead], key, 1);
            assert_eq!(latency, noisy.noise.time(Parameter::Latency, base.latency, key, 1), "{text}");
            assert_eq!(overhead, noisy.noise.time(Parameter::Overhead, base.overhead, key, 1), "{text}");
        }
    }
}

#[test]
fn parameters_that_are_drawn_from_one_block_have_nothing_to_do_with_each_other() {
    let noisy = parse("loggops:o=normal(1us,100ns),L=normal(1us,100ns)").unwrap();
    let base = loggops(&noisy);
    let draws = (0..4000).map(|operation| noisy.noise.loggops(&base, key(operation), 0));
    let deviations = draws.map(|drawn| {
        let of = |time: Time| (time.0 as f64 - 1e6) / 1e5;
        of(drawn.latency) * of(drawn.overhead)
    });
    let correlation = deviations.sum::<f64>() / 4000.0;
    // Five standard errors.
    assert!(correlation.abs() < 5.0 / 4000f64.sqrt(), "{correlation}");
}

#[test]
fn combinations_add_and_multiply() {
    let noisy =
        parse("plb:alpha_p=1us+uniform(1ns,2ns),alpha_r=table(8:100ns,16:200ns)*uniform(2,3)").unwrap();
    let Model::Plb(base) = &noisy.model else { panic!() };
    for operation in 0..100 {
        let plb = noisy.noise.plb(base, 12, key(operation), 0);
        assert!((1_001_000..=1_002_000).contains(&plb.alpha_p.of(12).0), "{plb:?}");
        assert!((300_000..=450_000).contains(&plb.alpha_r.of(12).0), "{plb:?}");
    }
    assert_eq!(
        noisy.mean().to_string(),
        "plb:alpha_p=1.0015us,alpha_r=table(8:250ns,16:500ns),beta=0ns,gamma=0ns"
    );
    assert_eq!(
        noisy.least().to_string(),
        "plb:alpha_p=1.001us,alpha_r=table(8:200ns,16:400ns),beta=0ns,gamma=0ns"
    );
}

#[test]
fn computing_varies_by_a_factor() {
    let noisy = parse("lb:compute=uniform(1,2)").unwrap();
    let lengths: Vec<u64> = (0..50).map(|n| noisy.noise.compute(Time(1_000_000), key(n)).0).collect();
    assert!(lengths.iter().all(|length| (1_000_000..=2_000_000).contains(length)), "{lengths:?}");
    assert!(lengths.iter().any(|length| *length != lengths[0]));
    assert_eq!(noisy.mean(), noisy.model);
}

#[test]
fn samples_come_from_files() {
    let noisy = parse("logp:L=sample(times.txt)").unwrap();
    let base = loggops(&noisy).latency;
    assert_eq!(base, Time(2_166_667));
    let mut seen: Vec<u64> =
        (0..200).map(|n| noisy.noise.time(Parameter::Latency, base, key(n), 0).0).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [1_500_000, 2_000_000, 3_000_000]);
    let toml = "model = 'logp'\nL = 'sample(1us,2us)'\no = '1us+exponential(3ns)'";
    let noisy = NoisyModel::from_toml(toml, &mut |_| Err(String::new())).unwrap();
    assert_eq!(noisy.to_string(), "logp:L=sample(1us,2us),o=1us+exponential(3ns),g=1us");
}

#[test]
fn errors_say_what_was_expected() {
    for (text, message) in [
        (
            "logp:L=gauss(1us,1ns)",
            "logp: L: unknown distribution `gauss`: expected one of normal, lognormal,",
        ),
        ("logp:L=normal(1us)", "logp: L: expected normal(MEAN,DEVIATION), found 1 arguments"),
        ("logp:L=normal(1us,2)", "logp: L: expected a time such as 880ns"),
        ("logp:L=1us*normal(1us,0.1)", "logp: L: expected a number such as 0.1, found `1us`"),
        ("logp:L=1us*normal(1,-1)", "logp: L: expected a number such as 0.1, found `-1`"),
        ("logp:L=uniform(2us,1us)", "logp: L: uniform needs its smaller value first"),
        ("logp:L=pareto(1us,0.5)", "logp: L: pareto needs a minimum above 0"),
        ("logp:L=gamma(0ns,1ns)", "logp: L: gamma needs a mean above 0"),
        ("logp:L=sample()", "logp: L: sample needs values"),
        ("logp:L=sample(none.txt)", "logp: L: cannot read none.txt"),
        ("logp:L=sample(plain.txt)", "logp: L: plain.txt, line 1: expected a time such as 880ns"),
        ("logp:L=sample(empty.txt)", "logp: L: sample(empty.txt): there are no values"),
        ("loggops:S=normal(1,2)", "loggops: S: expected a whole number"),
        ("logp:X=normal(1us,1ns)", "logp has no parameter `X`"),
        ("logp:L=normal(1us,1ns),L=2us", "logp: `L` is given twice"),
        ("logp:compute=uniform(1,2),compute=uniform(1,2)", "logp: compute: it is given twice"),
        ("logp:compute=1us+uniform(1,2)", "logp: compute: expected a factor"),
        ("logp:compute=1", "logp has no parameter `compute`"),
        ("logp:L=x+normal(1us,1ns)", "logp: L: expected a time such as 880ns"),
        ("logo:L=normal(1us,1ns)", "unknown model `logo`"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    let error = Model::parse("logp:L=normal(1us,1ns)").unwrap_err().to_string();
    assert!(error.starts_with("logp: L: expected a time such as"), "{error}");
}
