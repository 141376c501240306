//! The items of a file, and the fabric as far as they describe it.

use std::collections::BTreeMap;

use crate::description::{
    Cable, Class, Congestion, Direction, Fault, MOST_CABLES, MOST_NICS, MOST_PORTS, Nic, Routing,
    Switch, SwitchName, Topology,
};
use crate::values::{self, RATE, SHARE, TIME};

/// The traffic classes, by their numbers in packets.
const CLASSES: [&str; 4] = ["BEST_EFFORT", "BULK_DATA", "LOW_LATENCY", "DEDICATED_ACCESS"];

/// The rate and the latency of links for which no item says more: rates and times of Slingshot,
/// slower by a factor of a thousand, so that two CPUs carry the traffic of 16 NICs.
const RATE_DEFAULT: f64 = 25e6;
const LATENCY_DEFAULT: u64 = 20_000;

/// Bytes of the queue of a link that blocks the links before it, and above which packets are
/// marked.
const BUFFER_DEFAULT: u64 = 65_536;

/// The bias of adaptive routing, in latencies of a link.
const BIAS_DEFAULT: u64 = 10;

/// The words of an item after its name, each with the form that errors name.
pub type Forms<'a> = &'a [(&'a str, &'a str)];

/// A NIC whose switch may still follow.
pub struct DraftNic {
    pub switch: SwitchName,
    pub nic: Nic,
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
    classes: [Class; CLASSES.len()],
}

