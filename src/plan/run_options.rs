//! The options of a run, on which both sides agree: the client sends its options to the server.
//!
//! Typed options and a client's options are checked by the same rules ([`RunOptions::checked`]).

use std::iter;
use std::time::Duration;

use cxi::HugePage;

use crate::depths::{Depths, Row};
pub use crate::extensions::DURATIONS;
use crate::extensions::Extensions;
use facts::atomic::{Atomic, AtomicOp};
use facts::error::{Failure, Invalid, invalid};
use facts::number::{is_range, is_size, time_text};
use facts::rate::{Period, Rate};

/// Maximum pause after an iteration in microseconds: in nanoseconds it fits into 64 bits.
pub const MAX_GAP_US: u64 = u64::MAX / 1000;

/// Maximum number of iterations with `--report-all`: 8 GB of samples.
pub const MAX_REPORT_ALL: u64 = 1_000_000_000;

/// Maximum number of operations in a list: this many of the largest commands fit into the largest
/// queue (tools.md 2.2).
pub const MAX_LIST_SIZE: u16 = 16382;

/// Maximum spacing of operations in a buffer, in bytes.
pub const MAX_ALIGNMENT: u64 = 1 << 32;

/// Maximum data of a packet in bytes (nic.md 3.10.1).
const MAX_PACKET: u64 = 2048;

/// Maximum size of a high-rate put in bytes: one packet (nic.md 3.11).
pub const MAX_HRP_SIZE: u64 = MAX_PACKET;

/// Longest time between two starts of a run with a rate, in nanoseconds: an hour.
const MAX_PERIOD_NS: u64 = 3_600_000_000_000;

/// Description of valid sizes, for messages.
pub const SIZES: &str = "expected MIN or MIN:MAX in bytes, such as 8, 64K or 1:1M; 1 to 4294967295 (4G - 1), MIN <= MAX, both powers of 2 in a range";

/// Description of valid sizes of bandwidth tools, for messages.
pub const RANGES: &str = "expected MIN or MIN:MAX in bytes, such as 8, 64K or 1:1M; 1 to 4294967295 (4G - 1), MIN <= MAX, with a power of 2 in a range";

/// One of the two processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The process that serves a client.
    Server,
    /// The process that connects to a server and measures.
    Client,
}

/// The options that the client sets for both sides (tools.md 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Measured iterations per size, without a duration: at least 1.
    pub iters: u64,
    /// Seconds per size, at least 1, rounded up as the option block has them; replaces `iters`. The
    /// exact time is [`Self::duration`].
    pub duration_s: Option<u32>,
    /// Unmeasured iterations before each size.
    pub warmup: u64,
    /// Pause after each iteration in microseconds: 0 to [`MAX_GAP_US`].
    pub gap_us: u64,
    /// First size in bytes: 1 to [`facts::number::MAX_SIZE`]. In an atomic tool both sizes are the
    /// size of the type.
    pub min_size: u64,
    /// Upper end of the sizes in bytes: `min_size` to [`facts::number::MAX_SIZE`].
    pub max_size: u64,
    /// Unrestricted (ordered) operations.
    pub unrestricted: bool,
    /// Immediate data commands for sizes that fit.
    pub use_idc: bool,
    /// High-rate puts for operations that can be (tools.md 4.3).
    pub use_hrp: bool,
    /// Low-latency command issue for commands that fit.
    pub use_ll: bool,
    /// Each sample is reported; never together with a duration (defect T8 of tools.md).
    pub report_all: bool,
    /// The operation, in the atomic tools.
    pub atomic: Option<Atomic>,
    /// Rendezvous puts, in the send tools; never together with immediate data commands.
    pub rdzv: bool,
    /// Huge pages of the buffers; `None` for ordinary pages.
    pub huge_page: Option<HugePage>,
    /// Where the sides of a two-sided latency run wait for each other.
    pub sync: SyncPoint,
    /// Lists and buffers, in the bandwidth tools.
    pub lists: Option<ListOptions>,
    /// Options that the legacy tools do not have.
    pub extensions: Extensions,
}

facts::named_enum! {
    /// Where the sides of a two-sided latency run wait for each other on the control connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SyncPoint {
        /// Before each size. Within a size, the messages themselves keep the sides in step.
        Size = "size",
        /// Before each iteration, as the legacy tools do.
        Iteration = "iteration",
    }
    impl Display;
}

