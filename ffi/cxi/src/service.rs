//! Services: which processes may use a NIC, with which VNIs and limits.

use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::ptr;

use cxi_sys::{
    CXI_DEFAULT_SVC_ID, CXI_SVC_MEMBER_GID, CXI_SVC_MEMBER_IGNORE, CXI_SVC_MEMBER_NET_NS,
    CXI_SVC_MEMBER_UID, cxi_rsrc_use, cxi_svc_desc, cxi_svc_desc__bindgen_ty_1, cxil_svc_list,
};

use crate::device::{Device, DeviceHandle};
use crate::error::{Error, check};

/// One entry of a service's member list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceMember {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
    /// A network namespace, by its inode number.
    NetworkNamespace(u32),
    /// A member of another type, by the number of the type (`CXI_SVC_MEMBER_*`).
    Other(u32),
}

/// Names of the resources that a service limits, in the order of `CXI_RSRC_TYPE_*`: portals table
/// entries, transmit and target command queues, event queues, counters, list entries, trigger list
/// entries, address contexts.
pub const RESOURCES: [&str; 8] = ["PTE", "TXQ", "TGQ", "EQ", "CT", "LE", "TLE", "AC"];

/// Place of list entries in [`RESOURCES`].
pub const LIST_ENTRIES: usize = 5;

/// Place of trigger list entries in [`RESOURCES`].
pub const TRIGGERED: usize = 6;

/// The amounts that a NIC has of each of the [`RESOURCES`]; list entries in each processing element
/// (libcxi.md
/// 2.2).
const TOTALS: [u16; 8] = [2047, 1024, 512, 2047, 2047, 16384, 2048, 1022];

/// The count of a resource of which the driver has none (libcxi.md 3.1).
const NOT_APPLICABLE: u16 = 65535;

/// The limit of one resource for all users of a service together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceLimit {
    /// Largest number in use.
    pub max: u16,
    /// Number reserved for the service.
    pub reserved: u16,
}

/// A service: the right to use a NIC, with limits (libcxi.md 3).
#[derive(Clone, Debug)]
pub struct Service {
    /// Number of the service; 1 is the default service.
    pub id: u32,
    /// Whether an LNI can be allocated in it.
    pub enabled: bool,
    /// Whether only `members` may use it.
    pub restricted_members: bool,
    /// The users, groups and namespaces that may use it.
    pub members: Vec<ServiceMember>,
    /// Whether it allows only the VNIs in `vnis`. Otherwise it allows a range of VNIs
    /// ([`vni_range`](Self::vni_range)), or all.
    pub restricted_vnis: bool,
    /// The listed VNIs, at most 4.
    pub vnis: Vec<u16>,
    /// Whether it allows only the traffic classes set in `traffic_classes`.
    pub restricted_traffic_classes: bool,
    /// The allowed traffic classes, indexed by `CXI_TC_*`.
    pub traffic_classes: [bool; 5],
    /// Whether it is a system service, which the driver uses.
    pub system: bool,
    /// Whether `limits` applies to all resources ([`is_limited`](Self::is_limited)).
    limited: bool,
    /// Limits in the order of [`RESOURCES`].
    limits: [ResourceLimit; 8],
    vni_range: Result<Option<RangeInclusive<u16>>, Error>,
}

impl Device {
    /// Service `id` of this NIC. A library without `cxil_get_svc` lists it.
    ///
    /// # Errors
    ///
    /// EINVAL if the service does not exist (libcxi.md 3.1); ENOSYS if the library can neither read
    /// nor list services.
    pub fn service(&self, id: u32) -> Result<Service, Error> {
        Service::read(self.handle(), id)
    }

    /// All services of this NIC in the order of their numbers; `None` if the library has no
    /// function for it. Resource groups that are no services, which newer drivers list too
    /// (libcxi.md 3.1), are left out.
    ///
    /// # Errors
    ///
    /// The errors of `cxil_get_svc_list` and `cxil_get_svc`.
    pub fn services(&self) -> Result<Option<Vec<Service>>, Error> {
        Service::list(self.handle())
    }

