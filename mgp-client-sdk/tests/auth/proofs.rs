//! The checks of proofs of possession that the script makes (RFC 9449 §4.3). They are independent of the code that
//! makes the proofs.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::ThumbprintHash;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The nonces that a server requires in proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NonceRule {
    /// The server requires no nonce in proofs.
    Nothing,
    /// The server requires a nonce that never changes.
    Nonce,
    /// The server requires another nonce after each successful answer.
    Rotated,
    /// The server requires another nonce each time, so that no proof ever has the right one.
    Endless,
}

/// The result of a check: the thumbprint of the key, or that another nonce is needed.
pub(crate) enum ProofResult {
    Key(String),
    Nonce,
}

/// The proofs that one server has received, with the rules to check them.
pub(crate) struct Checker {
    name: &'static str,
    nonce: u32,
    seen: BTreeSet<String>,
    /// The thumbprint and the nonce of each proof that the server received.
    pub(crate) proofs: Vec<(String, Option<String>)>,
}

impl Checker {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, nonce: 1, seen: BTreeSet::new(), proofs: Vec::new() }
    }

    /// Returns the nonce that is required now.
    pub(crate) fn nonce(&self) -> String {
        format!("{}~nonce!{}", self.name, self.nonce)
    }

    /// Changes the nonce that is required from now on.
    pub(crate) fn rotate(&mut self) {
        self.nonce += 1;
    }

    /// Checks a proof; `Err` is the violated rule.
    pub(crate) fn check(
        &mut self,
        proof: &str,
        request: (&str, &str),
        token: Option<&str>,
        wants: NonceRule,
    ) -> Result<ProofResult, String> {
        let head: Value = part(proof, 0)?;
        let keys: BTreeSet<_> = head["jwk"].as_object().ok_or("no key")?.keys().cloned().collect();
        let public = ["crv", "kty", "x", "y"].map(str::to_owned).into();
        ensure(keys == public, || format!("a key of {keys:?}"))?;
        ensure(head["typ"] == "dpop+jwt" && head["alg"] == "ES256", || head.to_string())?;
        let jwk = decode_header(proof).map_err(|error| error.to_string())?.jwk.ok_or("no key")?;
        let key = DecodingKey::from_jwk(&jwk).map_err(|error| error.to_string())?;
        let mut rules = Validation::new(Algorithm::ES256);
        rules.required_spec_claims.clear();
        (rules.validate_exp, rules.validate_aud) = (false, false);
        let claims =
            decode::<Value>(proof, &key, &rules).map_err(|error| error.to_string())?.claims;
        let text = |name: &str| claims[name].as_str().map(str::to_owned);
        for (name, expected) in [
            ("htm", Some(request.0.to_owned())),
            ("htu", Some(request.1.to_owned())),
            ("ath", token.map(|token| URL_SAFE_NO_PAD.encode(Sha256::digest(token)))),
        ] {
            ensure(text(name) == expected, || format!("{name}: {}", claims[name]))?;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let is_now = claims["iat"].as_u64().is_some_and(|iat| iat.abs_diff(now) < 30);
        ensure(is_now, || format!("iat: {}", claims["iat"]))?;
        let jti = text("jti").ok_or("no jti")?;
        ensure(jti.len() >= 22, || format!("a jti that is guessed: {jti}"))?;
        ensure(self.seen.insert(jti), || "a proof twice".to_owned())?;
        let thumbprint =
            jwk.thumbprint(ThumbprintHash::SHA256).map_err(|error| error.to_string())?;
        let nonce = text("nonce");
        self.proofs.push((thumbprint.clone(), nonce.clone()));
        if let Some(nonce) = &nonce {
            let is_ours = nonce.starts_with(self.name);
            ensure(is_ours, || format!("a nonce of another server: {nonce}"))?;
        }
        let is_right = wants != NonceRule::Endless && nonce == Some(self.nonce());
        Ok(if wants == NonceRule::Nothing || is_right {
            ProofResult::Key(thumbprint)
        } else {
            ProofResult::Nonce
        })
    }
}

fn part(proof: &str, at: usize) -> Result<Value, String> {
    let part = proof.split('.').nth(at).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    serde_json::from_slice(&part.unwrap_or_default()).map_err(|error| error.to_string())
}

fn ensure(holds: bool, else_: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(else_()) }
}
