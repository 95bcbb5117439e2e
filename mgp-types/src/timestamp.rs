//! Points in time as RFC 3339 texts (MGP §6.3, §11.3).

use std::fmt;
use std::time::{Duration, SystemTime};

use bytestring::ByteString;
use serde::{Deserialize, Serialize};

/// The last time that can be written as an RFC 3339 text, in milliseconds since the start of 1970.
const LAST: Duration = Duration::from_millis(253_402_300_799_999);

/// A point in time as an RFC 3339 text. A text that a peer sent is kept unchanged, even if it is not valid.
///
/// ```
/// use mgp_types::Timestamp;
///
/// let noon = Timestamp::from("2026-03-01T12:00:00+09:00");
/// let utc = Timestamp::from("2026-03-01T03:00:00Z");
/// assert_eq!(noon.to_system_time(), utc.to_system_time());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(ByteString);

impl Timestamp {
    /// Returns the current time as a text in UTC, with milliseconds.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Returns the time as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the text; returns `None` if it is not an RFC 3339 time from 1970 on.
    #[must_use]
    pub fn to_system_time(&self) -> Option<SystemTime> {
        let text = self.0.trim();
        let (date, time) = text.split_at_checked(10)?;
        let time = time.strip_prefix(['T', 't', ' '])?;
        let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
            Some(at) => time.split_at(at),
            None => return None,
        };
        let utc = humantime::parse_rfc3339(&format!("{date}T{time}Z")).ok()?;
        let Some(shift) = offset.strip_prefix(['+', '-']) else {
            return matches!(offset, "Z" | "z").then_some(utc);
        };
        let (hours, minutes) = shift.split_once(':')?;
        let (hours, minutes) = (below(hours, 24)?, below(minutes, 60)?);
        let shift = Duration::from_secs((hours * 60 + minutes) * 60);
        if offset.starts_with('-') { utc.checked_add(shift) } else { utc.checked_sub(shift) }
    }

    /// Returns whether this time is before `other`; `None` if the text is not a valid time.
    #[must_use]
    pub fn is_before(&self, other: SystemTime) -> Option<bool> {
        self.to_system_time().map(|time| time < other)
    }
}

impl From<SystemTime> for Timestamp {
    /// Converts a time to a text. A time before 1970 or after 9999 becomes the nearest time within these years.
    fn from(time: SystemTime) -> Self {
        let time = time.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + LAST);
        Self(humantime::format_rfc3339_millis(time).to_string().into())
    }
}

impl From<&str> for Timestamp {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::record::schema_of!(Timestamp as "Timestamp", { "type": "string", "format": "date-time" });

/// Parses a text of exactly two digits; returns `None` for any other text, and for a number that is not below `bound`.
fn below(digits: &str, bound: u64) -> Option<u64> {
    let are_two = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|number| are_two && *number < bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, seconds: Option<f64>) {
        let time = Timestamp::from(text).to_system_time();
        let time =
            time.map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64());
        assert_eq!(time, seconds, "{text}");
    }

    #[test]
    fn reads_rfc_3339() {
        check("1970-01-02T00:00:00Z", Some(86_400.0));
        check("1970-01-02t00:00:00.5z", Some(86_400.5));
        check("1970-01-02T00:00:00.000000+00:00", Some(86_400.0));
        check("1970-01-02T01:30:00+01:30", Some(86_400.0));
        check("1970-01-01T23:00:00-01:00", Some(86_400.0));
        for text in [
            "",
            "now",
            "1970-01-02",
            "1970-01-02T00:00:00",
            "1970-01-02T00:00:00+1",
            "1970-01-02T00:00:00+24:00",
            "1970-01-02T00:00:00+01:60",
            "1970-01-02T00:00:00++1:00",
            "1970-01-02T00:00:00Z01:00",
            "1970-13-02T00:00:00Z",
            "1970-01-02T00:00:00+99999999999999999999:00",
            "é970-01-02T00:00:00Z",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_time_outside_1970_to_9999_becomes_the_nearest_within() {
        for (text, expected) in [
            ("1970-01-01T00:00:00+01:00", "1970-01-01T00:00:00.000Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.9999Z", "9999-12-31T23:59:59.999Z"),
            ("9999-12-31T23:59:59-05:00", "9999-12-31T23:59:59.999Z"),
        ] {
            let time = Timestamp::from(text).to_system_time().unwrap();
            assert_eq!(Timestamp::from(time).as_str(), expected, "{text}");
        }
    }

    #[test]
    fn now_has_milliseconds_and_a_z() {
        let now = Timestamp::now();
        assert_eq!(now.as_str().len(), "2026-03-01T12:00:00.000Z".len());
        assert!(now.to_system_time().is_some());
    }
}
