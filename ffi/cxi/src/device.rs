//! A NIC and what it says about itself.

use std::ffi::{CStr, c_char};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use cxi_sys::{cxil_dev, cxil_device_list, cxil_devinfo};

use crate::error::{Error, check};
use crate::library::{Library, Progress};
use crate::owned::{Release, close};
use crate::service::{self, Service};

/// What a NIC says about itself, as of the moment it was opened or listed
/// (libcxi.md 2.2). `nid`, `link_up` and `retry_handler_eq` may change later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Number of the device: N of `cxiN`.
    pub id: u32,
    /// `cxiN`; a software NIC has names of its own.
    pub name: String,
    /// Name of the driver.
    pub driver: String,
    /// Fabric address, 20 bits.
    pub nid: u32,
    /// Width of a PID in bits, 6 to 9.
    pub pid_bits: u32,
    /// Number of PIDs, the wildcard not counted.
    pub pid_count: u32,
    /// Portal indices of one PID.
    pub pid_granule: u32,
    /// Portal index to which the NIC directs rendezvous gets.
    pub rdzv_get_idx: u32,
    /// `min_free` of a list entry is counted in units of `1 << min_free_shift` bytes.
    pub min_free_shift: u32,
    /// PCI vendor.
    pub vendor_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// Revision of the device.
    pub revision: u32,
    /// `C_PLATFORM_*`: 0 ASIC, 1 simulator, 2 Z1, 3 FPGA.
    pub platform: u32,
    /// `domain:bus:device.function`.
    pub pci_address: String,
    /// Largest frame of the link in bytes, payload and 64 bytes of headers.
    pub link_mtu: usize,
    /// Speed as the driver reports it; 0 without a port.
    pub link_speed: usize,
    /// Whether the link is up.
    pub link_up: bool,
    /// Which NIC of a two-NIC card.
    pub card_nic: i32,
    /// Event queue of the retry handler, 0 = it is not running: lost packets are not
    /// retried.
    pub retry_handler_eq: u32,
    /// Name of the board.
    pub board: String,
    /// Whether this is a virtual function.
    pub is_virtual_function: bool,
}

impl DeviceInfo {
    /// Whether the device says that it is no hardware.
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

/// The characters up to the NUL, or all of them.
fn text(field: &[c_char]) -> String {
    // `c_char` is signed on x86_64 and not on aarch64.
    let bytes: Vec<u8> = field.iter().flat_map(|c| c.to_ne_bytes()).collect();
    match CStr::from_bytes_until_nul(&bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

/// The NICs of this host, in the library's order. One that cannot be opened is left out
/// by the library (libcxi.md 2.3).
pub fn devices(library: &Library) -> Result<Vec<DeviceInfo>, Error> {
    let mut list: *mut cxil_device_list = ptr::null_mut();
    // SAFETY: the argument points to a pointer that the function fills.
    check("cxil_get_device_list", unsafe {
        (library.api().cxil_get_device_list)(&raw mut list)
    })?;
    if list.is_null() {
        return Err(Error::new("cxil_get_device_list", libc::EFAULT));
    }
    // SAFETY: the list is alive until it is freed below.
    let count = unsafe { (*list).count } as usize;
    // SAFETY: the list is alive, so the place of its first element is inside it or one past it.
    let first = unsafe { &raw const (*list).info }.cast::<cxil_devinfo>();
    let infos = (0..count)
        .map(|index| {
            // SAFETY: the list holds `count` elements.
            let info = unsafe { &*first.wrapping_add(index) };
            DeviceInfo::from_c(info)
        })
        .collect();
    // SAFETY: the list came from cxil_get_device_list and is not used again.
    unsafe { (library.api().cxil_free_device_list)(list) };
    Ok(infos)
}

/// An open NIC.
pub struct Device {
    handle: Rc<DeviceHandle>,
    info: DeviceInfo,
}

impl Device {
    /// Opens NIC number `id`. Errors: libcxi.md 2.1.
    pub fn open(library: &Library, id: u32) -> Result<Self, Error> {
        const CALL: &str = "cxil_open_device";
        let mut device = ptr::null_mut();
        // A failing library may leave a dangling pointer here: it is not looked at.
        // SAFETY: the argument points to a pointer that the function fills.
        check(CALL, unsafe {
            (library.api().cxil_open_device)(id, &raw mut device)
        })?;
        let handle = Rc::new(DeviceHandle {
            device: Some(NonNull::new(device).ok_or(Error::new(CALL, libc::EFAULT))?),
            library: library.share(),
        });
        // SAFETY: the device is open, and nothing writes its information after that.
        let info = unsafe { &(*handle.as_ptr()).info };
        let info = DeviceInfo::from_c(info);
        Ok(Self { handle, info })
    }

    /// What the NIC said about itself when it was opened.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The service `id` of this NIC. EINVAL: there is none (libcxi.md 3.1).
    pub fn service(&self, id: u32) -> Result<Service, Error> {
        Service::read(&self.handle, id)
    }

    /// All services of this NIC, by number. `None` from a library too old to tell (libcxi.md 1).
    pub fn services(&self) -> Result<Option<Vec<Service>>, Error> {
        Service::list(&self.handle)
    }

    /// What processes use of a service now, in the order of [`RESOURCES`](crate::RESOURCES). `None` from a
    /// library too old to tell. EINVAL: there is no such service.
    pub fn in_use(&self, service: u32) -> Result<Option<[u16; 8]>, Error> {
        service::in_use(&self.handle, service)
    }

    /// Closes the NIC. EBUSY while objects on it exist; it is closed after the last.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    pub(crate) fn handle(&self) -> &Rc<DeviceHandle> {
        &self.handle
    }
}

pub(crate) struct DeviceHandle {
    /// `None` once closed.
    device: Option<NonNull<cxil_dev>>,
    library: Library,
}

impl DeviceHandle {
    pub(crate) fn as_ptr(&self) -> *mut cxil_dev {
        self.device.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress::new(&self.library, self.as_ptr())
    }
}

impl Release for DeviceHandle {
    const CALL: &'static str = "cxil_close_device";

    fn release(&mut self) -> Result<(), Error> {
        if let Some(device) = self.device.take() {
            // SAFETY: the device was opened by this handle and is closed once.
            unsafe { (self.library.api().cxil_close_device)(device.as_ptr()) };
        }
        Ok(())
    }
}

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        // Cannot fail: the C function returns nothing.
        let _ = self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_text_field_ends_at_its_nul_or_at_its_end() {
        assert_eq!(text(&[99, 120, 105, 48, 0, 65]), "cxi0");
        assert_eq!(text(&[99, 120]), "cx");
        assert_eq!(text(&[]), "");
    }
}
