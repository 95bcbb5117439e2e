//! Times on the command line: `30m`, `12h`, `90d`, or a time as it stands in logs.
//!
//! Applies to: both.

use std::time::{Duration, SystemTime};

use mgp_types::Timestamp;

/// Longer than a hundred years is a typing error.
const LONGEST: u64 = 100 * 366 * 24 * 60 * 60;

/// A span: a number and `s`, `m`, `h`, `d` or `w`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no span; write 30s, 15m, 12h, 90d or 2w");
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(wrong()),
    };
    let span = number.checked_mul(seconds).filter(|span| *span <= LONGEST);
    span.map(Duration::from_secs).ok_or_else(|| format!("`{text}` is longer than a hundred years"))
}

/// A time to come: a span from now, or the time itself.
pub(crate) fn end(text: &str) -> Result<SystemTime, String> {
    let time = time(text, |span| SystemTime::now().checked_add(span))?;
    if time <= SystemTime::now() { Err(format!("`{text}` is over")) } else { Ok(time) }
}

/// A time that was: a span before now, or the time itself.
pub(crate) fn begin(text: &str) -> Result<SystemTime, String> {
    time(text, |span| SystemTime::now().checked_sub(span))
}

fn time(text: &str, from: impl Fn(Duration) -> Option<SystemTime>) -> Result<SystemTime, String> {
    let read = |text: &str| Timestamp::from(text).to_system_time();
    // A date alone is its beginning.
    let exact = read(text).or_else(|| read(&format!("{text}T00:00:00Z")));
    match exact {
        Some(time) => Ok(time),
        None => span(text).ok().and_then(from).ok_or_else(|| {
            format!("`{text}` is no time; write a span as 90d, or a time as 2027-01-31T00:00:00Z")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_times_are_read_and_others_are_told_how() {
        for (text, seconds) in [("30s", 30), ("15m", 900), ("12h", 43_200), ("2w", 1_209_600)] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "5", "5y", "-1d", "1.5h", "99999999999999999999d", "40000000d"] {
            assert!(span(text).is_err(), "{text}");
        }
        assert!(end("1h").unwrap() > SystemTime::now());
        assert!(end("2001-01-01").unwrap_err().ends_with("is over"));
        assert!(end("2999-01-31T00:00:00Z").is_ok() && begin("2001-01-01").is_ok());
        assert!(begin("yesterday").unwrap_err().contains("90d"));
    }
}
