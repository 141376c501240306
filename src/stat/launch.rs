//! The leader of a node: reads the counters, runs the command, reads them again, and ends as its
//! command has ended (monitoring.md 1.3).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{self, Child, Command, ExitStatus};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use std::{env, thread};

use cxi::signals::{
    ReceivedSignal, Witness, raise_with_default_action, restore_inherited, shares_group,
};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, kill_process, set_dumpable_behavior, setrlimit,
};

use super::events::{self, Events, Forwarding, Pauses};
use super::job::JobStat;
use super::nics::{RecordedNics, new_record};
use super::note::note;
use super::options::StatRequest;
use super::parallel_program::{self, NodeRole, ParallelProgram, RosterFile};
use super::record::{EndRecord, EndStatus, NodeRecord};
use super::series::CounterSampler;
use super::step_directory::StepDirectory;
use super::{gather, output};
use cli::output::or_early_failure;
use facts::error::{Failure, Kind};
use facts::limit::in_effect;
use facts::time_of_day::Clocks;
use node::machine::Machine;

/// How long the command may go on after SIGTERM before an interim result is written: a time limit
/// of Slurm kills 30 s after SIGTERM.
const INTERIM: Duration = Duration::from_secs(5);

/// A signal that comes again within this time counts once.
const REPEATS: Duration = Duration::from_millis(50);

/// How much later the last process of a group may get a signal than the first one, on a busy node.
const GROUP_DELAY: Duration = Duration::from_millis(500);

/// Time between two looks whether the group has got a signal.
const POLL: Duration = Duration::from_millis(10);

/// Runs the command of this process: between two readings of the counters if this process leads
/// its node, else in place of this process.
///
/// Nothing else that fails here keeps the command from running.
///
/// # Errors
///
/// Options that contradict each other. It does not return otherwise.
pub fn run(request: &StatRequest, command: &[OsString]) -> Result<(), Failure> {
    let program = ParallelProgram::from_environment();
    let mut notes = Vec::new();
    // A process that leads in any case leaves its files behind for no signal from now on. Others
    // only join, and their command begins without handlers.
    let is_leader = !program.has_others() || program.is_leader() == Some(true);
    let events = is_leader.then(Events::watch);
    let roster = if program.has_others() {
        let boot = Machine::this().boot_id();
        match parallel_program::join_roster(
            &program.key_on_node(boot.as_deref()),
            program.is_leader(),
        ) {
            Ok(NodeRole::Other(_lock)) => execute(command),
            Ok(NodeRole::Leader(roster)) => roster,
            Err(error) => {
                if !program.leads_alone() {
                    execute(command);
                }
                notes.push(format!("cannot wait for other processes of this node: {error}"));
                None
            }
        }
    } else {
        None
    };
    let is_for_itself = program.has_other_nodes() && !request.is_gathered;
    let node = is_for_itself.then(|| program.node());
    let documents = match output::open(request, node) {
        // Other processes of the program already run their commands.
        Err(failure) if failure.kind == Kind::Usage && !program.has_others() => {
            return or_early_failure(request.json.as_ref(), Err(failure));
        }
        opened => opened.unwrap_or_else(|failure| {
            notes.push(failure.message());
            output::ReportFiles::default()
        }),
    };
    let unwatched = |error: io::Error| notes.push(format!("cannot wait for signals: {error}"));
    let events = events.unwrap_or_else(Events::watch).map_err(unwatched).ok();
    let leader = Leader::begin(request, command, program, (roster, events), notes);
    let status = leader.run(&documents);
    end_as(status)
}

/// Executes the command in place of this process, with all descriptors that it may inherit.
fn execute(command: &[OsString]) -> ! {
    let error = new_command(command).exec();
    process::exit(report_not_executed(command, &error))
}

fn new_command(command: &[OsString]) -> Command {
    let mut words = command.iter();
    let mut new = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
    new.args(words);
    restore_inherited(&mut new);
    new
}

/// Says that the command cannot be executed. Returns the exit status for that.
fn report_not_executed(command: &[OsString], error: &io::Error) -> i32 {
    let name = command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    let cause = command
        .first()
        .and_then(|name| missing_interpreter(name, error))
        .unwrap_or_else(|| facts::error::cause(error));
    note(&format!("cannot execute {name}: {cause}"));
    not_executed(error)
}

