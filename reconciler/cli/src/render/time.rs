//! Instants and lengths of time for people. Every absolute time carries its zone.

use drydock_spec::Period;
use jiff::{Timestamp, tz::TimeZone};

/// How instants are shown: against which present, in which zone.
#[derive(Debug, Clone)]
pub(crate) struct When {
    /// The present, on the fleet's clock.
    pub(crate) now: Timestamp,
    zone: TimeZone,
    name: String,
}

/// Beyond so many hours a weekday alone would be ambiguous.
const WEEKDAY_HOURS: i64 = 6 * 24;

impl When {
    /// In a zone by its IANA name; UTC where there is none or it is unknown.
    pub(crate) fn new(now: Timestamp, zone: Option<&str>) -> Self {
        let known = zone.and_then(|name| TimeZone::get(name).ok().map(|zone| (zone, name.to_owned())));
        let (zone, name) = known.unwrap_or_else(|| (TimeZone::UTC, "UTC".to_owned()));
        Self { now, zone, name }
    }

    /// `Sat 06:00 America/New_York`, with the date when that is more than some days away.
    pub(crate) fn at(&self, at: Timestamp) -> String {
        let far = at.duration_since(self.now).as_hours().abs() > WEEKDAY_HOURS;
        let format = if far { "%Y-%m-%d %H:%M" } else { "%a %H:%M" };
        format!("{} {}", at.to_zoned(self.zone.clone()).strftime(format), self.name)
    }
    /// `14m ago`, `in 2d 4h`, `now`.
    pub(crate) fn relative(&self, at: Timestamp) -> String {
        let seconds = at.duration_since(self.now).as_secs();
        match seconds {
            0 => "now".to_owned(),
            s if s < 0 => format!("{} ago", short(Period::between(at, self.now))),
            _ => format!("in {}", short(Period::between(self.now, at))),
        }
    }
    /// `Sat 06:00 America/New_York (in 2d 4h)`.
    pub(crate) fn full(&self, at: Timestamp) -> String {
        format!("{} ({})", self.at(at), self.relative(at))
    }
    /// `12m`, the time since.
    pub(crate) fn since(&self, at: Timestamp) -> String {
        short(Period::between(at, self.now))
    }
}

/// A length of time by its two largest units: `2d 4h`, `9m 12s`.
pub(crate) fn short(period: Period) -> String {
    let mut rest = period.as_millis() / 1000;
    let mut parts = Vec::new();
    for (unit, seconds) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
        let count = rest / seconds;
        rest %= seconds;
        if count > 0 {
            parts.push(format!("{count}{unit}"));
        } else if !parts.is_empty() {
            break;
        }
        if parts.len() == 2 {
            break;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lengths_have_two_units_at_most() {
        for (text, shown) in [
            ("0s", "0s"),
            ("12s", "12s"),
            ("9m12s", "9m 12s"),
            ("30m", "30m"),
            ("52h5m", "2d 4h"),
            ("1d10s", "1d"),
            ("400ms", "0s"),
        ] {
            assert_eq!(short(text.parse().unwrap()), shown, "{text}");
        }
    }

    #[test]
    fn instants_carry_their_zone() {
        let now: Timestamp = "2026-03-02T17:00:00Z".parse().unwrap();
        let when = When::new(now, Some("America/New_York"));
        assert_eq!(
            when.full("2026-03-04T21:00:00Z".parse().unwrap()),
            "Wed 16:00 America/New_York (in 2d 4h)"
        );
        assert_eq!(When::new(now, None).full(now), "Mon 17:00 UTC (now)");
        assert_eq!(when.at("2026-12-21T00:00:00Z".parse().unwrap()), "2026-12-20 19:00 America/New_York");
        assert_eq!(when.relative("2026-03-02T16:46:00Z".parse().unwrap()), "14m ago");
        assert_eq!(When::new(now, Some("Nowhere/At_All")).at(now), "Mon 17:00 UTC");
    }
}
