//! Finds the paths within its crate that a Rust source file names: in `use` declarations, and in
//! code where they begin with `crate`, `super`, `self` or a module declared in the file. Finds the
//! types that it defines. Comments, literals and items under `#[cfg(test)]` are skipped.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;

/// A module or item, as segments from the root of its crate.
pub type Path = Vec<String>;

/// The first segment of a path into another crate.
pub const OUTSIDE: &str = "::";

/// What one file names.
#[derive(Default)]
pub struct Names {
    pub paths: Vec<Use>,
    /// What `use` brings into a module: the name there, and what it stands for. The path of an item
    /// of another crate begins with [`OUTSIDE`].
    pub imports: Vec<(Path, Path)>,
    /// The types that the file defines, each with its line. Associated types are left out.
    pub types: Vec<(usize, String)>,
    /// Modules declared under `#[cfg(test)]`.
    pub test_modules: Vec<Path>,
}

/// A path within the crate, where a file names it.
pub struct Use {
    pub line: usize,
    pub path: Path,
    /// Whether the file exports the item again and does not name it elsewhere.
    pub is_reexport: bool,
}

/// The comments of `text`, each with its first line.
pub fn comments(text: &str) -> Vec<(usize, &str)> {
    let pieces = pieces(text).into_iter();
    let is_comment = |text: &str| text.starts_with("//") || text.starts_with("/*");
    pieces
        .filter(|(_, text)| is_comment(text))
        .map(|(line, text)| (line, text.trim_end()))
        .collect()
}

/// Returns what `text`, the source of `module`, names.
pub fn scan(text: &str, module: &[String]) -> Names {
    let tokens = tokens(text);
    let declared = tokens
        .windows(3)
        .filter(|three| three[0].text == "mod" && ["{", ";"].contains(&three[2].text))
        .map(|three| three[1].text)
        .collect();
    let mut scanner = Scanner {
        tokens,
        declared,
        at: 0,
        depth: 0,
        file: module.to_vec(),
        inline: Vec::new(),
        is_public: false,
        opens_associated: false,
        associated: Vec::new(),
        reexports: Vec::new(),
        for_tests: Vec::new(),
        names: Names::default(),
    };
    scanner.file();
    scanner.mark_reexports();
    scanner.names
}

/// The words and signs of `text` without comments and literals, each with its line.
pub fn words(text: &str) -> Vec<(usize, &str)> {
    tokens(text).into_iter().map(|token| (token.line, token.text)).collect()
}

#[derive(Clone, Copy)]
struct Token<'a> {
    line: usize,
    text: &'a str,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let pieces = pieces(text).into_iter();
    pieces
        .filter(|(_, text)| skipped_length(text).is_none())
        .map(|(line, text)| Token { line, text })
        .collect()
}

/// The tokens, comments, literals and white space of `text`, each with its first line.
fn pieces(text: &str) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while !rest.is_empty() {
        let length = skipped_length(rest).unwrap_or_else(|| token_length(rest));
        let (piece, after) = rest.split_at(length);
        pieces.push((line, piece));
        line += piece.matches('\n').count();
        rest = after;
    }
    pieces
}

fn token_length(text: &str) -> usize {
    let word = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    if word > 0 {
        word
    } else if text.starts_with("::") {
        2
    } else {
        text.chars().next().map_or(0, char::len_utf8)
    }
}

/// The length of the white space, comment or literal at the beginning of `text`, if any.
fn skipped_length(text: &str) -> Option<usize> {
    if text.starts_with(char::is_whitespace) {
        return text.find(|c: char| !c.is_whitespace()).or(Some(text.len()));
    }
    if text.starts_with("//") {
        return text.find('\n').or(Some(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment_length(text));
    }
    let literal = text.strip_prefix(['b', 'c']).unwrap_or(text);
    let prefix = text.len() - literal.len();
    if let Some(raw) = literal.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        if raw[hashes..].starts_with('"') {
            let content = raw[hashes + 1..].find(&end).expect("an end of the string");
            return Some(prefix + 1 + hashes + 1 + content + end.len());
        }
    }
    let mut characters = literal.chars();
    let is_literal = match characters.next() {
        Some('"') => true,
        // A quote that does not close after one character begins a lifetime.
        Some('\'') => characters.next() == Some('\\') || characters.next() == Some('\''),
        _ => false,
    };
    is_literal.then(|| prefix + quoted_length(literal))
}