/// The options of bandwidth tools only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// Operations per iteration: 1 to [`MAX_LIST_SIZE`].
    pub list_size: u16,
    /// Both sides issue operations.
    pub bidirectional: bool,
    /// Upper limit of a buffer in bytes: at least the largest size.
    pub max_buffer: u64,
    /// Spacing of the operations of a list in a buffer, in bytes: at least 1.
    pub alignment: u64,
}

impl ListOptions {
    /// The bytes from one operation of `size` bytes to the next in a buffer.
    pub fn step(&self, size: u64) -> u64 {
        size.next_multiple_of(self.alignment)
    }

    /// The length in bytes, before it is rounded up to pages, of a buffer for lists of operations
    /// of up to `max_size` bytes: the length of a whole list, up to the limit.
    pub fn buffer(&self, max_size: u64) -> u64 {
        let whole = self.step(max_size).saturating_mul(self.list_size.into());
        whole.min(self.max_buffer)
    }
}

impl RunOptions {
    /// Returns these options if all are valid.
    ///
    /// Typed options and a client's options are checked by the same rules (defect T27 of tools.md).
    ///
    /// # Errors
    ///
    /// The first option that is invalid.
    pub fn checked(mut self) -> Result<Self, Invalid> {
        if self.duration_s.is_some() {
            self.report_all = false;
        } else if self.iters == 0 {
            return Err(invalid("iters", "0", "at least 1 without --duration"));
        }
        if self.duration_s == Some(0) {
            return Err(invalid("duration", "0", "at least 1 second"));
        }
        if let Some(exact) = self.extensions.duration
            && self.duration_s != Some(whole_seconds(exact))
        {
            let allowed = "the number of seconds of the option block, rounded up";
            return Err(invalid("duration", time_text(exact), allowed));
        }
        if self.gap_us > MAX_GAP_US {
            return Err(invalid(
                "latency-gap",
                self.gap_us,
                format!("at most {MAX_GAP_US} microseconds"),
            ));
        }
        if let Some(atomic) = self.atomic {
            if !atomic.exists() {
                return Err(nonexistent(atomic));
            }
            self.min_size = atomic.ty.size();
            self.max_size = self.min_size;
        }
        let (min, max) = (self.min_size, self.max_size);
        let is_single = min == max && is_size(min);
        if !is_single && !is_range(min, max) {
            return Err(invalid("size", format!("{min}:{max}"), SIZES));
        }
        if let Some(lists) = self.lists {
            check_lists(lists, max)?;
        }
        if self.rdzv {
            self.use_idc = false;
        }
        self.check_extensions()?;
        Ok(self)
    }

    /// The time for each size, if one replaces the number of iterations.
    pub fn duration(&self) -> Option<Duration> {
        self.extensions.duration.or_else(|| Some(Duration::from_secs(self.duration_s?.into())))
    }

    /// Measures each size for `time`, which is within [`DURATIONS`].
    pub fn set_duration(&mut self, time: Duration) {
        self.duration_s = Some(whole_seconds(time));
        self.extensions.duration = Some(time).filter(|time| time.subsec_nanos() > 0);
    }

    fn check_extensions(&self) -> Result<(), Invalid> {
        let extensions = self.extensions.checked()?;
        let Extensions { pairs, reverse, hops, posted, unexpected, .. } = extensions;
        self.check_depths(posted, unexpected)?;
        if extensions.until_stopped {
            self.check_stop(&extensions)?;
        }
        if let Some(rate) = extensions.rate {
            self.check_rate(rate, hops)?;
        }
        match self.lists {
            None if pairs > 1 => Err(invalid("pairs", pairs, "expected 1 in a latency tool")),
            _ if pairs > 1 && self.rdzv => Err(invalid(
                "pairs",
                pairs,
                "expected 1 with --rdzv: all rendezvous messages of a process share one portals table entry",
            )),
            None if reverse => Err(invalid("reverse", "on", "only in a bandwidth tool")),
            _ if hops > 0 && !self.unrestricted && self.max_size > MAX_PACKET => Err(invalid(
                "size",
                self.max_size,
                format!(
                    "at most {MAX_PACKET} bytes with --restricted: a target may count each packet \
                     of a restricted put"
                ),
            )),
            Some(lists) if reverse && lists.bidirectional => Err(invalid(
                "reverse",
                "on",
                "not with --bidirectional, where both sides issue operations",
            )),
            _ => Ok(()),
        }
    }

