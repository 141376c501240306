//! Functions about the host and about parts of a NIC that this one does not have.

use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};

use cxi_sys::*;
use rustix::io::Errno;

use super::device::Device;
use super::{answer, handle};
use crate::pages::page_size;

/// Waits until what has come in is in memory. Here nothing is ever between the wire and memory but packets that
/// the engine has not looked at: it looks. What the link model still holds back has not come in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_inbound_wait(dev: *mut cxil_dev) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        device.nic.with(|engine| {
            engine.settle();
            Ok(())
        })
    })
}

/// The operation that the driver replaces by a fetching add of PCIe; -1 says none: operations are executed
/// as they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_amo_remap_to_pcie_fadd(
    dev: *mut cxil_dev,
    amo_remap_to_pcie_fadd: *mut c_int,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        // SAFETY: C contract.
        let place = unsafe { amo_remap_to_pcie_fadd.as_mut() }.ok_or(Errno::INVAL)?;
        device.nic.with(|_| Ok(()))?;
        *place = -1;
        Ok(())
    })
}

/// The size of the pages behind `base`, huge pages included, in bytes; 0, for the result has no sign, for null and
/// where nothing is mapped. It comes from `/proc/self/smaps`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_page_size(base: *mut c_void) -> usize {
    let mut size = 0;
    answer(|| {
        size = kernel_page_size(base.addr())?;
        Ok(())
    });
    size
}

/// Size of the pages of the mapping that holds an address; EFAULT where nothing is mapped.
pub fn kernel_page_size(address: usize) -> Result<usize, Errno> {
    let Ok(file) = File::open("/proc/self/smaps") else {
        return Ok(page_size());
    };
    let mut inside = false;
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-')
            && let Ok(from) = usize::from_str_radix(from, 16)
            && let Ok(to) = usize::from_str_radix(to, 16)
        {
            inside = (from..to).contains(&address);
        } else if inside && let Some(size) = line.strip_prefix("KernelPageSize:") {
            let kilobytes = size.trim().trim_end_matches(" kB").parse::<usize>();
            return kilobytes
                .map(|kilobytes| kilobytes * 1024)
                .map_err(|_| Errno::OVERFLOW);
        }
    }
    Err(Errno::FAULT)
}

/// Whether the kernel copies pinned pages for a child at fork, so that the parent keeps its own. Linux does so
/// for pages that are pinned through the kernel; this NIC uses the memory through the process itself, which
/// keeps its addresses whatever the kernel copies. So a fork never takes memory away from it.
#[unsafe(no_mangle)]
pub extern "C" fn cxil_is_copy_on_fork() -> bool {
    true
}

/// The serial bus of the chip: ENODEV, this NIC has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op(
    dev: *mut cxil_dev,
    params: *const cxi_sbus_op_params,
    rsp_data: *mut u32,
    result_code: *mut u8,
    overrun: *mut u8,
) -> c_int {
    let complete =
        !params.is_null() && !rsp_data.is_null() && !result_code.is_null() && !overrun.is_null();
    // SAFETY: C contract, the same.
    unsafe { absent(dev, complete) }
}

/// As [`cxil_sbus_op`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op_compat(
    dev: *mut cxil_dev,
    _ring: c_int,
    _req_data: u32,
    _data_addr: u8,
    _rx_addr: u8,
    _command: u8,
    rsp_data: *mut u32,
    result_code: *mut u8,
    overrun: *mut u8,
    _timeout: c_int,
    _flags: c_uint,
) -> c_int {
    let complete = !rsp_data.is_null() && !result_code.is_null() && !overrun.is_null();
    // SAFETY: C contract, the same.
    unsafe { absent(dev, complete) }
}

/// As [`cxil_sbus_op`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op_reset(dev: *mut cxil_dev) -> c_int {
    // SAFETY: C contract, the same.
    unsafe { absent(dev, true) }
}

/// As [`cxil_sbus_op`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op_reset_compat(dev: *mut cxil_dev, _ring: c_int) -> c_int {
    // SAFETY: C contract, the same.
    unsafe { absent(dev, true) }
}

/// The serialisers of the port: ENODEV, this NIC has no port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_serdes_op(
    dev: *mut cxil_dev,
    _port_num: c_int,
    _serdes_sel: u64,
    _op: u64,
    _data: u64,
    result: *mut u16,
    _timeout: c_int,
    _flags: c_uint,
) -> c_int {
    // SAFETY: C contract, the same.
    unsafe { absent(dev, !result.is_null()) }
}

/// The answer for a part that is not there: EINVAL for bad arguments; EPERM without privilege, which the
/// chip's insides need; else ENODEV.
///
/// # Safety
/// `dev` is null or an open device.
unsafe fn absent(dev: *mut cxil_dev, arguments_complete: bool) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let device: &Device = unsafe { handle(dev) }?;
        if !arguments_complete {
            return Err(Errno::INVAL);
        }
        device.nic.with(|_| Ok(()))?;
        Err(if rustix::process::geteuid().is_root() {
            Errno::NODEV
        } else {
            Errno::PERM
        })
    })
}
