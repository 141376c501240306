//! Reads a fabric from a file or from the short form.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::description::Topology;
use crate::dragonfly::Dragonfly;
use crate::items::Draft;

/// Largest file, in bytes.
const LARGEST_FILE: u64 = 256 << 20;

/// How the short form starts.
const SHORT: &str = "dragonfly:";

impl Topology {
    /// Reads the fabric that a value of the variable stands for: the items of the short form,
    /// `dragonfly:groups=4,switches=2,nics=2;route minimal`, or the file with this name.
    ///
    /// # Errors
    ///
    /// One line that names the file and its line, or the item of the short form, and the word that
    /// is wrong.
    pub fn from_variable(value: &str) -> Result<Self, String> {
        if let Some(rest) = value.strip_prefix(SHORT) {
            return short_form(value, rest);
        }
        let text = text_of(value.as_ref()).map_err(|error| format!("{value}: {error}"))?;
        Self::from_file(value, text.trim_start_matches('\u{feff}'))
    }

    /// Reads the fabric in the file `name` with this text: one item on each line. A word that
    /// starts with `#` begins a comment.
    ///
    /// # Errors
    ///
    /// One line that names the file, its line and the word that is wrong.
    pub fn from_file(name: &str, text: &str) -> Result<Self, String> {
        let mut draft = Draft::default();
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> =
                line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            draft.add(&words).map_err(|error| format!("{name}: line {number}: {error}"))?;
        }
        let fabric = draft.finish(name);
        fabric.map_err(|error| format!("{name}: {error}"))
    }
}

impl Dragonfly {
    /// The dragonfly of the short form, of any size, if its other items add or change no switches,
    /// NICs and links. `None` for a file, and for another fabric.
    pub fn from_variable(value: &str) -> Option<Self> {
        let mut items = value.strip_prefix(SHORT)?.split(';');
        let words: Vec<&str> = items.next()?.split(',').collect();
        let is_regular = |item: &str| {
            let name = item.split_whitespace().next();
            !matches!(name, Some("switch" | "nic" | "link"))
        };
        let found = Self::read(&words, &mut 0).ok()?;
        items.all(is_regular).then_some(found)
    }
}

