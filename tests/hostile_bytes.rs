//! A fixed number of hostile inputs for all that decodes what a peer sends, on the stable toolchain.
//! `tests/fuzz` is the same without an end.

#[path = "fuzz/src/input.rs"]
mod input;

use std::fs;
use std::path::{Path, PathBuf};

use cxidiag::session::dry_run::Verdict;
use cxidiag::tools::TOOLS;

/// Inputs made of each file of the corpus.
const MUTANTS: u64 = 4000;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus")
}

/// Option block of `cxi_write_lat` without options (wire.md 4.6): the part that is not zero.
const OPTIONS: [(usize, &[u8]); 8] = [
    (5, &[100]),
    (13, &[10]),
    (21, &[0xe8, 3]),
    (37, &[8]),
    (45, &[8]),
    (77, &[6]),
    (81, &[1]),
    (89, &[0x2a, 0xc0, 0xff]),
];

/// What a legacy peer of each tool sends from its first byte to the ready barrier, and what a
/// cxidiag does, as inputs for either side.
fn exchanges() -> Vec<(String, Vec<u8>)> {
    let mut exchanges = Vec::new();
    for (number, tool) in TOOLS.iter().enumerate() {
        let mut options = [0; 129];
        for (at, bytes) in OPTIONS {
            options[at..at + bytes.len()].copy_from_slice(bytes);
        }
        if tool.defaults.lists.is_some() {
            for (at, bytes) in [(33, [0, 1]), (37, [0, 4]), (45, [0, 4]), (69, [64, 0])] {
                options[at..at + 2].copy_from_slice(&bytes);
            }
            options[57] = 1;
        }
        if tool.defaults.atomic.is_some() {
            options[37] = 0;
            options[45] = 0;
            options[78] = 2;
            options[80] = 7;
            options[91] = 0;
        }
        for (peer, more) in [("legacy", ""), ("cxidiag", " cxidiag/0.1.0 vni=10 host=x")] {
            let text = |text: &str| [text.as_bytes(), b"\0"].concat();
            let payloads = [
                text(tool.legacy_name),
                text(&format!("{}{more}", tool.wire_version)),
                options.to_vec(),
                vec![0x13, 0, 0, 0, 1, 0, 0, 0],
                Vec::new(),
            ];
            for (role, name) in ["client", "server"].iter().enumerate() {
                let mut input = vec![(2 * number + role) as u8, 64];
                for payload in &payloads {
                    input.extend((payload.len() as u32).to_le_bytes());
                    input.extend(payload);
                }
                exchanges.push((format!("{peer}-{name}-of-{}", tool.name), input));
            }
        }
    }
    exchanges
}

/// `CXIDIAG_UPDATE_CORPUS=1 cargo test --test hostile_bytes` writes the corpus anew.
#[test]
fn the_corpus_holds_real_exchanges() {
    for (name, input) in exchanges() {
        let file = corpus().join(&name);
        if std::env::var_os("CXIDIAG_UPDATE_CORPUS").is_some() {
            fs::write(&file, &input).expect("a writable corpus");
        }
        assert_eq!(fs::read(&file).expect(&name), input, "{name}");
        let verdict = input::check(&input);
        assert!(
            matches!(verdict, Some(Verdict::Agreed(_))),
            "{name}: {verdict:?}"
        );
    }
}

/// Xorshift: the same inputs in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    /// A byte, more often than not one at the edge of something.
    fn byte(&mut self) -> u8 {
        let any = self.below(256) as u8;
        [0, 1, 0x7f, 0x80, 0xff, any, any, any][self.below(8)]
    }

    /// Changes an input in one place.
    fn mutate(&mut self, input: &mut Vec<u8>, others: &[Vec<u8>]) {
        let at = self.below(input.len());
        match self.below(6) {
            0 => input[at] = self.byte(),
            1 => input[at] ^= 1 << self.below(8),
            2 => input.insert(at, self.byte()),
            3 => drop(input.remove(at)),
            4 => input.truncate(at.max(2)),
            _ => {
                // What another one has at this place.
                let other = &others[self.below(others.len())];
                let end = (at + self.below(140)).min(other.len()).min(input.len());
                if at < end {
                    input[at..end].copy_from_slice(&other[at..end]);
                }
            }
        }
        if input.len() < 3 {
            input.resize(3, 0);
        }
    }
}

#[test]
fn t27_no_bytes_do_harm() {
    let files = fs::read_dir(corpus()).expect("the corpus");
    let mut paths: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| fs::read(path).expect("a file"))
        .collect();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let [mut waits, mut refused, mut agreed] = [0_u64; 3];
    for seed in &seeds {
        for _ in 0..MUTANTS {
            let mut input = seed.clone();
            for _ in 0..=dice.below(4) {
                dice.mutate(&mut input, &seeds);
            }
            match input::check(&input) {
                Some(Verdict::Refused(_)) => refused += 1,
                Some(Verdict::Agreed(_)) => agreed += 1,
                _ => waits += 1,
            }
        }
    }
    println!("{waits} would be waited for, {refused} refused, {agreed} agreed with");
    // Inputs that never get past the first check would prove nothing.
    assert!([waits, refused, agreed].iter().all(|count| *count > 1000));
}
