//! What libcxi and the driver return: devices, services, interfaces, profiles, domains, memory.

use cxi::attempt::{self, MemoryRights};
use cxi::sys::*;
use cxi::{CommunicationProfile, Domain, Error, Lni, MemoryRegion, Pages};
use node::service::Rights as OfUser;
use rustix::process::geteuid;

use crate::bench::{Bench, Checked, RIGHTS, differs, ensure, equal, has, refused, skipped};
use crate::table::{CheckGroup, FactCheck, inferred, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "calls", checks: CHECKS };

const CHECKS: &[FactCheck] = &[
    stated("device-numbers", "libcxi.md 2.2", |bench| {
        let info = bench.nic.device.info();
        let bits = info.pid_bits;
        ensure((6..=9).contains(&bits), "pid_bits: 6 to 9", bits)?;
        let granule = 1 << (17 - bits);
        equal("pid_count", info.pid_count, (1 << bits) - 1)?;
        equal("pid_granule", info.pid_granule, granule)?;
        equal("rdzv_get_idx", info.rdzv_get_idx, granule - 1)
    })
    .shows("pid_count, pid_granule and rdzv_get_idx follow from pid_bits, which is 6 to 9")
    .reads(),
    stated("device-link-mtu", "libcxi.md 2.2", |bench| {
        equal("link_mtu", bench.nic.device.info().link_mtu, 2112)
    })
    .shows("the link MTU is 2112 bytes")
    .reads(),
    stated("device-min-free-shift", "libcxi.md 2.2", |bench| {
        let shift = bench.nic.device.info().min_free_shift;
        ensure(shift <= 8, "min_free_shift: 0 to 8", shift)
    })
    .shows("min_free_shift is 0 to 8")
    .reads(),
    stated("service-unknown", "libcxi.md 3.1", |bench| {
        let unknown = unknown_service(bench)?;
        refused(libc::EINVAL, bench.nic.device.service(unknown))
    })
    .shows("an unknown service is EINVAL")
    .reads(),
    stated("service-readable", "libcxi.md 3.1", |bench| {
        let Some(services) = bench.nic.device.services()? else {
            return skipped("the library has no list of services");
        };
        ensure(!services.is_empty(), "a list with services", "an empty list")?;
        services.iter().try_for_each(|service| {
            let read = bench.nic.device.service(service.id);
            let read = read.map_err(|error| differs("a service", error))?;
            equal("service", read.id, service.id)
        })
    })
    .shows("any user may read any service that the list has")
    .reads(),
    stated("lni-service-0", "libcxi.md 4", |bench| {
        refused(libc::EINVAL, Lni::new(&bench.nic.device, 0))
    })
    .shows("an LNI in service 0 is EINVAL"),
    stated("lni-service-unknown", "libcxi.md 4", |bench| {
        let unknown = unknown_service(bench)?;
        refused(libc::EINVAL, Lni::new(&bench.nic.device, unknown))
    })
    .shows("an LNI in an unknown service is EINVAL"),
    stated("lni-service-disabled", "libcxi.md 4", |bench| {
        let services = bench.nic.device.services()?.unwrap_or_default();
        let Some(disabled) = services.iter().find(|service| !service.enabled) else {
            return skipped("no service of this NIC is disabled");
        };
        refused(libc::EKEYREVOKED, Lni::new(&bench.nic.device, disabled.id))
    })
    .shows("an LNI in a disabled service is EKEYREVOKED, also for members of the service"),
    stated("lni-not-member", "libcxi.md 4", |bench| {
        let user = OfUser::from_this_process();
        let services = bench.nic.device.services()?.unwrap_or_default();
        let foreign = |service: &&cxi::Service| service.enabled && !user.admit(service);
        let Some(foreign) = services.iter().find(foreign) else {
            return skipped("this user is a member of all enabled services of this NIC");
        };
        refused(libc::EPERM, Lni::new(&bench.nic.device, foreign.id))
    })
    .shows("an LNI in a service of other users is EPERM, for root too"),
    stated("profile-vni-0", "libcxi.md 5", |bench| {
        refused(libc::EINVAL, profile(bench, 0, CXI_TC_TYPE_DEFAULT))
    })
    .shows("a profile for VNI 0 is EINVAL"),
    stated("profile-vni-65536", "libcxi.md 5", |bench| {
        refused(libc::EINVAL, profile(bench, 65536, CXI_TC_TYPE_DEFAULT))
    })
    .shows("a profile for a VNI above 65535 is EINVAL"),
    stated("profile-class", "libcxi.md 5", |bench| {
        let (vni, class) = (bench.nic.vni, bench.nic.class);
        let with = |class, ty| CommunicationProfile::new(&bench.lni, vni, class, ty);
        refused(libc::EINVAL, with(99, CXI_TC_TYPE_DEFAULT))?;
        refused(libc::EINVAL, with(class, 99))
    })
    .shows("a traffic class or type out of range is EINVAL"),
    stated("profile-foreign-vni", "libcxi.md 5", |bench| {
        let vni = foreign_vni(bench)?;
        let allocated = profile(bench, vni, CXI_TC_TYPE_DEFAULT);
        if matches!(&allocated, Err(error) if error.errno() == libc::EINVAL) {
            // Then there are no receive profiles, and any VNI can have a domain.
            Domain::new(&bench.lni, vni, C_PID_ANY)?;
            return Ok(());
        }
        if geteuid().is_root() {
            allocated.map(drop)?;
            return Ok(());
        }
        refused(libc::ENOENT, allocated)
    })
    .shows(
        "a VNI of no service is ENOENT, and root gets a profile for it (since SHS 13.0), or it is \
         EINVAL for all (12.0)",
    ),
    stated("profile-types", "libcxi.md 5", |bench| {
        bench.nic.needs_best_effort()?;
        let (vni, class) = (bench.nic.vni, CXI_TC_BEST_EFFORT);
        for ty in [CXI_TC_TYPE_DEFAULT, CXI_TC_TYPE_RESTRICTED, CXI_TC_TYPE_HRP] {
            CommunicationProfile::new(&bench.lni, vni, class, ty)?;
        }
        Ok(())
    })
    .shows("BEST_EFFORT has the types DEFAULT, RESTRICTED and HRP in each QoS profile"),
    stated("profile-hrp-class", "libcxi.md 5", |bench| {
        let (vni, class) = (bench.nic.vni, CXI_TC_LOW_LATENCY);
        let allocated = CommunicationProfile::new(&bench.lni, vni, class, CXI_TC_TYPE_HRP);
        refused(libc::EINVAL, allocated)
    })
    .shows("HRP exists for BEST_EFFORT only: EINVAL for LOW_LATENCY"),
    stated("profile-first-lcid", "libcxi.md 5", |bench| {
        if bench.nic.shares_rgids()? {
            return skipped("LNIs of the service share an RGID");
        }
        equal("lcid", bench.profile.lcid(), 0)
    })
    .shows("the first profile of an RGID gets LCID 0")
    .reads(),
    stated("profile-equal-at-lcid-0", "libcxi.md 5", |bench| {
        if bench.profile.lcid() != 0 {
            return skipped("another LNI of the RGID has LCID 0");
        }
        let again = profile(bench, bench.nic.vni, CXI_TC_TYPE_DEFAULT)?;
        equal("lcid", again.lcid(), 0)
    })
    .shows("a profile equal to the one at LCID 0 is shared"),
    stated("profile-limit", "libcxi.md 5", profile_limit).shows(
        "an equal profile at another LCID is shared (SHS 12.0 to 13.1), or takes the next LCID \
         (since 14.0), and after 16 LCIDs comes ENOSPC",
    ),
    stated("domain-vni-0", "libcxi.md 6", |bench| {
        refused(libc::EINVAL, Domain::new(&bench.lni, 0, C_PID_ANY))?;
        refused(libc::EINVAL, Domain::new(&bench.lni, 65536, C_PID_ANY))
    })
    .shows("a domain on VNI 0 or above 65535 is EINVAL"),
    stated("domain-pid-range", "libcxi.md 6", |bench| {
        let pid = 1 << bench.nic.device.info().pid_bits;
        refused(libc::EINVAL, Domain::new(&bench.lni, bench.nic.vni, pid))
    })
    .shows("a PID from pid_count on, which is not C_PID_ANY, is EINVAL"),
    stated("domain-pid-in-use", "libcxi.md 6", |bench| {
        let pid = bench.domain.pid();
        refused(libc::EEXIST, Domain::new(&bench.lni, bench.nic.vni, pid))
    })
    .shows("a PID that is in use is EEXIST"),
    stated("domain-any-pid", "libcxi.md 6", |bench| {
        let (pid, count) = (bench.domain.pid(), bench.nic.device.info().pid_count);
        ensure(pid + 1 < count, format_args!("a PID below {}", count - 1), pid)
    })
    .shows("C_PID_ANY never gives the topmost PID")
    .reads(),
    stated("map-length-0", "libcxi.md 7.4", |bench| {
        refused(libc::EINVAL, map(bench, MemoryRights::ReadWrite, 0, RIGHTS))
    })
    .shows("a mapping of 0 bytes is EINVAL"),
    stated("map-pin-and-fault", "libcxi.md 7.4", |bench| {
        for flag in [CXI_MAP_FAULT, CXI_MAP_PREFETCH] {
            refused(libc::EINVAL, map(bench, MemoryRights::ReadWrite, 1, RIGHTS | flag))?;
        }
        Ok(())
    })
    .shows("PIN with FAULT or PREFETCH is EINVAL"),
    stated("map-read-only-memory", "libcxi.md 7.4", |bench| {
        refused(libc::EINVAL, map(bench, MemoryRights::Read, 1, RIGHTS))?;
        Ok(map(bench, MemoryRights::Read, 1, CXI_MAP_PIN | CXI_MAP_READ).map(drop)?)
    })
    .shows("WRITE on memory that the process may only read is EINVAL, and READ alone succeeds"),
    stated("map-no-access", "libcxi.md 7.4", |bench| {
        refused(libc::EFAULT, map(bench, MemoryRights::Nothing, 1, RIGHTS))
    })
    .shows("memory that the process cannot read is EFAULT"),
    stated("map-whole-pages", "libcxi.md 7.3", |bench| {
        let mapped = attempt::map(&bench.lni, MemoryRights::ReadWrite, 100, 1, RIGHTS)?;
        ensure(mapped.before >= 100, "a mapping from the page on", mapped.before)?;
        ensure(mapped.len >= 4096, "a mapping of a page or more", mapped.len)
    })
    .shows("a mapping begins and ends at page boundaries around the range"),
    stated("map-shares-context", "libcxi.md 7.4", |bench| {
        equal("lac", bench.local.lac(), bench.remote.lac())
    })
    .shows("mappings with equal pages and flags share an address context")
    .reads(),
    stated("map-contexts", "libcxi.md 7.4", map_contexts)
        .shows("an LNI has the contexts 0 to 7, and a ninth kind of mapping is ENOSPC"),
    stated("map-on-demand", "libcxi.md 7.8", |bench| {
        let memory = Pages::anonymous(4096)?;
        let flags = CXI_MAP_READ | CXI_MAP_WRITE;
        let region = match MemoryRegion::map(&bench.lni, memory, flags) {
            Err(error) if error.errno() == libc::EOPNOTSUPP => {
                return skipped("the driver has no on-demand paging");
            }
            region => region?,
        };
        let _portal = bench.plain()?;
        bench.remote.fill(0x5a)?;
        bench.get(4096, C_RC_OK, |get| {
            get.set_lac(region.lac()).set_local_addr(region.iova(0));
        })?;
        has("mapped memory", &region, 0, &[0x5a; 4096])
    })
    .shows("a mapping without PIN takes part in operations, where the driver has it"),
    inferred("close-in-order", "libcxi.md 10", |bench| {
        let lni = bench.nic.lni()?;
        let domain = Domain::new(&lni, bench.nic.vni, C_PID_ANY)?;
        let pid = domain.pid();
        domain.close()?;
        // The PID is free again.
        match Domain::new(&lni, bench.nic.vni, pid) {
            Ok(again) => again.close()?,
            Err(error) if error.errno() == libc::EEXIST => {
                return skipped("another process may have taken the PID");
            }
            Err(error) => return Err(differs("the PID again", error)),
        }
        let closed = lni.close();
        closed.map_err(|error| differs("a released LNI", error))
    })
    .shows("an LNI whose objects were released can be released, and another one allocated"),
];