impl Default for Draft {
    fn default() -> Self {
        let class = Class { priority: false, share: Some(1.0), ceiling: None };
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

    fn switch(&mut self, word: &str, words: &[&str]) -> Result<(), String> {
        let name = switch_name(word)?;
        let switch = self.add_switch(name);
        let forms = [("latency", &*format!("latency=TIME, {TIME}"))];
        apply(words, &forms, |_, value| {
            switch.latency = values::time(value?)?;
            Some(())
        })
    }

    /// Returns the switch with this name, which is added if there is none.
    pub fn add_switch(&mut self, name: SwitchName) -> &mut Switch {
        self.switches.entry(name).or_insert(Switch { name, latency: 0, fault: Fault::default() })
    }

    fn nic(&mut self, number: &str, switch: &str, words: &[&str]) -> Result<(), String> {
        let next = self.nics.len();
        let place = values::whole(number).and_then(|number| usize::try_from(number).ok());
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
        let nic = &mut draft.nic;
        let forms = [
            ("rate", &*format!("rate=RATE, {RATE}")),
            ("latency", &*format!("latency=TIME, {TIME}")),
        ];
        apply(words, &forms, |name, value| {
            match name {
                "rate" => {
                    nic.transmit.rate = values::rate(value?)?;
                    nic.receive.rate = nic.transmit.rate;
                }
                _ => nic.latency = values::time(value?)?,
            }
            Some(())
        })
    }

    /// Returns a NIC whose switch and port follow.
    pub fn new_nic(&self, rate: f64, latency: u64) -> Nic {
        Nic {
            switch: 0,
            port: 0,
            latency,
            transmit: Direction::new(rate),
            receive: Direction::new(rate),
        }
    }

    fn link(&mut self, one: &str, other: &str, words: &[&str]) -> Result<(), String> {
        let ends = [self.known_switch(one)?, self.known_switch(other)?];
        if ends[0] == ends[1] {
            return Err(format!("'{other}': expected another switch than {one}"));
        }
        let (mut rate, mut latency, mut count) = (RATE_DEFAULT, self.latency, 1);
        let forms = [
            ("rate", &*format!("rate=RATE, {RATE}")),
            ("latency", &*format!("latency=TIME, {TIME}")),
            ("count", "count=NUMBER of cables, from 0 to 64"),
        ];
        apply(words, &forms, |name, value| {
            match name {
                "rate" => rate = values::rate(value?)?,
                "latency" => latency = values::time(value?)?,
                _ => count = values::whole(value?).filter(|count| *count <= 64)?,
            }
            Some(())
        })?;
        let cables = self.cables.entry(in_order(ends)).or_default();
        cables.clear();
        cables.resize(count as usize, new_cable(rate, latency));
        Ok(())
    }

    fn route(&mut self, rule: &str, words: &[&str]) -> Result<(), String> {
        let bias = format!("bias=TIME, {TIME}");
        let forms: Forms = match rule {
            "minimal" => &[],
            "adaptive" => &[("bias", &bias)],
            _ => return Err(format!("'{rule}': expected minimal or adaptive")),
        };
        self.is_minimal = rule == "minimal";
        self.bias = None;
        apply(words, forms, |_, value| {
            self.bias = Some(values::time(value?)?);
            Some(())
        })
    }

    fn congestion(&mut self, mode: &str, words: &[&str]) -> Result<(), String> {
        let (mut buffer, mut mark) = (BUFFER_DEFAULT, BUFFER_DEFAULT);
        let of_mark =
            ("mark", "mark=SIZE, a number followed by KiB or MiB, above which packets are marked");
        let of_buffer = ("buffer", "buffer=SIZE, a number followed by KiB or MiB");
        let forms: Forms = match mode {
            "none" | "endpoint" => &[of_mark],
            "spread" => &[of_mark, of_buffer],
            _ => return Err(format!("'{mode}': expected none, endpoint or spread")),
        };
        apply(words, forms, |name, value| {
            match name {
                "buffer" => buffer = values::size(value?)?,
                _ => mark = values::size(value?)?,
            }
            Some(())
        })?;
        self.mark = mark;
        self.congestion = match mode {
            "none" => Congestion::None,
            "endpoint" => Congestion::Endpoint,
            _ => Congestion::Spread { buffer },
        };
        Ok(())
    }

    fn class(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        let place = CLASSES.iter().position(|class| *class == name);
        let place = place.ok_or_else(|| {
            let names = CLASSES.join(", ");
            format!("'{name}': expected one of the classes {names}")
        })?;
        let class = &mut self.classes[place];
        let of_share = match place {
            0 => SHARE.to_owned(),
            _ => format!("{SHARE}, or none"),
        };
        let forms = [
            ("priority", "priority without a value"),
            ("share", &*format!("share=SHARE, {of_share}")),
            ("ceiling", &*format!("ceiling=SHARE, {SHARE}")),
        ];
        apply(words, &forms, |name, value| {
            match name {
                "priority" if value.is_none() => class.priority = true,
                "priority" => return None,
                "share" if value == Some("none") && place > 0 => class.share = None,
                "share" => class.share = Some(values::share(value?)?),
                _ => class.ceiling = Some(values::share(value?)?),
            }
            Some(())
        })
    }

    /// Reads the name of a switch that an item before this one has described.
    pub fn known_switch(&self, word: &str) -> Result<SwitchName, String> {
        let name = switch_name(word)?;
        if self.switches.contains_key(&name) {
            return Ok(name);
        }
        Err(format!("'{word}': there is no such switch above"))
    }

    /// Returns the whole fabric.
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

/// Returns a cable without faults, whose ends follow.
pub fn new_cable(rate: f64, latency: u64) -> Cable {
    Cable { ends: [0; 2], latency, directions: [Direction::new(rate); 2] }
}

/// Returns two ends of a cable, the lower name first.
pub fn in_order(mut ends: [SwitchName; 2]) -> [SwitchName; 2] {
    ends.sort();
    ends
}

pub fn switch_name(word: &str) -> Result<SwitchName, String> {
    values::switch(word).ok_or_else(|| {
        format!("'{word}': expected GROUP.SWITCH, a group from 0 to 511 and a switch from 0 to 31")
    })
}

/// Passes the name and the value of each word to `set`, which returns `None` if the value is wrong.
///
/// # Errors
/// A word with another name than in `forms`, a name that occurs twice, and a wrong value.
pub fn apply(
    words: &[&str],
    forms: Forms,
    mut set: impl FnMut(&str, Option<&str>) -> Option<()>,
) -> Result<(), String> {
    for (index, word) in words.iter().enumerate() {
        let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
        let (own, value) = (name(word), word.split_once('=').map(|(_, value)| value));
        let form = forms.iter().find(|(of, _)| *of == own);
        let (_, form) = form.ok_or_else(|| {
            let names: Vec<&str> = forms.iter().map(|(name, _)| *name).collect();
            match names[..] {
                [] => format!("'{word}': expected nothing more"),
                [only] => format!("'{word}': expected {only}"),
                _ => format!("'{word}': expected one of {}", names.join(", ")),
            }
        })?;
        if words[..index].iter().any(|before| name(before) == own) {
            return Err(format!("'{word}': {own} is given twice"));
        }
        set(&own, value).ok_or_else(|| format!("'{word}': expected {form}"))?;
    }
    Ok(())
}
