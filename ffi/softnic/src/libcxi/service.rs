//! Services: who may use which VNIs (libcxi.md 3).
//!
//! There is nobody to administer a software NIC, so its services are fixed:
//!
//! | id | enabled | members | VNIs | stands for |
//! |---|---|---|---|---|
//! | 1 | yes | all | list {1, 10} | the default service. Today's driver ships it disabled; here a newcomer must be able to run |
//! | 2 | yes | all | range 16..=31 | a service with a VNI range and an empty list (tools.md T26) |
//! | 3 | no | all | list {40} | a service that its administrator has not enabled: EKEYREVOKED |
//! | 4 | yes | a uid that nobody has | list {50} | somebody else's service: EPERM |

use std::ffi::{c_int, c_uint};
use std::ops::RangeInclusive;

use cxi_sys::*;
use rustix::io::Errno;

use super::{answer, device::Device, handle};
use crate::engine::portal::MAX_ENTRIES;

/// A uid that no user has: -2 of 32 bits. (-1 would mean "unchanged" to the kernel.)
const NOBODY_AT_ALL: u32 = u32::MAX - 1;

/// VNIs of a service.
enum Vnis {
    List(&'static [u16]),
    Range(RangeInclusive<u16>),
}

/// A service.
pub struct Service {
    id: u32,
    enabled: bool,
    /// The only user admitted, if not all are.
    member: Option<u32>,
    vnis: Vnis,
}

static SERVICES: [Service; 4] = [
    Service {
        id: CXI_DEFAULT_SVC_ID,
        enabled: true,
        member: None,
        vnis: Vnis::List(&[1, 10]),
    },
    Service {
        id: 2,
        enabled: true,
        member: None,
        vnis: Vnis::Range(16..=31),
    },
    Service {
        id: 3,
        enabled: false,
        member: None,
        vnis: Vnis::List(&[40]),
    },
    Service {
        id: 4,
        enabled: true,
        member: Some(NOBODY_AT_ALL),
        vnis: Vnis::List(&[50]),
    },
];

impl Service {
    /// The service of this number; EINVAL if there is none.
    pub fn find(id: u32) -> Result<&'static Self, Errno> {
        SERVICES
            .iter()
            .find(|service| service.id == id)
            .ok_or(Errno::INVAL)
    }

    /// Whether the caller may make an LNI on it. Disabled is found out before not being a member;
    /// root is no exception (libcxi.md 4).
    pub fn admit(&self) -> Result<(), Errno> {
        if !self.enabled {
            return Err(Errno::KEYREVOKED);
        }
        if !self.has_member() {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    fn has_member(&self) -> bool {
        self.member
            .is_none_or(|uid| rustix::process::geteuid().as_raw() == uid)
    }

    fn has_vni(&self, vni: u16) -> bool {
        match &self.vnis {
            Vnis::List(list) => list.contains(&vni),
            Vnis::Range(range) => range.contains(&vni),
        }
    }
}

/// Whether the caller may use a VNI (libcxi.md 5, 6).
///
/// EINVAL for 0 and beyond 16 bits; EPERM if it belongs to somebody else's service; ENOENT if it
/// belongs to no enabled service. To root a VNI of nobody is allowed, for which the driver makes
/// a profile on the fly: here there is nothing to make, it just works.
pub fn check_vni(vni: c_uint) -> Result<u16, Errno> {
    let vni = u16::try_from(vni)
        .ok()
        .filter(|&vni| vni != 0)
        .ok_or(Errno::INVAL)?;
    let mut services = SERVICES
        .iter()
        .filter(|service| service.enabled && service.has_vni(vni))
        .peekable();
    if services.peek().is_none() {
        return if rustix::process::geteuid().is_root() {
            Ok(vni)
        } else {
            Err(Errno::NOENT)
        };
    }
    services
        .find(|service| service.has_member())
        .map(|_| vni)
        .ok_or(Errno::PERM)
}

fn describe(service: &Service) -> cxi_svc_desc {
    let nothing = cxi_svc_desc__bindgen_ty_1 {
        svc_member: cxi_svc_member { uid: 0 },
        type_: CXI_SVC_MEMBER_IGNORE,
    };
    let mut desc = cxi_svc_desc {
        _bitfield_align_1: [],
        _bitfield_1: Default::default(),
        num_vld_vnis: 0,
        vnis: [0; _],
        tcs: [true, true, true, true, false], // the four HPC classes
        members: [nothing; _],
        limits: cxi_rsrc_limits {
            __bindgen_anon_1: cxi_rsrc_limits__bindgen_ty_1 {
                __bindgen_anon_1: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1 {
                    ptes: limit(C_NUM_PTLTES - 1),
                    txqs: limit(C_NUM_TRANSMIT_CQS),
                    tgqs: limit(C_NUM_TARGET_CQS),
                    eqs: limit(C_NUM_EQS - 1),
                    cts: limit(C_NUM_CTS - 1),
                    les: limit(MAX_ENTRIES as u32),
                    tles: cxi_limits { max: 512, res: 512 },
                    acs: limit(C_NUM_ACS - 2),
                },
            },
        },
        svc_id: service.id,
    };
    desc.set_enable(service.enabled.into());
    desc.set_restricted_tcs(1);
    desc.set_resource_limits(1);
    if let Vnis::List(list) = service.vnis {
        desc.set_restricted_vnis(1);
        desc.num_vld_vnis = list.len() as u8;
        desc.vnis[..list.len()].copy_from_slice(list);
    }
    if let Some(uid) = service.member {
        desc.set_restricted_members(1);
        desc.members[0] = cxi_svc_desc__bindgen_ty_1 {
            svc_member: cxi_svc_member { uid },
            type_: CXI_SVC_MEMBER_UID,
        };
    }
    desc
}

/// As much as the NIC has, and nothing kept for this service alone.
fn limit(max: u32) -> cxi_limits {
    cxi_limits {
        max: max as u16,
        res: 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    svc_desc: *mut cxi_svc_desc,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        // SAFETY: C contract.
        let desc = unsafe { svc_desc.as_mut() }.ok_or(Errno::INVAL)?;
        device.nic.with(|_| {
            *desc = describe(Service::find(svc_id)?);
            Ok(())
        })
    })
}

/// EINVAL for a service that has a list, not a range; the specification is silent about those.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_get_vni_range(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    vni_min: *mut u16,
    vni_max: *mut u16,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        // SAFETY: C contract.
        let min = unsafe { vni_min.as_mut() }.ok_or(Errno::INVAL)?;
        // SAFETY: C contract.
        let max = unsafe { vni_max.as_mut() }.ok_or(Errno::INVAL)?;
        device.nic.with(|_| match &Service::find(svc_id)?.vnis {
            Vnis::Range(range) => {
                (*min, *max) = (*range.start(), *range.end());
                Ok(())
            }
            Vnis::List(_) => Err(Errno::INVAL),
        })
    })
}
