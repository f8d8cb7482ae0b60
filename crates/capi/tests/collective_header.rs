//! `include/castell.h` and the Rust side say the same: types of elements with their sizes, operators, constants, and the type
//! of every function.

use castell_comm::collective::DataType;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each type of elements is called on both sides, and what it is in C.
const TYPES: [(&str, &str, &str); 19] = [
    ("CASTELL_INT8", "i8", "int8_t"),
    ("CASTELL_INT16", "i16", "int16_t"),
    ("CASTELL_INT32", "i32", "int32_t"),
    ("CASTELL_INT64", "i64", "int64_t"),
    ("CASTELL_UINT8", "u8", "uint8_t"),
    ("CASTELL_UINT16", "u16", "uint16_t"),
    ("CASTELL_UINT32", "u32", "uint32_t"),
    ("CASTELL_UINT64", "u64", "uint64_t"),
    ("CASTELL_FLOAT", "f32", "float"),
    ("CASTELL_DOUBLE", "f64", "double"),
    ("CASTELL_HALF", "f16", "uint16_t"),
    ("CASTELL_BFLOAT16", "bf16", "uint16_t"),
    ("CASTELL_BOOL", "bool", "uint8_t"),
    ("CASTELL_COMPLEX_FLOAT", "complex f32", "float[2]"),
    ("CASTELL_COMPLEX_DOUBLE", "complex f64", "double[2]"),
    ("CASTELL_INT32_INT", "located i32", "struct { int32_t value, place; }"),
    ("CASTELL_INT64_INT", "located i64", "struct { int64_t value, place; }"),
    ("CASTELL_FLOAT_INT", "located f32", "struct { float value; int32_t place; }"),
    ("CASTELL_DOUBLE_INT", "located f64", "struct { double value; int64_t place; }"),
];

#[test]
fn types_of_elements_agree() {
    let text = without_comments(&read("include/castell.h"));
    let listed = text.split("typedef enum castell_type {").nth(1).expect("the types");
    let listed = listed.split('}').next().expect("their end");
    let mut values: BTreeMap<&str, u32> = BTreeMap::new();
    for item in listed.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (name, value) = item.split_once('=').expect("a value");
        let value = value.trim();
        let value = match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => value.parse(),
        };
        values.insert(name.trim(), value.expect("a number"));
    }
    assert_eq!(values.remove("CASTELL_BYTES"), Some(256), "behind every other type");
    assert!(values.remove("CASTELL_TYPE_LAST_").is_some());
    let mut code = "#include <castell.h>\n".to_owned();
    for (name, rust, c) in TYPES {
        let value = values.remove(name).unwrap_or_else(|| panic!("castell.h lacks {name}"));
        let found = DataType::from_code(value as u8).unwrap_or_else(|| panic!("{name}: no type has {value}"));
        assert_eq!((found.name(), u32::from(found.code())), (rust, value), "{name}");
        writeln!(code, "_Static_assert(sizeof({c}) == {}, \"{name}\");", found.bytes()).expect("a string");
    }
    assert!(values.is_empty(), "unknown here: {values:?}");
    let opaque = DataType::Opaque(0).code();
    let codes = (0..=u8::MAX).filter(|&code| code != opaque && DataType::from_code(code).is_some()).count();
    assert_eq!(codes, TYPES.len(), "a type is missing in castell.h");
    compile(&["gcc", "-std=c11"], "types.c", &code);
}

