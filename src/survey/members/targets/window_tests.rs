use super::*;
use facts::error::Kind;

/// Returns an attempt that began this long ago, whose window begins 10 s later and has 60 s.
fn attempt(age_ms: u64) -> Attempt {
    let begins = Instant::now().checked_sub(Duration::from_millis(age_ms));
    let ready = begins.unwrap() + Duration::from_secs(10);
    let ends = ready + Duration::from_secs(60);
    Attempt::new(Window { ready, ends }, Side::Client)
}

#[test]
fn adds_work_beyond_measurement() {
    let attempt = attempt(0);
    let work = |time_ms| move || thread::sleep(Duration::from_millis(time_ms));
    attempt.beyond(Duration::from_secs(60), work(0));
    assert_eq!(attempt.needed_beyond(), Duration::ZERO);
    attempt.beyond(Duration::ZERO, work(1));
    let first = attempt.needed_beyond();
    attempt.beyond(Duration::from_millis(1), work(2));
    assert!(first >= Duration::from_millis(1));
    assert!(attempt.needed_beyond() >= first + Duration::from_millis(1));
}

#[test]
fn late_side_does_not_begin() {
    let pair = Duration::from_secs(1);
    assert!(attempt(60_000).begin(pair).is_ok());
    let failure = attempt(69_500).begin(pair).unwrap_err();
    assert_eq!(failure.kind, Kind::Environment);
    assert_eq!(failure.error.downcast_ref(), Some(&Untested::Late));
    assert!(attempt(40_000).check().is_ok());
    assert!(attempt(70_001).check().is_err());
}

#[test]
fn operations_begin_before_the_end_of_the_window() {
    let window = attempt(40_000).window;
    let ended = window.ends - Duration::from_secs(31);
    let attempt = Attempt::until(ended, window, Side::Client);
    assert!(attempt.check().is_err() && attempt.left().is_zero());
    assert!(!attempt.is_over());
}

#[test]
fn pause_of_process_explains_only_short_waits() {
    let begun = |waited_s| {
        let attempt = attempt(30_000);
        attempt.looked.set(attempt.window.ready);
        attempt.peer_is_there().unwrap();
        let failure = attempt.no_answer("write", Duration::from_secs(waited_s));
        assert_eq!(failure.message(), "no answer to a write within 1m");
        attempt.stalled()
    };
    assert!(begun(29).is_some());
    assert_eq!(begun(30), None);
    assert_eq!(attempt(20_000).stalled(), None);
}

#[test]
fn late_start_is_needed_time() {
    let ready = Instant::now() + Duration::from_millis(20);
    let ends = ready + Duration::from_secs(60);
    let attempt = Attempt::new(Window { ready, ends }, Side::Client);
    attempt.begin(Duration::ZERO).unwrap();
    assert!(attempt.needed_beyond() > Duration::ZERO);
}

#[test]
fn waits_end_with_the_window() {
    assert!(!attempt(40_000).is_over() && !attempt(40_000).peer_waits());
    assert!(attempt(70_001).is_over() && attempt(70_001).peer_waits());
}
