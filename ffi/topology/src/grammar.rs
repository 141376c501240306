//! The grammar of `CXIDIAG_LINK`, `CXIDIAG_FAULTS` and `CXIDIAG_TOPOLOGY`: words `name=value`, each
//! of them a row of a table, from which the parser and its messages come.

use std::ops::RangeInclusive;

/// A word that a text may contain.
pub struct Word<T> {
    /// How it is written, such as `down=TIME or down=TIME:TIME`.
    pub form: &'static str,
    /// The values that stand in the form.
    values: &'static [Value],
    /// Stores the value of the word, or returns `None` if it is invalid. The value of a word
    /// without `=` is empty.
    set: fn(&mut T, &str) -> Option<()>,
}

/// A name in a form, and what it stands for.
#[derive(Clone, Copy)]
pub struct Value(pub &'static str, pub &'static str);

/// A time of [`nanoseconds`].
pub const TIME: Value = Value("TIME", "a number followed by ns, us, ms or s, at most an hour");

/// A row of a table.
pub const fn word<T>(
    form: &'static str,
    values: &'static [Value],
    set: fn(&mut T, &str) -> Option<()>,
) -> Word<T> {
    Word { form, values, set }
}

impl<T> Word<T> {
    /// The name of the word: `down`.
    pub fn name(&self) -> &'static str {
        name(self.form.split(',').next().unwrap_or_default())
    }

    /// The form and its values.
    fn expected(&self) -> String {
        match self.values {
            [] => self.form.into(),
            [Value(_, meaning)] => format!("{}, {meaning}", self.form),
            values => values.iter().fold(self.form.into(), |text, Value(name, meaning)| {
                format!("{text}, {name} {meaning}")
            }),
        }
    }
}

/// The name of a word: what stands before its `=`.
pub fn name(word: &str) -> &str {
    word.split('=').next().unwrap_or_default()
}

/// Stores a value in its place; `None` if there is none.
pub fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

/// Stores the value of a word that a table must have.
///
/// # Errors
///
/// One line that names the word and what is expected.
pub fn read<T>(word: &str, table: &[Word<T>], to: &mut T) -> Result<(), String> {
    let Some(row) = table.iter().find(|row| row.name() == name(word)) else {
        let expected = match table {
            [] => "nothing more".into(),
            [only] => only.expected(),
            _ => format!("one of {}", names(table)),
        };
        return Err(format!("'{word}': expected {expected}"));
    };
    let value = match word.split_once('=') {
        Some((_, "")) => None,
        Some((_, value)) => Some(value),
        None => Some(""),
    };
    let set = value.and_then(|value| (row.set)(to, value));
    set.ok_or_else(|| format!("'{word}': expected {}", row.expected()))
}

/// Stores the values of words, each of which a table must have and no two of which may have the
/// same name.
///
/// # Errors
///
/// One line that names the word and what is wrong.
pub fn read_all<T>(words: &[&str], table: &[Word<T>], to: &mut T) -> Result<(), String> {
    for (index, word) in words.iter().enumerate() {
        let own = name(word);
        if words[..index].iter().any(|before| name(before) == own) {
            return Err(format!("'{word}': {own} is given twice"));
        }
        read(word, table, to)?;
    }
    Ok(())
}

/// The names of the words of a table, with `=` if a word needs a value.
pub fn names<T>(table: &[Word<T>]) -> String {
    let end = |row: &Word<T>| row.form.find(['=', ',']).map_or(row.form.len(), |end| end + 1);
    let names = table.iter().map(|row| row.form[..end(row)].trim_end_matches(','));
    names.collect::<Vec<_>>().join(", ")
}

/// Parses a whole number without sign.
pub fn whole(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Parses a whole number in a range.
pub fn whole_in(range: RangeInclusive<u64>, text: &str) -> Option<u64> {
    whole(text).filter(|number| range.contains(number))
}

/// Parses decimal digits with an optional fraction.
pub fn number(text: &str) -> Option<f64> {
    let (integer, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain(integer) && is_plain(fraction)).then(|| text.parse().ok()).flatten()
}

/// Parses a number in a range.
pub fn number_in(range: RangeInclusive<f64>, text: &str) -> Option<f64> {
    number(text).filter(|number| range.contains(number))
}

/// Parses a number that one of these units follows, and multiplies it by the factor of the unit.
pub fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find_map(|(unit, factor)| Some(number(text.strip_suffix(unit)?)? * factor))
}

/// Parses bytes per second.
pub fn bandwidth(text: &str) -> Option<f64> {
    with_unit(text, &[("MB/s", 1e6), ("GB/s", 1e9)])
}

/// Parses a time of at most an hour, and returns its nanoseconds.
pub fn nanoseconds(text: &str) -> Option<u64> {
    let time = with_unit(text, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])?;
    (time <= 3600e9).then_some(time.round() as u64)
}

/// Parses when something goes down, and for how long if a second time follows a colon.
pub fn outage(text: &str) -> Option<(u64, Option<u64>)> {
    match text.split_once(':') {
        Some((from, length)) => Some((nanoseconds(from)?, Some(nanoseconds(length)?))),
        None => Some((nanoseconds(text)?, None)),
    }
}
