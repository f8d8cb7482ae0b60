//! Writes a header down as a page: each function with its comment, its parameters and its errors; names are links.

use super::read::{Header, Item, Kind, Part};
use crate::slug::slug;
use std::collections::BTreeMap;

/// Where every name of the headers stands, as seen from one page.
pub struct Links {
    targets: BTreeMap<String, String>,
    /// What the codes mean.
    meanings: BTreeMap<String, String>,
}

impl Links {
    /// The links of header `page`'s page.
    pub fn of(headers: &[(String, Header)], page: &str) -> Links {
        let mut links = Links { targets: BTreeMap::new(), meanings: BTreeMap::new() };
        for (header, content) in headers {
            let file = if header == page { String::new() } else { file(header) };
            for item in content.groups().flat_map(|(_, items)| items) {
                let constants = item.constants.iter().map(|(name, _)| name);
                for name in constants.chain([&item.name]).filter(|name| name.contains('_')) {
                    // What C and C++ call the same stands under C.
                    links.targets.entry(name.clone()).or_insert(format!("{file}#{}", slug(name)));
                }
                links.meanings.extend(item.constants.iter().filter(|(_, note)| !note.is_empty()).cloned());
            }
            links.targets.insert(header.clone(), file.clone());
        }
        links.targets.remove(page);
        links
    }

    /// A comment as Markdown.
    fn comment(&self, comment: &str) -> String {
        let mut text = String::new();
        for line in comment.lines() {
            // Lists are indented in headers, examples deeper; neither is code in Markdown before that.
            let indented = line.len() - line.trim_start().len();
            let line = line.trim_start();
            text += if indented > 2 { "  " } else { "" };
            text += &self.line(line);
            text.push('\n');
        }
        text
    }

    fn line(&self, line: &str) -> String {
        let parts = line.split('`').enumerate();
        let linked =
            parts.map(|(number, part)| if number % 2 == 1 { format!("`{part}`") } else { self.words(part) });
        linked.collect()
    }

    fn words(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while !rest.is_empty() {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "_./".contains(c);
            // Names of pages have hyphens, names in C do not.
            let is_page = rest.starts_with("docs/src/");
            let length = rest.find(|c| !(is_part(c) || is_page && c == '-')).unwrap_or(rest.len());
            let word = rest[..length].trim_end_matches(['.', '/']);
            if word.is_empty() {
                let next = rest.chars().next().expect("there is more");
                match next {
                    '<' => out += "&lt;",
                    '>' => out += "&gt;",
                    '*' | '_' | '[' | ']' | '\\' => out.extend(['\\', next]),
                    _ => out.push(next),
                }
                rest = &rest[next.len_utf8()..];
                continue;
            }
            match (self.targets.get(word), word.strip_prefix("docs/src/")) {
                (Some(target), _) => out += &format!("[`{word}`]({target})"),
                (_, Some(page)) => out += &format!("[{}](../{page})", page.trim_end_matches(".md")),
                _ if word.contains('_') => out += &format!("`{word}`"),
                _ => out += word,
            }
            rest = &rest[word.len()..];
        }
        out
    }
}

/// The file of a header's page.
pub fn file(header: &str) -> String {
    format!("{}.md", header.replace('.', "-"))
}

/// What the page on goal.h says of its functions.
pub struct Described {
    /// Function, link, text.
    functions: Vec<(String, String, String)>,
}

impl Described {
    /// Reads the page: functions are headings there.
    pub fn read(page: &str) -> Described {
        let (mut functions, mut open) = (Vec::<(String, String, String)>::new(), 0);
        let mut in_heading = false;
        for line in page.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                open = if in_heading { open } else { functions.len() };
                for name in heading.split('`').skip(1).step_by(2).filter_map(|code| code.split_once('(')) {
                    functions.push((name.0.to_owned(), slug(heading), String::new()));
                }
            } else if line.starts_with('#') {
                open = functions.len();
            } else {
                functions[open..].iter_mut().for_each(|function| function.2 += line);
            }
            in_heading = line.starts_with("### ");
        }
        Described { functions }
    }

    fn of(&self, name: &str) -> Option<(&str, &str)> {
        let (_, link, text) = self.functions.iter().find(|(known, ..)| known == name)?;
        Some((link, text))
    }
}

/// A header's page, without its title.
pub fn write(header: &Header, links: &Links, described: &Described) -> String {
    let mut page = links.comment(&header.intro);
    for part in &header.parts {
        page.push('\n');
        match part {
            Part::Section(title) => page += &format!("## {title}\n"),
            Part::Text(text) => page += &links.comment(text),
            Part::Group(comment, items) => group(&mut page, comment, items, header, links, described),
        }
    }
    page
}

