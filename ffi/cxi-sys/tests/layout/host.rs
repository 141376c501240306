//! Host structures, constants, enumerators and prototypes.
//!
//! `src/bindings.rs` contains bindgen's assertions of every size, alignment and offset, which the
//! compiler checks. These tests compare the assertions with the facts.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use cxi_sys::*;

use crate::facts;

const BINDINGS: &str = include_str!("../../src/bindings.rs");
const HEADER: &str = include_str!("../../cxi.h");

/// The types that bindgen made for unnamed members: type, record in `abi.json`, offset in the
/// record.
const UNNAMED: &[(&str, &str, usize)] = &[
    ("cxil_devinfo__bindgen_ty_1", "cxil_devinfo", offset_of!(cxil_devinfo, __bindgen_anon_1)),
    (
        "cxi_rsrc_limits__bindgen_ty_1",
        "cxi_rsrc_limits",
        offset_of!(cxi_rsrc_limits, __bindgen_anon_1),
    ),
    (
        "cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1",
        "cxi_rsrc_limits",
        offset_of!(cxi_rsrc_limits, __bindgen_anon_1),
    ),
    ("cxi_svc_desc__bindgen_ty_1", "cxi_svc_desc.members", 0),
    ("cxi_cp__bindgen_ty_1", "cxi_cp", offset_of!(cxi_cp, __bindgen_anon_1)),
    ("cxi_eq__bindgen_ty_1", "cxi_eq", offset_of!(cxi_eq, __bindgen_anon_1)),
    ("cxi_cq__bindgen_ty_1", "cxi_cq", offset_of!(cxi_cq, __bindgen_anon_1)),
];

/// The record of a type of the bindings, and the offset of the type in it.
fn place(type_name: &str) -> (&str, u64) {
    match UNNAMED.iter().find(|(name, ..)| *name == type_name) {
        Some((_, record, offset)) => (record, *offset as u64),
        None => {
            assert!(!type_name.contains("__bindgen"), "{type_name} has no line in UNNAMED");
            (type_name, 0)
        }
    }
}

/// Whether a type of the bindings is a whole record.
fn is_whole(type_name: &str) -> bool {
    let (record, _) = place(type_name);
    record == type_name || record.contains('.')
}

/// Returns subject and value of bindgen's assertions that begin with `label`.
fn assertions(label: &str) -> Vec<(String, u64)> {
    let source: String = BINDINGS.split_whitespace().collect();
    let label = label.replace(' ', "");
    let found = source.split("[\"").skip(1).filter_map(|piece| {
        let (subject, rest) = piece.strip_prefix(&label)?.split_once('"')?;
        let (assertion, _) = rest.split_once("usize];")?;
        let (_, value) = assertion.rsplit_once('-')?;
        Some((subject.to_owned(), value.parse().ok()?))
    });
    found.collect()
}

#[test]
fn declares_sizes_and_alignments() {
    let sizes = assertions("Size of ");
    assert!(sizes.len() > 20, "the assertions of bindings.rs were not found");
    for (name, size) in sizes {
        if is_whole(&name) {
            assert_eq!(size, facts::record(place(&name).0).size, "size of {name}");
        }
    }
    for (name, align) in assertions("Alignment of ") {
        if is_whole(&name) {
            assert_eq!(align, facts::record(place(&name).0).align, "alignment of {name}");
        }
    }
}

#[test]
fn declares_offsets_of_members() {
    let mut declared: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (field, offset) in assertions("Offset of field: ") {
        let (type_name, member) = field.split_once("::").expect("Type::member");
        let (record, base) = place(type_name);
        let member = if member == "type_" { "type" } else { member };
        declared.entry(record.to_owned()).or_default().insert(member.to_owned(), base + offset);
    }
    assert!(declared.len() > 15, "the assertions of bindings.rs were not found");
    for (record, members) in declared {
        let facts = facts::record(&record).members;
        for (member, offset) in &members {
            let fact = facts.iter().find(|fact| fact.name == *member);
            let fact = fact.unwrap_or_else(|| panic!("abi.json has no {record}.{member}"));
            assert_eq!(*offset, fact.byte_offset, "offset of {record}.{member}");
        }
        for fact in facts.iter().filter(|fact| fact.bits.is_none()) {
            // `src/records` declares the bit fields of this register.
            let elsewhere = record == "c_ee_cfg_eq_sw_state";
            assert!(
                elsewhere || members.contains_key(&fact.name),
                "{record}.{} is not declared",
                fact.name
            );
        }
    }
}

