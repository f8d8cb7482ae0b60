//! The C headers as pages of the book: mdBook asks `cargo xtask headers`, and `{{#header NAME}}` becomes what `include/NAME` says.
//!
//! [`read`] understands a header, [`page`] writes it down. Links that leave the book's folder go to the repository.

mod page;
mod read;

use anyhow::Context as _;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

/// Arguments of `cargo xtask headers`.
#[derive(clap::Args)]
pub struct Args {
    /// `supports RENDERER`: mdBook's question whether pages are made for it
    question: Vec<String>,
}

/// What mdBook wants of a preprocessor: the book comes in as JSON, and goes out with its pages filled in.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    if !args.question.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut both: Value =
        serde_json::from_str(&text).context("mdBook runs this, with a book on standard input")?;
    let repository = both[0]["config"]["output"]["html"]["git-repository-url"].as_str().map(str::to_owned);
    let pages = Pages::read(root)?;
    fill_in(&mut both[1], &pages, &repository.context("docs/book.toml has no git-repository-url")?)?;
    std::io::stdout().write_all(both[1].to_string().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn fill_in(book: &mut Value, pages: &Pages, repository: &str) -> anyhow::Result<()> {
    match book {
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill_in(item, pages, repository)),
        Value::Object(fields) => {
            let path = fields.get("path").and_then(Value::as_str).map(str::to_owned);
            if let (Some(path), Some(Value::String(content))) = (path, fields.get_mut("content")) {
                *content = to_repository(&pages.expand(content)?, &path, repository);
            }
            fields.values_mut().try_for_each(|field| fill_in(field, pages, repository))
        }
        _ => Ok(()),
    }
}

/// The headers, and the page that describes goal.h in full.
pub struct Pages {
    headers: Vec<(String, read::Header)>,
    described: page::Described,
}

impl Pages {
    /// Reads all of `include/`.
    pub fn read(root: &Path) -> anyhow::Result<Pages> {
        let mut headers = Vec::new();
        for entry in std::fs::read_dir(root.join("include"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            headers.push((name, read::Header::read(&std::fs::read_to_string(entry.path())?)));
        }
        headers.sort_by(|a, b| a.0.cmp(&b.0));
        let described = page::Described::read(&std::fs::read_to_string(root.join("docs/src/c-api.md"))?);
        Ok(Pages { headers, described })
    }

    /// The names of the headers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| name.as_str())
    }

    /// A page's text with `{{#header NAME}}` filled in.
    pub fn expand(&self, text: &str) -> anyhow::Result<String> {
        let mut parts = text.split("{{#header ");
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("}}").context("`{{#header` has no end")?;
            let found = self.headers.iter().find(|(known, _)| known == name);
            let (_, header) = found.with_context(|| format!("there is no include/{name}"))?;
            let links = page::Links::of(&self.headers, name);
            expanded += &page::write(header, &links, &self.described);
            expanded += rest;
        }
        Ok(expanded)
    }

    /// Functions of which their header says nothing: header and name.
    pub fn without_words(&self) -> Vec<(&str, &str)> {
        self.headers
            .iter()
            .flat_map(|both| page::without_words(&both.1).map(move |function| (both.0.as_str(), function)))
            .collect()
    }
}

/// Links that lead out of the book's folder lead into the repository: the book may lie anywhere.
fn to_repository(text: &str, page: &str, repository: &str) -> String {
    // From docs/src, `../..` is the repository, from a folder in it one more. (docs/decisions is a folder of the book.)
    let out = format!("]({}", "../".repeat(page.matches('/').count() + 2));
    let out = if page.starts_with("decisions/") { "](../../" } else { &out };
    text.replace(out, &format!("]({repository}/blob/main/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/* a.h: things. docs/src/a-b.md says more.\n *\n * More, with <angles>.\n *\n * SPDX-License-Identifier: MIT\n */\n#ifndef A_H\n#define A_H\n\n\
        #ifdef __cplusplus\nextern \"C\" {\n#endif\n\n/* ---- Errors */\n\n/* What fails. */\ntypedef enum a_error {\n    A_OK = 0,\n    \
        A_ERR_BAD = -1 /* it was bad */\n} a_error;\n\n/* ---- Calls */\n\n/* Does it. A_ERR_BAD if it cannot. */\nint a_do(int how,\n         \
        a_error *why);\nint a_silent_kin(void); /* by itself */\n\nint a_silent(void);\n#endif\n";

    fn pages() -> Pages {
        let described = page::Described::read("### `a_do(how, why)` → `int`\nIn full: A_ERR_BAD.\n");
        Pages { headers: vec![("a.h".to_owned(), read::Header::read(HEADER))], described }
    }

    #[test]
    fn each_function_has_its_comment_its_parameters_and_its_errors() {
        let text = pages().expand("# a.h\n{{#header a.h}}\nend").expect("it is there");
        for part in [
            "things. [a-b](../a-b.md) says",
            "More, with &lt;angles&gt;.",
            "## Calls",
            "### `a_do`",
            "Does it. [`A_ERR_BAD`](#a_err_bad) if it cannot.",
            "int a_do(int how, a_error *why);",
            "| [`A_ERR_BAD`](#a_err_bad) | it was bad |",
            "(../c-api.md#a_dohow-why--int)",
            "<a id=\"a_err_bad\"></a>",
        ] {
            assert!(text.contains(part), "no `{part}` in:\n{text}");
        }
        assert!(!text.contains("SPDX") && !text.contains("extern") && text.ends_with("\nend"), "{text}");
        assert!(pages().expand("{{#header b.h}}").is_err());
    }

    #[test]
    fn functions_of_which_nothing_is_said_are_named() {
        assert_eq!(pages().without_words(), [("a.h", "a_silent")]);
    }

    #[test]
    fn links_out_of_the_book_lead_into_the_repository() {
        let text = "[a](../../x/y.md) [b](c.md) [d](../e.md)";
        assert_eq!(to_repository(text, "p.md", "R"), "[a](R/blob/main/x/y.md) [b](c.md) [d](../e.md)");
        assert_eq!(to_repository("[a](../../x)", "headers/p.md", "R"), "[a](../../x)");
        assert_eq!(to_repository("[a](../../../x)", "headers/p.md", "R"), "[a](R/blob/main/x)");
        assert_eq!(to_repository("[a](../../x)", "decisions/1.md", "R"), "[a](R/blob/main/x)");
    }
}
