//! The record of a call's arguments: a keyed digest by default, names or values if configured (MGP §6.3).

use std::fmt;

use mgp_types::proposal::Intent;
use mgp_types::service::{ArgumentsDigest, CallRecord, Context, DigestForm};
use mgp_types::{Payload, canonical, clip, is_canonical, random_name};
use serde::Serialize;
use serde_json::value::RawValue;
use siphasher::sip128::SipHasher24;

use super::log::DigestKey;

/// The maximum length of arguments that are converted to canonical form, in bytes. Longer arguments are digested as
/// received.
const MAX_CANONICAL: usize = 64 * 1024;

/// The size limit for arguments that are recorded in full, in bytes. Of larger arguments, only the names are recorded.
const MAX_FULL: usize = 16 * 1024;

const MAX_NAMES: usize = 32;

/// The size limit for a recorded intent, i.e. the purpose that a caller gives for a call, in bytes.
const MAX_INTENT: usize = 512;

/// The size limit for a recorded name, in bytes. A longer name is cut and ends with `…`.
const MAX_NAME: usize = 64;

/// The part of a call's arguments that is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arguments {
    /// A keyed digest and the size. A reader can recognize equal arguments and learns nothing else about them.
    #[default]
    Redacted,
    /// The digest, the size and the names of up to 32 members.
    Names,
    /// The digest, the size and the arguments. Arguments without a canonical form, or with one longer than 16 KiB, are
    /// recorded as [`Names`](Self::Names).
    Full,
}

/// Settings that determine what the audit record of a call contains.
///
/// ```
/// use mgp_security::{Arguments, AuditConfig};
///
/// let key = [7; 32]; // from the installation's own secrets
/// let config = AuditConfig::new().arguments(Arguments::Names).key(key);
/// # drop(config);
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct AuditConfig {
    arguments: Arguments,
    omits_intent: bool,
    key: Option<[u8; 32]>,
}

impl AuditConfig {
    /// Creates settings that redact arguments, with a random key for each layer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how much of the arguments is recorded.
    pub fn arguments(mut self, arguments: Arguments) -> Self {
        self.arguments = arguments;
        self
    }

    /// Sets whether the intent of a call is recorded, i.e. the purpose that the caller gives with the extension
    /// `intent_hints`. Default: yes.
    pub fn intent(mut self, is_recorded: bool) -> Self {
        self.omits_intent = !is_recorded;
        self
    }

    /// Sets the installation's secret, from which the key of the digests is derived. With the same secret, digests can
    /// be compared across restarts.
    ///
    /// A reader of the log who has the secret can verify guesses of arguments, so store it where log readers cannot
    /// read it.
    ///
    /// If an [`AuditLog`](crate::AuditLog) has a [key file](crate::LogConfig::digest_key),
    /// [`AuditLog::digest_key`](crate::AuditLog::digest_key) returns the key in it, which can be passed to this method.
    pub fn key(mut self, key: impl Into<DigestKey>) -> Self {
        self.key = Some(*key.into().as_bytes());
        self
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }
}

mgp_types::opaque_debug!(AuditConfig { arguments });

/// A recorder of the arguments and the intent of a call in the details of its event.
#[derive(Clone)]
pub(super) struct ArgumentRecorder {
    arguments: Arguments,
    omits_intent: bool,
    /// The keyed hasher; `None` if the system cannot provide a random key, and then no digest is recorded.
    key: Option<SipHasher24>,
}

impl ArgumentRecorder {
    pub(super) fn new(config: &AuditConfig) -> Self {
        let key = config.key.or_else(random_key).map(|key| {
            // Derive a separate key, because the installation might use the same secret for other purposes.
            let own = blake3::derive_key("mgp audit digests of arguments, version 1", &key);
            SipHasher24::new_with_key(own.first_chunk().unwrap_or(&[0; 16]))
        });
        Self { arguments: config.arguments, omits_intent: config.omits_intent, key }
    }

