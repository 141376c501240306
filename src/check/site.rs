//! The settings of a site for all checks of a machine, in a file with a line for each.

use std::io::ErrorKind;
use std::sync::LazyLock;

use clap::Command;

use super::request::SiteSettings;
use cli::parser::Parsed;
use cli::{derived, parser};
use facts::error::{Context, Failure};
use node::machine::Machine;
use node::reading;

/// The file, named without the leading slash.
const FILE: &str = "etc/cxidiag/check.conf";

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<SiteSettings>);

/// Returns what the file asks for; nothing without the file.
///
/// # Errors
///
/// A file that cannot be read, and a line that is not an option with a valid value.
pub fn read(machine: &Machine) -> Result<SiteSettings, Failure> {
    let path = machine.root().join(FILE);
    let text = match reading::text(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SiteSettings::default()),
        text => text.environment(format_args!("cannot read {}", path.display()))?,
    };
    request(&text).map_err(|failure| failure.context(path.display()))
}

/// Returns the speed that links must have, in Gb/s, if the file names it.
///
/// # Errors
///
/// A file that cannot be read, and a line that is no setting.
pub fn link_speed(machine: &Machine) -> Result<Option<f64>, Failure> {
    Ok(read(machine)?.link_gigabits)
}

fn request(text: &str) -> Result<SiteSettings, Failure> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let argument = |line: &str| match line.split_once('=') {
        Some((name, value)) => format!("--{}={}", name.trim(), value.trim()).into(),
        None => format!("--{line}").into(),
    };
    let arguments: Vec<_> = lines.map(argument).collect();
    let declared = derived::options(&COMMAND).map(|option| option.declared());
    match parser::read(declared, &arguments, |_| None)? {
        Parsed::Matches(matches) => derived::read(&COMMAND, &matches),
        Parsed::Help { .. } | Parsed::Version => Ok(SiteSettings::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_for_each_setting() {
        let found = request("# of this site\n\nexpect-nics=4\n  link-speed=100\n").unwrap();
        assert_eq!(found.expected_nics, Some(4));
        assert_eq!(found.link_gigabits, Some(100.0));
        let found = request("\u{feff} expect-nics = 4 \r\nlink-speed =100\r\n").unwrap();
        assert_eq!(found.expected_nics, Some(4));
        assert_eq!(found.link_gigabits, Some(100.0));
        for wrong in ["expect-nics=0", "expect-nics", "quick", "json=/tmp/x", "cxi0", "help", "-"] {
            let failure = request(wrong).unwrap_err();
            assert_eq!(failure.status(), 2, "{wrong}: {failure}");
        }
    }
}
