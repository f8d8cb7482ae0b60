//! C and C++ programs against the installed library, each a group of one: misuse, lifetimes, threads, defaults, listings.

mod installed;

use installed::{Installed, output, sources};
use std::process::Command;

#[test]
fn programs_of_one_process_do_what_the_header_says() {
    let installed = Installed::new("capi-programs");
    for source in sources("crates/capi/tests/c") {
        let program = installed.compile(&source);
        print!("{}: {}", source.display(), output(&mut Command::new(&program)));
    }
    link_statically(&installed);
    run_the_documentation(&installed);
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
