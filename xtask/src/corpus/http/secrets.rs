//! Generates API keys and signed tokens for the server with authentication: valid keys and tokens, and others with one
//! defect each.
//!
//! The words in a placeholder's name select the defect, e.g. `JWT_WRONG_AUD` or `KEY_REVOKED`.

use crate::run::{Outcome, now_seconds};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

/// The issuer of the tokens in the corpus.
pub(super) const ISSUER: &str = "https://issuer.example";
/// The audience of the tokens in the corpus.
pub(super) const AUDIENCE: &str = "https://mcp.example/mcp";
/// The scope of the tokens in the corpus.
pub(super) const SCOPE: &str = "mcp:use";
/// The lifetime of a token in the corpus, in seconds.
const LIFE: i64 = 3600;
/// The id of the key that signs the tokens in the corpus.
const KEY_ID: &str = "corpus-1";

/// The private key that signs the tokens of this check. The key can be public, because nothing else uses it.
const SIGNING: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0SmxwroZGfQ07V1k
1GbPBg4U+uBVzofjhCtao0IDIhyhRANCAARWuvb2YSiygg3RqlfM0loeH0IfR6kl
alybrDHVJE4+RjhyPoPcGEqOCce2gP+F27DpZYZI/5sUea4Kf+15Kk/g
-----END PRIVATE KEY-----
";
const X: &str = "Vrr29mEosoIN0apXzNJaHh9CH0epJWpcm6wx1SROPkY";
const Y: &str = "OHI-g9wYSo4Jx7aA_4XbsOllhkj_mxR5rgp_7XkqT-A";

/// Returns the public key set that the server trusts.
pub(super) fn key_set() -> Value {
    json!({"keys": [{
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": KEY_ID, "x": X, "y": Y,
    }]})
}

/// Returns whether a placeholder's name contains one of these words.
pub(super) fn has_word(name: &str, words: &[&str]) -> bool {
    name.split('_').any(|word| words.contains(&word))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyState {
    Good,
    Revoked,
    Expired,
    /// The key was never registered.
    Unknown,
}

/// Returns the state that the key of a placeholder must have, according to the words in its name.
pub(super) fn key_state(name: &str) -> KeyState {
    if has_word(name, &["REVOKED"]) {
        KeyState::Revoked
    } else if has_word(name, &["EXPIRED", "OLD"]) {
        KeyState::Expired
    } else if has_word(
        name,
        &["UNKNOWN", "WRONG", "BAD", "INVALID", "FORGED", "NOBODY", "TRUNCATED"],
    ) {
        KeyState::Unknown
    } else {
        KeyState::Good
    }
}

/// Returns the API key of a placeholder, `mgp_<id>_<secret>`; the same name always yields the same key.
pub(super) fn key(name: &str) -> String {
    // A key with a wrong secret has the id of `KEY_A` and the secret of a different key.
    let (id, secret) = match key_state(name) {
        KeyState::Unknown if has_word(name, &["SECRET", "WRONG", "BAD"]) => ("KEY_A", name),
        _ => (name, name),
    };
    let key = format!("mgp_{}_{}", digits(id, 1), digits(secret, 4));
    if has_word(name, &["TRUNCATED"]) { key[..key.len() - 8].to_owned() } else { key }
}

/// Returns hexadecimal digits derived from a name, sixteen per round.
fn digits(name: &str, rounds: u64) -> String {
    let hash = |round: u64| {
        name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ round, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        })
    };
    let rounds: Vec<_> = (0..rounds).map(|round| format!("{:016x}", hash(round))).collect();
    rounds.concat()
}

