//! Parses times on the command line: `30m`, `12h`, `90d`, or a timestamp as the logs show it; prints the time left.

use std::time::{Duration, SystemTime};

use mgp_types::Timestamp;

/// Parses a duration: a number with `ms`, `s`, `m`, `h`, `d` or `w`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    mgp_discovery::parse_duration(text)
        .ok_or_else(|| format!("`{text}` is not a duration; use e.g. 30s, 15m, 12h, 90d or 2w"))
}

/// Parses a future time: a duration from now, or a timestamp.
pub(crate) fn future(text: &str) -> Result<SystemTime, String> {
    let time = time(text, |duration| SystemTime::now().checked_add(duration))?;
    if time <= SystemTime::now() { Err(format!("`{text}` is in the past")) } else { Ok(time) }
}

/// Parses a past time: a duration before now, or a timestamp.
pub(crate) fn past(text: &str) -> Result<SystemTime, String> {
    time(text, |duration| SystemTime::now().checked_sub(duration))
}

fn time(text: &str, from: impl Fn(Duration) -> Option<SystemTime>) -> Result<SystemTime, String> {
    let parse = |text: &str| Timestamp::from(text).to_system_time();
    // Read a date without a time as midnight UTC.
    let exact = parse(text).or_else(|| parse(&format!("{text}T00:00:00Z")));
    match exact {
        Some(time) => Ok(time),
        None => duration(text).ok().and_then(from).ok_or_else(|| {
            format!("`{text}` is not a time; use a duration, e.g. 90d, or a timestamp, e.g. 2027-01-31T00:00:00Z")
        }),
    }
}

/// Returns the time left until a timestamp, rounded to one unit, e.g. `in 23 h`; `None` if the timestamp has passed.
pub(crate) fn left_until(end: &Timestamp) -> Option<String> {
    let left = end.to_system_time()?.duration_since(SystemTime::now()).ok()?.as_secs();
    Some(match left {
        0..60 => format!("in {left} s"),
        60..3570 => format!("in {} min", (left + 30) / 60),
        3570..171_000 => format!("in {} h", (left + 1800) / 3600),
        _ => format!("in {} d", (left + 43_200) / 86_400),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_shown_in_one_unit_and_a_passed_time_is_not() {
        let left = |seconds| {
            let end = SystemTime::now() + Duration::from_secs(seconds);
            left_until(&Timestamp::from(end)).unwrap()
        };
        assert_eq!(left(65), "in 1 min");
        assert_eq!(left(3600), "in 1 h");
        assert_eq!(left(24 * 3600 - 2), "in 24 h");
        assert_eq!(left(2 * 86_400 + 3600), "in 2 d");
        assert!(left(30).ends_with('s'));
        assert_eq!(left_until(&Timestamp::from(SystemTime::UNIX_EPOCH)), None);
    }

    #[test]
    fn durations_and_times_are_parsed_and_errors_show_the_format() {
        for (text, seconds) in [("30s", 30), ("15m", 900), ("12h", 43_200), ("2w", 1_209_600)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "5", "5y", "-1d", "1.5h", "99999999999999999999d", "40000000d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(future("1h").unwrap() > SystemTime::now());
        assert!(future("2001-01-01").unwrap_err().ends_with("is in the past"));
        assert!(future("2999-01-31T00:00:00Z").is_ok() && past("2001-01-01").is_ok());
        assert!(past("yesterday").unwrap_err().contains("90d"));
    }
}
