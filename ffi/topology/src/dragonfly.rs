//! The item `dragonfly`: groups of switches that are all connected with each other, and cables
//! between each two groups.

use crate::description::{MOST_CABLES, MOST_GROUPS, MOST_NICS, MOST_SWITCHES, SwitchName};
use crate::grammar::{TIME, Value, Word, nanoseconds, put, read_all, whole_in, word};
use crate::items::{self, Draft, DraftNic, RATE, RATE_DEFAULT, in_order, new_cable};

/// A regular dragonfly, as the words of the item describe it. Rates are in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dragonfly {
    pub groups: u64,
    /// Switches of each group.
    pub switches: u64,
    /// NICs of each switch.
    pub nics: u64,
    /// Cables between two groups.
    pub global: u64,
    /// Rate of a NIC.
    pub nic: f64,
    /// Rate of the cable between two switches of a group.
    pub local: f64,
    /// Rate of a cable between two groups.
    pub global_rate: f64,
}

/// The words of the item as they were given.
#[derive(Default)]
pub struct Given {
    groups: Option<u64>,
    switches: Option<u64>,
    nics: Option<u64>,
    global: Option<u64>,
    nic: Option<f64>,
    local: Option<f64>,
    global_rate: Option<f64>,
    latency: Option<u64>,
}

pub const WORDS: [Word<Given>; 8] = [
    word("groups=NUMBER", &[Value("NUMBER", "from 1 to 512")], |given, text| {
        put(&mut given.groups, whole_in(1..=MOST_GROUPS.into(), text).map(Some))
    }),
    word("switches=NUMBER", &[Value("NUMBER", "from 1 to 32, of each group")], |given, text| {
        put(&mut given.switches, whole_in(1..=MOST_SWITCHES.into(), text).map(Some))
    }),
    word("nics=NUMBER", &[Value("NUMBER", "from 0 to 63, of each switch")], |given, text| {
        put(&mut given.nics, whole_in(0..=63, text).map(Some))
    }),
    word(
        "global=NUMBER",
        &[Value("NUMBER", "0 to 64 cables between two groups")],
        |given, text| put(&mut given.global, whole_in(0..=64, text).map(Some)),
    ),
    word("nic=RATE", &[RATE], |given, text| put(&mut given.nic, items::rate(text).map(Some))),
    word("local=RATE", &[RATE], |given, text| put(&mut given.local, items::rate(text).map(Some))),
    word("global-rate=RATE", &[RATE], |given, text| {
        put(&mut given.global_rate, items::rate(text).map(Some))
    }),
    word("latency=TIME", &[TIME], |given, text| {
        put(&mut given.latency, nanoseconds(text).map(Some))
    }),
];

impl Dragonfly {
    /// Reads the words of the item, and the latency of links if they have one.
    pub fn read(words: &[&str], latency: &mut u64) -> Result<Self, String> {
        let mut given = Given::default();
        read_all(words, &WORDS, &mut given)?;
        let missing = |name| move || format!("'dragonfly': expected {name}=NUMBER");
        let nic = given.nic.unwrap_or(RATE_DEFAULT);
        *latency = given.latency.unwrap_or(*latency);
        Ok(Self {
            groups: given.groups.ok_or_else(missing("groups"))?,
            switches: given.switches.ok_or_else(missing("switches"))?,
            nics: given.nics.ok_or_else(missing("nics"))?,
            global: given.global.unwrap_or(1),
            nic,
            local: given.local.unwrap_or(nic),
            global_rate: given.global_rate.unwrap_or(nic),
        })
    }

    pub fn size(&self) -> u64 {
        self.groups * self.switches * self.nics
    }

    /// Checks that software NICs can make it.
    fn check_size(&self) -> Result<(), String> {
        let nics = self.size();
        if nics > MOST_NICS as u64 {
            return Err(format!("'dragonfly': {nics} NICs, expected at most {MOST_NICS}"));
        }
        let local = self.groups * (self.switches * (self.switches - 1) / 2);
        let cables = local + self.groups * (self.groups - 1) / 2 * self.global;
        if cables > MOST_CABLES as u64 {
            return Err(format!("'dragonfly': {cables} cables, expected at most {MOST_CABLES}"));
        }
        Ok(())
    }
}

impl Draft {
    /// Adds a dragonfly. It is the first item: what follows changes it.
    pub fn dragonfly(&mut self, words: &[&str]) -> Result<(), String> {
        if !self.switches.is_empty() {
            return Err("'dragonfly': expected before all switches".into());
        }
        let shape = Dragonfly::read(words, &mut self.latency)?;
        shape.check_size()?;
        self.add_groups(&shape);
        self.add_cables(&shape);
        Ok(())
    }

    fn add_groups(&mut self, shape: &Dragonfly) {
        for group in 0..shape.groups as u16 {
            for switch in 0..shape.switches as u16 {
                let name = SwitchName { group, switch };
                self.add_switch(name);
                for _ in 0..shape.nics {
                    let nic = self.new_nic(shape.nic, self.latency);
                    self.nics.push(DraftNic { switch: name, nic });
                }
            }
        }
    }

    /// Adds a cable between each two switches of a group, and those between groups. Cable k from
    /// group G to group H ends at switch ((H − G) mod g − 1 + k) mod a of G.
    fn add_cables(&mut self, shape: &Dragonfly) {
        let (groups, switches) = (shape.groups as u16, shape.switches as u16);
        let local = new_cable(shape.local, self.latency);
        let global = new_cable(shape.global_rate, self.latency);
        for group in 0..groups {
            for (one, other) in
                (0..switches).flat_map(|one| (one + 1..switches).map(move |other| (one, other)))
            {
                let ends = [one, other].map(|switch| SwitchName { group, switch });
                self.cables.insert(ends, vec![local]);
            }
            for other in group + 1..groups {
                for cable in 0..shape.global as u16 {
                    let end = |from: u16, to: u16| SwitchName {
                        group: from,
                        switch: ((to + groups - from) % groups - 1 + cable) % switches,
                    };
                    let ends = in_order([end(group, other), end(other, group)]);
                    self.cables.entry(ends).or_default().push(global);
                }
            }
        }
    }
}
