//! The manual pages: one for the program, one for each subcommand and legacy name, and an overview
//! under both names.

use plan::cli::usage::{Entry, Usage};
use plan::tool::PROGRAM;

use super::prose::{self, Prose};
use super::roff::{self, Page};
use super::{File, Subcommand, overview, subcommands};

/// The names that a page uses for the tools.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// `cxidiag write-lat`.
    Subcommands,
    /// `cxi_write_lat`.
    Legacy,
}

/// The last sections of a page, before SEE ALSO.
const LAST_SECTIONS: [&str; 3] = ["EXAMPLES", "EXIT STATUS", "ENVIRONMENT"];

/// The sources of all pages.
struct Sources {
    subcommands: Vec<Subcommand>,
    common: Prose,
}

/// Returns all pages.
///
/// # Errors
///
/// A page without a section that it needs.
pub fn pages() -> Result<Vec<File>, String> {
    let sources = Sources { subcommands: subcommands(), common: prose::read("common")? };
    let mut pages = vec![
        sources.program()?,
        sources.overview(Names::Subcommands)?,
        sources.overview(Names::Legacy)?,
    ];
    for subcommand in &sources.subcommands {
        let prose = prose::read(subcommand.name)?;
        pages.push(sources.subcommand(
            subcommand,
            &prose,
            &subcommand.usage,
            Names::Subcommands,
        )?);
        if let Some(usage) = &subcommand.legacy_usage {
            pages.push(sources.subcommand(subcommand, &prose, usage, Names::Legacy)?);
        }
    }
    Ok(pages)
}

impl Sources {
    fn program(&self) -> Result<File, String> {
        let names = Names::Subcommands;
        let usage = overview();
        let prose = prose::read(PROGRAM)?;
        let mut page = new_page(PROGRAM, 1);
        page.section("NAME");
        page.name_line(PROGRAM, &uncapitalized(usage.about));
        page.section("SYNOPSIS");
        page.synopsis(usage.synopsis.iter().map(|(words, _)| words));
        page.section("DESCRIPTION");
        page.prose(&self.text(&prose, "DESCRIPTION", names, PROGRAM)?, false);
        page.section("COMMANDS");
        self.list_subcommands(&mut page, names);
        options(&mut page, &usage);
        for title in LAST_SECTIONS {
            page.section(title);
            page.prose(&self.text(&prose, title, names, PROGRAM)?, false);
        }
        self.see_also(&mut page, names, (PROGRAM, 1));
        Ok((format!("man/{PROGRAM}.1"), page.finish()))
    }

    fn overview(&self, names: Names) -> Result<File, String> {
        let name = overview_name(names);
        let prose = prose::read("overview")?;
        let mut page = new_page(name, 7);
        page.section("NAME");
        page.name_line(name, "overview of the CXI tools");
        for (title, text) in &prose.sections {
            page.section(title);
            page.prose(&self.expanded(text, names, PROGRAM), false);
            if title == "TOOLS" {
                self.list_subcommands(&mut page, names);
            }
        }
        self.see_also(&mut page, names, (name, 7));
        Ok((format!("man/{name}.7"), page.finish()))
    }

    fn subcommand(
        &self,
        subcommand: &Subcommand,
        prose: &Prose,
        usage: &Usage,
        names: Names,
    ) -> Result<File, String> {
        let name = page_name(subcommand, names);
        let text = |title| self.text(prose, title, names, subcommand.name);
        let mut page = new_page(&name, 1);
        page.section("NAME");
        page.name_line(&name, &uncapitalized(usage.about));
        page.section("SYNOPSIS");
        page.synopsis(usage.synopsis.iter().map(|(words, _)| words));
        page.section("DESCRIPTION");
        page.prose(&text("DESCRIPTION")?, false);
        for title in ["How to run", "Output"] {
            page.subsection(title);
            page.prose(&text(title)?, false);
        }
        options(&mut page, usage);
        for title in LAST_SECTIONS {
            page.section(title);
            page.prose(&text(title)?, false);
        }
        self.see_also(&mut page, names, (&name, 1));
        Ok((format!("man/{name}.1"), page.finish()))
    }

