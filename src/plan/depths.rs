//! How many list entries or messages stand before the one that a message or a receive matches.

use std::fmt;
use std::str::FromStr;

use facts::number::within;

/// Largest depth: a processing element of the NIC has 16384 list entries for its portals table
/// entries (libcxi.md 2.2), and the one that matches takes one.
pub const MAX_DEPTH: u16 = 16383;

/// Description of valid depths, for messages.
pub const DEPTHS: &str = "expected N or MIN:MAX, such as 100 or 0:4096; 0 to 16383, MIN <= MAX";

/// The depths of a run, one after the other: one number, or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depths {
    /// The first depth: 0 to `most`.
    pub least: u16,
    /// The last depth: up to [`MAX_DEPTH`].
    pub most: u16,
}

impl Depths {
    /// Nothing stands before.
    pub const NONE: Self = Self { least: 0, most: 0 };

    /// Whether anything stands before, in any row.
    pub fn is_used(self) -> bool {
        self.most > 0
    }

    /// Whether there are several depths.
    pub fn is_range(self) -> bool {
        self.least < self.most
    }

    /// Whether the ends are in order and within [`MAX_DEPTH`].
    pub fn is_valid(self) -> bool {
        self.least <= self.most && self.most <= MAX_DEPTH
    }

    /// The depths to measure: from the first one on each is twice the one before, with 1 after 0,
    /// and then the last one.
    pub fn values(self) -> impl Iterator<Item = u16> {
        let Self { least, most } = self;
        let doubled = move |depth: &u16| depth.checked_mul(2).map(|depth| depth.max(1));
        let below = std::iter::successors(Some(least), doubled).take_while(move |d| *d < most);
        below.chain([most])
    }
}

impl fmt::Display for Depths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_range() {
            write!(f, "{}:{}", self.least, self.most)
        } else {
            write!(f, "{}", self.most)
        }
    }
}

impl FromStr for Depths {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let depth = |text| within(text, 0..=MAX_DEPTH.into()).map(|depth| depth as u16);
        let (least, most) = text.split_once(':').unwrap_or((text, text));
        let ends = depth(least).and_then(|least| Ok((least, depth(most)?)));
        let depths = ends.ok().map(|(least, most)| Self { least, most });
        depths.filter(|depths| depths.is_valid()).ok_or(DEPTHS)
    }
}

/// What stands before: the option that asks for it, and the column that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthKind {
    /// List entries that match no message of the run (`--posted`).
    Posted,
    /// Messages that no receive of the run matches (`--unexpected`).
    Unexpected,
}

/// What a row of the results measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Size of an operation in bytes.
    pub size: u64,
    /// List entries before the one that matches, if the run has any.
    pub posted: Option<u16>,
    /// Messages before the one that is searched for, if the run has any.
    pub unexpected: Option<u16>,
}

impl Row {
    /// The depth of this kind, if the run has any.
    pub fn depth(self, kind: DepthKind) -> Option<u16> {
        match kind {
            DepthKind::Posted => self.posted,
            DepthKind::Unexpected => self.unexpected,
        }
    }

    /// The row as a cell of a table: `8`, or `8 behind 100`.
    pub fn cell(self) -> String {
        let behind = self.posted.or(self.unexpected).map(|depth| format!(" behind {depth}"));
        format!("{}{}", self.size, behind.unwrap_or_default())
    }

    /// The names of rows, for messages: `8, 16 bytes`, or with depths `8 bytes behind 1, 2 posted
    /// entries`.
    pub fn names(rows: &[Self]) -> String {
        let joined = |texts: Vec<String>| texts.join(", ");
        let depths = |kind| {
            let depths: Option<Vec<u16>> = rows.iter().map(|row| row.depth(kind)).collect();
            joined(depths.unwrap_or_default().iter().map(u16::to_string).collect())
        };
        let is_one_size = rows.iter().all(|row| row.size == rows[0].size);
        match rows {
            [Self { size, posted: Some(_), .. }, _, ..] if is_one_size => {
                format!("{size} bytes behind {} posted entries", depths(DepthKind::Posted))
            }
            [Self { size, unexpected: Some(_), .. }, _, ..] if is_one_size => {
                let depths = depths(DepthKind::Unexpected);
                format!("{size} bytes behind {depths} unexpected messages")
            }
            [Self { posted: None, unexpected: None, .. }, ..] => {
                let sizes = rows.iter().map(|row| row.size.to_string()).collect();
                format!("{} bytes", joined(sizes))
            }
            _ => joined(rows.iter().map(Self::to_string).collect()),
        }
    }
}

/// `8 bytes`, or `8 bytes behind 100 posted entries`.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.size)?;
        match (self.posted, self.unexpected) {
            (Some(1), _) => write!(f, " behind 1 posted entry"),
            (Some(depth), _) => write!(f, " behind {depth} posted entries"),
            (None, Some(1)) => write!(f, " behind 1 unexpected message"),
            (None, Some(depth)) => write!(f, " behind {depth} unexpected messages"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_double_from_first_to_last() {
        for (text, depths) in [
            ("0", &[0][..]),
            ("100", &[100]),
            ("0:1", &[0, 1]),
            ("0:8", &[0, 1, 2, 4, 8]),
            ("3:20", &[3, 6, 12, 20]),
            ("9000:16383", &[9000, 16383]),
        ] {
            let parsed: Depths = text.parse().unwrap();
            assert_eq!(parsed.values().collect::<Vec<_>>(), depths, "{text}");
            assert_eq!(parsed.to_string(), text);
        }
        assert_eq!("5:5".parse::<Depths>().unwrap().to_string(), "5");
        let all: Depths = "0:16383".parse().unwrap();
        assert_eq!(all.values().count(), 16);
    }

    #[test]
    fn refuses_depths_that_a_nic_does_not_have() {
        for text in ["", ":", "1:", ":1", "2:1", "16384", "0:16384", "-1", "1:2:3", "1K", "x"] {
            assert_eq!(text.parse::<Depths>(), Err(DEPTHS), "{text}");
        }
    }

    #[test]
    fn names_rows_by_what_varies() {
        let row = |size, posted, unexpected| Row { size, posted, unexpected };
        assert_eq!(Row::names(&[row(8, None, None), row(16, None, None)]), "8, 16 bytes");
        let posted = [row(8, Some(1), None), row(8, Some(2), None)];
        assert_eq!(Row::names(&posted), "8 bytes behind 1, 2 posted entries");
        assert_eq!(Row::names(&posted[..1]), "8 bytes behind 1 posted entry");
        let sizes = [row(4, None, Some(1)), row(8, None, Some(1))];
        let names = "4 bytes behind 1 unexpected message, 8 bytes behind 1 unexpected message";
        assert_eq!(Row::names(&sizes), names);
        assert_eq!([row(8, None, None).cell(), posted[1].cell()], ["8", "8 behind 2"]);
        assert_eq!(row(8, None, Some(0)).to_string(), "8 bytes behind 0 unexpected messages");
    }
}
