//! The lines that a server prints about refused connections, limited in number so that a flood of
//! connections does not fill a disk.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::handshake::Refusal;

/// Number of refusals that are printed one by one. Later ones are counted, and the count is printed
/// whenever it has doubled.
const SINGLY: u64 = 20;

/// The counts of a server of all tools since its start, in several threads.
#[derive(Debug, Default)]
pub struct ServerTotals {
    /// Unrelated connections.
    pub unrelated: AtomicU64,
    /// Refused clients.
    pub clients: AtomicU64,
    /// Runs that are done.
    pub runs: AtomicU64,
}

/// Limits the lines about events of one kind, such as `clients`: the first `SINGLY` are printed,
/// later ones counted.
#[derive(Debug)]
pub struct LineLimit {
    kind: &'static str,
    count: u64,
}

impl LineLimit {
    /// Creates the limit for events of this kind.
    pub fn new(kind: &'static str) -> Self {
        Self { kind, count: 0 }
    }

    /// Counts an event that `text` describes, and passes the lines to print to `print`.
    pub fn add(&mut self, text: &str, mut print: impl FnMut(&str)) {
        self.count += 1;
        let Self { kind, count } = *self;
        if count <= SINGLY {
            print(text);
            if count == SINGLY {
                print(&format!("further {kind} are only counted"));
            }
        } else if count.is_multiple_of(SINGLY) && (count / SINGLY).is_power_of_two() {
            print(&format!("{text} ({count} {kind} so far)"));
        }
    }

    /// Passes the count to `print` if a client is served after lines that were not printed, and
    /// begins to count anew.
    pub fn served(&mut self, mut print: impl FnMut(&str)) {
        let Self { kind, count } = *self;
        if count > SINGLY {
            print(&format!("refused {count} {kind} before this client"));
        }
        self.count = 0;
    }
}

/// The refusals of one wait.
pub struct RefusalLog<'a> {
    program: &'a str,
    out: &'a mut dyn Write,
    unrelated: LineLimit,
    clients: LineLimit,
    totals: Arc<ServerTotals>,
    /// Number of runs done at the last refusal.
    runs: u64,
}

impl<'a> RefusalLog<'a> {
    /// Creates the log of `program` on `out`. Without a program, the lines begin with the text.
    pub fn new(program: &'a str, out: &'a mut dyn Write) -> Self {
        Self {
            program,
            out,
            unrelated: LineLimit::new("connections"),
            clients: LineLimit::new("clients"),
            totals: Arc::default(),
            runs: 0,
        }
    }

    /// The log, which also counts in `totals`, and counts anew after each run.
    pub fn counting_in(self, totals: Arc<ServerTotals>) -> Self {
        Self { totals, ..self }
    }

    /// Logs the refusal of `peer`. Unrelated connections and clients are counted separately, so
    /// that a flood of unrelated connections does not hide a refused client.
    pub fn refused(&mut self, peer: SocketAddr, refusal: &Refusal) {
        let runs = self.totals.runs.load(Ordering::Relaxed);
        if runs != self.runs {
            self.runs = runs;
            self.served();
        }
        // In the log of a server of all tools, each line begins with the address.
        let is_of_all_tools = self.program.is_empty();
        let (limit, total, text) = match refusal {
            Refusal::Unrelated(reason) => {
                let text = if is_of_all_tools {
                    format!("{peer} ignored: {reason}")
                } else {
                    format!("ignored a connection from {peer}: {reason}")
                };
                (&mut self.unrelated, &self.totals.unrelated, text)
            }
            Refusal::Failed(failure) | Refusal::Busy(failure) => {
                let hint = failure.hint.as_ref();
                let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
                let text = if is_of_all_tools {
                    format!("{peer} refused: {failure}{hint}")
                } else {
                    format!("refused a client: {failure}{hint}")
                };
                (&mut self.clients, &self.totals.clients, text)
            }
        };
        total.fetch_add(1, Ordering::Relaxed);
        limit.add(&text, |text| print(self.program, self.out, text));
    }

    /// Prints the counts when a client is served, and begins to count anew.
    pub fn served(&mut self) {
        for limit in [&mut self.unrelated, &mut self.clients] {
            limit.served(|text| print(self.program, self.out, text));
        }
    }
}

/// Prints a line with one write, so that lines of several processes do not mix. Errors are ignored.
fn print(program: &str, out: &mut dyn Write, text: &str) {
    let line = match program {
        "" => format!("{text}\n"),
        program => format!("{program}: {text}\n"),
    };
    let _ = out.write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::error::Failure;

    fn logged(unrelated: u64, clients: u64) -> String {
        let mut out = Vec::new();
        let mut refusals = RefusalLog::new("cxidiag write-lat", &mut out);
        let peer = "10.1.1.8:4711".parse().unwrap();
        for _ in 0..unrelated {
            refusals.refused(peer, &Refusal::Unrelated("no message".into()));
        }
        for _ in 0..clients {
            let failure = Failure::environment("different tools").with_hint("start the same");
            refusals.refused(peer, &Refusal::Failed(failure));
        }
        refusals.served();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn logs_first_refusals_one_by_one() {
        assert_eq!(
            logged(1, 1),
            "cxidiag write-lat: ignored a connection from 10.1.1.8:4711: no message\n\
             cxidiag write-lat: refused a client: different tools; start the same\n"
        );
        assert_eq!(logged(19, 19).lines().count(), 38);
        assert_eq!(logged(0, 0), "");
    }

    #[test]
    fn server_of_all_tools_counts_anew_after_a_run() {
        let mut out = Vec::new();
        let totals = Arc::new(ServerTotals::default());
        let mut refusals = RefusalLog::new("", &mut out).counting_in(totals.clone());
        let peer = "10.1.1.8:4711".parse().unwrap();
        for _ in 0..2 {
            for _ in 0..30 {
                refusals.refused(peer, &Refusal::Unrelated("no message".into()));
            }
            totals.runs.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(totals.unrelated.load(Ordering::Relaxed), 60);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("10.1.1.8:4711 ignored: no message").count(), 40, "{text}");
        let count = "refused 30 connections before this client\n";
        assert_eq!(text.matches(count).count(), 1, "{text}");
    }

    #[test]
    fn counts_flood_of_refusals() {
        let text = logged(1_000_000, 1);
        assert!(text.lines().count() < 45, "{text}");
        assert!(text.contains("(640 connections so far)\n"), "{text}");
        assert!(text.contains("refused a client: different tools"), "{text}");
        assert!(text.ends_with(": refused 1000000 connections before this client\n"), "{text}");
    }
}