    /// Records the intent that the caller gave, if any.
    pub(super) fn note_intent(&self, cx: &Context, start: &CallRecord) {
        if self.omits_intent {
            return;
        }
        if let Ok(Some(Intent(text))) = cx.member::<Intent>()
            && let Ok(text) = Payload::of(&clip(&text, MAX_INTENT))
        {
            start.add_note("intent", text);
        }
    }

    /// Records arguments, which must be valid JSON.
    pub(super) fn note(&self, text: &str, start: &mut CallRecord) {
        let form = DigestInput::of(text);
        let of = match form {
            DigestInput::AsReceived(_) => DigestForm::AsItCame,
            _ => DigestForm::Canonical,
        };
        let digest = self.key.map(|key| key.hash(form.text().as_bytes()).as_bytes());
        let digested = ArgumentsDigest::new(digest, text.len().try_into().unwrap_or(u64::MAX), of);
        if self.arguments == Arguments::Redacted {
            start.arguments = Some(digested);
        } else {
            start.add_note("arguments", self.shown(&form, digested));
        }
    }

    /// Returns the digest of arguments with the arguments themselves, if [`Arguments::Full`] is configured and they are
    /// short, else with their names. The arguments are written only in canonical form, which contains no newline.
    fn shown(&self, form: &DigestInput<'_>, digested: ArgumentsDigest) -> Payload {
        let mut out = Vec::new();
        digested.push(&mut out);
        out.pop();
        let full = match form {
            DigestInput::AsReceived(_) => None,
            canonical => Some(canonical.text()).filter(|text| text.len() <= MAX_FULL),
        };
        if let (Arguments::Full, Some(text)) = (self.arguments, full) {
            out.extend_from_slice(br#","value":"#);
            out.extend_from_slice(text.as_bytes());
        } else if let Ok(names) = serde_json::to_string(&MemberNames::of(form.text())) {
            out.extend_from_slice(br#","names":"#);
            out.extend_from_slice(names.as_bytes());
        }
        out.push(b'}');
        // The bytes consist of valid text, so the conversion cannot fail.
        Payload::from_trusted(String::from_utf8(out).unwrap_or_default())
    }
}

/// The text that is digested.
enum DigestInput<'a> {
    Unchanged(&'a str),
    Canonical(String),
    /// The text as received. It is too long, is nested too deeply or has a duplicate member, so it has no canonical
    /// form here.
    AsReceived(&'a str),
}

impl<'a> DigestInput<'a> {
    fn of(text: &'a str) -> Self {
        if text.len() > MAX_CANONICAL {
            return Self::AsReceived(text);
        }
        if is_canonical(text) {
            return Self::Unchanged(text);
        }
        canonical(text).map_or(Self::AsReceived(text), Self::Canonical)
    }

    fn text(&self) -> &str {
        match self {
            Self::Unchanged(text) | Self::AsReceived(text) => text,
            Self::Canonical(text) => text,
        }
    }
}

/// The names of an object's members; empty if the text is not an object.
#[derive(Serialize)]
#[serde(transparent)]
struct MemberNames(Vec<String>);

impl MemberNames {
    fn of(text: &str) -> Self {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = MemberNames;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<MemberNames, A::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, &RawValue>()? {
                    if names.len() < MAX_NAMES {
                        names.push(super::event::cut(&name, MAX_NAME));
                    }
                }
                Ok(MemberNames(names))
            }
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        serde::Deserializer::deserialize_map(&mut reader, Visitor).unwrap_or(Self(Vec::new()))
    }
}

fn random_key() -> Option<[u8; 32]> {
    let secret = random_name().and_then(|first| Ok(first + &random_name()?));
    match secret {
        Ok(secret) => Some(blake3::derive_key("mgp audit arguments v1", secret.as_bytes())),
        Err(error) => {
            tracing::error!(%error, "arguments are recorded without a digest");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Object;
    use mgp_types::service::{
        AuditOutcome, Call, Context, EndedCall, Method, Params, Peer, Principal, Scope, ScopeKind,
    };

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn of(arguments: Arguments, text: &str) -> Object {
        let config = AuditConfig::new().arguments(arguments).key(KEY);
        written(&config, text).get().unwrap()
    }

    fn written(config: &AuditConfig, text: &str) -> Payload {
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
        let params = Params::split("tools/call", r#"{"name":"t"}"#.into()).unwrap();
        let call = Call::request(Method::of("tools/call"), params, cx);
        let mut start = CallRecord::from_call(&call).unwrap();
        ArgumentRecorder::new(config).note(text, &mut start);
        let event = EndedCall::now(start.into(), AuditOutcome::Success).to_event();
        event.details.unwrap().get("arguments").unwrap().clone()
    }

    fn digest(text: &str) -> String {
        of(Arguments::Redacted, text).decode("digest").unwrap().unwrap()
    }

    #[test]
    fn one_meaning_has_one_digest_and_the_key_decides_it() {
        let one = digest(r#"{"a":1,"b":[true,"x\n"]}"#);
        assert_eq!(one.len(), 32);
        assert_eq!(digest(r#"{ "b" : [ true, "x\u000a" ], "\u0061" : 1 }"#), one);
        assert_ne!(digest(r#"{"a":2,"b":[true,"x\n"]}"#), one);
        let other = written(&AuditConfig::new().key([8; 32]), r#"{"a":1,"b":[true,"x\n"]}"#);
        assert!(!other.as_str().contains(&one));
        let random = || written(&AuditConfig::new(), "{}");
        assert_ne!(random(), random());
    }

    #[test]
    fn redacted_arguments_are_not_written() {
        let text = r#"{"password":"hunter2"}"#;
        let written = written(&AuditConfig::new().key(KEY), text);
        assert!(!written.as_str().contains("hunter2") && !written.as_str().contains("password"));
        assert!(written.as_str().ends_with(r#","bytes":22}"#), "{}", written.as_str());
    }

    #[test]
    fn names_and_values_are_written_only_if_configured() {
        let text = "{\n\"b\": \"hunter2\", \"a\": {\"c\": 1}}";
        let names = of(Arguments::Names, text);
        assert_eq!(names.decode::<Vec<String>>("names").unwrap().unwrap(), ["a", "b"]);
        assert!(names.get("value").is_none());
        let full = of(Arguments::Full, text);
        assert_eq!(full.get("value").unwrap().as_str(), r#"{"a":{"c":1},"b":"hunter2"}"#);
    }

    #[test]
    fn long_or_odd_arguments_are_digested_as_received() {
        let twice = of(Arguments::Full, r#"{"a":1,"a":2}"#);
        assert_eq!(twice.decode::<bool>("raw").unwrap(), Some(true));
        assert!(twice.get("value").is_none());
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(MAX_CANONICAL));
        let long = of(Arguments::Full, &long);
        assert_eq!(long.decode::<bool>("raw").unwrap(), Some(true));
        assert_eq!(long.decode::<Vec<String>>("names").unwrap().unwrap(), ["a"]);
        let longish = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_FULL));
        let longish = of(Arguments::Full, &longish);
        assert!(longish.get("value").is_none() && longish.get("raw").is_none());
    }

    #[test]
    fn names_are_bounded() {
        let many: Object =
            (0..100).map(|n| (format!("{n}{}", "n".repeat(200)), Payload::null())).collect();
        let names = of(Arguments::Names, &serde_json::to_string(&many).unwrap());
        let names: Vec<String> = names.decode("names").unwrap().unwrap();
        assert_eq!(names.len(), MAX_NAMES);
        assert!(names.iter().all(|name| name.len() == MAX_NAME + '…'.len_utf8()));
    }
}
