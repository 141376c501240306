//! A service (libcxi.md 3), as the driver keeps it, and the file that keeps the changed services of
//! a NIC: a heading, and a line of numbers for each.

use std::ops::RangeInclusive;

use cxi_sys::*;
use rustix::io::Errno;
use rustix::process::Uid;

use crate::engine::portal::MAX_ENTRIES;
use crate::engine::{LNIS_PER_RGID, VniRange};
use crate::environment::{InitialServices, Release};

/// The number of kinds of resources that services limit, `CXI_RSRC_TYPE_*`.
pub const KINDS: usize = CXI_RSRC_TYPE_MAX as usize;

/// The number of each kind that the NIC has, and list entries each of its processing elements
/// (libcxi.md 11).
pub const TOTALS: [u16; KINDS] = [
    C_NUM_PTLTES as u16 - 1,
    C_NUM_TRANSMIT_CQS as u16,
    C_NUM_TARGET_CQS as u16,
    C_NUM_EQS as u16 - 1,
    C_NUM_CTS as u16 - 1,
    MAX_ENTRIES as u16,
    C_NUM_TLES as u16,
    C_NUM_ACS as u16 - 2,
];

/// Pools of list entries in each processing element, and of triggered operations (libcxi.md 3.3,
/// 11), with pool 0, which services share. Sixteen services have list entries of their own
/// (libcxi.md 11); whether the last of them has the pool of the others is not known **[I]**.
pub const LE_POOLS: u8 = 17;
pub const TLE_POOLS: u8 = 4;

/// The triggered operations that a service has, at least (libcxi.md 3.3).
const LEAST_TLES: u16 = 8;

/// The numbers of services.
pub const IDS: RangeInclusive<u32> = 1..=0xffff;

/// The trigger list entries that are reserved for the default service, and its limit (libcxi.md
/// 3.2).
pub const DEFAULT_TLES: u16 = 512;

/// The limits of a service that the NIC alone limits, without triggered operations.
const NO_LIMITS: [(u16, u16); KINDS] = {
    let mut limits = [(0, 0); KINDS];
    let mut kind = 0;
    while kind < KINDS {
        limits[kind] = (TOTALS[kind], 0);
        kind += 1;
    }
    limits[CXI_RSRC_TYPE_TLE as usize] = (0, 0);
    limits
};

/// The same for a step of Slurm, whose eight triggered operations are the fewest of a service.
const OF_STEP: [(u16, u16); KINDS] = {
    let mut limits = NO_LIMITS;
    limits[CXI_RSRC_TYPE_TLE as usize] = (LEAST_TLES, LEAST_TLES);
    limits
};

/// A user id that no user has: -2 in 32 bits. (-1 means "unchanged" to the kernel.)
const UNUSED_UID: u32 = u32::MAX - 1;

/// The number of the driver's own service, and of a resource group that is no service. No page
/// states such numbers; other services have numbers from 1 on.
const DRIVER_SVC_ID: u32 = 1000;
const GROUP_ID: u32 = 1001;

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub id: u32,
    pub enabled: bool,
    pub is_system: bool,
    /// Only `members` may use it.
    pub restricted_members: bool,
    /// Type and number of each member.
    pub members: [(cxi_svc_member_type, u32); CXI_SVC_MAX_MEMBERS as usize],
    /// It has the list `vnis`, not a range.
    pub restricted_vnis: bool,
    pub vnis: Vec<u16>,
    /// The range that it has without the list.
    pub range: Option<VniRange>,
    /// Only the traffic classes `tcs` are allowed.
    pub restricted_tcs: bool,
    pub tcs: [bool; CXI_TC_MAX as usize],
    /// Whether `limits` apply. Otherwise the limits of the NIC apply.
    pub resource_limits: bool,
    /// Limit and reserved number for each kind of resource.
    pub limits: [(u16, u16); KINDS],
    pub counter_pool: u8,
    /// Its pools; 0 is the pool of the default service and of services without a pool of their own.
    pub triggered_pool: u8,
    pub entry_pool: u8,
    /// Number of LNIs that share an RGID.
    pub lnis_per_rgid: u32,
    /// Communication profiles are never shared, even for the same VNI and class.
    pub exclusive_profiles: bool,
}

