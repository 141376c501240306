//! What `why` takes, and how its arguments are read.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::suspect::{Beside, SuspectRequest};
use cli::definition::OptionDef;
use cli::usage::{Completion, Usage};
use cli::{arguments, output};
use crew::host_list;
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::{Failure, invalid};
use facts::number::time_text;
use page::destination::Place;
use plan::DEFAULT_PORT;

/// Default of `--pair-time`.
const PAIR_TIME: Duration = Duration::from_millis(50);

const PAIR_TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag why".into(),
        about: "Find out why a NIC is slow",
        synopsis: vec![
            ("cxidiag why [NIC] --peer=LIST [OPTIONS]".into(), ""),
            ("cxidiag why [NIC] [OPTIONS]".into(), ""),
            ("cxidiag why [NIC] --loopback=COUNT [OPTIONS]".into(), ""),
        ],
        arguments: Completion::Devices,
        about_arguments: "NIC is the suspect, a NIC of this machine (default: cxi0). Good NICs of other\n\
                          hosts are measured in turn with it.",
        options: arguments::entries(options()),
        remarks: vec![
            "Exit status: 0 as good NICs, 3 slower, or a cause was found, 4 undecided,\n\
             1 the diagnosis itself failed, 2 invalid arguments, 130 interrupted.",
            "A token is taken from CXIDIAG_TOKEN.",
        ],
        ..Usage::default()
    }
}

/// What the arguments ask for.
#[derive(Debug, Default)]
pub struct WhyRequest {
    /// The NICs, as typed.
    nics: Vec<DeviceName>,
    /// The only one of them.
    nic: Option<DeviceName>,
    peers: Option<Vec<String>>,
    peer_device: Option<DeviceName>,
    loopback: Option<u32>,
    service: Vec<String>,
    port: Option<u16>,
    pair_time: Option<Duration>,
    is_quiet: bool,
    pub json: Option<Place>,
    pub ticket: Option<PathBuf>,
}

