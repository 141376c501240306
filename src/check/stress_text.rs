//! NICs under load as text: a row for each NIC at each interval.

use std::io::{self, Write};

use crate::stress_document::{StressedNic, shown};
use health::sensors::Sensor;

/// Least width of a column of values.
const WIDTH: usize = 6;

/// The table of NICs under load. Its rows are printed as they come.
#[derive(Debug)]
pub struct StressTable {
    /// Width of the column of NICs.
    names: usize,
    /// Columns of sensors: title, and width.
    columns: Vec<(String, usize)>,
}

/// Returns the title of the column of a sensor.
fn title(sensor: &Sensor) -> String {
    format!("{}[{}]", sensor.column, if sensor.limits().is_some() { "C" } else { "W" })
}

impl StressTable {
    /// Returns the table with a column for each sensor that a NIC has.
    pub fn new(nics: &[StressedNic]) -> Self {
        let mut columns: Vec<(String, usize)> = Vec::new();
        for result in nics.iter().flat_map(|nic| &nic.sensors) {
            let title = title(result.sensor);
            if !columns.iter().any(|(other, _)| *other == title) {
                let width = title.len().max(WIDTH);
                columns.push((title, width));
            }
        }
        let names = nics.iter().map(|nic| nic.name.len()).max().unwrap_or(0);
        Self { names: names.max("NIC".len()), columns }
    }

    /// Writes the titles.
    pub fn titles(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "{:>7}  {:<2$}  Rate[GB/s]", "Time[s]", "NIC", self.names)?;
        for (title, width) in &self.columns {
            write!(out, "  {title:>width$}")?;
        }
        writeln!(out)
    }

    /// Writes the row of the last sample of a NIC.
    pub fn row(&self, out: &mut impl Write, nic: &StressedNic) -> io::Result<()> {
        let Some(sample) = nic.samples.last() else { return Ok(()) };
        let (seconds, gigabytes) = (sample.seconds, sample.bytes_per_s / 1e9);
        write!(out, "{seconds:>7.1}  {:<1$}  {gigabytes:>10.2}", nic.name, self.names)?;
        for (column, width) in &self.columns {
            let mut values = nic.sensors.iter().zip(&sample.values);
            let found = values.find(|(result, _)| title(result.sensor) == *column);
            let cell = match found {
                Some((result, Some(value))) => match result.limits() {
                    Some(limits) => format!("{:.0}", shown(*value, limits)),
                    None => format!("{value:.1}"),
                },
                _ => "-".into(),
            };
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stress_document::testing::{add, nic};

    #[test]
    fn shows_sensors_of_different_boards_in_one_table() {
        let mut nics = [nic("P52930-001"), nic("P43012-001")];
        nics[1].name = "cxi1".into();
        let [one, two] = &mut nics;
        add(one, 21.68, &[Some(16.24), Some(6.0), Some(2.5), Some(84.7), None]);
        add(two, 20.5, &[Some(10.0), Some(3.0), Some(59.4), Some(-3.2)]);
        let table = StressTable::new(&nics);
        let mut text = Vec::new();
        table.titles(&mut text).unwrap();
        nics.iter().for_each(|nic| table.row(&mut text, nic).unwrap());
        let expected = "\
Time[s]  NIC   Rate[GB/s]  VDD[W]  AVDD[W]  TRVDD[W]  ASIC_0[C]  QSFP_INT[C]  ASIC_1[C]
   10.0  cxi0       21.68    16.2      6.0       2.5         84            -          -
   10.0  cxi1       20.50    10.0      3.0         -         59            -         -3
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