    /// Checks the other options of a run that a signal ends.
    fn check_stop(&self, extensions: &Extensions) -> Result<(), Invalid> {
        let allowed = if self.min_size < self.max_size {
            "only with one size"
        } else if extensions.posted.is_range() || extensions.unexpected.is_range() {
            "only with one number of --posted or --unexpected"
        } else if extensions.reverse {
            "not with --reverse, where the server issues the operations"
        } else if self.duration() != Some(*DURATIONS.end()) {
            "only with the longest duration"
        } else if extensions.compare_write {
            "not with --compare-write, which measures after the chains"
        } else {
            return Ok(());
        };
        Err(invalid("until-stopped", "on", allowed))
    }

    fn check_rate(&self, rate: Rate, hops: u16) -> Result<(), Invalid> {
        if hops > 0 && matches!(rate, Rate::Bytes(_)) {
            return Err(invalid("rate", rate, "expected chains per second, such as 1000 op/s"));
        }
        match self.period(self.max_size) {
            Some(period) if period.nanoseconds() > MAX_PERIOD_NS => {
                let bytes = self.bytes(self.max_size);
                let allowed = format!("at least one iteration ({bytes} bytes) an hour");
                Err(invalid("rate", rate, allowed))
            }
            _ => Ok(()),
        }
    }

    /// Checks what stands on the lists beside sizes and kind of messages.
    fn check_depths(&self, posted: Depths, unexpected: Depths) -> Result<(), Invalid> {
        for (option, depths) in [("posted", posted), ("unexpected", unexpected)] {
            if depths.is_range() && self.min_size < self.max_size {
                let allowed = format!(
                    "expected one number with the sizes {}:{}: a row shows one range",
                    self.min_size, self.max_size
                );
                return Err(invalid(option, depths, allowed));
            }
        }
        if unexpected.is_used() && self.rdzv {
            let allowed = "not with --rdzv, whose receives also fetch the data";
            return Err(invalid("unexpected", unexpected, allowed));
        }
        Ok(())
    }

    /// The number of operations that one side has begun when each pair has begun an iteration.
    fn operations(&self) -> u64 {
        let list_size = self.lists.map_or(1, |lists| lists.list_size);
        u64::from(list_size) * u64::from(self.extensions.pairs)
    }

    /// The bytes of one iteration of all pairs with operations of `size` bytes.
    pub fn bytes(&self, size: u64) -> u64 {
        let Extensions { hops, fan, .. } = self.extensions;
        let puts = if fan > 0 { fan + 1 } else { hops.max(1) };
        size.saturating_mul(self.operations()).saturating_mul(puts.into())
    }

    /// The time between the intended starts of two consecutive lists, of all pairs together, in
    /// nanoseconds, if there is a rate.
    pub fn list_interval(&self, size: u64) -> Option<u64> {
        let period = self.period(size)?.nanoseconds();
        Some(period / u64::from(self.extensions.pairs))
    }

    /// The time between the intended starts of two consecutive iterations of one pair, if there is
    /// a rate.
    pub fn period(&self, size: u64) -> Option<Period> {
        let rate = self.extensions.rate?;
        Some(rate.period(size, self.operations()))
    }

    /// The extensions in which the peer must take part. One side alone keeps a rate and ends a size
    /// in time, unless the server issues operations as well. Of a run that a signal ends, only the
    /// server of a latency tool need not know.
    pub fn needed_of_server(&self) -> Extensions {
        let server_issues =
            self.extensions.reverse || self.lists.is_some_and(|lists| lists.bidirectional);
        Extensions {
            rate: self.extensions.rate.filter(|_| server_issues),
            duration: self.extensions.duration.filter(|_| server_issues),
            until_stopped: self.extensions.until_stopped && self.lists.is_some(),
            counters: None,
            ..self.extensions
        }
    }

    /// The extensions that the client keeps alone.
    pub fn kept_by_client(&self) -> Extensions {
        let needed = self.needed_of_server();
        let Extensions { rate, duration, until_stopped, counters, .. } = self.extensions;
        Extensions {
            rate: rate.filter(|_| needed.rate.is_none()),
            duration: duration.filter(|_| needed.duration.is_none()),
            until_stopped: until_stopped && !needed.until_stopped,
            counters,
            ..Extensions::NONE
        }
    }

    /// Returns these options if this side can keep the samples for `--report-all`. Only the client
    /// keeps samples.
    ///
    /// # Errors
    ///
    /// More iterations than samples can be kept.
    pub fn kept(self) -> Result<Self, Invalid> {
        if self.report_all && self.iters > MAX_REPORT_ALL {
            let allowed = format!("at most {MAX_REPORT_ALL} with --report-all");
            return Err(invalid("iters", self.iters, allowed));
        }
        Ok(self)
    }

