//! What the log keeps of a call's arguments: a digest nobody can guess from, unless somebody asks for more (MGP §6.3).
//!
//! Applies to: both.

use std::fmt;

use mgp_types::service::{DigestOf, Digested, Start};
use mgp_types::{Payload, canonical, is_canonical, unguessable};
use serde::Serialize;
use serde_json::value::RawValue;
use siphasher::sip128::SipHasher24;

use super::log::DigestKey;

/// Arguments up to this size are brought into canonical form before they are digested; longer ones as they came.
const CANONICAL_MAX: usize = 64 * 1024;

/// The longest arguments that are written in full.
const FULL_MAX: usize = 16 * 1024;

/// How many names are written at most.
const NAMES_MAX: usize = 32;

/// The longest name that is written, in bytes; longer ones are cut and end with `…`.
const NAME_MAX: usize = 64;

/// How much of a call's arguments is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arguments {
    /// A keyed digest and the size: equal arguments can be told, and nothing else.
    #[default]
    Redacted,
    /// The names of the members as well, 32 at most.
    Names,
    /// The arguments themselves as well, up to 16 KiB in canonical form; what is longer is as [`Names`](Self::Names).
    Full,
}

/// How calls are recorded.
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
    key: Option<[u8; 32]>,
}

impl AuditConfig {
    /// Arguments are redacted, under a key that is random for each layer.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much of the arguments is recorded.
    pub fn arguments(mut self, arguments: Arguments) -> Self {
        self.arguments = arguments;
        self
    }

    /// The secret of the installation that digests are made with, so that they can be compared across restarts.
    ///
    /// Whoever has it can check guesses at arguments; it belongs where no reader of the log finds it.
    ///
    /// A log that [keeps one](crate::LogConfig::digest_key) has it as [`AuditLog::digest_key`](crate::AuditLog::digest_key).
    pub fn key(mut self, key: impl Into<DigestKey>) -> Self {
        self.key = Some(*key.into().as_bytes());
        self
    }

    /// Whether a secret was set.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }
}

impl fmt::Debug for AuditConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditConfig").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

/// Writes the member `arguments` of an event's details.
#[derive(Clone)]
pub(super) struct Recorder {
    arguments: Arguments,
    /// None where the system has no randomness to make one: then there is no digest.
    key: Option<SipHasher24>,
}

impl Recorder {
    pub(super) fn new(config: &AuditConfig) -> Self {
        let key = config.key.or_else(random_key).map(|key| {
            // A key of its own, whatever else the installation's secret is used for.
            let own = blake3::derive_key("mgp audit digests of arguments, version 1", &key);
            SipHasher24::new_with_key(own.first_chunk().unwrap_or(&[0; 16]))
        });
        Self { arguments: config.arguments, key }
    }

    /// Records arguments, which are valid JSON.
    pub(super) fn note(&self, text: &str, start: &mut Start) {
        let form = Form::of(text);
        let of = match form {
            Form::AsItCame(_) => DigestOf::AsItCame,
            _ => DigestOf::Canonical,
        };
        let digest = self.key.map(|key| key.hash(form.text().as_bytes()).as_bytes());
        let digested = Digested::new(digest, text.len().try_into().unwrap_or(u64::MAX), of);
        if self.arguments == Arguments::Redacted {
            start.arguments = Some(digested);
        } else {
            start.note("arguments", self.shown(&form, digested));
        }
    }

