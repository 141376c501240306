//! Whether two cxidiag processes measure together: their batch jobs and tokens, and whether the
//! server is free. Each side announces its own with words behind its version; a legacy tool
//! announces none.

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::wire;
use facts::advice::{Advise, Situation};
use facts::error::Failure;
use facts::job::{self, Job};
use facts::token::{self, Token};
use plan::run_options::Side;

/// Longest number of a job on the control connection.
const MAX_JOB: usize = 80;

/// The client that a server measures with.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    /// Its host.
    pub client: IpAddr,
    /// When the session with it began.
    pub since: Instant,
}

impl Serving {
    /// The word for other clients, after a blank.
    pub fn word(&self) -> String {
        let (client, seconds) = (self.client, self.since.elapsed().as_secs());
        format!(" busy={}", Busy { client, seconds }.word())
    }
}

/// The job and the token of this side.
#[derive(Clone, Debug)]
pub struct Credentials {
    side: Side,
    /// The batch job as a word, unless any other will do.
    job: Option<String>,
    token: Option<Token>,
}

impl Credentials {
    /// Creates the credentials of this process as `side`.
    pub fn new(side: Side, wanted: &plan::Admission) -> Self {
        let job = Job::from_environment().filter(|_| !wanted.any_job);
        Self { side, job: job.as_ref().map(word), token: wanted.token.clone() }
    }

    /// The proof of the token, if there is one, for a peer that has announced `theirs`. A server
    /// proves its token only to a client that has proved it: from a proof, a short token can be
    /// guessed. Other clients receive the proof of a random token.
    pub fn proof(&self, theirs: Option<&Announced>) -> Option<String> {
        let token = self.token.as_ref()?;
        let [own, peers] = roles(self.side);
        let theirs = theirs.and_then(|theirs| theirs.proof.as_ref());
        let is_proved = theirs.is_some_and(|proof| token.confirms(proof, peers));
        Some(match self.side {
            Side::Server if !is_proved => Token::random().proof(own),
            _ => token.proof(own),
        })
    }

    /// The words with the job and `proof`, each after a blank.
    pub fn words(&self, proof: Option<&str>) -> String {
        let job = self.job.as_ref().map(|job| format!(" job={job}"));
        let proof = proof.map(|proof| format!(" token={proof}"));
        [job, proof].into_iter().flatten().collect()
    }

    /// The next message of a client that has admitted a server: a proof that it has the token, for
    /// this connection alone. `None` without a token, and for a server of an older release.
    pub fn answer(&self, server: &Announced) -> Option<String> {
        let challenge = server.proof.as_ref().filter(|_| server.answers())?;
        Some(self.token.as_ref()?.proof(&answering(challenge)))
    }

    /// Checks the answer of a client to the proof that this server has sent it.
    ///
    /// # Errors
    ///
    /// Another answer.
    pub fn check(&self, answer: &[u8], proof: &str, peer: SocketAddr) -> Result<(), Failure> {
        let answer = wire::parse_string(answer).unwrap_or_default();
        if self.token.as_ref().is_some_and(|token| token.confirms(answer, &answering(proof))) {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "the client ({peer}) has not proved its token for this connection: its first proof may \
             be a copy of another client's"
        )))
    }

    /// Checks that the `peer` has the job and the token of this side.
    ///
    /// # Errors
    ///
    /// Another job, and a token that differs or that only one side has.
    pub fn admit(&self, theirs: &Announced, peer: SocketAddr) -> Result<(), Failure> {
        let [_, peers_role] = roles(self.side);
        let differ = match (&self.token, &theirs.proof) {
            (None, None) => None,
            (Some(token), Some(proof)) if token.confirms(proof, peers_role) => None,
            (Some(_), Some(_)) => Some("set here, another one"),
            (Some(_), None) => Some("set here, not set"),
            (None, Some(_)) => Some("not set here, set"),
        };
        if let Some(differ) = differ {
            let failure = format!("tokens differ: {differ} at the peer ({peer})");
            return Err(Failure::environment(failure).advised(Situation::OtherToken));
        }
        match (&self.job, &theirs.job) {
            (Some(own), Some(other)) if own != other => Err(Failure::environment(format!(
                "different jobs: {} here, {} at the peer ({peer})",
                shown(own),
                shown(other)
            ))
            .advised(Situation::OtherJob)),
            _ => Ok(()),
        }
    }
}

