//! Puts mutants into a source, each behind a switch: `a + b` becomes a `match` on which mutant is meant, with `a - b` and `a * b` as arms. So
//! all of a crate are compiled once, and which of them is there is said when a test is started.
//!
//! Where an alternative is chosen, nothing inside it is mutated: one mutant is there at a time.

use super::list::{Genre, Mutant, Place};
use anyhow::Context as _;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// What is appended to the crate: which mutant is meant, and the note which places a test came by.
pub const MODULE: &str = r#"
#[doc(hidden)]
#[allow(warnings, clippy::all)]
pub mod __mutant {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static MEANT: AtomicUsize = AtomicUsize::new(UNKNOWN);
    const UNKNOWN: usize = usize::MAX;
    const NOTES: usize = usize::MAX - 1;
    /// The number of the mutant that is meant, or 0.
    #[inline(always)]
    pub fn at(place: usize) -> usize {
        let meant = MEANT.load(Relaxed);
        if meant < NOTES { meant } else { seldom(place) }
    }
    #[inline(never)]
    fn seldom(place: usize) -> usize {
        let notes = std::env::var_os("CASTELL_MUTANT_NOTES");
        if MEANT.load(Relaxed) == UNKNOWN {
            let named = std::env::var("CASTELL_MUTANT").ok().and_then(|text| text.parse().ok());
            let meant = named.unwrap_or(if notes.is_some() { NOTES } else { 0 });
            MEANT.store(meant, Relaxed);
            if meant < NOTES { return meant; }
        }
        static SEEN: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());
        let mut seen = SEEN.lock().unwrap_or_else(|error| error.into_inner());
        let word = place / 64;
        if seen.len() <= word { seen.resize(word + 1, 0); }
        if seen[word] >> (place % 64) & 1 == 0 {
            seen[word] |= 1 << (place % 64);
            let file = std::fs::OpenOptions::new().append(true).create(true).open(notes.unwrap_or_default());
            let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, format!("{place}\n").as_bytes()));
        }
        0
    }
}
"#;

/// A source with switches.
#[derive(Debug, Default)]
pub struct Switched {
    pub text: String,
    /// Of each line, counted from 1, the mutants to which an error there belongs.
    pub owners: BTreeMap<usize, BTreeSet<usize>>,
    /// Of each mutant that is in it the number of its place, as [`MODULE`] notes it.
    pub places: BTreeMap<usize, usize>,
}

/// Puts in those that can be: what is constant is computed by the compiler, and a field that is missing is none.
pub fn switch(source: &str, mutants: &[&Mutant]) -> anyhow::Result<Switched> {
    let file = syn::parse_file(source)?;
    let lines = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut by_start: HashMap<Place, Vec<&Mutant>> = HashMap::new();
    for &mutant in mutants {
        by_start.entry(mutant.start).or_default().push(mutant);
    }
    let mut finder = Finder { source, lines, by_start, constant: 0, edits: Vec::new() };
    finder.visit_file(&file);
    let mut edits = finder.edits;
    // Who returns does so before what begins there.
    edits.sort_by_key(|edit| (edit.start, edit.form != Form::Return, std::cmp::Reverse(edit.end)));
    let mut writer = Writer { source, line: 1, switched: Switched::default() };
    writer.write(0, source.len(), &edits, &[]);
    Ok(writer.switched)
}

/// What becomes of a piece of the source.
struct Edit {
    start: usize,
    end: usize,
    /// Mutants and what stands there with each.
    alternatives: Vec<(usize, String)>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// An expression.
    Value,
    /// The beginning of a function, which returns at once.
    Return,
    /// Behind a pattern: an arm that is gone.
    Guard,
}

struct Finder<'a> {
    source: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    by_start: HashMap<Place, Vec<&'a Mutant>>,
    /// How many constants this is in.
    constant: usize,
    edits: Vec<Edit>,
}

impl<'a> Finder<'a> {
    fn offset(&self, at: proc_macro2::LineColumn) -> usize {
        let rest = &self.source[self.lines[at.line - 1]..];
        self.lines[at.line - 1] + rest.char_indices().nth(at.column).map_or(rest.len(), |(offset, _)| offset)
    }

    fn range(&self, spanned: &impl Spanned) -> (usize, usize) {
        (self.offset(spanned.span().start()), self.offset(spanned.span().end()))
    }

