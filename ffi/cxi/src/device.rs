//! NICs and their device information.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use cxi_sys::{cxil_dev, cxil_device_list, cxil_devinfo};

use crate::error::{Error, check};
use crate::library::{Library, ProgressHook};
use crate::library::{ReleaseHandle, close};

/// Device information, read when the NIC was opened or listed (libcxi.md 2.2). `nid`, `link_up` and
/// `retry_handler_eq` may change later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Number of the device: N of `cxiN`.
    pub id: u32,
    /// `cxiN`; `softN` for a software NIC.
    pub name: String,
    /// Name of the driver.
    pub driver: String,
    /// NIC address on the fabric: 20 bits, and 6 more of a virtual function
    /// ([`address::sent_nid`](crate::address::sent_nid)).
    pub nid: u32,
    /// Width of a PID in bits, 6 to 9.
    pub pid_bits: u32,
    /// Number of PIDs, without the wildcard.
    pub pid_count: u32,
    /// Number of portal indices of one PID.
    pub pid_granule: u32,
    /// Portal index that rendezvous gets of the NIC address.
    pub rdzv_get_idx: u32,
    /// The unit of `min_free` in a list entry is `1 << min_free_shift` bytes.
    pub min_free_shift: u32,
    /// PCI vendor id.
    pub vendor_id: u32,
    /// PCI device id.
    pub device_id: u32,
    /// Hardware revision.
    pub revision: u32,
    /// `C_PLATFORM_*`: 0 ASIC, 1 simulator, 2 Z1, 3 FPGA.
    pub platform: u32,
    /// `domain:bus:device.function`.
    pub pci_address: String,
    /// Largest frame of the link in bytes, including 64 bytes of headers.
    pub link_mtu: usize,
    /// Link speed as reported by the driver; 0 without a port.
    pub link_speed: usize,
    /// Whether the link is up; not of a virtual function ([`Self::is_link_down`]).
    pub link_up: bool,
    /// Position of the NIC on a card with two NICs.
    pub card_nic: i32,
    /// Event queue of the retry handler. 0 means that none runs on this NIC, so that lost packets
    /// are not retried ([`Self::lacks_retry_handler`]).
    pub retry_handler_eq: u32,
    /// Name of the board.
    pub board: String,
    /// Whether this is a virtual function.
    pub is_virtual_function: bool,
}

impl DeviceInfo {
    /// Whether the link is down. A virtual function has none of its own (libcxi.md 2.2).
    pub fn is_link_down(&self) -> bool {
        !self.link_up && !self.is_virtual_function
    }

    /// Whether no retry handler runs. The one of a virtual function runs on its NIC (libcxi.md
    /// 2.2).
    pub fn lacks_retry_handler(&self) -> bool {
        self.retry_handler_eq == 0 && !self.is_virtual_function
    }

    /// Whether the device reports that it is not hardware.
    pub fn is_simulated(&self) -> bool {
        self.platform == cxi_sys::C_PLATFORM_NETSIM
    }

    fn from_c(info: &cxil_devinfo) -> Self {
        Self {
            id: info.dev_id,
            name: text(&info.device_name),
            driver: text(&info.driver_name),
            // SAFETY: both members of the union are the same unsigned integer.
            nid: unsafe { info.__bindgen_anon_1.nid },
            pid_bits: info.pid_bits,
            pid_count: info.pid_count,
            pid_granule: info.pid_granule,
            rdzv_get_idx: info.rdzv_get_idx,
            min_free_shift: info.min_free_shift,
            vendor_id: info.vendor_id,
            device_id: info.device_id,
            revision: info.device_rev,
            platform: info.device_platform,
            pci_address: format!(
                "{:04x}:{:02x}:{:02x}.{:x}",
                info.pci_domain, info.pci_bus, info.pci_device, info.pci_function
            ),
            link_mtu: info.link_mtu,
            link_speed: info.link_speed,
            link_up: info.link_state != 0,
            card_nic: info.uc_nic,
            retry_handler_eq: info.pct_eq,
            board: text(&info.fru_description),
            is_virtual_function: info.is_vf,
        }
    }
}

