//! The item `dragonfly`: groups of switches that are all connected with each other, and cables
//! between each two groups.

use crate::description::{MOST_CABLES, MOST_GROUPS, MOST_NICS, MOST_SWITCHES, SwitchName};
use crate::items::{Draft, DraftNic, apply, in_order, new_cable};
use crate::values::{self, RATE, TIME};

/// What the words of the item say.
struct Shape {
    groups: u64,
    switches: u64,
    nics: u64,
    global: u64,
    nic: f64,
    local: Option<f64>,
    global_rate: Option<f64>,
}

impl Draft {
    /// Adds a dragonfly. It is the first item: what follows changes it.
    pub fn dragonfly(&mut self, words: &[&str]) -> Result<(), String> {
        if !self.switches.is_empty() {
            return Err("'dragonfly': expected before all switches".into());
        }
        let shape = self.shape(words)?;
        self.add_groups(&shape);
        self.add_cables(&shape);
        Ok(())
    }

    fn shape(&mut self, words: &[&str]) -> Result<Shape, String> {
        let mut shape = Shape {
            groups: 0,
            switches: 0,
            nics: 0,
            global: 1,
            nic: 25e6,
            local: None,
            global_rate: None,
        };
        let rate = |name: &str| format!("{name}=RATE, {RATE}");
        let forms = [
            (
                "groups",
                &*format!("groups=NUMBER, from 1 to {MOST_GROUPS}"),
            ),
            (
                "switches",
                &*format!("switches=NUMBER of each group, from 1 to {MOST_SWITCHES}"),
            ),
            ("nics", "nics=NUMBER of each switch, from 0 to 63"),
            (
                "global",
                "global=NUMBER of cables between two groups, from 0 to 64",
            ),
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
                "local" => shape.local = Some(values::rate(value)?),
                "global-rate" => shape.global_rate = Some(values::rate(value)?),
                _ => self.latency = values::time(value)?,
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
        let nics = shape.groups * shape.switches * shape.nics;
        if nics > MOST_NICS as u64 {
            return Err(format!(
                "'dragonfly': {nics} NICs, expected at most {MOST_NICS}"
            ));
        }
        let local = shape.groups * (shape.switches * (shape.switches - 1) / 2);
        let cables = local + shape.groups * (shape.groups - 1) / 2 * shape.global;
        if cables > MOST_CABLES as u64 {
            return Err(format!(
                "'dragonfly': {cables} cables, expected at most {MOST_CABLES}"
            ));
        }
        Ok(shape)
    }

    fn add_groups(&mut self, shape: &Shape) {
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
    fn add_cables(&mut self, shape: &Shape) {
        let (groups, switches) = (shape.groups as u16, shape.switches as u16);
        let local = new_cable(shape.local.unwrap_or(shape.nic), self.latency);
        let global = new_cable(shape.global_rate.unwrap_or(shape.nic), self.latency);
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