    /// The mutants of this kind that begin there, and end there if `whole`.
    fn find(&self, spanned: &impl Spanned, genre: Genre, whole: bool) -> Vec<&'a Mutant> {
        let place = |at: proc_macro2::LineColumn| Place { line: at.line, column: at.column + 1 };
        let (start, end) = (place(spanned.span().start()), place(spanned.span().end()));
        let all = self.by_start.get(&start).into_iter().flatten().copied();
        let fits = |mutant: &&Mutant| mutant.genre == genre && (!whole || mutant.end == end);
        if self.constant > 0 { Vec::new() } else { all.filter(fits).collect() }
    }

    fn replace(&mut self, spanned: &impl Spanned, alternatives: Vec<(usize, String)>) {
        let (start, end) = self.range(spanned);
        if !alternatives.is_empty() {
            self.edits.push(Edit { start, end, alternatives, form: Form::Value });
        }
    }

    fn constantly(&mut self, visit: impl FnOnce(&mut Self)) {
        self.constant += 1;
        visit(self);
        self.constant -= 1;
    }

    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        if signature.constness.is_some() {
            return self.constantly(|finder| finder.visit_block(body));
        }
        if let Some(first) = body.stmts.first() {
            let values = self.find(first, Genre::FnValue, false);
            let start = self.range(first).0;
            let alternatives: Vec<_> =
                values.iter().map(|mutant| (mutant.number, mutant.replacement.clone())).collect();
            if !alternatives.is_empty() {
                self.edits.push(Edit { start, end: start, alternatives, form: Form::Return });
            }
        }
        self.visit_block(body);
    }
}

/// Whether it binds names, as parts of conditions may: such a part cannot stand in a `match`.
fn binds(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        syn::Expr::Paren(inner) => binds(&inner.expr),
        _ => false,
    }
}

