//! Rules about pages and their links: the README lists every page once, and each link of a page
//! leads to a file and a heading that exist. `packaging/make-site` makes the sidebar of the site
//! from the lists of the README, and it has no other files than the ones to which a link may lead.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{files, read, root};

/// Pages of the top level; the other pages are below `docs`.
const TOP_PAGES: [&str; 3] = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// The titles of the README's lists of pages. The last list is only in the sources: packages have
/// the README without it.
const LISTS: [&str; 5] =
    ["Tutorial:", "How to:", "Explanation:", "Reference:", "For contributors:"];

/// Pages below `docs/manual` are parts of manual pages, which have no links.
const MANUAL: &str = "docs/manual";

#[test]
fn readme_lists_each_page_once() {
    let readme = read("README.md");
    let places = LISTS.map(|title| {
        let line = format!("\n{title}\n");
        readme.find(&line).unwrap_or_else(|| panic!("no {title}"))
    });
    assert!(places.is_sorted(), "the lists are not in the order {LISTS:?}");
    let lists = &readme[places[0]..];
    let pages = files("docs", "md").into_iter();
    let in_docs = pages.filter(|path| path.parent() == Some(&root().join("docs")));
    let listed = in_docs
        .map(|path| shown(&path))
        .chain(["docs/reference/README.md".to_owned()])
        .chain(TOP_PAGES[1..].iter().map(|page| (*page).to_owned()));
    for page in listed {
        let item = format!("\n* [{page}]({page}): ");
        let count = lists.matches(&item).count();
        assert_eq!(count, 1, "README.md: items '* [{page}]({page}): ...'");
    }
    // The list of docs/reference is the table of its own README.
    let table = read("docs/reference/README.md");
    for page in files("docs/reference", "md") {
        let name = page.file_name().expect("a name").display().to_string();
        let row = format!("\n| [{name}]({name}) | ");
        let is_listed = name == "README.md" || table.contains(&row);
        assert!(is_listed, "docs/reference/README.md: no row of {name}");
    }
}

fn pages() -> Vec<PathBuf> {
    let below_docs = files("docs", "md").into_iter();
    below_docs
        .filter(|path| !shown(path).starts_with(MANUAL))
        .chain(TOP_PAGES.map(|page| root().join(page)))
        .collect()
}

/// Code hosts and browsers do not show `<words>` outside code.
#[test]
fn pages_have_no_html_except_pictures() {
    let mut offences = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).expect("text");
        let prose = without_code(&without_blocks(&text));
        for rest in prose.split('<').skip(1) {
            let is_tag = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
            if is_tag && !rest.starts_with("img ") {
                let word = rest.split_whitespace().next().unwrap_or_default();
                offences.push(format!("{}: <{word}", shown(&path)));
            }
        }
    }
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

#[test]
fn links_lead_to_files_and_headings() {
    let pages = pages();
    let texts = pages.iter().map(|path| {
        let text = fs::read_to_string(path).expect("text");
        (path.clone(), Page::new(&text))
    });
    let texts: HashMap<PathBuf, Page> = texts.collect();
    let mut count = 0;
    let mut broken = Vec::new();
    for path in &pages {
        for link in &texts[path].links {
            count += 1;
            if let Some(fault) = fault(path, link, &texts) {
                broken.push(format!("{}: {link}: {fault}", shown(path)));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
    assert!(count > 200, "only {count} links found");
}

/// The path of a file relative to the root.
fn shown(path: &Path) -> String {
    let below = path.strip_prefix(root()).expect("below the root");
    below.display().to_string()
}

/// Returns what is wrong with a link of the page at `path`, or `None`.
fn fault(path: &Path, link: &str, pages: &HashMap<PathBuf, Page>) -> Option<&'static str> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        path.to_owned()
    } else {
        plain(&path.parent().expect("a directory").join(file))
    };
    if !target.is_file() {
        return Some("no such file");
    }
    let page = pages.get(&target);
    let name = shown(&target);
    if page.is_none() && !name.starts_with("LICENSE-") && !is_shipped(&name) {
        return Some("the site and the packages do not have this file");
    }
    let has_anchor = anchor.is_empty() || page.is_some_and(|page| page.has(anchor));
    (!has_anchor).then_some("no such heading")
}

/// Whether a file is one that pages show or link to, and no page.
fn is_shipped(name: &str) -> bool {
    name.starts_with("docs/pictures/") || (name.starts_with("docs/") && name.ends_with(".json"))
}

/// Returns `path` without `..`.
pub fn plain(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                found.pop();
            }
            other => found.push(other),
        }
    }
    found
}

