use super::*;
use crate::targets::by_tool::{portal, test};
use crate::targets::test::TestPlan;
use campaign::timetable::SlotTimes;
use diag::bench::testing::{Alone, endpoint};
use plan::testing::plan;

const ACKNOWLEDGED: (EventType, ReturnCode) = (EventType::ACK, ReturnCode::OK);
const REFUSED: (EventType, ReturnCode) = (EventType::ACK, ReturnCode(9));

/// Returns a slot whose parts are this many milliseconds long, from now on.
fn times(length_ms: u64) -> LoadTimes {
    LoadTimes::new(Instant::now(), SlotTimes::from_slot(length_ms * 1_000_000))
}

fn course(peers: usize) -> Course {
    Course::new(peers, Tally::new(times(250)))
}

#[test]
fn deals_operations_in_turn_to_peers_without_failures() {
    let mut course = course(3);
    let dealt = |course: &mut Course, count: usize| -> Vec<Option<usize>> {
        (0..count).map(|_| course.next_peer()).collect()
    };
    assert_eq!(dealt(&mut course, 4), [0, 1, 2, 0].map(Some));
    course.answered(2, REFUSED, 1, Instant::now());
    assert_eq!(dealt(&mut course, 3), [1, 0, 1].map(Some));
    course.answered(0, ACKNOWLEDGED, 1, Instant::now());
    assert!(course.has_peers());
    course.answered(0, REFUSED, 1, Instant::now());
    course.answered(1, REFUSED, 1, Instant::now());
    assert!(!course.has_peers() && course.next_peer().is_none());
    let sent = course.sent(Duration::ZERO);
    assert!(sent.unreached == [0, 1, 2] && sent.has_sent);
    let why = sent.failure.unwrap().message();
    assert!(why.starts_with("putting under load failed"), "{why}");
}

#[test]
fn counts_bytes_by_part_of_the_counted_time() {
    let times = times(250);
    let mut tally = Tally::new(times);
    let part = times.counted_time() / PARTS as u32;
    tally.add(1, times.count - Duration::from_nanos(1));
    tally.add(10, times.count);
    tally.add(20, times.count + part - Duration::from_nanos(1));
    tally.add(40, times.count + part);
    tally.add(80, times.counted - Duration::from_nanos(1));
    tally.add(160, times.counted);
    let mut expected = [0; PARTS];
    [expected[0], expected[1], expected[PARTS - 1]] = [30, 40, 80];
    assert_eq!(tally.bytes, expected);
}

#[test]
fn naps_for_a_part_of_the_time_of_a_window() {
    let second = Duration::from_secs(1);
    // A window of 16 in 3.2 ms.
    assert_eq!(nap(second, 5000, 16), Duration::from_micros(200));
    assert_eq!(nap(second, 500_000, 16), SHORTEST_SLEEP);
    assert_eq!(nap(second, 0, 16), LONGEST_SLEEP);
}

#[test]
fn window_holds_at_least_one_operation() {
    let load = |size, window_bytes| AggressorLoad {
        peers: &[],
        portal: 0,
        size,
        buffer: Buffer::small(1),
        window_bytes,
        shares_cpus: true,
    };
    for (size, window, operations) in
        [(4096, 16_384, 4), (4096, 16_383, 3), (65_536, 100, 1), (1, u64::MAX, MOST_OPERATIONS)]
    {
        assert_eq!(load(size, window).operations(), operations);
        assert_eq!(load(size, window).window(), operations * size);
    }
}

#[test]
fn loop_allocates_nothing_and_leaves_nothing_under_way() {
    let options = plan("write-bw", &["-s", "4096", "-l", "1"]);
    let endpoint = endpoint(&options);
    let sink = TestPlan::new(options.tool, options.run).unwrap();
    let mut sink = test(0, sink, Duration::from_millis(1));
    sink.open_target(&endpoint).unwrap();
    let load = AggressorLoad {
        peers: &[endpoint.address().address],
        portal: portal(0),
        size: 4096,
        buffer: Buffer::full(&options.run),
        window_bytes: 16_384,
        shares_cpus: true,
    };
    let mut aggressor = Aggressor::set_up(&endpoint, &load, times(20), &Alone).unwrap();
    // The software NIC allocates its path to the peer with the first packet.
    aggressor.run(times(20)).unwrap();
    let mut sent = None;
    let info = allocation_counter::measure(|| sent = Some(aggressor.run(times(20))));
    assert_eq!(info.count_total, 0);
    assert!(sent.unwrap().unwrap().has_sent);
    assert!(aggressor.close());
    let mut unanswered = Aggressor::set_up(&endpoint, &load, times(20), &Alone).unwrap();
    unanswered.course.under_way = 1;
    assert!(!unanswered.close());
    sink.close_target().unwrap();
    endpoint.close().unwrap();
}
