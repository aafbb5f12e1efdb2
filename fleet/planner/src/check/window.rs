//! Windows, the slow and obvious way: look at every day on which one could have started.

use drydock_spec::{Day, Window};
use jiff::{
    Timestamp, ToSpan,
    civil::{Date, Time, Weekday},
    tz::TimeZone,
};

/// Days looked back. A window longer than a year is as good as always open, and a year of starts covers it.
const DAYS_BACK_MAX: u64 = 366;

/// Whether a window is open, or `None` when its zone or start can't be understood: the caller decides which side is
/// the careful one.
pub(super) fn is_open(window: &Window, now: Timestamp) -> Option<bool> {
    let zone = TimeZone::get(&window.time_zone).ok()?;
    let from = start_of(&window.from)?;
    let today = now.to_zoned(zone.clone()).date();
    // Two more than the length: one for the day it started late in, one for clocks that were put back.
    let days_back = (window.length.as_millis() / 86_400_000).saturating_add(2).min(DAYS_BACK_MAX);
    let mut day = today;
    for _ in 0..=days_back {
        if starts_on(window, day) {
            let start = day.to_datetime(from).to_zoned(zone.clone()).ok()?.timestamp();
            if start <= now && now < window.length.after(start) {
                return Some(true);
            }
        }
        let Ok(before) = day.checked_sub(1.day()) else { break };
        day = before;
    }
    Some(false)
}

fn start_of(text: &str) -> Option<Time> {
    let (hours, minutes) = text.split_once(':')?;
    Time::new(hours.parse().ok()?, minutes.parse().ok()?, 0, 0).ok()
}

fn starts_on(window: &Window, day: Date) -> bool {
    let weekday = match day.weekday() {
        Weekday::Monday => Day::Mon,
        Weekday::Tuesday => Day::Tue,
        Weekday::Wednesday => Day::Wed,
        Weekday::Thursday => Day::Thu,
        Weekday::Friday => Day::Fri,
        Weekday::Saturday => Day::Sat,
        Weekday::Sunday => Day::Sun,
    };
    window.days.is_empty() || window.days.contains(&weekday)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use drydock_spec::Scope;

    fn window(days: &[Day], from: &str, length: &str, zone: &str) -> Window {
        Window {
            name: None,
            days: days.to_vec(),
            from: from.to_owned(),
            length: length.parse().unwrap(),
            time_zone: zone.to_owned(),
            scope: Scope::default(),
        }
    }
    fn open(window: &Window, now: &str) -> Option<bool> {
        is_open(window, now.parse().unwrap())
    }

    #[test]
    fn a_night_belongs_to_the_day_it_began_on() {
        // 2027-01-01 is a Friday.
        let friday_night = window(&[Day::Fri], "22:00", "6h", "UTC");
        assert_eq!(open(&friday_night, "2027-01-02T01:00Z"), Some(true));
        assert_eq!(open(&friday_night, "2027-01-01T01:00Z"), Some(false));
        assert_eq!(open(&friday_night, "2027-01-01T22:00Z"), Some(true));
        assert_eq!(open(&friday_night, "2027-01-02T04:00Z"), Some(false));
    }

    #[test]
    fn clocks_that_change_move_neither_length_nor_start() {
        // Berlin puts its clocks forward on 2026-03-29 at 02:00 local, 01:00 UTC, and back on 2026-10-25 at 03:00.
        let night = window(&[Day::Sat], "22:00", "6h", "Europe/Berlin");
        assert_eq!(open(&night, "2026-03-28T20:59Z"), Some(false));
        assert_eq!(open(&night, "2026-03-28T21:00Z"), Some(true));
        assert_eq!(open(&night, "2026-03-29T02:59Z"), Some(true));
        assert_eq!(open(&night, "2026-03-29T03:00Z"), Some(false));
        assert_eq!(open(&night, "2026-10-24T20:00Z"), Some(true));
        assert_eq!(open(&night, "2026-10-25T01:59Z"), Some(true));
        assert_eq!(open(&night, "2026-10-25T02:00Z"), Some(false));
    }

    #[test]
    fn the_day_is_that_of_the_zone() {
        // 22:00 on Saturday in New York is 03:00 on Sunday in UTC.
        let night = window(&[Day::Sat], "22:00", "6h", "America/New_York");
        assert_eq!(open(&night, "2027-01-03T02:59Z"), Some(false));
        assert_eq!(open(&night, "2027-01-03T03:00Z"), Some(true));
        assert_eq!(open(&night, "2027-01-02T03:00Z"), Some(false));
    }

    #[test]
    fn long_windows_reach_over_days() {
        let week = window(&[Day::Mon], "08:00", "5d", "UTC");
        assert_eq!(open(&week, "2027-01-08T07:00Z"), Some(true));
        assert_eq!(open(&week, "2027-01-09T08:00Z"), Some(false));
        let always = window(&[], "00:00", "24h", "UTC");
        assert_eq!(open(&always, "2027-01-09T23:59:59Z"), Some(true));
    }

    #[test]
    fn what_cannot_be_understood_is_neither_open_nor_closed() {
        assert_eq!(open(&window(&[], "22:00", "6h", "Mars/Olympus"), "2027-01-01T00:00Z"), None);
        for from in ["", "22", "24:00", "ten:00", "10:60"] {
            assert_eq!(open(&window(&[], from, "6h", "UTC"), "2027-01-01T00:00Z"), None, "{from}");
        }
        // The ends of time have no day before or after them.
        for end in [Timestamp::MIN, Timestamp::MAX] {
            assert_ne!(is_open(&window(&[], "12:00", "1h", "UTC"), end), Some(true));
        }
    }
}
