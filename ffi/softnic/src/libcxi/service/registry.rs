//! The services of a NIC, and the resources in use, over all processes.

use std::collections::HashSet;
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;

use super::record::{
    self, IDS, KINDS, LE_POOLS, Service, TLE_POOLS, TOTALS, built_in, resource_group,
};
use crate::engine::{ELEMENTS, Engine, PROFILES, Profile, VniRange};
use crate::environment::Release;
use crate::fabric::{Directory, Fabric, LniUse, TriggeredPools};

/// Communication profiles of the NIC (libcxi.md 11).
const MOST_PROFILES: usize = 255;

/// The count of resources that the driver cannot count (libcxi.md 3.1).
const NOT_APPLICABLE: u16 = 65535;

/// The services of a NIC and the resources in use. While it exists, no other process changes them.
pub struct ServiceRegistry {
    directory: Directory,
    nid: u32,
    pub release: Release,
    /// The pools of triggered operations.
    pub triggered: Option<Arc<TriggeredPools>>,
    services: Vec<Service>,
    uses: Vec<LniUse>,
    /// The services until they are changed.
    initial: Vec<Service>,
}

impl ServiceRegistry {
    /// Locks and reads the services and the resources in use.
    ///
    /// # Errors
    /// EIO if the file of services is damaged; errors of the fabric's directory.
    pub fn open(fabric: &Fabric) -> Result<Self, Errno> {
        let directory = fabric.directory()?;
        let nid = fabric.own_nid();
        let initial = built_in(fabric.driver.services, fabric.user());
        let services = match directory.services(nid)? {
            None => initial.clone(),
            Some(text) => record::parse(&text).ok_or(Errno::IO)?,
        };
        let uses = fabric.uses(&directory)?;
        let (release, triggered) = (fabric.driver.release, fabric.triggered.clone());
        Ok(Self { directory, nid, release, triggered, services, uses, initial })
    }

    /// The resource groups that lists have, by ascending number: the services, and since the driver
    /// after 14.0.1 the group that is no service (libcxi.md 3.1).
    pub fn groups(&self) -> Vec<Service> {
        let group = (self.release >= Release::Next).then(resource_group);
        self.services.iter().cloned().chain(group).collect()
    }

    /// The resource group with a number, which may be no service; EINVAL if there is none.
    pub fn group(&self, id: u32) -> Result<Service, Errno> {
        let found = self.groups().into_iter().find(|group| group.id == id);
        found.ok_or(Errno::INVAL)
    }

    /// All services, by ascending number.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The service with a number; EINVAL if there is none.
    pub fn service(&self, id: u32) -> Result<&Service, Errno> {
        let found = self.services.iter().find(|service| service.id == id);
        found.ok_or(Errno::INVAL)
    }

    pub fn users(&self, id: u32) -> u32 {
        self.uses.iter().filter(|used| used.service == id).count() as u32
    }

    /// How many resources of a kind a service uses; the most list entries of a processing element
    /// (libcxi.md 3.1).
    pub fn in_use(&self, id: u32, kind: usize) -> u16 {
        let sum = |count: &dyn Fn(&LniUse) -> u16| {
            let uses = self.uses.iter().filter(|used| used.service == id);
            let sum: u32 = uses.map(|used| u32::from(count(used))).sum();
            u16::try_from(sum).unwrap_or(u16::MAX)
        };
        if kind as cxi_rsrc_type == CXI_RSRC_TYPE_LE {
            let elements = (0..ELEMENTS).map(|element| sum(&|used| used.entries[element]));
            elements.max().unwrap_or(0)
        } else {
            sum(&|used| used.counts[kind])
        }
    }

    /// How many resources of a kind the driver reports for a resource group (libcxi.md 3.1): the
    /// driver after 14.0.1 reads list entries and triggered operations from the pool of the group,
    /// if it has one.
    pub fn reported(&self, group: &Service, kind: usize) -> u16 {
        let is_of_chip = [CXI_RSRC_TYPE_LE, CXI_RSRC_TYPE_TLE].contains(&(kind as cxi_rsrc_type));
        let has_pool = group.id == CXI_DEFAULT_SVC_ID || group.limit(kind).1 > 0;
        if self.release >= Release::Next && is_of_chip && !has_pool {
            return NOT_APPLICABLE;
        }
        self.in_use(group.id, kind)
    }

