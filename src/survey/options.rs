//! What `survey` takes, and how its arguments are read.

use std::ffi::OsString;

use super::request::{COMMAND, ProcessSource, SurveyRequest, tests, tools};
use super::tool_options;
use crate::load_options;
use campaign::quiet::pairs::{self, Selection, TypedSelection};
use cli::arguments::TypedArguments;
use cli::usage::{Completion, Usage};
use cli::{arguments as shared, derived};
use facts::error::{Failure, invalid};
use plan::tools::peer_tools;
use plan::typed::{self, Ineffective};

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag survey".into(),
        about: "Measure all NICs of a cluster, and name what is slow",
        synopsis: vec![
            ("srun --ntasks-per-node=1 --mpi=none cxidiag survey [TOOL...] [OPTIONS]".into(), ""),
            ("cxidiag survey --hosts=LIST [TOOL...] [OPTIONS]".into(), ""),
            ("cxidiag survey --loopback=COUNT [TOOL...] [OPTIONS]".into(), ""),
        ],
        arguments: Completion::Words(|| {
            peer_tools().iter().map(|tool| tool.name.to_owned()).collect()
        }),
        about_arguments: "TOOL is write-lat, read-lat, atomic-lat, send-lat, trig-lat, write-bw, read-bw,\n\
                          atomic-bw or send-bw (default: write-lat, read-lat and write-bw). Each\n\
                          measures all pairs. Options of the tools follow after '--'.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "Each task of srun, mpiexec, flux run or mpirun measures with the NICs of its\nnode.",
            "Exit status: 0 all good, 3 something is bad, 4 something was not measured or is\n\
             suspect, 1 failed, 130 interrupted, with the results so far.",
        ],
        ..Usage::default()
    }
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<SurveyRequest>, Failure> {
    let (own, tool_texts) = shared::parts(arguments);
    let Some(mut typed) = TypedArguments::<SurveyRequest>::read(&usage(), &COMMAND, own)? else {
        return Ok(None);
    };
    let names = shared::texts(std::mem::take(&mut typed.words))?;
    let tool_texts = shared::texts(tool_texts.unwrap_or_default().to_vec())?;
    let request = &mut typed.request;
    request.processes = match (request.loopback, request.hosts.take()) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage("--loopback and --hosts exclude each other"));
        }
        (Some(count), None) => ProcessSource::Loopback(count),
        (None, Some(hosts)) => ProcessSource::Hosts(hosts),
        (None, None) => ProcessSource::Launcher,
    };
    check_combinations(request)?;
    let by_servers = matches!(request.processes, ProcessSource::Hosts(_));
    let tools = tools(&names)?;
    let mut without_effect: Vec<Ineffective> = Vec::new();
    for tool in &tools {
        for option in tool_options::without_effect(tool, &tool_texts, by_servers)? {
            if !without_effect.contains(&option) {
                without_effect.push(option);
            }
        }
    }
    if request.loopback.is_some() && request.bad_nodes.is_some() {
        without_effect.push(Ineffective {
            option: "bad-nodes",
            reason: "the file stays empty: --loopback has no nodes of a cluster",
        });
    }
    request.without_effect = typed::ineffective_note(&without_effect);
    let further = [request.service.arguments(), tool_texts].concat();
    let bounds = request.bounds.as_deref().unwrap_or_default();
    request.tests = tests(&tools, &request.sizes, &further, bounds)?;
    load_options::complete(&mut typed)?;
    let request = typed.request;
    // Only the coordinator reads the files of pairs.
    let loopback = TypedSelection::Named(Selection::Loopback);
    if pairs::typed(&request.pairs).is_ok_and(|selections| selections.contains(&loopback)) {
        request.tests.iter().try_for_each(|test| test.plan.check_loopback())?;
    }
    request.places()?;
    Ok(Some(request))
}

/// Checks that options which exclude each other are not given together.
fn check_combinations(request: &SurveyRequest) -> Result<(), Failure> {
    let is_loopback = request.loopback.is_some();
    if is_loopback && request.devices.is_some() {
        let message = "--loopback uses soft0 and the following NICs: leave out --device";
        return Err(Failure::usage(message));
    }
    if matches!(request.processes, ProcessSource::Hosts(_)) && request.port == Some(0) {
        let allowed = "expected the port of the servers, 1 to 65535";
        return Err(Failure::usage(invalid("port", 0, allowed)));
    }
    if request.locations.is_some() && request.topology.is_some() {
        return Err(Failure::usage("--locations and --topology exclude each other"));
    }
    if is_loopback && request.checks_nodes {
        return Err(Failure::usage("--check checks nodes: those of a launcher, or of --hosts"));
    }
    if let Some(file) = request.ticket.as_ref().filter(|_| !request.explains) {
        let allowed = "the page says why parts are bad, so it is not possible with --no-why";
        return Err(Failure::usage(invalid("ticket", file.display(), allowed)));
    }
    Ok(())
}
