//! The items `fault`: what is wrong with a cable, a switch, or the port of a NIC.

use crate::description::{Fault, SwitchName};
use crate::grammar::{self, TIME, Value, Word, nanoseconds, number_in, put, read_all, whole, word};
use crate::items::{self, Draft, SHARE, in_order};

/// The words of a fault. A switch has only the first ones: its cables lose packets.
pub const CABLE: [Word<Fault>; 5] = [
    word("rate=SHARE", &[SHARE], |fault, text| put(&mut fault.share, items::parse_share(text))),
    word("latency=TIME", &[TIME], |fault, text| put(&mut fault.latency, nanoseconds(text))),
    word("down, down=TIME or down=TIME:TIME since the fabric was made", &[TIME], |fault, text| {
        put(&mut fault.outage, items::outage(text).map(Some))
    }),
    // With 1, a packet would never arrive.
    word("loss=PROBABILITY", &[Value("PROBABILITY", "a number from 0 to 0.9")], |fault, text| {
        put(&mut fault.loss, number_in(0.0..=0.9, text))
    }),
    word("retry=TIME", &[TIME], |fault, text| put(&mut fault.retry, nanoseconds(text))),
];
const SWITCH: &[Word<Fault>] = CABLE.split_at(3).0;

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
                let fault = fault(words, SWITCH)?;
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
        let fault = fault(words, &CABLE)?;
        let cables = self.cables.get_mut(&ends).map(Vec::as_mut_slice).unwrap_or_default();
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
                let number = whole(number).and_then(|number| usize::try_from(number).ok());
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
        let place = whole(word).and_then(|number| usize::try_from(number).ok());
        let nic = place.and_then(|place| self.nics.get_mut(place));
        let nic =
            &mut nic.ok_or_else(|| format!("'{word}': expected the number of a NIC above"))?.nic;
        let (directions, words): (&mut [_], _) = match words {
            ["tx", words @ ..] => (&mut [&mut nic.transmit], words),
            ["rx", words @ ..] => (&mut [&mut nic.receive], words),
            words => (&mut [&mut nic.transmit, &mut nic.receive], words),
        };
        let fault = fault(words, &CABLE)?;
        for direction in directions {
            direction.fault = fault;
        }
        Ok(())
    }
}

/// Reads the words of a fault.
fn fault(words: &[&str], table: &[Word<Fault>]) -> Result<Fault, String> {
    if words.is_empty() {
        return Err(format!("'fault': expected one of {} at its end", grammar::names(table)));
    }
    let mut fault = Fault::default();
    read_all(words, table, &mut fault)?;
    Ok(fault)
}