/// The links of a page, and the anchors of its headings.
struct Page {
    links: Vec<String>,
    anchors: Vec<String>,
}

impl Page {
    fn new(text: &str) -> Self {
        let text = without_blocks(text);
        let prose = without_code(&text);
        let targets = prose.split("](").skip(1).map(|rest| {
            let target = rest.split(')').next().unwrap_or_default();
            // A title may follow the target.
            target.split_whitespace().next().unwrap_or_default()
        });
        // Pictures with a width are HTML.
        let pictures = prose.split("<img src=\"").skip(1);
        let pictures = pictures.map(|rest| rest.split('"').next().unwrap_or_default());
        Self {
            links: targets.chain(pictures).map(str::to_owned).collect(),
            anchors: anchors(&text),
        }
    }

    fn has(&self, anchor: &str) -> bool {
        self.anchors.iter().any(|found| found == anchor)
    }
}

/// The text without its fenced blocks.
fn without_blocks(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut kept = String::new();
    for line in text.lines() {
        let start = line.trim_start();
        let length = start.len() - start.trim_start_matches('`').len();
        match fence {
            None if length >= 3 => fence = Some(&start[..length]),
            None => {
                kept += line;
                kept.push('\n');
            }
            Some(open) if length >= open.len() && start[length..].trim().is_empty() => fence = None,
            Some(_) => {}
        }
    }
    kept
}

/// The text without the content of `code`.
fn without_code(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        kept += &rest[..start];
        let after = rest[start..].trim_start_matches('`');
        let mark = &rest[start..rest.len() - after.len()];
        // Longer marks in the code do not end it.
        let mut end = None;
        let mut from = 0;
        while let Some(at) = after[from..].find(mark).map(|at| from + at) {
            let length = after[at..].len() - after[at..].trim_start_matches('`').len();
            if length == mark.len() {
                end = Some(at);
                break;
            }
            from = at + length;
        }
        match end {
            Some(end) => rest = &after[end + mark.len()..],
            None => {
                kept += mark;
                rest = after;
            }
        }
    }
    kept + rest
}

/// The anchors of the headings as code hosts and mdBook make them: small letters, `-` for each
/// space, no punctuation, and a number after each repetition.
fn anchors(text: &str) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        // Of a link only its text counts.
        let title: String = title
            .split("](")
            .enumerate()
            .map(|(at, part)| match (at, part.split_once(')')) {
                (0, _) | (_, None) => part,
                (_, Some((_, rest))) => rest,
            })
            .collect();
        let title = title.trim().to_lowercase();
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        let anchor: String = kept.collect();
        let count = counts.entry(anchor.clone()).or_default();
        found.push(match *count {
            0 => anchor,
            count => format!("{anchor}-{count}"),
        });
        *count += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_outside_code() {
        let text = "See [a](a.md#b), [`c`](c.md \"Title\") and `[d](d.md)`, ``e`[f](f.md)``.\n\
                    ```sh\n[g](g.md)\n```\n![a\npicture](h.svg) `[i](i.md)\n\
                    <img src=\"j.png\" width=\"1\">\n";
        let expected = ["a.md#b", "c.md", "h.svg", "i.md", "j.png"];
        assert_eq!(Page::new(text).links, expected);
    }

    #[test]
    fn makes_anchors_of_headings() {
        let text = "# `cxidiag check`: what, why?\n## 2.8 Low-latency writes\n## Twice\n### Twice\n\
                    ## A [link](b.md) here_too\n#hash\n```\n# no heading\n```\n";
        let expected = [
            "cxidiag-check-what-why",
            "28-low-latency-writes",
            "twice",
            "twice-1",
            "a-link-here_too",
        ];
        assert_eq!(Page::new(text).anchors, expected);
    }

    #[test]
    fn names_what_is_wrong_with_a_link() {
        let from = root().join("docs/guide.md");
        let pages = [("docs/guide.md", "# Here\n"), ("README.md", "# There\n")];
        let pages = pages.map(|(page, text)| (root().join(page), Page::new(text)));
        let pages = HashMap::from(pages);
        for (link, expected) in [
            ("#here", None),
            ("../README.md#there", None),
            ("check.schema.json", None),
            ("../LICENSE-MIT", None),
            ("#there", Some("no such heading")),
            ("../README.md#here", Some("no such heading")),
            ("check.schema.json#here", Some("no such heading")),
            ("none.md", Some("no such file")),
            ("pictures", Some("no such file")),
            ("../Cargo.toml", Some("the site and the packages do not have this file")),
        ] {
            assert_eq!(fault(&from, link, &pages), expected, "{link}");
        }
    }
}