/// Whether the system has refused to make a process, not the program of the command.
fn is_refused(error: &io::Error) -> bool {
    use Errno as E;
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(E::AGAIN | E::NOMEM | E::MFILE | E::NFILE | E::PERM | E::NOSYS))
}

/// The process that reads the NICs of its node.
struct Leader<'a> {
    request: &'a StatRequest,
    command: &'a [OsString],
    program: ParallelProgram,
    machine: Machine,
    nics: RecordedNics,
    record: NodeRecord,
    directory: Option<StepDirectory>,
    roster: Option<RosterFile>,
    events: Option<Events>,
    witness: Option<Witness>,
    /// Signals that the group has got, and that this process has not handled yet: signal n is bit
    /// n - 1.
    group_signals: u64,
}

impl<'a> Leader<'a> {
    /// Reads the counters for the first time. Nothing that fails here keeps the command from
    /// running.
    fn begin(
        request: &'a StatRequest,
        command: &'a [OsString],
        program: ParallelProgram,
        (roster, events): (Option<RosterFile>, Option<Events>),
        mut notes: Vec<String>,
    ) -> Self {
        // Without it, the command may get a signal to the group twice.
        let witness = events.as_ref().and_then(|_| Witness::start().ok());
        let machine = Machine::this();
        let started = Clocks::now();
        let mut nics = RecordedNics::begin(&request.devices, &request.set, &machine);
        let mut record = new_record(request, command, &program, &machine, &nics, started);
        let (key, node) = (program.key(), program.node());
        let directory = StepDirectory::make(&request.directory, &key, node, record.step.as_ref())
            .and_then(|directory| {
                record.run = directory.next_run();
                let written = directory.write_start(&record);
                if written.is_err() {
                    directory.remove();
                }
                written.map(|()| directory)
            })
            .map_err(|error| {
                notes.push(format!(
                    "cannot write to {}: {} (the report is of this node alone)",
                    request.directory.display(),
                    facts::error::cause(&error)
                ));
            })
            .ok();
        notes.append(&mut nics.notes);
        for line in &notes {
            note(line);
        }
        Self {
            request,
            command,
            program,
            machine,
            nics,
            record,
            directory,
            roster,
            events,
            witness,
            group_signals: 0,
        }
    }

    /// Runs the command, reads the counters again and reports. Returns how the command ended.
    fn run(mut self, documents: &output::ReportFiles) -> EndStatus {
        // A signal before the command exists has no other process to end.
        if let Some(signal) = self.events.as_ref().and_then(Events::ending) {
            self.remove_files();
            return EndStatus::Signal(signal);
        }
        let mut child = match new_command(self.command).spawn() {
            Ok(child) => child,
            // The system permits no further process, or not what this process needs for it.
            Err(error) if is_refused(&error) => {
                let cause = facts::error::cause(&error);
                note(&format!("no report: no process beside the command: {cause}"));
                let command = self.command;
                self.remove_files();
                drop(self);
                execute(command)
            }
            Err(error) => {
                let status = report_not_executed(self.command, &error);
                self.remove_files();
                return EndStatus::Exit(status);
            }
        };
        let sampler = self.sample();
        let status = self.wait(&mut child);
        let events = self.events.take();
        let mut pauses = Pauses::begin(events.as_ref());
        let still_running = self.linger(status, &mut pauses);
        drop(sampler);
        self.read_end(Some(status), still_running, false);
        self.write_end();
        self.report(documents, &mut pauses);
        status
    }

    /// Waits for the other processes of this node. Returns how many were still running.
    fn linger(&mut self, status: EndStatus, pauses: &mut Pauses) -> u32 {
        let Some(roster) = self.roster.take() else {
            return 0;
        };
        let others = self.program.others();
        if roster.have_ended(others) {
            return 0;
        }
        // A launcher may kill this process while it waits.
        self.read_end(Some(status), 0, true);
        self.write_end();
        roster.wait(others, self.request.linger, |time| pauses.pause(time))
    }

