//! What an unquoted scalar means. Two generations of YAML read some of them differently, and a fleet repository is
//! read by tools of both, so whatever either takes for something other than text has to be quoted.

/// What an unquoted scalar is read as.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Plain {
    /// Text for everybody.
    Text,
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number that isn't negative.
    Unsigned(u64),
    /// A negative whole number.
    Signed(i64),
    /// Any other number.
    Float(f64),
    /// Text to YAML 1.2, something else to YAML 1.1.
    Old(Old),
}

/// What YAML 1.1 makes of something that YAML 1.2 takes for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Old {
    /// `yes`, `no`, `on`, `off`, `y`, `n`.
    Truth(bool),
    /// `22:00`: a number to base 60.
    Sixty(u64),
    /// `1_000` or `0b101`: a number written another way.
    Number,
}

/// Reads an unquoted scalar by the core schema of YAML 1.2, then by what 1.1 had more.
pub(crate) fn plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "true" | "True" | "TRUE" => return Plain::Bool(true),
        "false" | "False" | "FALSE" => return Plain::Bool(false),
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => return Plain::Old(Old::Truth(true)),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => return Plain::Old(Old::Truth(false)),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let negative = text.starts_with('-');
    // Most texts start with a letter: nothing below can match them.
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Plain::Text;
    }
    if let Some(number) = whole(unsigned) {
        return match (negative, number) {
            (false, Some(n)) => Plain::Unsigned(n),
            (true, Some(n)) => i64::try_from(n).map_or(Plain::Float(-(n as f64)), |n| Plain::Signed(-n)),
            // Too long for 64 bits: every parser makes a float of it.
            (_, None) => Plain::Float(text.parse().unwrap_or(f64::INFINITY)),
        };
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Plain::Float(if negative { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Plain::Float(f64::NAN);
    }
    if is_float(unsigned) {
        return text.parse().map_or(Plain::Text, Plain::Float);
    }
    if let Some(n) = sixty(unsigned) {
        return Plain::Old(Old::Sixty(n));
    }
    let binary =
        unsigned.strip_prefix("0b").is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b"01_".contains(&b)));
    let grouped = unsigned.contains('_') && unsigned.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if binary || grouped { Plain::Old(Old::Number) } else { Plain::Text }
}

/// A whole number in decimal, octal (`0o`) or hexadecimal; the inner `None` when it doesn't fit.
fn whole(text: &str) -> Option<Option<u64>> {
    let digits = |text: &str, radix: u32| {
        let all = !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
        all.then(|| u64::from_str_radix(text, radix).ok())
    };
    match text.get(..2) {
        Some("0x") => digits(&text[2..], 16),
        Some("0o") => digits(&text[2..], 8),
        _ => digits(text, 10),
    }
}

fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, Some(e.strip_prefix(['-', '+']).unwrap_or(e))),
        None => (text, None),
    };
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

/// `22:00`, `1:02:03`: digits in groups, all but the first below 60.
fn sixty(text: &str) -> Option<u64> {
    let (first, rest) = text.split_once(':')?;
    let group = |t: &str| (!t.is_empty() && t.bytes().all(|b| b.is_ascii_digit())).then(|| t.parse().ok())?;
    let mut total: u64 = group(first)?;
    for part in rest.split(':') {
        let n = group(part).filter(|&n| n < 60 && part.len() <= 2)?;
        total = total.checked_mul(60)?.checked_add(n)?;
    }
    Some(total)
}

/// How a person would say what was read: `the number 580.1`.
pub(crate) fn describe(text: &str, plain: Plain) -> String {
    match plain {
        Plain::Text => "text".to_owned(),
        Plain::Null => "nothing (null)".to_owned(),
        Plain::Bool(b) => format!("the truth value {b}"),
        Plain::Unsigned(n) if is_old_octal(text) => {
            let octal = u64::from_str_radix(text, 8).unwrap_or(n);
            format!("the number {n} or, by YAML 1.1 tools, {octal}")
        }
        Plain::Unsigned(n) => format!("the number {n}"),
        Plain::Signed(n) => format!("the number {n}"),
        Plain::Float(n) => format!("the number {n}"),
        Plain::Old(Old::Truth(b)) => format!("the truth value {b} by YAML 1.1 tools"),
        Plain::Old(Old::Sixty(n)) => format!("the number {n} (base 60) by YAML 1.1 tools"),
        Plain::Old(Old::Number) => "a number by YAML 1.1 tools".to_owned(),
    }
}

/// A number with a leading zero, which YAML 1.1 reads to base 8.
pub(crate) fn is_old_octal(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| (b'0'..=b'7').contains(&b))
}

/// The text as a quoted scalar.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write_by_accident() {
        let table = [
            ("580.10", Plain::Float(580.1)),
            ("1.30", Plain::Float(1.3)),
            ("1234567e8", Plain::Float(1_234_567e8)),
            ("0x20B210DE", Plain::Unsigned(548_540_638)),
            ("0755", Plain::Unsigned(755)),
            ("-3", Plain::Signed(-3)),
            ("595", Plain::Unsigned(595)),
            ("~", Plain::Null),
            ("", Plain::Null),
            ("NO", Plain::Old(Old::Truth(false))),
            ("on", Plain::Old(Old::Truth(true))),
            ("22:00", Plain::Old(Old::Sixty(1320))),
            ("1_000", Plain::Old(Old::Number)),
            ("580.95.05", Plain::Text),
            ("1.35.", Plain::Text),
            ("v26.3", Plain::Text),
            ("30m", Plain::Text),
            ("5%", Plain::Text),
            ("24:60", Plain::Text),
            ("2026-12-20T00:00:00Z", Plain::Text),
            ("nothing", Plain::Text),
            (".", Plain::Text),
            ("1e", Plain::Text),
            ("99999999999999999999", Plain::Float(1e20)),
        ];
        for (text, expected) in table {
            assert_eq!(plain(text), expected, "{text}");
        }
    }
}
