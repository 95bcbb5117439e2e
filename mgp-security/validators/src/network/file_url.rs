//! URLs of files. Such URLs pass if another check limits the paths of a call.

/// Returns whether a whole text is the URL of one file on this machine. All clients must read the URL in the same way,
/// and the check of paths must recognise it under every name of an argument. A second colon is refused, so that the
/// text cannot be a list with another URL.
pub(super) fn is_plain(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let (host, path) = match rest.strip_prefix("//") {
        Some(place) => place.split_at(place.find('/').unwrap_or(place.len())),
        None => ("", rest),
    };
    let is_drive =
        matches!(path.as_bytes(), [_, letter, b':', b'/', ..] if letter.is_ascii_alphabetic());
    let below = if is_drive { &path[3..] } else { path };
    let lower = below.to_ascii_lowercase();
    // Refuse two slashes, even if they are encoded, because they can begin the host of a network share.
    let marks = ["//", "%2f", "%3a", "%5c"];
    scheme.eq_ignore_ascii_case("file")
        && (host.is_empty() || host.eq_ignore_ascii_case("localhost"))
        && below.starts_with('/')
        && !marks.into_iter().any(|mark| lower.contains(mark))
        && !below.contains(|c: char| {
            c.is_control() || c.is_whitespace() || matches!(c, ':' | '\\' | '?' | '#')
        })
}
