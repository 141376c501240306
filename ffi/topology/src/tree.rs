//! A fabric as text: its groups, switches, NICs and cables, with rates and faults.

use std::fmt;

use crate::description::{Cable, Congestion, Fault, Outage, Routing, Switch, SwitchName, Topology};

impl fmt::Display for Topology {
    /// Writes a line for each part, without a newline at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        write!(f, "{}", self.rules())?;
        let mut group = None;
        for (place, switch) in self.switches.iter().enumerate() {
            if group != Some(switch.name.group) {
                group = Some(switch.name.group);
                write!(f, "\ngroup {}", switch.name.group)?;
            }
            write!(f, "\n  switch {}{}", switch.name, switch_text(switch))?;
            self.write_nics(f, place)?;
            self.write_cables(f, place)?;
        }
        Ok(())
    }
}

impl Topology {
    fn rules(&self) -> String {
        let routing = match self.routing {
            Routing::Minimal => "minimal routes".into(),
            Routing::Adaptive { bias } => format!("adaptive routes, bias {}", time(bias)),
        };
        let congestion = match self.congestion {
            Congestion::None => "no congestion management".into(),
            Congestion::Endpoint => "congestion managed by endpoint".into(),
            Congestion::Spread { buffer } => {
                format!("congestion spreads beyond {}", size(buffer))
            }
        };
        format!("{routing}; {congestion}; marks above {}", size(self.mark))
    }

    fn write_nics(&self, f: &mut fmt::Formatter<'_>, place: usize) -> fmt::Result {
        let nics = self.nics.iter().enumerate();
        for (number, nic) in nics.filter(|(_, nic)| nic.switch == place) {
            let address = self.address(number).unwrap_or_default();
            let (name, latency) = (format!("soft{number}"), time(nic.latency));
            let rate = rate(nic.transmit.rate);
            write!(f, "\n    {name:<6}  {address:#07x}  {rate}, {latency}")?;
            for (what, direction) in [("sends", nic.transmit), ("receives", nic.receive)] {
                if let Some(fault) = fault_text(&direction.fault, Some(direction.rate)) {
                    write!(f, "; {what}: {fault}")?;
                }
            }
        }
        Ok(())
    }

    /// Writes the cables of a switch, those that are alike in one line.
    fn write_cables(&self, f: &mut fmt::Formatter<'_>, place: usize) -> fmt::Result {
        let mut lines: Vec<((SwitchName, String), u32)> = Vec::new();
        for cable in self.cables.iter().filter(|cable| cable.ends.contains(&place)) {
            let line = self.cable_from(cable, place);
            match lines.iter_mut().find(|(entry, _)| *entry == line) {
                Some((_, count)) => *count += 1,
                None => lines.push((line, 1)),
            }
        }
        for ((to, what), count) in lines {
            let cables = if count == 1 { "cable" } else { "cables" };
            write!(f, "\n    to {to}: {count} {cables}, {what}")?;
        }
        Ok(())
    }

    /// The other end of a cable, and a cable as seen from one end.
    fn cable_from(&self, cable: &Cable, place: usize) -> (SwitchName, String) {
        let from = usize::from(cable.ends[1] == place);
        let direction = &cable.directions[from];
        let fault = fault_text(&direction.fault, Some(direction.rate));
        let fault = fault.map_or(String::new(), |fault| format!("; {fault}"));
        let what = format!("{}, {}{fault}", rate(direction.rate), time(cable.latency));
        (self.switches[cable.ends[1 - from]].name, what)
    }
}

fn switch_text(switch: &Switch) -> String {
    let latency = match switch.latency {
        0 => String::new(),
        latency => format!("  {}", time(latency)),
    };
    let fault = fault_text(&switch.fault, None);
    latency + &fault.map_or(String::new(), |fault| format!("; {fault}"))
}

/// The effects of a fault; `None` if it has none.
fn fault_text(fault: &Fault, value: Option<f64>) -> Option<String> {
    let mut parts = Vec::new();
    if fault.share < 1.0 {
        let left = value.map_or(String::new(), |value| format!(" ({})", rate(value * fault.share)));
        parts.push(format!("FAULT rate {} %{left}", number(100.0 * fault.share)));
    }
    if fault.latency > 0 {
        parts.push(format!("FAULT latency {} more", time(fault.latency)));
    }
    if fault.loss > 0.0 {
        parts.push(format!("FAULT loss {}, again after {}", fault.loss, time(fault.retry)));
    }
    match fault.outage {
        None => {}
        Some(Outage { from: 0, to: None }) => parts.push("FAULT down".into()),
        Some(Outage { from, to: None }) => parts.push(format!("FAULT down after {}", time(from))),
        Some(Outage { from, to: Some(to) }) => {
            let length = time(to - from);
            parts.push(format!("FAULT down after {} for {length}", time(from)));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A number with at most three digits behind the point.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A value in the largest unit of which there is at least one.
fn in_units(value: f64, units: &[(&str, f64)], smallest: &str) -> String {
    let unit = units.iter().find(|(_, factor)| value >= *factor);
    let (unit, factor) = unit.copied().unwrap_or((smallest, 1.0));
    format!("{} {unit}", number(value / factor))
}

fn rate(rate: f64) -> String {
    in_units(rate, &[("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)], "B/s")
}

fn time(time: u64) -> String {
    in_units(time as f64, &[("s", 1e9), ("ms", 1e6), ("us", 1e3)], "ns")
}

fn size(size: u64) -> String {
    in_units(size as f64, &[("MiB", 1_048_576.0), ("KiB", 1024.0)], "bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_parts_with_rates_and_faults() {
        let file = "dragonfly groups=2 switches=2 nics=1 nic=50MB/s global=4 latency=20us\n\
                    switch 0.1 latency=350ns\nroute minimal\ncongestion spread buffer=1MiB\n\
                    fault link 0.0>1.0#1 rate=25% loss=0.001\nfault link 0.0-0.1 down=2s:500ms\n\
                    fault switch 1.1 rate=50% latency=1ms\nfault nic 2 rx down\nlink 1.0 1.1 rate=2.5GB/s";
        let topology = Topology::from_file("lab.txt", file).unwrap();
        let expected = "\
lab.txt
minimal routes; congestion spreads beyond 1 MiB; marks above 64 KiB
group 0
  switch 0.0
    soft0   0x00001  50 MB/s, 20 us
    to 0.1: 1 cable, 50 MB/s, 20 us; FAULT down after 2 s for 500 ms
    to 1.0: 1 cable, 50 MB/s, 20 us
    to 1.0: 1 cable, 50 MB/s, 20 us; FAULT rate 25 % (12.5 MB/s), FAULT loss 0.001, again after 1 ms
  switch 0.1  350 ns
    soft1   0x00041  50 MB/s, 20 us
    to 0.0: 1 cable, 50 MB/s, 20 us; FAULT down after 2 s for 500 ms
    to 1.1: 2 cables, 50 MB/s, 20 us
group 1
  switch 1.0
    soft2   0x00801  50 MB/s, 20 us; receives: FAULT down
    to 0.0: 2 cables, 50 MB/s, 20 us
    to 1.1: 1 cable, 2.5 GB/s, 20 us
  switch 1.1; FAULT rate 50 %, FAULT latency 1 ms more
    soft3   0x00841  50 MB/s, 20 us
    to 0.1: 2 cables, 50 MB/s, 20 us
    to 1.0: 1 cable, 2.5 GB/s, 20 us";
        assert_eq!(topology.to_string(), expected);
    }
}
