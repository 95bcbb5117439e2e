//! Parses times that people write, and formats times for people.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

use crate::time_args;

/// The units of a duration as people write them in English or German, and the letter that the command line uses.
const UNITS: [(&[&str], &str); 5] = [
    (&["second", "seconds", "sec", "sekunde", "sekunden"], "s"),
    (&["minute", "minutes", "min", "minuten"], "m"),
    (&["hour", "hours", "stunde", "stunden"], "h"),
    (&["day", "days", "tag", "tage", "tagen"], "d"),
    (&["week", "weeks", "woche", "wochen"], "w"),
];

/// Parses a future time: a duration from now, e.g. `1h` or `2 hours`, or a timestamp.
pub(super) fn future(text: &str) -> Result<SystemTime, String> {
    time_args::future(&short(text)).map_err(|why| why.replace(&short(text), text))
}

/// Parses a past time: a duration before now, or a timestamp.
pub(super) fn past(text: &str) -> Result<SystemTime, String> {
    time_args::past(&short(text)).map_err(|why| why.replace(&short(text), text))
}

/// Returns a duration that a person wrote, e.g. `2 hours`, in the form of the command line, e.g. `2h`; returns any
/// other text unchanged.
fn short(text: &str) -> String {
    let lower = text.trim().to_lowercase();
    let count = lower.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let word = lower[count.len()..].trim();
    let unit = UNITS.iter().find(|(words, letter)| words.contains(&word) || *letter == word);
    match unit {
        Some((_, letter)) if !count.is_empty() => format!("{count}{letter}"),
        _ => text.to_owned(),
    }
}

/// Returns a timestamp of the kernel as an element with its time in UTC. In a browser with scripts, the page shows it
/// in the time zone of the browser.
pub(super) fn moment(time: &str) -> Markup {
    let seconds = time.split('.').next().unwrap_or(time).replace('T', " ");
    html! { time datetime=(time) { (seconds.trim_end_matches('Z')) " UTC" } }
}

/// Returns a duration as people read it, e.g. `17 ms`, `48.3 s` or `1 min 51 s`.
pub(super) fn words(duration: Duration) -> String {
    let (millis, seconds) = (duration.as_millis(), duration.as_secs());
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", duration.subsec_millis() / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_words_are_those_of_the_command_line() {
        for (text, expected) in [
            ("1 hour", "1h"),
            ("2 Hours", "2h"),
            ("30 minutes", "30m"),
            ("90 min", "90m"),
            ("1 h", "1h"),
            ("3 Tage", "3d"),
            ("1h", "1h"),
            ("2027-01-31", "2027-01-31"),
            ("an hour", "an hour"),
            ("hour", "hour"),
            ("", ""),
        ] {
            assert_eq!(short(text), expected, "{text}");
        }
        assert!(future("2 hours").is_ok() && past("30 minutes").is_ok());
        assert!(future("an hour").unwrap_err().contains("`an hour` is not a time"));
    }

    #[test]
    fn a_time_names_its_zone_and_has_no_fraction() {
        for time in ["2026-11-29T01:37:50.384Z", "2026-11-29T01:37:50Z"] {
            let expected = format!("<time datetime=\"{time}\">2026-11-29 01:37:50 UTC</time>");
            assert_eq!(moment(time).into_string(), expected);
        }
    }

    #[test]
    fn long_durations_are_not_printed_in_milliseconds() {
        for (millis, expected) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (48_271, "48.2 s"),
            (110_719, "1 min 50 s"),
            (7_500_000, "2 h 5 min"),
        ] {
            assert_eq!(words(Duration::from_millis(millis)), expected);
        }
    }
}
