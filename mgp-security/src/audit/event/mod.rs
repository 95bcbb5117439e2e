//! Events of §6.4 and our own, with who, what and which details each has (MGP §6.3); `docs/audit.md` is the table of all.
//!
//! Applies to: both.

mod grants;
mod guards;
mod servers;
#[cfg(test)]
pub(super) mod tests;

use std::fmt;
use std::time::SystemTime;

use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType, Target};
use mgp_types::service::{Context, Principal, Rule, ServerId};
use mgp_types::{ErrorCode, Object, Payload, Timestamp};
use serde::Serialize;

pub use guards::Flagged;
pub(super) use guards::NO_REQUEST;

/// The longest text of a detail, in bytes; what is longer is cut and ends with `…`.
///
/// Justifications and names come from callers, and a log is no place to keep a megabyte for them.
const WORDS_MAX: usize = 1024;

/// The tenant of whoever runs without any: it is not written.
const LOCAL: &str = "local";

/// Who brought an event about, and of which tenant, where that is not the local one.
#[derive(Clone, Debug, PartialEq)]
pub struct By {
    actor: Actor,
    tenant: Option<String>,
}

impl From<&Principal> for By {
    fn from(principal: &Principal) -> Self {
        Self { actor: principal.into(), tenant: tenant_of(principal).map(str::to_owned) }
    }
}

impl From<Actor> for By {
    fn from(actor: Actor) -> Self {
        Self { actor, tenant: None }
    }
}

/// The tenant of a principal, where it is written.
pub(super) fn tenant_of(principal: &Principal) -> Option<&str> {
    Some(principal.tenant().as_str()).filter(|tenant| *tenant != LOCAL)
}

/// An event that is being put together.
///
/// Each constructor fixes type, result, target and the details that are always there; the rest is added where it is
/// known. The time is now, unless it is [set](Self::at).
///
/// ```
/// use mgp_security::{Entry, Event};
/// use mgp_types::mgp::{AccessEntry, AccessPermission, EntryType};
/// use mgp_types::service::Principal;
///
/// let operator = Principal::new("acme", "ada").operator();
/// let mut entry = AccessEntry::new(EntryType::ToolGrant, "agent.one", "files", AccessPermission::Allow);
/// entry.tool_name = Some("read".to_owned());
/// let entry = Entry::new("acme", entry);
/// let event = Event::access_granted(&operator, &entry).during(Some("trace-1")).build();
/// assert_eq!(event.event_type.as_str(), "ACCESS_GRANTED");
/// assert_eq!((event.actor.kind.as_str(), event.actor.id.as_str()), ("user", "ada"));
/// assert_eq!(event.target.unwrap().tool_name.as_deref(), Some("read"));
/// ```
#[derive(Clone)]
#[must_use = "an event tells nobody until it is recorded"]
pub struct Event(Box<AuditEvent>);

impl Event {
    /// An event of any type; the constructors for each type say more.
    pub fn new(event_type: EventType, by: impl Into<By>, result: AuditResult) -> Self {
        let By { actor, tenant } = by.into();
        let event = AuditEvent::new(Timestamp::now(), event_type, actor, result);
        Self(Box::new(event)).words("tenant", tenant.as_deref())
    }

    /// The tenant it is of, where that is not the local one; a principal that acts says so itself.
    pub fn tenant(self, tenant: &str) -> Self {
        self.words("tenant", Some(tenant).filter(|tenant| *tenant != LOCAL))
    }

    /// An event of our own, named in reverse-domain notation under `dev.cloto.`.
    fn own(name: &'static str, by: impl Into<By>, result: AuditResult) -> Self {
        Self::new(EventType::Other(format!("dev.cloto.{name}").into()), by, result)
    }

    /// The server it is about; none is our own.
    pub fn server(mut self, server: Option<&ServerId>) -> Self {
        if let Some(server) = server {
            self.target().server_id = Some(words(server.as_str()));
        }
        self
    }

    /// The tool it is about.
    pub fn tool<'a>(mut self, tool: impl Into<Option<&'a str>>) -> Self {
        if let Some(tool) = tool.into() {
            self.target().tool_name = Some(words(tool));
        }
        self
    }

    /// The trace of the call that led to it.
    pub fn during(mut self, trace: Option<&str>) -> Self {
        self.0.trace_id = trace.map(str::to_owned);
        self
    }

    /// The trace and the server of a call that led to it.
    pub fn of_call(self, cx: &Context) -> Self {
        self.during(cx.trace.as_deref()).server(cx.server.as_ref())
    }

    /// When it happened, where that is not now.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.0.timestamp = time.into();
        self
    }

    /// Why somebody did it, in their words.
    pub fn justification<'a>(self, text: impl Into<Option<&'a str>>) -> Self {
        self.words("justification", text.into())
    }

    /// Until when what was done holds.
    pub fn expires_at<'a>(self, at: impl Into<Option<&'a Timestamp>>) -> Self {
        self.words("expires_at", at.into().map(Timestamp::as_str))
    }

    /// What held before.
    pub fn before<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.detail("before", value)
    }

    /// What holds now.
    pub fn after<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.detail("after", value)
    }

    /// What brought it about, where nobody did it by hand: `expired`, `undeclared`, `superseded`.
    pub fn cause(self, word: &str) -> Self {
        self.words("cause", Some(word))
    }

    /// The rule that decided.
    pub fn rule(self, rule: Option<&Rule>) -> Self {
        self.words("rule", rule.map(Rule::as_str))
    }

    /// The code that was answered, with its name as the reason.
    ///
    /// The text of an error stays out of the log: it may hold what a caller sent.
    pub fn code(self, code: ErrorCode) -> Self {
        self.detail("code", &code).words("reason", code.name())
    }

    /// Adds a member to the details; what cannot be written as JSON is left out.
    pub fn detail<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        if let Ok(value) = Payload::of(value) {
            self.0.details.get_or_insert_with(Object::new).insert(name, value);
        }
        self
    }

    /// The finished event.
    #[must_use]
    pub fn build(self) -> AuditEvent {
        *self.0
    }

    fn words(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.detail(name, &words(text)),
            None => self,
        }
    }

    fn target(&mut self) -> &mut Target {
        self.0.target.get_or_insert_default()
    }
}

impl From<Event> for AuditEvent {
    fn from(event: Event) -> Self {
        event.build()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn words(text: &str) -> String {
    cut(text, WORDS_MAX)
}

/// A text of at most so many bytes, and `…` where it was longer.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}
