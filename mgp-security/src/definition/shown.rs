//! The part of a definition that a model reads, and its fingerprint (MGP §4).
//!
//! The fingerprint covers every member except these, so that a change of an unknown member is detected:
//! - `_meta` is for programs. Only the copy of `security` in it is covered, if `security` itself is absent.
//! - `icons` are for people, and their URLs change often.
//! - `execution` declares whether a call can become a task; no decision depends on it.
//! - `security.effective_risk_level` is set by this crate, which replaces any value from the server.

use std::sync::Arc;

use mgp_types::{Extras, Payload, RpcError, Sha256Hash, canonical, mcp};

use super::number::exact;

/// The maximum size of a definition in bytes; a larger one is refused without being read.
pub(super) const SIZE_MAX: usize = 256 * 1024;

/// Members that a model does not see and on which no decision depends.
const UNSEEN: [&str; 3] = ["_meta", "icons", "execution"];

/// A definition that was parsed successfully.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// The definition, parsed as a tool.
    pub(super) tool: Arc<mcp::Tool>,
    /// The members that a model reads, as canonical JSON.
    pub(super) text: Payload,
    /// The hash of `text`.
    pub(super) fingerprint: Sha256Hash,
}

/// The reason why a definition cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// The definition is too large.
    #[error("the definition has {0} bytes, at most {SIZE_MAX} are looked at")]
    Large(usize),
    /// The JSON does not describe a tool, or is ambiguous, so that two parsers could read different tools from it.
    #[error("the definition cannot be read: {0}")]
    Malformed(String),
}

impl From<RpcError> for Unreadable {
    fn from(error: RpcError) -> Self {
        Self::Malformed(error.message().to_owned())
    }
}

impl Shown {
    /// Parses a definition as the server listed it.
    pub(super) fn read(raw: &Payload) -> Result<Self, Unreadable> {
        let size = raw.as_str().len();
        if size > SIZE_MAX {
            return Err(Unreadable::Large(size));
        }
        // Duplicate member names are refused here, because parsers differ in which one they use.
        let clean = Payload::from_trusted(canonical(raw.as_str())?);
        let tool: mcp::Tool = clean.get()?;
        let mut seen: Extras = clean.get()?;
        seen = seen
            .iter()
            .filter(|(name, value)| !UNSEEN.contains(name) && !value.is_null())
            .map(|(name, value)| (name, value.clone()))
            .collect();
        if let Some(security) = tool.find_security() {
            seen.insert("security", own_words(&Payload::of(&security)?));
        }
        let text = exact(&canonical(Payload::of(&seen)?.as_str())?);
        let fingerprint = Sha256Hash::digest(text.as_bytes());
        Ok(Self { tool: tool.into(), text: Payload::from_trusted(text), fingerprint })
    }
}

/// Returns the security metadata that the server declared, without the effective risk.
fn own_words(security: &Payload) -> Payload {
    let Ok(mut members) = security.get::<Extras>() else { return security.clone() };
    match members.remove("effective_risk_level") {
        Some(_) => Payload::of(&members).unwrap_or_else(|_| security.clone()),
        None => security.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(raw: &str) -> Sha256Hash {
        Shown::read(&Payload::parse(raw.to_owned()).unwrap()).unwrap().fingerprint
    }

    #[track_caller]
    fn same(other: &str) {
        assert_eq!(fingerprint(TOOL), fingerprint(other), "{other}");
    }

    #[track_caller]
    fn differs(other: &str) {
        assert_ne!(fingerprint(TOOL), fingerprint(other), "{other}");
    }

    const TOOL: &str = r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"security":{"risk_level":"safe"}}"#;

    #[test]
    fn spelling_and_what_no_model_sees_do_not_count() {
        same(
            r#" {"security":{"risk_level":"safe"}, "inputSchema" : {"type":"object","maximum":1e1}, "name":"\u0074"}"#,
        );
        same(
            r#"{"name":"t","title":null,"inputSchema":{"maximum":10.0,"type":"object"},"security":{"risk_level":"safe","effective_risk_level":"dangerous"},"_meta":{"at":7},"icons":[{"src":"https://a.example/1.png"}],"execution":{"taskSupport":"optional"}}"#,
        );
        same(
            r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"_meta":{"dev.cloto/mgp":{"security":{"risk_level":"safe"}}}}"#,
        );
    }

    #[test]
    fn everything_a_model_sees_counts() {
        differs(
            r#"{"name":"t","inputSchema":{"maximum":11,"type":"object"},"security":{"risk_level":"safe"}}"#,
        );
        differs(r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"}}"#);
        differs(
            r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"security":{"risk_level":"safe"},"hint":"x"}"#,
        );
        differs(
            r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"security":{"risk_level":"safe"},"annotations":{"readOnlyHint":true}}"#,
        );
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        let twice = r#"{"name":"t","description":"a","description":"b","inputSchema":{}}"#;
        assert!(Shown::read(&Payload::parse(twice.to_owned()).unwrap()).is_err());
        let large = format!(
            r#"{{"name":"t","inputSchema":{{}},"description":"{}"}}"#,
            "x".repeat(SIZE_MAX)
        );
        assert!(matches!(Shown::read(&Payload::from_trusted(large)), Err(Unreadable::Large(_))));
    }
}
