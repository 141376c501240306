//! What a service is (libcxi.md 3), as the driver would keep it.

use cxi_sys::*;
use rustix::io::Errno;

use crate::engine::portal::MAX_ENTRIES;

/// Kinds of resources that services limit: `CXI_RSRC_TYPE_*`.
pub const KINDS: usize = CXI_RSRC_TYPE_MAX as usize;

/// How many of each kind the NIC has (libcxi.md 11).
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

/// Trigger list entries that the default service has, and keeps for itself (libcxi.md 3.2).
pub const DEFAULT_TLES: u16 = 512;

/// Most LNIs that can share an RGID: it has so many address contexts, of which each LNI that maps memory needs one.
const LNIS_PER_RGID: u32 = C_NUM_LACS;

/// A uid that no user has: -2 of 32 bits. (-1 would mean "unchanged" to the kernel.)
const NOBODY_AT_ALL: u32 = u32::MAX - 1;

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub id: u32,
    pub enabled: bool,
    pub is_system: bool,
    /// Who may use it, if not all: type and number of each member.
    pub restricted_members: bool,
    pub members: [(cxi_svc_member_type, u32); CXI_SVC_MAX_MEMBERS as usize],
    /// It has a list of VNIs, not a range.
    pub restricted_vnis: bool,
    pub vnis: Vec<u16>,
    /// First and last VNI of the range; 0 and 0 while there is none.
    pub range: (u16, u16),
    pub restricted_tcs: bool,
    pub tcs: [bool; CXI_TC_MAX as usize],
    /// `limits` hold; else those of the NIC do.
    pub resource_limits: bool,
    /// Most of each kind, and how many are kept for this service.
    pub limits: [(u16, u16); KINDS],
    pub counter_pool: u8,
    /// LNIs that share an RGID, of which the NIC has 255.
    pub lnis_per_rgid: u32,
    /// Each communication profile is one of its own, even for the same VNI and class.
    pub exclusive_profiles: bool,
    /// The network namespace that it is for; 0 is all.
    pub netns: u32,
}

/// Whether so many LNIs can share an RGID.
pub fn can_share(lnis: u32) -> bool {
    (1..=LNIS_PER_RGID).contains(&lnis)
}

/// The services of a NIC that nobody has administered (docs/software-nic.md).
pub fn built_in() -> Vec<Service> {
    let default = Service::plain(CXI_DEFAULT_SVC_ID);
    let mut limits = default.limits;
    limits[CXI_RSRC_TYPE_TLE as usize] = (DEFAULT_TLES, DEFAULT_TLES);
    vec![
        Service {
            is_system: true,
            vnis: vec![1, 10],
            limits,
            ..default
        },
        Service {
            restricted_vnis: false,
            range: (16, 31),
            ..Service::plain(2)
        },
        Service {
            enabled: false,
            vnis: vec![40],
            ..Service::plain(3)
        },
        Service {
            restricted_members: true,
            members: [
                (CXI_SVC_MEMBER_UID, NOBODY_AT_ALL),
                (CXI_SVC_MEMBER_IGNORE, 0),
            ],
            vnis: vec![50],
            ..Service::plain(4)
        },
    ]
}

impl Service {
    /// Enabled, for everybody, with an empty list of VNIs, the four HPC classes, and no limits but the NIC's.
    fn plain(id: u32) -> Self {
        Self {
            id,
            enabled: true,
            is_system: false,
            restricted_members: false,
            members: [(CXI_SVC_MEMBER_IGNORE, 0); CXI_SVC_MAX_MEMBERS as usize],
            restricted_vnis: true,
            vnis: Vec::new(),
            range: (0, 0),
            restricted_tcs: true,
            tcs: [true, true, true, true, false],
            resource_limits: true,
            limits: TOTALS.map(|total| (total, 0)),
            counter_pool: 0,
            lnis_per_rgid: 1,
            exclusive_profiles: false,
            netns: 0,
        }
    }