    /// Checks that a service may have one more resource of a kind: ENOSPC at its own limit, and
    /// when the rest of the NIC's resources is reserved for other services.
    pub fn check_resource(&self, service: &Service, kind: usize) -> Result<(), Errno> {
        let (max, _) = service.limit(kind);
        let own = self.in_use(service.id, kind);
        if own >= max || own >= self.available(service.id)[kind] {
            return Err(Errno::NOSPC);
        }
        Ok(())
    }

    /// The most resources of a kind that a service can have beside those reserved for others.
    pub fn most(&self, service: &Service, kind: cxi_rsrc_type) -> usize {
        let kind = kind as usize;
        let others = self.services.iter().filter(|other| other.id != service.id);
        let kept: u32 = others.map(|other| u32::from(other.limit(kind).1)).sum();
        let rest = u32::from(TOTALS[kind]).saturating_sub(kept);
        rest.min(service.limit(kind).0.into()) as usize
    }

    /// The communication profiles of an RGID, by LCID.
    pub fn profiles_of(&self, rgid: u16) -> [Option<Profile>; PROFILES] {
        let sharing: Vec<&LniUse> = (self.uses.iter()).filter(|used| used.rgid == rgid).collect();
        std::array::from_fn(|lcid| sharing.iter().find_map(|used| used.profiles[lcid]))
    }

    /// Checks that the NIC may have one more communication profile: ENOSPC otherwise.
    pub fn check_profiles(&self) -> Result<(), Errno> {
        let lcids = self.uses.iter().flat_map(|used| {
            let held = (0..PROFILES).filter(|&lcid| used.profiles[lcid].is_some());
            held.map(|lcid| (used.rgid, lcid))
        });
        if lcids.collect::<HashSet<_>>().len() < MOST_PROFILES { Ok(()) } else { Err(Errno::NOSPC) }
    }

    /// The RGID of the next LNI of a service: one with fewer LNIs than may share it, else the
    /// lowest free one; ENOSPC when all RGIDs are in use.
    pub fn next_rgid(&self, service: &Service) -> Result<u16, Errno> {
        let lnis = |rgid| self.uses.iter().filter(|used| used.rgid == rgid).count() as u32;
        let mut own =
            (self.uses.iter()).filter(|used| used.service == service.id).map(|used| used.rgid);
        own.find(|&rgid| lnis(rgid) < service.lnis_per_rgid)
            .or_else(|| (1..C_NUM_RGIDS as u16).find(|&rgid| lnis(rgid) == 0))
            .ok_or(Errno::NOSPC)
    }

    /// The resources of each kind beside those that other services use or reserve.
    pub fn available(&self, id: u32) -> [u16; KINDS] {
        let others = self.services.iter().filter(|other| other.id != id);
        let mut left = TOTALS;
        for other in others {
            for (kind, left) in left.iter_mut().enumerate() {
                let taken = self.in_use(other.id, kind).max(other.limit(kind).1);
                *left = left.saturating_sub(taken);
            }
        }
        left
    }

    /// Gives a service the pools that it needs: those that it has, or the lowest free ones. Returns
    /// whether a pool of list entries, and one of triggered operations, is missing.
    pub fn set_pools(&self, service: &mut Service) -> [bool; 2] {
        let pool = |is_needed: bool, of: fn(&Service) -> u8, pools: u8| {
            let is_own = |other: &&Service| other.id == service.id;
            let own = self.services.iter().find(is_own).map(of).filter(|pool| *pool > 0);
            let is_free = |pool: &u8| self.services.iter().all(|other| of(other) != *pool);
            if is_needed { own.or_else(|| (1..pools).find(is_free)) } else { Some(0) }
        };
        let reserves = service.limit(CXI_RSRC_TYPE_LE as usize).1 > 0;
        let entries = pool(reserves, |service| service.entry_pool, LE_POOLS);
        let has_triggered = service.needs_triggered_pool(self.release);
        let triggered = pool(has_triggered, |service| service.triggered_pool, TLE_POOLS);
        service.entry_pool = entries.unwrap_or(0);
        service.triggered_pool = triggered.unwrap_or(0);
        [entries.is_none(), triggered.is_none()]
    }

    /// The limit and the reservation of a pool of triggered operations.
    pub fn triggered_limit(&self, pool: u8) -> (u16, u16) {
        let mut services = self.services.iter().filter(|service| service.triggered_pool == pool);
        services.next().map_or((0, 0), |service| service.limit(CXI_RSRC_TYPE_TLE as usize))
    }

