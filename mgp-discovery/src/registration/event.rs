//! The audit events of registrations (MGP §6, §15.4); `docs/audit.md` lists all audit events.

use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType, Target};
use mgp_types::service::{Principal, Rule, ServerId, shown_url};
use mgp_types::{ErrorCode, Object, RpcError, Timestamp};
use serde::Serialize;

use super::record::{Proposal, Record};

/// The name of the local tenant; events of other tenants contain the tenant's name.
const LOCAL: &str = "local";
/// The maximum length of a text in the details of an audit event, in bytes.
const MAX_TEXT_BYTES: usize = 1024;

pub(super) struct Event(AuditEvent);

impl Event {
    /// Creates the event of a requested, approved or rejected registration.
    pub(super) fn registered(by: &Principal, record: &Record, result: AuditResult) -> Self {
        Self::own("server_registered", by.into(), record.program.server(), result)
            .tenant(by)
            .program(&record.program)
            .words("justification", record.justification.as_deref())
    }

    /// Creates the event of the approval of a server that an agent created.
    pub(super) fn tool_created(by: &Principal, record: &Record) -> Self {
        let event_type = EventType::Other("TOOL_CREATED_DYNAMIC".into());
        let server = record.program.server();
        let wanted = record.created.iter().flat_map(|created| &created.wanted);
        Self::new(event_type, by.into(), Some(server), AuditResult::Success)
            .tenant(by)
            .program(&record.program)
            .words("created_by", Some(&format!("{:?}", record.by.to_principal())))
            .detail("capabilities", &wanted.collect::<Vec<_>>())
    }

    /// Creates the event of a registration that expired without a decision, or whose server did not start.
    pub(super) fn ended(record: &Record, result: AuditResult, cause: &str) -> Self {
        Self::own("server_registered", Actor::kernel(), record.program.server(), result)
            .program(&record.program)
            .words("cause", Some(cause))
    }

    pub(super) fn approval_requested(
        by: Actor,
        record: &Record,
        until: Option<&Timestamp>,
    ) -> Self {
        let server = record.program.server();
        Self::own("approval_requested", by, server, AuditResult::Blocked)
            .words("approval_id", Some(&record.program.fingerprint().to_string()))
            .code(ErrorCode::PERMISSION_DENIED)
            .words("expires_at", until.map(Timestamp::as_str))
    }

    /// Creates the event of the removal of a registered server.
    pub(super) fn deregistered(by: &Principal, server: ServerId, reason: Option<&str>) -> Self {
        Self::own("server_deregistered", by.into(), server, AuditResult::Success)
            .tenant(by)
            .words("justification", reason)
    }

    /// Creates the event of a refused administrative call, whose caller lacks the right.
    pub(super) fn administration_refused(
        by: &Principal,
        server: Option<ServerId>,
        method: &str,
        error: &RpcError,
    ) -> Self {
        Self::new(EventType::PermissionDenied, by.into(), server, AuditResult::Blocked)
            .tenant(by)
            .words("method", Some(method))
            .code(error.code())
            .words("rule", Rule::of(error).map(Rule::as_str))
    }

    /// Creates the event of a sandboxed server whose code was judged unsafe.
    pub(super) fn code_rejected(by: &Principal, server: ServerId) -> Self {
        Self::new(EventType::CodeRejected, by.into(), Some(server), AuditResult::Blocked)
            .tenant(by)
            .code(ErrorCode::CODE_SAFETY_VIOLATION)
    }

    pub(super) fn code(self, code: ErrorCode) -> Self {
        self.detail("code", &code).words("reason", code.name())
    }

    /// Sets the trace id of the call that caused the event.
    pub(super) fn during(mut self, trace: Option<&str>) -> Self {
        self.0.trace_id = trace.map(str::to_owned);
        self
    }

    pub(super) fn build(self) -> AuditEvent {
        self.0
    }

    fn new(
        event_type: EventType,
        by: Actor,
        server: Option<ServerId>,
        result: AuditResult,
    ) -> Self {
        let mut event = AuditEvent::new(Timestamp::now(), event_type, by, result);
        if let Some(server) = server {
            let mut target = Target::new();
            target.server_id = Some(cut(server.as_str()));
            event.target = Some(target);
        }
        Self(event)
    }

    fn own(name: &str, by: Actor, server: ServerId, result: AuditResult) -> Self {
        Self::new(EventType::Other(format!("dev.cloto.{name}").into()), by, Some(server), result)
    }

    fn tenant(self, by: &Principal) -> Self {
        let tenant = by.tenant().as_str();
        self.words("tenant", Some(tenant).filter(|tenant| *tenant != LOCAL))
    }

    /// Adds the program or the URL; arguments, headers, values of the environment and the query of the URL are left
    /// out, because they may be secret.
    fn program(self, program: &Proposal) -> Self {
        let files = program.files.iter().map(|file| file.sha256.as_str());
        let (name, target) = match &program.remote {
            Some(remote) => ("url", shown_url(&remote.url)),
            None => ("command", program.command.clone()),
        };
        self.words("trust", Some(program.trust.as_str()))
            .words(name, Some(&target))
            .words("approval_id", Some(&program.fingerprint().to_string()))
            .detail("files", &files.collect::<Vec<_>>())
    }

    fn words(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.detail(name, &cut(text)),
            None => self,
        }
    }

    fn detail<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        // Ignore the result, because strings and lists of strings can always be encoded.
        let _ = self.0.details.get_or_insert_with(Object::new).encode(name, value);
        self
    }
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_TEXT_BYTES)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_query_of_a_url_is_not_recorded() {
        let program = json!({
            "id": "far", "command": "", "real": "", "args": [], "cwd": "", "env": {}, "files": [],
            "remote": { "url": "https://far.example/mcp?key=geheim" }, "mgp": {},
            "trust": "sandboxed",
        });
        let program: Proposal = serde_json::from_value(program).unwrap();
        let (kernel, far) = (Actor::kernel(), ServerId::from("far"));
        let event = Event::own("server_registered", kernel, far, AuditResult::Success);
        let recorded = serde_json::to_string(&event.program(&program).build()).unwrap();
        assert!(recorded.contains("https://far.example/mcp"), "{recorded}");
        assert!(!recorded.contains("geheim"), "{recorded}");
    }
}
