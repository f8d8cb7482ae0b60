//! What `castell predict` prints and draws.

use super::{By, Known, Said};
use anyhow::Context as _;
use castell_bench::bar::waiting;
use castell_interference::errors::{split_by_pair, split_by_program};
use castell_interference::scn::NO_CONTENTION;
use castell_interference::sharing::{Fitted, Forecast, forecast};
use castell_interference::{Class, Errors, Pair, Scn};
use castell_trace::Look;
use castell_trace::svg::{HeatMap, write_heat_map};
use serde_json::{Value, json};
use std::path::Path;

/// Programs that run together.
pub(super) fn together(
    (known, said): (&Known, &Said),
    asked: &[usize],
    ways: &[Option<u64>],
    as_json: bool,
) -> anyhow::Result<()> {
    let fitted: Result<Vec<&Fitted>, &String> = asked.iter().map(|at| said.fitted[*at].as_ref()).collect();
    let forecasts = fitted.map(|fitted| forecast(&known.host, &fitted));
    // Only programs of the suite can be run on the simulated chip.
    let measured = known.simulated.as_ref();
    let measured = measured.filter(|measured| asked.iter().all(|at| *at < measured.profiles.len()));
    let simulated = measured.map(|measured| measured.together(asked)).transpose()?;
    let in_ways = match measured {
        Some(measured) if !ways.is_empty() => {
            let kept: Vec<_> = asked.iter().copied().zip(ways.iter().copied()).collect();
            Some(measured.together_in_ways(&kept)?)
        }
        _ => None,
    };
    let mut all = Vec::new();
    for (place, at) in asked.iter().enumerate() {
        let profile = &known.profiles[*at];
        let neighbours: Vec<usize> =
            asked.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, at)| *at).collect();
        let by_class = by_class(known, said, *at, &neighbours);
        let ours = forecasts.as_ref().map(|forecasts| forecasts[place]);
        let truth = simulated.as_ref().map(|factors| factors[place]);
        let apart = in_ways.as_ref().map(|factors| factors[place]);
        if as_json {
            all.push(json!({
                "program": profile.name,
                "class": profile.class.to_string(),
                "beside": neighbours.iter().map(|at| known.profiles[*at].name.clone()).collect::<Vec<_>>(),
                "scn": by_class.as_ref().ok().map(|(slowdown, because)| json!({"slowdown": slowdown, "because": because})),
                "sharing": ours.ok().map(|ours| forecast_json(&ours)),
                "median": said.median,
                "no_contention": NO_CONTENTION,
                "simulated": truth,
                "simulated_in_ways": apart,
            }));
            continue;
        }
        let names: Vec<&str> = neighbours.iter().map(|at| known.profiles[*at].name.as_str()).collect();
        println!("{} ({}) beside {}", profile.name, profile.class, names.join(", "));
        match by_class {
            Ok((slowdown, because)) => println!("  by class          {slowdown:6.2}  {because}"),
            Err(why) => println!("  by class               -  {why}"),
        }
        match ours {
            Ok(ours) if ours.cannot_tell() => println!("  by distances           ?  {}", ours.because()),
            Ok(ours) => println!("  by distances      {:6.2}  {}", ours.slowdown, ours.because()),
            Err(why) => println!("  by distances           -  {why}"),
        }
        if let Some(median) = said.median {
            println!("  the median        {median:6.2}  of all pairs that were measured");
        }
        println!("  no contention     {NO_CONTENTION:6.2}");
        if let Some(truth) = truth {
            println!("  simulated         {truth:6.2}");
        }
        if let Some(apart) = apart {
            let of =
                ways[place].map_or(String::new(), |mask| format!("  it fills {} ways", mask.count_ones()));
            println!("  simulated in ways {apart:6.2}{of}");
        }
    }
    if as_json {
        println!("{:#}", json!({"programs": all}));
    }
    Ok(())
}

fn forecast_json(ours: &Forecast) -> Value {
    json!({
        "slowdown": ours.slowdown,
        "low": ours.low,
        "high": ours.high,
        "cannot_tell": ours.cannot_tell(),
        "cache_part": ours.cache_part,
        "link_is_full": ours.link_is_full,
        "because": ours.because(),
    })
}