    /// The limit and the reservation of a pool of list entries. The shared one has what others do
    /// not reserve **[I]**.
    pub fn entry_limit(&self, pool: usize) -> (u16, u16) {
        let kind = CXI_RSRC_TYPE_LE as usize;
        let mut services = self.services.iter().filter(|service| service.entry_pool > 0);
        if pool == 0 {
            let reserved = services.map(|service| service.limit(kind).1).sum::<u16>();
            return (TOTALS[kind].saturating_sub(reserved), 0);
        }
        let own = services.find(|service| usize::from(service.entry_pool) == pool);
        own.map_or((0, 0), |service| service.limit(kind))
    }

    /// Checks that no other service has a VNI of a service where the release refuses that: EEXIST
    /// (libcxi.md 3.3).
    pub fn check_overlap(&self, service: &Service) -> Result<(), Errno> {
        let mut others = self.services.iter().filter(|other| other.id != service.id);
        let is_refused = others.any(|other| service.is_refused_beside(other, self.release));
        if is_refused { Err(Errno::EXIST) } else { Ok(()) }
    }

    /// Checks that the caller may use a VNI, and returns it in 16 bits (libcxi.md 5, 6).
    ///
    /// EINVAL for 0 and beyond 16 bits; EPERM if it belongs only to services for others; ENOENT if
    /// it belongs to no enabled service. Root may use a VNI of no service.
    pub fn check_vni(&self, vni: u32) -> Result<u16, Errno> {
        self.admitting(vni).map(|(vni, _)| vni)
    }

    /// Checks a VNI for a domain, and returns it in 16 bits: as `check_vni` does, but before 13.0,
    /// without receive profiles, EINVAL for 0 and beyond 16 bits only (libcxi.md 6).
    pub fn check_vni_of_domain(&self, vni: u32) -> Result<u16, Errno> {
        if self.has_profiles() { self.check_vni(vni) } else { short(vni) }
    }

    /// Checks a VNI for reserved PIDs of an LNI of service `own`: as `check_vni` does, but before
    /// 13.0 EINVAL for a VNI that the service does not have, for root too (libcxi.md 6).
    pub fn check_vni_of_service(&self, own: u32, vni: u32) -> Result<u16, Errno> {
        if self.has_profiles() {
            return self.check_vni(vni);
        }
        let vni = short(vni)?;
        let has_it = self.service(own)?.vnis_with(vni).is_some();
        has_it.then_some(vni).ok_or(Errno::INVAL)
    }

    /// Whether the driver has receive and transmit profiles.
    fn has_profiles(&self) -> bool {
        self.release >= Release::Shs13
    }

    /// Checks a VNI and a traffic class for an LNI of service `own`: EINVAL if the caller may not
    /// use the class; otherwise as `check_vni_of_service`.
    pub fn check_class(&self, own: u32, vni: u32, tc: cxi_traffic_class) -> Result<u16, Errno> {
        let (vni, services) = if self.has_profiles() {
            self.admitting(vni)?
        } else {
            let vni = self.check_vni_of_service(own, vni)?;
            (vni, vec![self.service(own)?])
        };
        let allows = |service: &&Service| !service.restricted_tcs || service.tcs[tc as usize];
        if services.is_empty() || services.iter().any(allows) { Ok(vni) } else { Err(Errno::INVAL) }
    }

    /// The VNIs that share PIDs with a VNI: the VNIs of the first enabled service that has it, or
    /// the VNI alone, as always without receive profiles.
    pub fn vnis_with(&self, vni: u16) -> VniRange {
        if !self.has_profiles() {
            return VniRange::single(vni);
        }
        let mut services = self.services.iter().filter(|service| service.enabled);
        let vnis = services.find_map(|service| service.vnis_with(vni));
        vnis.unwrap_or(VniRange::single(vni))
    }

    /// Whether profiles with this VNI are exclusive: the first enabled service that has the VNI
    /// decides, and service `own` of the LNI without transmit profiles.
    pub fn is_exclusive(&self, own: u32, vni: u16) -> bool {
        let mut services = self.services.iter();
        let decides = |service: &&Service| {
            if self.has_profiles() {
                service.enabled && service.vnis_with(vni).is_some()
            } else {
                service.id == own
            }
        };
        services.find(decides).is_some_and(|service| service.exclusive_profiles)
    }

    /// The services that allow the caller to use a VNI; none if root uses a VNI of no service.
    fn admitting(&self, vni: u32) -> Result<(u16, Vec<&Service>), Errno> {
        let vni = short(vni)?;
        let having = |service: &&Service| service.enabled && service.vnis_with(vni).is_some();
        let mut services = self.services.iter().filter(having).peekable();
        if services.peek().is_none() {
            return if rustix::process::geteuid().is_root() {
                Ok((vni, Vec::new()))
            } else {
                Err(Errno::NOENT)
            };
        }
        let admitting: Vec<_> = services.filter(|service| service.has_member()).collect();
        if admitting.is_empty() {
            return Err(Errno::PERM);
        }
        Ok((vni, admitting))
    }

