//! Fills the placeholders in the test cases (rows) of the corpus, and lists the API keys for the server with
//! authentication.

use super::secrets::{self, KeyState};
use crate::run::Outcome;
use serde_json::{Value, json};

/// The beginnings of placeholder names; the only other placeholder is `PORT`.
const KINDS: [&str; 3] = ["KEY_", "JWT_", "SESSION_"];

/// Returns whether a byte can be part of a placeholder's name: a capital letter, a digit or `_`.
fn part_of_a_name(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

/// Returns the text with each placeholder replaced by the result of `fill`.
pub(super) fn filled(
    text: &str,
    fill: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        let inside = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        if inside || !bytes[at].is_ascii_uppercase() {
            at += 1;
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| part_of_a_name(**byte)).count();
        let name = &text[at..at + length];
        if name == "PORT"
            || KINDS.iter().any(|kind| name.starts_with(kind) && name.len() > kind.len())
        {
            out.push_str(&text[copied..at]);
            out.push_str(&fill(name)?);
            copied = at + length;
        }
        at += length;
    }
    out.push_str(&text[copied..]);
    Ok(out)
}

/// Returns the key or token to insert for a placeholder; `None` for a placeholder of another kind.
pub(super) fn secret(name: &str) -> Option<Outcome<String>> {
    if name.starts_with("KEY_") {
        Some(Ok(secrets::key(name)))
    } else {
        name.starts_with("JWT_").then(|| secrets::token(name))
    }
}

/// The placeholder for an API key that no row uses. The check opens the sessions of another caller with this key.
pub(super) const OTHER: &str = "KEY_OTHER";

/// Returns the contents of the JSON file with which the server starts: the API keys with these names, except those that
/// the server must not know; the public keys of tokens; and the claims that tokens must have.
pub(super) fn file(names: &[String]) -> Value {
    let mut keys = Vec::new();
    let mut revoked = Vec::new();
    for name in names {
        let key = secrets::key(name);
        let mut entry = json!({"key": key, "subject": name, "permissions": [secrets::SCOPE]});
        match secrets::key_state(name) {
            KeyState::Unknown => continue,
            KeyState::Revoked => revoked.push(key),
            KeyState::Expired => entry["expires"] = json!("2020-01-01T00:00:00Z"),
            KeyState::Good => {}
        }
        keys.push(entry);
    }
    json!({
        "keys": keys, "revoked": revoked, "jwks": secrets::key_set(), "issuer": secrets::ISSUER,
        "audience": secrets::AUDIENCE, "scopes": [secrets::SCOPE],
    })
}

/// Returns the names of the keys that are registered in every run.
pub(super) fn names() -> Vec<String> {
    let letters = ('A'..='F').map(|letter| format!("KEY_{letter}"));
    let more = ["KEY_OK", "KEY_VALID", "KEY_GOOD", "KEY_REVOKED", "KEY_EXPIRED", OTHER];
    letters.chain(more.map(str::to_owned)).collect()
}