    /// Returns a section of prose: from the file of the page, or else from `common.md`.
    fn text(
        &self,
        own: &Prose,
        title: &str,
        names: Names,
        subcommand: &str,
    ) -> Result<String, String> {
        let found = own.find(title).or(self.common.find(title));
        let text = found.ok_or_else(|| {
            let (own, common) = (&own.file, &self.common.file);
            format!("docs/manual: neither {own} nor {common} has a section '# {title}'")
        })?;
        Ok(self.expanded(text, names, subcommand))
    }

    fn list_subcommands(&self, page: &mut Page, names: Names) {
        for subcommand in self.called(names) {
            page.tag(&reference(&page_name(subcommand, names), 1));
            page.prose(&format!("{}.", subcommand.usage.about), true);
        }
    }

    /// Adds references to the other pages with the same kind of names.
    fn see_also(&self, page: &mut Page, names: Names, own: (&str, u8)) {
        let mut all = vec![(PROGRAM.to_owned(), 1)];
        all.extend(self.called(names).map(|tool| (page_name(tool, names), 1)));
        all.push((overview_name(names).to_owned(), 7));
        all.push(("cxi-softnic".to_owned(), 1));
        let others: Vec<String> = all
            .iter()
            .filter(|(name, section)| (name.as_str(), *section) != own)
            .map(|(name, section)| reference(name, *section))
            .collect();
        page.section("SEE ALSO");
        page.verbatim(&others.join(",\n"));
    }

    /// Returns the subcommands that have such a name.
    fn called(&self, names: Names) -> impl Iterator<Item = &Subcommand> {
        let all = self.subcommands.iter();
        all.filter(move |tool| names == Names::Subcommands || tool.legacy_name.is_some())
    }

    /// Returns prose with names in place of `{program}`, `{overview}`, and `{write-lat}` for each
    /// subcommand.
    fn expanded(&self, text: &str, names: Names, subcommand: &str) -> String {
        let mut text = text.replace("{overview}", overview_name(names));
        for tool in &self.subcommands {
            let name = match (names, tool.legacy_name) {
                (Names::Legacy, Some(name)) => name.to_owned(),
                _ => format!("{PROGRAM} {}", tool.name),
            };
            if tool.name == subcommand {
                text = text.replace("{program}", &name);
            }
            text = text.replace(&format!("{{{}}}", tool.name), &name);
        }
        text
    }
}

/// Adds each option with its explanation and its default, in the groups of the help text, then the
/// lists of values.
fn options(page: &mut Page, usage: &Usage) {
    page.section("OPTIONS");
    for (title, group) in &usage.groups {
        page.subsection(title);
        group.iter().for_each(|entry| option(page, entry));
    }
    if !usage.groups.is_empty() {
        page.subsection("Help");
    }
    usage.options.iter().for_each(|entry| option(page, entry));
    for (title, words) in &usage.words {
        page.subsection(title);
        page.prose(words, false);
    }
}

fn option(page: &mut Page, entry: &Entry) {
    page.tag(&roff::option(entry));
    let mut prose = entry.manual.to_owned();
    if let Some(default) = entry.default() {
        prose += &format!(" Default: {default}.");
    }
    page.prose(&prose, true);
}

/// Returns the name of the overview.
fn overview_name(names: Names) -> &'static str {
    match names {
        Names::Subcommands => PROGRAM,
        Names::Legacy => "cxi_diags",
    }
}

/// Returns the name of the page of a subcommand.
fn page_name(subcommand: &Subcommand, names: Names) -> String {
    match (names, subcommand.legacy_name) {
        (Names::Legacy, Some(name)) => name.to_owned(),
        _ => format!("{PROGRAM}-{}", subcommand.name),
    }
}

fn new_page(name: &str, section: u8) -> Page {
    let date = option_env!("CXIDIAG_DATE").unwrap_or_default();
    let source = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    Page::new(name, section, date, &source)
}

/// Returns a reference to a page.
fn reference(name: &str, section: u8) -> String {
    format!("{}({section})", roff::inline(&format!("**{name}**")))
}

/// Returns text that begins with a small letter, unless its first word is in capitals.
fn uncapitalized(text: &str) -> String {
    let mut characters = text.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}