    /// Starts to read some counters again and again, if the request has it.
    fn sample(&self) -> Option<CounterSampler> {
        let interval = self.request.interval?;
        let (node, devices) = (self.program.node(), self.nics.devices());
        let started = match &self.directory {
            Some(directory) => {
                let path = directory.series();
                CounterSampler::start(node, &devices, &self.machine, interval, &path)
            }
            None => Err(io::ErrorKind::NotFound.into()),
        };
        started.map_err(|error: io::Error| note(&format!("--interval: no series: {error}"))).ok()
    }

    /// Reports this node, or all nodes of the program if this one is the first.
    fn report(&self, documents: &output::ReportFiles, pauses: &mut Pauses) {
        let gathered = self.directory.as_ref().filter(|_| self.is_gathered());
        let Some(directory) = gathered else {
            let series = self.directory.as_ref().map(StepDirectory::series);
            let series = series.filter(|path| path.exists());
            let series = series.iter().filter_map(|path| gather::one_series(path));
            output::report_node(self.request, &self.record, series.collect(), documents);
            // Other nodes have files, too: they are for --merge.
            if self.directory.is_none() || !self.program.has_other_nodes() {
                self.remove_files();
            }
            return;
        };
        if !self.program.is_first_node() {
            return;
        }
        let usual = || gather::default_wait(self.record.elapsed().unwrap_or_default());
        let at_most = self.request.gather.unwrap_or_else(usual);
        let pause = |time| pauses.pause(time);
        let gathered = gather::all_nodes(directory.path(), &self.record, at_most, pause);
        let is_complete = gathered.is_complete;
        for line in &gathered.notes {
            note(line);
        }
        let series = gather::series(directory.path());
        let mut job = JobStat::of(gathered.nodes, gathered.missing).with_series(series);
        if !is_complete {
            job = job.with_directory(directory.path().display().to_string());
        }
        output::report(self.request, &job, documents);
        if is_complete && !self.request.is_kept {
            directory.remove_all(&gathered.files);
        }
    }

    /// Whether one node reports what all have read.
    fn is_gathered(&self) -> bool {
        self.program.has_other_nodes() && self.request.is_gathered
    }

