//! A C header as data: sections, and groups of declarations with the comment that stands before them.

/// A header.
pub struct Header {
    /// The comment at its top, without the licence.
    pub intro: String,
    /// What follows, in its order.
    pub parts: Vec<Part>,
}

/// What stands between blank lines.
pub enum Part {
    /// `/* ---- Title */`.
    Section(String),
    /// A comment that stands alone.
    Text(String),
    /// Declarations without a blank line between them, and their comment.
    Group(String, Vec<Item>),
}

/// A declaration or a constant.
pub struct Item {
    pub kind: Kind,
    /// Its name, empty for an enumeration without one.
    pub name: String,
    /// As it stands in the header, without a body.
    pub text: String,
    /// The comment behind it, on its line.
    pub note: String,
    /// The constants of an enumeration, with their comments.
    pub constants: Vec<(String, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Function,
    Type,
    Constant,
}

impl Header {
    /// Reads a header in this project's style.
    pub fn read(text: &str) -> Header {
        let text = without_cplusplus(text);
        let mut reader = Reader { rest: &text, parts: Vec::new(), comment: None, items: Vec::new() };
        while reader.step() {}
        reader.end_group();
        let mut parts = reader.parts.into_iter();
        let intro = match parts.next() {
            Some(Part::Text(intro)) => intro,
            _ => panic!("a header begins with a comment that says what it is for"),
        };
        // "castell.h: " is the page's title.
        let intro = intro.split_once(": ").map_or(intro.as_str(), |(_, rest)| rest);
        let intro = intro.lines().filter(|line| !line.starts_with("SPDX")).collect::<Vec<_>>().join("\n");
        Header { intro: intro.trim().to_owned(), parts: parts.collect() }
    }

    /// Its groups: comment and declarations.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &[Item])> {
        self.parts.iter().filter_map(|part| match part {
            Part::Group(comment, items) => Some((comment.as_str(), items.as_slice())),
            _ => None,
        })
    }
}

/// C++ sees the same functions with more comfort: what only it sees, and what stands in for that in C, is left out.
fn without_cplusplus(text: &str) -> String {
    let (mut kept, mut depth) = (String::new(), 0);
    for line in text.lines() {
        let opens = line.starts_with("#if");
        if depth > 0 || line.starts_with("#ifdef __cplusplus") {
            depth += usize::from(opens);
            depth -= usize::from(line.starts_with("#endif"));
            continue;
        }
        kept += line;
        kept.push('\n');
    }
    kept
}

struct Reader<'a> {
    rest: &'a str,
    parts: Vec<Part>,
    comment: Option<String>,
    items: Vec<Item>,
}

impl<'a> Reader<'a> {
    /// Reads one line, comment or declaration; whether there was one.
    fn step(&mut self) -> bool {
        let line = self.rest.split_inclusive('\n').next().unwrap_or_default();
        if line.is_empty() {
            return false;
        }
        if line.trim().is_empty() {
            self.end_group();
            self.rest = &self.rest[line.len()..];
        } else if line.starts_with("/*") {
            self.end_group();
            let comment = cleaned(self.take_comment());
            match comment.strip_prefix("---") {
                Some(title) => {
                    self.parts.push(Part::Section(title.trim_start_matches('-').trim().to_owned()))
                }
                None => self.comment = Some(comment),
            }
        } else if line.starts_with('#') {
            self.directive();
        } else if line.starts_with("namespace detail") {
            self.declaration();
        } else if line.starts_with("namespace") || line.starts_with('}') {
            self.rest = &self.rest[line.len()..];
        } else {
            let item = self.declaration();
            self.items.push(item);
        }
        true
    }

    fn end_group(&mut self) {
        let comment = self.comment.take();
        let items = std::mem::take(&mut self.items);
        match comment {
            Some(comment) if items.is_empty() => self.parts.push(Part::Text(comment)),
            comment if !items.is_empty() => self.parts.push(Part::Group(comment.unwrap_or_default(), items)),
            _ => {}
        }
    }

