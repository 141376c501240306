//! Portals table entries (libcxi.md 8.3).

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::boundary::{Handle, answer, from_c, hand_out, require_capability};
use super::device::PID_GRANULE;
use super::service::registry::{allocate, publish};
use crate::engine::portal::{
    ANY_DROP_COUNT, MAX_ENTRIES, PortalMap, Pte, PteOptions, ReportedExceptions,
};
use crate::engine::wire::PacketKind;
use crate::nic::SoftwareNic;

/// Handle of a portals table entry.
#[repr(C)]
pub struct PteHandle {
    public: cxil_pte,
    nic: Arc<SoftwareNic>,
    number: usize,
}

// SAFETY: `cxil_alloc_pte` gives out these handles, which begin with their public part.
unsafe impl Handle for cxil_pte {
    type Object = PteHandle;
}

/// Handle of a mapping of an entry to an index.
pub struct MapHandle {
    nic: Arc<SoftwareNic>,
    number: usize,
}

// SAFETY: `cxil_map_pte` gives out these handles, which have no public part.
unsafe impl Handle for cxil_pte_map {
    type Object = MapHandle;
}

/// Makes a portals table entry.
///
/// The options `is_matching`, `use_logical`, `en_flowctrl`, `use_long_event`, `en_event_match`,
/// `en_sw_hw_st_chng`, `en_restricted_unicast_lm` and `signal_*` are implemented (an underflow,
/// which no sum has, is never signaled). Space is always checked. `en_align_lm` and
/// `clr_remote_offset` have no effect (nic.md 15, question 12). EOPNOTSUPP for Ethernet, matching
/// on VNIs, and `lossless`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_pte(
    lni: *mut cxil_lni,
    evtq: *mut cxi_eq,
    opts: *mut cxi_pt_alloc_opts,
    pte: *mut *mut cxil_pte,
) -> c_int {
    from_c!(answer_at(pte, || {
        let lni = from_c!(handle(lni))?;
        let opts = from_c!(input(opts))?;
        let eq = from_c!(optional_handle(evtq));
        if eq.is_some_and(|eq| !lni.owns(&eq.nic, eq.lni)) {
            return Err(Errno::INVAL);
        }
        if opts.ethernet() != 0 {
            return require_capability(CapabilitySet::NET_RAW).and(Err(Errno::OPNOTSUPP));
        }
        if opts.en_match_on_vni() != 0 || opts.lossless() != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let options = PteOptions {
            is_matching: opts.is_matching() != 0,
            en_flowctrl: opts.en_flowctrl() != 0,
            use_long_event: opts.use_long_event() != 0,
            en_event_match: opts.en_event_match() != 0,
            en_sw_hw_st_chng: opts.en_sw_hw_st_chng() != 0,
            en_restricted_unicast_lm: opts.en_restricted_unicast_lm() != 0,
            use_logical: opts.use_logical() != 0,
            signals: ReportedExceptions {
                invalid: opts.signal_invalid() != 0,
                overflow: opts.signal_overflow() != 0,
                inexact: opts.signal_inexact() != 0,
            },
        };
        let number = lni.nic.with(|engine| {
            let mut pte = Pte::new(lni.number, eq.map_or(0, |eq| eq.number as u16), options);
            allocate(engine, lni.number, CXI_RSRC_TYPE_PTE, |engine| {
                let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
                pte.most_entries = owner.most_entries;
                pte.element = owner.next_element();
                engine.ptes.insert_again(lni.number, pte).ok_or(Errno::NOSPC)
            })
        })?;
        Ok(hand_out(PteHandle {
            public: cxil_pte { ptn: number as u32 },
            nic: lni.nic.clone(),
            number,
        }))
    }))
}

/// Destroys a portals table entry. EBUSY while it is mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_pte(pte: *mut cxil_pte) -> c_int {
    from_c!(end(pte, |pte: &PteHandle| {
        pte.nic.with(|engine| {
            if engine.maps.iter().any(|(_, map)| map.pte == pte.number) {
                return Err(Errno::BUSY);
            }
            let lni = engine.ptes.get(pte.number).ok_or(Errno::INVAL)?.lni;
            engine.remove_pte(pte.number);
            publish(engine, lni);
            Ok(())
        })
    }))
}

