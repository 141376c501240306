use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::thread;
use std::time::Instant;

use super::*;
use crate::star::JOIN_LIMIT;

fn task(job: &str, step: &str) -> LauncherTask {
    LauncherTask {
        local_rank: Some(0),
        node_index: Some(0),
        job: Some(job.into()),
        step: Some(step.into()),
        hosts: vec!["localhost".into()],
        ..LauncherTask::numbered("Slurm", "SLURM_PROCID", 0, 2)
    }
}

fn in_directory(directory: &tempfile::TempDir) -> (MeetingPoint, PathBuf) {
    let path = directory.path().join("meeting");
    (MeetingPoint::File(path.clone()), path)
}

#[test]
fn finds_what_the_coordinator_publishes_later() {
    let directory = tempfile::tempdir().unwrap();
    let (point, path) = in_directory(&directory);
    let task = task("17", "0");
    thread::scope(|scope| {
        let found = scope.spawn(|| point.find(&task, Instant::now() + JOIN_LIMIT));
        let published = point.publish(&task, 4711).unwrap();
        let found = found.join().unwrap().unwrap();
        assert_eq!(found.token, published.token);
        assert!(!found.addresses.is_empty());
        assert!(found.addresses.iter().all(|address| address.port() == 4711));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    });
    assert!(!path.exists());
}

#[test]
fn replaces_file_of_killed_coordinator_only() {
    let directory = tempfile::tempdir().unwrap();
    let (point, path) = in_directory(&directory);
    let task = task("17", "0");
    let published = point.publish(&task, 1).unwrap();
    let refused = point.publish(&task, 2).unwrap_err();
    assert!(refused.message().contains("is in use by another survey"));
    let left = fs::read(&path).unwrap();
    drop(published);
    fs::write(&path, left).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let _published = point.publish(&task, 3).unwrap();
    let found = point.find(&task, Instant::now()).unwrap();
    assert_eq!(found.addresses[0].port(), 3);
}

#[test]
fn keeps_file_of_later_coordinator() {
    let directory = tempfile::tempdir().unwrap();
    let (point, path) = in_directory(&directory);
    let published = point.publish(&task("17", "0"), 1).unwrap();
    fs::remove_file(&path).unwrap();
    let _later = point.publish(&task("17", "1"), 2).unwrap();
    drop(published);
    assert!(path.exists());
}

#[test]
fn refuses_file_of_another_step() {
    let directory = tempfile::tempdir().unwrap();
    let (point, _) = in_directory(&directory);
    let _published = point.publish(&task("17", "0"), 1).unwrap();
    let refused = point.find(&task("17", "1"), Instant::now()).unwrap_err();
    let message = refused.message();
    assert!(message.contains("has not written"), "{message}");
    assert!(message.ends_with("; the file is that of job 17, step 0"), "{message}");
}

#[test]
fn refuses_files_that_others_may_have_written() {
    let directory = tempfile::tempdir().unwrap();
    let (point, path) = in_directory(&directory);
    let task = task("17", "0");
    let refused = || {
        let found = point.find(&task, Instant::now()).unwrap_err().message();
        let published = point.publish(&task, 1).unwrap_err().message();
        assert_eq!(found, published);
        found
    };
    fs::write(&path, "{}").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    assert!(refused().contains("its mode must be 600"));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert!(refused().contains("the file is not that of a survey"));
    fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert!(refused().contains("cannot open"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refused().contains("expected the name of a regular file"));
}

#[test]
fn names_file_by_job_and_step() {
    for (job, step, name) in [
        ("17", "0", ".cxidiag-survey.17.0"),
        ("17[3].head", "a/b", ".cxidiag-survey.17_3_.head.a_b"),
    ] {
        let point = MeetingPoint::of(&task(job, step), None, None).unwrap();
        assert_eq!(point, MeetingPoint::File(name.into()));
    }
    let alone = LauncherTask { job: None, step: None, ..task("", "") };
    let point = MeetingPoint::of(&alone, None, None).unwrap();
    assert_eq!(point, MeetingPoint::File(".cxidiag-survey".into()));
}

#[test]
fn meets_at_first_host_without_a_file_if_a_token_is_set() {
    let token = Token::new("secret".as_ref());
    let point_for = |task: &LauncherTask| MeetingPoint::of(task, None, token.as_ref()).unwrap();
    let first = task("17", "0");
    let point = point_for(&first);
    let port = point.port().unwrap();
    assert!((20_000..30_000).contains(&port));
    assert_ne!(point_for(&task("17", "1")).port(), Some(port));
    let found = point.find(&first, Instant::now()).unwrap();
    assert!(found.addresses.iter().all(|address| address.ip().is_loopback()));
    assert_eq!(point.publish(&first, port).unwrap().token, token.clone().unwrap());
    let named = MeetingPoint::of(&first, Some(Path::new("/x")), token.as_ref()).unwrap();
    assert_eq!(named, MeetingPoint::File("/x".into()));
    let without_list = LauncherTask { hosts: Vec::new(), ..first };
    let refused = MeetingPoint::of(&without_list, None, token.as_ref()).unwrap_err();
    assert!(refused.message().contains("Slurm has no list of hosts"));
}

#[test]
fn coordinator_is_rank_0_or_first_task_of_first_host() {
    let file = MeetingPoint::File("x".into());
    let agreed = MeetingPoint::Agreed { host: "a".into(), port: 20_000, token: Token::random() };
    let at = |rank, node_index, local_rank| LauncherTask {
        rank,
        node_index,
        local_rank,
        ..task("17", "0")
    };
    for (task, by_file, by_agreement) in [
        (at(0, Some(0), Some(0)), true, true),
        (at(0, Some(1), Some(0)), true, false),
        (at(4, Some(0), Some(0)), false, true),
        (at(1, Some(0), Some(1)), false, false),
        (at(0, None, Some(1)), true, true),
        (at(1, None, None), false, false),
    ] {
        let found = [&file, &agreed].map(|point| point.is_coordinator(&task));
        assert_eq!(found, [by_file, by_agreement], "{task:?}");
    }
}