/// Whether `lnis` LNIs can share an RGID.
pub fn can_share(lnis: u32) -> bool {
    (1..=LNIS_PER_RGID).contains(&lnis)
}

/// The services of a NIC until they are changed (docs/software-nic-reference.md). `user` is the
/// user of a job.
pub fn built_in(initial: InitialServices, user: Uid) -> Vec<Service> {
    let mut services = match initial {
        InitialServices::Examples => examples(),
        InitialServices::DefaultOnly { enabled } => vec![default_service(enabled)],
        InitialServices::Job => vec![default_service(false), service_of_job(user)],
    };
    services.push(service_of_driver());
    services
}

/// The service of the driver itself: a system service for root, without VNIs.
fn service_of_driver() -> Service {
    Service {
        is_system: true,
        restricted_members: true,
        members: [(CXI_SVC_MEMBER_UID, Uid::ROOT.as_raw()), (CXI_SVC_MEMBER_IGNORE, 0)],
        restricted_vnis: false,
        ..Service::plain(DRIVER_SVC_ID)
    }
}

/// A resource group that is no service: lists have it since the driver after 14.0.1 (libcxi.md
/// 3.1).
pub fn resource_group() -> Service {
    Service { restricted_vnis: false, ..Service::plain(GROUP_ID) }
}

/// The default service (libcxi.md 3.2).
fn default_service(enabled: bool) -> Service {
    let plain = Service::plain(CXI_DEFAULT_SVC_ID);
    let mut limits = plain.limits;
    limits[CXI_RSRC_TYPE_TLE as usize] = (DEFAULT_TLES, DEFAULT_TLES);
    Service { enabled, vnis: vec![1, 10], restricted_tcs: false, limits, ..plain }
}

/// The enabled default service, and a service for each case that programs meet. They take no pool
/// of triggered operations: three are left for services of programs.
fn examples() -> Vec<Service> {
    vec![
        default_service(true),
        Service { restricted_vnis: false, range: VniRange::new(16, 31), ..Service::plain(2) },
        Service { enabled: false, vnis: vec![40], ..Service::plain(3) },
        Service {
            restricted_members: true,
            members: [(CXI_SVC_MEMBER_UID, UNUSED_UID), (CXI_SVC_MEMBER_IGNORE, 0)],
            vnis: vec![50],
            ..Service::plain(4)
        },
    ]
}

/// The service that Slurm makes for a step of a user (jobs.md 1.2).
fn service_of_job(user: Uid) -> Service {
    let mut tcs = [false; CXI_TC_MAX as usize];
    tcs[CXI_TC_LOW_LATENCY as usize] = true;
    tcs[CXI_TC_BEST_EFFORT as usize] = true;
    Service {
        restricted_members: true,
        members: [(CXI_SVC_MEMBER_UID, user.as_raw()), (CXI_SVC_MEMBER_IGNORE, 0)],
        vnis: vec![1358, 1214],
        tcs,
        triggered_pool: 1,
        limits: OF_STEP,
        ..Service::plain(5)
    }
}

impl Service {
    /// An enabled service for all users, with an empty list of VNIs, the four HPC classes, and the
    /// limits of the NIC.
    pub fn plain(id: u32) -> Self {
        Self {
            id,
            enabled: true,
            is_system: false,
            restricted_members: false,
            members: [(CXI_SVC_MEMBER_IGNORE, 0); CXI_SVC_MAX_MEMBERS as usize],
            restricted_vnis: true,
            vnis: Vec::new(),
            range: None,
            restricted_tcs: true,
            tcs: [true, true, true, true, false],
            resource_limits: true,
            limits: NO_LIMITS,
            counter_pool: 0,
            triggered_pool: 0,
            entry_pool: 0,
            lnis_per_rgid: 1,
            exclusive_profiles: false,
        }
    }

