//! Members of a survey that report what cannot be: the survey goes on without them.

use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cpus::{Work, cpus};
use crate::harness::{Command, Fabric, schema, stderr, stdout};
use campaign::quiet::answer::{Figures, Untested};
use campaign::quiet::busy::HostLoad;
use campaign::quiet::roster::NicId;
use campaign::timetable::{Block, Report, SlotTask, SurveyWork, Task, TaskAnswer, TaskResult};
use crew::host_list::expand;
use crew::introduction::{IntroducedNic, Introduction};
use crew::launcher::LauncherTask;
use crew::meeting_point::MeetingPoint;
use crew::star::{Meeting, Member, Order};
use facts::device::FabricAddress;

/// Time limit for anything that has to happen.
const LIMIT: Duration = Duration::from_secs(60);

const BANDWIDTH: TaskAnswer =
    TaskAnswer::Figures(Figures::Bandwidth { bytes_per_second: 1e9, operations_per_second: 1e6 });

const ENDLESS: TaskAnswer = TaskAnswer::Figures(Figures::Latency {
    count: 1,
    min_ns: u64::MAX,
    p5_ns: None,
    median_ns: u64::MAX,
    p90_ns: None,
    p99_ns: None,
    max_ns: u64::MAX,
});

/// A change that makes a report invalid, and a part of the reason for which its member is expelled.
type Lie = (fn(&mut Report), &'static str);

const LIES: [Lie; 8] = [
    (|report| change(report, |result| result.slot = 999), "no slot"),
    (|report| change(report, |result| result.nic = NicId(0)), "no slot"),
    (
        |report| {
            let counter = ("pct_sct_timeouts".to_owned(), u64::MAX);
            change(report, |result| result.counters = vec![counter]);
        },
        "a counter out of range",
    ),
    (|report| change(report, |result| result.answer = BANDWIDTH), "a bandwidth"),
    (|report| change(report, |result| result.answer = ENDLESS), "a latency"),
    (|report| report.rank = 0, "about rank 0"),
    (|report| report.block = u32::MAX, "block 4294967295"),
    (
        |report| {
            report.load = Some(HostLoad {
                mean: f64::NAN,
                cpus: 1,
                most: vec![("\x1b[2J".repeat(1_000_000), f64::INFINITY)],
            })
        },
        "a load",
    ),
];

fn change(report: &mut Report, edit: impl FnOnce(&mut TaskResult)) {
    report.results.first_mut().map(edit);
}

/// The report of a member that was late for all of its slots.
fn report(rank: u32, address: FabricAddress, block: &Block) -> Report {
    let measures = |task: &&Task| matches!(task.part, SlotTask::Measure { .. });
    let initiator_tasks = block.tasks.iter().filter(measures);
    let answer = TaskAnswer::Untested(Untested::Late);
    let late = |task: &Task| TaskResult::new(task.slot, task.nic, answer.clone());
    Report {
        block: block.number,
        rank,
        results: initiator_tasks.map(late).collect(),
        addresses: vec![Ok(address)],
        beyond_ns: 0,
        clock_uncertainty_ns: None,
        load: None,
    }
}

/// Starts a member whose reports are lies. It ends when the coordinator has
/// expelled it, or with the survey.
fn liar(file: &Path, rank: u32, size: u32, lie: fn(&mut Report)) -> JoinHandle<()> {
    let point = MeetingPoint::File(file.to_owned());
    let address = FabricAddress { nic: 900 + rank, pid: 7 };
    let introduction = Introduction {
        rank,
        size,
        host: format!("liar{rank}"),
        topology: None,
        nics: vec![IntroducedNic {
            device: format!("soft{rank}"),
            address: Some(address),
            vni: 1,
            class: "BEST_EFFORT".into(),
            location: None,
            simulated: true,
            link_gbps: None,
            failure: None,
        }],
    };
    let task = LauncherTask::numbered("Open MPI", "OMPI_COMM_WORLD_RANK", rank, size);
    thread::spawn(move || {
        let found = point.find(&task, Instant::now() + LIMIT).unwrap();
        let meeting = Meeting { addresses: found.addresses, token: found.token };
        let mut member = Member::<SurveyWork>::join(&meeting, introduction, LIMIT).unwrap();
        while let Ok(order) = member.next_order() {
            if let Order::Block(block) = order {
                let mut report = report(rank, address, &block);
                lie(&mut report);
                member.report(report);
            }
        }
    })
}

fn task(fabric: &Fabric, file: &Path, rank: u32, size: u32) -> Command {
    let file = file.display();
    let mut command = fabric.command(&format!(
        "survey --device=soft{rank} --no-why --meeting-point={file} --pairs=all --pair-time=20ms --json"
    ));
    command
        .env("OMPI_COMM_WORLD_RANK", rank.to_string())
        .env("OMPI_COMM_WORLD_SIZE", size.to_string());
    command
}

#[test]
fn expels_members_whose_reports_cannot_be_true() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("meeting");
    let size = 2 + LIES.len() as u32;
    let honest = [0, 1].map(|rank| task(&fabric, &file, rank, size).spawn().unwrap());
    let liars = (2..).zip(LIES);
    let liars: Vec<_> = liars.map(|(rank, (lie, _))| liar(&file, rank, size, lie)).collect();
    let [first, second] = honest.map(|process| process.finish());
    liars.into_iter().for_each(|liar| liar.join().unwrap());
    let (text, notes) = (stdout(&first), stderr(&first));
    assert_eq!(first.status.code(), Some(4), "{text}\n{notes}");
    assert!(second.status.success());
    let schema = include_str!("../../docs/survey.schema.json");
    let document = schema::document(schema, &text);
    assert_eq!(document["conclusion"], "undecided", "{notes}");
    assert!(document["verdict"]["answered"].as_u64() >= Some(1), "{text}");
    let nodes = document["roster"]["nodes"].as_array().unwrap();
    for (rank, (_, expected)) in (2..).zip(LIES) {
        let reason = nodes[rank]["absent"].as_str().expect("a reason");
        assert!(reason.contains(expected), "{rank}: {reason}");
        // Members that are lost at the same moment for the same reason share a line.
        let name = format!("liar{rank}");
        let named = notes.lines().filter(|note| {
            let hosts = note.strip_suffix(&format!(": {reason}")).unwrap_or_default();
            expand(hosts.trim_start_matches("cxidiag survey: "))
                .is_ok_and(|hosts| hosts.contains(&name))
        });
        assert_eq!(named.count(), 1, "{notes}");
    }
    assert_eq!(nodes[0]["absent"], nodes[1]["absent"]);
}
