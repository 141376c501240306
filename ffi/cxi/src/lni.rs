//! Logical network interfaces, and their addresses (domains) and communication profiles.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use cxi_sys::{
    TRIG_LCID, cxi_cp, cxi_traffic_class, cxi_traffic_class_type, cxil_domain, cxil_lni,
};

use crate::device::{Device, DeviceHandle};
use crate::error::Error;
use crate::library::{Destroy, Owned, ReleaseHandle, close};
use crate::library::{Library, ProgressHook};
use crate::observer::Observer;

/// A logical network interface (LNI): the access of the process to a NIC, in one service. All
/// queues, addresses and memory regions belong to one.
pub struct Lni {
    handle: Arc<LniHandle>,
    /// Not `Send`, not `Sync`: the library has no locks.
    _one_thread: PhantomData<*const ()>,
}

impl Lni {
    /// Allocates an interface in service `service`.
    ///
    /// # Errors
    ///
    /// See libcxi.md 4; EKEYREVOKED means that the service is disabled.
    pub fn new(device: &Device, service: u32) -> Result<Self, Error> {
        let device = device.handle();
        let api = device.library().api();
        let object = Owned::allocate(
            device.library(),
            "cxil_alloc_lni",
            Destroy { call: LniHandle::CALL, function: api.cxil_destroy_lni },
            // SAFETY: the handle keeps the device open; `lni` is a valid out pointer.
            |lni| unsafe { (api.cxil_alloc_lni)(device.as_ptr(), lni, service) },
        )?;
        Ok(Self {
            handle: Arc::new(LniHandle {
                object,
                device: Arc::clone(device),
                observer: Observer::default(),
            }),
            _one_thread: PhantomData,
        })
    }

    /// The number of the interface within the open device.
    pub fn id(&self) -> u32 {
        self.handle.object.read().id
    }

    /// The observer of the objects of the interface.
    pub fn observer(&self) -> &Observer {
        &self.handle.observer
    }

    /// Releases the interface.
    ///
    /// # Errors
    ///
    /// EBUSY while objects of the interface exist; errors of `cxil_destroy_lni`.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    pub(crate) fn handle(&self) -> &Arc<LniHandle> {
        &self.handle
    }
}

pub(crate) struct LniHandle {
    object: Owned<cxil_lni>,
    device: Arc<DeviceHandle>,
    observer: Observer,
}

impl LniHandle {
    pub(crate) fn as_ptr(&self) -> *mut cxil_lni {
        self.object.as_ptr()
    }

    pub(crate) fn library(&self) -> &Library {
        self.object.library()
    }

    pub(crate) fn progress(&self) -> ProgressHook {
        self.device.progress()
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }
}

impl ReleaseHandle for LniHandle {
    const CALL: &'static str = "cxil_destroy_lni";

    fn release(&mut self) -> Result<(), Error> {
        self.object.release()
    }
}

/// An endpoint address: a PID on a VNI of one NIC.
pub struct Domain {
    handle: Arc<DomainHandle>,
    /// Not `Send`, not `Sync`: the library has no locks.
    _one_thread: PhantomData<*const ()>,
}

impl Domain {
    /// Reserves `pid` on `vni` (1 to 65535); `C_PID_ANY` requests any free PID.
    ///
    /// # Errors
    ///
    /// See libcxi.md 6.
    pub fn new(lni: &Lni, vni: u32, pid: u32) -> Result<Self, Error> {
        let lni = lni.handle();
        let api = lni.library().api();
        let object = Owned::allocate(
            lni.library(),
            "cxil_alloc_domain",
            Destroy { call: DomainHandle::CALL, function: api.cxil_destroy_domain },
            // SAFETY: the handle keeps the interface allocated; `domain` is a valid out pointer.
            |domain| unsafe { (api.cxil_alloc_domain)(lni.as_ptr(), vni, pid, domain) },
        )?;
        Ok(Self {
            handle: Arc::new(DomainHandle { object, _lni: Arc::clone(lni) }),
            _one_thread: PhantomData,
        })
    }

    /// The VNI of the domain.
    pub fn vni(&self) -> u32 {
        self.handle.object.read().vni
    }

    /// The reserved PID.
    pub fn pid(&self) -> u32 {
        self.handle.object.read().pid
    }

    /// Releases the PID.
    ///
    /// # Errors
    ///
    /// EBUSY while a portals table entry is mapped in the domain; errors of `cxil_destroy_domain`.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    pub(crate) fn handle(&self) -> &Arc<DomainHandle> {
        &self.handle
    }
}

