//! The names that a misspelt word may stand for.

/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 4;

/// Letters of a word for each letter that may be wrong, missing, surplus or swapped.
const LETTERS_PER_ERROR: usize = 3;

/// Returns the `names` that `word` may stand for, the nearest first: they contain `word`, or differ
/// from it in few letters that can be seen. A name that looks like `word` would not help.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let is_part = |name: &str| word.len() > 1 && name.contains(word);
    let visible: String = word.chars().filter(char::is_ascii_graphic).collect();
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter(|name| *name != visible)
        .map(|name| (strsim::osa_distance(word, name), name))
        .filter(|(errors, name)| {
            errors * LETTERS_PER_ERROR <= word.chars().count() || is_part(name)
        })
        .collect();
    near.sort_by_key(|(errors, _)| *errors);
    near.truncate(MAX_SUGGESTIONS);
    near.into_iter().map(|(_, name)| name).collect()
}

/// Returns the question whether one of `names` was meant: `did you mean write-lat or write-bw?`
pub fn question(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let list = match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    };
    format!("did you mean {list}?")
}

/// Options of perftest and iperf3 that have other names here, the long option that a command needs
/// for the remedy, and the remedy.
const FOREIGN: [(&[&str], &str, &str); 6] = [
    (&["--run_infinitely"], "duration", "-D sets a time, Ctrl-C ends a run with its results"),
    (&["--report_gbits"], "unit", "use --unit=Gb/s"),
    (&["-J"], "json", "use --json"),
    (&["--ib-dev", "--ib_dev"], "device", "use --device"),
    (&["-c", "--client"], "port", "the server is an argument without an option"),
    (&["-F", "--CPU-freq"], "device", "CPU frequencies are not checked"),
];

/// Returns the message about an option that is not among the long options `longs`.
pub fn unknown_option<'a>(option: &str, longs: impl IntoIterator<Item = &'a str>) -> String {
    let longs: Vec<&str> = longs.into_iter().collect();
    let mut foreign = FOREIGN.iter().filter(|(names, _, _)| names.contains(&option));
    if let Some((_, _, remedy)) = foreign.find(|(_, needed, _)| longs.contains(needed)) {
        return format!("unknown option '{option}': {remedy} (see --help)");
    }
    let near = nearest(option.trim_start_matches('-'), longs);
    let near: Vec<String> = near.iter().map(|long| format!("--{long}")).collect();
    if near.is_empty() {
        format!("unknown option '{option}' (see --help)")
    } else {
        format!("unknown option '{option}': {} (see --help)", question(&near))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_with_few_errors_or_the_word_inside() {
        let names = ["write-lat", "read-lat", "write-bw", "devices"];
        for (word, expected) in [
            ("write-lot", &["write-lat", "write-bw"][..]),
            ("raed-lat", &["read-lat"]),
            ("device", &["devices"]),
            ("bw", &["write-bw"]),
            ("lat", &["read-lat", "write-lat"]),
            ("x", &[]),
            ("", &[]),
            ("ping", &[]),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
        assert_eq!(nearest("a", ["a1", "ab"]), [""; 0]);
    }

    #[test]
    fn suggestion_never_looks_like_the_input() {
        for word in ["json", " json", "json\u{a0}", "\u{feff}json", "js\u{200b}on"] {
            assert!(!nearest(word, ["json", "jsonl"]).contains(&"json"), "{word:?}");
            let message = unknown_option(&format!("--{word}"), ["json"]);
            assert!(!message.contains("did you mean"), "{message}");
        }
    }

    #[test]
    fn tells_users_of_other_tools_what_to_use() {
        let longs = ["device", "unit", "json", "duration", "port"];
        for (names, needed, remedy) in FOREIGN {
            for name in names {
                let message = unknown_option(name, longs);
                assert_eq!(message, format!("unknown option '{name}': {remedy} (see --help)"));
                let others = longs.into_iter().filter(|long| *long != needed);
                assert!(!unknown_option(name, others).contains(remedy), "{name}");
            }
        }
    }

    #[test]
    fn limits_number_of_names() {
        let names = ["xx1", "xx2", "xx3", "xx4", "xx5"];
        assert_eq!(nearest("xx", names).len(), MAX_SUGGESTIONS);
    }

    #[test]
    fn asks_about_each_name() {
        assert_eq!(question(&["a"]), "did you mean a?");
        assert_eq!(question(&["a", "b", "c"]), "did you mean a, b or c?");
    }
}
