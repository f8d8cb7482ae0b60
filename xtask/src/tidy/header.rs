//! The C headers and the functions behind them name the same things.

use super::source::{code_only, is_word, line_of, words};
use super::{File, Finding};
use std::collections::BTreeMap;

/// Where a name stands: path and line.
type Places = BTreeMap<String, (String, usize)>;

/// Every exported `extern "C"` function of `capi` is declared in a header, and every declared one exists.
pub fn check(files: &[File]) -> Vec<Finding> {
    let in_folder = |folder: &'static str, extension: &'static str| {
        files.iter().filter(move |file| file.path.starts_with(folder) && file.extension() == extension)
    };
    let exported = in_folder("crates/capi/src/", "rs").flat_map(exported_functions).collect::<Places>();
    let declared = in_folder("include/", "h").flat_map(declared_functions).collect::<Places>();
    let missing = |from: &Places, to: &Places, advice: &str| {
        from.iter()
            .filter(|(name, _)| !to.contains_key(*name))
            .map(|(name, (path, line))| Finding::new(path, *line, format!("`{name}` {advice}")))
            .collect::<Vec<_>>()
    };
    let mut findings =
        missing(&exported, &declared, "is exported and in no header: declare it below include/");
    findings.extend(missing(&declared, &exported, "is declared and capi does not export it"));
    findings
}

/// Functions behind `#[unsafe(no_mangle)]`.
fn exported_functions(file: &File) -> Vec<(String, (String, usize))> {
    let code = code_only(&file.text);
    let mut found = Vec::new();
    for at in words(&code, "no_mangle") {
        let Some(function) = words(&code[at..], "fn").next() else { continue };
        let rest = code[at + function + 2..].trim_start();
        let name: String = rest.bytes().take_while(|byte| is_word(*byte)).map(char::from).collect();
        if !name.is_empty() {
            found.push((name, (file.path.clone(), line_of(&code, at))));
        }
    }
    found
}

/// Names that start like ours, stand at nesting depth 0, open a parameter list and end in `;`. Macros are left out.
fn declared_functions(file: &File) -> Vec<(String, (String, usize))> {
    let code = without_macros(&code_only(&file.text));
    let mut found = Vec::new();
    for prefix in ["GOAL_", "castell_"] {
        for (at, _) in code.match_indices(prefix) {
            let starts_word = at == 0 || !is_word(code.as_bytes()[at - 1]);
            let name: String = code[at..].bytes().take_while(|byte| is_word(*byte)).map(char::from).collect();
            let rest = code[at + name.len()..].trim_start();
            if starts_word && rest.starts_with('(') && is_declaration(&code[..at]) {
                found.push((name, (file.path.clone(), line_of(&code, at))));
            }
        }
    }
    found
}

/// Whether what stands before a name on its own statement is a type: a call or an initialiser has none.
fn is_declaration(before: &str) -> bool {
    let statement = before.rsplit([';', '{', '}']).next().unwrap_or("");
    let has_type = statement
        .split_whitespace()
        .next_back()
        .is_some_and(|word| word.ends_with(|c: char| c == '*' || c.is_ascii_alphanumeric() || c == '_'));
    has_type
        && !statement.contains(['(', '=', ','])
        && !words(statement, "return").any(|_| true)
        && !words(statement, "typedef").any(|_| true)
}

fn without_macros(code: &str) -> String {
    let mut continued = false;
    let keep = |line: &str| {
        let is_macro = continued || line.trim_start().starts_with('#');
        continued = is_macro && line.trim_end().ends_with('\\');
        if is_macro { "" } else { line }.to_owned()
    };
    code.lines().map(keep).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_compared() {
        let header = "#define GOAL_Send(a) \\\n  GOAL_SendTo(a)\n/* GOAL_Old(); */\nextern \"C\" {\nint GOAL_Init(int *a);\n\
                      GOAL_Vertex GOAL_Recv(GOAL_Graph g,\n  int x);\ntypedef void (*GOAL_Fn)(int);\n\
                      static inline int f(void) { return GOAL_Init(0); }\n}\n";
        let code = "#[unsafe(no_mangle)]\npub extern \"C\" fn GOAL_Init() {}\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn GOAL_Test() {}\n";
        let files = [
            File { path: "include/goal.h".to_owned(), text: header.to_owned() },
            File { path: "crates/capi/src/lib.rs".to_owned(), text: code.to_owned() },
        ];
        let findings: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("crates/capi/src/lib.rs:3: `GOAL_Test` is exported"));
        assert!(findings[1].starts_with("include/goal.h:6: `GOAL_Recv` is declared"));
    }
}