/// The text of a field: its characters up to the first NUL, or all.
fn text(field: &[c_char]) -> String {
    // `c_char` is signed on x86_64 and not on aarch64.
    let bytes: Vec<u8> = field.iter().flat_map(|c| c.to_ne_bytes()).collect();
    match CStr::from_bytes_until_nul(&bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

/// The NICs of this host in the order of the library. The library omits NICs that it cannot open
/// (libcxi.md 2.3).
///
/// # Errors
///
/// The errors of `cxil_get_device_list`.
pub fn devices(library: &Library) -> Result<Vec<DeviceInfo>, Error> {
    let mut list: *mut cxil_device_list = ptr::null_mut();
    // SAFETY: `list` is a valid out pointer.
    check("cxil_get_device_list", unsafe { (library.api().cxil_get_device_list)(&raw mut list) })?;
    if list.is_null() {
        return Err(Error::new("cxil_get_device_list", libc::EFAULT));
    }
    // SAFETY: the list is allocated until it is freed below.
    let count = unsafe { (*list).count } as usize;
    // SAFETY: the list is allocated, and `info` lies inside it or at its end.
    let first = unsafe { &raw const (*list).info }.cast::<cxil_devinfo>();
    let infos = (0..count)
        .map(|index| {
            // SAFETY: the list holds `count` elements and is not freed before this borrow ends.
            let info = unsafe { &*first.wrapping_add(index) };
            DeviceInfo::from_c(info)
        })
        .collect();
    // SAFETY: `cxil_get_device_list` returned the list; nothing refers to it after this call.
    unsafe { (library.api().cxil_free_device_list)(list) };
    Ok(infos)
}

/// An open NIC.
pub struct Device {
    handle: Arc<DeviceHandle>,
    info: DeviceInfo,
    /// Not `Send`, not `Sync`: the library has no locks.
    _one_thread: PhantomData<*const ()>,
}

impl Device {
    /// Opens NIC number `id`.
    ///
    /// # Errors
    ///
    /// See libcxi.md 2.1.
    pub fn open(library: &Library, id: u32) -> Result<Self, Error> {
        const CALL: &str = "cxil_open_device";
        let mut device = ptr::null_mut();
        let calling = library.serialize();
        // After a failure the pointer may dangle and is not used.
        // SAFETY: `device` is a valid out pointer.
        check(CALL, unsafe { (library.api().cxil_open_device)(id, &raw mut device) })?;
        drop(calling);
        let handle = Arc::new(DeviceHandle {
            device: Some(NonNull::new(device).ok_or(Error::new(CALL, libc::EFAULT))?),
            library: library.share(),
        });
        // SAFETY: the handle keeps the device open; the library does not write its information
        // later.
        let info = unsafe { &(*handle.as_ptr()).info };
        let info = DeviceInfo::from_c(info);
        Ok(Self { handle, info, _one_thread: PhantomData })
    }

    /// Marks the NIC as a virtual function, for libraries before June 2026, which do not report it
    /// (libcxi.md 2.2).
    #[must_use]
    pub fn as_virtual_function(mut self) -> Self {
        self.info.is_virtual_function = true;
        self
    }

    /// The device information as of the moment of opening.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Closes the NIC.
    ///
    /// # Errors
    ///
    /// EBUSY while objects on the NIC exist; it is then closed after the last of them.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    pub(crate) fn handle(&self) -> &Arc<DeviceHandle> {
        &self.handle
    }
}

pub(crate) struct DeviceHandle {
    /// `None` once closed.
    device: Option<NonNull<cxil_dev>>,
    library: Library,
}

// SAFETY: a device belongs to the process, not to a thread. `Library::serialize` lets one thread at
// a time call the library, which has no locks (libcxi.md 1).
unsafe impl Send for DeviceHandle {}
// SAFETY: a shared handle gives access to the pointer only; calls are serialized.
unsafe impl Sync for DeviceHandle {}

impl DeviceHandle {
    pub(crate) fn as_ptr(&self) -> *mut cxil_dev {
        self.device.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    pub(crate) fn progress(&self) -> ProgressHook {
        ProgressHook::new(&self.library, self.as_ptr())
    }
}

impl ReleaseHandle for DeviceHandle {
    const CALL: &'static str = "cxil_close_device";

    fn release(&mut self) -> Result<(), Error> {
        if let Some(device) = self.device.take() {
            let _calling = self.library.serialize();
            // SAFETY: `cxil_open_device` returned the device, and `take` lets it be closed only
            // once.
            unsafe { (self.library.api().cxil_close_device)(device.as_ptr()) };
        }
        Ok(())
    }
}

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        // `release` always returns `Ok`.
        let _ = self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn ends_text_at_nul_or_end_of_field() {
        assert_eq!(text(&[99, 120, 105, 48, 0, 65]), "cxi0");
        assert_eq!(text(&[99, 120]), "cx");
        assert_eq!(text(&[]), "");
    }
}
