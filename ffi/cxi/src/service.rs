//! Services: who may use a NIC, with which VNIs.

use std::mem::MaybeUninit;
use std::ops::RangeInclusive;

use cxi_sys::{
    CXI_SVC_MEMBER_GID, CXI_SVC_MEMBER_IGNORE, CXI_SVC_MEMBER_UID, cxi_svc_desc,
    cxi_svc_desc__bindgen_ty_1,
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
    /// Another kind, by its number (`CXI_SVC_MEMBER_*`).
    Other(u32),
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
        Ok(Self {
            id: c.svc_id,
            enabled: c.enable() != 0,
            restricted_members: c.restricted_members() != 0,
            members: c.members.iter().filter_map(member).collect(),
            restricted_vnis: c.restricted_vnis() != 0,
            vnis: c.vnis.iter().take(c.num_vld_vnis.into()).copied().collect(),
            restricted_traffic_classes: c.restricted_tcs() != 0,
            traffic_classes: c.tcs,
            system: c.is_system_svc() != 0,
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
        kind => Some(Member::Other(kind)),
    }
}
