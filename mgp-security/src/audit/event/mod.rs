//! Constructors for the events of MGP §6.4, and for the events that this project adds, with actor, target and details
//! (MGP §6.3). `docs/audit.md` lists all events.

mod grants;
mod guards;
mod servers;
#[cfg(test)]
pub(super) mod tests;

use std::fmt;
use std::time::SystemTime;

use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType, Target};
use mgp_types::service::{Context, PeerProcess, Principal, Rule, ServerId};
use mgp_types::{ErrorCode, Object, Payload, Timestamp};
use serde::Serialize;

pub use guards::DefinitionFlag;
pub(crate) use guards::REQUESTS_ONLY;

/// The size limit for a text in the details, in bytes; longer texts are cut and end with `…`.
///
/// Callers write justifications and names, and must not be able to fill the log.
const MAX_TEXT: usize = 1024;

/// The tenant of principals without a configured tenant. Events do not contain it.
const LOCAL: &str = "local";

/// The size limit for the path of a program, in bytes.
const MAX_PROGRAM: usize = 256;

/// The actor of an event, with the actor's tenant and the agent's user; each of the two is left out if it is the local
/// one. Also contains the actor's process, if that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct EventActor {
    actor: Actor,
    tenant: Option<String>,
    user: Option<String>,
    process: Option<ActorProcess>,
}

/// The local process through which the actor of an event acts, i.e. the peer process of its connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ActorProcess {
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
}

impl From<&PeerProcess> for ActorProcess {
    fn from(process: &PeerProcess) -> Self {
        let path = |path: &Option<String>| path.as_deref().map(|path| cut(path, MAX_PROGRAM));
        Self { pid: process.pid, program: path(&process.program), parent: path(&process.parent) }
    }
}

impl From<&Principal> for EventActor {
    fn from(principal: &Principal) -> Self {
        Self {
            actor: principal.into(),
            tenant: tenant_of(principal).map(str::to_owned),
            user: user_of(principal).map(str::to_owned),
            process: principal.process().map(ActorProcess::from),
        }
    }
}

impl From<Actor> for EventActor {
    fn from(actor: Actor) -> Self {
        Self { actor, tenant: None, user: None, process: None }
    }
}

/// Returns the tenant of a principal as events contain it: `None` for the local tenant, because events leave it out.
pub(super) fn tenant_of(principal: &Principal) -> Option<&str> {
    Some(principal.tenant().as_str()).filter(|tenant| *tenant != LOCAL)
}

/// Returns the user for whom the agent of a principal acts, as events contain it. Returns `None` for the local user,
/// whom events leave out. Also returns `None` for a principal without an agent, because there the user itself is the
/// actor.
pub(super) fn user_of(principal: &Principal) -> Option<&str> {
    principal.as_agent()?;
    Some(principal.subject().as_str()).filter(|user| *user != LOCAL)
}

/// A builder of an audit event.
///
/// Each constructor sets type, result, target and the mandatory details; optional details are added by methods.
/// The time is now unless it is [set](Self::at).
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
/// let event = Event::access_granted(&operator, &entry).trace(Some("trace-1")).build();
/// assert_eq!(event.event_type.as_str(), "ACCESS_GRANTED");
/// assert_eq!((event.actor.kind.as_str(), event.actor.id.as_str()), ("user", "ada"));
/// assert_eq!(event.target.unwrap().tool_name.as_deref(), Some("read"));
/// ```
#[derive(Clone)]
#[must_use = "an event has no effect until it is recorded"]
pub struct Event(Box<AuditEvent>);

impl Event {
    /// Creates an event of any type. If a type has its own constructor, use that constructor instead.
    pub fn new(event_type: EventType, by: impl Into<EventActor>, result: AuditResult) -> Self {
        let EventActor { actor, tenant, user, process } = by.into();
        let event = AuditEvent::new(Timestamp::now(), event_type, actor, result);
        let event = Self(Box::new(event)).words("tenant", tenant.as_deref());
        let event = event.words("user", user.as_deref());
        match process {
            Some(process) => event.detail("process", &process),
            None => event,
        }
    }

    /// Sets the tenant, unless it is `local`. Not needed if the actor is a principal, because the principal contains
    /// the tenant.
    pub fn tenant(self, tenant: &str) -> Self {
        self.words("tenant", Some(tenant).filter(|tenant| *tenant != LOCAL))
    }

    /// Creates an event of a type that the specification does not define; its name begins with `dev.cloto.`.
    fn own(name: &'static str, by: impl Into<EventActor>, result: AuditResult) -> Self {
        Self::new(EventType::Other(format!("dev.cloto.{name}").into()), by, result)
    }

    /// Sets the target server; `None` means the server that runs in this process.
    pub fn server(mut self, server: Option<&ServerId>) -> Self {
        if let Some(server) = server {
            self.target().server_id = Some(words(server.as_str()));
        }
        self
    }

    /// Sets the tool that the event is about.
    pub fn tool<'a>(mut self, tool: impl Into<Option<&'a str>>) -> Self {
        if let Some(tool) = tool.into() {
            self.target().tool_name = Some(words(tool));
        }
        self
    }

    /// Sets the trace id of the call that caused the event.
    pub fn trace(mut self, trace: Option<&str>) -> Self {
        self.0.trace_id = trace.map(str::to_owned);
        self
    }

    /// Sets the trace id and the server of the call that caused the event.
    pub fn in_call(self, cx: &Context) -> Self {
        self.trace(cx.trace.as_deref()).server(cx.server.as_ref())
    }

    /// Sets the time at which the event occurred.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.0.timestamp = time.into();
        self
    }

    /// Adds the reason that the actor gave.
    pub fn justification<'a>(self, text: impl Into<Option<&'a str>>) -> Self {
        self.words("justification", text.into())
    }

    /// Adds the time at which the granted right, the key or the request expires.
    pub fn expires_at<'a>(self, at: impl Into<Option<&'a Timestamp>>) -> Self {
        self.words("expires_at", at.into().map(Timestamp::as_str))
    }

    /// Adds the changed value, as it was before the change.
    pub fn before<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.detail("before", value)
    }

    /// Adds the changed value, as it is after the change.
    pub fn after<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.detail("after", value)
    }

    /// Adds the cause of the event, e.g. `expired` or `deregistered` for an automatic change.
    pub fn cause(self, word: &str) -> Self {
        self.words("cause", Some(word))
    }

    /// Adds the rule that caused the event.
    pub fn rule(self, rule: Option<&Rule>) -> Self {
        self.words("rule", rule.map(Rule::as_str))
    }

    /// Adds the error code of the answer, with its name as the reason.
    ///
    /// The error message is not recorded: it can contain what a caller sent.
    pub fn code(self, code: ErrorCode) -> Self {
        self.detail("code", &code).words("reason", code.name())
    }

    /// Adds a member to the details; a value that cannot be written as JSON is left out.
    pub fn detail<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        if let Ok(value) = Payload::of(value) {
            self.0.details.get_or_insert_with(Object::new).insert(name, value);
        }
        self
    }

    /// Returns the finished event.
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
    cut(text, MAX_TEXT)
}

/// Returns at most `max` bytes of a text, with `…` after it if something was cut off.
///
/// Control characters stay, unlike in [`mgp_types::clip`]: the record must be exact, and JSON escapes them.
pub(super) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(max)])
}
