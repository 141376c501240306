//! The items of a file, the values of their words, and the fabric as far as they describe it. A
//! function that parses a value returns `None` for a text that is no such value.

use std::collections::BTreeMap;

use crate::description::{
    AttachedNic, CLASSES, Cable, ClassRules, Congestion, Fault, MOST_CABLES, MOST_GROUPS,
    MOST_NICS, MOST_PORTS, MOST_SWITCHES, Outage, PortDirection, Routing, Switch, SwitchName,
    Topology,
};
use crate::grammar::{self, TIME, Value, Word, nanoseconds, put, read_all, whole, whole_in, word};

/// The values of words, as errors name them.
pub const RATE: Value = Value("RATE", "a number followed by MB/s or GB/s, from 1MB/s to 1000GB/s");
pub const SHARE: Value = Value("SHARE", "a number from 1 to 100 followed by %");

/// Parses the rate of a link in bytes per second.
pub fn rate(text: &str) -> Option<f64> {
    grammar::bandwidth(text).filter(|rate| (1e6..=1e12).contains(rate))
}

/// Parses a number of bytes.
pub fn size(text: &str) -> Option<u64> {
    let size = grammar::with_unit(text, &[("KiB", 1024.0), ("MiB", 1_048_576.0)])?;
    (size <= 1e9).then_some(size.round() as u64)
}

/// Parses a share of more than nothing, in percent.
pub fn parse_share(text: &str) -> Option<f64> {
    let percent = grammar::number_in(1.0..=100.0, text.strip_suffix('%')?)?;
    Some(percent / 100.0)
}

/// Parses the time from which a part is down, with or without the time for which it is; without
/// any, it is always down.
pub fn outage(text: &str) -> Option<Outage> {
    let (from, length) = if text.is_empty() { (0, None) } else { grammar::outage(text)? };
    Some(Outage { from, to: length.map(|length| from + length) })
}

/// Parses the name of a switch.
pub fn switch(text: &str) -> Option<SwitchName> {
    let (group, switch) = text.split_once('.')?;
    let number = |text: &str, end: u16| {
        let number = whole(text).and_then(|number| u16::try_from(number).ok());
        number.filter(|number| *number < end)
    };
    Some(SwitchName { group: number(group, MOST_GROUPS)?, switch: number(switch, MOST_SWITCHES)? })
}

/// The rate and the latency of links for which no item says more: rates and times of Slingshot,
/// slower by a factor of a thousand, so that two CPUs carry the traffic of 16 NICs.
pub const RATE_DEFAULT: f64 = 25e6;
const LATENCY_DEFAULT: u64 = 20_000;

/// Bytes of the queue of a link that blocks the links before it, and above which packets are
/// marked.
const BUFFER_DEFAULT: u64 = 65_536;

/// The bias of adaptive routing, in latencies of a link.
const BIAS_DEFAULT: u64 = 10;

/// The word for a latency, which has a place in each part of a fabric.
const fn latency<T>(set: fn(&mut T, &str) -> Option<()>) -> Word<T> {
    word("latency=TIME", &[TIME], set)
}

pub const SWITCH: [Word<Switch>; 1] =
    [latency(|switch, text| put(&mut switch.latency, nanoseconds(text)))];

pub const NIC: [Word<AttachedNic>; 2] = [
    word("rate=RATE", &[RATE], |nic, text| {
        nic.transmit.rate = rate(text)?;
        nic.receive.rate = nic.transmit.rate;
        Some(())
    }),
    latency(|nic, text| put(&mut nic.latency, nanoseconds(text))),
];

/// The cables of an item `link`, which are all alike.
pub struct LinkCables {
    rate: f64,
    latency: u64,
    count: u64,
}

pub const LINK: [Word<LinkCables>; 3] = [
    word("rate=RATE", &[RATE], |link, text| put(&mut link.rate, rate(text))),
    latency(|link, text| put(&mut link.latency, nanoseconds(text))),
    word("count=NUMBER", &[Value("NUMBER", "0 to 64 cables")], |link, text| {
        put(&mut link.count, whole_in(0..=64, text))
    }),
];