/// Maps an entry to a portal index of a domain. EOPNOTSUPP for multicast. If an index is mapped
/// twice, operations go to the entry with the lower mapping number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_map_pte(
    pte: *mut cxil_pte,
    domain: *mut cxil_domain,
    pid_offset: c_uint,
    is_multicast: bool,
    pte_map: *mut *mut cxil_pte_map,
) -> c_int {
    from_c!(answer_at(pte_map, || {
        let pte = from_c!(handle(pte))?;
        let domain = from_c!(handle(domain))?;
        if is_multicast {
            return Err(Errno::OPNOTSUPP);
        }
        if pid_offset >= PID_GRANULE || !Arc::ptr_eq(&pte.nic, &domain.nic) {
            return Err(Errno::INVAL);
        }
        let number = pte.nic.with(|engine| {
            let entry = engine.ptes.get(pte.number).ok_or(Errno::INVAL)?;
            let to = engine
                .domains
                .get(domain.number)
                .filter(|to| to.lni == entry.lni)
                .ok_or(Errno::INVAL)?;
            let map = PortalMap {
                domain: domain.number,
                vnis: to.vnis,
                pid: to.pid,
                index: pid_offset as u16,
                pte: pte.number,
            };
            engine.maps.insert(map).ok_or(Errno::NOSPC)
        })?;
        Ok(hand_out(MapHandle { nic: pte.nic.clone(), number }))
    }))
}

/// Unmaps an entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_unmap_pte(pte_map: *mut cxil_pte_map) -> c_int {
    from_c!(end(pte_map, |pte_map: &MapHandle| {
        pte_map
            .nic
            .with(|engine| engine.maps.remove(pte_map.number).map(|_| ()).ok_or(Errno::INVAL))
    }))
}

/// Ends the operations in progress at entries of `list` with this buffer id, which software has
/// unlinked: received puts and gets end with MST_CANCELLED (nic.md 8.5) and do not access the
/// memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_invalidate_pte_le(
    pte: *mut cxil_pte,
    buffer_id: c_uint,
    list: c_ptl_list,
) -> c_int {
    answer(|| {
        let PteHandle { nic, number, .. } = from_c!(handle(pte))?;
        // The UNEXPECTED list has headers, not entries.
        if !matches!(list, C_PTL_LIST_PRIORITY | C_PTL_LIST_OVERFLOW | C_PTL_LIST_REQUEST) {
            return Err(Errno::INVAL);
        }
        nic.with(|engine| {
            engine.ptes.get(*number).ok_or(Errno::INVAL)?;
            engine.cancel_messages(|landing| {
                landing.pte == *number
                    && u32::from(landing.entry.buffer_id()) == buffer_id
                    && u32::from(landing.entry.ptl_list()) == list
            });
            Ok(())
        })
    })
}

/// State, drop count and list entries of a portals table entry. `ule_count` is the number of
/// headers of the UNEXPECTED list that `ule_offsets` has room for, and after the call the number of
/// headers. The offset of a rendezvous message is its raw remote offset; the offset of another
/// message is the address of its data (nic.md 8.7). No entries are reserved: the portals of a
/// processing element share one pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_pte_status(pte: *mut cxil_pte, status: *mut cxi_pte_status) -> c_int {
    answer(|| {
        let PteHandle { nic, number, .. } = from_c!(handle(pte))?;
        let status = from_c!(output(status))?;
        if status.ule_count > 0 && status.ule_offsets.is_null() {
            return Err(Errno::INVAL);
        }
        nic.with(|engine| {
            let pte = engine.ptes.get(*number).ok_or(Errno::INVAL)?;
            let entries = engine.entries[pte.element];
            status.drop_count = pte.drop_count;
            status.state = pte.state as u8;
            status.les_reserved = 0;
            status.les_allocated = entries as u16;
            status.les_max = pte.most_entries.min(MAX_ENTRIES) as u16;
            let headers = &pte.lists.unexpected;
            for (index, found) in headers.iter().take(status.ule_count.into()).enumerate() {
                let offset = match found.header.kind {
                    PacketKind::Rendezvous => found.header.remote_offset,
                    _ => found.start,
                };
                let place = status.ule_offsets.wrapping_add(index);
                // SAFETY: the caller passes room for `ule_count` offsets, of which this is one.
                unsafe { place.write(offset) };
            }
            status.ule_count = headers.len() as u16;
            Ok(())
        })
    })
}

/// Sets the state SOFTWARE_MANAGED as SETSTATE does, with the number of dropped messages, and with
/// the STATE_CHANGE of that command. EINVAL for a number of more than 24 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_pte_transition_sm(pte: *mut cxil_pte, drop_count: c_uint) -> c_int {
    answer(|| {
        let PteHandle { nic, number, .. } = from_c!(handle(pte))?;
        if drop_count > ANY_DROP_COUNT {
            return Err(Errno::INVAL);
        }
        nic.with(|engine| {
            let pte = engine.ptes.get_mut(*number).ok_or(Errno::INVAL)?;
            let (eqs, entries) = (&mut engine.eqs, &mut engine.entries[pte.element]);
            let state = C_PTLTE_SOFTWARE_MANAGED;
            pte.set_state(*number as u16, state, drop_count, eqs, entries);
            Ok(())
        })
    })
}
