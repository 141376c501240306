//! What a process asks for, by options and variables of the job, and what a service grants.

use cxi::ServiceMember;

use super::*;
use crate::backend;

/// The variables of a step, with those that are empty left out.
fn request(
    options: ServiceOptions,
    device: &str,
    [devices, svc_ids, vnis, classes]: [&str; 4],
) -> Result<ServiceRequest, String> {
    let values = [
        ("SLINGSHOT_DEVICES", devices),
        ("SLINGSHOT_SVC_IDS", svc_ids),
        ("SLINGSHOT_VNIS", vnis),
        ("SLINGSHOT_TCS", classes),
    ];
    ServiceRequest::new(options, device.parse().unwrap(), |name| {
        let (_, value) = values.iter().find(|(known, _)| *known == name)?;
        Some((*value).to_owned())
    })
}

const NONE: ServiceOptions = ServiceOptions { svc_id: None, vni: None, class: None };

const TWO_NICS: [&str; 4] = ["cxi0,cxi1", "5,6", "1358,1214", "0xa"];

fn from<T>(source: AccessSource, value: T) -> Option<Chosen<T>> {
    Some(Chosen::new(value, source))
}

/// jobs.md 1.8
#[test]
fn takes_service_vni_and_class_of_job() {
    let found = request(NONE, "cxi1", TWO_NICS).unwrap();
    assert_eq!(found.svc_id, from(AccessSource::Slingshot, 6));
    assert_eq!(found.vni, from(AccessSource::Slingshot, 1358));
    let class = TrafficClass::BestEffort;
    assert_eq!(found.class, from(AccessSource::Slingshot, class));
    let found = request(NONE, "cxi0", ["cxi0", "5", "1358", "0x2"]).unwrap();
    let class = TrafficClass::LowLatency;
    assert_eq!(found.class, from(AccessSource::Slingshot, class));
    let found = request(NONE, "soft0", ["soft0", "2", "16", ""]).unwrap();
    assert_eq!((found.svc_id(), found.class), (2, None));
}

/// jobs.md 1.8
#[test]
fn gives_reason_for_not_using_service_of_job() {
    let unused = |device, values| {
        let found = request(NONE, device, values).unwrap();
        assert_eq!((found.svc_id, found.vni), (None, None));
        found.unused
    };
    for values in [["cxi0,cxi1", "5,-1", "1358", "0x0a"], ["cxi0", "5", "1358", ""]] {
        assert_eq!(
            unused("cxi1", values).as_deref(),
            Some("no service on cxi1 in this job (SLINGSHOT_*)")
        );
    }
    assert_eq!(
        unused("cxi0", ["cxi0", "5", "", "0xa"]).as_deref(),
        Some("SLINGSHOT_VNIS is missing or empty")
    );
    assert_eq!(unused("cxi0", [""; 4]), None);
    // Launchers list hardware only.
    assert_eq!(unused("soft0", TWO_NICS), None);
}

#[test]
fn options_win_over_variables() {
    let options = ServiceOptions { svc_id: Some(9), vni: None, class: None };
    let found = request(options, "cxi0", ["cxi0", "5", "70000", ""]).unwrap();
    assert_eq!((found.svc_id, found.vni), (from(AccessSource::Option, 9), None));
    let options = ServiceOptions {
        svc_id: None,
        vni: Some(VniOption::Number(1400)),
        class: Some(TrafficClass::LowLatency),
    };
    let found = request(options, "cxi1", TWO_NICS).unwrap();
    assert_eq!(found.svc_id, from(AccessSource::Slingshot, 6));
    assert_eq!(found.vni, from(AccessSource::Option, 1400));
    let class = TrafficClass::LowLatency;
    assert_eq!(found.class, from(AccessSource::Option, class));
}

/// Scripts shorten the other lists.
#[test]
fn judges_only_variables_whose_values_are_used() {
    let odd = ["cxi0", "5", "70000", "x"];
    assert!(request(NONE, "cxi0", odd).is_err());
    assert!(request(NONE, "soft0", odd).unwrap().unused.is_none());
    let options = ServiceOptions {
        svc_id: None,
        vni: Some(VniOption::Number(1400)),
        class: Some(TrafficClass::LowLatency),
    };
    let found = request(options, "cxi0", odd).unwrap();
    assert_eq!(found.svc_id, from(AccessSource::Slingshot, 5));
    let longer = ["cxi0", "5", "1358", "0xa,0x8"];
    assert_eq!(request(options, "cxi0", longer).unwrap().unused, None);
    let unused = request(NONE, "cxi0", longer).unwrap().unused;
    assert!(unused.unwrap().ends_with("its traffic classes are not used"));
}

#[test]
fn takes_second_vni_as_that_of_job() {
    let options = ServiceOptions { vni: Some(VniOption::OfJob), ..NONE };
    let found = request(options, "cxi0", TWO_NICS).unwrap();
    assert_eq!(found.vni, from(AccessSource::Option, 1214));
    for values in [["cxi0", "5", "1358", ""], [""; 4], ["cxi0", "5", "", ""]] {
        let message = request(options, "cxi0", values).unwrap_err();
        assert!(message.starts_with("--vni=job: "), "{message}");
    }
    assert_eq!("job".parse(), Ok(VniOption::OfJob));
    assert_eq!("65535".parse(), Ok(VniOption::Number(65535)));
    for wrong in ["0", "65536", "JOB", ""] {
        let message = wrong.parse::<VniOption>().unwrap_err();
        assert!(message.contains("1 to 65535, or job"), "{message}");
    }
}

/// jobs.md 1.4
#[test]
fn ranks_services_as_libfabric() {
    let device = backend::open("soft90".parse().unwrap(), None).unwrap();
    let rights = |user| Rights { user, group: 0, network_namespace: None };
    let best = |request: &ServiceRequest, user| {
        let service = request.best(&device, &rights(user));
        service.map(|service| service.id)
    };
    let any = ServiceRequest::default();
    // Service 3 is disabled, service 4 is for one user, the others are for anyone.
    assert_eq!(best(&any, 1), Some(2));
    let services = device.services().unwrap().unwrap();
    let ServiceMember::User(user) = services[3].members[0] else {
        panic!("{:?}", services[3].members);
    };
    assert_eq!(best(&any, user), Some(4));
    assert_eq!(rights(user).rank(&services[3]), Some(2));
    assert_eq!(rights(1).rank(&services[3]), None);
    let with_vni =
        |vni| ServiceRequest { vni: from(AccessSource::Option, vni), ..ServiceRequest::default() };
    assert_eq!(best(&with_vni(10), user), Some(1));
    assert_eq!(best(&with_vni(31), user), Some(2));
    assert_eq!(best(&with_vni(32), user), None);
    device.close().unwrap();
}
