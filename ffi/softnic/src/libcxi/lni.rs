//! LNIs, communication profiles, domains (libcxi.md 4 to 6).

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;

use super::device::{Device, PID_COUNT};
use super::service::books::{self, Books};
use super::{answer, hand_out, handle, place, take_back};
use crate::engine::{Domain, Engine, Lni, PROFILES, Profile, Reservation};
use crate::fabric::Fabric;
use crate::nic::Nic;

/// Handle of an LNI.
#[repr(C)]
pub struct LniHandle {
    public: cxil_lni,
    pub nic: Arc<Nic>,
    pub number: usize,
}

/// Handle of a communication profile.
#[repr(C)]
struct CpHandle {
    public: cxi_cp,
    nic: Arc<Nic>,
    lni: usize,
}

/// Handle of a domain.
#[repr(C)]
pub struct DomainHandle {
    public: cxil_domain,
    pub nic: Arc<Nic>,
    pub number: usize,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_lni(
    dev: *mut cxil_dev,
    lni: *mut *mut cxil_lni,
    svc_id: c_uint,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let device: &Device = unsafe { handle(dev) }?;
        // SAFETY: C contract.
        let place = unsafe { place(lni) }?;
        let nic = device.nic.clone();
        let number = nic.with(|engine| {
            let books = Books::open(&engine.wire)?;
            let service = books.service(svc_id)?;
            service.admit()?;
            books.has_room_for_lni(service)?;
            let lni = Lni {
                service: svc_id,
                most_entries: books.most(service, CXI_RSRC_TYPE_LE),
                most_pending: books.most(service, CXI_RSRC_TYPE_TLE),
                ..Lni::default()
            };
            let number = engine.lnis.insert(lni).ok_or(Errno::NOSPC)?;
            books::publish(engine, number);
            Ok(number)
        })?;
        *place = hand_out(LniHandle {
            public: cxil_lni { id: number as u32 },
            nic,
            number,
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_lni(lni: *mut cxil_lni) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let LniHandle { nic, number, .. } = unsafe { handle(lni) }?;
        nic.with(|engine| {
            if in_use(engine, *number) {
                return Err(Errno::BUSY);
            }
            if let Some(lni) = engine.lnis.get(*number) {
                for kept in &lni.reservations {
                    for pid in kept.first..kept.first + kept.count {
                        engine.wire.unclaim(kept.vni, pid);
                    }
                }
            }
            engine.remove_lni(*number);
            books::publish(engine, *number);
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_lni`; gone by C contract once this succeeds.
        unsafe { take_back::<LniHandle, _>(lni) };
        Ok(())
    })
}

/// Whether any object of an LNI exists (libcxi.md 10).
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

/// Traffic classes that this NIC offers: those of the driver's default QoS profile, LL_BE_BD_ET
/// (libcxi.md 5). EPERM for the Ethernet class without privilege; otherwise EINVAL.
fn check_class(tc: cxi_traffic_class, tc_type: cxi_traffic_class_type) -> Result<(), Errno> {
    match (tc, tc_type) {
        (CXI_TC_ETH, _) if !rustix::process::geteuid().is_root() => Err(Errno::PERM),
        (CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT | CXI_TC_TYPE_RESTRICTED | CXI_TC_TYPE_HRP)
        | (CXI_TC_LOW_LATENCY | CXI_TC_BULK_DATA, CXI_TC_TYPE_DEFAULT | CXI_TC_TYPE_RESTRICTED) => {
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_cp(
    lni: *mut cxil_lni,
    vni: c_uint,
    tc: cxi_traffic_class,
    tc_type: cxi_traffic_class_type,
    cp: *mut *mut cxi_cp,
) -> c_int {
    // SAFETY: C contract, which is the same.
    unsafe { cxil_alloc_trig_cp(lni, vni, tc, tc_type, ANY_LCID, cp) }
}

/// A profile that exists already is shared if its LCID is one of those asked for. ENOSPC if none of
/// those is free, also where it is LCID 0 alone that is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_trig_cp(
    lni: *mut cxil_lni,
    vni: c_uint,
    tc: cxi_traffic_class,
    tc_type: cxi_traffic_class_type,
    cp_type: cxi_trig_cp,
    cp: *mut *mut cxi_cp,
) -> c_int {
    answer(|| {
        let admitted = match cp_type {
            TRIG_LCID => 0..1,
            NON_TRIG_LCID => 1..PROFILES,
            ANY_LCID => 0..PROFILES,
            _ => return Err(Errno::INVAL),
        };
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        // SAFETY: C contract.
        let place = unsafe { place(cp) }?;
        check_class(tc, tc_type)?;
        let (lcid, vni) = lni.nic.with(|engine| {
            let books = Books::open(&engine.wire)?;
            let vni = books.check_class(vni, tc)?;
            let own = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?.service;
            let exclusive = books.service(own).is_ok_and(|own| own.exclusive_profiles);
            let profiles = &mut engine
                .lnis
                .get_mut(lni.number)
                .ok_or(Errno::INVAL)?
                .profiles;
            for lcid in admitted.clone() {
                if let Some(profile) = &mut profiles[lcid]
                    && !exclusive
                    && (profile.vni, profile.tc, profile.tc_type) == (vni, tc, tc_type)
                {
                    profile.users += 1;
                    return Ok((lcid, vni));
                }
            }
            let lcid = admitted
                .clone()
                .find(|&lcid| profiles[lcid].is_none())
                .ok_or(Errno::NOSPC)?;
            books.has_room_for_profile()?;
            profiles[lcid] = Some(Profile {
                vni,
                tc,
                tc_type,
                users: 1,
            });
            books::publish(engine, lni.number);
            Ok((lcid, vni))
        })?;
        let public = cxi_cp {
            __bindgen_anon_1: cxi_cp__bindgen_ty_1 { vni: vni.into() },
            tc,
            tc_type,
            lcid: lcid as u32,
        };
        *place = hand_out(CpHandle {
            public,
            nic: lni.nic.clone(),
            lni: lni.number,
        });
        Ok(())
    })
}

/// Queues take no reference on a profile (libcxi.md 5), so this succeeds under a live queue, whose
/// next command then fails with PERM_VIOLATION.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_cp(cp: *mut cxi_cp) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let CpHandle { public, nic, lni } = unsafe { handle(cp) }?;
        nic.with(|engine| {
            let profiles = &mut engine.lnis.get_mut(*lni).ok_or(Errno::INVAL)?.profiles;
            let entry = profiles.get_mut(public.lcid as usize).ok_or(Errno::INVAL)?;
            let profile = entry.as_mut().ok_or(Errno::INVAL)?;
            profile.users -= 1;
            if profile.users == 0 {
                *entry = None;
                books::publish(engine, *lni);
            }
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_cp`; gone by C contract once this succeeds.
        unsafe { take_back::<CpHandle, _>(cp) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_domain(
    lni: *mut cxil_lni,
    vni: c_uint,
    pid: c_uint,
    domain: *mut *mut cxil_domain,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        // SAFETY: C contract.
        let place = unsafe { place(domain) }?;
        let wanted = match pid {
            C_PID_ANY => None,
            pid if pid < PID_COUNT => Some(pid as u16),
            _ => return Err(Errno::INVAL),
        };
        let (number, vni, pid) = lni.nic.with(|engine| {
            let vni = Books::open(&engine.wire)?.check_vni(vni)?;
            let owner = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?;
            let kept =
                wanted.filter(|&pid| owner.reservations.iter().any(|own| own.holds(vni, pid)));
            let in_use = |pid| {
                let mut domains = engine.domains.iter();
                domains.any(|(_, other)| (other.vni, other.pid) == (vni, pid))
            };
            let pid = match kept {
                Some(pid) if in_use(pid) => return Err(Errno::EXIST),
                Some(pid) => pid,
                None => engine.wire.claim(vni, wanted, 1)?,
            };
            let domain = Domain {
                lni: lni.number,
                vni,
                pid,
            };
            let number = engine.domains.insert(domain).ok_or(Errno::NOSPC)?;
            Ok((number, vni, pid))
        })?;
        let public = cxil_domain {
            vni: vni.into(),
            pid: pid.into(),
        };
        *place = hand_out(DomainHandle {
            public,
            nic: lni.nic.clone(),
            number,
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_domain(domain: *mut cxil_domain) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let DomainHandle { nic, number, .. } = unsafe { handle(domain) }?;
        nic.with(|engine| {
            if engine.maps.iter().any(|(_, map)| map.domain == *number) {
                return Err(Errno::BUSY);
            }
            let domain = engine.domains.remove(*number).ok_or(Errno::INVAL)?;
            let owner = engine.lnis.get(domain.lni);
            let kept = owner.is_some_and(|lni| {
                let mut kept = lni.reservations.iter();
                kept.any(|kept| kept.holds(domain.vni, domain.pid))
            });
            if !kept {
                engine.wire.unclaim(domain.vni, domain.pid);
            }
            Ok(())
        })?;
        // SAFETY: made by `cxil_alloc_domain`; gone by C contract once this succeeds.
        unsafe { take_back::<DomainHandle, _>(domain) };
        Ok(())
    })
}

/// Gives a profile, and all queues that use it, another VNI, with the rules of [`cxil_alloc_cp`] for it. EINVAL for a
/// profile of another LNI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_modify_cp(lni: *mut cxil_lni, cp: *mut cxi_cp, vni: c_uint) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        // SAFETY: C contract: null or a profile, used by this thread alone.
        let cp = unsafe { cp.cast::<CpHandle>().as_mut() }.ok_or(Errno::INVAL)?;
        if cp.lni != lni.number || !Arc::ptr_eq(&cp.nic, &lni.nic) {
            return Err(Errno::INVAL);
        }
        let (tc, lcid) = (cp.public.tc, cp.public.lcid as usize);
        let vni = lni.nic.with(|engine| {
            let books = Books::open(&engine.wire)?;
            let vni = books.check_class(vni, tc)?;
            let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
            let entry = owner.profiles.get_mut(lcid).ok_or(Errno::INVAL)?;
            entry.as_mut().ok_or(Errno::INVAL)?.vni = vni;
            Ok(vni)
        })?;
        cp.public.__bindgen_anon_1.vni = vni.into();
        Ok(())
    })
}

/// Keeps `count` PIDs in a row for an LNI, from `pid` on or, for `C_PID_ANY`, wherever there are as many, and answers the
/// first. Domains on them are the LNI's alone; others get EEXIST, and `C_PID_ANY` never leads there. They are
/// given back with the LNI. EINVAL for a count of 0 or beyond the PIDs; for the rest see [`cxil_alloc_domain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_reserve_domain(
    lni: *mut cxil_lni,
    vni: c_uint,
    pid: c_uint,
    count: c_uint,
) -> c_int {
    let mut first = 0;
    let code = answer(|| {
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        let wanted = match pid {
            C_PID_ANY => None,
            pid if pid < PID_COUNT => Some(pid as u16),
            _ => return Err(Errno::INVAL),
        };
        let end = u64::from(wanted.unwrap_or(0)) + u64::from(count);
        if count == 0 || end > u64::from(PID_COUNT) {
            return Err(Errno::INVAL);
        }
        let count = count as u16;
        first = lni.nic.with(|engine| {
            let vni = Books::open(&engine.wire)?.check_vni(vni)?;
            let first = engine.wire.claim(vni, wanted, count)?;
            let owner = engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?;
            owner.reservations.push(Reservation { vni, first, count });
            Ok(first)
        })?;
        Ok(())
    });
    if code == 0 { c_int::from(first) } else { code }
}
