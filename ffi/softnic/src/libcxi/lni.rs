//! LNIs, communication profiles, domains (libcxi.md 4 to 6).

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::boundary::{Handle, answer, answer_number, from_c, hand_out, require_capability};
use super::device::PID_COUNT;
use super::service::registry::{ServiceRegistry, publish};
use crate::engine::{Domain, Engine, Lni, PROFILES, Profile, Reservation};
use crate::environment::{QosProfile, Release};
use crate::fabric::Fabric;
use crate::nic::SoftwareNic;

/// Handle of an LNI.
#[repr(C)]
pub struct LniHandle {
    public: cxil_lni,
    pub nic: Arc<SoftwareNic>,
    pub number: usize,
}

// SAFETY: `cxil_alloc_lni` gives out these handles, which begin with their public part.
unsafe impl Handle for cxil_lni {
    type Object = LniHandle;
}

impl LniHandle {
    /// Whether an object of an LNI with number `lni` on a device belongs to this one.
    pub fn owns(&self, nic: &Arc<SoftwareNic>, lni: usize) -> bool {
        self.number == lni && Arc::ptr_eq(nic, &self.nic)
    }
}

/// Handle of a communication profile.
#[repr(C)]
pub struct CpHandle {
    public: cxi_cp,
    nic: Arc<SoftwareNic>,
    lni: usize,
}

// SAFETY: `cxil_alloc_cp` and `cxil_alloc_trig_cp` give out these handles, which begin with their
// public part.
unsafe impl Handle for cxi_cp {
    type Object = CpHandle;
}

/// Handle of a domain.
#[repr(C)]
pub struct DomainHandle {
    public: cxil_domain,
    pub nic: Arc<SoftwareNic>,
    pub number: usize,
}

// SAFETY: `cxil_alloc_domain` gives out these handles, which begin with their public part.
unsafe impl Handle for cxil_domain {
    type Object = DomainHandle;
}

/// Makes an LNI on a service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_lni(
    dev: *mut cxil_dev,
    lni: *mut *mut cxil_lni,
    svc_id: c_uint,
) -> c_int {
    from_c!(answer_at(lni, || {
        let device = from_c!(handle(dev))?;
        let nic = device.nic.clone();
        let number = nic.with(|engine| {
            let registry = ServiceRegistry::open(&engine.wire)?;
            let service = registry.service(svc_id)?;
            service.admit()?;
            let lni = Lni {
                service: svc_id,
                rgid: registry.next_rgid(service)?,
                most_entries: registry.most(service, CXI_RSRC_TYPE_LE),
                most_pending: registry.triggered_limit(service.triggered_pool).0.into(),
                triggered_pool: service.triggered_pool,
                entry_pool: service.entry_pool,
                ..Lni::default()
            };
            let number = engine.lnis.insert(lni).ok_or(Errno::NOSPC)?;
            publish(engine, number);
            Ok(number)
        })?;
        Ok(hand_out(LniHandle { public: cxil_lni { id: number as u32 }, nic, number }))
    }))
}

/// Destroys an LNI. EBUSY while it has objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_lni(lni: *mut cxil_lni) -> c_int {
    from_c!(end(lni, |lni: &LniHandle| {
        lni.nic.with(|engine| {
            if in_use(engine, lni.number) {
                return Err(Errno::BUSY);
            }
            if let Some(lni) = engine.lnis.get(lni.number) {
                for reserved in &lni.reservations {
                    engine.wire.unclaim(reserved.vnis, reserved.pid);
                }
            }
            engine.remove_lni(lni.number);
            publish(engine, lni.number);
            Ok(())
        })
    }))
}

/// Whether an LNI has any object (libcxi.md 10).
fn in_use(engine: &Engine<Fabric>, lni: usize) -> bool {
    engine
        .lnis
        .get(lni)
        .is_some_and(|lni| lni.wait_objects > 0 || lni.profiles.iter().any(Option::is_some))
        || engine.domains.iter().any(|(_, domain)| domain.lni == lni)
        || engine.mds.iter().any(|(_, md)| md.lni == lni)
        || engine.eqs.iter().any(|(_, eq)| eq.lni == lni)
        || engine.tx.iter().any(|(_, queue)| queue.lni == lni)
        || engine.tgt.iter().any(|(_, queue)| queue.lni == lni)
        || engine.ptes.iter().any(|(_, pte)| pte.lni == lni)
        || engine.counters.count_of(lni) > 0
}