    /// How much of each of the [`RESOURCES`] the users of service `id` hold; `None` if the library
    /// has no function for it (libcxi.md 1). A count is `None` where the driver has none (libcxi.md
    /// 3.1).
    ///
    /// # Errors
    ///
    /// EINVAL if the service does not exist.
    pub fn in_use(&self, id: u32) -> Result<Option<[Option<u16>; 8]>, Error> {
        in_use(self.handle(), id)
    }

    /// The limit of trigger list entries of a service, and how many of its pool are in use as far
    /// as the driver knows. A service whose limits name none shares the pool of the default service
    /// (libcxi.md 3.3).
    ///
    /// # Errors
    ///
    /// The errors of [`service`](Self::service) and [`in_use`](Self::in_use).
    pub fn triggered(&self, service: &Service) -> Result<(ResourceLimit, Option<u16>), Error> {
        let (mut id, mut limit) = (service.id, service.limit(TRIGGERED));
        if limit.max == 0 {
            id = CXI_DEFAULT_SVC_ID;
            limit = self.service(id)?.limit(TRIGGERED);
        }
        Ok((limit, self.in_use(id)?.and_then(|counts| counts[TRIGGERED])))
    }

    /// How many LNIs of service `id` share a resource group, with its communication profiles and
    /// address contexts (libcxi.md 4); `None` if the library has no function for it.
    ///
    /// # Errors
    ///
    /// EINVAL if the service does not exist.
    pub fn lnis_per_rgid(&self, id: u32) -> Result<Option<u32>, Error> {
        const CALL: &str = "cxil_get_svc_lpr";
        let device = self.handle();
        let Some(get) = device.library().api().cxil_get_svc_lpr else {
            return Ok(None);
        };
        let _calling = device.library().serialize();
        // SAFETY: the handle keeps the device open.
        let answer = unsafe { get(device.as_ptr(), id) };
        check(CALL, answer.min(0))?;
        Ok(Some(answer.unsigned_abs()))
    }
}

impl Service {
    fn read(device: &DeviceHandle, id: u32) -> Result<Self, Error> {
        const CALL: &str = "cxil_get_svc";
        let Some(get) = device.library().api().cxil_get_svc else {
            let services = Self::list(device)?.ok_or(Error::missing(CALL))?;
            let found = services.into_iter().find(|service| service.id == id);
            return found.ok_or(Error::new(CALL, libc::EINVAL));
        };
        let mut c = MaybeUninit::<cxi_svc_desc>::zeroed();
        let calling = device.library().serialize();
        // SAFETY: the handle keeps the device open; `c` is a valid out pointer.
        check(CALL, unsafe { get(device.as_ptr(), id, c.as_mut_ptr()) })?;
        drop(calling);
        // SAFETY: `zeroed` initialised every byte, and zeros are valid in every field.
        let c = unsafe { c.assume_init() };
        Self::from_c(device, &c)
    }

    fn list(device: &DeviceHandle) -> Result<Option<Vec<Self>>, Error> {
        const CALL: &str = "cxil_get_svc_list";
        let api = device.library().api();
        let (Some(get), Some(free)) = (api.cxil_get_svc_list, api.cxil_free_svc_list) else {
            return Ok(None);
        };
        let mut list: *mut cxil_svc_list = ptr::null_mut();
        let calling = device.library().serialize();
        // SAFETY: the handle keeps the device open; `list` is a valid out pointer.
        check(CALL, unsafe { get(device.as_ptr(), &raw mut list) })?;
        drop(calling);
        if list.is_null() {
            return Err(Error::new(CALL, libc::EFAULT));
        }
        // SAFETY: the list is allocated until it is freed below.
        let count = unsafe { (*list).count } as usize;
        // SAFETY: the list is allocated, and `descs` lies inside it or at its end.
        let first = unsafe { &raw const (*list).descs }.cast::<cxi_svc_desc>();
        let services = (0..count)
            .filter_map(|index| {
                // SAFETY: the list holds `count` elements and is not freed before this borrow ends.
                let desc = unsafe { &*first.wrapping_add(index) };
                // A resource group that is no service has no VNIs. A library without the function
                // is too old for such groups, and reading one service would list them all again.
                if desc.restricted_vnis() == 0
                    && api.cxil_get_svc.is_some()
                    && let Err(error) = Self::read(device, desc.svc_id)
                {
                    return (error.errno() != libc::EINVAL).then_some(Err(error));
                }
                Some(Self::from_c(device, desc))
            })
            .collect();
        // SAFETY: `cxil_get_svc_list` returned the list; nothing refers to it after this call.
        unsafe { free(list) };
        Some(services).transpose()
    }

