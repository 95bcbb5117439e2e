//! The reply to a call that did not fail.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::hop::merge_meta;
use super::question::InputRequired;
use crate::wire::{Payload, RpcError};

/// The reply to a call that did not fail.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The complete result of the call.
    Complete(Body),
    /// The callee needs answers before it can return a result; the caller must repeat the call with these answers (MCP
    /// 2026-07-28).
    InputRequired(InputRequired),
    /// The call continues as a task; the body is the description of the new task.
    Task(Body),
    /// No reply: the call is a notification, or a request that must not be answered.
    None,
}

/// The object that answers a call: the JSON that the callee sent, and the members to add to it when it is written.
#[derive(Clone, Debug)]
pub struct Body {
    raw: Payload,
    extra: Vec<(Cow<'static, str>, Payload)>,
    meta: Vec<(Cow<'static, str>, Payload)>,
}

impl Reply {
    /// Creates the reply with a complete result.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the value cannot be written as JSON.
    pub fn of<T: Serialize + ?Sized>(result: &T) -> Result<Self, RpcError> {
        Payload::of(result).map(Self::raw)
    }

    /// Creates the reply with a complete result in JSON, which is passed on unchanged.
    #[must_use]
    pub fn raw(result: Payload) -> Self {
        Self::Complete(Body::new(result))
    }

    /// Creates the reply with the result `{}`.
    #[must_use]
    pub fn empty() -> Self {
        Self::raw(Payload::empty_object())
    }

    /// Decodes the body of a complete result or a task.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the body cannot be decoded, or if the reply has no body.
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        match self {
            Self::Complete(body) | Self::Task(body) => serde_json::from_slice(&body.to_json())
                .map_err(|error| {
                    RpcError::internal(format!("unexpected result: {error}")).because(error)
                }),
            Self::InputRequired(_) => Err(RpcError::internal("the call needs answers first")),
            Self::None => Err(RpcError::internal("the call has no result")),
        }
    }

    /// Returns the body of a complete result or a task.
    #[must_use]
    pub fn as_body(&self) -> Option<&Body> {
        match self {
            Self::Complete(body) | Self::Task(body) => Some(body),
            _ => None,
        }
    }

    /// Returns a mutable reference to the body of a complete result or a task, to add members.
    #[must_use]
    pub fn as_body_mut(&mut self) -> Option<&mut Body> {
        match self {
            Self::Complete(body) | Self::Task(body) => Some(body),
            _ => None,
        }
    }

    /// Writes the JSON of the result; `{}` for [`Reply::None`].
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Complete(body) | Self::Task(body) => body.write(out),
            Self::InputRequired(needed) => needed.write(out),
            Self::None => out.extend_from_slice(b"{}"),
        }
    }
}

impl Body {
    /// Creates a body from a result; no members are added yet.
    #[must_use]
    pub fn new(raw: Payload) -> Self {
        Self { raw, extra: Vec::new(), meta: Vec::new() }
    }

    /// Returns the result as the callee sent it, without added members.
    #[must_use]
    pub fn as_raw(&self) -> &Payload {
        &self.raw
    }

    /// Replaces the result that the callee sent; added members stay.
    pub fn replace_raw(&mut self, raw: Payload) {
        self.raw = raw;
    }

    /// Adds a member to the result, or replaces the member of the same name.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: Payload) {
        let name = name.into();
        self.extra.retain(|(earlier, _)| *earlier != name);
        self.extra.push((name, value));
    }

    /// Adds a member to the `_meta` of the result.
    pub fn insert_meta(&mut self, name: impl Into<Cow<'static, str>>, value: Payload) {
        let name = name.into();
        self.meta.retain(|(earlier, _)| *earlier != name);
        self.meta.push((name, value));
    }

    /// Returns a member of the result: the added member or, if there is none, the member that the callee sent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Payload> {
        if let Some((_, added)) = self.extra.iter().rev().find(|(added, _)| added == name) {
            return Some(added.clone());
        }
        // Most results do not contain the member's name. A text search shows this faster than parsing.
        let raw = self.raw.as_str();
        let may_be_escaped = raw.contains('\\') && raw.contains("\\u");
        if !raw.contains(name) && !may_be_escaped {
            return None;
        }
        self.raw.get::<crate::Object>().ok()?.get(name).cloned()
    }

    /// Returns the JSON that [`write`](Self::write) writes.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.raw.as_str().len() + 32);
        self.write(&mut out);
        out
    }

    /// Writes the result with the added members; a result that is not an object is written without them.
    pub fn write(&self, out: &mut Vec<u8>) {
        let raw = self.raw.as_str();
        if (self.extra.is_empty() && self.meta.is_empty()) || !raw.trim_start().starts_with('{') {
            out.extend_from_slice(raw.as_bytes());
            return;
        }
        // The callee's result usually has none of the added members. In that case, write the added members first, and
        // copy the rest without parsing it. If a name in the result might be written with escapes, parse the result
        // instead.
        let is_plain = !raw.contains('\\') || !raw.contains("\\u") && !raw.contains("\\/");
        let fresh = |name: &str| is_plain && !raw.contains(&format!("\"{name}\""));
        if self.extra.iter().all(|(name, _)| fresh(name))
            && (self.meta.is_empty() || fresh("_meta"))
        {
            let mut more: Vec<(&str, Cow<'_, str>)> = self
                .extra
                .iter()
                .map(|(name, value)| (&**name, Cow::Borrowed(value.as_str())))
                .collect();
            if !self.meta.is_empty() {
                more.push(("_meta", Cow::Owned(merged(None, &self.meta))));
            }
            return splice(out, raw.trim(), &more);
        }
        let mut more = self.extra.clone();
        if !self.meta.is_empty() {
            let own = own_meta(raw);
            let meta = merged(own.as_ref().map(Payload::as_str), &self.meta);
            more.push((Cow::Borrowed("_meta"), Payload::from_trusted(meta)));
        }
        merge_meta(out, Some(raw), &more);
    }
}

fn merged(original: Option<&str>, more: &[(Cow<'static, str>, Payload)]) -> String {
    let mut out = Vec::new();
    merge_meta(&mut out, original, more);
    // Cannot fail: all parts are UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

fn splice(out: &mut Vec<u8>, object: &str, more: &[(&str, Cow<'_, str>)]) {
    let rest = object[1..].trim_start();
    out.push(b'{');
    for (index, (name, value)) in more.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value.as_bytes());
    }
    if rest != "}" {
        out.push(b',');
    }
    out.extend_from_slice(rest.as_bytes());
}

fn own_meta(raw: &str) -> Option<Payload> {
    #[derive(serde::Deserialize)]
    struct Own {
        #[serde(rename = "_meta")]
        meta: Option<Payload>,
    }
    serde_json::from_str::<Own>(raw).ok()?.meta
}
