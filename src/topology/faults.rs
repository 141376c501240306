//! The items `fault`: what is wrong with a cable, a switch, or the port of a NIC.

use crate::description::{Fault, Outage, SwitchName};
use crate::items::{Draft, Forms, apply, in_order};
use crate::values::{self, SHARE, TIME};

/// A word that names cables between two switches: `0.1>2.1`, `0.1-2.1`, or `0.1-2.1#1` for the
/// second one.
struct Cables {
    ends: [SwitchName; 2],
    /// In the direction from the first end to the second only.
    is_one_way: bool,
    number: Option<usize>,
}

impl Draft {
    /// Adds a fault.
    pub fn fault(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["link", cables, words @ ..] => self.fault_of_link(cables, words),
            ["switch", name, words @ ..] => {
                let known = self.known_switch(name)?;
                let fault = fault(words, false)?;
                self.add_switch(known).fault = fault;
                Ok(())
            }
            ["nic", number, words @ ..] => self.fault_of_nic(number, words),
            ["link" | "switch" | "nic"] | [] => {
                Err("'fault': expected fault link, fault switch or fault nic, and its name".into())
            }
            [word, ..] => Err(format!("'{word}': expected link, switch or nic")),
        }
    }

    fn fault_of_link(&mut self, word: &str, words: &[&str]) -> Result<(), String> {
        let named = self.cables_named(word)?;
        let ends = in_order(named.ends);
        let fault = fault(words, true)?;
        let cables = self.cables.get_mut(&ends).map(Vec::as_mut_slice);
        let cables = cables.unwrap_or_default();
        let count = cables.len();
        let is_named = |index: &usize| named.number.is_none_or(|number| number == *index);
        if !(0..count).any(|index| is_named(&index)) {
            return Err(match count {
                0 => format!("'{word}': there is no cable between these switches"),
                _ => format!("'{word}': there are {count} cables, numbered from #0"),
            });
        }
        let forward = usize::from(ends != named.ends);
        for (_, cable) in cables.iter_mut().enumerate().filter(|(index, _)| is_named(index)) {
            cable.directions[forward].fault = fault;
            if !named.is_one_way {
                cable.directions[1 - forward].fault = fault;
            }
        }
        Ok(())
    }

    fn cables_named(&self, word: &str) -> Result<Cables, String> {
        let invalid = || {
            format!(
                "'{word}': expected two switches, such as 0.1>2.1 for one direction or 0.1-2.1 for \
                 both, and #1 behind them for the second cable alone"
            )
        };
        let (ends, number) = match word.split_once('#') {
            None => (word, None),
            Some((ends, number)) => {
                let number = values::whole(number).and_then(|number| usize::try_from(number).ok());
                (ends, Some(number.ok_or_else(invalid)?))
            }
        };
        let one_way = ends.split_once('>');
        let (one, other) = one_way.or_else(|| ends.split_once('-')).ok_or_else(invalid)?;
        Ok(Cables {
            ends: [self.known_switch(one)?, self.known_switch(other)?],
            is_one_way: one_way.is_some(),
            number,
        })
    }

    fn fault_of_nic(&mut self, word: &str, words: &[&str]) -> Result<(), String> {
        let place = values::whole(word).and_then(|number| usize::try_from(number).ok());
        let nic = place.and_then(|place| self.nics.get_mut(place));
        let nic =
            &mut nic.ok_or_else(|| format!("'{word}': expected the number of a NIC above"))?.nic;
        let (directions, words): (&mut [_], _) = match words {
            ["tx", words @ ..] => (&mut [&mut nic.transmit], words),
            ["rx", words @ ..] => (&mut [&mut nic.receive], words),
            words => (&mut [&mut nic.transmit, &mut nic.receive], words),
        };
        let fault = fault(words, true)?;
        for direction in directions {
            direction.fault = fault;
        }
        Ok(())
    }
}

/// Reads the words of a fault. A switch loses no packets: its cables do.
fn fault(words: &[&str], is_cable: bool) -> Result<Fault, String> {
    let (share, time) = (format!("rate=SHARE, {SHARE}"), format!("TIME, {TIME}"));
    let (latency, retry) = (format!("latency={time}"), format!("retry={time}"));
    let down = format!("down, down=TIME or down=TIME:TIME since the fabric was made, {TIME}");
    let all: Forms = &[
        ("rate", &share),
        ("latency", &latency),
        ("down", &down),
        ("loss", "loss=PROBABILITY, a number from 0 to 0.9"),
        ("retry", &retry),
    ];
    let forms = if is_cable { all } else { &all[..3] };
    if words.is_empty() {
        let names: Vec<&str> = forms.iter().map(|(name, _)| *name).collect();
        return Err(format!("'fault': expected one of {} at its end", names.join(", ")));
    }
    let mut fault = Fault::default();
    apply(words, forms, |name, value| {
        match (name, value) {
            ("down", None) => fault.outage = Some(Outage { from: 0, to: None }),
            ("down", Some(value)) => fault.outage = Some(values::outage(value)?),
            ("rate", Some(value)) => fault.share = values::share(value)?,
            ("latency", Some(value)) => fault.latency = values::time(value)?,
            ("loss", Some(value)) => fault.loss = values::loss(value)?,
            ("retry", Some(value)) => fault.retry = values::time(value)?,
            _ => return None,
        }
        Some(())
    })?;
    Ok(fault)
}