pub(crate) struct DomainHandle {
    object: Owned<cxil_domain>,
    _lni: Arc<LniHandle>,
}

impl DomainHandle {
    pub(crate) fn as_ptr(&self) -> *mut cxil_domain {
        self.object.as_ptr()
    }
}

impl ReleaseHandle for DomainHandle {
    const CALL: &'static str = "cxil_destroy_domain";

    fn release(&mut self) -> Result<(), Error> {
        self.object.release()
    }
}

/// A communication profile: the VNI and traffic class of a transmit queue. Clones are the same
/// profile, which is released with the last of them.
#[derive(Clone)]
pub struct CommunicationProfile {
    handle: Arc<ProfileHandle>,
    /// `Send`, not `Sync`: the library has no locks.
    _one_thread_at_a_time: PhantomData<Cell<()>>,
}

impl CommunicationProfile {
    /// Allocates a profile for `vni` with traffic class `CXI_TC_*` and type `CXI_TC_TYPE_*`.
    ///
    /// # Errors
    ///
    /// See libcxi.md 5.
    pub fn new(
        lni: &Lni,
        vni: u32,
        class: cxi_traffic_class,
        class_type: cxi_traffic_class_type,
    ) -> Result<Self, Error> {
        let lni = lni.handle();
        let api = lni.library().api();
        // SAFETY: the handle keeps the interface allocated; `profile` is a valid out pointer.
        Self::allocate(lni, "cxil_alloc_cp", |profile| unsafe {
            (api.cxil_alloc_cp)(lni.as_ptr(), vni, class, class_type, profile)
        })
    }

    /// Allocates a profile with LCID 0, which trigger queues require. A library that cannot
    /// allocate an LCID by number (libcxi.md 1) gives LCID 0 to the first profile of an interface.
    ///
    /// # Errors
    ///
    /// ENOSPC if a different profile has LCID 0; others as for [`new`](Self::new).
    pub fn for_triggers(
        lni: &Lni,
        vni: u32,
        class: cxi_traffic_class,
        class_type: cxi_traffic_class_type,
    ) -> Result<Self, Error> {
        let Some(alloc_trig_cp) = lni.handle().library().api().cxil_alloc_trig_cp else {
            return Self::new(lni, vni, class, class_type);
        };
        let lni = lni.handle();
        // SAFETY: the handle keeps the interface allocated; `profile` is a valid out pointer.
        Self::allocate(lni, "cxil_alloc_trig_cp", |profile| unsafe {
            alloc_trig_cp(lni.as_ptr(), vni, class, class_type, TRIG_LCID, profile)
        })
    }

    fn allocate(
        lni: &Arc<LniHandle>,
        call: &'static str,
        allocate: impl FnOnce(*mut *mut cxi_cp) -> c_int,
    ) -> Result<Self, Error> {
        let api = lni.library().api();
        let destroy = Destroy { call: ProfileHandle::CALL, function: api.cxil_destroy_cp };
        let object = Owned::allocate(lni.library(), call, destroy, allocate)?;
        Ok(Self {
            handle: Arc::new(ProfileHandle { object, lni: Arc::clone(lni) }),
            _one_thread_at_a_time: PhantomData,
        })
    }

    /// The number (LCID, 0 to 15) by which queues and commands name the profile. Whether equal
    /// profiles share an LCID depends on the driver (libcxi.md 5).
    pub fn lcid(&self) -> u32 {
        self.handle.lcid()
    }

    /// Releases the profile.
    ///
    /// # Errors
    ///
    /// EBUSY while a transmit queue uses the profile, which libcxi does not check (libcxi.md 5), or
    /// a clone exists; errors of `cxil_destroy_cp`.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    pub(crate) fn handle(&self) -> &Arc<ProfileHandle> {
        &self.handle
    }
}

pub(crate) struct ProfileHandle {
    object: Owned<cxi_cp>,
    lni: Arc<LniHandle>,
}

impl ProfileHandle {
    pub(crate) fn lcid(&self) -> u32 {
        self.object.read().lcid
    }

    pub(crate) fn lni(&self) -> &Arc<LniHandle> {
        &self.lni
    }
}

impl ReleaseHandle for ProfileHandle {
    const CALL: &'static str = "cxil_destroy_cp";

    fn release(&mut self) -> Result<(), Error> {
        self.object.release()
    }
}