/// The announcement of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    job: Option<String>,
    proof: Option<String>,
    /// The client that the server measures with, if it is busy.
    pub busy: Option<Busy>,
}

impl Announced {
    /// Nothing, as a legacy tool.
    pub const NOTHING: Self = Self { job: None, proof: None, busy: None };

    /// Whether it is a process with a token whose client answers the proof of its server.
    pub fn answers(&self) -> bool {
        self.proof.as_deref().is_some_and(token::answers)
    }

    /// Takes the word `name=value` of the peer. Unknown words have no effect.
    pub fn take(&mut self, name: &str, value: &str) {
        match name {
            "job" => self.job = Some(value.chars().take(MAX_JOB).collect()),
            "token" => self.proof = Some(value.to_owned()),
            "busy" => self.busy = Busy::read(value),
            _ => {}
        }
    }
}

/// The client of a busy server: its host, and for how long the server has measured with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    client: IpAddr,
    seconds: u64,
}

impl Busy {
    fn word(self) -> String {
        format!("{}:{}", self.seconds, self.client)
    }

    fn read(word: &str) -> Option<Self> {
        let (seconds, client) = word.split_once(':')?;
        Some(Self { client: client.parse().ok()?, seconds: seconds.parse().ok()? })
    }
}

impl Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "busy: serving {} for {} s", self.client, self.seconds)
    }
}

/// The roles of a side and of its peer.
fn roles(side: Side) -> [&'static str; 2] {
    match side {
        Side::Client => ["client", "server"],
        Side::Server => ["server", "client"],
    }
}

/// The role of a client that answers the `proof` of its server.
fn answering(proof: &str) -> String {
    format!("client of {proof}")
}

/// A job as one word in ASCII: ƒ, with which the numbers of Flux begin (jobs.md 2.1), becomes f.
fn word(job: &Job) -> String {
    let plain = |c: char| match c {
        '\u{192}' => 'f',
        c if c.is_ascii_graphic() => c,
        _ => '?',
    };
    let all = job.manager.chars().chain([':']).chain(job.id.chars());
    all.map(plain).take(MAX_JOB).collect()
}