    /// Makes a service from a description by a program; EINVAL if that is inconsistent. It is
    /// enabled unless it needs a range first, whatever the description says (libcxi.md 3.3).
    pub fn described(id: u32, desc: &cxi_svc_desc) -> Result<Self, Errno> {
        let restricted_vnis = desc.restricted_vnis() != 0;
        // Without that flag the list is ignored.
        let listed = usize::from(desc.num_vld_vnis) * usize::from(restricted_vnis);
        let vnis = desc.vnis.get(..listed).ok_or(Errno::INVAL)?.to_vec();
        let members = desc.members.map(|member| {
            // SAFETY: both fields of the union are 32-bit unsigned integers, valid for any bits.
            (member.type_, unsafe { member.svc_member.uid })
        });
        // SAFETY: both fields of the union have the same layout: eight named limits, or an array of
        // eight.
        let limits = unsafe { desc.limits.__bindgen_anon_1.type_ };
        let limits = limits.map(|limit| (limit.max, limit.res));
        let service = Self {
            id,
            enabled: restricted_vnis,
            is_system: desc.is_system_svc() != 0,
            restricted_members: desc.restricted_members() != 0,
            members,
            restricted_vnis,
            vnis,
            range: None,
            restricted_tcs: desc.restricted_tcs() != 0,
            tcs: desc.tcs,
            resource_limits: desc.resource_limits() != 0,
            limits,
            counter_pool: desc.cntr_pool_id(),
            triggered_pool: 0,
            entry_pool: 0,
            lnis_per_rgid: 1,
            exclusive_profiles: false,
        };
        if service.is_consistent() { Ok(service) } else { Err(Errno::INVAL) }
    }

    /// Whether it gets triggered operations in a pool of its own: any but the default service,
    /// unless its limits name none, which before 14.0.1 makes no difference (libcxi.md 3.3).
    pub fn needs_triggered_pool(&self, release: Release) -> bool {
        let names_none = self.resource_limits && self.limits[CXI_RSRC_TYPE_TLE as usize] == (0, 0);
        self.id != CXI_DEFAULT_SVC_ID && !(names_none && release >= Release::Shs14_0_1)
    }

    /// The service with as many triggered operations as it reserves, and at least 8, if it needs a
    /// pool for them (libcxi.md 3.3).
    pub fn with_triggered(mut self, release: Release) -> Self {
        if self.needs_triggered_pool(release) {
            let (_, reserved) = self.limits[CXI_RSRC_TYPE_TLE as usize];
            let count = if self.resource_limits { reserved.max(LEAST_TLES) } else { LEAST_TLES };
            self.limits[CXI_RSRC_TYPE_TLE as usize] = (count, count);
        }
        self
    }

    /// Whether a VNI belongs to this service and to another one, and the release refuses that
    /// (libcxi.md 3.3).
    pub fn is_refused_beside(&self, other: &Self, release: Release) -> bool {
        let may_share = self.restricted_vnis && other.restricted_vnis;
        if release < Release::Shs13 || may_share && release >= Release::Shs14_0_1 {
            return false;
        }
        // Of two aligned ranges that overlap, one contains the ends of the other.
        let reaches = |one: &Self, other: &Self| {
            let ends = one.range.map(VniRange::bounds).into_iter().flat_map(<[u16; 2]>::from);
            one.vnis.iter().copied().chain(ends).any(|vni| other.vnis_with(vni).is_some())
        };
        reaches(self, other) || reaches(other, self)
    }