/// Whether it is compiled for loom only, with which the tests do not run here.
fn is_for_loom(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let condition = attribute.meta.require_list().map(|list| list.tokens.to_string());
        let condition = condition.unwrap_or_default().replace(' ', "");
        condition.contains("loom") && !condition.contains("not(loom)")
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_loom(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constantly(|finder| visit::visit_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constantly(|finder| visit::visit_item_static(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constantly(|finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.constantly(|finder| visit::visit_trait_item_const(finder, item));
    }

    fn visit_type(&mut self, item: &'ast syn::Type) {
        self.constantly(|finder| visit::visit_type(finder, item));
    }

    fn visit_pat(&mut self, item: &'ast syn::Pat) {
        self.constantly(|finder| visit::visit_pat(finder, item));
    }

    fn visit_generic_argument(&mut self, item: &'ast syn::GenericArgument) {
        self.constantly(|finder| visit::visit_generic_argument(finder, item));
    }

    fn visit_variant(&mut self, item: &'ast syn::Variant) {
        self.constantly(|finder| visit::visit_variant(finder, item));
    }

    fn visit_expr_const(&mut self, item: &'ast syn::ExprConst) {
        self.constantly(|finder| visit::visit_expr_const(finder, item));
    }

    fn visit_expr_repeat(&mut self, item: &'ast syn::ExprRepeat) {
        self.visit_expr(&item.expr);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_loom(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_loom(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
    }

    fn visit_expr_binary(&mut self, item: &'ast syn::ExprBinary) {
        if !binds(&item.left) && !binds(&item.right) {
            let ((start, end), (operator, behind)) = (self.range(item), self.range(&item.op));
            let (left, right) = (&self.source[start..operator], &self.source[behind..end]);
            let others = self.find(&item.op, Genre::BinaryOperator, true);
            let with = |mutant: &&Mutant| (mutant.number, format!("{left}{}{right}", mutant.replacement));
            self.replace(item, others.iter().map(with).collect());
        }
        visit::visit_expr_binary(self, item);
    }

    fn visit_expr_unary(&mut self, item: &'ast syn::ExprUnary) {
        let (behind, end) = (self.range(&item.op).1, self.range(item).1);
        let operand = self.source[behind..end].to_owned();
        let others = self.find(&item.op, Genre::UnaryOperator, true);
        let with = |mutant: &&Mutant| (mutant.number, format!("{}{operand}", mutant.replacement));
        self.replace(item, others.iter().map(with).collect());
        visit::visit_expr_unary(self, item);
    }

    fn visit_arm(&mut self, item: &'ast syn::Arm) {
        let gone = self.find(item, Genre::MatchArm, true);
        match &item.guard {
            None => {
                let behind = self.range(&item.pat).1;
                let alternatives: Vec<_> = gone.iter().map(|mutant| (mutant.number, String::new())).collect();
                if !alternatives.is_empty() {
                    self.edits.push(Edit { start: behind, end: behind, alternatives, form: Form::Guard });
                }
            }
            Some((_, guard)) => {
                if !binds(guard) {
                    let never = gone.iter().map(|mutant| (mutant.number, "false".to_owned()));
                    let others = self.find(&**guard, Genre::MatchArmGuard, true);
                    let others = others.iter().map(|mutant| (mutant.number, mutant.replacement.clone()));
                    self.replace(&**guard, never.chain(others).collect());
                }
                self.visit_expr(guard);
            }
        }
        self.visit_expr(&item.body);
    }
}

struct Writer<'a> {
    source: &'a str,
    line: usize,
    switched: Switched,
}

impl Writer<'_> {
    fn put(&mut self, text: &str, owners: &[usize]) {
        self.switched.text.push_str(text);
        for at in self.line..=self.line + text.matches('\n').count() {
            if !owners.is_empty() {
                self.switched.owners.entry(at).or_default().extend(owners);
            }
            self.line = at;
        }
    }

    /// The source from `start` to `end` with these edits in it, which are in order, outer ones first.
    fn write(&mut self, start: usize, end: usize, mut edits: &[Edit], owners: &[usize]) {
        let source = self.source;
        let mut at = start;
        while let Some((edit, rest)) = edits.split_first() {
            let inside = rest.iter().take_while(|inner| inner.start < edit.end).count();
            self.put(&source[at..edit.start], &[]);
            self.write_edit(edit, &rest[..inside], owners);
            (at, edits) = (edit.end, &rest[inside..]);
        }
        self.put(&source[at..end], &[]);
    }

    fn write_edit(&mut self, edit: &Edit, inner: &[Edit], owners: &[usize]) {
        let numbers: Vec<usize> = edit.alternatives.iter().map(|(number, _)| *number).collect();
        let place = numbers[0];
        self.switched.places.extend(numbers.iter().map(|number| (*number, place)));
        if edit.form == Form::Guard {
            self.put("\n", &[]);
            self.put(&format!(" if crate::__mutant::at({place}) != {place} "), &numbers);
            return self.put("\n", &[]);
        }
        let (before, after) = if edit.form == Form::Return { ("", "") } else { ("(", ")") };
        self.put(&format!("{before}match crate::__mutant::at({place}) {{\n"), &[]);
        for (number, text) in &edit.alternatives {
            let value =
                if edit.form == Form::Return { format!("return {text}") } else { format!("({text})") };
            self.put(&format!("{number} => {value},"), &[*number]);
            self.put("\n", &[]);
        }
        if edit.form == Form::Return {
            return self.put("_ => {} }\n", &[]);
        }
        // An error in what stood there, where nothing inside is to blame, comes from the `match` around it.
        let all: Vec<usize> = owners.iter().chain(&numbers).copied().collect();
        self.put("\n_ => (", &all);
        let first = self.line;
        self.write(edit.start, edit.end, inner, &all);
        for line in first..=self.line {
            let there = self.switched.owners.entry(line).or_default();
            if there.is_empty() {
                there.extend(&numbers);
            }
        }
        self.put(&format!(")}}{after}"), &[]);
    }
}

/// Takes `const` from functions that are not in `keep`, and leaves everything where it was.
pub fn without_const(source: &str, keep: &BTreeSet<String>) -> anyhow::Result<String> {
    struct Functions(Vec<(proc_macro2::Span, String)>);
    impl<'ast> Visit<'ast> for Functions {
        fn visit_signature(&mut self, signature: &'ast syn::Signature) {
            if let Some(token) = &signature.constness {
                self.0.push((token.span, signature.ident.to_string()));
            }
        }
    }
    let mut functions = Functions(Vec::new());
    functions.visit_file(&syn::parse_file(source)?);
    let mut lines: Vec<String> = source.split('\n').map(str::to_owned).collect();
    for (span, _) in functions.0.iter().filter(|(_, name)| !keep.contains(name)) {
        let line = lines.get_mut(span.start().line - 1).context("a span is in the source")?;
        let at = line.char_indices().nth(span.start().column).map_or(0, |(at, _)| at);
        line.replace_range(at..at + "const".len(), "     ");
    }
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(number: usize, genre: Genre, [line, from, to]: [usize; 3], replacement: &str) -> Mutant {
        let (start, end) = (Place { line, column: from }, Place { line, column: to });
        Mutant { number, genre, start, end, replacement: replacement.to_owned(), ..Mutant::default() }
    }

    /// Without line breaks, of which there are many.
    fn joined(source: &str, mutants: &[Mutant]) -> (String, BTreeMap<usize, usize>) {
        let switched = switch(source, &mutants.iter().collect::<Vec<_>>()).expect("a source");
        syn::parse_file(&switched.text).unwrap_or_else(|error| panic!("{error}: {}", switched.text));
        (switched.text.split_whitespace().collect::<Vec<_>>().join(" "), switched.places)
    }

    #[test]
    fn operators_have_arms_and_only_what_stood_there_is_mutated_inside() {
        let source = "fn f(a: u8, b: u8) -> u8 { a + !b }";
        let plus = |number, other| mutant(number, Genre::BinaryOperator, [1, 30, 31], other);
        let not = mutant(3, Genre::UnaryOperator, [1, 32, 33], "");
        let zero = mutant(4, Genre::FnValue, [1, 28, 34], "0");
        let (text, places) = joined(source, &[plus(1, "-"), plus(2, "*"), not, zero]);
        let inner = "(match crate::__mutant::at(3) { 3 => (b), _ => (!b)})";
        let arms = format!("1 => (a - !b), 2 => (a * !b), _ => (a + {inner})");
        let zero = "match crate::__mutant::at(4) { 4 => return 0, _ => {} }";
        let sum = format!("(match crate::__mutant::at(1) {{ {arms}}})");
        assert_eq!(text, format!("fn f(a: u8, b: u8) -> u8 {{ {zero} {sum} }}"));
        assert_eq!(places, BTreeMap::from([(1, 1), (2, 1), (3, 3), (4, 4)]));
    }

    #[test]
    fn functions_return_and_arms_have_guards() {
        let source = "fn f(a: u8) -> u8 { match a { 0 => 1, 1 if a > 2 => 2, _ => 3 } }";
        let (text, _) = joined(
            source,
            &[
                mutant(1, Genre::FnValue, [1, 21, 66], "7"),
                mutant(2, Genre::MatchArm, [1, 31, 38], ""),
                mutant(3, Genre::MatchArmGuard, [1, 44, 49], "true"),
                mutant(4, Genre::BinaryOperator, [1, 46, 47], "<"),
            ],
        );
        assert!(text.contains("{ match crate::__mutant::at(1) { 1 => return 7, _ => {} } match a"), "{text}");
        assert!(text.contains("0 if crate::__mutant::at(2) != 2 => 1"), "{text}");
        let greater = "(match crate::__mutant::at(4) { 4 => (a < 2), _ => (a > 2)})";
        let guard = format!("(match crate::__mutant::at(3) {{ 3 => (true), _ => ({greater})}})");
        assert!(text.contains(&format!("1 if {guard} => 2")), "{text}");
    }

    #[test]
    fn what_is_constant_stays_unless_it_need_not_be() {
        let source = "const fn f(a: u8) -> u8 { a + 1 }\nconst C: u8 = f(2 + 3);";
        let sums = [
            mutant(1, Genre::BinaryOperator, [1, 29, 30], "-"),
            mutant(2, Genre::BinaryOperator, [2, 19, 20], "-"),
        ];
        assert_eq!(joined(source, &sums).1, BTreeMap::new());
        let free = without_const(source, &BTreeSet::new()).expect("a source");
        assert!(free.starts_with("      fn f(a: u8)"), "{free}");
        assert_eq!(joined(&free, &sums).1, BTreeMap::from([(1, 1)]));
        assert_eq!(without_const(source, &BTreeSet::from(["f".to_owned()])).expect("a source"), source);
    }

    #[test]
    fn what_is_compiled_for_loom_only_is_left_alone() {
        for (condition, is_mutated) in [
            ("#[cfg(loom)]", false),
            ("#[cfg(all(test, loom))]", false),
            ("#[cfg(not(loom))]", true),
            ("#[cfg(all(test, not(loom)))]", true),
            ("#[inline]", true),
        ] {
            for source in [
                format!("{condition}\nfn f(a: u8) -> u8 {{\na + 1 }}"),
                format!("{condition}\nmod m {{ fn f(a: u8) -> u8 {{\na + 1 }} }}"),
                format!("impl A {{ {condition}\nfn f(a: u8) -> u8 {{\na + 1 }} }}"),
            ] {
                let places = joined(&source, &[mutant(1, Genre::BinaryOperator, [3, 3, 4], "-")]).1;
                assert_eq!(!places.is_empty(), is_mutated, "{source}");
            }
        }
    }

    #[test]
    fn lines_belong_to_the_mutants_in_them() {
        let source = "fn f(a: u8) -> u8 {\n    a + 1\n}\n";
        let mutants = [mutant(5, Genre::BinaryOperator, [2, 7, 8], "-")];
        let switched = switch(source, &mutants.iter().collect::<Vec<_>>()).expect("a source");
        let at = switched.text.lines().position(|line| line.starts_with("5 =>")).expect("an arm") + 1;
        assert_eq!(switched.owners[&at], BTreeSet::from([5]));
        assert!(!switched.owners.contains_key(&1) && !switched.owners.contains_key(&100));
    }
}