pub const ADAPTIVE: [Word<Option<u64>>; 1] =
    [word("bias=TIME", &[TIME], |bias, text| put(bias, nanoseconds(text).map(Some)))];

/// Bytes of the queue of a link above which packets are marked, and which blocks the links before
/// it.
pub struct QueueLimits {
    mark: u64,
    buffer: u64,
}

const SIZE: Value = Value("SIZE", "a number followed by KiB or MiB");

/// The words of `congestion spread`. Only the first one is for the other modes.
pub const SPREAD: [Word<QueueLimits>; 2] = [
    word("mark=SIZE", &[SIZE], |queue, text| put(&mut queue.mark, size(text))),
    word("buffer=SIZE", &[SIZE], |queue, text| put(&mut queue.buffer, size(text))),
];

/// The words of a class. BEST_EFFORT, the first class, always has a share.
const fn class_words(share: Word<ClassRules>) -> [Word<ClassRules>; 3] {
    [
        word("priority", &[Value("", "without a value")], |class, text| {
            class.priority = true;
            text.is_empty().then_some(())
        }),
        share,
        word("ceiling=SHARE", &[SHARE], |class, text| {
            put(&mut class.ceiling, parse_share(text).map(Some))
        }),
    ]
}

const BEST_EFFORT: [Word<ClassRules>; 3] =
    class_words(word("share=SHARE", &[SHARE], |class, text| {
        put(&mut class.share, parse_share(text).map(Some))
    }));

pub const OTHER_CLASS: [Word<ClassRules>; 3] = class_words(word(
    "share=SHARE",
    &[Value("SHARE", "a number from 1 to 100 followed by %, or none")],
    |class, text| {
        class.share = if text == "none" { None } else { Some(parse_share(text)?) };
        Some(())
    },
));

/// A NIC whose switch may still follow.
pub struct DraftNic {
    pub switch: SwitchName,
    pub nic: AttachedNic,
}

/// A fabric of which some items have been read.
pub struct Draft {
    pub switches: BTreeMap<SwitchName, Switch>,
    pub nics: Vec<DraftNic>,
    /// By the switches at their ends, of which the first has the lower name. The ends of the cables
    /// themselves are set at last.
    pub cables: BTreeMap<[SwitchName; 2], Vec<Cable>>,
    pub latency: u64,
    bias: Option<u64>,
    is_minimal: bool,
    congestion: Congestion,
    mark: u64,
    classes: [ClassRules; CLASSES.len()],
}

impl Default for Draft {
    fn default() -> Self {
        let class = ClassRules { priority: false, share: Some(1.0), ceiling: None };
        Self {
            switches: BTreeMap::new(),
            nics: Vec::new(),
            cables: BTreeMap::new(),
            latency: LATENCY_DEFAULT,
            bias: None,
            is_minimal: false,
            congestion: Congestion::Endpoint,
            mark: BUFFER_DEFAULT,
            classes: [class; CLASSES.len()],
        }
    }
}