/// The job of a word for messages.
fn shown(word: &str) -> String {
    match word.split_once(':') {
        Some((manager, id)) => format!("{} job {id}", job::label(manager)),
        None => format!("job {word}"),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    fn side(side: Side, job: Option<&str>, token: Option<&str>) -> Credentials {
        Credentials {
            side,
            job: job.map(str::to_owned),
            token: token.map(|text| Token::new(OsStr::new(text)).unwrap()),
        }
    }

    fn announced(words: &str) -> Announced {
        let mut announced = Announced::NOTHING;
        for word in words.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap();
            announced.take(name, value);
        }
        announced
    }

    /// The words that a side announces to a peer that has announced `theirs`.
    fn sent(side: &Credentials, theirs: Option<&Announced>) -> Announced {
        announced(&side.words(side.proof(theirs).as_deref()))
    }

    /// Why each of two sides refuses the other one.
    fn refusals(server: &Credentials, client: &Credentials) -> [Option<String>; 2] {
        let peer = SocketAddr::from(([10, 1, 1, 8], 1));
        let theirs = sent(client, None);
        let ours = sent(server, Some(&theirs));
        [(server, theirs), (client, ours)].map(|(own, other)| {
            let admitted = own.admit(&other, peer);
            admitted.err().map(|failure| failure.message())
        })
    }

    #[test]
    fn server_proves_token_only_after_client() {
        let server = side(Side::Server, None, Some("a"));
        let client = side(Side::Client, None, Some("a"));
        let guess = side(Side::Client, None, Some("b"));
        let peer = SocketAddr::from(([10, 1, 1, 8], 1));
        for (theirs, is_proved) in [
            (None, false),
            (Some(Announced::NOTHING), false),
            (Some(sent(&guess, None)), false),
            (Some(sent(&client, None)), true),
        ] {
            let ours = sent(&server, theirs.as_ref());
            assert_eq!(client.admit(&ours, peer).is_ok(), is_proved, "{theirs:?}");
        }
    }

    #[test]
    fn both_sides_refuse_different_jobs() {
        let server = side(Side::Server, Some("slurm:11"), None);
        let client = side(Side::Client, Some("slurm:12"), None);
        let [at_server, at_client] = refusals(&server, &client).map(Option::unwrap);
        assert_eq!(
            at_server,
            "different jobs: Slurm job 11 here, Slurm job 12 at the peer (10.1.1.8:1)"
        );
        assert_eq!(
            at_client,
            "different jobs: Slurm job 12 here, Slurm job 11 at the peer (10.1.1.8:1)"
        );
    }

    #[test]
    fn admits_same_job_and_processes_outside_of_jobs() {
        for (server, client) in [
            (Some("slurm:11"), Some("slurm:11")),
            (Some("slurm:11"), None),
            (None, Some("pbs:11")),
            (None, None),
        ] {
            let server = side(Side::Server, server, None);
            let client = side(Side::Client, client, None);
            assert_eq!(refusals(&server, &client), [None, None]);
        }
    }

    #[test]
    fn both_sides_compare_tokens() {
        for (server, client, expected) in [
            (None, None, None),
            (Some("a"), Some("a"), None),
            (Some("a"), Some("b"), Some(["set here, another one"; 2])),
            (Some("a"), None, Some(["set here, not set", "not set here, set"])),
            (None, Some("a"), Some(["not set here, set", "set here, not set"])),
        ] {
            let server = side(Side::Server, None, server);
            let client = side(Side::Client, None, client);
            match (refusals(&server, &client), expected) {
                ([None, None], None) => {}
                ([Some(first), Some(second)], Some([one, other])) => {
                    let expected =
                        |differ: &str| format!("tokens differ: {differ} at the peer (10.1.1.8:1)");
                    assert_eq!([first, second], [one, other].map(expected));
                }
                (refusals, _) => panic!("{refusals:?}"),
            }
        }
    }

    /// A peer that returns the words of this side has no token.
    #[test]
    fn refuses_own_proof() {
        let own = side(Side::Client, None, Some("a"));
        let reflected = sent(&own, None);
        let peer = SocketAddr::from(([10, 1, 1, 8], 1));
        assert!(own.admit(&reflected, peer).is_err());
    }

    #[test]
    fn announces_served_client_of_each_address_family() {
        for client in ["10.1.1.8", "fe80::1"] {
            let serving = Serving { client: client.parse().unwrap(), since: Instant::now() };
            let busy = announced(&serving.word()).busy.unwrap();
            assert_eq!(busy.to_string(), format!("busy: serving {client} for 0 s"));
        }
        for word in ["", "3", "3:", ":10.1.1.8", "x:10.1.1.8", "3:node1"] {
            assert_eq!(Busy::read(word), None, "{word}");
        }
    }

    #[test]
    fn job_is_one_word_in_ascii() {
        for (manager, id, expected) in [
            ("slurm", "4711", "slurm:4711"),
            ("pbs", "17[3].head", "pbs:17[3].head"),
            ("flux", "\u{192}2Xa", "flux:f2Xa"),
            ("pbs", "a b\n\u{e9}", "pbs:a?b??"),
        ] {
            let (manager, id) = (manager.into(), id.to_owned());
            assert_eq!(word(&Job { manager, id }), expected);
        }
    }

    proptest! {
        #[test]
        fn takes_any_word_without_panic(name in "job|token|busy", value in "\\PC{0,120}") {
            let mut announced = Announced::NOTHING;
            announced.take(&name, &value);
            let own = side(Side::Client, Some("slurm:1"), Some("a"));
            prop_assert!(own.admit(&announced, SocketAddr::from(([10, 1, 1, 8], 1))).is_err());
        }
    }
}