    /// Whether the fields are consistent.
    pub fn is_consistent(&self) -> bool {
        let known = |&(kind, _): &(cxi_svc_member_type, u32)| kind < CXI_SVC_MEMBER_MAX;
        let members = !self.restricted_members || self.members.iter().all(known);
        let mut sorted = self.vnis.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let vnis = self.vnis.is_empty() != self.restricted_vnis
            && !self.vnis.contains(&0)
            && sorted.len() == self.vnis.len();
        let in_order = |(&(max, res), total)| res <= max && max <= total;
        let all_in_order = self.limits.iter().zip(TOTALS).map(in_order);
        // Not `all`, which leaves the loop early: LLVM puts these exits into an order that differs
        // from one build to the next, so the same sources would not give the same bytes.
        let limits = !self.resource_limits || all_in_order.fold(true, |all, one| all & one);
        let range = self.range.is_none() || !self.restricted_vnis;
        let usable =
            self.restricted_vnis || self.range.is_some() || !self.enabled || self.is_system;
        let shares = can_share(self.lnis_per_rgid);
        members && vnis && limits && range && usable && shares
    }

    /// The description for programs.
    pub fn describe(&self) -> cxi_svc_desc {
        // SAFETY: the structure has only integers, booleans and integer enumerations, which can be
        // zero.
        let mut desc: cxi_svc_desc = unsafe { std::mem::zeroed() };
        desc.set_restricted_members(self.restricted_members.into());
        desc.set_restricted_vnis(self.restricted_vnis.into());
        desc.set_restricted_tcs(self.restricted_tcs.into());
        desc.set_resource_limits(self.resource_limits.into());
        desc.set_enable(self.enabled.into());
        desc.set_is_system_svc(self.is_system.into());
        desc.set_cntr_pool_id(self.counter_pool);
        desc.num_vld_vnis = self.vnis.len() as u8;
        desc.vnis[..self.vnis.len()].copy_from_slice(&self.vnis);
        desc.tcs = self.tcs;
        desc.members = self.members.map(|(type_, uid)| cxi_svc_desc__bindgen_ty_1 {
            svc_member: cxi_svc_member { uid },
            type_,
        });
        desc.limits.__bindgen_anon_1.type_ = self.limits.map(|(max, res)| cxi_limits { max, res });
        desc.svc_id = self.id;
        desc
    }

