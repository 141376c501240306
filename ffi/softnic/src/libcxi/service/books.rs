//! Who may use how much of a NIC: its services, and what is in use, over all processes.

use std::ops::RangeInclusive;

use cxi_sys::*;
use rustix::io::Errno;

use super::record::{KINDS, Service, TOTALS, built_in};
use crate::engine::Engine;
use crate::fabric::{Directory, Fabric, Use};

/// Begins the file that keeps services which were changed; their number follows, then a line for each. Any other file
/// of this name makes calls that need services fail with EIO, until somebody removes it.
const HEADING: &str = "cxidiag services 1: ";

/// Communication profiles of the NIC (libcxi.md 11).
const PROFILES: u32 = 255;

/// The numbers that services get.
const IDS: RangeInclusive<u32> = 1..=0xffff;

/// Services and uses of a NIC. While this lives, no other process changes either.
pub struct Books {
    directory: Directory,
    nid: u32,
    services: Vec<Service>,
    uses: Vec<Use>,
}

impl Books {
    pub fn open(fabric: &Fabric) -> Result<Self, Errno> {
        let directory = fabric.directory()?;
        let nid = fabric.own_nid();
        let services = match directory.services(nid)? {
            None => built_in(),
            Some(text) => parse(&text).ok_or(Errno::IO)?,
        };
        let uses = fabric.uses(&directory)?;
        Ok(Self {
            directory,
            nid,
            services,
            uses,
        })
    }

    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The service of this number; EINVAL if there is none.
    pub fn service(&self, id: u32) -> Result<&Service, Errno> {
        let found = self.services.iter().find(|service| service.id == id);
        found.ok_or(Errno::INVAL)
    }

    /// LNIs of a service.
    pub fn users(&self, id: u32) -> u32 {
        self.uses.iter().filter(|used| used.service == id).count() as u32
    }

    /// How many of a kind a service uses.
    pub fn in_use(&self, id: u32, kind: usize) -> u16 {
        let uses = self.uses.iter().filter(|used| used.service == id);
        let sum: u32 = uses.map(|used| u32::from(used.counts[kind])).sum();
        u16::try_from(sum).unwrap_or(u16::MAX)
    }

    /// Whether a service may have one more of a kind: ENOSPC at its own limit, and where all that is left of the NIC's is
    /// kept for other services.
    pub fn has_room(&self, service: &Service, kind: usize) -> Result<(), Errno> {
        let (max, _) = service.limit(kind);
        let own = self.in_use(service.id, kind);
        if own >= max || own >= self.available(service.id)[kind] {
            return Err(Errno::NOSPC);
        }
        Ok(())
    }

    /// Most of a kind that a service can have, beside what others keep for themselves.
    pub fn most(&self, service: &Service, kind: cxi_rsrc_type) -> usize {
        let kind = kind as usize;
        let others = self.services.iter().filter(|other| other.id != service.id);
        let kept: u32 = others.map(|other| u32::from(other.limit(kind).1)).sum();
        let rest = u32::from(TOTALS[kind]).saturating_sub(kept);
        rest.min(service.limit(kind).0.into()) as usize
    }

    /// Whether there may be one more communication profile: ENOSPC when the NIC has as many as it can.
    pub fn has_room_for_profile(&self) -> Result<(), Errno> {
        let used: u32 = (self.uses.iter())
            .map(|used| u32::from(used.profiles))
            .sum();
        if used < PROFILES {
            Ok(())
        } else {
            Err(Errno::NOSPC)
        }
    }

    /// Whether a service may have one more LNI: ENOSPC when all RGIDs are in use.
    pub fn has_room_for_lni(&self, service: &Service) -> Result<(), Errno> {
        let groups = |service: &Service, lnis: u32| lnis.div_ceil(service.lnis_per_rgid);
        let used: u32 = self
            .services
            .iter()
            .map(|each| groups(each, self.users(each.id) + u32::from(each.id == service.id)))
            .sum();
        if used < C_NUM_RGIDS {
            Ok(())
        } else {
            Err(Errno::NOSPC)
        }
    }

    /// What is there of each kind for a service beside what others use or keep for themselves.
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

    /// Whether the caller may use a VNI: then as the NIC knows it (libcxi.md 5, 6).
    ///
    /// EINVAL for 0 and beyond 16 bits; EPERM if it belongs to somebody else's service; ENOENT if it
    /// belongs to no enabled service. To root a VNI of nobody is allowed, for which the driver makes
    /// a profile on the fly: here there is nothing to make, it just works.
    pub fn check_vni(&self, vni: u32) -> Result<u16, Errno> {
        self.admitting(vni).map(|(vni, _)| vni)
    }

