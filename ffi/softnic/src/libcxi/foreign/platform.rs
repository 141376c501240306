//! Functions about the host, and about parts of a NIC that this one does not have.

use std::ffi::{c_int, c_uint, c_void};

use cxi_sys::*;
use rustix::io::Errno;

use crate::libcxi::boundary::{answer, from_c, require_root};
use crate::libcxi::device::OpenDevice;
use crate::process_memory::kernel_page_size;

/// Waits until received data is in memory: has the engine handle all received packets. Packets that
/// the link model still delays are not received yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_inbound_wait(dev: *mut cxil_dev) -> c_int {
    answer(|| {
        let device = from_c!(handle(dev))?;
        device.nic.with(|engine| {
            engine.settle();
            Ok(())
        })
    })
}

/// Returns the operation that the NIC replaces by an addition, as the file of the driver says: -1
/// for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_amo_remap_to_pcie_fadd(
    dev: *mut cxil_dev,
    amo_remap_to_pcie_fadd: *mut c_int,
) -> c_int {
    from_c!(answer_at(amo_remap_to_pcie_fadd, || {
        let device = from_c!(handle(dev))?;
        let opcode = device.nic.with(|engine| Ok(engine.wire.fetch_add.opcode()))?;
        Ok(opcode.map_or(-1, c_int::from))
    }))
}

/// Returns the size of the pages at `base` in bytes, huge pages included; 0 for null and where
/// nothing is mapped, because the result is unsigned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_page_size(base: *mut c_void) -> usize {
    let mut size = 0;
    answer(|| {
        size = kernel_page_size(base.addr())?;
        Ok(())
    });
    size
}

/// Whether the kernel copies pinned pages for a child at fork, so that the parent keeps its own.
/// Always true: this NIC accesses memory through the addresses of the process, which a fork does
/// not change.
#[unsafe(no_mangle)]
pub extern "C" fn cxil_is_copy_on_fork() -> bool {
    true
}

/// Fails with ENODEV: this NIC has no serial bus.
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
    answer(|| absent(from_c!(handle(dev))?, complete))
}

/// Fails with ENODEV: this NIC has no serial bus.
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
    answer(|| absent(from_c!(handle(dev))?, complete))
}

/// Fails with ENODEV: this NIC has no serial bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op_reset(dev: *mut cxil_dev) -> c_int {
    answer(|| absent(from_c!(handle(dev))?, true))
}

/// Fails with ENODEV: this NIC has no serial bus.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_sbus_op_reset_compat(dev: *mut cxil_dev, _ring: c_int) -> c_int {
    answer(|| absent(from_c!(handle(dev))?, true))
}

/// Fails with ENODEV: this NIC has no port.
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
    answer(|| absent(from_c!(handle(dev))?, !result.is_null()))
}

/// Fails as functions about an absent part do: EINVAL for bad arguments, EPERM unless the caller is
/// root, else ENODEV.
fn absent(device: &OpenDevice, arguments_complete: bool) -> Result<(), Errno> {
    if !arguments_complete {
        return Err(Errno::INVAL);
    }
    device.nic.with(|_| Ok(()))?;
    require_root()?;
    Err(Errno::NODEV)
}
