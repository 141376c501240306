//! The manual pages: one for the program, one for each subcommand and legacy name, and an overview
//! under both names.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use cli::usage::{Entry, Usage};
use cxidiag::command::LEGACY_COMMANDS;
use facts::child::PROGRAM;

use super::prose::{self, Prose};
use super::roff::add_prose;
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

/// All pages.
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
            // A program that a command replaces differs from the command.
            let own = LEGACY_COMMANDS.iter().any(|legacy| legacy.replaced_by == subcommand.name);
            let prose = if own { prose::read(&usage.program)? } else { prose };
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
        let mut page = Page::new(PROGRAM, 1, &usage);
        page.section("DESCRIPTION", &self.text(&prose, "DESCRIPTION", names, PROGRAM)?);
        page.section("COMMANDS", "");
        self.list_subcommands(&mut page, names);
        page.options(&usage);
        for title in LAST_SECTIONS {
            page.section(title, &self.text(&prose, title, names, PROGRAM)?);
        }
        Ok(self.finished(page, names, (PROGRAM, 1)))
    }

    fn overview(&self, names: Names) -> Result<File, String> {
        let name = overview_name(names);
        let prose = prose::read("overview")?;
        let mut page =
            Page::new(name, 7, &Usage { about: "overview of the CXI tools", ..Usage::default() });
        for (title, text) in &prose.sections {
            page.section(title, &self.expanded(text, names, PROGRAM));
            if title == "TOOLS" {
                self.list_subcommands(&mut page, names);
            }
        }
        Ok(self.finished(page, names, (name, 7)))
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
        let mut page = Page::new(&name, 1, usage);
        page.section("DESCRIPTION", &text("DESCRIPTION")?);
        for title in ["How to run", "Output"] {
            page.subsection(title, &text(title)?);
        }
        page.options(usage);
        for title in LAST_SECTIONS {
            page.section(title, &text(title)?);
        }
        Ok(self.finished(page, names, (&name, 1)))
    }

    /// A section of prose: from the file of the page, or else from `common.md`.
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
        page.add(|roff| {
            for subcommand in self.called(names) {
                let about = format!("{}.", subcommand.usage.about);
                roff.control("TP", [])
                    .text([bold(page_name(subcommand, names)), roman("(1)")])
                    .text([roman(about)]);
            }
        });
    }

    /// A page with references to the other pages with the same kind of names.
    fn finished(&self, mut page: Page, names: Names, own: (&str, u8)) -> File {
        let mut all = vec![(PROGRAM.to_owned(), 1)];
        all.extend(self.called(names).map(|tool| (page_name(tool, names), 1)));
        all.push((overview_name(names).to_owned(), 7));
        all.push(("cxi-softnic".to_owned(), 1));
        all.retain(|(name, section)| (name.as_str(), *section) != own);
        page.section("SEE ALSO", "");
        page.add(|roff| {
            for (at, (name, section)) in all.iter().enumerate() {
                let end = if at + 1 < all.len() { "," } else { "" };
                roff.text([bold(name), roman(format!("({section}){end}"))]);
            }
        });
        (format!("man/{}.{}", own.0, own.1), page.text)
    }

    /// The subcommands that have such a name.
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

/// A page under construction.
struct Page {
    text: String,
}

impl Page {
    /// A page with its header, its name and the ways to start the program.
    fn new(name: &str, section: u8, usage: &Usage) -> Self {
        let ways: Vec<&str> = usage.synopsis.iter().map(|(words, _)| words.as_str()).collect();
        let command = Command::new("")
            .display_name(name)
            .bin_name(&usage.program)
            .about(uncapitalized(usage.about))
            .override_usage(ways.join("\n"));
        let man = Man::new(command)
            .title(name.to_uppercase())
            .section(section.to_string())
            // An empty date would make the next word the date.
            .date(option_env!("CXIDIAG_DATE").unwrap_or(" "))
            .source(format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION")))
            .manual("CXI Diagnostics");
        let mut page = Self { text: Roff::new().render() };
        page.write(|bytes| man.render_title(bytes));
        // Flush left and without hyphenation: options stay whole.
        page.text += ".nh\n.ad l\n";
        page.write(|bytes| man.render_name_section(bytes));
        if !ways.is_empty() {
            page.write(|bytes| man.render_synopsis_section(bytes));
        }
        page
    }

    fn section(&mut self, title: &str, prose: &str) {
        self.add(|roff| add_prose(roff.control("SH", [title]), prose));
    }

    fn subsection(&mut self, title: &str, prose: &str) {
        self.add(|roff| add_prose(roff.control("SS", [title]), prose));
    }

    /// Adds each option with its explanation and its default, in the groups of the help text, then
    /// the lists of values.
    fn options(&mut self, usage: &Usage) {
        self.section("OPTIONS", "");
        for (title, group) in &usage.groups {
            self.subsection(title, "");
            self.option_group(group);
        }
        if !usage.groups.is_empty() {
            self.subsection("Help", "");
        }
        self.option_group(&usage.options);
        for (title, words) in &usage.words {
            self.subsection(title, words);
        }
    }

    fn option_group(&mut self, group: &[Entry]) {
        let options = group.iter().map(|entry| entry.declared().long_help(entry.manual()));
        let command = Command::new("").disable_help_flag(true).disable_version_flag(true);
        let man = Man::new(command.args(options));
        self.write(|bytes| man.render_options_section(bytes));
        self.text = self.text.replacen(".SH OPTIONS\n.TP\n", ".TP\n", 1);
    }

    fn add(&mut self, add: impl FnOnce(&mut Roff)) {
        let mut roff = Roff::new();
        add(&mut roff);
        self.write(|bytes| roff.to_writer(bytes));
    }

    /// Adds what is written, without the definitions that begin each document.
    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
        let mut bytes = Vec::new();
        write(&mut bytes).expect("memory takes any text");
        let text = String::from_utf8_lossy(&bytes).replacen(&Roff::new().render(), "", 1);
        // The crate leaves these to troff, which prints accents for them.
        self.text += &text.replace('`', "\\(ga").replace('^', "\\(ha").replace('~', "\\(ti");
    }
}

fn overview_name(names: Names) -> &'static str {
    match names {
        Names::Subcommands => PROGRAM,
        Names::Legacy => "cxi_diags",
    }
}

fn page_name(subcommand: &Subcommand, names: Names) -> String {
    match (names, subcommand.legacy_name) {
        (Names::Legacy, Some(name)) => name.to_owned(),
        _ => format!("{PROGRAM}-{}", subcommand.name),
    }
}

/// Text that begins with a small letter, unless its first word is in capitals.
fn uncapitalized(text: &str) -> String {
    let mut characters = text.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}