    /// Returns lists and buffers. Each plan of a bandwidth tool has them.
    ///
    /// # Errors
    ///
    /// Options of a latency tool.
    pub fn lists(&self) -> Result<ListOptions, Failure> {
        self.lists.ok_or_else(|| Failure::environment("the run has no list size"))
    }

    /// Whether `side` issues lists in a bandwidth run: the client, or with `--reverse` the server,
    /// and both in a bidirectional run.
    pub fn issues(&self, side: Side) -> bool {
        let bidirectional = self.lists.is_some_and(|lists| lists.bidirectional);
        bidirectional || (side == Side::Client) != self.extensions.reverse
    }

    /// Whether `side` is the target of lists in a bandwidth run: where the other side issues them.
    pub fn is_target(&self, side: Side) -> bool {
        self.issues(match side {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        })
    }

    /// The atomic operation. Each plan of an atomic tool has one.
    ///
    /// # Errors
    ///
    /// Options of another tool.
    pub fn atomic(&self) -> Result<Atomic, Failure> {
        self.atomic.ok_or_else(|| Failure::environment("the run has no atomic operation"))
    }

    /// Whether immediate data commands are used: they do not reach matching entries (nic.md 11.6).
    pub fn idc(&self) -> Setting {
        if self.matching() {
            return Setting::NotApplicable;
        }
        self.use_idc.into()
    }

    /// Whether operations are restricted: those on matching entries are not (nic.md 11.6).
    pub fn restricted(&self) -> Setting {
        if self.matching() && !self.unrestricted {
            return Setting::NotApplicable;
        }
        (!self.unrestricted).into()
    }

    /// Whether high-rate puts are used, at least for the smallest size. They are restricted, fetch
    /// nothing, and are at most [`MAX_HRP_SIZE`] bytes long (tools.md 4.3). A switch acknowledges
    /// them before they are at the target (nic.md 3.11): too early for a check of the target's data
    /// or count.
    pub fn hrp(&self) -> Setting {
        let fetching = self.atomic.is_some_and(|atomic| atomic.fetching);
        let fits = self.min_size <= MAX_HRP_SIZE;
        let looks_at_target = self.extensions.verify || self.extensions.both_ends;
        let excluded = !self.restricted().is_on() || fetching || !fits || looks_at_target;
        if self.use_hrp && excluded {
            return Setting::NotApplicable;
        }
        self.use_hrp.into()
    }

    /// Whether the NIC may reorder its writes of a message: not with rendezvous (tools.md
    /// 3.4), and not if the data is checked. An event might overtake it.
    pub fn relaxes_writes(&self) -> bool {
        !self.rdzv && !self.extensions.verify
    }

    fn matching(&self) -> bool {
        self.atomic.is_some_and(|atomic| atomic.matching)
    }

    /// The rows to measure: each size, or each depth of a range at one size.
    pub fn rows(&self) -> impl Iterator<Item = Row> + use<> {
        let Extensions { posted, unexpected, .. } = self.extensions;
        let shown = |depths: Depths, depth| depths.is_used().then_some(depth);
        self.sizes().flat_map(move |size| {
            posted.values().flat_map(move |before| {
                unexpected.values().map(move |waiting| Row {
                    size,
                    posted: shown(posted, before),
                    unexpected: shown(unexpected, waiting),
                })
            })
        })
    }

    /// The sizes to run, in bytes: doubling from `min_size` up to `max_size`.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + use<> {
        let max = self.max_size;
        iter::successors(Some(self.min_size), |size| size.checked_mul(2))
            .take_while(move |size| *size <= max)
    }
}

facts::named_enum! {
    /// The state of an optional feature.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Setting {
        Enabled = "Enabled",
        /// Off, as requested.
        Disabled = "Disabled",
        /// Off, because another option excludes it.
        NotApplicable = "Disabled - Not Applicable",
    }
    impl Display;
}

impl Setting {
    pub fn is_on(self) -> bool {
        self == Self::Enabled
    }
}

impl From<bool> for Setting {
    fn from(enabled: bool) -> Self {
        if enabled { Self::Enabled } else { Self::Disabled }
    }
}

/// The seconds of a time, rounded up.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    seconds.try_into().unwrap_or(u32::MAX)
}