/// Checks that a QoS profile has a traffic class for users (libcxi.md 5, jobs.md 1.7). EPERM for
/// the Ethernet class without CAP_NET_RAW; otherwise EINVAL.
fn check_class(
    qos: QosProfile,
    tc: cxi_traffic_class,
    tc_type: cxi_traffic_class_type,
) -> Result<(), Errno> {
    let is_hpc = qos == QosProfile::Hpc;
    let has_class = match tc {
        CXI_TC_ETH => return require_capability(CapabilitySet::NET_RAW).and(Err(Errno::INVAL)),
        CXI_TC_DEDICATED_ACCESS => is_hpc,
        // In HPC it shares a priority with the NIC's own control traffic.
        CXI_TC_LOW_LATENCY => !is_hpc,
        CXI_TC_BULK_DATA | CXI_TC_BEST_EFFORT => true,
        _ => false,
    };
    let leaves = if is_hpc { CXI_TC_BEST_EFFORT } else { CXI_TC_LOW_LATENCY };
    let has_type = match tc_type {
        CXI_TC_TYPE_DEFAULT => true,
        CXI_TC_TYPE_RESTRICTED | CXI_TC_TYPE_HRP => tc == CXI_TC_BEST_EFFORT,
        CXI_TC_TYPE_COLL_LEAF => tc == leaves,
        _ => false,
    };
    if has_class && has_type { Ok(()) } else { Err(Errno::INVAL) }
}

/// Makes a communication profile with any LCID; otherwise as [`cxil_alloc_trig_cp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_cp(
    lni: *mut cxil_lni,
    vni: c_uint,
    tc: cxi_traffic_class,
    tc_type: cxi_traffic_class_type,
    cp: *mut *mut cxi_cp,
) -> c_int {
    // SAFETY: both functions have one contract, and this call passes its pointers on.
    unsafe { cxil_alloc_trig_cp(lni, vni, tc, tc_type, ANY_LCID, cp) }
}

/// Makes a communication profile, or shares an equal one of the RGID, if its LCID is of the
/// requested kind and one at which the driver looks. ENOSPC if no LCID of that kind is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_trig_cp(
    lni: *mut cxil_lni,
    vni: c_uint,
    tc: cxi_traffic_class,
    tc_type: cxi_traffic_class_type,
    cp_type: cxi_trig_cp,
    cp: *mut *mut cxi_cp,
) -> c_int {
    from_c!(answer_at(cp, || {
        let admitted = match cp_type {
            TRIG_LCID => 0..1,
            NON_TRIG_LCID => 1..PROFILES,
            ANY_LCID => 0..PROFILES,
            _ => return Err(Errno::INVAL),
        };
        let lni = from_c!(handle(lni))?;
        let (lcid, vni) = lni.nic.with(|engine| {
            check_class(engine.wire.driver.qos, tc, tc_type)?;
            let registry = ServiceRegistry::open(&engine.wire)?;
            let own = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?.service;
            let vni = registry.check_class(own, vni, tc)?;
            let exclusive = registry.service(own).is_ok_and(|own| own.exclusive_profiles);
            let searched = match engine.wire.driver.release {
                _ if exclusive => 0..0,
                Release::Shs12 | Release::Shs13 => admitted.clone(),
                _ => admitted.start..1,
            };
            let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
            let profile = Profile { vni, tc, tc_type };
            let profiles = registry.profiles_of(owner.rgid);
            let equal = searched.into_iter().find(|&lcid| profiles[lcid] == Some(profile));
            let lcid = match equal {
                Some(lcid) => lcid,
                None => {
                    let free = admitted.clone().find(|&lcid| profiles[lcid].is_none());
                    let free = free.ok_or(Errno::NOSPC)?;
                    registry.check_profiles()?;
                    free
                }
            };
            owner.hold(lcid, profile);
            publish(engine, lni.number);
            Ok((lcid, vni))
        })?;
        let public = cxi_cp {
            __bindgen_anon_1: cxi_cp__bindgen_ty_1 { vni: vni.into() },
            tc,
            tc_type,
            lcid: lcid as u32,
        };
        Ok(hand_out(CpHandle { public, nic: lni.nic.clone(), lni: lni.number }))
    }))
}

/// Destroys a communication profile. Queues hold no reference to a profile (libcxi.md 5), so this
/// succeeds while a queue uses it; the next command of the queue fails with PERM_VIOLATION.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_cp(cp: *mut cxi_cp) -> c_int {
    from_c!(end(cp, |cp: &CpHandle| {
        cp.nic.with(|engine| {
            let profiles = &mut engine.lnis.get_mut(cp.lni).ok_or(Errno::INVAL)?.profiles;
            let entry = profiles.get_mut(cp.public.lcid as usize).ok_or(Errno::INVAL)?;
            let held = entry.as_mut().ok_or(Errno::INVAL)?;
            held.users -= 1;
            if held.users == 0 {
                *entry = None;
                publish(engine, cp.lni);
            }
            Ok(())
        })
    }))
}

/// The requested PID; `None` for the wildcard, EINVAL beyond the PIDs.
fn requested_pid(pid: c_uint) -> Result<Option<u16>, Errno> {
    match pid {
        C_PID_ANY => Ok(None),
        pid if pid < PID_COUNT => Ok(Some(pid as u16)),
        _ => Err(Errno::INVAL),
    }
}

