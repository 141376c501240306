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

/// The refusals of a server since its start. Other threads read them.
#[derive(Debug, Default)]
pub struct Totals {
    /// Connections that no client has made.
    pub unrelated: AtomicU64,
    /// Clients.
    pub clients: AtomicU64,
}

/// The refusals of one wait.
pub struct RefusalLog<'a> {
    program: &'a str,
    out: &'a mut dyn Write,
    totals: Arc<Totals>,
    unrelated: u64,
    clients: u64,
}

impl<'a> RefusalLog<'a> {
    /// Creates the log of `program` on `out`. Without a program, the lines begin with the text.
    pub fn new(program: &'a str, out: &'a mut dyn Write) -> Self {
        Self {
            program,
            out,
            totals: Arc::default(),
            unrelated: 0,
            clients: 0,
        }
    }

    /// Returns the log, which also counts in `totals`.
    pub fn counting_in(self, totals: Arc<Totals>) -> Self {
        Self { totals, ..self }
    }

    /// Logs the refusal of `peer`. Unrelated connections and clients are counted separately, so
    /// that a flood of the former does not hide the latter.
    pub fn refused(&mut self, peer: SocketAddr, refusal: &Refusal) {
        let (count, kind, text) = match refusal {
            Refusal::Unrelated(reason) => {
                self.unrelated += 1;
                self.totals.unrelated.fetch_add(1, Ordering::Relaxed);
                let text = format!("ignored a connection from {peer}: {reason}");
                (self.unrelated, "connections", text)
            }
            Refusal::Failed(failure) | Refusal::Busy(failure) => {
                self.clients += 1;
                self.totals.clients.fetch_add(1, Ordering::Relaxed);
                let text = match &failure.hint {
                    Some(hint) => format!("refused a client: {failure}; {hint}"),
                    None => format!("refused a client: {failure}"),
                };
                (self.clients, "clients", text)
            }
        };
        if count <= SINGLY {
            self.print(&text);
            if count == SINGLY {
                self.print(&format!("further {kind} are only counted"));
            }
        } else if count.is_multiple_of(SINGLY) && (count / SINGLY).is_power_of_two() {
            self.print(&format!("{text} ({count} {kind} so far)"));
        }
    }

    /// Prints the counts when a client is served, and begins to count anew.
    pub fn served(&mut self) {
        for (count, kind) in [(self.unrelated, "connections"), (self.clients, "clients")] {
            if count > SINGLY {
                self.print(&format!("refused {count} {kind} before this client"));
            }
        }
        (self.unrelated, self.clients) = (0, 0);
    }

    /// Prints a line with one write, so that lines of several processes do not mix. Errors are
    /// ignored.
    fn print(&mut self, text: &str) {
        let line = match self.program {
            "" => format!("{text}\n"),
            program => format!("{program}: {text}\n"),
        };
        let _ = self.out.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Failure;

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
    fn counts_flood_of_refusals() {
        let text = logged(1_000_000, 1);
        assert!(text.lines().count() < 45, "{text}");
        assert!(text.contains("(640 connections so far)\n"), "{text}");
        assert!(text.contains("refused a client: different tools"), "{text}");
        assert!(
            text.ends_with(": refused 1000000 connections before this client\n"),
            "{text}"
        );
    }
}
