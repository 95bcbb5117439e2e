//! The bearer token of a request, taken from the `Authorization` header only (RFC 6750 §2.1).

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::refused::AuthRefused;

/// The maximum length of an API key or access token in a request, in bytes.
pub(super) const MAX_CREDENTIAL: usize = 16 * 1024;

/// Returns the bearer token in the headers.
///
/// A header with a scheme other than `Bearer` is treated as missing credentials; the challenge then names `Bearer`.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, AuthRefused> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let value = all.next().ok_or(AuthRefused::Missing)?;
    if all.next().is_some() {
        return Err(AuthRefused::Malformed("send one `Authorization` header"));
    }
    let value = trim(value.as_bytes());
    let space = value.iter().position(|&byte| byte == b' ').unwrap_or(value.len());
    let (scheme, token) = value.split_at(space);
    let token = trim(token);
    if !scheme.eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return Err(AuthRefused::Missing);
    }
    if token.len() > MAX_CREDENTIAL {
        return Err(AuthRefused::Invalid("the key or token is longer than 16 KiB"));
    }
    if !is_b64token(token) {
        return Err(AuthRefused::Malformed("a token has letters, digits and `-._~+/` only"));
    }
    std::str::from_utf8(token).map_err(|_| AuthRefused::NOT_VALID)
}

/// Returns whether the bytes match `1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="`.
fn is_b64token(token: &[u8]) -> bool {
    let end = token.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
    end > 0
        && token[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte))
}

/// Removes the white space around a header value; it is not part of the value (RFC 9110 §5.5).
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let values = values.iter().map(|value| HeaderValue::from_bytes(value).unwrap());
        values.map(|value| (AUTHORIZATION, value)).collect()
    }

    #[track_caller]
    fn found(values: &[&[u8]], expected: &str) {
        assert_eq!(bearer(&headers(values)), Ok(expected));
    }

    #[track_caller]
    fn missing(values: &[&[u8]]) {
        assert_eq!(bearer(&headers(values)), Err(AuthRefused::Missing));
    }

    #[track_caller]
    fn malformed(values: &[&[u8]]) {
        assert!(matches!(bearer(&headers(values)), Err(AuthRefused::Malformed(_))));
    }

    #[test]
    fn one_bearer_token_is_found() {
        found(&[b"Bearer abc"], "abc");
        found(&[b"bearer abc"], "abc");
        found(&[b"BEARER   abc"], "abc");
        found(&[b" Bearer abc \t"], "abc");
        found(&[b"Bearer a-._~+/1=="], "a-._~+/1==");
    }

    #[test]
    fn other_schemes_count_as_missing_credentials() {
        missing(&[]);
        missing(&[b""]);
        missing(&[b"Bearer"]);
        missing(&[b"Bearer "]);
        missing(&[b"Bearer\tabc"]);
        missing(&[b"Bearerabc"]);
        missing(&[b"Basic eDp5"]);
        missing(&[b"abc"]);
        missing(&["\u{ff22}earer abc".as_bytes()]);
    }

    #[test]
    fn characters_not_allowed_in_a_token_are_malformed() {
        malformed(&[b"Bearer a", b"Bearer a"]);
        malformed(&[b"Bearer a", b"Basic eDp5"]);
        malformed(&[b"Bearer a b"]);
        malformed(&[b"Bearer a,Bearer b"]);
        malformed(&[b"Bearer a=b"]);
        malformed(&[b"Bearer =="]);
        malformed(&[b"Bearer \"a\""]);
        malformed(&["Bearer mgp_\u{0661}_x".as_bytes()]);
        malformed(&[b"Bearer a\xff"]);
    }

    #[test]
    fn a_token_that_is_too_long_is_refused() {
        let longest = "a".repeat(MAX_CREDENTIAL);
        found(&[format!("Bearer {longest}").as_bytes()], &longest);
        let longer = headers(&[format!("Bearer {longest}a").as_bytes()]);
        let refused = bearer(&longer).unwrap_err();
        assert_eq!(refused.status(), http::StatusCode::UNAUTHORIZED);
        assert!(refused.to_string().contains("longer than 16 KiB"), "{refused}");
    }

    proptest! {
        #[test]
        fn a_found_token_is_from_the_header(value in proptest::collection::vec(32u8.., 0..60)) {
            let value: Vec<u8> = value.into_iter().filter(|byte| *byte != 127).collect();
            let mut headers = HeaderMap::new();
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(&value).unwrap());
            if let Ok(token) = bearer(&headers) {
                prop_assert!(is_b64token(token.as_bytes()));
                prop_assert!(value[..6].eq_ignore_ascii_case(b"bearer") || value[0] == b' ');
            }
        }
    }
}