fn profile(
    bench: &Bench,
    vni: u32,
    ty: cxi_traffic_class_type,
) -> Result<CommunicationProfile, Error> {
    CommunicationProfile::new(&bench.lni, vni, bench.nic.class, ty)
}

fn map(
    bench: &Bench,
    rights: MemoryRights,
    len: usize,
    flags: u32,
) -> Result<attempt::Mapped, Error> {
    attempt::map(&bench.lni, rights, 0, len, flags)
}

/// A number that no service has.
fn unknown_service(bench: &Bench) -> Checked<u32> {
    let services = bench.nic.device.services()?.unwrap_or_default();
    let last = services.iter().map(|service| service.id).max();
    Ok(last.unwrap_or(bench.nic.service) + 1000)
}

/// A VNI of no service.
fn foreign_vni(bench: &Bench) -> Checked<u32> {
    let Some(services) = bench.nic.device.services()? else {
        return skipped("the library has no list of services");
    };
    let is_used = |vni: u16| {
        services.iter().any(|service| {
            let range = service.vni_range().ok().flatten();
            service.vnis.contains(&vni) || range.is_some_and(|range| range.contains(&vni))
        })
    };
    // Batch systems take VNIs from 1024 on (jobs.md 1.2).
    let found = (1001..=1023).find(|vni| !is_used(*vni));
    found.map_or_else(|| skipped("services have all VNIs from 1001 to 1023"), |vni| Ok(vni.into()))
}