/// Declarations that belong together; each function of a group about which nothing is said has a heading of its own.
fn group(
    page: &mut String,
    comment: &str,
    items: &[Item],
    header: &Header,
    links: &Links,
    described: &Described,
) {
    let has_functions = items.iter().any(|item| item.kind == Kind::Function);
    if comment.is_empty() && has_functions && items.len() > 1 {
        for item in items {
            group(page, comment, std::slice::from_ref(item), header, links, described);
        }
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for item in items.iter().filter(|item| item.kind != Kind::Constant && !item.name.is_empty()) {
        if !names.contains(&item.name.as_str()) {
            names.push(&item.name);
        }
    }
    let heading = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        *page += &format!("### {heading}\n\n");
    }
    let constants = items.iter().flat_map(|item| item.constants.iter().map(|(name, _)| name.as_str()));
    let constants =
        constants.chain(items.iter().filter(|item| item.kind == Kind::Constant).map(|item| &*item.name));
    let anchors = constants.chain(names.iter().copied().filter(|name| slug(name) != slug(&heading)));
    let anchors: String = anchors.map(|name| format!("<a id=\"{}\"></a>", slug(name))).collect();
    if !anchors.is_empty() {
        *page += &format!("{anchors}\n\n");
    }
    if comment.is_empty()
        && let Some(kin) = kin(&items[0].name, header)
    {
        let how = match items[0].name.ends_with("_init") {
            true => "prepared: castell_request_start starts it, as often as one likes",
            false => "started and not waited for: castell_wait or castell_test says when it is over",
        };
        *page += &links.comment(&format!("As {kin}, {how}.\n"));
    }
    *page += &links.comment(comment);
    *page += "\n```c\n";
    for item in items {
        *page += &declaration(item);
    }
    *page += "```\n";
    errors(page, comment, items, links, described);
}

/// As in the header, but functions as one line, or one a parameter.
fn declaration(item: &Item) -> String {
    let mut text = item.text.clone();
    if item.kind == Kind::Function {
        text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        while let Some((before, (value, rest))) = text
            .split_once(" GOAL_DEFAULT_(")
            .and_then(|(before, rest)| Some((before, rest.split_once(')')?)))
        {
            text = format!("{before} /* = {value} */{rest}");
        }
        if text.len() > 100
            && let Some((before, parameters)) = text.split_once('(')
            && !before.starts_with("template")
        {
            text = format!("{before}(\n    {}", parameters.replace(", ", ",\n    "));
        }
        text = format!("{};", text.trim_end_matches(';'));
    }
    let note =
        if item.note.is_empty() { String::new() } else { format!(" /* {} */", item.note.replace('\n', " ")) };
    format!("{text}{note}\n")
}

/// What the codes mean that the comment, or the page on goal.h, names.
fn errors(page: &mut String, comment: &str, items: &[Item], links: &Links, described: &Described) {
    let functions: Vec<&Item> = items.iter().filter(|item| item.kind == Kind::Function).collect();
    let mut said = comment.to_owned();
    for item in &functions {
        if let Some((link, text)) = described.of(&item.name) {
            *page += &format!("\nIn full: [`{}`](../c-api.md#{link}).\n", item.name);
            said = format!("{said} {text}");
        }
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut codes: Vec<&str> = said.split(|c| !is_part(c)).filter(|word| word.contains("_ERR_")).collect();
    codes.sort_unstable();
    codes.dedup();
    let rows =
        codes.iter().filter_map(|code| Some((code, links.targets.get(*code)?, links.meanings.get(*code)?)));
    let rows: String = rows
        .map(|(code, target, meaning)| format!("| [`{code}`]({target}) | {} |\n", links.line(meaning)))
        .collect();
    if !functions.is_empty() && !rows.is_empty() {
        *page += &format!("\n| error | |\n|---|---|\n{rows}");
    }
}

/// The blocking call of which a function is the other form.
fn kin<'a>(name: &str, header: &'a Header) -> Option<&'a str> {
    let blocking = match (name.strip_prefix("castell_i"), name.strip_suffix("_init")) {
        (_, Some(blocking)) => blocking.to_owned(),
        (Some(rest), _) => format!("castell_{rest}"),
        _ => return None,
    };
    let said = header.groups().filter(|(comment, _)| !comment.is_empty()).flat_map(|(_, items)| items);
    said.map(|item| item.name.as_str()).find(|name| *name == blocking)
}

/// Functions of which a header says nothing.
pub fn without_words(header: &Header) -> impl Iterator<Item = &str> {
    let silent = header.groups().filter(|(comment, _)| comment.is_empty()).flat_map(|(_, items)| items);
    let silent = silent.filter(|item| item.kind == Kind::Function && item.note.is_empty());
    silent.map(|item| item.name.as_str()).filter(|name| kin(name, header).is_none())
}
