//! The file that keeps the changed services of a NIC: a heading, and a line of numbers for each.

use cxi_sys::*;

use super::record::{IDS, LE_POOLS, Service, TLE_POOLS};
use crate::engine::VniRange;

/// The start of the file. The number of services follows, then a line for each. With any other
/// content, calls that need services fail with EIO until the file is removed.
const HEADING: &str = "cxidiag services 3: ";

pub fn text_of(services: &[Service]) -> String {
    let lines = services.iter().map(line_of);
    [format!("{HEADING}{}", services.len())]
        .into_iter()
        .chain(lines)
        .map(|line| line + "\n")
        .collect()
}

/// The services of a complete file; `None` for any other text.
pub fn parse(text: &str) -> Option<Vec<Service>> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let count: usize = lines.next()?.strip_prefix(HEADING)?.parse().ok()?;
    let services: Vec<Service> = lines.map(parse_line).collect::<Option<_>>()?;
    let ids: Vec<u32> = services.iter().map(|service| service.id).collect();
    // The default service always exists.
    let valid = ids.first() == Some(&CXI_DEFAULT_SVC_ID)
        && ids.is_sorted_by(|one, next| one < next)
        && ids.iter().all(|id| IDS.contains(id));
    (valid && ids.len() == count).then_some(services)
}

fn line_of(service: &Service) -> String {
    let mut numbers: Vec<u32> = vec![
        service.id,
        service.enabled.into(),
        service.is_system.into(),
        service.restricted_members.into(),
    ];
    numbers.extend(service.members.iter().flat_map(|&(kind, number)| [kind, number]));
    numbers.extend([u32::from(service.restricted_vnis), service.vnis.len() as u32]);
    numbers.extend(service.vnis.iter().map(|&vni| u32::from(vni)));
    let (first, last) = service.range_bounds();
    numbers.extend([u32::from(first), u32::from(last)]);
    numbers.push(service.restricted_tcs.into());
    numbers.extend(service.tcs.map(u32::from));
    numbers.push(service.resource_limits.into());
    numbers.extend(service.limits.iter().flat_map(|&(max, res)| [u32::from(max), u32::from(res)]));
    numbers.extend([
        u32::from(service.counter_pool),
        u32::from(service.triggered_pool),
        u32::from(service.entry_pool),
        service.lnis_per_rgid,
        service.exclusive_profiles.into(),
    ]);
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    words.join(" ")
}

/// Reads a line of `line_of`; `None` for any other line.
fn parse_line(line: &str) -> Option<Service> {
    let mut words = line.split(' ').map(|word| word.parse::<u32>().ok());
    let mut number = || words.next().flatten();
    let flag = |number: u32| (number < 2).then_some(number == 1);
    let short = |number: u32| u16::try_from(number).ok();
    let mut service = Service::plain(number()?);
    service.enabled = flag(number()?)?;
    service.is_system = flag(number()?)?;
    service.restricted_members = flag(number()?)?;
    for member in &mut service.members {
        *member = (number()?, number()?);
    }
    service.restricted_vnis = flag(number()?)?;
    let listed = number()?;
    if listed > CXI_SVC_MAX_VNIS {
        return None;
    }
    for _ in 0..listed {
        service.vnis.push(short(number()?)?);
    }
    service.range = match (short(number()?)?, short(number()?)?) {
        (0, 0) => None,
        (first, last) => Some(VniRange::new(first, last)?),
    };
    service.restricted_tcs = flag(number()?)?;
    for tc in &mut service.tcs {
        *tc = flag(number()?)?;
    }
    service.resource_limits = flag(number()?)?;
    for limit in &mut service.limits {
        *limit = (short(number()?)?, short(number()?)?);
    }
    service.counter_pool = u8::try_from(number()?).ok().filter(|&pool| pool < 4)?;
    let pool = |number: u32, pools| u8::try_from(number).ok().filter(|&pool| pool < pools);
    service.triggered_pool = pool(number()?, TLE_POOLS)?;
    service.entry_pool = pool(number()?, LE_POOLS)?;
    service.lnis_per_rgid = number()?;
    service.exclusive_profiles = flag(number()?)?;
    (words.next().is_none() && service.id != 0 && service.is_consistent()).then_some(service)
}

#[cfg(test)]
mod tests {
    use rustix::process::Uid;

    use super::*;
    use crate::environment::InitialServices;
    use crate::libcxi::service::record::built_in;

    fn examples() -> Vec<Service> {
        built_in(InitialServices::Examples, Uid::ROOT)
    }

    #[test]
    fn lines_and_descriptions_preserve_services() {
        for mut service in examples() {
            let described = Service::described(service.id, &service.describe()).unwrap();
            let range = std::mem::take(&mut service.range);
            let enabled = service.enabled;
            service.enabled = service.restricted_vnis;
            assert_eq!(described, service, "a description has no range");
            service.enabled = enabled;
            service.range = range;
            service.lnis_per_rgid = 7;
            service.exclusive_profiles = true;
            service.counter_pool = 3;
            assert_eq!(parse_line(&line_of(&service)), Some(service));
        }
    }

    #[test]
    fn rejects_invalid_lines() {
        let line = line_of(&examples()[0]);
        for (at, _) in line.char_indices() {
            assert_eq!(parse_line(&line[..at]), None, "cut at {at}");
        }
        for hostile in ["", "x", "1 2 3", &line.replace(' ', "  "), &format!("{line} 1")] {
            assert_eq!(parse_line(hostile), None, "{hostile:?}");
        }
        let mut broken = examples()[0].clone();
        broken.limits[0] = (1, 2);
        assert_eq!(parse_line(&line_of(&broken)), None);
        let [default, ranged, _, _, _] = examples().try_into().unwrap();
        for broken in [
            Service { id: 0, ..default.clone() },
            Service { lnis_per_rgid: 0, ..default.clone() },
            Service { lnis_per_rgid: 9, ..default.clone() },
            Service { range: Some(VniRange::single(5)), ..default },
            // Enabled without any VNI.
            Service { range: None, ..ranged.clone() },
        ] {
            assert_eq!(parse_line(&line_of(&broken)), None, "{broken:?}");
        }
        let line = line_of(&ranged);
        assert!(line.contains(" 16 31 "));
        for range in ["0 31", "31 16", "16 30", "8 23"] {
            let broken = line.replace("16 31", range);
            assert_eq!(parse_line(&broken), None, "{range}");
        }
    }

    #[test]
    fn reads_complete_files_only() {
        let text = text_of(&examples());
        assert_eq!(parse(&text), Some(examples()));
        for (at, _) in text.char_indices() {
            assert_eq!(parse(&text[..at]), None, "cut at {at}");
        }
        let [one, two, three, four, _] = examples().try_into().unwrap();
        for wrong in [
            vec![],
            vec![two.clone()],
            vec![one.clone(), one.clone()],
            vec![one.clone(), two.clone(), two.clone()],
            vec![one.clone(), four, three],
            vec![one, Service { id: 0x1_0000, ..two }],
        ] {
            assert_eq!(parse(&text_of(&wrong)), None, "{wrong:?}");
        }
    }
}