impl Draft {
    /// Adds the item with these words, if there are any.
    pub fn add(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            [] => Ok(()),
            ["dragonfly", words @ ..] => self.dragonfly(words),
            ["switch", name, words @ ..] => self.switch(name, words),
            ["nic", number, switch, words @ ..] => self.nic(number, switch, words),
            ["link", one, other, words @ ..] => self.link(one, other, words),
            ["route", rule, words @ ..] => self.route(rule, words),
            ["congestion", mode, words @ ..] => self.congestion(mode, words),
            ["class", name, words @ ..] => self.class(name, words),
            ["fault", words @ ..] => self.fault(words),
            [name, ..] => {
                let form = match *name {
                    "switch" => "switch GROUP.SWITCH, such as switch 1.0",
                    "nic" => "nic NUMBER GROUP.SWITCH, such as nic 4 1.0",
                    "link" => "link GROUP.SWITCH GROUP.SWITCH, such as link 0.0 0.1",
                    "route" => "route minimal or route adaptive",
                    "congestion" => "congestion none, endpoint or spread",
                    "class" => "class NAME, such as class LOW_LATENCY",
                    _ => {
                        "dragonfly, switch, nic, link, route, congestion, class or fault at the \
                         start of an item"
                    }
                };
                Err(format!("'{name}': expected {form}"))
            }
        }
    }

    fn switch(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        read_all(words, &SWITCH, self.add_switch(switch_name(name)?))
    }

    /// The switch with this name, which is added if there is none.
    pub fn add_switch(&mut self, name: SwitchName) -> &mut Switch {
        self.switches.entry(name).or_insert(Switch { name, latency: 0, fault: Fault::default() })
    }

    fn nic(&mut self, number: &str, switch: &str, words: &[&str]) -> Result<(), String> {
        let next = self.nics.len();
        let place = whole(number).and_then(|number| usize::try_from(number).ok());
        let place = place.filter(|place| *place <= next.min(MOST_NICS - 1));
        let place = place.ok_or_else(|| {
            format!(
                "'{number}': expected the number of a NIC, at most {} here: NICs are numbered \
                 from 0 without gaps, and there are at most {MOST_NICS}",
                next.min(MOST_NICS - 1)
            )
        })?;
        let name = self.known_switch(switch)?;
        if place == next {
            let nic = self.new_nic(RATE_DEFAULT, self.latency);
            self.nics.push(DraftNic { switch: name, nic });
        }
        let draft = &mut self.nics[place];
        draft.switch = name;
        read_all(words, &NIC, &mut draft.nic)
    }

    /// A NIC whose switch and port follow.
    pub fn new_nic(&self, rate: f64, latency: u64) -> AttachedNic {
        AttachedNic {
            switch: 0,
            port: 0,
            latency,
            transmit: PortDirection::new(rate),
            receive: PortDirection::new(rate),
        }
    }

    fn link(&mut self, one: &str, other: &str, words: &[&str]) -> Result<(), String> {
        let ends = [self.known_switch(one)?, self.known_switch(other)?];
        if ends[0] == ends[1] {
            return Err(format!("'{other}': expected another switch than {one}"));
        }
        let mut link = LinkCables { rate: RATE_DEFAULT, latency: self.latency, count: 1 };
        read_all(words, &LINK, &mut link)?;
        let cables = self.cables.entry(in_order(ends)).or_default();
        cables.clear();
        cables.resize(link.count as usize, new_cable(link.rate, link.latency));
        Ok(())
    }

    fn route(&mut self, rule: &str, words: &[&str]) -> Result<(), String> {
        self.is_minimal = rule == "minimal";
        self.bias = None;
        match rule {
            "minimal" => read_all(words, &[], &mut self.bias),
            "adaptive" => read_all(words, &ADAPTIVE, &mut self.bias),
            _ => Err(format!("'{rule}': expected minimal or adaptive")),
        }
    }

    fn congestion(&mut self, mode: &str, words: &[&str]) -> Result<(), String> {
        let table = match mode {
            "none" | "endpoint" => &SPREAD[..1],
            "spread" => &SPREAD,
            _ => return Err(format!("'{mode}': expected none, endpoint or spread")),
        };
        let mut queue = QueueLimits { mark: BUFFER_DEFAULT, buffer: BUFFER_DEFAULT };
        read_all(words, table, &mut queue)?;
        self.mark = queue.mark;
        self.congestion = match mode {
            "none" => Congestion::None,
            "endpoint" => Congestion::Endpoint,
            _ => Congestion::Spread { buffer: queue.buffer },
        };
        Ok(())
    }

    fn class(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        let place = CLASSES.iter().position(|class| *class == name);
        let place = place.ok_or_else(|| {
            let names = CLASSES.join(", ");
            format!("'{name}': expected one of the classes {names}")
        })?;
        let table = if place == 0 { &BEST_EFFORT } else { &OTHER_CLASS };
        read_all(words, table, &mut self.classes[place])
    }

    /// Reads the name of a switch that an item before this one has described.
    pub fn known_switch(&self, word: &str) -> Result<SwitchName, String> {
        let name = switch_name(word)?;
        if self.switches.contains_key(&name) {
            return Ok(name);
        }
        Err(format!("'{word}': there is no such switch above"))
    }

    /// The whole fabric.
    pub fn finish(self, name: &str) -> Result<Topology, String> {
        if self.nics.is_empty() {
            return Err("expected at least one NIC".into());
        }
        let places: BTreeMap<SwitchName, usize> = self.switches.keys().copied().zip(0..).collect();
        let mut ports: BTreeMap<SwitchName, u16> = BTreeMap::new();
        let mut nics = Vec::new();
        for DraftNic { switch, mut nic } in self.nics {
            // From 1: the address of the first NIC would be 0, which no NIC may have.
            let port = ports.entry(switch).or_default();
            *port += 1;
            if *port >= MOST_PORTS {
                return Err(format!("more than {} NICs at switch {switch}", MOST_PORTS - 1));
            }
            (nic.switch, nic.port) = (places[&switch], *port);
            nics.push(nic);
        }
        let cables: Vec<Cable> = self
            .cables
            .into_iter()
            .flat_map(|(ends, cables)| {
                let ends = ends.map(|name| places[&name]);
                cables.into_iter().map(move |cable| Cable { ends, ..cable })
            })
            .collect();
        if cables.len() > MOST_CABLES {
            return Err(format!("more than {MOST_CABLES} cables"));
        }
        Ok(Topology {
            name: name.into(),
            switches: self.switches.into_values().collect(),
            nics,
            cables,
            routing: if self.is_minimal {
                Routing::Minimal
            } else {
                Routing::Adaptive { bias: self.bias.unwrap_or(BIAS_DEFAULT * self.latency) }
            },
            congestion: self.congestion,
            mark: self.mark,
            classes: self.classes,
        })
    }
}