    /// Waits for the end of the command, and passes signals on to it.
    fn wait(&mut self, child: &mut Child) -> EndStatus {
        let mut interim = None;
        while let Some(events) = &self.events {
            match events.next(interim) {
                Ok(received) if received.signal == Signal::CHILD.as_raw() => {
                    match child.try_wait() {
                        Ok(None) => {}
                        Ok(Some(status)) => return end_status(status),
                        Err(_) => break,
                    }
                }
                Ok(received) => {
                    if received.signal == Signal::TERM.as_raw() {
                        interim.get_or_insert_with(|| Instant::now() + in_effect(INTERIM));
                    }
                    self.forward(received, child);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.read_end(None, 0, true);
                    self.write_end();
                    // The next one is far away: an interim result is written once.
                    interim = Some(Instant::now() + Duration::from_secs(u32::MAX.into()));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        child.wait().map_or_else(
            |error| {
                note(&format!("cannot see how the command ended: {error}"));
                UNKNOWN_STATUS
            },
            end_status,
        )
    }

    /// Passes a signal on to the command, which has not been waited for yet.
    fn forward(&mut self, received: ReceivedSignal, child: &Child) {
        let forwarding = self.request.forwarding.unwrap_or_default();
        let signal = forwarding.signal(received, events::leads_session());
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (Some(signal), Some(pid)) = (signal, pid) else {
            return;
        };
        // `timeout` signals its child, and then the group of its child.
        thread::sleep(REPEATS);
        if let Some(events) = &self.events {
            events.drop_repeats(received.signal);
        }
        let is_for_all = forwarding == Forwarding::All;
        let has_reached_command = !is_for_all
            && shares_group(pid.as_raw_nonzero().get())
            && self.reaches_group(received.signal);
        if !has_reached_command {
            let _ = kill_process(pid, signal);
        }
    }

    /// Whether the other processes of the group get a signal as well. A launcher signals one after
    /// the other. A second copy of a signal that ends a program does no harm, so this one is not
    /// delayed.
    fn reaches_group(&mut self, signal: i32) -> bool {
        let delay = if events::is_ending(signal) { Duration::ZERO } else { GROUP_DELAY };
        let end = Instant::now() + delay;
        loop {
            let Some(Ok(signals)) = self.witness.as_mut().map(Witness::take) else {
                return false;
            };
            self.group_signals |= signals;
            let own = 1 << (signal - 1);
            if self.group_signals & own != 0 {
                self.group_signals &= !own;
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(POLL);
        }
    }

    /// Reads the counters for the last time, or before that if `is_interim`.
    fn read_end(&mut self, status: Option<EndStatus>, still_running: u32, is_interim: bool) {
        let now = Clocks::now();
        self.nics.end(&self.machine);
        for line in self.nics.notes.drain(..) {
            note(&line);
        }
        self.record.nics = self.nics.records();
        self.record.end = Some(EndRecord::new(now, status, is_interim, still_running));
    }

    /// Writes the readings for other nodes, and for what comes after the death of this process.
    fn write_end(&self) {
        let Some(directory) = &self.directory else {
            return;
        };
        if let Err(error) = directory.write_end(&self.record) {
            note(&format!("cannot write to {}: {error}", directory.path().display()));
        }
    }

    fn remove_files(&self) {
        if let Some(directory) = self.directory.as_ref().filter(|_| !self.request.is_kept) {
            directory.remove();
        }
    }
}

/// Bytes of a script that the kernel looks at.
const HEAD: u64 = 256;

/// Returns which interpreter a script needs that does not exist, if this is why the command `name`
/// could not be executed.
fn missing_interpreter(name: &OsStr, error: &io::Error) -> Option<String> {
    if error.kind() != ErrorKind::NotFound {
        return None;
    }
    let file = File::open(program_file(name)?).ok()?;
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    let line = head.strip_prefix("#!")?.split('\n').next()?;
    let interpreter = line.trim_start_matches([' ', '\t']).split([' ', '\t']).next()?;
    Some(match interpreter.strip_suffix('\r') {
        Some(interpreter) => format!(
            "its first line ends in a carriage return, so its interpreter '{interpreter}' is not \
             found: convert the file with dos2unix"
        ),
        None => format!("its interpreter '{interpreter}' does not exist"),
    })
}

/// The file that is executed for a name.
fn program_file(name: &OsStr) -> Option<PathBuf> {
    if name.to_string_lossy().contains('/') {
        return Some(name.into());
    }
    let directories = env::var_os("PATH")?;
    let mut paths = env::split_paths(&directories).map(|directory| directory.join(name));
    paths.find(|path| path.is_file())
}

/// Exit statuses for a command that does not exist or cannot be executed, as shells have them.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// The status for a command whose status the system does not show.
const UNKNOWN_STATUS: EndStatus = EndStatus::Exit(1);

/// What shells add to the number of a signal.
const SIGNAL_STATUS: i32 = 128;

/// Time for a launcher to read the report before a signal ends this process: srun drops what it has
/// not read by then.
const LAST_LINES: Duration = Duration::from_millis(100);

/// Returns how a command has ended.
fn end_status(status: ExitStatus) -> EndStatus {
    match status.signal() {
        Some(signal) => EndStatus::Signal(signal),
        None => EndStatus::Exit(status.code().unwrap_or_default()),
    }
}

/// The exit status for a command that could not be executed.
fn not_executed(error: &io::Error) -> i32 {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR) => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}

/// Ends this process as the command has ended: with its exit status, or by its signal, so that a
/// launcher sees the same. Writes no core: the command has.
fn end_as(status: EndStatus) -> ! {
    let signal = match status {
        EndStatus::Exit(code) => process::exit(code),
        EndStatus::Signal(signal) => signal,
    };
    thread::sleep(LAST_LINES);
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // A program that the kernel starts for cores gets one whatever the limit is.
    let is_dumpable = set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err();
    if setrlimit(Resource::Core, none).is_ok() && !is_dumpable {
        // Returns only if the signal is unknown or does not end a process.
        let _ = raise_with_default_action(signal);
    }
    process::exit(SIGNAL_STATUS + signal)
}
