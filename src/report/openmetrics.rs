//! Metrics as text in two dialects, which no file satisfies at once: OpenMetrics 1.0, and the text
//! that the textfile collector of Prometheus' node exporter reads (jobs.md 2.5).

use std::fmt::Write as _;
use std::path::Path;

/// The dialect of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Text for node exporter.
    NodeExporter,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Dialect {
    /// All dialects, with their names.
    pub const ALL: [(&str, Self); 2] = [
        ("node-exporter", Self::NodeExporter),
        ("openmetrics", Self::OpenMetrics),
    ];

    /// Returns the dialect of a file: node exporter reads `*.prom`.
    pub fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|of| of == "prom") {
            Self::NodeExporter
        } else {
            Self::OpenMetrics
        }
    }
}

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A value that only goes up; its samples end in `_total`.
    Counter,
    /// Labels without a value; its samples end in `_info`.
    Info,
}

/// A metric with its samples.
#[derive(Clone, Debug)]
pub struct Family {
    /// Its name without `_total` or `_info`.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its unit, which is the end of the name; empty without one.
    pub unit: &'static str,
    /// What it is, in one line without quotes and backslashes.
    pub help: &'static str,
    /// Its samples, each with different labels.
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// What `cxidiag_build_info` is. The node exporter needs the same text in all files.
pub const BUILD_HELP: &str = "Version of cxidiag that wrote the metrics, always 1.";

/// Returns the sample of `cxidiag_build` of a command. The files of two commands in one directory
/// of the node exporter must not have the same sample.
pub fn build(command: &str) -> Sample {
    Sample {
        labels: vec![
            ("command", command.to_owned()),
            ("version", env!("CARGO_PKG_VERSION").into()),
        ],
        value: 1.0,
    }
}

/// Returns the text of the families that have samples.
pub fn text(families: &[Family], dialect: Dialect) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let Family {
            name, unit, help, ..
        } = family;
        let (kind, suffix) = match (family.kind, dialect) {
            (Kind::Gauge, _) => ("gauge", ""),
            (Kind::Counter, _) => ("counter", "_total"),
            (Kind::Info, Dialect::OpenMetrics) => ("info", "_info"),
            (Kind::Info, Dialect::NodeExporter) => ("gauge", "_info"),
        };
        match dialect {
            Dialect::OpenMetrics => {
                let _ = writeln!(text, "# TYPE {name} {kind}");
                if !unit.is_empty() {
                    let _ = writeln!(text, "# UNIT {name} {unit}");
                }
                let _ = writeln!(text, "# HELP {name} {help}");
            }
            Dialect::NodeExporter => {
                let _ = writeln!(text, "# HELP {name}{suffix} {help}");
                let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
            }
        }
        for sample in &family.samples {
            let _ = writeln!(text, "{name}{suffix}{} {}", labels(sample), sample.value);
        }
    }
    if dialect == Dialect::OpenMetrics {
        text += "# EOF\n";
    }
    text
}

fn labels(sample: &Sample) -> String {
    let pair = |(name, value): &(&str, String)| {
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    let pairs: Vec<String> = sample.labels.iter().map(pair).collect();
    if pairs.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", pairs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> [Family; 4] {
        let sample = |labels: &[(&'static str, &str)], value| Sample {
            labels: labels
                .iter()
                .map(|(name, text)| (*name, (*text).to_owned()))
                .collect(),
            value,
        };
        let family = |name, kind, unit, help, samples| Family {
            name,
            kind,
            unit,
            help,
            samples,
        };
        [
            family(
                "x_time_seconds",
                Kind::Gauge,
                "seconds",
                "A time.",
                vec![sample(&[], 1.5)],
            ),
            family(
                "x_errors",
                Kind::Counter,
                "",
                "Errors.",
                vec![
                    sample(&[("a", "1"), ("b", "2")], 3.0),
                    sample(&[("a", "\"\\\n")], 1e-12),
                ],
            ),
            family(
                "x_build",
                Kind::Info,
                "",
                "A build.",
                vec![sample(&[("v", "1")], 1.0)],
            ),
            family("x_none", Kind::Gauge, "", "Nothing.", vec![]),
        ]
    }

    #[test]
    fn writes_openmetrics() {
        let expected = "\
# TYPE x_time_seconds gauge
# UNIT x_time_seconds seconds
# HELP x_time_seconds A time.
x_time_seconds 1.5
# TYPE x_errors counter
# HELP x_errors Errors.
x_errors_total{a=\"1\",b=\"2\"} 3
x_errors_total{a=\"\\\"\\\\\\n\"} 0.000000000001
# TYPE x_build info
# HELP x_build A build.
x_build_info{v=\"1\"} 1
# EOF
";
        assert_eq!(text(&families(), Dialect::OpenMetrics), expected);
    }

    #[test]
    fn writes_text_for_node_exporter() {
        let expected = "\
# HELP x_time_seconds A time.
# TYPE x_time_seconds gauge
x_time_seconds 1.5
# HELP x_errors_total Errors.
# TYPE x_errors_total counter
x_errors_total{a=\"1\",b=\"2\"} 3
x_errors_total{a=\"\\\"\\\\\\n\"} 0.000000000001
# HELP x_build_info A build.
# TYPE x_build_info gauge
x_build_info{v=\"1\"} 1
";
        assert_eq!(text(&families(), Dialect::NodeExporter), expected);
    }

    #[test]
    fn chooses_dialect_by_name_of_file() {
        assert_eq!(Dialect::of(Path::new("/a/b.prom")), Dialect::NodeExporter);
        for name in ["b.txt", "prom", "b.prom.tmp"] {
            assert_eq!(Dialect::of(Path::new(name)), Dialect::OpenMetrics, "{name}");
        }
    }
}
