//! Durations in messages for people.

use std::time::Duration;

/// Returns a duration with its unit, as messages for people show it.
///
/// ```
/// use std::time::Duration;
///
/// use mgp_types::duration_words;
///
/// assert_eq!(duration_words(Duration::from_millis(30_100)), "30.1 s");
/// assert_eq!(duration_words(Duration::from_millis(250)), "250 ms");
/// assert_eq!(duration_words(Duration::from_micros(5)), "5 µs");
/// ```
#[must_use]
pub fn duration_words(time: Duration) -> String {
    let text = format!("{time:?}");
    let unit = text.find(char::is_alphabetic).unwrap_or(text.len());
    format!("{} {}", &text[..unit], &text[unit..])
}
