//! How libfabric reads the text of a setting, and which names and words are alike.

/// The number that C's `strtol` with base 0 reads at the beginning of `text`, and the rest; `None`
/// if it begins with no number.
pub fn strtol(text: &str) -> Option<(i128, &str)> {
    let text = text.trim_start();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let hex = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
    let (radix, digits) = match hex {
        Some(digits) if digits.starts_with(|letter: char| letter.is_ascii_hexdigit()) => {
            (16, digits)
        }
        _ if unsigned.starts_with('0') => (8, unsigned),
        _ => (10, unsigned),
    };
    let end = digits.find(|letter: char| !letter.is_digit(radix)).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    let limit = i128::from(i64::MAX);
    let magnitude = match digits {
        "" => return None,
        _ => i128::from_str_radix(digits, radix).map_or(limit, |number| number.min(limit)),
    };
    let number = if text.starts_with('-') { -magnitude } else { magnitude };
    Some((number, rest.trim_end()))
}

/// The number of an integer, or of a version such as 2.3, whose parts compare as numbers.
pub fn dotted(text: &str) -> Option<i128> {
    let mut parts = text.split('.').map(str::parse::<i128>);
    match (parts.next()?.ok()?, parts.next()) {
        (major, Some(minor)) => Some(major * 1000 + minor.ok()?),
        (number, None) => Some(number),
    }
}

/// The number that a person means by `text`: `12M` is 12582912, `1e6` is 1000000.
pub fn meant(text: &str) -> Option<i128> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => {
            let float: f64 = text.parse().ok()?;
            return (float.fract() == 0.0 && float.abs() < 1e15).then_some(float as i128);
        }
    };
    Some(digits.parse::<i128>().ok()? << shift)
}

/// Returns what a text means as a boolean of libfabric.
pub fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "0" | "false" | "no" | "off" => Some(false),
        "1" | "true" | "yes" | "on" => Some(true),
        _ => None,
    }
}

/// Whether `name` is like `pattern`, in which `*` at one end stands for any text.
pub fn is_like(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(beginning)) => name.starts_with(beginning),
        _ => name == pattern,
    }
}

/// The entries of a list, without the `^` that excludes them.
pub fn entries(list: &str) -> impl Iterator<Item = &str> {
    let entries = list.trim_start_matches('^').split([',', ';']).map(str::trim);
    entries.filter(|entry| !entry.is_empty())
}

/// The word nearest to `text`, in any case, if one is near.
pub fn nearest_word<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = text.to_lowercase();
    let near = words.map(|word| (strsim::osa_distance(&lower, &word.to_lowercase()), word));
    let near = near.filter(|(errors, word)| errors * 3 <= word.len());
    near.min_by_key(|(errors, _)| *errors).map(|(_, word)| word)
}

/// The name nearest to `name`: at most three letters are different, or one part between underscores
/// is missing, surplus or at another place.
pub fn nearest_name<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let own = |name: &str| name.trim_start_matches("FI_").trim_start_matches("CXI_").len();
    let distance = |other: &str| {
        let errors = strsim::osa_distance(name, other);
        let is_near = errors <= 3 && errors * 3 <= own(name).max(own(other));
        let by_parts = (own(name) > 3 && differ_by_part(name, other)).then_some(2);
        [is_near.then_some(errors), by_parts].into_iter().flatten().min()
    };
    let near = names.filter_map(|other| Some((distance(other)?, other)));
    near.min_by_key(|(errors, _)| *errors).map(|(_, name)| name)
}

fn differ_by_part(one: &str, other: &str) -> bool {
    let mut parts = [one, other].map(|name| name.split('_').collect::<Vec<_>>());
    parts.sort_by_key(Vec::len);
    let [mut short, mut long] = parts;
    if short.len() + 1 == long.len() {
        return (1..long.len()).any(|part| {
            let rest = long.iter().enumerate().filter(|(place, _)| *place != part);
            rest.map(|(_, part)| part).eq(&short)
        });
    }
    let is_moved = short.len() == long.len();
    short.sort_unstable();
    long.sort_unstable();
    is_moved && short == long
}
