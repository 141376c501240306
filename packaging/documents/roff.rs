//! Prose as roff, from the few forms of Markdown that it uses: paragraphs, `##` headings, fenced
//! examples, bullets, definitions (`term`, then `: text`), **bold**, *italic*, `code`.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// Adds prose to a page.
pub fn add_prose(page: &mut Roff, text: &str) {
    for block in blocks(text) {
        if let Some(title) = block.strip_prefix("## ") {
            page.control("SS", [title]);
        } else if let Some(example) = block.strip_prefix("```\n") {
            page.control("PP", []).control("RS", ["4"]).control("nf", []);
            page.text([roman(example.trim_end())]).control("fi", []).control("RE", []);
        } else if let Some((term, definition)) = block.split_once("\n: ") {
            page.control("TP", []).text(inline(term)).text(inline(definition));
        } else if block.starts_with("* ") {
            for item in block.split("\n* ") {
                page.control("IP", ["\\(bu", "2"]).text(inline(item.trim_start_matches("* ")));
            }
        } else {
            page.control("PP", []).text(inline(&block));
        }
    }
}

/// The blocks between empty lines. A fenced example is one block.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut open = false;
    let mut in_example = false;
    for line in text.lines() {
        if line.starts_with("```") {
            if !in_example {
                blocks.push("```\n".into());
            }
            open = false;
            in_example = !in_example;
        } else if in_example {
            let block = blocks.last_mut().expect("an example has begun");
            block.push_str(line);
            block.push('\n');
        } else if line.trim().is_empty() {
            open = false;
        } else if open {
            let block = blocks.last_mut().expect("a block has begun");
            block.push('\n');
            block.push_str(line);
        } else {
            blocks.push(line.to_owned());
            open = true;
        }
    }
    blocks
}

/// Returns prose without block forms: code and bold text in bold.
pub fn inline(text: &str) -> Vec<Inline> {
    let mut inlines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['*', '`']) {
        inlines.push(roman(&rest[..at]));
        let marked = &rest[at..];
        let mark = ["**", "*", "`"]
            .into_iter()
            .find(|mark| marked.starts_with(mark))
            .expect("one of these was found");
        let inner = &marked[mark.len()..];
        let end = inner.find(mark).unwrap_or(inner.len());
        let words = &inner[..end];
        inlines.push(if mark == "*" { italic(words) } else { bold(words) });
        rest = inner.get(end + mark.len()..).unwrap_or_default();
    }
    inlines.push(roman(rest));
    inlines
}