    /// Adds the arguments or their names; only canonical text is written, so that it stays on one line.
    fn shown(&self, form: &Form<'_>, digested: Digested) -> Payload {
        let mut out = Vec::new();
        digested.push(&mut out);
        out.pop();
        let full = match form {
            Form::AsItCame(_) => None,
            canonical => Some(canonical.text()).filter(|text| text.len() <= FULL_MAX),
        };
        if let (Arguments::Full, Some(text)) = (self.arguments, full) {
            out.extend_from_slice(br#","value":"#);
            out.extend_from_slice(text.as_bytes());
        } else if let Ok(names) = serde_json::to_string(&Names::of(form.text())) {
            out.extend_from_slice(br#","names":"#);
            out.extend_from_slice(names.as_bytes());
        }
        out.push(b'}');
        // Everything in it was text before.
        Payload::from_trusted(String::from_utf8(out).unwrap_or_default())
    }
}

/// The text that is digested.
enum Form<'a> {
    Already(&'a str),
    Canonical(String),
    /// Too long, nested too deep, or with a member that stands twice.
    AsItCame(&'a str),
}

impl<'a> Form<'a> {
    fn of(text: &'a str) -> Self {
        if text.len() > CANONICAL_MAX {
            return Self::AsItCame(text);
        }
        if is_canonical(text) {
            return Self::Already(text);
        }
        canonical(text).map_or(Self::AsItCame(text), Self::Canonical)
    }

    fn text(&self) -> &str {
        match self {
            Self::Already(text) | Self::AsItCame(text) => text,
            Self::Canonical(text) => text,
        }
    }
}

/// The names of an object's members; none where the text is no object.
#[derive(Serialize)]
#[serde(transparent)]
struct Names(Vec<String>);

impl Names {
    fn of(text: &str) -> Self {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, &RawValue>()? {
                    if names.len() < NAMES_MAX {
                        names.push(super::event::cut(&name, NAME_MAX));
                    }
                }
                Ok(Names(names))
            }
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        serde::Deserializer::deserialize_map(&mut reader, Visitor).unwrap_or(Self(Vec::new()))
    }
}

fn random_key() -> Option<[u8; 32]> {
    let secret = unguessable().and_then(|first| Ok(first + &unguessable()?));
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
        Call, Context, Ended, Method, Outcome, Params, Peer, Principal, Scope, ScopeKind,
    };

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn of(arguments: Arguments, text: &str) -> Object {
        let config = AuditConfig::new().arguments(arguments).key(KEY);
        written(&config, text).get().unwrap()
    }

    /// What stands in the event of a call.
    fn written(config: &AuditConfig, text: &str) -> Payload {
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
        let params = Params::split("tools/call", r#"{"name":"t"}"#.into()).unwrap();
        let call = Call::request(Method::of("tools/call"), params, cx);
        let mut start = Start::of(&call).unwrap();
        Recorder::new(config).note(text, &mut start);
        let event = Ended::now(start.into(), Outcome::Success).to_event();
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
    fn nothing_of_the_arguments_is_written() {
        let text = r#"{"password":"hunter2"}"#;
        let written = written(&AuditConfig::new().key(KEY), text);
        assert!(!written.as_str().contains("hunter2") && !written.as_str().contains("password"));
        assert!(written.as_str().ends_with(r#","bytes":22}"#), "{}", written.as_str());
    }

    #[test]
    fn names_and_values_are_written_where_they_are_wanted() {
        let text = "{\n\"b\": \"hunter2\", \"a\": {\"c\": 1}}";
        let names = of(Arguments::Names, text);
        assert_eq!(names.decode::<Vec<String>>("names").unwrap().unwrap(), ["a", "b"]);
        assert!(names.get("value").is_none());
        let full = of(Arguments::Full, text);
        assert_eq!(full.get("value").unwrap().as_str(), r#"{"a":{"c":1},"b":"hunter2"}"#);
    }

    #[test]
    fn what_is_too_long_or_odd_is_digested_as_it_came() {
        let twice = of(Arguments::Full, r#"{"a":1,"a":2}"#);
        assert_eq!(twice.decode::<bool>("raw").unwrap(), Some(true));
        assert!(twice.get("value").is_none());
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(CANONICAL_MAX));
        let long = of(Arguments::Full, &long);
        assert_eq!(long.decode::<bool>("raw").unwrap(), Some(true));
        assert_eq!(long.decode::<Vec<String>>("names").unwrap().unwrap(), ["a"]);
        let longish = format!(r#"{{"a":"{}"}}"#, "x".repeat(FULL_MAX));
        let longish = of(Arguments::Full, &longish);
        assert!(longish.get("value").is_none() && longish.get("raw").is_none());
    }

    #[test]
    fn names_are_bounded() {
        let many: Object =
            (0..100).map(|n| (format!("{n}{}", "n".repeat(200)), Payload::null())).collect();
        let names = of(Arguments::Names, &serde_json::to_string(&many).unwrap());
        let names: Vec<String> = names.decode("names").unwrap().unwrap();
        assert_eq!(names.len(), NAMES_MAX);
        assert!(names.iter().all(|name| name.len() == NAME_MAX + '…'.len_utf8()));
    }
}