/// A cable without faults, whose ends follow.
pub fn new_cable(rate: f64, latency: u64) -> Cable {
    Cable { ends: [0; 2], latency, directions: [PortDirection::new(rate); 2] }
}

/// Two ends of a cable, the lower name first.
pub fn in_order(mut ends: [SwitchName; 2]) -> [SwitchName; 2] {
    ends.sort();
    ends
}

pub fn switch_name(word: &str) -> Result<SwitchName, String> {
    switch(word).ok_or_else(|| {
        format!("'{word}': expected GROUP.SWITCH, a group from 0 to 511 and a switch from 0 to 31")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::nanoseconds;

    #[test]
    fn reads_values_with_units() {
        assert_eq!(rate("50MB/s"), Some(5e7));
        assert_eq!(rate("2.5GB/s"), Some(2.5e9));
        assert_eq!(nanoseconds("20us"), Some(20_000));
        assert_eq!(nanoseconds("1.5s"), Some(1_500_000_000));
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(parse_share("25%"), Some(0.25));
        let name = switch("3.31").map(|name| name.to_string());
        assert_eq!(name.as_deref(), Some("3.31"));
        let outage = outage("2s:500ms").unwrap();
        let states = [1, 2, 2_499_999_999, 2_500_000_000].map(|time| outage.is_at(time));
        assert_eq!(states, [false, false, true, false]);
    }

    #[test]
    fn rejects_other_texts() {
        for text in ["", "5", "MB/s", "-5MB/s", "0.5MB/s", "5mb/s", "2000GB/s", "1e3MB/s"] {
            assert_eq!(rate(text), None, "{text}");
        }
        for text in ["", "5", "us", "-5us", "5 us", "2h", "3601s", "1..2us", ".5us", "5.us"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
        for text in ["0%", "101%", "50", "%", "-1%"] {
            assert_eq!(parse_share(text), None, "{text}");
        }
        for text in ["1", "1.32", "512.0", "a.b", "1.2.3", "", "."] {
            assert_eq!(switch(text), None, "{text}");
        }
        for text in ["64", "KiB", "-1KiB", "2000MiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