    fn from_c(device: &DeviceHandle, c: &cxi_svc_desc) -> Result<Self, Error> {
        // SAFETY: both members of the union are the same eight pairs of integers.
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
            limits: limits.map(|limit| ResourceLimit { max: limit.max, reserved: limit.res }),
            vni_range: match c.restricted_vnis() {
                0 => vni_range(device, id).map(Some),
                _ => Ok(None),
            },
        })
    }

    /// Whether the service limits the resource at this place of [`RESOURCES`], not only the NIC.
    /// Each service limits its trigger list entries (libcxi.md 3.3).
    pub fn is_limited(&self, place: usize) -> bool {
        self.limited || place == TRIGGERED
    }

    /// The limit of the resource at this place of [`RESOURCES`]; of list entries in each processing
    /// element (libcxi.md 3.3).
    pub fn limit(&self, place: usize) -> ResourceLimit {
        if self.is_limited(place) {
            self.limits[place]
        } else {
            ResourceLimit { max: TOTALS[place], reserved: 0 }
        }
    }

    /// The range of VNIs that the service allows; `None` if the service has a list of VNIs
    /// (libcxi.md 3.3).
    ///
    /// # Errors
    ///
    /// The errors that `cxil_svc_get_vni_range` returned when the service was read; ENOSYS if the
    /// library lacks the function.
    pub fn vni_range(&self) -> Result<Option<RangeInclusive<u16>>, Error> {
        self.vni_range.clone()
    }
}

fn in_use(device: &DeviceHandle, id: u32) -> Result<Option<[Option<u16>; 8]>, Error> {
    let Some(get) = device.library().api().cxil_get_svc_rsrc_use else {
        return Ok(None);
    };
    let mut found = MaybeUninit::<cxi_rsrc_use>::zeroed();
    let _calling = device.library().serialize();
    // SAFETY: the handle keeps the device open; `found` is a valid out pointer.
    check("cxil_get_svc_rsrc_use", unsafe { get(device.as_ptr(), id, found.as_mut_ptr()) })?;
    // SAFETY: `zeroed` initialised every byte, and zeros are valid in every field.
    let in_use = unsafe { found.assume_init() }.in_use;
    Ok(Some(in_use.map(|count| Some(count).filter(|&count| count != NOT_APPLICABLE))))
}

fn vni_range(device: &DeviceHandle, id: u32) -> Result<RangeInclusive<u16>, Error> {
    const CALL: &str = "cxil_svc_get_vni_range";
    let get_range = device.library().api().cxil_svc_get_vni_range;
    let get_range = get_range.ok_or(Error::missing(CALL))?;
    let (mut min, mut max) = (0, 0);
    let _calling = device.library().serialize();
    // SAFETY: the handle keeps the device open; `min` and `max` are valid out pointers.
    check(CALL, unsafe { get_range(device.as_ptr(), id, &raw mut min, &raw mut max) })?;
    Ok(min..=max)
}

fn member(c: &cxi_svc_desc__bindgen_ty_1) -> Option<ServiceMember> {
    // SAFETY: both members of the union are the same unsigned integer.
    let id = unsafe { c.svc_member.uid };
    match c.type_ {
        CXI_SVC_MEMBER_IGNORE => None,
        CXI_SVC_MEMBER_UID => Some(ServiceMember::User(id)),
        CXI_SVC_MEMBER_GID => Some(ServiceMember::Group(id)),
        CXI_SVC_MEMBER_NET_NS => Some(ServiceMember::NetworkNamespace(id)),
        kind => Some(ServiceMember::Other(kind)),
    }
}