#[test]
fn operators_agree() {
    let header = read("include/castell.h");
    let there: BTreeSet<(u32, String)> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define CASTELL_")?.split_once(" ((castell_op)(uintptr_t)"))
        .map(|(name, value)| (value.trim_end_matches(')').parse().expect("a number"), in_rust(name)))
        .collect();
    let rust = read("crates/capi/src/collective/operator.rs");
    let here: BTreeSet<(u32, String)> = rust
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').split_once(" => Reduction::"))
        .filter_map(|(value, name)| Some((value.parse().ok()?, name.to_owned())))
        .collect();
    assert_eq!(there, here);
    assert_eq!(here.len(), 12);
}

/// `MIN_PLACE` is `MinimumLocation`.
fn in_rust(name: &str) -> String {
    let word = |word: &str| match word {
        "MIN" => "Minimum".to_owned(),
        "MAX" => "Maximum".to_owned(),
        "PLACE" => "Location".to_owned(),
        other => other[..1].to_owned() + &other[1..].to_lowercase(),
    };
    name.split('_').map(word).collect()
}

#[test]
fn every_function_has_the_type_that_the_header_declares() {
    let exported = exported();
    assert!(exported.len() > 70, "the sources could not be read: {:?}", exported.keys());
    let declared = declared();
    let names: BTreeSet<&str> = exported.keys().map(String::as_str).collect();
    assert_eq!(names, declared.iter().map(String::as_str).collect(), "exported, and declared in castell.h");
    let mut code = "#include <castell.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n".to_owned();
    for (name, arguments) in &exported {
        let arguments = arguments.join(", ");
        writeln!(code, "extern int (*const check_{name})({arguments});").expect("a string");
        writeln!(code, "int (*const check_{name})({arguments}) = {name};").expect("a string");
    }
    code += "#ifdef __cplusplus\n}\n#endif\n";
    compile(&["gcc", "-std=c11"], "signatures.c", &code);
    compile(&["g++", "-std=c++17"], "signatures.cpp", &code);
}

/// The functions that the sources export, with the C types of their arguments; all return an int.
fn exported() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for file in ["calls", "clock", "communicator", "host", "memory", "operator", "request"] {
        let text = read(&format!("crates/capi/src/collective/{file}.rs"));
        for rest in text.split("#[unsafe(no_mangle)]").skip(1) {
            let (_, rest) = rest.split_once("extern \"C\" fn ").expect("an exported function");
            let (name, rest) = rest.split_once('(').expect("arguments");
            if !name.starts_with('$') {
                found.insert(name.to_owned(), c_types(rest.split(')').next().expect("their end")));
            }
        }
        // The table of operations: three names, and the arguments that they share.
        let Some((_, table)) = text.split_once("\ncollectives! {\n") else { continue };
        for row in table.split(';').filter(|row| row.contains("castell_")) {
            let (names, rest) = row.split_once('(').expect("arguments");
            let arguments = c_types(rest.split(')').next().expect("their end"));
            for (at, name) in names.split_whitespace().enumerate() {
                let mut arguments = arguments.clone();
                arguments.push("castell_comm".to_owned());
                arguments.extend((at > 0).then(|| "castell_request *".to_owned()));
                found.insert(name.to_owned(), arguments);
            }
        }
    }
    found
}

fn c_types(arguments: &str) -> Vec<String> {
    let arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty());
    arguments.map(|argument| c_type(argument.split_once(':').expect("a type").1)).collect()
}

/// The C type that a Rust type of the interface stands for.
fn c_type(rust: &str) -> String {
    let words: Vec<&str> = rust.split_whitespace().collect();
    match words.join(" ").as_str() {
        "c_int" => "int",
        "usize" => "size_t",
        "*mut c_void" => "void *",
        "*mut *mut c_void" => "void **",
        "*const c_void" => "const void *",
        "*const c_char" => "const char *",
        "*mut c_int" => "int *",
        "*mut f64" => "double *",
        "*const c_int" => "const int *",
        "*const usize" => "const size_t *",
        "Option<Function>" => "castell_function",
        "castell_type" => "castell_type",
        "castell_comm" => "castell_comm",
        "castell_request" => "castell_request",
        "castell_op" => "castell_op",
        "*const castell_host_functions" => "const castell_host_functions *",
        "*mut castell_comm" => "castell_comm *",
        "*mut castell_request" => "castell_request *",
        "*mut castell_op" => "castell_op *",
        other => panic!("no C type is known for `{other}`"),
    }
    .to_owned()
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = without_comments(&read("include/castell.h"));
    let lines = header.lines().filter(|line| !line.trim_start().starts_with('#'));
    let code = lines.collect::<Vec<_>>().join(" ");
    let statements = code.split(';').filter(|statement| !statement.contains("typedef"));
    let before = statements.filter_map(|statement| statement.split_once('(')).map(|(before, _)| before);
    let names = before.filter_map(|before| before.rsplit([' ', '*']).next());
    names.filter(|name| name.starts_with("castell_")).map(str::to_owned).collect()
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once("*/").map_or("", |(_, after)| after))
}

/// Shows what the compiler says.
fn compile(compiler: &[&str], name: &str, code: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join(name);
    std::fs::write(&source, code).expect("a file");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-I"]);
    command.arg(root().join("include")).arg(&source).arg("-o").arg(folder.path().join("object"));
    let output = command.output().unwrap_or_else(|error| panic!("{} is needed: {error}", compiler[0]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} refuses {name}:\n{said}\n{code}", compiler[0]);
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