    /// A service as a program describes it. EINVAL for what cannot be.
    pub fn described(id: u32, desc: &cxi_svc_desc) -> Result<Self, Errno> {
        let restricted_vnis = desc.restricted_vnis() != 0;
        // Without that flag there is no list, whatever else the description says.
        let listed = usize::from(desc.num_vld_vnis) * usize::from(restricted_vnis);
        let vnis = desc.vnis.get(..listed).ok_or(Errno::INVAL)?.to_vec();
        let members = desc.members.map(|member| {
            // SAFETY: both members of this union of C are the same unsigned number.
            (member.type_, unsafe { member.svc_member.uid })
        });
        // SAFETY: eight named limits or an array of eight: the same in C.
        let limits = unsafe { desc.limits.__bindgen_anon_1.type_ };
        let limits = limits.map(|limit| (limit.max, limit.res));
        let service = Self {
            id,
            // One with a range has none yet, and cannot be used before it has.
            enabled: desc.enable() != 0 && restricted_vnis,
            is_system: desc.is_system_svc() != 0,
            restricted_members: desc.restricted_members() != 0,
            members,
            restricted_vnis,
            vnis,
            range: (0, 0),
            restricted_tcs: desc.restricted_tcs() != 0,
            tcs: desc.tcs,
            resource_limits: desc.resource_limits() != 0,
            limits,
            counter_pool: desc.cntr_pool_id(),
            lnis_per_rgid: 1,
            exclusive_profiles: false,
            netns: 0,
        };
        if service.is_possible() {
            Ok(service)
        } else {
            Err(Errno::INVAL)
        }
    }

    /// Whether the parts of the description go together.
    fn is_possible(&self) -> bool {
        let known = |&(kind, _): &(cxi_svc_member_type, u32)| kind < CXI_SVC_MEMBER_MAX;
        let named = |&(kind, _): &(cxi_svc_member_type, u32)| kind != CXI_SVC_MEMBER_IGNORE;
        let members = !self.restricted_members
            || self.members.iter().all(known) && self.members.iter().any(named);
        let mut sorted = self.vnis.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let vnis = self.vnis.is_empty() != self.restricted_vnis
            && !self.vnis.contains(&0)
            && sorted.len() == self.vnis.len();
        let tcs = !self.restricted_tcs || self.tcs.contains(&true);
        let limits = !self.resource_limits
            || (self.limits.iter().zip(TOTALS))
                .all(|(&(max, res), total)| res <= max && max <= total);
        let range = self.range == (0, 0)
            || !self.restricted_vnis && self.range.0 > 0 && self.range.0 <= self.range.1;
        let usable = self.restricted_vnis || self.range != (0, 0) || !self.enabled;
        let shares = can_share(self.lnis_per_rgid);
        members && vnis && tcs && limits && range && usable && shares
    }

