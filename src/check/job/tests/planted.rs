//! Faults planted at random in the correct public sets: each is named, and nothing else.

use fastrand::Rng;

use super::*;

/// Returns a setting with a fault of this kind, and the rules that may name it.
fn planted(random: &mut Rng, kind: usize) -> (String, Vec<&'static str>) {
    match kind {
        0 => {
            // One letter or part is missing, twice, or at another place.
            let names = library("2.3", &["cxi", "cuda"]).names;
            let names: Vec<String> = names.into_keys().filter(|name| name.len() > 14).collect();
            let name = random.choice(&names).expect("names").clone();
            let place = 8 + random.usize(..name.len() - 9);
            let mut wrong = name.clone();
            match random.usize(..3) {
                0 => drop(wrong.remove(place)),
                1 => wrong.insert(place, 'Q'),
                _ => {
                    let letter = wrong.remove(place);
                    wrong.insert(place - 1, letter);
                }
            }
            if names.contains(&wrong) {
                wrong += "X";
            }
            (format!("{wrong}=1"), vec!["L1"])
        }
        1 => {
            let wrong = [
                ("FI_CXI_DEFAULT_TX_SIZE=", 16385, "L13"),
                ("FI_CXI_DEFAULT_RX_SIZE=", 15361, "L14"),
                ("FI_CXI_CQ_FILL_PERCENT=", 101, "L20"),
                ("FI_CXI_RDZV_THRESHOLD=", 12_582_913, "L15"),
                ("FI_CXI_RDZV_GET_MIN=", 12_582_912, "L17"),
            ];
            let (name, least, rule) = random.choice(wrong).expect("faults");
            (format!("{name}{}", least + random.usize(..1 << 20)), vec![rule])
        }
        2 => {
            let names = ["OFLOW_BUF_SIZE", "DEFAULT_CQ_SIZE", "RDZV_THRESHOLD", "DEFAULT_TX_SIZE"];
            let number = 1 + random.usize(..64);
            let unit = random.choice(["K", "M", "k", "MiB", "MB"]).expect("units");
            (format!("FI_CXI_{}={number}{unit}", random.choice(names).expect("names")), vec!["L8"])
        }
        3 => {
            let wrong = [
                ("FI_CXI_REQ_BUF_MIN_POSTED=6 ; FI_CXI_RX_MATCH_MODE=hardware", "L25"),
                ("FI_CXI_HYBRID_PREEMPTIVE=1 ; FI_CXI_RX_MATCH_MODE=software", "L24"),
                ("FI_MR_CACHE_MAX_COUNT=0 ; FI_MR_CACHE_MONITOR=kdreg2", "L38"),
                ("FI_CXI_OFLOW_BUF_COUNT=6 ; FI_CXI_OFLOW_BUF_MIN_POSTED=3", "L26"),
                ("FI_CXI_ATS_MLOCK_MODE=off", "L27"),
                ("FI_PROVIDER=tcp", "L39"),
                ("MPICH_OFI_NIC_POLICY=GPU ; MPICH_GPU_SUPPORT_ENABLED=0", "L2 M2"),
                ("OMPI_MCA_mtl=ofi ; OMPI_MCA_pml=ob1", "M10"),
            ];
            let (text, rules) = random.choice(wrong).expect("faults");
            (text.to_owned(), rules.split(' ').collect())
        }
        _ => {
            let wrong = [
                ("FI_CXI_RX_MATCH_MODE=Hybrid", "L12"),
                ("FI_CXI_RDZV_PROTO=altread", "L12"),
                ("FI_CXI_ODP=enabled", "L11"),
                ("FI_MR_CACHE_MONITOR=userfaultd", "L34"),
                ("FI_CXI_DEFAULT_CQ_SIZE=0131072", "L9"),
                ("NCCL_NET_GDR_LEVEL=phb", "N5"),
                ("FI_CXI_DEVICE_NAME=hsn0", "L21"),
            ];
            let (text, rule) = random.choice(wrong).expect("faults");
            (text.to_owned(), vec![rule])
        }
    }
}

#[test]
fn names_planted_faults_and_nothing_else() {
    let correct: Vec<_> = table(include_str!("public_sets.txt"))
        .filter(|line| {
            line[1] == "2.3" && !line.get(4).is_some_and(|codes| codes.contains(['L', 'N']))
        })
        .collect();
    assert!(correct.len() >= 8, "{}", correct.len());
    let mut random = Rng::with_seed(1);
    let (mut named, mut wrong) = (0, String::new());
    for number in 0..100 {
        let line = random.choice(&correct).expect("sets");
        let (fault, rules) = planted(&mut random, number % 5);
        // The set's own value gives way to the planted one.
        let mut all: BTreeMap<String, String> = settings(line[3]).into_iter().collect();
        let planted = settings(&fault);
        all.extend(planted.clone());
        let all: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let found = judge(&evidence(line[1], line[2], &all.join(" ; ")));
        let (right, others): (Vec<_>, Vec<_>) = found
            .into_iter()
            .filter(|found| found.severity == FindingSeverity::Bad)
            // The default protocol, which replaces the misspelt one, needs hardware rendezvous.
            .filter(|found| found.code != "L30" || !fault.contains("RDZV_PROTO"))
            .partition(|found| {
                let is_planted = planted.iter().any(|(name, _)| *name == found.setting);
                is_planted && rules.contains(&found.code.as_str())
            });
        named += usize::from(!right.is_empty());
        if right.is_empty() || !others.is_empty() {
            wrong += &format!("{fault} in {}: {}", line[0], text_of(&others));
        }
    }
    assert!(named >= 95 && wrong.matches(" Bad ").count() == 0, "{named}: {wrong}");
}