    /// Checks that the caller may make an LNI on it, root included (libcxi.md 4): EKEYREVOKED if it
    /// is disabled, then EPERM if the caller is not a member.
    pub fn admit(&self) -> Result<(), Errno> {
        if !self.enabled {
            return Err(Errno::KEYREVOKED);
        }
        if !self.has_member() {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    /// Whether the caller is a member.
    pub fn has_member(&self) -> bool {
        let own = |&(kind, number): &(cxi_svc_member_type, u32)| match kind {
            CXI_SVC_MEMBER_UID => rustix::process::geteuid().as_raw() == number,
            CXI_SVC_MEMBER_GID => rustix::process::getegid().as_raw() == number,
            CXI_SVC_MEMBER_NET_NS => network_namespace() == Some(number),
            _ => false,
        };
        !self.restricted_members || self.members.iter().any(own)
    }

    /// The network namespace that is a member, by its inode number.
    pub fn network_namespace(&self) -> Option<u32> {
        let mut members = self.members.iter().filter(|_| self.restricted_members);
        members.find(|(kind, _)| *kind == CXI_SVC_MEMBER_NET_NS).map(|&(_, number)| number)
    }

    /// Makes a network namespace the only member. EEXIST for an unrestricted service, and for one
    /// with users or groups as members.
    pub fn set_network_namespace(&mut self, number: u32) -> Result<(), Errno> {
        let is_replaced = |&(kind, _): &(cxi_svc_member_type, u32)| {
            matches!(kind, CXI_SVC_MEMBER_IGNORE | CXI_SVC_MEMBER_NET_NS)
        };
        if !self.restricted_members || !self.members.iter().all(is_replaced) {
            return Err(Errno::EXIST);
        }
        self.members = [(CXI_SVC_MEMBER_NET_NS, number), (CXI_SVC_MEMBER_IGNORE, 0)];
        Ok(())
    }

    /// The VNIs of the service that share PIDs with a VNI: the VNI of a list alone, or the range.
    /// `None` if the VNI does not belong to the service.
    pub fn vnis_with(&self, vni: u16) -> Option<VniRange> {
        if self.restricted_vnis {
            self.vnis.contains(&vni).then(|| VniRange::single(vni))
        } else {
            self.range.filter(|range| range.contains(vni))
        }
    }

    /// The first and the last VNI of the range; 0 and 0 for none.
    pub fn range_bounds(&self) -> (u16, u16) {
        self.range.map_or((0, 0), VniRange::bounds)
    }

    /// Limit and reserved number for a kind of resource.
    pub fn limit(&self, kind: usize) -> (u16, u16) {
        if self.resource_limits || kind == CXI_RSRC_TYPE_TLE as usize {
            self.limits[kind]
        } else {
            (TOTALS[kind], 0)
        }
    }
}

/// The inode number of the caller's network namespace.
fn network_namespace() -> Option<u32> {
    let stat = rustix::fs::stat("/proc/self/ns/net").ok()?;
    u32::try_from(stat.st_ino).ok()
}

/// The start of the file. The number of services follows, then a line for each. With any other
/// content, calls that need services fail with EIO until the file is removed.
const HEADING: &str = "cxidiag services 3: ";

pub fn text_of(services: &[Service]) -> String {
    let lines = services.iter().map(line_of);
    [format!("{HEADING}{}", services.len())]
        .into_iter()
        .chain(lines)
        .map(|line| line + "\n")
        .collect()
}

/// The services of a complete file; `None` for any other text.
pub fn parse(text: &str) -> Option<Vec<Service>> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let count: usize = lines.next()?.strip_prefix(HEADING)?.parse().ok()?;
    let services: Vec<Service> = lines.map(parse_line).collect::<Option<_>>()?;
    let ids: Vec<u32> = services.iter().map(|service| service.id).collect();
    // The default service always exists.
    let valid = ids.first() == Some(&CXI_DEFAULT_SVC_ID)
        && ids.is_sorted_by(|one, next| one < next)
        && ids.iter().all(|id| IDS.contains(id));
    (valid && ids.len() == count).then_some(services)
}

fn line_of(service: &Service) -> String {
    let mut numbers: Vec<u32> = vec![
        service.id,
        service.enabled.into(),
        service.is_system.into(),
        service.restricted_members.into(),
    ];
    numbers.extend(service.members.iter().flat_map(|&(kind, number)| [kind, number]));
    numbers.extend([u32::from(service.restricted_vnis), service.vnis.len() as u32]);
    numbers.extend(service.vnis.iter().map(|&vni| u32::from(vni)));
    let (first, last) = service.range_bounds();
    numbers.extend([u32::from(first), u32::from(last)]);
    numbers.push(service.restricted_tcs.into());
    numbers.extend(service.tcs.map(u32::from));
    numbers.push(service.resource_limits.into());
    numbers.extend(service.limits.iter().flat_map(|&(max, res)| [u32::from(max), u32::from(res)]));
    numbers.extend([
        u32::from(service.counter_pool),
        u32::from(service.triggered_pool),
        u32::from(service.entry_pool),
        service.lnis_per_rgid,
        service.exclusive_profiles.into(),
    ]);
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    words.join(" ")
}

/// Reads a line of `line_of`; `None` for any other line.
fn parse_line(line: &str) -> Option<Service> {
    let mut words = line.split(' ').map(|word| word.parse::<u32>().ok());
    let mut number = || words.next().flatten();
    let flag = |number: u32| (number < 2).then_some(number == 1);
    let short = |number: u32| u16::try_from(number).ok();
    let mut service = Service::plain(number()?);
    service.enabled = flag(number()?)?;
    service.is_system = flag(number()?)?;
    service.restricted_members = flag(number()?)?;
    for member in &mut service.members {
        *member = (number()?, number()?);
    }
    service.restricted_vnis = flag(number()?)?;
    let listed = number()?;
    if listed > CXI_SVC_MAX_VNIS {
        return None;
    }
    for _ in 0..listed {
        service.vnis.push(short(number()?)?);
    }
    service.range = match (short(number()?)?, short(number()?)?) {
        (0, 0) => None,
        (first, last) => Some(VniRange::new(first, last)?),
    };
    service.restricted_tcs = flag(number()?)?;
    for tc in &mut service.tcs {
        *tc = flag(number()?)?;
    }
    service.resource_limits = flag(number()?)?;
    for limit in &mut service.limits {
        *limit = (short(number()?)?, short(number()?)?);
    }
    service.counter_pool = u8::try_from(number()?).ok().filter(|&pool| pool < 4)?;
    let pool = |number: u32, pools| u8::try_from(number).ok().filter(|&pool| pool < pools);
    service.triggered_pool = pool(number()?, TLE_POOLS)?;
    service.entry_pool = pool(number()?, LE_POOLS)?;
    service.lnis_per_rgid = number()?;
    service.exclusive_profiles = flag(number()?)?;
    (words.next().is_none() && service.id != 0 && service.is_consistent()).then_some(service)
}

#[cfg(test)]
mod tests {
    use rustix::process::Uid;

