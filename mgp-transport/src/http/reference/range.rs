//! The HTTP header `Range`, with a single range of bytes.

use http::HeaderMap;
use http::header::{CONTENT_RANGE, RANGE};

/// The part of a data reference that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) from: u64,
    /// The position of the last requested byte, if the request names it.
    pub(super) last: Option<u64>,
}

impl ByteRange {
    /// Reads the header of a request. A header with several ranges, or with a range counted from the end, is ignored,
    /// so that the client gets all of the data.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(RANGE)?.to_str().ok()?.trim().strip_prefix("bytes=")?;
        let (from, last) = text.split_once('-')?;
        let from = from.parse().ok()?;
        let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
        last.is_none_or(|last| last >= from).then_some(Self { from, last })
    }

    /// Returns the number of bytes of the part; `None` if neither the request nor the known total size limits it.
    pub(super) fn length(self, size: Option<u64>) -> Option<u64> {
        let asked = self.last.map(|last| (last - self.from).saturating_add(1));
        let rest = size.map(|size| size.saturating_sub(self.from));
        match (asked, rest) {
            (Some(asked), Some(rest)) => Some(asked.min(rest)),
            (asked, rest) => asked.or(rest),
        }
    }
}

/// Returns the position of the first byte and, if it is known, the total size, as stated in the `Content-Range` of a
/// response.
pub(super) fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?;
    let (range, size) = text.split_once('/')?;
    let (from, _) = range.split_once('-')?;
    Some((from.parse().ok()?, size.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &'static str, size: u64, expected: Option<(u64, u64)>) {
        let headers = HeaderMap::from_iter([(RANGE, text.parse().unwrap())]);
        let range = ByteRange::of(&headers);
        let part = range.map(|range| (range.from, range.length(Some(size)).unwrap()));
        assert_eq!(part, expected, "{text}");
    }

    #[test]
    fn one_range_is_read_and_everything_else_is_the_whole() {
        check("bytes=0-", 10, Some((0, 10)));
        check("bytes=4-", 10, Some((4, 6)));
        check("bytes=4-5", 10, Some((4, 2)));
        check("bytes=4-99", 10, Some((4, 6)));
        check("bytes=12-", 10, Some((12, 0)));
        check("bytes=0-18446744073709551615", 10, Some((0, 10)));
        check("bytes=18446744073709551615-18446744073709551615", 10, Some((u64::MAX, 0)));
        for other in ["bytes=-5", "bytes=5-4", "bytes=0-1,3-4", "rows=0-1", "bytes=a-b", ""] {
            check(other, 10, None);
        }
    }
}