    /// The comment that begins here, and the rest of its line.
    fn take_comment(&mut self) -> &'a str {
        let end = self.rest.find("*/").map_or(self.rest.len(), |at| at + 2);
        let comment = &self.rest[..end];
        self.rest = self.rest[end..].trim_start_matches(' ');
        self.rest = self.rest.strip_prefix('\n').unwrap_or(self.rest);
        comment
    }

    /// A line that begins with `#`; only constants are kept.
    fn directive(&mut self) {
        let mut length = 0;
        for line in self.rest.split_inclusive('\n') {
            length += line.len();
            if !line.trim_end().ends_with('\\') {
                break;
            }
        }
        let line = self.rest[..length].trim_end();
        self.rest = &self.rest[length..];
        let (text, note) = line.split_once("/*").unwrap_or((line, ""));
        let Some((name, value)) = text.strip_prefix("#define ").and_then(|define| define.split_once(' '))
        else {
            return;
        };
        if !name.contains('(') && !name.ends_with('_') && !value.is_empty() {
            let (name, text, note) = (name.to_owned(), text.trim_end().to_owned(), cleaned(note));
            self.items.push(Item { kind: Kind::Constant, name, text, note, constants: Vec::new() });
        }
    }

    fn declaration(&mut self) -> Item {
        let is_type = ["typedef", "struct", "enum", "class"].iter().any(|word| self.rest.starts_with(word));
        let (body, end) = extent(self.rest, is_type);
        let text = self.rest[..body].trim_end().to_owned();
        self.rest = self.rest[end..].trim_start_matches(' ');
        let note = if self.rest.starts_with("/*") {
            cleaned(self.take_comment())
        } else {
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
            String::new()
        };
        let kind = if is_type { Kind::Type } else { Kind::Function };
        let constants = if text.contains("enum") && is_type { constants(&text) } else { Vec::new() };
        Item { kind, name: name(&text, kind), text, note, constants }
    }
}

/// Where a declaration's body begins and where all of it ends; the same for one without a body.
fn extent(text: &str, is_type: bool) -> (usize, usize) {
    let (mut depth, mut body, mut at) = (0_usize, None, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            continue;
        }
        match rest.as_bytes()[0] {
            b'{' if depth == 0 && !is_type => {
                body = Some(at);
                depth += 1;
            }
            b'(' | b'{' => depth += 1,
            b')' => depth -= 1,
            b'}' => {
                depth -= 1;
                if depth == 0 && !is_type {
                    return (body.unwrap_or(at), at + 1);
                }
            }
            b';' if depth == 0 => return (at + 1, at + 1),
            _ => {}
        }
        at += rest.chars().next().map_or(1, char::len_utf8);
    }
    (text.len(), text.len())
}

fn name(text: &str, kind: Kind) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let last =
        |text: &str| text.rsplit(|c| !is_part(c)).find(|part| !part.is_empty()).unwrap_or("").to_owned();
    let first =
        |text: &str| text.split(|c| !is_part(c)).find(|part| !part.is_empty()).unwrap_or("").to_owned();
    match kind {
        Kind::Function => last(text.split('(').next().unwrap_or(text)),
        _ if text.starts_with("class") => first(&text["class".len()..]),
        _ if text.starts_with("enum {") => String::new(),
        _ => match text.split_once("(*") {
            Some((before, rest)) if !before.contains('{') => first(rest),
            _ => last(text),
        },
    }
}

/// The names in an enumeration and what stands behind each on its line.
fn constants(text: &str) -> Vec<(String, String)> {
    let inside =
        text.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(inside, _)| inside);
    let mut found = Vec::new();
    for line in inside.lines() {
        let (code, note) = line.split_once("/*").unwrap_or((line, ""));
        for constant in code.split(',').filter_map(|part| part.split_once('=')) {
            let name = constant.0.trim();
            if !name.ends_with('_') {
                found.push((name.to_owned(), cleaned(note)));
            }
        }
    }
    found
}

/// A comment's text without its marks, line by line.
fn cleaned(comment: &str) -> String {
    let comment = comment.trim().trim_start_matches("/*").trim_end_matches("*/").trim();
    let lines = comment.lines().map(|line| {
        let line = line.trim_start();
        line.strip_prefix("* ").or(line.strip_prefix('*')).unwrap_or(line).trim_end()
    });
    lines.collect::<Vec<_>>().join("\n")
}