/// Returns the signed token of a placeholder, with the defect that its name selects.
pub(super) fn token(name: &str) -> Outcome<String> {
    let at = now_seconds();
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "corpus", "client_id": "corpus", "scope": SCOPE,
        "iat": at - 10, "nbf": at - 10, "exp": at + LIFE, "jti": name,
    });
    let mut header = Header::new(Algorithm::ES256);
    header.kid = Some(KEY_ID.to_owned());
    let missing = has_word(name, &["NO", "MISSING", "WITHOUT"]);
    let mut set = |claim: &str, wrong: Value| {
        claims[claim] = if missing { Value::Null } else { wrong };
    };
    if has_word(name, &["AUD", "AUDIENCE"]) {
        set("aud", json!("https://other.example/mcp"));
    }
    if has_word(name, &["ISS", "ISSUER"]) {
        set("iss", json!("https://evil.example"));
    }
    if has_word(name, &["EXP", "EXPIRED"]) {
        set("exp", json!(at - LIFE));
    }
    if has_word(name, &["NBF", "FUTURE", "EARLY"]) {
        set("nbf", json!(at + LIFE));
    }
    if has_word(name, &["SCOPE", "SCOPES"]) {
        set("scope", json!("nothing:useful"));
    }
    if has_word(name, &["SUB", "SUBJECT"]) {
        set("sub", json!(""));
    }
    if let Some(claims) = claims.as_object_mut() {
        claims.retain(|_, value| !value.is_null());
    }
    if has_word(name, &["KID"]) {
        header.kid = Some("nobody".to_owned());
    }
    if has_word(name, &["HS256", "HMAC", "CONFUSION", "ALG"]) && !has_word(name, &["NONE"]) {
        // Algorithm confusion: signs with the public key as if it were a shared secret.
        header.alg = Algorithm::HS256;
        return Ok(encode(&header, &claims, &EncodingKey::from_secret(X.as_bytes()))?);
    }
    let signed = encode(&header, &claims, &EncodingKey::from_ec_pem(SIGNING.as_bytes())?)?;
    let (message, signature) = signed.rsplit_once('.').unwrap_or((&signed, ""));
    if has_word(name, &["NONE", "UNSIGNED"]) {
        let claims = message.split_once('.').map_or("", |(_, claims)| claims);
        // The header is `{"alg":"none","typ":"JWT"}` in base 64.
        return Ok(format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{claims}."));
    }
    if has_word(name, &["SIG", "SIGNATURE", "TAMPERED", "FORGED", "BADSIG", "INVALID"]) {
        let first = if signature.starts_with('A') { 'B' } else { 'A' };
        return Ok(format!("{message}.{first}{}", signature.get(1..).unwrap_or_default()));
    }
    Ok(signed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{DecodingKey, Validation, decode, jwk::JwkSet};

    fn opens(name: &str) -> bool {
        let set: JwkSet = serde_json::from_value(key_set()).unwrap();
        let mut rules = Validation::new(Algorithm::ES256);
        rules.set_audience(&[AUDIENCE]);
        rules.set_issuer(&[ISSUER]);
        rules.validate_nbf = true;
        rules.set_required_spec_claims(&["exp", "aud", "iss"]);
        let token = token(name).unwrap();
        let known = jsonwebtoken::decode_header(&token)
            .is_ok_and(|header| header.kid.is_some_and(|kid| set.find(&kid).is_some()));
        let key = DecodingKey::from_jwk(&set.keys[0]).unwrap();
        known && decode::<Value>(&token, &key, &rules).is_ok()
    }

    #[test]
    fn a_token_is_valid_unless_its_name_has_a_defect() {
        assert!(opens("JWT_OK") && opens("JWT_VALID"));
        let wrong = "JWT_WRONG_AUD JWT_NO_AUD JWT_WRONG_ISS JWT_EXPIRED JWT_NBF_FUTURE JWT_ALG_NONE \
             JWT_NONE JWT_HS256_CONFUSION JWT_UNKNOWN_KID JWT_BAD_SIG JWT_TAMPERED";
        for name in wrong.split(' ') {
            assert!(!opens(name), "{name}");
        }
    }

    #[test]
    fn keys_have_their_shape_and_key_state() {
        let key_a = key("KEY_A");
        assert_eq!(key_a.split('_').map(str::len).collect::<Vec<_>>(), [3, 16, 64]);
        assert_ne!(key_a, key("KEY_B"));
        assert_eq!(key_state("KEY_B"), KeyState::Good);
        assert_eq!(key_state("KEY_REVOKED"), KeyState::Revoked);
        assert_eq!(key("KEY_WRONG_SECRET")[..20], key_a[..20]);
    }
}