/// What SCN says, with several neighbours the product of the pairs, which the seed does not go into.
fn by_class(
    known: &Known,
    said: &Said,
    program: usize,
    neighbours: &[usize],
) -> Result<(f64, String), String> {
    let scn = said.scn.ok_or("no measured pairs that constants could come from")?;
    let own = &known.profiles[program];
    let (mut slowdown, mut because) = (1.0, Vec::new());
    for neighbour in neighbours {
        let other = &known.profiles[*neighbour];
        slowdown *= scn.predict(own, other).map_err(|error| error.to_string())?;
        because.push(format!("{}: {}", other.name, scn.because(own.class, other.class)));
    }
    Ok((slowdown, because.join("; ")))
}

/// Errors of a predictor, over all pairs and over some.
struct Row {
    name: String,
    all: Vec<(Pair, f64)>,
}

/// How far off the predictors are.
pub(super) fn errors(known: &Known, said: &Said, as_json: bool) -> anyhow::Result<()> {
    let pairs = &known.pairs;
    let median = said.median.context("no measured pairs, and no programs were named: nothing to predict")?;
    let line = waiting("trying the predictors");
    let mut rows = vec![
        Row { name: "SCN, by pair".to_owned(), all: trained(known, split_by_pair(pairs))? },
        Row {
            name: "SCN, by program".to_owned(),
            all: trained(known, split_by_program(pairs, known.profiles.len()))?,
        },
    ];
    drop(line);
    let mut told = Vec::new();
    let mut ours = Vec::new();
    for pair in pairs {
        let (Ok(own), Ok(other)) = (&said.fitted[pair.program], &said.fitted[pair.neighbour]) else {
            continue;
        };
        let forecast = forecast(&known.host, &[own, other])[0];
        ours.push((*pair, forecast.slowdown));
        if !forecast.cannot_tell() {
            told.push((*pair, forecast.slowdown));
        }
    }
    rows.push(Row { name: "sharing".to_owned(), all: ours });
    rows.push(Row { name: "sharing, where it tells".to_owned(), all: told });
    let always = |value: f64| pairs.iter().map(|pair| (*pair, value)).collect();
    rows.push(Row { name: format!("median ({median:.2})"), all: always(median) });
    rows.push(Row { name: format!("no contention ({NO_CONTENTION})"), all: always(NO_CONTENTION) });
    if as_json {
        println!("{:#}", errors_json(known, said, &rows));
        return Ok(());
    }
    print_classes(known);
    println!(
        "\n{:<26} {:>6} {:>8} {:>8} {:>8}   below 30 %: {:>8} {:>8} {:>8}",
        "relative errors", "pairs", "below 5 %", "30 %", "mean", "beside S", "beside C", "beside N"
    );
    for row in &rows {
        let all = of(&row.all);
        let beside = Class::ALL.map(|class| 100.0 * of_neighbours(known, row, class).below(0.3));
        println!(
            "{:<26} {:>6} {:>7.1} % {:>6.1} % {:>6.1} %               {:>6.1} % {:>6.1} % {:>6.1} %",
            row.name,
            all.count(),
            100.0 * all.below(0.05),
            100.0 * all.below(0.3),
            100.0 * all.mean(),
            beside[0],
            beside[1],
            beside[2]
        );
    }
    Ok(())
}

fn of(said: &[(Pair, f64)]) -> Errors {
    Errors::of(said.iter().map(|(pair, predicted)| (*predicted, pair.slowdown)))
}

fn of_neighbours(known: &Known, row: &Row, class: Class) -> Errors {
    let beside = row.all.iter().filter(|(pair, _)| known.profiles[pair.neighbour].class == class);
    Errors::of(beside.map(|(pair, predicted)| (*predicted, pair.slowdown)))
}

fn trained(known: &Known, splits: Vec<(Vec<Pair>, Vec<Pair>)>) -> anyhow::Result<Vec<(Pair, f64)>> {
    let mut all = Vec::new();
    for (train, test) in splits {
        // With few programs a fifth of them can leave no pair to learn from.
        let Ok(scn) = Scn::train(&known.profiles, &train, known.host.bytes_per_second_max) else { continue };
        for pair in test {
            all.push((pair, scn.predict(&known.profiles[pair.program], &known.profiles[pair.neighbour])?));
        }
    }
    Ok(all)
}

