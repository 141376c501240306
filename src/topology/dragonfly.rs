//! The item `dragonfly`: groups of switches that are all connected with each other, and cables
//! between each two groups.

use crate::description::{MOST_CABLES, MOST_GROUPS, MOST_NICS, MOST_SWITCHES, SwitchName};
use crate::items::{Draft, DraftNic, apply, in_order, new_cable};
use crate::values::{self, RATE, TIME};

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

impl Dragonfly {
    /// Reads the words of the item, and the latency of links if they have one.
    pub fn read(words: &[&str], latency: &mut u64) -> Result<Self, String> {
        let mut shape = Self {
            groups: 0,
            switches: 0,
            nics: 0,
            global: 1,
            nic: 25e6,
            local: 0.0,
            global_rate: 0.0,
        };
        let (mut local, mut global_rate) = (None, None);
        let rate = |name: &str| format!("{name}=RATE, {RATE}");
        let forms = [
            ("groups", &*format!("groups=NUMBER, from 1 to {MOST_GROUPS}")),
            ("switches", &*format!("switches=NUMBER of each group, from 1 to {MOST_SWITCHES}")),
            ("nics", "nics=NUMBER of each switch, from 0 to 63"),
            ("global", "global=NUMBER of cables between two groups, from 0 to 64"),
            ("nic", &*rate("nic")),
            ("local", &*rate("local")),
            ("global-rate", &*rate("global-rate")),
            ("latency", &*format!("latency=TIME, {TIME}")),
        ];
        apply(words, &forms, |name, value| {
            let value = value?;
            let number = |range: std::ops::RangeInclusive<u64>| {
                values::whole(value).filter(|number| range.contains(number))
            };
            match name {
                "groups" => shape.groups = number(1..=MOST_GROUPS.into())?,
                "switches" => shape.switches = number(1..=MOST_SWITCHES.into())?,
                "nics" => shape.nics = number(0..=63)?,
                "global" => shape.global = number(0..=64)?,
                "nic" => shape.nic = values::rate(value)?,
                "local" => local = Some(values::rate(value)?),
                "global-rate" => global_rate = Some(values::rate(value)?),
                _ => *latency = values::time(value)?,
            }
            Some(())
        })?;
        let numbers = [("groups", shape.groups), ("switches", shape.switches)];
        if let Some((name, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(format!("'dragonfly': expected {name}=NUMBER"));
        }
        if !words.iter().any(|word| word.starts_with("nics=")) {
            return Err("'dragonfly': expected nics=NUMBER".into());
        }
        shape.local = local.unwrap_or(shape.nic);
        shape.global_rate = global_rate.unwrap_or(shape.nic);
        Ok(shape)
    }

    /// Returns the number of its NICs.
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
