//! Converts responses of an API to results of tools.

use std::borrow::Cow;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use mgp_server_sdk::ToolError;
use mgp_types::mcp::{CallToolResult, ContentBlock, ImageContent};
use mgp_types::service::{FetchResponse, shown_url};
use mgp_types::{Payload, clip};

use crate::request::Credentials;

/// The maximum size of the body of a response after it was decompressed, in bytes.
pub const MAX_RESPONSE: usize = 8 << 20;

/// The maximum length of the body of an error response that is passed to the model.
const MAX_REASON: usize = 4 << 10;

/// The maximum depth of lists and objects in structured content.
const MAX_DEPTH: usize = 64;

/// The names of compressions in the header `Content-Encoding`.
const COMPRESSIONS: [&str; 7] =
    ["gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"];

/// The characters that the bytes from 0x80 to 0x9f mean in windows-1252. The Encoding Standard uses this charset also
/// for the names iso-8859-1 and us-ascii.
static WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Returns the tool result for a response. An error shows no credentials, even if the API repeats them.
pub(crate) fn result(
    response: &FetchResponse,
    credentials: &Credentials,
) -> Result<CallToolResult, ToolError> {
    let status = response.status;
    let media = response.header("content-type").unwrap_or_default();
    let kind = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let location = response.header("location");
    if let Some(location) = location.filter(|_| (300..400).contains(&status)) {
        // The new address may repeat the query, which may contain a key of the operator, so do not show keys.
        let to = credentials.redacted(&shown_url(location));
        return Err(ToolError(format!(
            "HTTP {status}: the API redirects to {to}, which is not followed"
        )));
    }
    let body = decompressed(response, MAX_RESPONSE);
    let text = body.as_ref().ok().and_then(|body| text_of(&kind, media, body));
    if !(200..300).contains(&status) {
        let reason = text.map(|text| clip(credentials.redacted(&text).trim(), MAX_REASON));
        let reason = reason.or_else(|| body.as_ref().err().cloned()).unwrap_or_default();
        let wait = response.header("retry-after");
        let wait = wait.map_or_else(String::new, |wait| {
            format!(" (Retry-After: {})", clip(&credentials.redacted(wait), 60))
        });
        let text = format!("HTTP {status}{wait}: {reason}");
        return Err(ToolError(text.trim_end_matches(": ").to_owned()));
    }
    if response.body.is_empty() {
        // Often only the header `Location` has the identifier of the resource that the request created, so add it to
        // the result.
        let to = location.map_or_else(String::new, |location| {
            format!("; Location: {}", clip(&credentials.redacted(location), 2_000))
        });
        return Ok(CallToolResult::text(format!("HTTP {status}, without a body{to}")));
    }
    let body = body.as_ref().map_err(|why| ToolError(format!("HTTP {status}: {why}")))?;
    // An SVG is returned as text, because hosts refuse it as an image.
    if kind.starts_with("image/") && kind != "image/svg+xml" {
        return Ok(image(&kind, body));
    }
    let Some(text) = text else {
        let bytes = body.len();
        return Ok(CallToolResult::text(format!(
            "HTTP {status}: {bytes} bytes of `{kind}`, which cannot be read as a text"
        )));
    };
    let mut result = CallToolResult::text(&*text);
    if is_json(&kind) {
        result.structured_content = structured(text.trim());
    }
    Ok(result)
}

/// Returns the body of a response, decompressed if it is compressed with gzip or deflate. Values of the header
/// `Content-Encoding` that are not compressions, e.g. `utf-8` or `aws-chunked`, are mistakes of servers and do not
/// change the body.
///
/// # Errors
/// Returns the reason if the body has another compression or several, is damaged, or has more than `max` bytes when it
/// is decompressed.
pub fn decompressed(response: &FetchResponse, max: usize) -> Result<Cow<'_, [u8]>, String> {
    let body = &*response.body;
    let is_any =
        |coding: &str, names: &[&str]| names.iter().any(|name| coding.eq_ignore_ascii_case(name));
    let codings = response.header("content-encoding").unwrap_or_default().split(',');
    let codings: Vec<_> =
        codings.map(str::trim).filter(|coding| is_any(coding, &COMPRESSIONS)).collect();
    if codings.is_empty() || body.is_empty() {
        return Ok(body.into());
    }
    let decoder: Box<dyn Read + '_> = match *codings {
        [coding] if is_any(coding, &["gzip", "x-gzip"]) => Box::new(MultiGzDecoder::new(body)),
        [coding] if is_any(coding, &["deflate"]) && is_zlib(body) => {
            Box::new(ZlibDecoder::new(body))
        }
        [coding] if is_any(coding, &["deflate"]) => Box::new(DeflateDecoder::new(body)),
        _ => {
            let codings = clip(&codings.join(", "), 60);
            return Err(format!("its body is compressed with `{codings}`, which cannot be read"));
        }
    };
    let mut plain = Vec::new();
    let read = decoder.take((max as u64).saturating_add(1)).read_to_end(&mut plain);
    read.map_err(|error| format!("its body cannot be decompressed: {error}"))?;
    if plain.len() > max {
        return Err(format!("its body has more than {max} bytes when it is decompressed"));
    }
    Ok(plain.into())
}

