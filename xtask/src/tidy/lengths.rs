//! Files and functions that outgrew the screen.

use super::source::{code_only, is_word, line_of, words};
use super::{File, Finding};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 80;

/// Source files of at most 800 lines, Rust functions of at most 80.
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !["rs", "c", "h", "cpp", "hpp", "py"].contains(&file.extension()) {
        return findings;
    }
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let message = format!("{lines} lines, at most {FILE_LINES_MAX}: split the file by purpose");
        findings.push(Finding::new(&file.path, lines, message));
    }
    if file.extension() == "rs" {
        for function in functions(&code_only(&file.text)) {
            if function.lines > FUNCTION_LINES_MAX {
                let (name, lines) = (&function.name, function.lines);
                let message =
                    format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}: take steps out");
                findings.push(Finding::new(&file.path, function.line, message));
            }
        }
    }
    findings
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The functions with a body in `code`, found by matching braces.
fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let rest = code[at + 2..].trim_start();
        let name: String =
            rest.bytes().take_while(|byte| is_word(*byte) || *byte == b'$').map(char::from).collect();
        if name.is_empty() {
            continue; // the type `fn(…)`
        }
        if let Some(end) = body_start(bytes, at).and_then(|start| closing_brace(bytes, start)) {
            let line = line_of(code, at);
            found.push(Function { name, line, lines: line_of(code, end) - line + 1 });
        }
    }
    found
}

/// The opening brace of the function whose signature starts at `at`; `None` if it has no body.
fn body_start(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (position, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(position),
            b';' | b'}' if depth == 0 => return None,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    None
}

fn closing_brace(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_u32;
    for (position, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(position),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: String) -> File {
        File { path: "a.rs".to_owned(), text }
    }

    #[test]
    fn long_functions_are_named() {
        let body = "    let x = [1; 2];\n".repeat(90);
        let text =
            format!("trait T {{ fn short(a: fn(u8) -> [u8; 3]); }}\nfn long<'a>(x: &'a str)\n{{\n{body}}}\n");
        let findings = check(&file(text));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
        assert!(findings[0].message.contains("`long` has 93 lines"), "{}", findings[0]);
    }

    #[test]
    fn long_files_are_named() {
        assert_eq!(check(&file("\n".repeat(801))).len(), 1);
        assert!(check(&file("\n".repeat(800))).is_empty());
    }
}