fn block_comment_length(text: &str) -> usize {
    let mut depth = 0;
    for (at, _) in text.char_indices() {
        if text[at..].starts_with("/*") {
            depth += 1;
        } else if text[..at].ends_with("*/") {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    text.len()
}

fn quoted_length(text: &str) -> usize {
    let quote = text.chars().next();
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if !is_escaped && Some(c) == quote {
            return at + 1;
        }
        is_escaped = !is_escaped && c == '\\';
    }
    text.len()
}

struct Scanner<'a> {
    tokens: Vec<Token<'a>>,
    /// The modules that the file declares.
    declared: Vec<&'a str>,
    at: usize,
    /// Braces open.
    depth: usize,
    /// The module of the file.
    file: Path,
    /// Modules open inside the file, each with the braces open around it.
    inline: Vec<(usize, String)>,
    /// Whether `pub` stands before this token.
    is_public: bool,
    /// Whether the next brace opens a trait or an implementation.
    opens_associated: bool,
    /// The traits and implementations that are open, each by the braces open around it.
    associated: Vec<usize>,
    /// The paths that the file exports again, by their index, and their names in the file.
    reexports: Vec<(usize, &'a str)>,
    /// The tokens of items for tests.
    for_tests: Vec<Range<usize>>,
    names: Names,
}

impl<'a> Scanner<'a> {
    fn token(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn line(&self) -> usize {
        self.tokens[self.at].line
    }

    /// The module at this point of the file.
    fn module(&self) -> Path {
        let inline = self.inline.iter().map(|(_, name)| name.clone());
        self.file.iter().cloned().chain(inline).collect()
    }

    fn file(&mut self) {
        while self.at < self.tokens.len() {
            let is_public = mem::take(&mut self.is_public);
            match self.token(0) {
                "#" => {
                    if self.attribute_is_for_tests() {
                        let start = self.at;
                        self.skip_item();
                        self.for_tests.push(start..self.at);
                    }
                }
                "mod" if self.token(2) == "{" => {
                    self.inline.push((self.depth, self.token(1).to_owned()));
                    self.at += 2;
                }
                "mod" => self.at += 2,
                "pub" => {
                    self.is_public = true;
                    if self.token(1) == "(" {
                        self.skip_group(1);
                    } else {
                        self.at += 1;
                    }
                }
                // Not the captures of an opaque type: `impl Trait + use<'a>`.
                "use" if self.token(1) != "<" => {
                    self.at += 1;
                    self.use_tree(&[], is_public);
                }
                "impl" => {
                    self.opens_associated = true;
                    self.at += 1;
                }
                "struct" | "enum" | "union" | "trait" | "type" if is_word(self.token(1)) => {
                    let is_associated =
                        self.token(0) == "type" && self.associated.last() == Some(&self.depth);
                    if !is_associated {
                        let name = self.token(1).to_owned();
                        self.names.types.push((self.line(), name));
                    }
                    self.opens_associated |= self.token(0) == "trait";
                    self.at += 2;
                }
                "{" => {
                    self.depth += 1;
                    if mem::take(&mut self.opens_associated) {
                        self.associated.push(self.depth);
                    }
                    self.at += 1;
                }
                "}" => {
                    self.associated.pop_if(|depth| *depth == self.depth);
                    self.depth = self.depth.saturating_sub(1);
                    self.inline.pop_if(|(depth, _)| *depth == self.depth);
                    self.at += 1;
                }
                "::" => self.at += 2,
                _ if self.token(1) == "::" => self.path(),
                _ => self.at += 1,
            }
        }
    }

    /// Passes the attribute here.
    fn attribute_is_for_tests(&mut self) -> bool {
        let start = self.at;
        let bracket = if self.token(1) == "!" { 2 } else { 1 };
        self.skip_group(bracket);
        let words: Vec<&str> = self.tokens[start..self.at].iter().map(|t| t.text).collect();
        words.contains(&"cfg") && words.contains(&"test") && !words.contains(&"not")
    }

    /// Passes the item here: to its semicolon, or to the end of its block.
    fn skip_item(&mut self) {
        while self.at < self.tokens.len() {
            match self.token(0) {
                "mod" => {
                    let mut module = self.module();
                    module.push(self.token(1).to_owned());
                    self.names.test_modules.push(module);
                    self.at += 2;
                }
                ";" => {
                    self.at += 1;
                    return;
                }
                "{" => return self.skip_group(0),
                "(" | "[" => self.skip_group(0),
                "}" => return,
                _ => self.at += 1,
            }
        }
    }

    /// Passes the group in brackets that opens `ahead` tokens from here.
    fn skip_group(&mut self, ahead: usize) {
        self.at += ahead;
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.token(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => (),
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    fn path(&mut self) {
        let line = self.line();
        let mut segments = vec![self.token(0)];
        self.at += 1;
        while self.token(0) == "::" && is_word(self.token(1)) {
            segments.push(self.token(1));
            self.at += 2;
        }
        if let Some(path) = self.resolve(&segments) {
            self.names.paths.push(Use { line, path, is_reexport: false });
        }
    }

    /// Decides which public `use` declarations only export an item again: no other token of the
    /// file outside tests has its name.
    fn mark_reexports(&mut self) {
        let mut counts = BTreeMap::new();
        for (at, token) in self.tokens.iter().enumerate() {
            if !self.for_tests.iter().any(|range| range.contains(&at)) {
                *counts.entry(token.text).or_insert(0) += 1;
            }
        }
        for &(index, name) in &self.reexports {
            self.names.paths[index].is_reexport = name == "*" || counts.get(name) == Some(&1);
        }
    }

    /// Reads one tree of a `use` declaration, with the segments before its braces as `prefix`.
    fn use_tree(&mut self, prefix: &[&'a str], is_public: bool) {
        let line = self.line();
        let mut segments = prefix.to_vec();
        let mut alias = None;
        loop {
            match self.token(0) {
                "::" if segments.is_empty() => segments.push("::"),
                "::" => (),
                "*" => alias = Some("*"),
                "as" => {
                    self.at += 1;
                    alias = Some(self.token(0));
                }
                "{" => {
                    self.at += 1;
                    while !["}", ""].contains(&self.token(0)) {
                        self.use_tree(&segments, is_public);
                        self.at += usize::from(self.token(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                segment if is_word(segment) => segments.push(segment),
                _ => break,
            }
            self.at += 1;
        }
        let named = segments.iter().rfind(|&&segment| segment != "self");
        let Some(name) = alias.or(named.copied()) else {
            return;
        };
        let own = self.resolve(&segments);
        let target = own.clone().unwrap_or_else(|| outside(&segments));
        let mut imported = self.module();
        imported.push(name.to_owned());
        if imported != target {
            self.names.imports.push((imported, target));
        }
        if let Some(path) = own {
            if is_public {
                self.reexports.push((self.names.paths.len(), name));
            }
            self.names.paths.push(Use { line, path, is_reexport: false });
        }
    }

    /// Returns `segments` from the root of the crate, or `None` for a path into another crate.
    fn resolve(&self, segments: &[&str]) -> Option<Path> {
        let (&first, rest) = segments.split_first()?;
        let mut path = match first {
            "crate" => Vec::new(),
            "self" => self.module(),
            "super" => self.module().split_last()?.1.to_vec(),
            _ if self.declared.contains(&first) => {
                self.file.iter().cloned().chain([first.to_owned()]).collect()
            }
            _ => return None,
        };
        for &segment in rest {
            match segment {
                "super" => drop(path.pop()),
                "self" => (),
                _ => path.push(segment.to_owned()),
            }
        }
        Some(path)
    }
}

/// The path of an item of another crate.
fn outside(segments: &[&str]) -> Path {
    let names = segments.iter().copied().filter(|name| ![OUTSIDE, "self"].contains(name));
    [OUTSIDE].into_iter().chain(names).map(str::to_owned).collect()
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Path {
        path.split("::").filter(|s| !s.is_empty()).map(str::to_owned).collect()
    }

    /// The paths in `text`, the source of module `run::latency`, as `line path`.
    fn paths(text: &str) -> Vec<String> {
        let names = scan(text, &module("run::latency"));
        names.paths.iter().map(|used| format!("{} {}", used.line, used.path.join("::"))).collect()
    }

    #[test]
    fn resolves_each_form_of_path() {
        for (text, expected) in [
            ("use crate::plan::Plan;", &["1 plan::Plan"][..]),
            ("use super::course;", &["1 run::course"]),
            ("use super::super::plan;", &["1 plan"]),
            ("use super::*;", &["1 run"]),
            ("use self::inner::Item;", &["1 run::latency::inner::Item"]),
            ("pub use crate::plan::Plan as Scheme;", &["1 plan::Plan"]),
            (
                "use crate::{\n    plan::{self, Plan},\n    error,\n};",
                &["2 plan", "2 plan::Plan", "3 error"],
            ),
            ("use super::{a::B, super::c};", &["1 run::a::B", "1 c"]),
            ("fn f() {\n crate::plan::make::<u8>() }", &["2 plan::make"]),
            ("fn f(a: &super::Course) {}", &["1 run::Course"]),
            ("x!(1, $crate::plan::Plan);", &["1 plan::Plan"]),
            ("mod part;\nuse part::Item;", &["2 run::latency::part::Item"]),
            ("mod part;\nfn f() { part::g() }", &["2 run::latency::part::g"]),
            ("mod inner { use super::super::a; } use super::b;", &["1 run::a", "1 run::b"]),
            ("#[cfg(not(test))] use crate::plan;", &["1 plan"]),
        ] {
            assert_eq!(paths(text), expected, "{text}");
        }
    }

    #[test]
    fn skips_what_names_no_room() {
        for text in [
            "use std::fs::{self, File};",
            "use ::plan::Plan;",
            "mod part;",
            "pub(in crate::run) fn f() {}",
            "// use crate::plan;",
            "/* /* */ use crate::plan; */",
            "/// Like [`crate::plan`].",
            "const A: &str = \"use crate::plan; \\\" crate::plan\";",
            "const A: &[u8] = br##\" \"# crate::plan\"##;",
            "const A: (char, char) = ('\"', '\\'');",
            "fn f<'a>(a: &'a str) -> impl Fn() + use<'a> {}",
            "#[cfg(test)]\nmod tests { use crate::plan; fn f() { crate::plan::f() } }",
            "#[cfg(all(test, unix))]\n#[path = \"a.rs\"]\nmod tests;",
            "#[cfg(test)] use crate::plan::{self, Plan};",
            "#[cfg(test)] pub(crate) fn f(a: [u8; 2]) { crate::plan::f(); }",
        ] {
            assert_eq!(paths(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn resumes_after_skipped_items_and_literals() {
        for text in [
            "#[cfg(test)] mod tests { }\nuse crate::plan;",
            "#[cfg(test)] mod tests;\nuse crate::plan;",
            "const A: &str = r#\"\"#;\nuse crate::plan;",
            "fn f<'a>() {} /* ' */\nuse crate::plan;",
            "const A: u8 = b'\\'';\nuse crate::plan;",
        ] {
            assert_eq!(paths(text), ["2 plan"], "{text}");
        }
    }

    #[test]
    fn lists_imports_and_test_modules() {
        let text = "pub use wire::Address; mod wire; use crate::a as b;
            #[cfg(test)] pub(crate) mod testing;";
        let names = scan(text, &module("session"));
        assert_eq!(
            names.imports,
            [
                (module("session::Address"), module("session::wire::Address")),
                (module("session::b"), module("a")),
            ]
        );
        assert_eq!(names.test_modules, [module("session::testing")]);
    }

    #[test]
    fn notes_imports_from_other_packages() {
        let text = "pub use facts::error; use ::facts::{number::{self, Size}, rate as pace};";
        let names = scan(text, &module("run"));
        let imports: Vec<String> = names
            .imports
            .iter()
            .map(|(name, target)| format!("{} = {}", name.join("::"), target.join(" ")))
            .collect();
        assert_eq!(
            imports,
            [
                "run::error = :: facts error",
                "run::number = :: facts number",
                "run::Size = :: facts number Size",
                "run::pace = :: facts rate",
            ]
        );
        assert!(names.paths.is_empty());
    }

    #[test]
    fn distinguishes_reexports_from_uses() {
        for (text, expected) in [
            ("pub use self::a::B;", true),
            ("pub(crate) use self::a::{B};", true),
            ("pub use self::a::B as C; fn f(b: B) {}", true),
            ("pub use self::a::*;", true),
            ("pub use self::a::B; #[cfg(test)] fn f(b: B) {}", true),
            ("pub use self::a::B; // B", true),
            ("pub use self::a::B; fn f(b: B) {}", false),
            ("pub use self::a::B as C; fn f(c: C) {}", false),
            ("use self::a::B;", false),
            ("pub fn f() {} use self::a::B;", false),
        ] {
            let names = scan(text, &module("run"));
            assert_eq!(names.paths[0].is_reexport, expected, "{text}");
        }
    }

    #[test]
    fn lists_types() {
        for (text, expected) in [
            (
                "pub struct A; enum B<T> {}\npub(crate) trait C {} type D = u8; union E {}",
                &["1 A", "1 B", "2 C", "2 D", "2 E"][..],
            ),
            ("trait A { type Item; }", &["1 A"]),
            ("impl A for [u8; 2] { type Item = u8; }\ntype B = u8;", &["2 B"]),
            ("fn f(a: impl B) -> impl C { struct D; }", &["1 D"]),
            ("macro_rules! m { ($a:ident) => { struct $a; } }", &[]),
            ("#[cfg(test)] mod tests { struct A; }", &[]),
            ("#[cfg(any(test, feature = \"testing\"))] struct A;", &[]),
            ("// struct A;\nconst A: &str = \"struct B;\";", &[]),
        ] {
            let types = scan(text, &module("run")).types.into_iter();
            let types: Vec<String> = types.map(|(line, name)| format!("{line} {name}")).collect();
            assert_eq!(types, expected, "{text}");
        }
    }

    #[test]
    fn lists_comments() {
        let text = "//! a\nf(\"// b\"); // c\n/* d\n e */ '\"' /// f";
        assert_eq!(comments(text), [(1, "//! a"), (2, "// c"), (3, "/* d\n e */"), (4, "/// f")]);
    }
}