    /// The lowest free number of a service; ENOSPC if there is none.
    pub fn free_id(&self) -> Result<u32, Errno> {
        let mut ids = IDS;
        ids.find(|&id| self.group(id).is_err()).ok_or(Errno::NOSPC)
    }

    /// Replaces the services, for all processes that use the NIC.
    pub fn set_services(&mut self, services: Vec<Service>) -> Result<(), Errno> {
        let text = (services != self.initial).then(|| record::text_of(&services));
        self.directory.set_services(self.nid, text.as_deref())?;
        self.services = services;
        Ok(())
    }
}

/// A VNI in 16 bits; EINVAL for 0 and beyond.
fn short(vni: u32) -> Result<u16, Errno> {
    let vni = u16::try_from(vni).ok().filter(|&vni| vni != 0);
    vni.ok_or(Errno::INVAL)
}

/// Allocates a resource of `kind` for an LNI. A command queue for which there is no place gives
/// back the destroyed ones of the LNI first (libcxi.md 10).
///
/// # Errors
/// EKEYREVOKED if the service of the LNI was disabled or destroyed; ENOSPC if the service may not
/// have one more; the error of `insert`.
pub fn allocate<T>(
    engine: &mut Engine<Fabric>,
    lni: usize,
    kind: cxi_rsrc_type,
    insert: impl FnOnce(&mut Engine<Fabric>) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let id = engine.lnis.get(lni).ok_or(Errno::INVAL)?.service;
    let check = |engine: &Engine<Fabric>| {
        let registry = ServiceRegistry::open(&engine.wire)?;
        let service = registry.service(id).map_err(|_| Errno::KEYREVOKED)?;
        if !service.enabled {
            return Err(Errno::KEYREVOKED);
        }
        // One that takes the place of a destroyed one is already counted.
        let is_counted = match kind {
            CXI_RSRC_TYPE_EQ => engine.eqs.retired_by(lni) > 0,
            CXI_RSRC_TYPE_PTE => engine.ptes.retired_by(lni) > 0,
            _ => false,
        };
        if !is_counted {
            registry.check_resource(service, kind as usize)?;
        }
        Ok(registry)
    };
    let registry = match check(engine) {
        Err(Errno::NOSPC) if matches!(kind, CXI_RSRC_TYPE_TXQ | CXI_RSRC_TYPE_TGQ) => {
            match kind {
                CXI_RSRC_TYPE_TXQ => engine.tx.free_retired(lni),
                _ => engine.tgt.free_retired(lni),
            }
            publish(engine, lni);
            check(engine)?
        }
        checked => checked?,
    };
    let object = insert(engine)?;
    publish(engine, lni);
    drop(registry);
    Ok(object)
}

/// Publishes the resources that an LNI uses to all processes that use the NIC.
pub fn publish(engine: &Engine<Fabric>, lni: usize) {
    let used = engine.lnis.get(lni).map_or(LniUse::default(), |owner| {
        let add_own = |count: usize, owner: usize| count + usize::from(owner == lni);
        let ptes = || engine.ptes.iter().filter(|(_, pte)| pte.lni == lni);
        // Destroyed objects count until the LNI ends (libcxi.md 10).
        let counts = [
            ptes().count() + engine.ptes.retired_by(lni),
            engine
                .tx
                .iter()
                .fold(engine.tx.retired_by(lni), |sum, (_, queue)| add_own(sum, queue.lni)),
            engine
                .tgt
                .iter()
                .fold(engine.tgt.retired_by(lni), |sum, (_, queue)| add_own(sum, queue.lni)),
            engine
                .eqs
                .iter()
                .fold(engine.eqs.retired_by(lni), |sum, (_, queue)| add_own(sum, queue.lni)),
            engine.counters.count_of(lni) + engine.counters.retired_by(lni),
            0, // list entries, which `entries` has
            engine.counters.pending_of(lni),
            owner.space.contexts(),
        ];
        let mut entries = [0; ELEMENTS];
        for (_, pte) in ptes() {
            entries[pte.element] += pte.lists.len() as u16;
        }
        LniUse {
            service: owner.service,
            rgid: owner.rgid,
            counts: counts.map(|count| count as u16),
            entries,
            profiles: owner.profiles.map(|held| held.map(|held| held.profile)),
        }
    });
    engine.wire.port().set_use(lni, used);
}
