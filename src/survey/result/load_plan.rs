//! The text of `--load=plan`: what a load would be and cost. Nothing is sent for it.

use super::words;
use load::conductor::LoadPreview;
use page::table;
use page::table::{WIDTH, wrapped};

/// Returns the text of a plan, in lines of at most 80 columns where names allow it.
pub fn plan_text(plan: &LoadPreview) -> Vec<String> {
    let partial = if plan.is_partial { " (partial load)" } else { "" };
    let senders = format!(
        "plan: at most {} of {} would send at once{partial}; nothing was sent",
        words::grouped(plan.most_aggressors.into()),
        words::counted(plan.nics.into(), "NIC"),
    );
    let rate = plan
        .peak
        .map_or_else(|| "peak rate unknown".into(), |rate| format!("at most {}/s", amount(rate)));
    let bytes = plan
        .total_bytes
        .map_or(String::new(), |bytes| format!(", at most {} in total", amount(bytes)));
    let cost = format!(
        "{} in {}; {rate}{bytes}",
        words::counted(plan.slots.into(), "slot"),
        time(plan.seconds),
    );
    let mut lines =
        [senders, cost].iter().flat_map(|line| wrapped(line, WIDTH, "  ")).collect::<Vec<String>>();
    if !plan.patterns.is_empty() {
        lines.push(String::new());
        let row = |(name, slots): &(String, u32)| vec![name.clone(), slots.to_string()];
        let rows = plan.patterns.iter().map(row).collect();
        lines.extend(table::lines(&["Pattern", ">Slots"], rows));
    }
    if !plan.left_out.is_empty() {
        lines.extend([String::new(), "Left out".into()]);
    }
    for left_out in &plan.left_out {
        let line = format!("{}: {}", left_out.what, left_out.reason);
        lines.extend(wrapped(&line, WIDTH, "    "));
    }
    lines
}

/// Returns a number of bytes in the largest unit of 1,000 that leaves at least 1.
fn amount(bytes: f64) -> String {
    let units = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")];
    let fitting = units.into_iter().find(|(factor, _)| bytes >= *factor);
    let (factor, unit) = fitting.unwrap_or((1e3, "kB"));
    let value = bytes / factor;
    let decimals = usize::from(value < 99.95);
    format!("{value:.decimals$} {unit}")
}

/// Returns a time: `42 s`, `2 min 20 s`.
fn time(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match whole {
        ..100 => format!("{whole} s"),
        _ => format!("{} min {} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::findings::LeftOut;

    #[test]
    fn says_what_would_be_done_and_what_it_costs() {
        let plan = LoadPreview {
            nics: 10_000,
            most_aggressors: 64,
            is_partial: true,
            slots: 408,
            seconds: 139.2,
            peak: Some(1.6e12),
            total_bytes: Some(84.8e12),
            patterns: vec![("bisect:switch".into(), 16), ("all2all".into(), 64)],
            left_out: vec![LeftOut {
                what: "bisect:system".into(),
                reason:
                    "the groups of the NICs are not known: --topology or --locations gives them"
                        .into(),
            }],
        };
        let expected = "\
plan: at most 64 of 10,000 NICs would send at once (partial load); nothing was
  sent
408 slots in 2 min 20 s; at most 1.6 TB/s, at most 84.8 TB in total

Pattern        Slots
bisect:switch     16
all2all           64

Left out
bisect:system: the groups of the NICs are not known: --topology or --locations
    gives them";
        assert_eq!(plan_text(&plan).join("\n"), expected);
    }

    #[test]
    fn says_which_costs_are_unknown() {
        let plan = LoadPreview {
            nics: 4,
            most_aggressors: 4,
            slots: 1,
            seconds: 0.25,
            ..LoadPreview::default()
        };
        let expected = [
            "plan: at most 4 of 4 NICs would send at once; nothing was sent",
            "1 slot in 1 s; peak rate unknown",
        ];
        assert_eq!(plan_text(&plan), expected);
    }

    #[test]
    fn writes_amounts_in_their_unit() {
        for (bytes, text) in [
            (300.0, "0.3 kB"),
            (25e6, "25.0 MB"),
            (84.8e12, "84.8 TB"),
            (150e12, "150 TB"),
            (1.2e15, "1.2 PB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }
}
