//! A signed token taken apart, before anything in it is believed (RFC 7515; RFC 8725).
//!
//! Applies to: inbound.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::algorithm::SignatureAlgorithm;
use super::members::Members;
use crate::auth::bearer::MAX_CREDENTIAL;

/// No longer key id is looked for.
const MAX_KID: usize = 256;

/// A token in compact form.
#[derive(Debug)]
pub(super) struct Jws<'a> {
    pub(super) algorithm: SignatureAlgorithm,
    /// A name to compare, never a path or URL to follow.
    pub(super) kid: Option<String>,
    /// What was signed.
    pub(super) signed: &'a str,
    pub(super) payload: &'a str,
    pub(super) signature: Vec<u8>,
}

/// Members of a header that change what a signature means, or bring a key along.
///
/// `jku`, `x5u` and their kin only say where a key is to be found; they are not looked at, keys come from elsewhere.
const REFUSED: &[&str] = &["crit", "jwk", "b64", "zip", "enc"];

impl<'a> Jws<'a> {
    /// Takes a token apart; none if it is no signed token we take.
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
        if REFUSED.iter().any(|name| header.has(name)) {
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

/// RFC 9068 §2.1, and what issuers write who do not know it.
fn is_access_token(kind: &str) -> bool {
    let kind = kind.strip_prefix("application/").unwrap_or(kind);
    kind.eq_ignore_ascii_case("at+jwt") || kind.eq_ignore_ascii_case("jwt")
}