    /// As `check_vni`, and whether the caller may use a traffic class there: else EINVAL.
    pub fn check_class(&self, vni: u32, tc: cxi_traffic_class) -> Result<u16, Errno> {
        let (vni, services) = self.admitting(vni)?;
        let allows = |service: &&Service| !service.restricted_tcs || service.tcs[tc as usize];
        if services.is_empty() || services.iter().any(allows) {
            Ok(vni)
        } else {
            Err(Errno::INVAL)
        }
    }

    /// The services that let the caller use a VNI; none where it is nobody's and the caller is root.
    fn admitting(&self, vni: u32) -> Result<(u16, Vec<&Service>), Errno> {
        let vni = u16::try_from(vni)
            .ok()
            .filter(|&vni| vni != 0)
            .ok_or(Errno::INVAL)?;
        let having = |service: &&Service| service.enabled && service.has_vni(vni);
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

    /// A number that no service has; ENOSPC where all are taken.
    pub fn free_id(&self) -> Result<u32, Errno> {
        let mut ids = IDS;
        ids.find(|&id| self.service(id).is_err())
            .ok_or(Errno::NOSPC)
    }

    /// Replaces the services, for all who use the NIC.
    pub fn set_services(&mut self, services: Vec<Service>) -> Result<(), Errno> {
        let text = (services != built_in()).then(|| text_of(&services));
        self.directory.set_services(self.nid, text.as_deref())?;
        self.services = services;
        Ok(())
    }
}

fn text_of(services: &[Service]) -> String {
    let lines = services.iter().map(Service::to_line);
    [format!("{HEADING}{}", services.len())]
        .into_iter()
        .chain(lines)
        .map(|line| line + "\n")
        .collect()
}

fn parse(text: &str) -> Option<Vec<Service>> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let count: usize = lines.next()?.strip_prefix(HEADING)?.parse().ok()?;
    let services: Vec<Service> = lines.map(Service::from_line).collect::<Option<_>>()?;
    let ids: Vec<u32> = services.iter().map(|service| service.id).collect();
    // The default service is always there.
    let valid = ids.first() == Some(&CXI_DEFAULT_SVC_ID)
        && ids.is_sorted_by(|one, next| one < next)
        && ids.iter().all(|id| IDS.contains(id));
    (valid && ids.len() == count).then_some(services)
}

/// Allocates a resource of `kind` for an LNI, if its service may have one more. EKEYREVOKED if that was disabled or
/// removed meanwhile.
pub fn allocate<T>(
    engine: &mut Engine<Fabric>,
    lni: usize,
    kind: cxi_rsrc_type,
    insert: impl FnOnce(&mut Engine<Fabric>) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let books = Books::open(&engine.wire)?;
    let id = engine.lnis.get(lni).ok_or(Errno::INVAL)?.service;
    let service = books.service(id).map_err(|_| Errno::KEYREVOKED)?;
    if !service.enabled {
        return Err(Errno::KEYREVOKED);
    }
    books.has_room(service, kind as usize)?;
    let object = insert(engine)?;
    publish(engine, lni);
    Ok(object)
}

/// Tells all who use the NIC what an LNI uses now.
pub fn publish(engine: &Engine<Fabric>, lni: usize) {
    let used = engine.lnis.get(lni).map_or(Use::default(), |owner| {
        let entries = (engine.ptes.iter().filter(|(_, pte)| pte.lni == lni))
            .map(|(_, pte)| pte.lists.len())
            .sum();
        let counts = [
            engine.ptes.iter().filter(|(_, pte)| pte.lni == lni).count(),
            engine
                .tx
                .iter()
                .filter(|(_, queue)| queue.lni == lni)
                .count(),
            engine
                .tgt
                .iter()
                .filter(|(_, queue)| queue.lni == lni)
                .count(),
            engine
                .eqs
                .iter()
                .filter(|(_, queue)| queue.lni == lni)
                .count(),
            engine.counters.count_of(lni),
            entries,
            engine.counters.pending_of(lni),
            owner.space.contexts(),
        ];
        Use {
            service: owner.service,
            counts: counts.map(|count| count as u16),
            profiles: owner.profiles.iter().flatten().count() as u16,
        }
    });
    engine.wire.port().set_use(lni, used);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_written_or_not_at_all() {
        let text = text_of(&built_in());
        assert_eq!(parse(&text), Some(built_in()));
        for (at, _) in text.char_indices() {
            assert_eq!(parse(&text[..at]), None, "cut at {at}");
        }
        let [one, two, three, four] = built_in().try_into().unwrap();
        for wrong in [
            vec![],
            vec![two.clone()],
            vec![one.clone(), one.clone()],
            vec![one.clone(), two.clone(), two.clone()],
            vec![one.clone(), four, three],
            vec![
                one,
                Service {
                    id: 0x1_0000,
                    ..two
                },
            ],
        ] {
            assert_eq!(parse(&text_of(&wrong)), None, "{wrong:?}");
        }
    }
}
