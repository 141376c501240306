//! A fixed number of hostile inputs for the decoders of what a peer sends, on the stable toolchain.
//! `tests/fuzz` runs them under libFuzzer.

#[path = "../fuzz/src/input.rs"]
mod input;

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::legacy::block;
use plan::tools::peer_tools;
use session::dry_run::DryRunResult;

/// Inputs derived from each file of the corpus.
const MUTANTS: u64 = 1000;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus")
}

/// What a legacy tool and cxidiag send from the first byte to the ready barrier, for each tool, as
/// inputs for either side.
fn exchanges() -> Vec<(String, Vec<u8>)> {
    let mut exchanges = Vec::new();
    for (number, tool) in peer_tools().iter().enumerate() {
        for (peer, more) in [("legacy", ""), ("cxidiag", " cxidiag/0.1.0 vni=10 host=x name=node1")]
        {
            // A side without chains is refused.
            let has_chains = tool.defaults.extensions.hops > 0;
            if has_chains && peer == "legacy" {
                continue;
            }
            let chains = if has_chains { " can=hops run=hops:64" } else { "" };
            let text = |text: &str| [text.as_bytes(), b"\0"].concat();
            let payloads = [
                text(tool.legacy_name),
                text(&format!("{}{more}{chains}", tool.wire_version)),
                block(tool.name, ""),
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

/// `CXIDIAG_UPDATE_CORPUS=1 cargo test --test connection hostile_bytes` writes the corpus.
#[test]
fn corpus_holds_valid_exchanges() {
    for (name, input) in exchanges() {
        let file = corpus().join(&name);
        if std::env::var_os("CXIDIAG_UPDATE_CORPUS").is_some() {
            fs::write(&file, &input).expect("a writable corpus");
        }
        assert_eq!(fs::read(&file).expect(&name), input, "{name}");
        let verdict = input::check(&input);
        assert!(matches!(verdict, Some(DryRunResult::Agreed(_))), "{name}: {verdict:?}");
    }
}

/// A xorshift generator: the same inputs in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    /// A byte, often an extreme value.
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
                // Copies what another input has at this place.
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
fn t27_survives_any_bytes() {
    let files = fs::read_dir(corpus()).expect("the corpus");
    let mut paths: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a file")).collect();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let [mut waits, mut refused, mut agreed] = [0_u64; 3];
    for seed in &seeds {
        for _ in 0..MUTANTS {
            let mut input = seed.clone();
            for _ in 0..=dice.below(4) {
                dice.mutate(&mut input, &seeds);
            }
            match input::check(&input) {
                Some(DryRunResult::Refused(_)) => refused += 1,
                Some(DryRunResult::Agreed(_)) => agreed += 1,
                _ => waits += 1,
            }
        }
    }
    println!("{waits} incomplete, {refused} refused, {agreed} accepted");
    // Some inputs of each kind get past the first check.
    assert!([waits, refused, agreed].iter().all(|count| *count > 500));
}
