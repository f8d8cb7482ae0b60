//! `include/goal.h` and the exported functions say the same: names, argument types, results, constants; and the header
//! compiles without a warning as C11 and as C++17.

#[path = "../src/types.rs"]
mod types;

use castell_goal::op::Operator;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const C: [&str; 7] = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wstrict-prototypes"];
const CPP: [&str; 6] = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic"];

/// A function's C type without its name: arguments and result.
#[derive(Debug)]
struct Signature {
    arguments: Vec<String>,
    result: String,
}

#[test]
fn each_exported_function_has_the_type_that_the_header_declares() {
    let mut code = String::from("#include <goal.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for (name, Signature { arguments, result }) in &exported() {
        let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
        writeln!(code, "extern {result} (*const check_{name})({arguments});").unwrap();
        writeln!(code, "{result} (*const check_{name})({arguments}) = {name};").unwrap();
    }
    code += "#ifdef __cplusplus\n}\n#endif\n";
    compile("signatures", &code);
}

#[test]
fn each_declared_function_is_exported() {
    let exported = exported();
    let declared = declared();
    assert!(declared.len() > 40, "the header could not be read: {declared:?}");
    for name in &declared {
        assert!(exported.contains_key(name), "goal.h declares {name}, which is not exported");
    }
    for name in exported.keys() {
        assert!(declared.contains(name), "{name} is exported and not declared in goal.h");
    }
}

#[test]
fn constants_and_sizes_agree() {
    let mut code = String::from("#include <goal.h>\n");
    let mut check = |name: &str, value: i64| {
        writeln!(code, "static_assert({name} == {value}, \"{name}\");").unwrap();
    };
    check("GOAL_INVALID_VERTEX", types::GOAL_INVALID_VERTEX);
    check("INVALID_VERTEX", types::GOAL_INVALID_VERTEX);
    check("GOAL_USERSPACE", types::GOAL_USERSPACE.into());
    check("GOAL_SCRATCHPAD", types::GOAL_SCRATCHPAD.into());
    check("GOAL_ANY_SOURCE", types::GOAL_ANY.into());
    check("GOAL_ANY_TAG", types::GOAL_ANY.into());
    check("GOAL_SINT", types::GOAL_SINT.into());
    check("GOAL_UINT", types::GOAL_UINT.into());
    check("GOAL_FLOAT", types::GOAL_FLOAT.into());
    check("GOAL_BFLOAT", types::GOAL_BFLOAT.into());
    check("GOAL_WTIME", types::GOAL_WTIME.into());
    for (index, operator) in Operator::ALL.iter().enumerate() {
        let name = format!("GOAL_{}", operator.name().to_uppercase());
        check(&name, i64::from(types::GOAL_MAX) + index as i64);
    }
    check("GOAL_EXTENSION_THREADS", types::LAST_EXTENSION.into());
    check("GOAL_SUCCESS", 0);
    for (code, name) in types::Code::ALL {
        check(name.to_str().unwrap(), code as i64);
    }
    for (name, bytes) in [
        ("GOAL_Graph", size_of::<types::GOAL_Graph>()),
        ("GOAL_Schedule", size_of::<types::GOAL_Schedule>()),
        ("GOAL_Handle", size_of::<types::GOAL_Handle>()),
        ("GOAL_Vertex", size_of::<types::GOAL_Vertex>()),
        ("GOAL_Op", size_of::<types::GOAL_Op>()),
        ("GOAL_DataType", size_of::<types::GOAL_DataType>()),
        ("GOAL_MemType", size_of::<types::GOAL_MemType>()),
        ("GOAL_ExtensionId", size_of::<types::GOAL_ExtensionId>()),
        ("GOAL_Function", size_of::<types::GOAL_Function>()),
    ] {
        check(&format!("sizeof({name})"), bytes as i64);
    }
    compile("constants", &code.replace("#include <goal.h>", "#include <assert.h>\n#include <goal.h>"));
    let version = format!("#define GOAL_VERSION \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(header().contains(&version), "goal.h lacks `{version}`");
}

#[test]
fn every_error_code_has_its_own_name_and_all_are_listed() {
    let header = header();
    for line in header.lines().filter(|line| line.trim_start().starts_with("GOAL_ERR_")) {
        let name = line.trim_start().split([' ', ',']).next().unwrap();
        let listed = types::Code::ALL.iter().any(|(_, known)| known.to_str() == Ok(name));
        assert!(listed, "{name} is missing in types::Code::ALL");
    }
}

#[test]
fn each_function_is_described_in_the_documentation() {
    let path = root().join("docs/src/c-api.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for name in declared() {
        assert!(text.contains(&format!("`{name}")), "docs/src/c-api.md does not describe {name}");
    }
}

/// Compiles the text as C and as C++ and shows what the compilers say.
fn compile(name: &str, code: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (words, extension) in [(&C[..], "c"), (&CPP[..], "cpp")] {
        let source = folder.path().join(format!("{name}.{extension}"));
        std::fs::write(&source, code).unwrap();
        let object = folder.path().join("object");
        let output = Command::new(words[0])
            .args(&words[1..])
            .arg("-I")
            .arg(root().join("include"))
            .args(["-c", "-o"])
            .args([&object, &source])
            .output()
            .unwrap_or_else(|error| panic!("{} is needed for this test: {error}", words[0]));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} refuses {name}.{extension}:\n{said}", words[0]);
    }
}