fn check_lists(lists: ListOptions, max_size: u64) -> Result<(), Invalid> {
    let ListOptions { list_size, max_buffer, alignment, .. } = lists;
    if !(1..=MAX_LIST_SIZE).contains(&list_size) {
        return Err(invalid("list-size", list_size, format!("1 to {MAX_LIST_SIZE}")));
    }
    if !(1..=MAX_ALIGNMENT).contains(&alignment) {
        return Err(invalid("buf-align", alignment, format!("1 to {MAX_ALIGNMENT} bytes")));
    }
    if max_buffer < max_size {
        let allowed = format!("at least the largest size, {max_size} bytes");
        return Err(invalid("buf-sz", max_buffer, allowed));
    }
    Ok(())
}

/// The error for an invalid combination of operation and type.
fn nonexistent(atomic: Atomic) -> Invalid {
    let (long, value) = match atomic.op {
        AtomicOp::Cswap => ("cswap-op", atomic.cswap.to_string()),
        op => ("atomic-op", op.to_string()),
    };
    let ty = atomic.ty;
    invalid(long, value, format!("{ty} supports only {}", ty.operations()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;

    #[test]
    fn all_sizes_are_powers_of_two_up_to_8_mib() {
        for option in ["-a", "--all-sizes"] {
            let sizes: Vec<u64> = plan("write-bw", &[option]).run.sizes().collect();
            let expected: Vec<u64> = (0..=23).map(|power| 1 << power).collect();
            assert_eq!(sizes, expected, "{option}");
        }
    }

    #[test]
    fn rows_are_sizes_or_depths() {
        let rows = |options: &[&str]| plan("send-lat", options).run.rows().collect::<Vec<_>>();
        let row = |size, posted, unexpected| Row { size, posted, unexpected };
        assert_eq!(rows(&["-s", "4:8"]), [row(4, None, None), row(8, None, None)]);
        let behind = [4, 8].map(|size| row(size, Some(9), None));
        assert_eq!(rows(&["-s", "4:8", "--posted=9"]), behind);
        let deeper = [0, 1, 2].map(|depth| row(8, Some(depth), None));
        assert_eq!(rows(&["--posted=0:2"]), deeper);
        let waiting = [2, 3].map(|depth| row(8, None, Some(depth)));
        assert_eq!(rows(&["--unexpected=2:3"]), waiting);
    }

    #[test]
    fn run_until_stopped_has_one_size_and_a_client_that_issues() {
        let stopped = |tool: &str, options: &[&str]| {
            let mut run = plan(tool, &[options, &["-D", "4294967295"]].concat()).run;
            run.extensions.until_stopped = true;
            run.checked()
        };
        let servers_that_must_know =
            [("write-lat", &[][..], false), ("send-lat", &[], false), ("write-bw", &["-b"], true)];
        for (tool, options, expected) in servers_that_must_know {
            let run = stopped(tool, options).unwrap();
            let [needed, alone] = [run.needed_of_server(), run.kept_by_client()];
            assert_eq!(
                [needed.until_stopped, alone.until_stopped],
                [expected, !expected],
                "{tool}"
            );
        }
        assert!(stopped("write-lat", &["-s", "1:8"]).is_err());
        assert!(stopped("write-bw", &["--reverse"]).is_err());
        let mut timed = plan("write-lat", &["-D", "1"]).run;
        timed.extensions.until_stopped = true;
        assert!(timed.checked().is_err());
    }

    /// tools.md 4.3
    #[test]
    fn high_rate_puts_are_restricted_small_and_fetch_nothing() {
        use Setting::{Disabled, Enabled, NotApplicable};
        for (tool, options, expected) in [
            ("write-bw", &["-s", "2048"][..], Enabled),
            ("write-bw", &["-s", "2048:4096"], Enabled),
            ("write-bw", &["-s", "2049"], NotApplicable),
            ("write-bw", &["-s", "8", "--unrestricted"], NotApplicable),
            ("write-bw", &["-s", "8", "--verify"], NotApplicable),
            ("write-bw", &["-s", "8", "--both-ends"], NotApplicable),
            ("write-bw", &["-s", "2049", "--no-hrp"], Disabled),
            ("atomic-bw", &[], Enabled),
            ("atomic-bw", &["--fetching"], NotApplicable),
            ("atomic-bw", &["--matching"], NotApplicable),
            ("atomic-bw", &["--unrestricted"], NotApplicable),
            ("atomic-bw", &["--no-hrp"], Disabled),
            ("read-bw", &["-s", "8"], Disabled),
            ("send-bw", &["-s", "8"], Disabled),
        ] {
            assert_eq!(plan(tool, options).run.hrp(), expected, "{tool} {options:?}");
        }
    }
}
