//! The parts that the sections of the page share: badges, tables, figures, lists of facts.

use facts::severity::Severity;
use facts::time_of_day::rfc3339;
use maud::{Markup, html};
use page::table::title;
use survey::result::words::grouped;

/// A verdict: how good it is, and its words.
pub type Badge = (Severity, &'static str);

/// A verdict with the sign of its severity, so that it does not depend on its colour.
pub fn badge((severity, text): Badge) -> Markup {
    let (class, sign) = match severity {
        Severity::Good => ("badge good", "✓"),
        Severity::Shown | Severity::NotAvailable | Severity::Suspect => ("badge unsure", "?"),
        Severity::Bad => ("badge bad", "✗"),
    };
    html! { span class=(class) { span aria-hidden="true" { (sign) " " } (text) } }
}

/// A table of the first `most` of all rows, and a line about those that it leaves out; `table` is
/// one of the functions below.
pub fn first_rows<T>(
    table: fn(&str, &[&str], &[Vec<Markup>]) -> Markup,
    caption: &str,
    columns: &[&str],
    (all, most): (&[T], usize),
    row: impl Fn(&T) -> Vec<Markup>,
) -> Markup {
    let rows: Vec<Vec<Markup>> = all.iter().take(most).map(row).collect();
    html! { (table(caption, columns, &rows)) (more(all.len(), most)) }
}

/// A line about what is left out of `all` where `most` are shown.
pub fn more(all: usize, most: usize) -> Markup {
    html! {
        @if let more @ 1.. = all.saturating_sub(most) {
            p.note { "and " (grouped(more as u64)) " more" }
        }
    }
}

/// A table. The first cell of each row is its title. The title of a column of numbers begins with
/// `>`.
pub fn table(caption: &str, columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    table_of_class("", caption, columns, rows)
}

/// A table of words that explain themselves without the titles of their columns: in a narrow window
/// the cells of a row stand one below the other.
pub fn stacked_table(caption: &str, columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    table_of_class("stacked", caption, columns, rows)
}

fn table_of_class(name: &str, caption: &str, columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    let class = |column| if title(column).1 { "number" } else { "words" };
    html! {
        div.wide tabindex="0" role="region" aria-label=(caption) {
            table class=[Some(name).filter(|name| !name.is_empty())] {
                caption { (caption) }
                thead {
                    tr {
                        @for column in columns {
                            th scope="col" class=(class(column)) { (title(column).0) }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @for (at, (cell, column)) in row.iter().zip(columns).enumerate() {
                                @if at == 0 {
                                    th scope="row" class=(class(column)) { (cell) }
                                } @else {
                                    td class=(class(column)) { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A picture with what it shows above it.
pub fn figure(caption: &str, picture: &Markup) -> Markup {
    html! {
        figure {
            figcaption { (caption) }
            div.wide { (picture) }
        }
    }
}

/// Returns pictures beside each other where the window has room.
pub fn charts(pictures: &[Markup]) -> Markup {
    html! {
        div.charts { @for picture in pictures { (picture) } }
    }
}

/// Returns facts with their names. Those without a value are left out.
pub fn facts(facts: &[(&str, Option<String>)]) -> Markup {
    html! {
        dl {
            @for (name, value) in facts {
                @if let Some(value) = value {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}

pub fn cell(text: impl AsRef<str>) -> Markup {
    html! { (text.as_ref()) }
}

/// A time in UTC: `2026-11-22 11:42:00 UTC`.
pub fn time(unix_ms: u64) -> String {
    // The time of a run that was read from text.
    if unix_ms == 0 {
        return "time unknown".into();
    }
    rfc3339(unix_ms).replace('T', " ").replace('Z', " UTC")
}

/// A duration in seconds.
pub fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1000.0)
}