/// Returns whether a body that is compressed with `deflate` has the header of zlib; some servers leave it out.
fn is_zlib(body: &[u8]) -> bool {
    matches!(*body, [first, second, ..]
        if first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31))
}

/// Parses a JSON object as structured content. Returns `None` for a text that is nested deeply, or that has an invalid
/// number or escaped character: many hosts cannot read such a message, and it can end their sessions.
fn structured(text: &str) -> Option<Payload> {
    let payload = Payload::parse(text).ok().filter(|_| text.starts_with('{'))?;
    let is_readable = !payload.is_deeper_than(MAX_DEPTH)
        && serde_json::from_str::<serde_json::Value>(text).is_ok();
    is_readable.then_some(payload)
}

fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind.ends_with("+json")
}

/// Returns a body as text if it is UTF-8, or if its media type is textual and its charset is supported; otherwise
/// returns `None`.
fn text_of<'a>(kind: &str, media: &str, body: &'a [u8]) -> Option<Cow<'a, str>> {
    if let Ok(text) = std::str::from_utf8(body) {
        return Some(text.into());
    }
    let is_xml = kind == "application/xml" || kind.ends_with("+xml");
    if !kind.starts_with("text/") && !is_json(kind) && !is_xml {
        return None;
    }
    let charset = media.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| value.trim().trim_matches('"').to_ascii_lowercase())
    });
    match charset.as_deref() {
        None | Some("utf-8" | "utf8") => Some(String::from_utf8_lossy(body)),
        Some("iso-8859-1" | "latin1" | "us-ascii" | "ascii" | "windows-1252" | "cp1252") => {
            let special = |byte: u8| WINDOWS_1252.get(usize::from(byte.checked_sub(0x80)?));
            let decoded = |&byte: &u8| special(byte).copied().unwrap_or(char::from(byte));
            Some(body.iter().map(decoded).collect())
        }
        Some(_) => None,
    }
}

fn image(kind: &str, body: &[u8]) -> CallToolResult {
    let mut result = CallToolResult::text("");
    result.content = vec![ContentBlock::Image(ImageContent::new(STANDARD.encode(body), kind))];
    result
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::bufread::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn json(body: impl Into<Vec<u8>>) -> FetchResponse {
        let mut response = FetchResponse::new(200, body);
        response.headers.push(("content-type".to_owned(), "application/json".to_owned()));
        response
    }

    #[test]
    fn an_object_that_hosts_cannot_read_is_only_a_text() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
        for (body, is_structured) in
            [(r#"{"a":[1]}"#, true), (&*deep, false), (r#"{"a":"\ud800"}"#, false), ("[1]", false)]
        {
            let read = result(&json(body), &Credentials::default()).unwrap();
            assert_eq!(read.structured_content.is_some(), is_structured, "{body}");
        }
    }

    fn compressed(body: impl Into<Vec<u8>>, encoding: &str) -> FetchResponse {
        let mut response = json(body);
        response.headers.push(("content-encoding".to_owned(), encoding.to_owned()));
        response
    }

    #[test]
    fn a_body_with_another_compression_or_several_is_an_error_that_names_them() {
        for encoding in ["BR", "gzip, gzip"] {
            let mut response = compressed([0x1f, 0x8b], encoding);
            let why = format!("its body is compressed with `{encoding}`, which cannot be read");
            let error = result(&response, &Credentials::default()).unwrap_err();
            assert_eq!(error.0, format!("HTTP 200: {why}"));
            response.status = 429;
            response.headers.push(("retry-after".to_owned(), "5".to_owned()));
            let error = result(&response, &Credentials::default()).unwrap_err();
            assert_eq!(error.0, format!("HTTP 429 (Retry-After: 5): {why}"));
        }
    }

    #[test]
    fn gzip_and_both_kinds_of_deflate_are_read_up_to_the_limit() {
        let text = br#"{"a":1}"#;
        let level = Compression::fast();
        let read = |mut encoder: Box<dyn Read + '_>| {
            let mut bytes = Vec::new();
            encoder.read_to_end(&mut bytes).unwrap();
            bytes
        };
        for (bytes, encoding) in [
            (read(Box::new(GzEncoder::new(&text[..], level))), "GZip"),
            (read(Box::new(ZlibEncoder::new(&text[..], level))), "deflate"),
            (read(Box::new(DeflateEncoder::new(&text[..], level))), "deflate"),
        ] {
            let response = compressed(&bytes[..], encoding);
            assert_eq!(decompressed(&response, text.len()).unwrap(), text.as_slice());
            assert!(decompressed(&response, text.len() - 1).unwrap_err().contains("6 bytes"));
            let cut = compressed(&bytes[..bytes.len() - 3], encoding);
            assert!(decompressed(&cut, text.len()).is_err(), "{encoding}");
        }
    }

    #[test]
    fn a_body_whose_encoding_is_not_a_compression_is_read() {
        for encoding in ["", "identity", "UTF-8", "aws-chunked"] {
            let mut response = json(r#"{"a":1}"#);
            response.headers.push(("content-encoding".to_owned(), encoding.to_owned()));
            assert!(result(&response, &Credentials::default()).is_ok(), "{encoding}");
        }
    }
}
