//! The sources of a directory of modules, and which file uses which.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path as FilePath, PathBuf};

use super::houses::House;
use super::root;
use super::scanner::{Names, OUTSIDE, Path, scan};

/// A file below the directory of a house, and its text.
pub type Text = (String, String);

/// Reads the files of a house, without packages and programs inside it.
pub fn read(house: &House) -> Vec<Text> {
    let directory = root().join(house.directory);
    let files = files(&directory).into_iter();
    files
        .map(|path| {
            let below = path.strip_prefix(&directory).expect("below");
            let text = fs::read_to_string(&path).expect("text");
            (below.to_str().expect("text").to_owned(), text)
        })
        .collect()
}

/// Rust files of the crate with this directory of sources, without the files of packages, programs
/// and tests inside it.
fn files(directory: &FilePath) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name");
            let is_separate = ["benches", "bin", "build.rs", "examples", "tests"]
                .iter()
                .any(|separate| *separate == name)
                && path.parent() == Some(directory);
            if is_separate || path.join("Cargo.toml").exists() {
                continue;
            }
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|found| found == "rs") {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no Rust files in {}", directory.display());
    found
}

pub struct Source<'a> {
    pub file: &'a str,
    module: Path,
    pub names: Names,
}

/// The sources that are not for tests.
pub fn sources<'a>(house: &House, texts: &'a [Text]) -> Vec<Source<'a>> {
    let has_library = texts.iter().any(|(file, _)| file == "lib.rs");
    let mut sources: Vec<Source> = texts
        .iter()
        .filter(|(file, _)| !is_for_tests(file))
        .map(|(file, text)| {
            let is_root = file == "main.rs" && !has_library;
            let module = module(house, if is_root { "lib.rs" } else { file });
            let names = scan(text, &module);
            Source { file, module, names }
        })
        .collect();
    let tests: Vec<Path> =
        sources.iter().flat_map(|source| source.names.test_modules.clone()).collect();
    sources.retain(|source| !tests.iter().any(|test| source.module.starts_with(test)));
    sources
}

/// A file that names an item of another file, or of its own.
pub struct Arrow<'a> {
    pub from: &'a str,
    pub line: usize,
    pub to: &'a str,
    pub is_reexport: bool,
}

/// An arrow for each path in `sources` that leads to one of them.
pub fn arrows<'a>(sources: &'a [Source<'a>]) -> Vec<Arrow<'a>> {
    let modules = Modules::new(sources);
    let uses =
        sources.iter().flat_map(|source| source.names.paths.iter().map(move |used| (source, used)));
    uses.filter_map(|(source, used)| {
        Some(Arrow {
            from: source.file,
            line: used.line,
            to: modules.file(&used.path)?,
            is_reexport: used.is_reexport,
        })
    })
    .collect()
}

fn module(house: &House, file: &str) -> Path {
    let path = format!("{}/{file}", house.module);
    let path = ["/mod.rs", "/lib.rs", ".rs"]
        .iter()
        .find_map(|end| path.strip_suffix(end))
        .unwrap_or(&path);
    path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
}

fn is_for_tests(file: &str) -> bool {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    path.split('/').any(|name| name.ends_with("_tests") || ["testing", "tests"].contains(&name))
}

struct Modules<'a> {
    files: BTreeMap<&'a [String], &'a str>,
    imports: BTreeMap<&'a [String], &'a Path>,
}

impl<'a> Modules<'a> {
    fn new(sources: &'a [Source<'a>]) -> Self {
        let imports = sources.iter().flat_map(|source| &source.names.imports);
        Self {
            files: sources.iter().map(|source| (&source.module[..], source.file)).collect(),
            imports: imports.map(|(name, path)| (&name[..], path)).collect(),
        }
    }

    /// The file that defines the item at `path`, through `use` declarations, or `None` for a file
    /// outside the house.
    fn file(&self, path: &[String]) -> Option<&'a str> {
        if path.first().is_some_and(|first| first == OUTSIDE) {
            return None;
        }
        for end in (0..=path.len()).rev() {
            let (start, rest) = path.split_at(end);
            if let Some(file) = self.files.get(start) {
                return Some(file);
            }
            // A function is often named after its module: `use clock::clock`.
            if let Some(target) = self.imports.get(start).filter(|to| !to.starts_with(start)) {
                return self.file(&[target, rest].concat());
            }
        }
        None
    }
}
