//! The public keys of an issuer (RFC 7517), and the selection of the key for a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::algorithm::SignatureAlgorithm;
use super::jws::Jws;

/// The size limit for a key set document, in bytes.
pub(super) const MAX_DOCUMENT: usize = 256 * 1024;
/// The maximum number of public keys in a JWKS document of an issuer.
const MAX_KEYS: usize = 100;
/// The maximum number of keys with which the signature of one token is checked, which bounds the cost of a token.
const MAX_TRIED_KEYS: usize = 8;
/// The accepted sizes of RSA keys: the minimum of RFC 7518 §3.3, and a maximum that bounds the cost of verification.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// The keys of an issuer, ready for verification.
#[derive(Default)]
pub struct JwkSet {
    keys: Vec<VerifyingKey>,
}

/// The error for a document that cannot be parsed as a key set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadJwks {
    /// A document without the form of RFC 7517.
    #[error("the document is not a JSON Web Key Set: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A document that exceeds the limits.
    #[error("the key set is too large: at most {MAX_DOCUMENT} bytes and {MAX_KEYS} keys are read")]
    TooLarge,
}

struct VerifyingKey {
    kid: Option<String>,
    /// The algorithms that are allowed by the key's type and curve, and by its own member `alg`.
    algorithms: Vec<SignatureAlgorithm>,
    key: DecodingKey,
}

/// The result of verifying a token with a key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verification {
    /// A key of the issuer has signed the token.
    Valid,
    /// There are keys with the token's key id, but none of the tried keys has signed it.
    Invalid,
    /// No key has the token's key id, and none of the tried keys without an id has signed the token. If the token has
    /// no key id, none of the tried keys has signed it.
    Unknown,
}

impl JwkSet {
    /// Parses a document.
    ///
    /// Unusable keys are ignored, as the standard requires: symmetric, private or encryption keys, other types and
    /// curves, and RSA keys of less than 2048 or more than 4096 bits.
    ///
    /// # Errors
    /// [`BadJwks`] if the document is malformed or too large.
    pub fn parse(document: impl AsRef<[u8]>) -> Result<Self, BadJwks> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Box<RawValue>>,
        }

        let document = document.as_ref();
        if document.len() > MAX_DOCUMENT {
            return Err(BadJwks::TooLarge);
        }
        let document: Document = serde_json::from_slice(document)?;
        if document.keys.len() > MAX_KEYS {
            return Err(BadJwks::TooLarge);
        }
        let keys = document.keys.iter().filter_map(|key| VerifyingKey::parse(key.get()));
        Ok(Self { keys: keys.collect() })
    }

    /// Returns the number of usable keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there is no usable key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Verifies the signature of a token with the keys that fit its algorithm. First tries the keys that have the
    /// token's key id. Then tries the keys that could be meant because the key or the token has no key id (RFC 7515
    /// §4.1.4, RFC 7517 §4.5).
    pub(super) fn verify(&self, token: &Jws<'_>) -> Verification {
        let is_named = |key: &VerifyingKey| token.kid.is_some() && key.kid == token.kid;
        let fitting = self.keys.iter().filter(|key| key.algorithms.contains(&token.algorithm));
        let (named, others): (Vec<_>, Vec<_>) = fitting
            .filter(|key| token.kid.is_none() || key.kid.is_none() || is_named(key))
            .partition(|key| is_named(key));
        let mut tried = named.iter().chain(&others).take(MAX_TRIED_KEYS);
        if tried.any(|key| key.has_signed(token)) {
            Verification::Valid
        } else if named.is_empty() {
            Verification::Unknown
        } else {
            Verification::Invalid
        }
    }
}

mgp_types::opaque_debug!(JwkSet);

/// A published key in its JSON form; a key that cannot be parsed as this type is ignored.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<IgnoredAny>,
    k: Option<IgnoredAny>,
}

