//! What a server says about the connections that it does not serve: a line each, but never so
//! many that a flood of them fills a disk.

use std::io::Write;
use std::net::SocketAddr;

use super::handshake::Refusal;

/// So many are told of one by one. Later ones are counted, and their number is told whenever it has doubled.
const SINGLY: u64 = 20;

/// The refusals of one wait.
pub struct RefusalLog<'a> {
    program: &'a str,
    out: &'a mut dyn Write,
    strangers: u64,
    clients: u64,
}

impl<'a> RefusalLog<'a> {
    /// RefusalLog of `program`, on `out`.
    pub fn new(program: &'a str, out: &'a mut dyn Write) -> Self {
        Self {
            program,
            out,
            strangers: 0,
            clients: 0,
        }
    }

    /// A connection was refused. Strangers and clients count apart, so that a flood of the former
    /// does not hide the latter.
    pub fn refused(&mut self, peer: SocketAddr, refusal: &Refusal) {
        let (count, kind, text) = match refusal {
            Refusal::Unrelated(reason) => {
                self.strangers += 1;
                let text = format!("ignored a connection from {peer}: {reason}");
                (self.strangers, "connections", text)
            }
            Refusal::Failed(failure) => {
                self.clients += 1;
                let text = match &failure.hint {
                    Some(hint) => format!("refused a client: {failure}; {hint}"),
                    None => format!("refused a client: {failure}"),
                };
                (self.clients, "clients", text)
            }
        };
        if count <= SINGLY {
            self.say(&text);
            if count == SINGLY {
                self.say(&format!("further {kind} are only counted"));
            }
        } else if count.is_multiple_of(SINGLY) && (count / SINGLY).is_power_of_two() {
            self.say(&format!("{text} ({count} {kind} so far)"));
        }
    }

    /// A client is served: what has not been told of the others.
    pub fn served(&mut self) {
        for (count, kind) in [(self.strangers, "connections"), (self.clients, "clients")] {
            if count > SINGLY {
                self.say(&format!("refused {count} {kind} before this client"));
            }
        }
    }

    /// In one piece, so that lines of several processes do not mix. Nobody could be told that it
    /// failed.
    fn say(&mut self, text: &str) {
        let line = format!("{}: {text}\n", self.program);
        let _ = self.out.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Failure;

    fn told(strangers: u64, clients: u64) -> String {
        let mut out = Vec::new();
        let mut refusals = RefusalLog::new("cxidiag write-lat", &mut out);
        let peer = "10.1.1.8:4711".parse().unwrap();
        for _ in 0..strangers {
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
    fn a_few_are_told_of_one_by_one() {
        assert_eq!(
            told(1, 1),
            "cxidiag write-lat: ignored a connection from 10.1.1.8:4711: no message\n\
             cxidiag write-lat: refused a client: different tools; start the same\n"
        );
        assert_eq!(told(19, 19).lines().count(), 38);
        assert_eq!(told(0, 0), "");
    }

    #[test]
    fn a_flood_is_counted() {
        let text = told(1_000_000, 1);
        assert!(text.lines().count() < 45, "{text}");
        assert!(text.contains("(640 connections so far)\n"), "{text}");
        assert!(text.contains("refused a client: different tools"), "{text}");
        assert!(
            text.ends_with(": refused 1000000 connections before this client\n"),
            "{text}"
        );
    }
}