/// The functions behind `#[unsafe(no_mangle)]`, by name.
fn exported() -> BTreeMap<String, Signature> {
    let mut found = BTreeMap::new();
    let sources = root().join("crates/capi/src");
    for entry in std::fs::read_dir(&sources).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file())
    {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for rest in text.split("#[unsafe(no_mangle)]").skip(1) {
            let (_, rest) = rest.split_once("extern \"C\" fn ").expect("an exported function");
            let (name, rest) = rest.split_once('(').unwrap();
            let (arguments, rest) = rest.split_once(')').unwrap();
            let result = rest.split('{').next().unwrap().trim().trim_start_matches("->").trim();
            let types = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty());
            let arguments =
                types.map(|argument| c_type(argument.split_once(':').unwrap().1.trim())).collect();
            let result = if result.is_empty() { "void".to_owned() } else { c_type(result) };
            assert!(found.insert(name.to_owned(), Signature { arguments, result }).is_none(), "{name} twice");
        }
    }
    found
}

/// The C type that a Rust type of the interface stands for.
fn c_type(rust: &str) -> String {
    match rust {
        "c_int" => "int".to_owned(),
        "i64" => "int64_t".to_owned(),
        "usize" => "size_t".to_owned(),
        "c_double" => "double".to_owned(),
        "*mut c_void" => "void *".to_owned(),
        "*const c_void" => "const void *".to_owned(),
        "*mut c_char" => "char *".to_owned(),
        "*const c_char" => "const char *".to_owned(),
        "*mut c_int" => "int *".to_owned(),
        "*mut *mut c_void" => "void **".to_owned(),
        ours if ours.starts_with("GOAL_") => ours.to_owned(),
        other => panic!("no C type is known for `{other}`"),
    }
}

/// Names of the functions that the header declares, in its plain C part.
fn declared() -> Vec<String> {
    let header = header();
    let plain = header.split("} /* extern \"C\" */").next().unwrap();
    let mut code = String::new();
    let mut rest = plain;
    while let Some((before, after)) = rest.split_once("/*") {
        code += before;
        rest = after.split_once("*/").expect("comments end").1;
    }
    code += rest;
    let lines = code.lines().filter(|line| !line.trim_start().starts_with('#'));
    let code = lines.collect::<Vec<_>>().join(" ");
    let statements = code.split(';').filter(|statement| !statement.contains("typedef"));
    let before_arguments =
        statements.filter_map(|statement| statement.split_once('(')).map(|(before, _)| before);
    let names = before_arguments.filter_map(|before| before.rsplit([' ', '*']).next());
    names.filter(|name| name.starts_with("GOAL_")).map(str::to_owned).collect()
}

fn header() -> String {
    std::fs::read_to_string(root().join("include/goal.h")).expect("include/goal.h can be read")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
