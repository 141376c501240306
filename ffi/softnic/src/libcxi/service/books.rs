//! Who may use how much of a NIC: its services, and what is in use, over all processes.

use std::ops::RangeInclusive;

use cxi_sys::*;
use rustix::io::Errno;

use super::record::{KINDS, Service, TOTALS, built_in};
use crate::engine::Engine;
use crate::fabric::{Directory, Fabric, Use};

/// First line of the file that keeps services which were changed. A file without it, or with a line that describes no
/// service, makes calls about services fail with EIO.
const HEADING: &str = "cxidiag services 1";

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
        uses.map(|used| used.counts[kind]).sum()
    }

    /// Whether a service may have one more of a kind: ENOSPC at its own limit, and where all that is left of the NIC's is
    /// kept for other services.
    pub fn has_room(&self, service: &Service, kind: usize) -> Result<(), Errno> {
        let (max, _) = service.limit(kind);
        let own = self.in_use(service.id, kind);
        let others = self.services.iter().filter(|other| other.id != service.id);
        let taken: u32 = others
            .map(|other| u32::from(self.in_use(other.id, kind).max(other.limit(kind).1)))
            .sum();
        if own >= max || u32::from(own) + taken >= u32::from(TOTALS[kind]) {
            return Err(Errno::NOSPC);
        }
        Ok(())
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

    /// What is left of each kind for a service beside what others keep for themselves.
    pub fn available(&self, id: u32) -> [u16; KINDS] {
        let others = self.services.iter().filter(|other| other.id != id);
        let mut left = TOTALS;
        for other in others {
            for (kind, left) in left.iter_mut().enumerate() {
                *left = left.saturating_sub(other.limit(kind).1);
            }
        }
        left
    }

    /// The service that lets the caller use a VNI, or none where root may have a VNI of nobody (libcxi.md 5, 6).
    ///
    /// EINVAL for 0 and beyond 16 bits; EPERM if it belongs to somebody else's service; ENOENT if it
    /// belongs to no enabled service. To root a VNI of nobody is allowed, for which the driver makes
    /// a profile on the fly: here there is nothing to make, it just works.
    pub fn check_vni(&self, vni: u32) -> Result<(u16, Option<&Service>), Errno> {
        let vni = u16::try_from(vni)
            .ok()
            .filter(|&vni| vni != 0)
            .ok_or(Errno::INVAL)?;
        let having = |service: &&Service| service.enabled && service.has_vni(vni);
        let mut services = self.services.iter().filter(having).peekable();
        if services.peek().is_none() {
            return if rustix::process::geteuid().is_root() {
                Ok((vni, None))
            } else {
                Err(Errno::NOENT)
            };
        }
        let admitting = services.find(|service| service.has_member());
        admitting
            .map(|service| (vni, Some(service)))
            .ok_or(Errno::PERM)
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
    [HEADING.to_owned()]
        .into_iter()
        .chain(lines)
        .map(|line| line + "\n")
        .collect()
}

fn parse(text: &str) -> Option<Vec<Service>> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next()? != HEADING {
        return None;
    }
    let services: Vec<Service> = lines.map(Service::from_line).collect::<Option<_>>()?;
    let mut ids: Vec<u32> = services.iter().map(|service| service.id).collect();
    ids.dedup();
    let valid = ids.is_sorted() && ids.len() == services.len();
    (valid && ids.iter().all(|id| IDS.contains(id))).then_some(services)
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
            let cut = parse(&text[..at]);
            let whole_lines = text[..at].ends_with('\n') && at > HEADING.len();
            assert_eq!(cut.is_some(), whole_lines, "cut at {at}");
        }
        let twice = format!("{text}{}\n", built_in()[3].to_line());
        assert_eq!(parse(&twice), None);
    }
}
