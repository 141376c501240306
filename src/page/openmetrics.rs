//! Metrics as text in two dialects, which no file satisfies at once: OpenMetrics 1.0, and the text
//! that the textfile collector of Prometheus' node exporter reads (jobs.md 2.5).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::destination::directory;
use facts::error::{Failure, invalid};
use facts::user_file;

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
    pub const ALL: [(&str, Self); 2] =
        [("node-exporter", Self::NodeExporter), ("openmetrics", Self::OpenMetrics)];

    /// The dialect of a file: node exporter reads `*.prom`.
    pub fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|extension| extension == "prom") {
            Self::NodeExporter
        } else {
            Self::OpenMetrics
        }
    }
}

/// Where metrics go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsFile {
    pub path: PathBuf,
    /// Its form.
    pub dialect: Dialect,
    /// A series without labels that all files of the command have: node exporter rejects two of
    /// them in one directory. `None` if its neighbours do not matter.
    pub series: Option<&'static str>,
}

impl MetricsFile {
    /// A file whose neighbours do not matter, with the form of its name.
    pub fn of(path: PathBuf) -> Self {
        Self { dialect: Dialect::of(&path), series: None, path }
    }

    /// Checks that no other file for node exporter in the same directory has the same series.
    ///
    /// # Errors
    ///
    /// The other file.
    pub fn check_neighbours(&self) -> Result<(), Failure> {
        let is_read = |path: &Path| Dialect::of(path) == Dialect::NodeExporter;
        let Some(series) = self.series.filter(|_| is_read(&self.path)) else {
            return Ok(());
        };
        let own = self.path.canonicalize().ok();
        // An unreadable directory has no files that node exporter reads.
        let entries = fs::read_dir(directory(&self.path)).into_iter().flatten();
        let mut others = entries.flatten().map(|entry| entry.path()).filter(|path| {
            is_read(path) && path.canonicalize().ok() != own && has_series(path, series)
        });
        match others.next() {
            None => Ok(()),
            Some(other) => {
                let why = format!(
                    "{} has the metrics of this command, too, and the node exporter rejects both: \
                     name this file, or remove it",
                    other.display()
                );
                Err(Failure::usage(invalid("openmetrics", self.path.display(), why)))
            }
        }
    }
}

/// Whether a regular file has a sample of this series without labels.
fn has_series(path: &Path, series: &str) -> bool {
    let is_regular = fs::metadata(path).is_ok_and(|found| found.is_file());
    let text = is_regular.then(|| user_file::text(path).ok()).flatten();
    text.is_some_and(|text| {
        let mut names = text.lines().filter_map(|line| line.split_once(' '));
        names.any(|(name, _)| name == series)
    })
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
    pub name: Cow<'static, str>,
    pub kind: Kind,
    /// What it is, in one line without quotes and backslashes.
    pub help: Cow<'static, str>,
    /// Its samples, each with different labels.
    pub samples: Vec<Sample>,
}

/// Units at the ends of names.
const UNITS: [&str; 5] = ["bytes_per_second", "seconds", "ratio", "celsius", "watts"];

impl Family {
    /// The family whose samples have this name, which says its kind.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
        samples: impl IntoIterator<Item = Sample>,
    ) -> Self {
        let name = name.into();
        let (name, kind) = match (name.strip_suffix("_total"), name.strip_suffix("_info")) {
            (Some(name), _) => (name.to_owned().into(), Kind::Counter),
            (_, Some(name)) => (name.to_owned().into(), Kind::Info),
            _ => (name, Kind::Gauge),
        };
        Self { name, kind, help: help.into(), samples: samples.into_iter().collect() }
    }

    /// Returns exit status, start and duration of `what`. `series` is the name of the exit status;
    /// the names of the others have the same beginning.
    pub fn times(
        (series, help): (&'static str, &'static str),
        exit_status: u8,
        what: &str,
        [started_ms, elapsed_ms]: [u64; 2],
    ) -> [Self; 3] {
        let prefix = series.strip_suffix("exit_status").unwrap_or(series);
        let seconds = |name, help, ms| {
            Self::new(format!("{prefix}{name}_seconds"), help, [(ms as f64 / 1000.0).into()])
        };
        let noun = what.split(' ').next().unwrap_or(what);
        [
            Self::new(series, help, [exit_status.into()]),
            seconds(
                "timestamp",
                format!("Start of the {noun}, since 1970-01-01 (UTC)."),
                started_ms,
            ),
            seconds("duration", format!("Duration of the {what}."), elapsed_ms),
        ]
    }

    /// The unit, which is the end of the name; empty without one.
    pub fn unit(&self) -> &'static str {
        UNITS.into_iter().find(|unit| self.name.ends_with(unit)).unwrap_or_default()
    }
}