/// Makes a domain: claims a PID on a VNI, and on all VNIs of its range. A PID that is reserved for
/// the LNI is then reserved no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_domain(
    lni: *mut cxil_lni,
    vni: c_uint,
    pid: c_uint,
    domain: *mut *mut cxil_domain,
) -> c_int {
    from_c!(answer_at(domain, || {
        let lni = from_c!(handle(lni))?;
        let wanted = requested_pid(pid)?;
        let (number, vni, pid) = lni.nic.with(|engine| {
            let registry = ServiceRegistry::open(&engine.wire)?;
            let vni = registry.check_vni_of_domain(vni)?;
            let vnis = registry.vnis_with(vni);
            drop(registry);
            let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
            let reserved = owner
                .reservations
                .iter()
                .position(|reserved| wanted == Some(reserved.pid) && reserved.vnis.contains(vni));
            let Reservation { vnis, pid } = match reserved {
                Some(reserved) => owner.reservations.swap_remove(reserved),
                None => Reservation { vnis, pid: engine.wire.claim(vnis, wanted, 1)? },
            };
            let domain = Domain { lni: lni.number, vnis, pid };
            let number = engine.domains.insert(domain).ok_or(Errno::NOSPC)?;
            Ok((number, vni, pid))
        })?;
        let public = cxil_domain { vni: vni.into(), pid: pid.into() };
        Ok(hand_out(DomainHandle { public, nic: lni.nic.clone(), number }))
    }))
}

/// Destroys a domain. EBUSY while portals table entries are mapped to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_domain(domain: *mut cxil_domain) -> c_int {
    from_c!(end(domain, |domain: &DomainHandle| {
        domain.nic.with(|engine| {
            if engine.maps.iter().any(|(_, map)| map.domain == domain.number) {
                return Err(Errno::BUSY);
            }
            let domain = engine.domains.remove(domain.number).ok_or(Errno::INVAL)?;
            engine.wire.unclaim(domain.vnis, domain.pid);
            Ok(())
        })
    }))
}

/// Changes the VNI of a profile for all queues that use it. EINVAL, also for root, unless the
/// profile belongs to the LNI, profiles with its VNI are exclusive, and the VNIs are of one range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_modify_cp(lni: *mut cxil_lni, cp: *mut cxi_cp, vni: c_uint) -> c_int {
    answer(|| {
        let lni = from_c!(handle(lni))?;
        let cp = from_c!(handle_mut(cp))?;
        if !lni.owns(&cp.nic, cp.lni) {
            return Err(Errno::INVAL);
        }
        let lcid = cp.public.lcid as usize;
        let vni = lni.nic.with(|engine| {
            let registry = ServiceRegistry::open(&engine.wire)?;
            let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
            let entry = owner.profiles.get_mut(lcid).ok_or(Errno::INVAL)?;
            let held = entry.as_mut().ok_or(Errno::INVAL)?;
            let vni = u16::try_from(vni).map_err(|_| Errno::INVAL)?;
            let before = held.profile.vni;
            let is_exclusive = registry.is_exclusive(owner.service, before);
            if !is_exclusive || !registry.vnis_with(before).contains(vni) {
                return Err(Errno::INVAL);
            }
            held.profile.vni = vni;
            publish(engine, lni.number);
            Ok(vni)
        })?;
        cp.public.__bindgen_anon_1.vni = vni.into();
        Ok(())
    })
}

/// Reserves `count` consecutive PIDs for an LNI, from `pid` on or, for `C_PID_ANY`, the lowest free
/// ones, and returns the first. Until the LNI is destroyed it can make one domain on each; others
/// get EEXIST, and `C_PID_ANY` never selects them. EINVAL for a count of 0 or beyond the PIDs;
/// other errors as for [`cxil_alloc_domain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_reserve_domain(
    lni: *mut cxil_lni,
    vni: c_uint,
    pid: c_uint,
    count: c_uint,
) -> c_int {
    answer_number(|| {
        let lni = from_c!(handle(lni))?;
        let wanted = requested_pid(pid)?;
        let end = u64::from(wanted.unwrap_or(0)) + u64::from(count);
        if count == 0 || end > u64::from(PID_COUNT) {
            return Err(Errno::INVAL);
        }
        let count = count as u16;
        lni.nic.with(|engine| {
            let registry = ServiceRegistry::open(&engine.wire)?;
            let own = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?.service;
            let vnis = registry.vnis_with(registry.check_vni_of_service(own, vni)?);
            drop(registry);
            let first = engine.wire.claim(vnis, wanted, count)?;
            let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
            let pids = first..first + count;
            let reserved = pids.map(|pid| Reservation { vnis, pid });
            owner.reservations.extend(reserved);
            Ok(c_int::from(first))
        })
    })
}
