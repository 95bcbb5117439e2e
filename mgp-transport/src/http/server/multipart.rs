//! Bodies with several parts (RFC 2387; extension `multimodal_signatures`): one part is the message, the other parts
//! are binary data. The message refers to them by strings `cid:NAME`.
//!
//! The binary data is inserted into the message as base64, so that the message is the same as if
//! it had been sent as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use memchr::memmem;
use mgp_types::{ErrorCode, RpcError};

use super::refusal::Refusal;

/// The maximum number of parts in addition to the message.
const MAX_PARTS: usize = 16;

/// The maximum length of a boundary (RFC 2046), and of the name of a part.
const MAX_NAME: usize = 70;

/// Returns the boundary in a `Content-Type`, if it is `multipart/related`.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let (essence, parameters) = content_type.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("multipart/related") {
        return None;
    }
    let parameters = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let mut named = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    let boundary = named.next()?.1.trim().trim_matches('"');
    (1..=MAX_NAME).contains(&boundary.len()).then_some(boundary)
}

/// Returns the message in a body, after inserting the data of the other parts.
pub(super) fn message(body: &Bytes, boundary: &str) -> Result<Vec<u8>, Refusal> {
    let mut parts = split(body, boundary)?.into_iter();
    let message = parts.next().ok_or_else(|| refuse("the body has no part"))?;
    let mut text = std::str::from_utf8(message.data)
        .map_err(|_| refuse("the first part is not UTF-8"))?
        .to_owned();
    for part in parts {
        text = insert(&text, &part)?;
    }
    Ok(text.into_bytes())
}

struct Part<'a> {
    /// The name of the part, from its header `Content-ID`; empty without that header.
    name: &'a str,
    data: &'a [u8],
}

fn split<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<Part<'a>>, Refusal> {
    let delimiter = format!("--{boundary}");
    let body = body
        .strip_prefix(delimiter.as_bytes())
        .ok_or_else(|| refuse("the body does not begin with its boundary"))?;
    let delimiter = format!("\r\n--{boundary}");
    let mut ends = memmem::find_iter(body, delimiter.as_bytes());
    let (mut parts, mut start) = (Vec::new(), 0);
    loop {
        if body[start..].starts_with(b"--") {
            return Ok(parts);
        }
        let end = ends.next().ok_or_else(|| refuse("the last part has no closing boundary"))?;
        if parts.len() > MAX_PARTS {
            return Err(refuse("the body has too many parts"));
        }
        parts.push(part(&body[start..end])?);
        start = end + delimiter.len();
    }
}

/// Reads the headers of a part, which begins with the line end of its boundary.
fn part(text: &[u8]) -> Result<Part<'_>, Refusal> {
    const END: &[u8] = b"\r\n\r\n";
    let end = memmem::find(text, END).ok_or_else(|| refuse("a part has no header"))?;
    let headers =
        std::str::from_utf8(&text[..end]).map_err(|_| refuse("a header of a part is not UTF-8"))?;
    let fields = headers.lines().filter_map(|line| line.split_once(':'));
    let mut ids = fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case("content-id"));
    let name = ids.next().map_or("", |(_, id)| id.trim().trim_matches(['<', '>']));
    Ok(Part { name, data: &text[end + END.len()..] })
}

/// Replaces the string `cid:NAME` in a message by the data of the part, as base64. The string must occur exactly once,
/// so that a small body cannot become a large message.
fn insert(message: &str, part: &Part<'_>) -> Result<String, Refusal> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !(1..=MAX_NAME).contains(&part.name.len()) || !part.name.bytes().all(is_plain) {
        return Err(refuse("each part after the first needs a `Content-ID` of letters and digits"));
    }
    let reference = format!("\"cid:{}\"", part.name);
    // If the match is inside a longer string, its first quote is preceded by a backslash. Such a match is not a whole
    // string.
    let is_whole = |at: &usize| !message[..*at].ends_with('\\');
    let mut found = memmem::find_iter(message.as_bytes(), reference.as_bytes()).filter(is_whole);
    let (Some(at), None) = (found.next(), found.next()) else {
        return Err(refuse("each part after the first must be referred to once, as \"cid:NAME\""));
    };
    let (before, after) = (&message[..at], &message[at + reference.len()..]);
    let mut text = String::with_capacity(message.len() + part.data.len() * 4 / 3 + 4);
    text.push_str(before);
    text.push('"');
    STANDARD.encode_string(part.data, &mut text);
    text.push('"');
    text.push_str(after);
    Ok(text)
}

fn refuse(what: &str) -> Refusal {
    let error = RpcError::new(ErrorCode::INVALID_REQUEST, what);
    Refusal::Message(error.without_recovery(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<String, String> {
        let body = Bytes::from(body.replace('\n', "\r\n"));
        match message(&body, "b") {
            Ok(text) => Ok(String::from_utf8(text).unwrap()),
            Err(Refusal::Message(error, _)) => Err(error.message().to_owned()),
            Err(other) => Err(other.to_string()),
        }
    }

    #[test]
    fn parts_become_base64_in_their_places() {
        let text = "--b\nContent-Type: application/json\n\n{\"a\":\"cid:x\",\"b\":\"\\\"cid:x\",\"c\":\"cid:y\"}\n\
            --b\nContent-ID: <x>\n\nhello\n--b\ncontent-id: y\n\n\n--b--\n";
        let expected = r#"{"a":"aGVsbG8=","b":"\"cid:x","c":""}"#;
        assert_eq!(read(text).as_deref(), Ok(expected));
        // A part may have no header.
        assert_eq!(read("--b\n\n{}\n--b--").as_deref(), Ok("{}"));
        assert_eq!(read("--b\nX: y\n\n{}\n--b--").as_deref(), Ok("{}"));
    }

    #[test]
    fn a_body_of_another_form_is_refused_with_the_reason() {
        for (text, expected) in [
            ("{}", "does not begin"),
            ("--b--", "has no part"),
            ("--b\nX: y\n\n{}", "no closing boundary"),
            ("--b\nX: y\n\n{}\n--b\nX: y\n\nz\n--b--", "needs a `Content-ID`"),
            ("--b\nX: y\n\n{}\n--b\nContent-ID: <x>\n\nz\n--b--", "referred to once"),
            (
                "--b\nX: y\n\n[\"cid:x\",\"cid:x\"]\n--b\nContent-ID: <x>\n\nz\n--b--",
                "referred to once",
            ),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(expected), "{text:?}: {refused}");
        }
        let many = format!("--b{}--", "\nX: y\n\n{}\n--b".repeat(MAX_PARTS + 2));
        assert!(read(&many).unwrap_err().contains("too many"));
    }

    #[test]
    fn only_related_parts_have_a_boundary() {
        for (kind, expected) in [
            ("multipart/related; boundary=b", Some("b")),
            ("Multipart/Related; type=\"application/json\"; Boundary=\"a b\"", Some("a b")),
            ("multipart/related; boundary=", None),
            ("multipart/related", None),
            // Web pages can send this content type to other origins without a preflight request, so it must not be
            // accepted.
            ("multipart/form-data; boundary=b", None),
            ("application/json; boundary=b", None),
        ] {
            assert_eq!(boundary(kind), expected, "{kind}");
        }
    }
}
