//! Keys and signed tokens of the protected server: those that open it, and those that are wrong in one way.
//!
//! What is wrong is read from the words of the placeholder: `JWT_WRONG_AUD`, `KEY_REVOKED`.

use crate::run::{Outcome, now_seconds};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

/// Who signs.
pub(super) const ISSUER: &str = "https://issuer.example";
/// Whom the tokens are for.
pub(super) const AUDIENCE: &str = "https://mcp.example/mcp";
/// What they allow.
pub(super) const SCOPE: &str = "mcp:use";
/// How long a token lives.
const LIFE: i64 = 3600;
/// The name of the signing key.
const KEY_ID: &str = "corpus-1";

/// Signs the tokens of this harness and nothing else; both halves are public.
const SIGNING: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0SmxwroZGfQ07V1k
1GbPBg4U+uBVzofjhCtao0IDIhyhRANCAARWuvb2YSiygg3RqlfM0loeH0IfR6kl
alybrDHVJE4+RjhyPoPcGEqOCce2gP+F27DpZYZI/5sUea4Kf+15Kk/g
-----END PRIVATE KEY-----
";
const X: &str = "Vrr29mEosoIN0apXzNJaHh9CH0epJWpcm6wx1SROPkY";
const Y: &str = "OHI-g9wYSo4Jx7aA_4XbsOllhkj_mxR5rgp_7XkqT-A";

/// The public key set the server trusts.
pub(super) fn key_set() -> Value {
    json!({"keys": [{
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": KEY_ID, "x": X, "y": Y,
    }]})
}

/// Whether a word of a placeholder is one of these.
fn says(name: &str, words: &[&str]) -> bool {
    name.split('_').any(|word| words.contains(&word))
}

/// What becomes of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    Revoked,
    Expired,
    /// Never registered.
    Unknown,
}

/// The standing a placeholder asks for.
pub(super) fn standing(name: &str) -> Standing {
    if says(name, &["REVOKED"]) {
        Standing::Revoked
    } else if says(name, &["EXPIRED", "OLD"]) {
        Standing::Expired
    } else if says(name, &["UNKNOWN", "WRONG", "BAD", "INVALID", "FORGED", "NOBODY", "TRUNCATED"]) {
        Standing::Unknown
    } else {
        Standing::Good
    }
}

/// The API key behind a placeholder: `mgp_<id>_<secret>`, the same each time.
pub(super) fn key(name: &str) -> String {
    // A wrong secret is that of another key under the id of `KEY_A`.
    let (id, secret) = match standing(name) {
        Standing::Unknown if says(name, &["SECRET", "WRONG", "BAD"]) => ("KEY_A", name),
        _ => (name, name),
    };
    let key = format!("mgp_{}_{}", digits(id, 1), digits(secret, 4));
    if says(name, &["TRUNCATED"]) { key[..key.len() - 8].to_owned() } else { key }
}

/// Sixteen hexadecimal digits for each round, from a name.
fn digits(name: &str, rounds: u64) -> String {
    let hash = |round: u64| {
        name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ round, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
        })
    };
    let rounds: Vec<_> = (0..rounds).map(|round| format!("{:016x}", hash(round))).collect();
    rounds.concat()
}

/// The token behind a placeholder.
pub(super) fn token(name: &str) -> Outcome<String> {
    let at = now_seconds();
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "corpus", "client_id": "corpus", "scope": SCOPE,
        "iat": at - 10, "nbf": at - 10, "exp": at + LIFE, "jti": name,
    });
    let mut header = Header::new(Algorithm::ES256);
    header.kid = Some(KEY_ID.to_owned());
    let missing = says(name, &["NO", "MISSING", "WITHOUT"]);
    let mut set = |claim: &str, wrong: Value| {
        claims[claim] = if missing { Value::Null } else { wrong };
    };
    if says(name, &["AUD", "AUDIENCE"]) {
        set("aud", json!("https://other.example/mcp"));
    }
    if says(name, &["ISS", "ISSUER"]) {
        set("iss", json!("https://evil.example"));
    }
    if says(name, &["EXP", "EXPIRED"]) {
        set("exp", json!(at - LIFE));
    }
    if says(name, &["NBF", "FUTURE", "EARLY"]) {
        set("nbf", json!(at + LIFE));
    }
    if says(name, &["SCOPE", "SCOPES"]) {
        set("scope", json!("nothing:useful"));
    }
    if says(name, &["SUB", "SUBJECT"]) {
        set("sub", json!(""));
    }
    if let Some(claims) = claims.as_object_mut() {
        claims.retain(|_, value| !value.is_null());
    }
    if says(name, &["KID"]) {
        header.kid = Some("nobody".to_owned());
    }
    if says(name, &["HS256", "HMAC", "CONFUSION", "ALG"]) && !says(name, &["NONE"]) {
        // The public key taken for a shared secret.
        header.alg = Algorithm::HS256;
        return Ok(encode(&header, &claims, &EncodingKey::from_secret(X.as_bytes()))?);
    }
    let signed = encode(&header, &claims, &EncodingKey::from_ec_pem(SIGNING.as_bytes())?)?;
    let (message, signature) = signed.rsplit_once('.').unwrap_or((&signed, ""));
    if says(name, &["NONE", "UNSIGNED"]) {
        let claims = message.split_once('.').map_or("", |(_, claims)| claims);
        // {"alg":"none","typ":"JWT"}
        return Ok(format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{claims}."));
    }
    if says(name, &["SIG", "SIGNATURE", "TAMPERED", "FORGED", "BADSIG", "INVALID"]) {
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
    fn a_token_opens_unless_its_name_says_what_is_wrong() {
        assert!(opens("JWT_OK") && opens("JWT_VALID"));
        let wrong = [
            "JWT_WRONG_AUD",
            "JWT_NO_AUD",
            "JWT_WRONG_ISS",
            "JWT_EXPIRED",
            "JWT_NBF_FUTURE",
            "JWT_ALG_NONE",
            "JWT_NONE",
            "JWT_HS256_CONFUSION",
            "JWT_UNKNOWN_KID",
            "JWT_BAD_SIG",
            "JWT_TAMPERED",
        ];
        for name in wrong {
            assert!(!opens(name), "{name}");
        }
    }

    #[test]
    fn keys_have_their_shape_and_standing() {
        let key_a = key("KEY_A");
        assert_eq!(key_a.split('_').map(str::len).collect::<Vec<_>>(), [3, 16, 64]);
        assert_ne!(key_a, key("KEY_B"));
        assert_eq!(standing("KEY_B"), Standing::Good);
        assert_eq!(standing("KEY_REVOKED"), Standing::Revoked);
        assert_eq!(key("KEY_WRONG_SECRET")[..20], key_a[..20]);
    }
}