macro_rules! check_bit_fields {
    ($record:ident { $($field:ident / $set:ident),* $(,)? }) => {
        let name = stringify!($record);
        let mut missing: BTreeSet<String> = facts::record(name)
            .members
            .into_iter()
            .filter(|member| member.bits.is_some())
            .map(|member| member.name)
            .collect();
        $({
            let members = facts::record(name).members;
            let fact = members.iter().find(|member| member.name == stringify!($field)).expect(stringify!($field));
            let (offset, width) = fact.bit_range();
            missing.remove(stringify!($field));
            // SAFETY: the record consists of integers, for which zero bytes are valid.
            let mut record: $record = unsafe { std::mem::zeroed() };
            record.$set(u8::MAX.into());
            let bytes: [u8; size_of::<$record>()] =
                // SAFETY: the sizes are equal, and `zeroed` initialised every byte of the record.
                unsafe { std::mem::transmute(record) };
            for bit in 0..bytes.len() * 8 {
                let set = bytes[bit / 8] >> (bit % 8) & 1 == 1;
                let inside = (offset..offset + width).contains(&bit);
                assert_eq!(set, inside, "{name}.{}: bit {bit}", stringify!($field));
            }
            assert_eq!(u64::from(record.$field()), u64::MAX >> (64 - width), "{name}.{}", stringify!($field));
        })*
        assert!(missing.is_empty(), "bit-fields of {name} not checked: {missing:?}");
    };
}

#[test]
fn declares_bit_fields() {
    check_bit_fields!(cxi_svc_desc {
        restricted_members / set_restricted_members,
        restricted_vnis / set_restricted_vnis,
        restricted_tcs / set_restricted_tcs,
        resource_limits / set_resource_limits,
        enable / set_enable,
        is_system_svc / set_is_system_svc,
        cntr_pool_id / set_cntr_pool_id,
    });
    check_bit_fields!(cxi_pt_alloc_opts {
        en_event_match / set_en_event_match,
        clr_remote_offset / set_clr_remote_offset,
        en_flowctrl / set_en_flowctrl,
        use_long_event / set_use_long_event,
        lossless / set_lossless,
        en_restricted_unicast_lm / set_en_restricted_unicast_lm,
        use_logical / set_use_logical,
        is_matching / set_is_matching,
        do_space_check / set_do_space_check,
        en_align_lm / set_en_align_lm,
        en_sw_hw_st_chng / set_en_sw_hw_st_chng,
        ethernet / set_ethernet,
        signal_invalid / set_signal_invalid,
        signal_underflow / set_signal_underflow,
        signal_overflow / set_signal_overflow,
        signal_inexact / set_signal_inexact,
        en_match_on_vni / set_en_match_on_vni,
    });
}

#[test]
fn declares_constants_and_enumerators() {
    let facts = facts::constants();
    let declared: BTreeMap<&str, u64> = BINDINGS
        .lines()
        .filter_map(|line| {
            let (name, value) = line.strip_prefix("pub const ")?.split_once(": ")?;
            let (_, value) = value.strip_suffix(';')?.split_once(" = ")?;
            Some((
                name,
                value.parse().unwrap_or_else(|_| panic!("{name}: {value} is not a number")),
            ))
        })
        .collect();
    assert!(declared.len() > 200, "the constants of bindings.rs were not found");
    for (name, value) in &declared {
        assert_eq!(facts.get(*name), Some(value), "value of {name}");
    }
    let enums = HEADER.lines().filter_map(|line| line.strip_prefix("enum ")?.strip_suffix(" {"));
    for name in enums.filter(|name| !name.is_empty()) {
        for (enumerator, _) in facts::enumeration(name) {
            assert!(
                declared.contains_key(enumerator.as_str()),
                "{enumerator} of enum {name} is not declared"
            );
        }
    }
}

#[test]
fn declares_prototypes() {
    let header = HEADER.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = 0;
    for statement in header.split(';').filter(|statement| statement.ends_with(')')) {
        let name = statement[..statement.find('(').expect("a parameter list")]
            .rsplit(' ')
            .next()
            .expect("a name");
        let declared = statement.trim().replace("* ", "*");
        assert_eq!(declared, facts::prototype(name), "prototype of {name}");
        found += 1;
    }
    assert_eq!(found, facts::number_of_functions(), "functions in cxi.h");
    assert_eq!(
        found,
        BINDINGS.matches("unsafe extern \"C\" {").count(),
        "functions in cxi.h and bindings.rs"
    );
}

#[test]
fn requires_functions_of_oldest_symbol_node_only() {
    for name in Api::REQUIRED {
        assert_eq!(facts::symbol_node(name), "LIBCXI_1.0", "{name}");
    }
    for (name, node) in Api::OPTIONAL {
        assert_eq!(facts::symbol_node(name), *node, "{name}");
    }
}
