//! Calls of an administrator, and queries of programs.

use crate::driver::prelude::*;

pub type Dev = *mut cxil_dev;
pub type Lni = *mut cxil_lni;

/// The service of the driver itself.
pub const DRIVER_SVC_ID: u32 = 1000;

pub const KINDS: usize = CXI_RSRC_TYPE_MAX as usize;

/// Opens device 0 for root. Other users get `None`, after a check that they cannot change services.
pub fn administrator() -> Option<Dev> {
    let dev = open(0);
    if is_root() {
        return Some(dev);
    }
    assert_eq!(changes(dev, 2), [Err(libc::EPERM); 8]);
    close(dev);
    None
}

/// The results of all changes, applied to service `id`.
pub fn changes(dev: Dev, id: u32) -> [Result<u32, i32>; 8] {
    let desc = cxi_svc_desc { svc_id: id, ..plain(70) };
    let (fail_info, svc_id) = (null_mut(), id);
    [
        call!(cxil_alloc_svc(dev, &desc, fail_info)),
        call!(cxil_update_svc(dev, &desc, fail_info)),
        call!(cxil_destroy_svc(dev, svc_id)),
        call!(cxil_svc_enable(dev, svc_id, true)),
        call!(cxil_set_svc_lpr(dev, svc_id, 2)),
        call!(cxil_svc_set_exclusive_cp(dev, svc_id, true)),
        call!(cxil_svc_set_vni_range(dev, svc_id, 70, 71)),
        call!(cxil_svc_set_netns(dev, svc_id, 0)),
    ]
    .map(answered)
}

/// A description of zeros.
pub fn blank() -> cxi_svc_desc {
    // SAFETY: integers, booleans and enumerations with a zero, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// A service for everyone with one VNI, limited only by the NIC.
pub fn plain(vni: u16) -> cxi_svc_desc {
    let mut desc = blank();
    desc.set_enable(1);
    desc.set_restricted_vnis(1);
    desc.num_vld_vnis = 1;
    desc.vnis[0] = vni;
    desc
}

/// Like `plain`, for members of this type and number.
pub fn for_member(vni: u16, kind: cxi_svc_member_type, number: u32) -> cxi_svc_desc {
    let mut desc = plain(vni);
    desc.set_restricted_members(1);
    desc.members[1].type_ = kind;
    desc.members[1].svc_member.uid = number;
    desc
}

/// Limits a resource to `max`, of which `res` are reserved. Other resources get the NIC's limits,
/// except that no triggered operations are named.
pub fn limit(desc: &mut cxi_svc_desc, kind: cxi_rsrc_type, max: u16, res: u16) {
    if desc.resource_limits() == 0 {
        desc.set_resource_limits(1);
        let totals = [2047, 1024, 512, 2047, 2047, 16384, 0, 1022];
        desc.limits.__bindgen_anon_1.type_ = totals.map(|max| cxi_limits { max, res: 0 });
    }
    let mut limits = limits(desc);
    limits[kind as usize] = cxi_limits { max, res };
    desc.limits.__bindgen_anon_1.type_ = limits;
}

pub fn limits(desc: &cxi_svc_desc) -> [cxi_limits; KINDS] {
    // SAFETY: integers, all views of which are valid.
    unsafe { desc.limits.__bindgen_anon_1.type_ }
}

/// All fields of a description, for comparison.
pub fn fields_of(desc: &cxi_svc_desc) -> String {
    // SAFETY: both members of this union are the same number.
    let member =
        |member: &cxi_svc_desc__bindgen_ty_1| (member.type_, unsafe { member.svc_member.uid });
    format!(
        "{} {:?} {:?} {:?} {:?} {:?}",
        desc.svc_id,
        [
            desc.enable(),
            desc.is_system_svc(),
            desc.restricted_members(),
            desc.restricted_vnis(),
            desc.restricted_tcs(),
            desc.resource_limits(),
            desc.cntr_pool_id(),
        ],
        &desc.vnis[..usize::from(desc.num_vld_vnis)],
        desc.tcs,
        desc.members.each_ref().map(member),
        limits(desc).map(|limit| (limit.max, limit.res)),
    )
}

pub fn alloc(dev: Dev, desc: &cxi_svc_desc) -> Result<u32, i32> {
    answered(call!(cxil_alloc_svc(dev, desc, null_mut())))
}

pub fn update(dev: Dev, desc: &cxi_svc_desc) -> Result<u32, i32> {
    answered(call!(cxil_update_svc(dev, desc, null_mut())))
}

pub fn destroy(dev: Dev, id: u32) -> Result<u32, i32> {
    answered(call!(cxil_destroy_svc(dev, id)))
}

pub fn enable(dev: Dev, id: u32, enable: bool) -> Result<u32, i32> {
    answered(call!(cxil_svc_enable(dev, id, enable)))
}

pub fn get(dev: Dev, id: u32) -> Result<cxi_svc_desc, i32> {
    let mut desc = blank();
    answered(call!(cxil_get_svc(dev, id, &mut desc))).map(|_| desc)
}

/// What a service uses, by kind.
pub fn used(dev: Dev, id: u32) -> [u16; KINDS] {
    // SAFETY: integers, for which zero is a value.
    let mut found: cxi_rsrc_use = unsafe { std::mem::zeroed() };
    assert_eq!(call!(cxil_get_svc_rsrc_use(dev, id, &mut found)), 0);
    assert_eq!(found.svc_id, id);
    found.in_use
}

/// The numbers of all services.
pub fn ids(dev: Dev) -> Vec<u32> {
    list(dev).iter().map(|desc| desc.svc_id).collect()
}

/// All services but the driver's own.
pub fn list(dev: Dev) -> Vec<cxi_svc_desc> {
    let mut list = null_mut();
    assert_eq!(call!(cxil_get_svc_list(dev, &mut list)), 0);
    // SAFETY: the list is alive until it is freed.
    let count = unsafe { (*list).count } as usize;
    // SAFETY: the list is alive until it is freed.
    let first: *const cxi_svc_desc = unsafe { &raw const (*list).descs }.cast();
    // SAFETY: the list has `count` entries and is not freed yet.
    let found = unsafe { std::slice::from_raw_parts(first, count) }.to_vec();
    call!(cxil_free_svc_list(list));
    found.into_iter().filter(|desc| desc.is_system_svc() == 0).collect()
}

/// The uses of all services but the driver's own.
pub fn uses(dev: Dev) -> Vec<(u32, [u16; KINDS])> {
    let mut list = null_mut();
    assert_eq!(call!(cxil_get_svc_rsrc_list(dev, &mut list)), 0);
    // SAFETY: the list is alive until it is freed.
    let count = unsafe { (*list).count } as usize;
    // SAFETY: the list is alive until it is freed.
    let first: *const cxi_rsrc_use = unsafe { &raw const (*list).rsrcs }.cast();
    // SAFETY: the list has `count` entries and is not freed yet.
    let found = unsafe { std::slice::from_raw_parts(first, count) }.to_vec();
    call!(cxil_free_svc_rsrc_list(list));
    found
        .iter()
        .filter(|each| each.svc_id != DRIVER_SVC_ID)
        .map(|each| (each.svc_id, each.in_use))
        .collect()
}

/// An LNI of a service.
pub fn lni(dev: Dev, id: u32) -> Result<Lni, i32> {
    let mut lni = null_mut();
    answered(call!(cxil_alloc_lni(dev, &mut lni, id))).map(|_| lni)
}

pub fn drop_lni(lni: Lni) {
    assert_eq!(call!(cxil_destroy_lni(lni)), 0);
}