fn options() -> Vec<OptionDef<WhyRequest>> {
    type WhyOption = OptionDef<WhyRequest>;
    let mut options = vec![
        arguments::devices().within(|request: &mut WhyRequest| &mut request.nics),
        WhyOption::text("peer", "LIST|@FILE", |request, typed| {
            let hosts = host_list::option_hosts(typed)?;
            if let Some(host) = host_list::repeated(&hosts) {
                return Err(format!("{host} is named twice"));
            }
            request.peers = Some(hosts);
            Ok(())
        })
        .completed_by(Completion::Hosts)
        .explained(
            "Hosts with good NICs, on which 'cxidiag serve' runs, such as nid[000418-000422] \
             (default: none)\n\n\
             A host list in the notation of Slurm, or FILE with one on each line. With two hosts, \
             what passes between NICs is measured as well; with five, files are compared with \
             what most good NICs have.",
        ),
        WhyOption::value("peer-device", "DEV", str::parse::<DeviceName>, |request| {
            &mut request.peer_device
        })
        .completed_by(Completion::Devices)
        .explained(
            "NIC of these hosts (default: the one with the name of the suspect; of a software \
             NIC, the one of the server)\n\n\
             The hosts are those of --peer.",
        ),
        WhyOption::number("loopback", "COUNT", 2..=100_u32, |request| &mut request.loopback).explained(
            "Try it: COUNT (2 to 100) software NICs of this machine, all but the suspect good\n\n\
             Each of COUNT processes has one. The suspect is soft0 if no NIC is named.",
        ),
    ];
    let service = arguments::service();
    options.extend(
        service.map(|option| option.within(|request: &mut WhyRequest| &mut request.service)),
    );
    options.extend([
        WhyOption::number("port", "PORT", 1..=u16::MAX, |request| &mut request.port)
            .letter('p')
            .explained(format!("TCP port of the servers (default: {DEFAULT_PORT})")),
        WhyOption::time("pair-time", PAIR_TIMES, |request| &mut request.pair_time).explained(
            format!(
                "Time of each test on a NIC (default: {})\n\n\
                     From 1 ms to 60 s, in seconds without a unit. With set-up and release, a \
                     test takes about seven times as long.",
                time_text(PAIR_TIME)
            ),
        ),
        WhyOption::file("ticket", |request| &mut request.ticket).explained(
            "Write the result to FILE, as a page of Markdown\n\n\
             The page suits a ticket.",
        ),
        output::json().within(|request| &mut request.json),
        output::quiet().within(|request| &mut request.is_quiet),
    ]);
    options
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<(WhyRequest, SuspectRequest)>, Failure> {
    let mut request = WhyRequest::default();
    let Some(words) = arguments::read(&usage(), &options(), arguments, &mut request)? else {
        return Ok(None);
    };
    arguments::add_devices(&mut request.nics, words, arguments)?;
    request.nic = arguments::one_device(&request.nics)?;
    let suspect = request.suspect()?;
    Ok(Some((request, suspect)))
}

impl WhyRequest {
    /// Returns what the diagnosis is asked for.
    fn suspect(&self) -> Result<SuspectRequest, Failure> {
        let (device, beside) = self.places()?;
        Ok(SuspectRequest {
            device,
            beside,
            service: self.service.clone(),
            pair_time: self.pair_time.unwrap_or(PAIR_TIME),
            port: self.port,
            is_quiet: self.is_quiet,
        })
    }

    /// Returns the suspect, and the good NICs beside it.
    fn places(&self) -> Result<(DeviceName, Beside), Failure> {
        let peer_pairs =
            [("peer-device", self.peer_device.is_some()), ("port", self.port.is_some())];
        let given = peer_pairs.iter().find(|(_, is_given)| *is_given);
        if let (Some((option, _)), None) = (given, &self.peers) {
            return Err(Failure::usage(format!("--{option} needs --peer")));
        }
        let device = self.nic.unwrap_or(DEFAULT_DEVICE);
        match (self.loopback, &self.peers) {
            (Some(_), Some(_)) => Err(Failure::usage("--loopback and --peer exclude each other")),
            (Some(count), None) => {
                let device = self.nic.unwrap_or(DeviceName::software(0));
                let is_one = device.platform().is_simulated && device.index < count;
                if !is_one {
                    let last = DeviceName::software(count - 1);
                    let why = format!("the NIC must be one of soft0 to {last}, and not {device}");
                    return Err(Failure::usage(invalid("loopback", count, why)));
                }
                Ok((device, Beside::Loopback(count)))
            }
            (None, Some(hosts)) => {
                let same = (!device.platform().is_simulated).then_some(device);
                let devices = self.peer_device.or(same).into_iter().collect();
                let hosts = hosts.clone();
                Ok((device, Beside::Peers { hosts, devices }))
            }
            (None, None) => Ok((device, Beside::Nothing)),
        }
    }

    /// Returns whether only the first line is printed.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(arguments: &str) -> Result<(String, Beside), String> {
        let arguments: Vec<OsString> = arguments.split_whitespace().map(OsString::from).collect();
        let (_, suspect) =
            parse(&arguments).map_err(|failure| failure.message())?.expect("a request");
        Ok((suspect.device.to_string(), suspect.beside))
    }

    #[test]
    fn suspect_and_good_nics_follow_from_arguments() {
        let peers = |devices: &[&str]| Beside::Peers {
            hosts: vec!["n1".into(), "n2".into()],
            devices: devices.iter().map(|name| name.parse().unwrap()).collect(),
        };
        for (arguments, device, expected) in [
            ("", "cxi0", Beside::Nothing),
            ("soft3", "soft3", Beside::Nothing),
            ("--loopback=4", "soft0", Beside::Loopback(4)),
            ("soft3 --loopback=4", "soft3", Beside::Loopback(4)),
            ("--peer=n[1-2]", "cxi0", peers(&["cxi0"])),
            ("cxi1 --peer=n[1-2] --peer-device=cxi2", "cxi1", peers(&["cxi2"])),
            ("soft1 --peer=n[1-2]", "soft1", peers(&[])),
        ] {
            let found = beside(arguments);
            assert_eq!(found, Ok((device.into(), expected)), "{arguments}");
        }
    }

    #[test]
    fn rejects_options_that_exclude_or_need_others() {
        for (arguments, message) in [
            ("cxi0 cxi1", "expected one NIC: leave out cxi1"),
            ("--loopback=4 --peer=n1", "--loopback and --peer exclude each other"),
            ("--port=1", "--port needs --peer"),
            ("--peer-device=cxi1", "--peer-device needs --peer"),
            ("--peer=n1,n1", "n1 is named twice"),
            ("soft4 --loopback=4", "one of soft0 to soft3, and not soft4"),
            ("cxi0 --loopback=4", "one of soft0 to soft3, and not cxi0"),
        ] {
            let found = beside(arguments).unwrap_err();
            assert!(found.contains(message), "{arguments}: {found}");
        }
    }
}