impl VerifyingKey {
    fn parse(text: &str) -> Option<Self> {
        let jwk: Jwk = serde_json::from_str(text).ok()?;
        if jwk.d.is_some() || jwk.k.is_some() {
            tracing::warn!(kid = jwk.kid, "ignoring a secret key in a key set");
            return None;
        }
        let verifies = |ops: &Vec<String>| ops.iter().any(|op| op == "verify");
        if jwk.purpose.as_ref().is_some_and(|purpose| purpose != "sig")
            || jwk.key_ops.as_ref().is_some_and(|ops| !verifies(ops))
        {
            return None;
        }
        let (key, by_kind) = jwk.material()?;
        let mut algorithms = by_kind.to_vec();
        if let Some(name) = &jwk.alg {
            let only = SignatureAlgorithm::of(name)?;
            algorithms.retain(|algorithm| *algorithm == only);
        }
        (!algorithms.is_empty()).then_some(Self { kid: jwk.kid, algorithms, key })
    }

    fn has_signed(&self, token: &Jws<'_>) -> bool {
        let algorithm = token.algorithm.to_jsonwebtoken();
        // Name the provider explicitly, because other crates can replace the process-wide one.
        (DEFAULT_PROVIDER.verifier_factory)(&algorithm, &self.key)
            .is_ok_and(|key| key.verify(token.signed.as_bytes(), &token.signature).is_ok())
    }
}

impl Jwk {
    /// Returns the key, and the algorithms for which a key of its type can be used.
    fn material(&self) -> Option<(DecodingKey, &'static [SignatureAlgorithm])> {
        let x = || part(self.x.as_ref()?);
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", None) => {
                let (n, e) = (part(self.n.as_ref()?)?, part(self.e.as_ref()?)?);
                let is_odd = e.last().is_some_and(|byte| byte % 2 == 1);
                if !RSA_BITS.contains(&bits(&n)) || !(2..=33).contains(&bits(&e)) || !is_odd {
                    return None;
                }
                let key = DecodingKey::from_rsa_raw_components(&n, &e);
                Some((key, SignatureAlgorithm::RSA))
            }
            ("EC", Some("P-256")) => self.point(32, &[SignatureAlgorithm::Es256]),
            ("EC", Some("P-384")) => self.point(48, &[SignatureAlgorithm::Es384]),
            ("OKP", Some("Ed25519")) => {
                let x = x().filter(|x| x.len() == 32)?;
                let algorithms: &[_] = &[SignatureAlgorithm::EdDsa];
                Some((usable(DecodingKey::from_ed_der(&x), algorithms)?, algorithms))
            }
            _ => None,
        }
    }

    /// Returns the elliptic-curve key with the coordinates `x` and `y`, and its algorithms; `None` if a coordinate does
    /// not have the given length or the key is not valid.
    fn point(
        &self,
        length: usize,
        algorithms: &'static [SignatureAlgorithm],
    ) -> Option<(DecodingKey, &'static [SignatureAlgorithm])> {
        let (x, y) = (part(self.x.as_ref()?)?, part(self.y.as_ref()?)?);
        if x.len() != length || y.len() != length {
            return None;
        }
        let point = [&[4], x.as_slice(), &y].concat();
        Some((usable(DecodingKey::from_ec_der(&point), algorithms)?, algorithms))
    }
}

/// Returns the key if it is valid, i.e. its point is on its curve.
fn usable(key: DecodingKey, algorithms: &[SignatureAlgorithm]) -> Option<DecodingKey> {
    let algorithm = algorithms.first()?.to_jsonwebtoken();
    (DEFAULT_PROVIDER.verifier_factory)(&algorithm, &key).is_ok().then_some(key)
}

fn part(text: &String) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Returns the number of significant bits of a big-endian number.
fn bits(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros).map_or(0, |first| {
        (number.len() - zeros) * 8 - usize::try_from(first.leading_zeros()).unwrap_or(0)
    })
}