/// One value.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

impl Sample {
    pub fn new(labels: impl Into<Vec<(&'static str, String)>>, value: impl Into<f64>) -> Self {
        Self { labels: labels.into(), value: value.into() }
    }
}

/// A sample without labels.
impl<T: Into<f64>> From<T> for Sample {
    fn from(value: T) -> Self {
        Self::new([], value)
    }
}

/// The family `cxidiag_build` of a command. The files of two commands in one directory of the node
/// exporter must not have the same sample, and need the same text.
pub fn build(command: &str) -> Family {
    let labels = [("command", command.to_owned()), ("version", env!("CARGO_PKG_VERSION").into())];
    let help = "Version of cxidiag that wrote the metrics, always 1.";
    Family::new("cxidiag_build_info", help, [Sample::new(labels, true)])
}

pub fn text(families: &[Family], dialect: Dialect) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let Family { name, help, .. } = family;
        let (kind, suffix) = match (family.kind, dialect) {
            (Kind::Gauge, _) => ("gauge", ""),
            (Kind::Counter, _) => ("counter", "_total"),
            (Kind::Info, Dialect::OpenMetrics) => ("info", "_info"),
            (Kind::Info, Dialect::NodeExporter) => ("gauge", "_info"),
        };
        match dialect {
            Dialect::OpenMetrics => {
                let _ = writeln!(text, "# TYPE {name} {kind}");
                let unit = family.unit();
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
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    let pairs: Vec<String> = sample.labels.iter().map(pair).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> [Family; 4] {
        let sample = |labels: &[(&'static str, &str)], value: f64| {
            let labels = labels.iter().map(|(name, text)| (*name, (*text).to_owned()));
            Sample::new(labels.collect::<Vec<_>>(), value)
        };
        [
            Family::new("x_time_seconds", "A time.", [1.5.into()]),
            Family::new(
                "x_errors_total",
                "Errors.",
                [sample(&[("a", "1"), ("b", "2")], 3.0), sample(&[("a", "\"\\\n")], 1e-12)],
            ),
            Family::new("x_build_info", "A build.", [sample(&[("v", "1")], 1.0)]),
            Family::new("x_none", "Nothing.", []),
        ]
    }

    #[test]
    fn refuses_a_directory_that_has_the_series() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let check = |name: &str| {
            let file =
                MetricsFile { series: Some("x_time_seconds"), ..MetricsFile::of(path(name)) };
            file.check_neighbours().map_err(|failure| failure.message())
        };
        let own = text(&families(), Dialect::NodeExporter);
        fs::write(path("other.prom"), own.replace("x_", "y_")).unwrap();
        fs::write(path("a.txt"), &own).unwrap();
        assert_eq!(check("b.prom"), Ok(()));
        fs::write(path("a.prom"), &own).unwrap();
        let why = check("b.prom").unwrap_err();
        let other = path("a.prom").display().to_string();
        assert!(why.contains(&other) && why.ends_with("name this file, or remove it"), "{why}");
        // The file itself is replaced, and node exporter reads no other names.
        assert_eq!(check("a.prom"), Ok(()));
        assert_eq!(check("b.txt"), Ok(()));
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
