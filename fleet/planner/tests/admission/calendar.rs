//! Openings against a scan of minutes, around changes of clocks.

use std::collections::BTreeSet;

use drydock_planner::opening;
use drydock_spec::{Day, Period, Scope, Window};
use jiff::{
    SignedDuration, Timestamp, ToSpan,
    civil::{Date, DateTime, Time},
    tz::TimeZone,
};
use proptest::prelude::*;

/// Zones with all sorts of clocks: none, an hour, half an hour, odd offsets, both hemispheres.
const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Cairo",
];

/// Days around which some of these change their clocks in 2026.
const DAYS: [&str; 8] = [
    "2026-03-08",
    "2026-03-29",
    "2026-04-05",
    "2026-04-24",
    "2026-09-06",
    "2026-10-04",
    "2026-10-25",
    "2026-11-01",
];

const WEEK: [Day; 7] = [Day::Mon, Day::Tue, Day::Wed, Day::Thu, Day::Fri, Day::Sat, Day::Sun];

/// The starts of a window from `from` to `to`, found by looking at the local clock at every minute. A start that a change
/// of clocks skips is as much later as was skipped; one that comes twice counts at its first time.
fn starts(window: &Window, at: Time, from: Timestamp, to: Timestamp) -> BTreeSet<Timestamp> {
    let zone = TimeZone::get(&window.time_zone).unwrap();
    let minute = SignedDuration::from_mins(1);
    let (mut seen, mut found): (BTreeSet<Date>, _) = (BTreeSet::new(), BTreeSet::new());
    let mut now = from;
    let mut before: Option<DateTime> = None;
    while now <= to {
        let local = zone.to_datetime(now);
        let wanted = local.date().to_datetime(at);
        let skipped = before.is_some_and(|b| b.date() == local.date() && b < wanted && local > wanted)
            || before.is_some_and(|b| b.date() < local.date() && local > wanted);
        if (local == wanted || skipped) && seen.insert(local.date()) {
            let day = WEEK[usize::from(local.date().weekday().to_monday_zero_offset().unsigned_abs())];
            if window.days.is_empty() || window.days.contains(&day) {
                // The clock would have shown `wanted` so long after the minute before.
                let later = before.filter(|_| skipped).map_or(SignedDuration::ZERO, |b| {
                    wanted.duration_since(b.checked_add(1.minute()).unwrap())
                });
                found.insert(now.checked_add(later).unwrap());
            }
        }
        before = Some(local);
        now = now.checked_add(minute).unwrap();
    }
    found
}

fn agrees(window: &Window, at: Time, now: Timestamp) -> Result<(), TestCaseError> {
    let length = SignedDuration::from_millis(i64::try_from(window.length.as_millis()).unwrap());
    let back = length.checked_add(SignedDuration::from_hours(48)).unwrap();
    let ahead = SignedDuration::from_hours(24 * 9);
    let starts = starts(window, at, now.checked_sub(back).unwrap(), now.checked_add(ahead).unwrap());
    let open = starts.iter().any(|s| *s <= now && now < s.checked_add(length).unwrap());
    let Some(found) = opening(window, now) else {
        return Err(TestCaseError::fail(format!("{window:?} never opens")));
    };
    prop_assert!(starts.contains(&found.opens), "{found:?} is no start of {starts:?}");
    prop_assert_eq!(found.closes.duration_since(found.opens), length);
    if open {
        prop_assert!(found.opens <= now && now < found.closes, "{found:?} doesn't hold {now}");
    } else {
        let next = starts.iter().find(|s| **s > now);
        prop_assert_eq!(Some(&found.opens), next, "at {}", now);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn openings_are_what_a_clock_shows(
        zone in prop::sample::select(&ZONES[..]),
        day in prop::sample::select(&DAYS[..]),
        days in prop::collection::vec(prop::sample::select(&WEEK[..]), 0..4),
        (hour, quarter) in (0..24i8, 0..4i8),
        hours in 1..40u64,
        minutes in -3000..3000i64,
    ) {
        let at = Time::new(hour, quarter * 15, 0, 0).unwrap();
        let window = Window {
            name: None,
            days,
            from: format!("{hour:02}:{:02}", quarter * 15),
            length: Period::from_hours(hours),
            time_zone: zone.to_owned(),
            scope: Scope::default(),
        };
        let noon: Timestamp = format!("{day}T12:00:00Z").parse().unwrap();
        agrees(&window, at, noon.checked_add(SignedDuration::from_mins(minutes)).unwrap())?;
    }
}
