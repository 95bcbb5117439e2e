//! The parts of a signed token, parsed before anything in it is trusted (RFC 7515; RFC 8725).
//!
//! This file verifies nothing: `jwks.rs` verifies the signature, and `resource_server.rs` calls `jwks.rs` and checks
//! the claims.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::algorithm::SignatureAlgorithm;
use super::members::Members;
use crate::auth::bearer::MAX_CREDENTIAL;

/// The maximum length of a key id, in bytes.
const MAX_KID: usize = 256;

/// A signed token in compact form, split into its parts.
#[derive(Debug)]
pub(super) struct Jws<'a> {
    pub(super) algorithm: SignatureAlgorithm,
    /// The key id. It is only compared with known ids, and never used as a path or URL.
    pub(super) kid: Option<String>,
    /// The part of the token that the signature covers.
    pub(super) signed: &'a str,
    pub(super) payload: &'a str,
    pub(super) signature: Vec<u8>,
}

/// A token with one of these header members is refused, because they change the meaning of the signature or contain a
/// key.
///
/// `jku`, `x5u` and similar members only refer to the location of a key. They are ignored: keys come from the
/// configured source only.
const REFUSED_MEMBERS: &[&str] = &["crit", "jwk", "b64", "zip", "enc"];

impl<'a> Jws<'a> {
    /// Parses a token; returns `None` if it is not a signed token of an accepted form.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_CREDENTIAL {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        if payload.contains('.') || payload.is_empty() || signature.is_empty() {
            return None;
        }
        let header = Members::of_part(header)?;
        if REFUSED_MEMBERS.iter().any(|name| header.has(name)) {
            return None;
        }
        let algorithm = SignatureAlgorithm::of(&header.get::<String>("alg").ok()??)?;
        if let Some(kind) = header.get::<String>("typ").ok()?
            && !is_access_token(&kind)
        {
            return None;
        }
        let kid = header.get::<String>("kid").ok()?;
        if kid.as_ref().is_some_and(|kid| kid.len() > MAX_KID) {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(Self { algorithm, kid, signed, payload, signature })
    }
}

/// Returns whether `typ` is the type of an access token: the type that RFC 9068 §2.1 defines, or `jwt`, which older
/// issuers use.
fn is_access_token(kind: &str) -> bool {
    let kind = kind.strip_prefix("application/").unwrap_or(kind);
    kind.eq_ignore_ascii_case("at+jwt") || kind.eq_ignore_ascii_case("jwt")
}