fn profile_limit(bench: &mut Bench) -> Checked {
    bench.nic.needs_best_effort()?;
    let mut profiles = vec![profile(bench, bench.nic.vni, CXI_TC_TYPE_RESTRICTED)?];
    let first = profiles[0].lcid();
    let again = profile(bench, bench.nic.vni, CXI_TC_TYPE_RESTRICTED)?;
    if again.lcid() == first {
        return Ok(());
    }
    ensure(again.lcid() > first, format_args!("an LCID after {first}"), again.lcid())?;
    profiles.push(again);
    while let Ok(next) = profile(bench, bench.nic.vni, CXI_TC_TYPE_RESTRICTED) {
        profiles.push(next);
        ensure(profiles.len() < 17, "at most 16 LCIDs", "17")?;
    }
    refused(libc::ENOSPC, profile(bench, bench.nic.vni, CXI_TC_TYPE_RESTRICTED))?;
    let used = profiles.len() + first as usize;
    if used < 16 && bench.nic.shares_rgids()? {
        return skipped("other LNIs of the RGID have some of its 16 LCIDs");
    }
    equal("LCIDs", used, 16)
}

/// Whether less than the 8 contexts of an RGID are for this LNI: because others of its RGID have
/// some, or by the limit of the service or the use of the NIC.
fn has_fewer_contexts(bench: &Bench) -> Checked<bool> {
    const CONTEXTS: usize = 7;
    /// Contexts of the NIC (libcxi.md 11).
    const MOST: u32 = 1022;
    let service = bench.nic.device.service(bench.nic.service)?;
    let services = bench.nic.device.services()?.unwrap_or_default();
    let mut total = 0;
    for id in services.iter().map(|service| service.id) {
        let used = bench.nic.device.in_use(id)?.and_then(|used| used[CONTEXTS]);
        total += u32::from(used.unwrap_or_default());
        let limit = service.limit(CONTEXTS).max;
        if id == service.id && used.is_some_and(|used| used >= limit) {
            return Ok(true);
        }
    }
    Ok(total >= MOST || bench.nic.shares_rgids()?)
}

