//! Device records: setter and getter of each field access exactly the bits given in `abi.json`.

use std::collections::BTreeMap;

use cxi_sys::records::*;

use crate::facts;

/// The absolute bit range of every named field, with the fields of embedded records.
fn expected(c_name: &str) -> BTreeMap<String, (usize, usize)> {
    let mut fields = BTreeMap::new();
    for member in facts::record(c_name).members {
        let (offset, width) = member.bit_range();
        let embedded = match member.type_name.as_str() {
            "struct c_cmd" => Some(expected("c_cmd")),
            "struct c_idc_hdr" => Some(expected("c_idc_hdr")),
            // The union of `initiator` and the fields of a state change.
            "union c_tgt_ol_initiator" => {
                let mut fields = expected("c_state_chg_fields");
                fields.insert(member.name.clone(), (0, width));
                Some(fields)
            }
            _ => None,
        };
        match embedded {
            Some(inner) => {
                fields.extend(
                    inner.into_iter().map(|(name, (at, bits))| (name, (offset + at, bits))),
                );
            }
            // The whole word of a register with bit fields, reserved members, and the payload after
            // a header.
            None if matches!(&*member.name, "qw" | "raw" | "unused" | "data")
                || member.name.starts_with("unused_") => {}
            // The start of an embedded command.
            None if width == 0 => {}
            None => {
                fields.insert(member.name, (offset, width));
            }
        }
    }
    fields
}

fn bits_of(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect()
}

macro_rules! check_records {
    ($($test:ident: $record:ident,)*) => {$(
        #[test]
        fn $test() {
            let name = $record::C_NAME;
            assert_eq!($record::SIZE as u64, facts::record(name).size, "size of {name}");
            let declared: BTreeMap<String, (usize, usize)> = $record::FIELDS
                .iter()
                .map(|field| (field.name.to_owned(), (field.bit_offset, field.bit_width)))
                .collect();
            let expected = expected(name);
            for (field, range) in &declared {
                assert_eq!(expected.get(field), Some(range), "{name}.{field}: bit range");
            }
            for field in expected.keys() {
                assert!(declared.contains_key(field), "{name}.{field} is not declared");
            }
            for field in $record::FIELDS {
                let (offset, width) = expected[field.name];
                let inside = |bit: usize| (offset..offset + width).contains(&bit);
                let ones = u64::MAX >> (64 - width);

                let mut record = $record::new();
                (field.set)(&mut record, u64::MAX);
                for (bit, set) in bits_of(record.bytes()).into_iter().enumerate() {
                    assert_eq!(set, inside(bit), "{name}.{}: all ones, bit {bit}", field.name);
                }
                assert_eq!((field.get)(&record), ones, "{name}.{}: reads all ones", field.name);

                let mut record = $record::from_bytes([0xff; $record::SIZE]);
                (field.set)(&mut record, 0);
                for (bit, set) in bits_of(record.bytes()).into_iter().enumerate() {
                    assert_eq!(set, !inside(bit), "{name}.{}: zero, bit {bit}", field.name);
                }
                assert_eq!((field.get)(&record), 0, "{name}.{}: reads zero", field.name);

                // One bit at a time, to notice a getter that permutes bits.
                for bit in 0..width {
                    let mut bytes = [0; $record::SIZE];
                    bytes[(offset + bit) / 8] = 1 << ((offset + bit) % 8);
                    let record = $record::from_bytes(bytes);
                    assert_eq!((field.get)(&record), 1 << bit, "{name}.{}: bit {bit}", field.name);
                }
            }
        }
    )*};
}

check_records! {
    c_cmd: CmdHeader,
    c_fa_unicast: FaUnicast,
    c_cstate_cmd: CStateCmd,
    c_idc_hdr: IdcHdr,
    c_idc_msg_hdr: IdcMsgHdr,
    c_nomatch_dma_cmd: NomatchDmaCmd,
    c_full_dma_cmd: FullDmaCmd,
    c_idc_amo_cmd: IdcAmoCmd,
    c_small_amo_payload: SmallAmoPayload,
    c_dma_amo_cmd: DmaAmoCmd,
    c_cq_cmd: CqCmd,
    c_target_cmd: TargetCmd,
    c_set_state_cmd: SetStateCmd,
    c_cq_status: CqStatus,
    c_eq_status: EqStatus,
    c_ee_cfg_eq_sw_state: EqSwState,
    c_event_initiator_short: EventInitiatorShort,
    c_event_initiator_long: EventInitiatorLong,
    c_event_target_short: EventTargetShort,
    c_event_target_long: EventTargetLong,
    c_event_cmd_fail: EventCmdFail,
    cxi_rdzv_match_bits: RdzvMatchBits,
    cxi_rdzv_user_ptr: RdzvUserPtr,
    c_ct_cmd: CtCmd,
    c_ct_writeback: CtWriteback,
    c_event_trig_op_short: EventTrigOpShort,
    c_event_trig_op_long: EventTrigOpLong,
}

/// A record that is declared in `src/records` and has no line in `check_records!` would go
/// unchecked.
#[test]
fn checks_every_declared_record() {
    let declared = [
        include_str!("../../src/records/commands.rs"),
        include_str!("../../src/records/events.rs"),
    ];
    let declared: Vec<&str> = declared
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.trim().split_once(" = \"")?.1.split('"').next())
        .collect();
    assert!(declared.len() >= 27, "the declarations were not found");
    let checked = include_str!("records.rs");
    for name in declared {
        assert!(checked.contains(&format!("\n    {name}: ")), "{name} is declared and not checked");
    }
}
