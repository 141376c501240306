//! Devices (libcxi.md 2).

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use cxi_sys::*;
use rustix::io::Errno;

use super::{answer, hand_out, place, take_back};
use crate::engine::PID_BITS;
use crate::environment::Nics;
use crate::nic::Nic;
use crate::runner;

/// What a device is called: `soft0` in the program that carries the NIC along and can have hardware too, `cxi0`
/// to programs that know no other name.
const NAME: &str = if cfg!(feature = "library") {
    "cxi"
} else {
    "soft"
};

/// Portal indices of a PID.
pub const PID_GRANULE: u32 = 1 << (CXI_EP_WIDTH - PID_BITS);

/// PIDs, without the wildcard.
pub const PID_COUNT: u32 = (1 << PID_BITS) - 1;

/// An open device.
#[repr(C)]
pub struct Device {
    public: cxil_dev,
    pub nic: Arc<Nic>,
    pub opened: Instant,
    /// The program has asked for the registers.
    pub registers_mapped: AtomicBool,
}

/// What a device says about itself (libcxi.md 2.2).
///
/// It poses as a Cassini 2, whose rules are the plainer ones: the exceptions for early
/// Cassini 1 parts (drop counts, UINT32 with HRP) need no imitation. `device_platform` tells
/// those who ask that it is no hardware at all.
fn info(id: u32, nid: u32) -> cxil_devinfo {
    let mut info = cxil_devinfo {
        dev_id: id,
        __bindgen_anon_1: cxil_devinfo__bindgen_ty_1 { nid },
        pid_bits: PID_BITS,
        pid_count: PID_COUNT,
        pid_granule: PID_GRANULE,
        min_free_shift: 0,
        rdzv_get_idx: PID_GRANULE - 1,
        device_name: [0; _],
        driver_name: [0; _],
        vendor_id: 0x1590,
        device_id: 0x0371,
        device_rev: 0,
        device_proto: 0,
        device_platform: C_PLATFORM_NETSIM,
        num_ptes: C_NUM_PTLTES as u16,
        num_txqs: C_NUM_TRANSMIT_CQS as u16,
        num_tgqs: C_NUM_TARGET_CQS as u16,
        num_eqs: C_NUM_EQS as u16 - 1,
        num_cts: C_NUM_CTS as u16 - 1,
        num_acs: C_NUM_ACS as u16 - 2,
        num_tles: C_NUM_TLES as u16,
        num_les: crate::engine::portal::MAX_ENTRIES as u16,
        pci_domain: 0,
        pci_bus: 0,
        pci_device: 0,
        pci_function: 0,
        link_mtu: 2112,
        link_speed: 0, // no port, no speed
        link_state: 1,
        uc_nic: 0,
        // Any event queue number but 0, which would say that nobody repeats lost packets. Here none get lost.
        pct_eq: C_NUM_EQS - 1,
        cassini_version: CASSINI_2_0,
        fru_description: [0; _],
        is_vf: false,
        system_type_identifier: CASSINI_2_ONLY,
    };
    text(&mut info.device_name, &format!("{NAME}{id}"));
    text(&mut info.driver_name, "softnic");
    text(&mut info.fru_description, "Not Available");
    info
}

/// Writes a text with its NUL, cut off where the field ends.
fn text(field: &mut [c_char], value: &str) {
    let room = field.len() - 1;
    for (to, from) in field[..room].iter_mut().zip(value.bytes()) {
        *to = from as c_char;
    }
}

fn list_layout(count: usize) -> Layout {
    let size = offset_of!(cxil_device_list, info) + count * size_of::<cxil_devinfo>();
    Layout::from_size_align(size, align_of::<cxil_device_list>()).expect("a few hundred bytes")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_device_list(dev_list: *mut *mut cxil_device_list) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let place = unsafe { place(dev_list) }?;
        let nics = Nics::from_environment().map_err(|_| Errno::INVAL)?;
        let layout = list_layout(nics.listed as usize);
        // SAFETY: the layout is not empty.
        let list: *mut cxil_device_list = unsafe { alloc_zeroed(layout) }.cast();
        if list.is_null() {
            return Err(Errno::NOMEM);
        }
        // SAFETY: the block has room for a list head, and zeros are a valid one.
        unsafe { (*list).count = nics.listed };
        // SAFETY: in the same block.
        let first: *mut cxil_devinfo = unsafe { &raw mut (*list).info }.cast();
        for id in 0..nics.listed {
            let nid = nics.address(id).ok_or(Errno::INVAL)?;
            // SAFETY: the block has room for `listed` entries, of which `id` is one.
            let entry = unsafe { first.add(id as usize) };
            // SAFETY: as above.
            unsafe { entry.write(info(id, nid)) };
        }
        *place = list;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_free_device_list(dev_list: *mut cxil_device_list) {
    if dev_list.is_null() {
        return;
    }
    // SAFETY: C contract: a list of `cxil_get_device_list`, freed once.
    let count = unsafe { (*dev_list).count };
    // SAFETY: allocated there with this layout.
    unsafe { dealloc(dev_list.cast(), list_layout(count as usize)) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_open_device(dev_id: u32, dev: *mut *mut cxil_dev) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let place = unsafe { place(dev) }?;
        let nics = Nics::from_environment().map_err(|_| Errno::INVAL)?;
        let nid = nics.address(dev_id).ok_or(Errno::NOENT)?;
        let nic = Arc::new(Nic::open(nid)?);
        let mut info = info(dev_id, nid);
        info.link_state = nic.with(|engine| Ok(engine.wire.is_up().into()))?;
        runner::add(nic.clone());
        *place = hand_out(Device {
            public: cxil_dev { info },
            nic,
            opened: Instant::now(),
            registers_mapped: AtomicBool::new(false),
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_close_device(dev: *mut cxil_dev) {
    answer(|| {
        // SAFETY: C contract: null, or a device not closed yet.
        let Some(device) = (unsafe { dev.cast::<Device>().as_ref() }) else {
            return Ok(());
        };
        if device.nic.is_ours() {
            runner::remove(&device.nic);
            device.nic.close();
            // SAFETY: made by `cxil_open_device`, and not used any more by C contract.
            unsafe { take_back::<Device, _>(dev) };
        }
        // The device of a parent process is left to the parent, with all that hangs on it.
        Ok(())
    });
}