fn map_contexts(bench: &mut Bench) -> Checked {
    let kinds = [CXI_MAP_READ, CXI_MAP_WRITE, CXI_MAP_READ | CXI_MAP_WRITE];
    let kinds = kinds.iter().flat_map(|rights| {
        [0, CXI_MAP_PIN].map(|pin| [0, CXI_MAP_NOCACHE].map(|cache| rights | pin | cache))
    });
    let mut regions = Vec::new();
    let mut contexts = vec![bench.local.lac()];
    for flags in kinds.flatten() {
        match MemoryRegion::map(&bench.lni, Pages::anonymous(4096)?, flags) {
            Ok(region) => {
                ensure(region.lac() < 8, "lac: 0 to 7", region.lac())?;
                contexts.push(region.lac());
                regions.push(region);
            }
            Err(error) if error.errno() == libc::EOPNOTSUPP => {}
            refusal => {
                contexts.sort_unstable();
                contexts.dedup();
                refused(libc::ENOSPC, refusal)?;
                if contexts.len() < 8 && has_fewer_contexts(bench)? {
                    return skipped("the service or the RGID has fewer than 8 contexts left");
                }
                return equal("contexts in use", contexts.len(), 8);
            }
        }
    }
    contexts.sort_unstable();
    contexts.dedup();
    skipped(format_args!("there are {} kinds of mappings only", contexts.len()))
}
