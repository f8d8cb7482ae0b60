//! The patterns that have a name: one list for all commands.

use crate::say;
use castell_collectives::collective::ALGORITHMS;
use castell_collectives::generator::GENERATORS;
use serde_json::json;

/// A name, what it stands for, and what else it is called.
struct Pattern {
    name: String,
    summary: &'static str,
    alias: Option<&'static str>,
}

/// All of them; capitals stand for what the user fills in.
fn all() -> Vec<Pattern> {
    let pattern = |name: &str, summary| Pattern { name: name.to_owned(), summary, alias: None };
    let mut all: Vec<Pattern> = Vec::new();
    for generator in GENERATORS {
        let alias = Some(generator.alias).filter(|alias| !alias.is_empty());
        all.push(Pattern { alias, ..pattern(generator.name, generator.summary) });
    }
    let is_new = |name: &&str| GENERATORS.iter().all(|generator| generator.name != *name);
    let algorithms = ALGORITHMS.iter().filter(|algorithm| is_new(&algorithm.name));
    all.extend(algorithms.map(|algorithm| pattern(algorithm.name, algorithm.summary)));
    all.push(pattern("allreduce:hierarchical", "leaders of groups do recursive doubling"));
    all.push(pattern("allreduce:rabenseifner", "the vector is halved, reduced in parts and put together"));
    all.push(pattern("allreduce:direct", "each rank reduces a part for all others"));
    all.push(pattern("pingpong:N", "to and fro so many times"));
    for operation in ["allreduce", "barrier", "reduce_scatter", "allgather"] {
        let word = "a word of the schedule language, such as a4,a2 or m1g2a3,n1g3a2";
        all.push(pattern(&format!("{operation}:WORD"), word));
    }
    all
}

/// Prints the list.
pub fn list(as_json: bool) {
    if as_json {
        let rows: Vec<_> = all()
            .iter()
            .map(|one| json!({"name": one.name, "summary": one.summary, "alias": one.alias}))
            .collect();
        println!("{}", json!({ "patterns": rows }));
        return;
    }
    for Pattern { name, summary, alias } in all() {
        let alias = alias.map(|alias| format!(" (also {alias})")).unwrap_or_default();
        println!("{name:32}{summary}{alias}");
    }
}

/// `; did you mean NAME?`, if there is a pattern whose name is much like it.
pub fn meant(name: &str) -> String {
    let all = all();
    let names = all.iter().flat_map(|pattern| [Some(pattern.name.as_str()), pattern.alias]).flatten();
    say::nearest(name, names).map_or(String::new(), |near| format!("; did you mean {near}?"))
}