    /// The description for programs.
    pub fn describe(&self) -> cxi_svc_desc {
        // SAFETY: integers, booleans and enumerations with a zero, for all of which zero is a value.
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

    /// Whether the caller is one of those that it is for.
    pub fn has_member(&self) -> bool {
        let own = |&(kind, number): &(cxi_svc_member_type, u32)| match kind {
            CXI_SVC_MEMBER_UID => rustix::process::geteuid().as_raw() == number,
            CXI_SVC_MEMBER_GID => rustix::process::getegid().as_raw() == number,
            CXI_SVC_MEMBER_NET_NS => network_namespace() == Some(number),
            _ => false,
        };
        let admitted = !self.restricted_members || self.members.iter().any(own);
        admitted && (self.netns == 0 || network_namespace() == Some(self.netns))
    }

    pub fn has_vni(&self, vni: u16) -> bool {
        if self.restricted_vnis {
            self.vnis.contains(&vni)
        } else {
            vni != 0 && (self.range.0..=self.range.1).contains(&vni)
        }
    }

    /// Most of a kind that it may have, and how many are kept for it.
    pub fn limit(&self, kind: usize) -> (u16, u16) {
        if self.resource_limits {
            self.limits[kind]
        } else {
            (TOTALS[kind], 0)
        }
    }

    /// One line of numbers.
    pub fn to_line(&self) -> String {
        let mut numbers: Vec<u32> = vec![
            self.id,
            self.enabled.into(),
            self.is_system.into(),
            self.restricted_members.into(),
        ];
        numbers.extend(
            self.members
                .iter()
                .flat_map(|&(kind, number)| [kind, number]),
        );
        numbers.extend([u32::from(self.restricted_vnis), self.vnis.len() as u32]);
        numbers.extend(self.vnis.iter().map(|&vni| u32::from(vni)));
        numbers.extend([u32::from(self.range.0), u32::from(self.range.1)]);
        numbers.push(self.restricted_tcs.into());
        numbers.extend(self.tcs.map(u32::from));
        numbers.push(self.resource_limits.into());
        numbers.extend(
            self.limits
                .iter()
                .flat_map(|&(max, res)| [u32::from(max), u32::from(res)]),
        );
        numbers.extend([
            u32::from(self.counter_pool),
            self.lnis_per_rgid,
            self.exclusive_profiles.into(),
            self.netns,
        ]);
        let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
        words.join(" ")
    }

    /// Reads what `to_line` wrote; `None` for anything else.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ').map(|word| word.parse::<u32>().ok());
        let mut number = || words.next().flatten();
        let flag = |number: u32| (number < 2).then_some(number == 1);
        let short = |number: u32| u16::try_from(number).ok();
        let mut service = Self::plain(number()?);
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
        service.range = (short(number()?)?, short(number()?)?);
        service.restricted_tcs = flag(number()?)?;
        for tc in &mut service.tcs {
            *tc = flag(number()?)?;
        }
        service.resource_limits = flag(number()?)?;
        for limit in &mut service.limits {
            *limit = (short(number()?)?, short(number()?)?);
        }
        service.counter_pool = u8::try_from(number()?).ok().filter(|&pool| pool < 4)?;
        service.lnis_per_rgid = number()?;
        service.exclusive_profiles = flag(number()?)?;
        service.netns = number()?;
        (words.next().is_none() && service.id != 0 && service.is_possible()).then_some(service)
    }
}

/// The number of the caller's network namespace.
fn network_namespace() -> Option<u32> {
    let stat = rustix::fs::stat("/proc/self/ns/net").ok()?;
    u32::try_from(stat.st_ino).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_descriptions_keep_everything() {
        for mut service in built_in() {
            let described = Service::described(service.id, &service.describe()).unwrap();
            let range = std::mem::take(&mut service.range);
            let enabled = service.enabled;
            service.enabled &= service.restricted_vnis;
            assert_eq!(described, service, "a range is set by a call of its own");
            service.enabled = enabled;
            service.range = range;
            service.lnis_per_rgid = 7;
            service.exclusive_profiles = true;
            service.netns = u32::MAX;
            service.counter_pool = 3;
            assert_eq!(Service::from_line(&service.to_line()), Some(service));
        }
    }

    #[test]
    fn other_lines_are_none() {
        let line = built_in()[0].to_line();
        for (at, _) in line.char_indices() {
            assert_eq!(Service::from_line(&line[..at]), None, "cut at {at}");
        }
        for hostile in [
            "",
            "x",
            "1 2 3",
            &line.replace(' ', "  "),
            &format!("{line} 1"),
        ] {
            assert_eq!(Service::from_line(hostile), None, "{hostile:?}");
        }
        let mut broken = built_in()[0].clone();
        broken.limits[0] = (1, 2);
        assert_eq!(Service::from_line(&broken.to_line()), None);
        let [default, ranged, _, _] = built_in().try_into().unwrap();
        for broken in [
            Service {
                id: 0,
                ..default.clone()
            },
            Service {
                lnis_per_rgid: 0,
                ..default.clone()
            },
            Service {
                lnis_per_rgid: 9,
                ..default.clone()
            },
            Service {
                range: (5, 6),
                ..default
            },
            Service {
                range: (0, 6),
                ..ranged.clone()
            },
            Service {
                range: (7, 6),
                ..ranged.clone()
            },
            // Enabled without a VNI.
            Service {
                range: (0, 0),
                ..ranged
            },
        ] {
            assert_eq!(Service::from_line(&broken.to_line()), None, "{broken:?}");
        }
    }
}
