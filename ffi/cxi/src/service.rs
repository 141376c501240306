//! Services: who may use a NIC, with which VNIs.

use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::ptr;

use cxi_sys::{
    CXI_SVC_MEMBER_GID, CXI_SVC_MEMBER_IGNORE, CXI_SVC_MEMBER_NET_NS, CXI_SVC_MEMBER_UID,
    cxi_rsrc_use, cxi_svc_desc, cxi_svc_desc__bindgen_ty_1, cxil_svc_list,
};

use crate::device::DeviceHandle;
use crate::error::{Error, check};

/// One entry of a service's member list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
    /// A network namespace, by its inode number.
    NetworkNamespace(u32),
    /// Another kind, by its number (`CXI_SVC_MEMBER_*`).
    Other(u32),
}

/// What a service limits, in the order of its limits (`CXI_RSRC_TYPE_*`): portals table entries, transmit
/// and target command queues, event queues, counters, list entries, trigger list entries, address contexts.
pub const RESOURCES: [&str; 8] = ["PTE", "TXQ", "TGQ", "EQ", "CT", "LE", "TLE", "AC"];

/// How much of one resource the users of a service may have together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// At the most.
    pub max: u16,
    /// Kept for them.
    pub reserved: u16,
}

/// A service: the right to use a NIC, with limits (libcxi.md 3).
#[derive(Clone, Debug)]
pub struct Service {
    /// Number of the service; 1 is the default service.
    pub id: u32,
    /// Whether an LNI can be made in it.
    pub enabled: bool,
    /// Whether only `members` may use it.
    pub restricted_members: bool,
    /// Who may use it.
    pub members: Vec<Member>,
    /// Whether `vnis` lists all its VNIs. Otherwise it has a range
    /// ([`vni_range`](Self::vni_range)), or any.
    pub restricted_vnis: bool,
    /// The listed VNIs, at most 4.
    pub vnis: Vec<u16>,
    /// Whether only the traffic classes of `traffic_classes` may be used.
    pub restricted_traffic_classes: bool,
    /// Which traffic classes may be used, by `CXI_TC_*`.
    pub traffic_classes: [bool; 5],
    /// Whether it is the driver's own.
    pub system: bool,
    /// Whether `limits` holds. Otherwise the limits are those of the NIC.
    pub limited: bool,
    /// Limits in the order of [`RESOURCES`].
    pub limits: [Limit; 8],
    vni_range: Result<Option<RangeInclusive<u16>>, Error>,
}

impl Service {
    pub(crate) fn read(device: &DeviceHandle, id: u32) -> Result<Self, Error> {
        let mut c = MaybeUninit::<cxi_svc_desc>::zeroed();
        // SAFETY: the device is open, and the descriptor is there to be filled.
        check("cxil_get_svc", unsafe {
            (device.library().api().cxil_get_svc)(device.as_ptr(), id, c.as_mut_ptr())
        })?;
        // SAFETY: all zeroes is a valid descriptor, and so is what the function wrote.
        let c = unsafe { c.assume_init() };
        Self::from_c(device, &c)
    }

    pub(crate) fn list(device: &DeviceHandle) -> Result<Option<Vec<Self>>, Error> {
        const CALL: &str = "cxil_get_svc_list";
        let api = device.library().api();
        let (Some(get), Some(free)) = (api.cxil_get_svc_list, api.cxil_free_svc_list) else {
            return Ok(None);
        };
        let mut list: *mut cxil_svc_list = ptr::null_mut();
        // SAFETY: the device is open, and the argument points to a pointer that the function fills.
        check(CALL, unsafe { get(device.as_ptr(), &raw mut list) })?;
        if list.is_null() {
            return Err(Error::new(CALL, libc::EFAULT));
        }
        // SAFETY: the list is alive until it is freed below.
        let count = unsafe { (*list).count } as usize;
        // SAFETY: the list is alive, so the place of its first element is inside it or one past it.
        let first = unsafe { &raw const (*list).descs }.cast::<cxi_svc_desc>();
        let services = (0..count)
            .map(|index| {
                // SAFETY: the list holds `count` elements.
                let desc = unsafe { &*first.wrapping_add(index) };
                Self::from_c(device, desc)
            })
            .collect();
        // SAFETY: the list came from cxil_get_svc_list and is not used again.
        unsafe { free(list) };
        Some(services).transpose()
    }

    fn from_c(device: &DeviceHandle, c: &cxi_svc_desc) -> Result<Self, Error> {
        // SAFETY: both members of the union are the same eight pairs.
        let limits = unsafe { c.limits.__bindgen_anon_1.type_ };
        let id = c.svc_id;
        Ok(Self {
            id,
            enabled: c.enable() != 0,
            restricted_members: c.restricted_members() != 0,
            members: c.members.iter().filter_map(member).collect(),
            restricted_vnis: c.restricted_vnis() != 0,
            vnis: c.vnis.iter().take(c.num_vld_vnis.into()).copied().collect(),
            restricted_traffic_classes: c.restricted_tcs() != 0,
            traffic_classes: c.tcs,
            system: c.is_system_svc() != 0,
            limited: c.resource_limits() != 0,
            limits: limits.map(|limit| Limit {
                max: limit.max,
                reserved: limit.res,
            }),
            vni_range: match c.restricted_vnis() {
                0 => vni_range(device, id),
                _ => Ok(None),
            },
        })
    }

    /// The range of VNIs of a service that is not restricted to a list; `None` for one
    /// that is, and from a library too old to tell (libcxi.md 3.3).
    pub fn vni_range(&self) -> Result<Option<RangeInclusive<u16>>, Error> {
        self.vni_range.clone()
    }
}

/// See [`Device::in_use`](crate::Device::in_use).
pub(crate) fn in_use(device: &DeviceHandle, id: u32) -> Result<Option<[u16; 8]>, Error> {
    let Some(get) = device.library().api().cxil_get_svc_rsrc_use else {
        return Ok(None);
    };
    let mut found = MaybeUninit::<cxi_rsrc_use>::zeroed();
    // SAFETY: the device is open, and the place is there to be filled.
    check("cxil_get_svc_rsrc_use", unsafe {
        get(device.as_ptr(), id, found.as_mut_ptr())
    })?;
    // SAFETY: all zeroes is a valid value, and so is what the function wrote.
    Ok(Some(unsafe { found.assume_init() }.in_use))
}

fn vni_range(device: &DeviceHandle, id: u32) -> Result<Option<RangeInclusive<u16>>, Error> {
    let Some(get_range) = device.library().api().cxil_svc_get_vni_range else {
        return Ok(None);
    };
    let (mut min, mut max) = (0, 0);
    // SAFETY: the device is open, and both places are there to be filled.
    check("cxil_svc_get_vni_range", unsafe {
        get_range(device.as_ptr(), id, &raw mut min, &raw mut max)
    })?;
    Ok(Some(min..=max))
}

fn member(c: &cxi_svc_desc__bindgen_ty_1) -> Option<Member> {
    // SAFETY: both members of the union are the same unsigned integer.
    let id = unsafe { c.svc_member.uid };
    match c.type_ {
        CXI_SVC_MEMBER_IGNORE => None,
        CXI_SVC_MEMBER_UID => Some(Member::User(id)),
        CXI_SVC_MEMBER_GID => Some(Member::Group(id)),
        CXI_SVC_MEMBER_NET_NS => Some(Member::NetworkNamespace(id)),
        kind => Some(Member::Other(kind)),
    }
}
