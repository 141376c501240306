use std::io::Write;

use proptest::prelude::*;

use super::*;

#[test]
fn expands_lists_of_the_grammar() {
    for (list, hosts) in [
        ("nid000001", "nid000001"),
        ("a,b,a", "a b a"),
        ("nid[008-011]", "nid008 nid009 nid010 nid011"),
        ("nid[8-11]", "nid8 nid9 nid10 nid11"),
        ("n[1,3-4,1]", "n1 n3 n4 n1"),
        ("[1-2]x", "1x 2x"),
        ("n[1-2]-ib.site", "n1-ib.site n2-ib.site"),
        (
            "x1000c[0-1]s0b0n[0-1],login1",
            "x1000c0s0b0n0 x1000c0s0b0n1 x1000c1s0b0n0 x1000c1s0b0n1 login1",
        ),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("[::1],fe80::1%eth0", "::1 fe80::1%eth0"),
        ("[fe80::1%eth0.2]", "fe80::1%eth0.2"),
        ("fd00::[8-9]", "fd00::8 fd00::9"),
    ] {
        assert_eq!(expand(list).unwrap().join(" "), hosts, "{list}");
    }
}

#[test]
fn refuses_invalid_lists() {
    for (list, reason) in [
        ("", "one of the names is empty"),
        ("a,,b", "one of the names is empty"),
        ("a,", "one of the names is empty"),
        ("a b", "without blanks"),
        ("a\n", "without blanks"),
        ("n[1-2", "'[' without ']'"),
        ("n1-2]", "']' without '['"),
        ("n[[1]]", "'[' inside brackets"),
        ("n[]", "[]: expected numbers"),
        ("n[1,]", "[]: expected numbers"),
        ("n[-3]", "[-3]: expected numbers"),
        ("n[3-]", "[3-]: expected numbers"),
        ("n[1-2-3]", "[1-2-3]: expected numbers"),
        ("n[a]", "[a]: expected numbers"),
        ("n[4-1]", "[4-1]: the range is reversed"),
        ("n[000x133]", "box notation"),
        ("[::1]:49194", "without ports"),
        ("10.1.1.8:49194", "without ports"),
        ("n[1-65537]", "more than 65536 hosts"),
        ("n[1-65536],a", "more than 65536 hosts"),
        ("n[0-999][0-999]", "more than 65536 hosts"),
        ("n[0-999999999999999999]", "more than 65536 hosts"),
        ("n[1-9999999999999999999]", "at most 18 digits"),
    ] {
        let refused = expand(list).unwrap_err();
        assert!(refused.contains(reason), "{list}: {refused}");
    }
    assert_eq!(expand("n[1-65536]").unwrap().len(), MOST_HOSTS);
    let refused = expand(&"[1-2]".repeat(1_000)).unwrap_err();
    assert_eq!(refused, "more than 65536 hosts");
    for list in ["x".repeat(256), "x".repeat(250) + "[1-65536]"] {
        let refused = expand(&list).unwrap_err();
        assert_eq!(refused, "a name may have more than 255 bytes");
    }
}

#[test]
fn compresses_ranges_with_their_width() {
    for (hosts, list) in [
        ("", ""),
        ("login", "login"),
        ("nid000009 nid000002 nid000001 nid000003", "nid[000001-000003,000009]"),
        ("n9 n10 n11 n8 n9", "n[8-11]"),
        ("n99 n100 n098", "n99,n[098,100]"),
        ("n7 n07 n08 n8", "n[7-8],n[07-08]"),
        ("n2-ib.s1.org n1-ib.s1.org", "n[1-2]-ib.s1.org"),
        ("x1c0n0 x1c0n1 x1c1n0", "x1c0n[0-1],x1c1n0"),
        ("b a n1 n", "a,b,n1,n"),
    ] {
        assert_eq!(compress(hosts.split_whitespace()), list, "{hosts}");
    }
}

#[test]
fn reads_counts_of_tasks() {
    assert_eq!(task_counts("2(x3),1").unwrap(), [2, 2, 2, 1]);
    assert_eq!(task_counts("4").unwrap(), [4]);
    for text in ["", "x", "2(3)", "2(x3", "2(x-1)", "1,,1", "-1"] {
        let refused = task_counts(text).unwrap_err();
        assert_eq!(refused, "expected numbers of tasks such as 2(x3),1", "{text}");
    }
    for text in ["1(x65537)", "1(x18446744073709551615)", "1,1(x65536)"] {
        assert_eq!(task_counts(text).unwrap_err(), "more than 65536 hosts");
    }
}

#[test]
fn reads_file_of_hosts() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = "# all nodes\nnid[1-2]\n\n nid2 \nnid3,login # at the end\n";
    file.write_all(text.as_bytes()).unwrap();
    let hosts = option_hosts(&format!("@{}", file.path().display())).unwrap();
    assert_eq!(hosts, ["nid1", "nid2", "nid3", "login"]);
    assert_eq!(option_hosts("a,b").unwrap(), ["a", "b"]);
    assert!(option_hosts("@/nowhere").unwrap_err().contains("cannot read"));
    assert_eq!(listed_hosts("# none\n").unwrap_err(), "the file names no host");
    assert_eq!(listed_hosts("a\nb]\n").unwrap_err(), "line 2: ']' without '['");
    let many = listed_hosts("a[1-40000]\nb[1-40000]").unwrap_err();
    assert_eq!(many, "more than 65536 hosts");
}

proptest! {
    #[test]
    fn expanded_compressed_list_has_the_same_hosts_in_order(
        hosts in prop::collection::vec("[a-c]{0,2}[0-2]{0,3}[.x-]{0,2}[0-9]{0,20}", 0..40)
    ) {
        let hosts: BTreeSet<String> = hosts.into_iter().filter(|host| !host.is_empty()).collect();
        let list = compress(hosts.iter().map(String::as_str));
        let expanded = if hosts.is_empty() { Vec::new() } else { expand(&list).unwrap() };
        prop_assert_eq!(expanded.len(), hosts.len());
        prop_assert_eq!(expanded.into_iter().collect::<BTreeSet<_>>(), hosts);
    }

    #[test]
    fn survives_hostile_lists(list in "[n0-9x,()\\[\\]-]{0,60}") {
        if let Ok(hosts) = expand(&list) {
            prop_assert!(hosts.len() <= MOST_HOSTS);
        }
        if let Ok(counts) = task_counts(&list) {
            prop_assert!(counts.len() <= MOST_HOSTS);
        }
    }

    #[test]
    fn survives_random_text(list in "\\PC{0,60}") {
        let _ = expand(&list);
    }
}

#[test]
fn says_which_syntax_of_other_programs_has_no_meaning() {
    for (list, wrong) in [
        ("n[1-5]!n3", "'!' has no meaning"),
        ("n(2)", "'(' has no meaning"),
        ("node{1..3}", "'{' has no meaning"),
        ("user@host", "'@' has no meaning"),
        ("host:51990", "without ports"),
        ("/etc/hosts", "'/' has no meaning"),
    ] {
        let refused = expand(list).unwrap_err();
        assert!(refused.contains(wrong), "{refused}");
        assert!(refused.contains("such as nid[1-4,7],login1"), "{refused}");
    }
    assert_eq!(expand("fe80::1,10.1.1.8").unwrap(), ["fe80::1", "10.1.1.8"]);
}
