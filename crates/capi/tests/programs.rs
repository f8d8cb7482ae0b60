//! C and C++ programs against the installed library, as groups of one (misuse, lifetimes, threads, defaults, listings) and of several
//! ranks; and whether some program calls each function of the headers.

mod installed;

use installed::{Installed, output, sources};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[test]
fn programs_of_one_process_do_what_the_header_says() {
    let installed = Installed::new("capi-programs");
    for source in sources("crates/capi/tests/c") {
        let program = installed.compile(&source);
        print!("{}: {}", source.display(), output(Command::new(&program).env("CASTELL_DAEMON", "none")));
    }
    run_kernels_alone(&installed);
    run_versions_alone(&installed);
    for source in sources("crates/capi/tests/c/ranks") {
        let program = installed.compile(&source);
        for ranks in 1..=8 {
            let mut launcher = Command::new(installed.prefix.join("bin/castell"));
            launcher.args(["launch", "--timeout", "120s", "-n", &ranks.to_string(), "--"]).arg(&program);
            print!("{}", output(&mut launcher));
        }
    }
    link_statically(&installed);
    run_the_documentation(&installed);
}

/// The examples with kernels for several resources, where there is no daemon.
fn run_kernels_alone(installed: &Installed) {
    let times = installed::root().join("vectors/strategy/kernel-times.csv");
    let times = times.to_str().expect("text");
    for source in sources("examples/kernels") {
        let program = installed.compile(&source);
        let run = |words: &[&str]| output(Command::new(&program).args(words).env("CASTELL_DAEMON", "none"));
        if source.ends_with("paced.c") {
            let said = run(&[times, "0.001", "matrix_multiply", "40"]);
            assert!(said.starts_with("40 matrix_multiply, by itself: "), "{said}");
        } else {
            assert!(run(&["64", "40"]).starts_with("40 products, by itself: "));
        }
    }
}

/// The example whose tasks have versions, where there is no daemon.
fn run_versions_alone(installed: &Installed) {
    let program = installed.compile(&installed::root().join("examples/tasks/product.c"));
    let said = output(Command::new(&program).args(["5", "32"]).env("CASTELL_DAEMON", "none"));
    let counts: Vec<u32> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(counts[..], [125, here, there] if here > 0 && here + there == 125), "{said}");
    // Each version that there is was tried.
    assert!(counts[2] > 0 || said.ends_with("a device that is not here\n"), "{said}");
}

/// The documentation's example, as it stands there.
fn run_the_documentation(installed: &Installed) {
    let text = std::fs::read_to_string(installed::root().join("docs/src/c-api.md")).unwrap();
    let code =
        text.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example in C");
    let source = installed.prefix.join("ring.c");
    std::fs::write(&source, code).unwrap();
    let said = output(&mut Command::new(installed.compile(&source)));
    assert_eq!(said, "rank 0 of 1 heard from 0\n");
}

/// The archive, with what the pkg-config file says that it needs.
fn link_statically(installed: &Installed) {
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--static", "--cflags", "--libs", "castell"]);
    let flags = output(pkg_config.env("PKG_CONFIG_PATH", installed.prefix.join("lib/pkgconfig")));
    let flags =
        flags.split_whitespace().map(|flag| if flag == "-lcastell" { "-l:libcastell.a" } else { flag });
    let program = installed.prefix.join("runs_static");
    let mut compiler = Command::new("gcc");
    compiler.arg("-std=c11").arg("-I").arg(installed::root().join("examples")).arg("-o").arg(&program);
    output(compiler.arg(installed::root().join("crates/capi/tests/c/runs.c")).args(flags));
    output(&mut Command::new(&program));
}

/// The folders whose programs tests run.
const PROGRAMS: [&str; 4] =
    ["crates/capi/tests/c", "crates/capi/tests/c/ranks", "examples/c", "examples/cpp"];