/// The text of a regular file or a pipe, up to [`LARGEST_FILE`].
fn text_of(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_fifo() {
        return Err(io::Error::other("neither a regular file nor a pipe"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_FILE {
        let mebibytes = LARGEST_FILE >> 20;
        return Err(io::Error::other(format!("larger than {mebibytes} MiB, the limit for it")));
    }
    Ok(text)
}

/// Reads the short form: the item `dragonfly`, whose words commas separate, and after semicolons
/// the items that a file can have.
fn short_form(name: &str, rest: &str) -> Result<Topology, String> {
    let mut draft = Draft::default();
    for (number, item) in (1..).zip(rest.split(';')) {
        let mut words: Vec<&str> = item.split_whitespace().collect();
        if number == 1 {
            words = ["dragonfly"].into_iter().chain(item.split(',')).collect();
        }
        draft.add(&words).map_err(|error| format!("{name}: item {number}: {error}"))?;
    }
    draft.finish(name).map_err(|error| format!("{name}: {error}"))
}

/// Fabrics and errors as users meet them.
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::description::*;
    use crate::dragonfly::{self, Dragonfly};
    use crate::{faults, grammar, items};

    /// The fabric of load.md 4.1.
    const D4: &str = "dragonfly groups=4 switches=2 nics=2 global=1 nic=50MB/s local=50MB/s \
                      global-rate=50MB/s latency=20us";

    fn read(lines: &str) -> Result<Topology, String> {
        Topology::from_file("file", &format!("{D4}\n{lines}"))
    }

    fn cable(topology: &Topology, ends: &str) -> Cable {
        let name = |place: usize| topology.switches[place].name.to_string();
        let mut cables = topology.cables.iter();
        let found = cables.find(|cable| ends == cable.ends.map(name).join("-"));
        *found.unwrap_or_else(|| panic!("no cable {ends}"))
    }

    #[test]
    fn reads_dragonfly() {
        let topology = read("").unwrap();
        assert_eq!((topology.switches.len(), topology.nics.len()), (8, 16));
        let name = |place: usize| topology.switches[place].name.to_string();
        let cables: Vec<String> =
            topology.cables.iter().map(|cable| cable.ends.map(name).join("-")).collect();
        // Cable 0 from G to H ends at switch ((H - G) mod 4 - 1) mod 2 of G.
        let expected = [
            "0.0-0.1", "0.0-1.0", "0.0-3.0", "0.1-2.1", "1.0-1.1", "1.0-2.0", "1.1-3.1", "2.0-2.1",
            "2.0-3.0", "3.0-3.1",
        ];
        assert_eq!(cables, expected);
        assert_eq!(name(topology.nics[4].switch), "1.0");
        assert_eq!(topology.nics[4].latency, 20_000);
        assert_eq!(topology.nics[4].transmit, PortDirection::new(5e7));
        assert_eq!(topology.routing, Routing::Adaptive { bias: 200_000 });
        assert_eq!(topology.congestion, Congestion::Endpoint);
    }

    #[test]
    fn cables_between_groups_have_a_rate_of_their_own() {
        let rates = |typed: &str| {
            let text = format!("dragonfly:groups=2,switches=2,nics=1,nic=10MB/s{typed}");
            let topology = Topology::from_variable(&text).unwrap();
            ["0.0-0.1", "0.0-1.0"].map(|ends| cable(&topology, ends).directions[0].rate)
        };
        assert_eq!(rates(",local=20MB/s,global-rate=30MB/s"), [2e7, 3e7]);
        assert_eq!(rates(",local=20MB/s"), [2e7, 1e7]);
        assert_eq!(rates(""), [1e7, 1e7]);
    }

    #[test]
    fn addresses_have_group_switch_and_port() {
        let topology = read("").unwrap();
        let addresses = [0, 1, 2, 4, 15, 16].map(|nic| topology.address(nic));
        let expected = [Some(0x001), Some(0x002), Some(0x041), Some(0x801), Some(0x1842), None];
        assert_eq!(addresses, expected);
    }

    #[test]
    fn several_cables_between_groups_end_at_different_switches() {
        let fabric = "dragonfly:groups=2,switches=4,nics=1,global=6";
        let topology = Topology::from_variable(fabric).unwrap();
        let count = |ends| {
            let name = |place: usize| topology.switches[place].name.to_string();
            let cables = topology.cables.iter();
            cables.filter(|cable| cable.ends.map(name).join("-") == ends).count()
        };
        assert_eq!(["0.0-1.0", "0.1-1.1", "0.2-1.2", "0.3-1.3"].map(count), [2, 2, 1, 1]);
    }

    #[test]
    fn short_form_has_items_of_files() {
        let fabric = "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s;route minimal;fault nic 5 rx \
                      rate=50%";
        let short = Topology::from_variable(fabric).unwrap();
        let long =
            read("route minimal # the shortest\n\n# nothing\nfault nic 5 rx rate=50%").unwrap();
        assert_eq!(short.name, fabric);
        assert_eq!(Topology { name: "file".into(), ..short.clone() }, long);
        assert_eq!(short.fingerprint(), long.fingerprint());
        assert_ne!(short.fingerprint(), read("route minimal").unwrap().fingerprint());
    }

    #[test]
    fn items_change_parts_of_a_dragonfly() {
        let topology = read(
            "switch 1.0 latency=20us\nnic 4 1.1 rate=25MB/s\nswitch 7.3\nnic 16 7.3 latency=1us\n\
             link 0.0 0.1 rate=100MB/s latency=5us count=2\nlink 1.1 1.0 count=0\n\
             congestion spread buffer=128KiB mark=32KiB\nclass LOW_LATENCY priority ceiling=5%\n\
             class BULK_DATA share=50%\nclass DEDICATED_ACCESS share=none\nroute adaptive bias=1ms",
        )
        .unwrap();
        let at = |name: &str| {
            let mut switches = topology.switches.iter();
            switches.position(|switch| switch.name.to_string() == name).unwrap()
        };
        assert_eq!(topology.switches[at("1.0")].latency, 20_000);
        assert_eq!(topology.nics[4].switch, at("1.1"));
        assert_eq!(topology.nics[4].receive.rate, 25e6);
        assert_eq!(topology.nics[5].port, 1, "ports are counted over the NICs of a switch");
        assert_eq!(topology.address(16), Some(7 << 11 | 3 << 6 | 1));
        assert_eq!(topology.nics[16].latency, 1000);
        assert_eq!(topology.cables.iter().filter(|cable| cable.ends == [0, 1]).count(), 2);
        assert_eq!(cable(&topology, "0.0-0.1").latency, 5000);
        assert!(!topology.cables.iter().any(|cable| cable.ends == [at("1.0"), at("1.1")]));
        assert_eq!(topology.congestion, Congestion::Spread { buffer: 131_072 });
        assert_eq!(topology.mark, 32_768);
        assert!(topology.classes[2].priority);
        assert_eq!(topology.classes[2].ceiling, Some(0.05));
        let shares = topology.classes.map(|class| class.share);
        assert_eq!(shares, [Some(1.0), Some(0.5), Some(1.0), None]);
        assert_eq!(topology.routing, Routing::Adaptive { bias: 1_000_000 });
    }

    #[test]
    fn faults_change_links() {
        let topology = read(
            "fault link 2.1>0.1 rate=25%\nfault link 0.0-0.1 loss=0.001 retry=2ms\n\
             fault switch 2.0 rate=50%\nfault nic 5 rx rate=50%\nfault nic 6 down=2s:500ms\n\
             fault link 1.0-1.1#0 latency=1ms",
        )
        .unwrap();
        let links = topology.links();
        let rate = |from: LinkEnd, to: LinkEnd| {
            let mut links = links.iter();
            links.find(|link| (link.from, link.to) == (from, to)).unwrap().rate
        };
        let [s01, s20, s21] = [1, 4, 5].map(LinkEnd::Switch);
        assert_eq!((rate(s21, s01), rate(s01, s21)), (12.5e6, 5e7), "one direction");
        assert_eq!((rate(s20, s21), rate(s21, s20)), (25e6, 25e6), "of a switch");
        assert_eq!((rate(LinkEnd::Nic(8), s20), rate(s20, LinkEnd::Nic(9))), (25e6, 25e6));
        assert_eq!((links[10].rate, links[11].rate), (5e7, 25e6), "receiving side of NIC 5");
        assert_eq!(
            [0, 2_000_000_000, 2_500_000_000].map(|time| links[12].is_up(time)),
            [true, false, true]
        );
        let lossy = cable(&topology, "0.0-0.1")
            .directions
            .map(|direction| (direction.fault.loss, direction.fault.retry));
        assert_eq!(lossy, [(0.001, 2_000_000); 2]);
        assert_eq!(links.iter().filter(|link| link.latency == 1_020_000).count(), 2);
    }

    #[test]
    fn names_line_and_word_of_errors() {
        for (line, error) in [
            (
                "nics 4",
                "'nics': expected dragonfly, switch, nic, link, route, congestion, class or fault at the start of an item",
            ),
            (
                "switch 1",
                "'1': expected GROUP.SWITCH, a group from 0 to 511 and a switch from 0 to 31",
            ),
            (
                "switch 1.0 rate=5",
                "'rate=5': expected latency=TIME, a number followed by ns, us, ms or s, at most an hour",
            ),
            (
                "switch 1.0 latency=5",
                "'latency=5': expected latency=TIME, a number followed by ns, us, ms or s, at most an hour",
            ),
            (
                "nic 17 1.0",
                "'17': expected the number of a NIC, at most 16 here: NICs are numbered from 0 without gaps, and there are at most 100",
            ),
            ("nic 4 9.0", "'9.0': there is no such switch above"),
            ("nic 4", "'nic': expected nic NUMBER GROUP.SWITCH, such as nic 4 1.0"),
            ("link 0.0 0.0", "'0.0': expected another switch than 0.0"),
            ("link 0.0 0.1 count=65", "'count=65': expected count=NUMBER, 0 to 64 cables"),
            ("link 0.0 0.1 rate=1MB/s rate=2MB/s", "'rate=2MB/s': rate is given twice"),
            ("route random", "'random': expected minimal or adaptive"),
            ("route minimal bias=1us", "'bias=1us': expected nothing more"),
            (
                "congestion endpoint buffer=1KiB",
                "'buffer=1KiB': expected mark=SIZE, a number followed by KiB or MiB",
            ),
            (
                "class FAST",
                "'FAST': expected one of the classes BEST_EFFORT, BULK_DATA, LOW_LATENCY, DEDICATED_ACCESS",
            ),
            (
                "class BULK_DATA share=0%",
                "'share=0%': expected share=SHARE, a number from 1 to 100 followed by %, or none",
            ),
            (
                "class BEST_EFFORT share=none",
                "'share=none': expected share=SHARE, a number from 1 to 100 followed by %",
            ),
            (
                "link 0.0 0.1 rate",
                "'rate': expected rate=RATE, a number followed by MB/s or GB/s, from 1MB/s to 1000GB/s",
            ),
            ("class BULK_DATA priority=", "'priority=': expected priority, without a value"),
            (
                "fault switch 0.1 down=",
                "'down=': expected down, down=TIME or down=TIME:TIME since the fabric was made, a number followed by ns, us, ms or s, at most an hour",
            ),
            ("fault", "'fault': expected fault link, fault switch or fault nic, and its name"),
            ("fault cable 1", "'cable': expected link, switch or nic"),
            ("fault link 0.1>2.0 down", "'0.1>2.0': there is no cable between these switches"),
            ("fault link 0.1>2.1#1 down", "'0.1>2.1#1': there are 1 cables, numbered from #0"),
            (
                "fault link 0.1>2.1 #1 down",
                "'fault': expected one of rate=, latency=, down, loss=, retry= at its end",
            ),
            ("fault switch 0.1 loss=0.1", "'loss=0.1': expected one of rate=, latency=, down"),
            ("fault nic 16 down", "'16': expected the number of a NIC above"),
            ("dragonfly groups=1", "'dragonfly': expected before all switches"),
        ] {
            assert_eq!(read(line).unwrap_err(), format!("file: line 2: {error}"), "{line}");
        }
    }

    #[test]
    fn names_what_is_wrong_with_a_whole_fabric() {
        let text_for = |text: &str| Topology::from_variable(text).unwrap_err();
        for (text, error) in [
            ("dragonfly:groups=4", "item 1: 'dragonfly': expected switches=NUMBER"),
            ("dragonfly:groups=4,switches=2", "item 1: 'dragonfly': expected nics=NUMBER"),
            (
                "dragonfly:groups=9,switches=4,nics=3",
                "item 1: 'dragonfly': 108 NICs, expected at most 100",
            ),
            (
                "dragonfly:groups=0,switches=4,nics=3",
                "item 1: 'groups=0': expected groups=NUMBER, from 1 to 512",
            ),
            (
                "dragonfly:groups=1,switches=1,nics=1;rout minimal",
                "item 2: 'rout': expected dragonfly, switch, nic, link, route, congestion, class or fault at the start of an item",
            ),
            (
                "dragonfly:groups=512,switches=1,nics=0",
                "item 1: 'dragonfly': 130816 cables, expected at most 4096",
            ),
            (
                "dragonfly:groups=101,switches=1,nics=1,global=0",
                "item 1: 'dragonfly': 101 NICs, expected at most 100",
            ),
            (
                "dragonfly:groups=92,switches=1,nics=1",
                "item 1: 'dragonfly': 4186 cables, expected at most 4096",
            ),
            ("dragonfly:groups=1,switches=1,nics=0", "expected at least one NIC"),
        ] {
            assert_eq!(text_for(text), format!("{text}: {error}"));
        }
        for most in [
            "dragonfly:groups=100,switches=1,nics=1,global=0",
            "dragonfly:groups=91,switches=1,nics=1",
        ] {
            assert!(Topology::from_variable(most).is_ok(), "{most}");
        }
        assert!(text_for("/no/such/file").starts_with("/no/such/file: No such file"));
        assert_eq!(
            Topology::from_file("empty", "").unwrap_err(),
            "empty: expected at least one NIC"
        );
    }

    /// The block of the README that begins with the first item.
    #[test]
    fn documents_every_word() {
        let (_, block) = include_str!("../README.md").split_once("\ndragonfly ").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        let items: Vec<&str> = block.split_whitespace().collect();
        for table in [
            grammar::names(&dragonfly::WORDS),
            grammar::names(&items::SWITCH),
            grammar::names(&items::NIC),
            grammar::names(&items::LINK),
            grammar::names(&items::ADAPTIVE),
            grammar::names(&items::SPREAD),
            grammar::names(&items::OTHER_CLASS),
            grammar::names(&faults::CABLE),
        ] {
            for name in table.split(", ") {
                assert!(items.iter().any(|word| word.starts_with(name)), "{name}");
            }
        }
    }

    /// Texts made of the words of the language.
    fn texts() -> impl Strategy<Value = String> {
        let words = [
            "dragonfly",
            "groups=2",
            "switches=2",
            "nics=2",
            "switch",
            "nic",
            "link",
            "0.0",
            "0.1",
            "1.1",
            "0",
            "4",
            "fault",
            "down",
            "rate=50%",
            "rate=5MB/s",
            "0.0>0.1",
            "0.0-1.1#0",
            "rx",
            "route",
            "minimal",
            "adaptive",
            "bias=1us",
            "congestion",
            "spread",
            "class",
            "BULK_DATA",
            "count=2",
            "#",
            "\n",
            "\n",
            "down=1s:1s",
            "latency=1ms",
            "priority",
        ];
        let known = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
        let word = prop_oneof![4 => known, 1 => "\\PC{0,8}"];
        prop::collection::vec(word, 0..40).prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn reads_or_refuses_any_text(text in texts()) {
            let start = "dragonfly groups=2 switches=2 nics=1\n";
            match Topology::from_file("file", &format!("{start}{text}")) {
                Ok(topology) => {
                    let cables = topology.nics.len() + topology.cables.len();
                    prop_assert_eq!(topology.links().len(), 2 * cables);
                }
                Err(error) => {
                    prop_assert!(error.starts_with("file: ") && !error.contains('\n'), "{error}");
                }
            }
        }
    }

    #[test]
    fn numbers_of_a_dragonfly_of_any_size_are_read() {
        let frontier = "dragonfly:groups=74,switches=32,nics=16,global=4,nic=25GB/s";
        let found = Dragonfly::from_variable(frontier).unwrap();
        assert_eq!(found.size(), 37_888);
        let rates = (found.nic, found.local, found.global_rate);
        assert_eq!((found.global, rates), (4, (25e9, 25e9, 25e9)));
        assert!(Topology::from_variable(frontier).is_err());
        let faulty = "dragonfly:groups=2,switches=2,nics=2;route minimal;fault switch 0.1 rate=50%";
        assert!(Dragonfly::from_variable(faulty).is_some());
        for other in [
            "dragonfly:groups=2,switches=2,nics=2;nic 0 1.1 rate=1MB/s",
            "dragonfly:groups=2,switches=2",
            "fabric.txt",
        ] {
            assert_eq!(Dragonfly::from_variable(other), None, "{other}");
        }
    }
}
