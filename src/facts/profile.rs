//! Expectations as data: published figures of a kind of NIC, as files for `--expect`.
//!
//! The packages install them, and the program contains them. A site adds files of its own.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::PathBuf;

use crate::error::cause;
use crate::user_file;

/// Where a site puts its own files.
const OF_SITE: &str = "/etc/cxidiag/expect";

macro_rules! profile {
    ($name:literal) => {
        ($name, include_str!(concat!("../../packaging/expect/", $name)))
    };
}

/// Two NICs of one switch on Slingshot 200.
pub const SAME_SWITCH: (&str, &str) = profile!("slingshot200-same-switch");

/// Two NICs of different groups on Slingshot 200.
pub const ACROSS_GROUPS: (&str, &str) = profile!("slingshot200-across-groups");

/// The profiles of this release, with their texts.
const PROFILES: [(&str, &str); 3] = [SAME_SWITCH, ACROSS_GROUPS, profile!("slingshot200-loopback")];

/// Returns the text of the expectations that were typed as `@FILE` or by name. `None` if bounds
/// were typed.
///
/// # Errors
///
/// The file cannot be read, or no profile has this name; the message lists those that exist.
pub fn text(typed: &str) -> Result<Option<String>, String> {
    let read = |path: PathBuf| {
        let failure = |error| format!("cannot read {}: {}", path.display(), cause(&error));
        user_file::text(&path).map(Some).map_err(failure)
    };
    if let Some(path) = typed.strip_prefix('@') {
        let failure = |error| format!("cannot read the file: {}", cause(&error));
        return user_file::text(path.as_ref()).map(Some).map_err(failure);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !typed.contains('-') || !typed.chars().all(is_name) {
        return Ok(None);
    }
    if let Some(path) = directories().map(|place| place.join(typed)).find(|path| path.is_file()) {
        return read(path);
    }
    let own = PROFILES.iter().find(|(name, _)| *name == typed);
    match own {
        Some((_, text)) => Ok(Some((*text).to_owned())),
        None => Err(format!("no expectations have this name; there are {}", names().join(", "))),
    }
}

/// Returns the names of all profiles.
pub fn names() -> Vec<String> {
    let files = directories().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let own = PROFILES.iter().map(|(name, _)| (*name).to_owned());
    own.chain(names).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the directories of installed profiles: of the site, and beside this program.
fn directories() -> impl Iterator<Item = PathBuf> {
    let program = env::current_exe().ok();
    let installed =
        program.and_then(|path| Some(path.parent()?.parent()?.join("share/cxidiag/expect")));
    [Some(PathBuf::from(OF_SITE)), installed].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::{Expectation, parse_lines};

    fn all(text: &str) -> Vec<Expectation> {
        parse_lines(text, None).unwrap()
    }

    /// Each bound has a tool, a size and a source.
    #[test]
    fn profiles_are_complete() {
        for (name, text) in PROFILES {
            assert_eq!(self::text(name).unwrap().as_deref(), Some(text));
            let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            assert!(lines().all(|line| line.contains("  # ") && line.contains('(')), "{name}");
            let bounds = all(text);
            assert_eq!(bounds.len(), lines().count());
            assert!(bounds.iter().all(|bound| bound.tool.is_some() && bound.size.is_some()));
        }
    }

    /// The figures of figures.md, section 1: each is within its bound, and 0.8 of it is not far.
    #[test]
    fn published_figures_meet_their_bounds() {
        for (tool, size, figure) in [
            ("send-lat", 8, 3.4e3),
            ("write-lat", 8, 2.82e3),
            ("read-lat", 8, 2.69e3),
            ("atomic-lat", 8, 2.5e3),
            ("write-bw", 65_536, 22.1e9),
            ("write-bw", 4 << 20, 24.25e9),
            ("read-bw", 65_536, 24.0e9),
            ("send-bw", 65_536, 20.9e9),
            ("send-bw", 4 << 20, 15.7e9),
            ("osu_latency", 256, 3.75e3),
            ("osu_bw", 4 << 20, 24e9 * 0.85),
        ] {
            let bounds = all(SAME_SWITCH.1);
            let own = |bound: &&Expectation| {
                bound.tool.as_deref() == Some(tool) && bound.size == Some(size)
            };
            let bound = bounds.iter().find(own).unwrap();
            assert!(bound.is_met_by(figure), "{tool}");
            let far = if bound.metric.is_of_bandwidth() { figure * 0.5 } else { figure * 2.0 };
            assert!(!bound.is_met_by(far), "{tool}");
        }
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        assert_eq!(text("bw>=20GB/s"), Ok(None));
        assert_eq!(text("p99"), Ok(None));
        let why = text("slingshot-200").unwrap_err();
        assert!(why.contains("there are ") && why.contains("slingshot200-same-switch"), "{why}");
        assert!(text("@/nonexistent").unwrap_err().contains("cannot read the file"));
    }
}