#[test]
fn every_function_of_the_headers_is_called() {
    let header =
        |name: &str| std::fs::read_to_string(installed::root().join("include").join(name)).expect("a header");
    let programs: Vec<String> =
        PROGRAMS.into_iter().flat_map(sources).map(|source| preprocessed(&source)).collect();
    let called: BTreeSet<String> =
        programs.iter().flat_map(|program| names_before_parentheses(program)).collect();
    let mut functions = BTreeSet::new();
    for name in
        ["goal.h", "castell.h", "castell_tasks.h", "castell_kernels.h", "castell_vertices.h", "alpi.h"]
    {
        functions.extend(names_before_parentheses(&without_comments(&header(name))));
    }
    assert!(functions.len() > 150, "{functions:?}");
    // A body that others call is called by its name.
    assert!(programs.iter().any(|program| program.contains("castell_vertex_task,")));
    functions.remove("castell_vertex_task");
    let missing: Vec<_> = functions.difference(&called).collect();
    assert!(missing.is_empty(), "no program calls {missing:?}");
    let of_cpp = functions_of_cpp(&header("castell_tasks.hpp"));
    assert!(of_cpp.contains("commutative") && of_cpp.len() > 15, "{of_cpp:?}");
    let lacks = |name: &&String| {
        let [plain, typed] = ["(", "<"].map(|open| format!("castell::{name}{open}"));
        !programs.iter().any(|program| program.contains(&plain) || program.contains(&typed))
    };
    let missing: Vec<_> = of_cpp.iter().filter(lacks).collect();
    assert!(missing.is_empty(), "no program calls {missing:?} of namespace castell");
}

/// What stands for users in namespace castell: what is declared at the beginning of a line.
fn functions_of_cpp(text: &str) -> BTreeSet<String> {
    let own: Vec<&str> = text
        .split("namespace detail {")
        .map(|part| part.split_once("} // namespace detail").map_or(part, |(_, own)| own))
        .collect();
    let own = without_comments(&own.join(""));
    let declares = |line: &&str| ["inline ", "template ", "void "].iter().any(|word| line.starts_with(word));
    let name = |line: &str| {
        let before = line.split_once('(')?.0;
        let name =
            before.rsplit(|character: char| !character.is_alphanumeric() && character != '_').next()?;
        (!name.is_empty()).then(|| name.to_owned())
    };
    own.lines().filter(declares).filter_map(name).collect()
}

/// A program's own lines, behind the preprocessor: many calls are made by macros.
fn preprocessed(source: &Path) -> String {
    let is_cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let mut compiler = Command::new(if is_cpp { "g++" } else { "gcc" });
    compiler.arg("-E").arg("-I").arg(installed::root().join("include"));
    compiler.arg("-I").arg(installed::root().join("examples")).arg(source);
    let text = output(&mut compiler);
    let mut is_own = false;
    let own = text.lines().filter(|line| match line.strip_prefix("# ") {
        Some(marker) => {
            let file = marker.split('"').nth(1).unwrap_or("");
            is_own = file.contains("/tests/") || file.contains("/examples/");
            false
        }
        None => is_own,
    });
    // Where a macro has a function's name, a call without it has the name in parentheses.
    own.collect::<Vec<_>>().join("\n").replace(")(", "(")
}

fn without_comments(text: &str) -> String {
    let text = text.replace("\\\n", " ");
    let behind = |part: &str| part.split_once("*/").map_or(String::new(), |(_, code)| code.to_owned());
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or("").to_owned();
    let code = parts.fold(first, |code, part| code + &behind(part));
    let is_code = |line: &&str| !line.trim_start().starts_with('#');
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or("")).filter(is_code);
    lines.collect::<Vec<_>>().join("\n")
}

/// The library's names that stand before a parenthesis.
fn names_before_parentheses(code: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = code.match_indices('(').map(|(at, _)| {
        let before = code[..at].trim_end();
        before.rsplit(|c| !is_part(c)).next().unwrap_or("")
    });
    let is_ours = |name: &&str| {
        // What ends like that is a macro of the headers' own.
        !name.ends_with('_') && ["GOAL_", "castell_", "alpi_"].iter().any(|prefix| name.starts_with(prefix))
    };
    names.filter(is_ours).map(str::to_owned).collect()
}
