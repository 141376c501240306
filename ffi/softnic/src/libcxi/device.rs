//! Devices (libcxi.md 2).

use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use cxi_sys::*;
use rustix::io::Errno;

use super::boundary::{self, Handle, answer, from_c, hand_out};
use crate::engine::PID_BITS;
use crate::environment::Nics;
use crate::fabric::{self, Health};
use crate::nic::SoftwareNic;
use crate::runner;

/// The start of the device names: `soft0` in the program that contains the NIC and can also use
/// hardware, `cxi0` for other programs, which accept no other name.
pub const NAME: &str = if cfg!(feature = "library") { "cxi" } else { "soft" };

/// The name of the driver.
pub const DRIVER: &str = "softnic";

/// PCI domain of software NICs, which firmware of no machine assigns. The bus is the number of the
/// device, so that each has an address of its own.
const PCI_DOMAIN: u16 = 0x5f00;

/// Speed of the link in Mb/s. Programs for hardware divide by it. cxidiag shows none for the NIC
/// that it contains: 0 means that there is no port.
const LINK_SPEED: usize = if cfg!(feature = "library") { 200_000 } else { 0 };

/// Number of portal indices of a PID.
pub const PID_GRANULE: u32 = 1 << (CXI_EP_WIDTH - PID_BITS);

/// Number of PIDs, without the wildcard.
pub const PID_COUNT: u32 = (1 << PID_BITS) - 1;

/// An open device.
#[repr(C)]
pub struct OpenDevice {
    public: cxil_dev,
    pub nic: Arc<SoftwareNic>,
    pub opened: Instant,
    /// The program has mapped the registers.
    pub registers_mapped: AtomicBool,
}

// SAFETY: `cxil_open_device` gives out devices, which begin with their public part.
unsafe impl Handle for cxil_dev {
    type Object = OpenDevice;
}

/// The information about a device (libcxi.md 2.2).
///
/// The version is Cassini 2, because its rules have no exceptions for early parts (drop counts,
/// UINT32 with HRP). `device_platform` states that this is not hardware.
pub fn information(id: u32, nid: u32, health: &Health) -> cxil_devinfo {
    let is_vf = nid > C_NID_ANY;
    let mut info = cxil_devinfo {
        dev_id: id,
        __bindgen_anon_1: cxil_devinfo__bindgen_ty_1 { nid },
        pid_bits: PID_BITS,
        pid_count: PID_COUNT,
        pid_granule: PID_GRANULE,
        min_free_shift: 0,
        rdzv_get_idx: PID_GRANULE - 1,
        device_name: Default::default(),
        driver_name: Default::default(),
        vendor_id: 0x1590,
        device_id: if is_vf { 0x0372 } else { 0x0371 },
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
        pci_domain: PCI_DOMAIN,
        pci_bus: id as u8, // at most 99
        pci_device: 0,
        pci_function: 0,
        link_mtu: 2112,
        // A virtual function has no link, and its retry handler runs on its NIC.
        link_speed: if is_vf { 0 } else { LINK_SPEED },
        link_state: (!is_vf).into(),
        uc_nic: 0,
        // Any event queue number except 0, which means that lost packets are not retried.
        pct_eq: if health.has_retry_handler && !is_vf { C_NUM_EQS - 1 } else { 0 },
        cassini_version: CASSINI_2_0,
        fru_description: Default::default(),
        is_vf,
        system_type_identifier: CASSINI_2_ONLY,
    };
    text(&mut info.device_name, &format!("{NAME}{id}"));
    text(&mut info.driver_name, DRIVER);
    text(&mut info.fru_description, "Not Available");
    info
}

/// Writes a text and its NUL, truncated to the field.
fn text(field: &mut [c_char], value: &str) {
    let room = field.len() - 1;
    for (to, from) in field[..room].iter_mut().zip(value.bytes()) {
        *to = from as c_char;
    }
}

/// Lists the devices, in one block that [`cxil_free_device_list`] frees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_device_list(dev_list: *mut *mut cxil_device_list) -> c_int {
    from_c!(answer_at(dev_list, || {
        let nics = Nics::from_environment().map_err(|_| Errno::INVAL)?;
        let device = |id| {
            let nid = nics.nid(id).ok_or(Errno::INVAL)?;
            let health = fabric::settings(id).map_err(|_| Errno::INVAL)?.health;
            Ok(information(id, nid, &health))
        };
        let devices = (0..nics.listed).map(device).collect::<Result<Vec<cxil_devinfo>, Errno>>()?;
        boundary::hand_out_list(&devices, offset_of!(cxil_device_list, info))
    }))
}

/// Frees a list of [`cxil_get_device_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_free_device_list(dev_list: *mut cxil_device_list) {
    // SAFETY: the caller passes null or a list of `cxil_get_device_list`, which it frees once.
    unsafe { boundary::free_list::<cxil_devinfo, _>(dev_list, offset_of!(cxil_device_list, info)) };
}

/// Opens a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_open_device(dev_id: u32, dev: *mut *mut cxil_dev) -> c_int {
    from_c!(answer_at(dev, || {
        let nics = Nics::from_environment().map_err(|_| Errno::INVAL)?;
        let nid = nics.nid(dev_id).ok_or(Errno::NOENT)?;
        let address = nics.address(dev_id).ok_or(Errno::NOENT)?;
        let nic = Arc::new(SoftwareNic::open(dev_id, address)?);
        let info = nic.with(|engine| {
            let mut info = information(dev_id, nid, &engine.wire.settings.health);
            info.link_state = (engine.wire.is_up() && !info.is_vf).into();
            Ok(info)
        })?;
        runner::add(nic.clone()).inspect_err(|_| nic.close())?;
        Ok(hand_out(OpenDevice {
            public: cxil_dev { info },
            nic,
            opened: Instant::now(),
            registers_mapped: AtomicBool::new(false),
        }))
    }))
}

/// Closes a device, unless it is null or belongs to the parent process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_close_device(dev: *mut cxil_dev) {
    answer(|| {
        let Some(device) = from_c!(optional_handle(dev)) else {
            return Ok(());
        };
        if device.nic.is_ours() {
            runner::remove(&device.nic);
            device.nic.close();
            from_c!(destroy(dev));
        }
        // A device of the parent process remains open for the parent.
        Ok(())
    });
}