    use crate::environment::InitialServices;

    use super::*;

    fn examples() -> Vec<Service> {
        built_in(InitialServices::Examples, Uid::ROOT)
    }

    #[test]
    fn lines_and_descriptions_preserve_services() {
        for mut service in examples() {
            let described = Service::described(service.id, &service.describe()).unwrap();
            let range = std::mem::take(&mut service.range);
            let enabled = service.enabled;
            service.enabled = service.restricted_vnis;
            assert_eq!(described, service, "a description has no range");
            service.enabled = enabled;
            service.range = range;
            service.lnis_per_rgid = 7;
            service.exclusive_profiles = true;
            service.counter_pool = 3;
            assert_eq!(parse_line(&line_of(&service)), Some(service));
        }
    }

    #[test]
    fn rejects_invalid_lines() {
        let line = line_of(&examples()[0]);
        for (at, _) in line.char_indices() {
            assert_eq!(parse_line(&line[..at]), None, "cut at {at}");
        }
        for hostile in ["", "x", "1 2 3", &line.replace(' ', "  "), &format!("{line} 1")] {
            assert_eq!(parse_line(hostile), None, "{hostile:?}");
        }
        let mut broken = examples()[0].clone();
        broken.limits[0] = (1, 2);
        assert_eq!(parse_line(&line_of(&broken)), None);
        let [default, ranged, _, _, _] = examples().try_into().unwrap();
        for broken in [
            Service { id: 0, ..default.clone() },
            Service { lnis_per_rgid: 0, ..default.clone() },
            Service { lnis_per_rgid: 9, ..default.clone() },
            Service { range: Some(VniRange::single(5)), ..default },
            // Enabled without any VNI.
            Service { range: None, ..ranged.clone() },
        ] {
            assert_eq!(parse_line(&line_of(&broken)), None, "{broken:?}");
        }
        let line = line_of(&ranged);
        assert!(line.contains(" 16 31 "));
        for range in ["0 31", "31 16", "16 30", "8 23"] {
            let broken = line.replace("16 31", range);
            assert_eq!(parse_line(&broken), None, "{range}");
        }
    }

    #[test]
    fn reads_complete_files_only() {
        let text = text_of(&examples());
        assert_eq!(parse(&text), Some(examples()));
        for (at, _) in text.char_indices() {
            assert_eq!(parse(&text[..at]), None, "cut at {at}");
        }
        let [one, two, three, four, _] = examples().try_into().unwrap();
        for wrong in [
            vec![],
            vec![two.clone()],
            vec![one.clone(), one.clone()],
            vec![one.clone(), two.clone(), two.clone()],
            vec![one.clone(), four, three],
            vec![one, Service { id: 0x1_0000, ..two }],
        ] {
            assert_eq!(parse(&text_of(&wrong)), None, "{wrong:?}");
        }
    }
}
