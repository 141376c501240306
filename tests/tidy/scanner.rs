//! Finds the paths within its crate that a Rust source file names: in `use` declarations, and in
//! code where they begin with `crate`, `super`, `self` or a module declared in the file. Comments,
//! literals and items under `#[cfg(test)]` are skipped.

/// A module or item, as segments from the root of its crate.
pub type Path = Vec<String>;

/// What one file names.
#[derive(Default)]
pub struct Names {
    /// Each path with the line where it stands.
    pub paths: Vec<(usize, Path)>,
    /// What `use` brings into a module: the name there, and what it stands for.
    pub imports: Vec<(Path, Path)>,
    /// Modules declared under `#[cfg(test)]`.
    pub test_modules: Vec<Path>,
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
        names: Names::default(),
    };
    scanner.file();
    scanner.names
}

#[derive(Clone, Copy)]
struct Token<'a> {
    line: usize,
    text: &'a str,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while !rest.is_empty() {
        let skipped = skipped_length(rest);
        let length = skipped.unwrap_or_else(|| token_length(rest));
        if skipped.is_none() {
            let text = &rest[..length];
            tokens.push(Token { line, text });
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

fn token_length(text: &str) -> usize {
    let word = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    if word > 0 {
        word
    } else if text.starts_with("::") {
        2
    } else {
        text.chars().next().map_or(0, char::len_utf8)
    }
}

/// Returns the length of the white space, comment or literal at the beginning of `text`, if any.
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
    names: Names,
}

impl<'a> Scanner<'a> {
    fn token(&self, ahead: usize) -> &'a str {
        self.tokens
            .get(self.at + ahead)
            .map_or("", |token| token.text)
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
            match self.token(0) {
                "#" => {
                    if self.attribute_is_for_tests() {
                        self.skip_item();
                    }
                }
                "mod" if self.token(2) == "{" => {
                    self.inline.push((self.depth, self.token(1).to_owned()));
                    self.at += 2;
                }
                "mod" => self.at += 2,
                "pub" if self.token(1) == "(" => self.skip_group(1),
                // Not the captures of an opaque type: `impl Trait + use<'a>`.
                "use" if self.token(1) != "<" => {
                    self.at += 1;
                    self.use_tree(&[]);
                }
                "{" => {
                    self.depth += 1;
                    self.at += 1;
                }
                "}" => {
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
            self.names.paths.push((line, path));
        }
    }

    /// Reads one tree of a `use` declaration, with the segments before its braces as `prefix`.
    fn use_tree(&mut self, prefix: &[&'a str]) {
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
                        self.use_tree(&segments);
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
        if let Some(path) = self.resolve(&segments) {
            let mut imported = self.module();
            imported.extend(alias.map(str::to_owned).or_else(|| path.last().cloned()));
            if imported != path {
                self.names.imports.push((imported, path.clone()));
            }
            self.names.paths.push((line, path));
        }
    }

    /// Returns `segments` from the root of the crate, or `None` for a path into another crate.
    fn resolve(&self, segments: &[&str]) -> Option<Path> {
        let (&first, rest) = segments.split_first()?;
        let mut path = match first {
            "crate" => Vec::new(),
            "self" => self.module(),
            "super" => self.module().split_last()?.1.to_vec(),
            _ if self.declared.contains(&first) => self
                .file
                .iter()
                .cloned()
                .chain([first.to_owned()])
                .collect(),
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

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Path {
        path.split("::")
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// The paths in `text`, the source of module `run::latency`, as `line path`.
    fn paths(text: &str) -> Vec<String> {
        let names = scan(text, &module("run::latency"));
        names
            .paths
            .iter()
            .map(|(line, path)| format!("{line} {}", path.join("::")))
            .collect()
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
            (
                "mod part;\nuse part::Item;",
                &["2 run::latency::part::Item"],
            ),
            (
                "mod part;\nfn f() { part::g() }",
                &["2 run::latency::part::g"],
            ),
            (
                "mod inner { use super::super::a; } use super::b;",
                &["1 run::a", "1 run::b"],
            ),
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
}