/// The mean slowdown of each class beside each.
fn classes(known: &Known) -> Vec<Vec<Option<f64>>> {
    let class = |program: usize| known.profiles[program].class;
    let mean = |own: Class, other: Class| {
        let found: Vec<f64> = known
            .pairs
            .iter()
            .filter(|pair| (class(pair.program), class(pair.neighbour)) == (own, other))
            .map(|pair| pair.slowdown)
            .collect();
        (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
    };
    Class::ALL.iter().map(|own| Class::ALL.iter().map(|other| mean(*own, *other)).collect()).collect()
}

fn print_classes(known: &Known) {
    for class in Class::ALL {
        let names: Vec<&str> = known
            .profiles
            .iter()
            .filter(|profile| profile.class == class)
            .map(|profile| profile.name.as_str())
            .collect();
        println!("{class}: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") });
    }
    println!("\nmean slowdown    beside S beside C beside N");
    for (class, row) in Class::ALL.iter().zip(classes(known)) {
        let cells: Vec<String> = row
            .iter()
            .map(|mean| mean.map_or_else(|| "       -".to_owned(), |mean| format!("{mean:8.2}")))
            .collect();
        println!("{class:<16} {}", cells.join(" "));
    }
}

fn errors_json(known: &Known, said: &Said, rows: &[Row]) -> Value {
    let predictors = rows.iter().map(|row| {
        let all = of(&row.all);
        let beside = Class::ALL.map(|class| of_neighbours(known, row, class).sorted().to_vec());
        json!({
            "name": row.name,
            "pairs": all.count(),
            "below_5_percent": all.below(0.05),
            "below_30_percent": all.below(0.3),
            "mean_error": all.mean(),
            "errors": all.sorted(),
            "errors_beside_s_c_n": beside,
        })
    });
    let programs = known.profiles.iter().map(|profile| {
        let readings = profile.readings.as_ref();
        json!({
            "program": profile.name,
            "class": profile.class.to_string(),
            "memory_llc_bytes_s": readings.map(|readings| readings.into_llc()),
            "llc_l2_bytes_s": readings.map(|readings| readings.into_l2()),
            "l2_l1_bytes_s": readings.map(|readings| readings.into_l1()),
        })
    });
    let constants = said.scn.map(|scn| {
        json!({
            "bytes_s_max": scn.bytes_per_second_max, "alpha_s": scn.alpha, "beta": scn.beta,
            "c1": scn.c1, "c2": scn.c2, "c3": scn.c3, "c4": scn.c4, "c5": scn.c5,
        })
    });
    json!({
        "programs": programs.collect::<Vec<_>>(),
        "constants": constants,
        "mean_slowdown_of_s_c_n_beside_s_c_n": classes(known),
        "predictors": predictors.collect::<Vec<_>>(),
    })
}

/// The heat map of the programs that were asked for, or of the classes.
pub(super) fn draw(
    (known, said): (&Known, &Said),
    asked: &[usize],
    look: &Look,
    path: &Path,
) -> anyhow::Result<()> {
    let mut map =
        HeatMap { labels: ["who is slowed".to_owned(), "by whom".to_owned()], ..HeatMap::default() };
    if asked.is_empty() {
        map.title = "Mean slowdown by class".to_owned();
        map.subtitle = format!("{} pairs of {} programs", known.pairs.len(), known.profiles.len());
        map.rows = Class::ALL.map(|class| class.to_string()).to_vec();
        map.values = classes(known);
    } else {
        map.title = "Slowdown beside one another, predicted".to_owned();
        map.subtitle = "from distances and bandwidths where these are known, else from classes".to_owned();
        map.rows = asked.iter().map(|at| known.profiles[*at].name.clone()).collect();
        let pair = |own: usize, other: usize| {
            said.pair(known, By::Sharing, own, other).or_else(|_| said.pair(known, By::Scn, own, other)).ok()
        };
        map.values = asked.iter().map(|own| asked.iter().map(|other| pair(*own, *other)).collect()).collect();
    }
    map.columns.clone_from(&map.rows);
    let mut text = Vec::new();
    write_heat_map(&map, look, &mut text)?;
    crate::picture::write(path, text)
}
