//! The events that tell of registrations (MGP §6, §15.4); `docs/audit.md` is the table of all.
//!
//! Applies to: inbound.

use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType, Target};
use mgp_types::service::{Principal, Rule, ServerId};
use mgp_types::{ErrorCode, Object, RpcError, Timestamp};
use serde::Serialize;

use super::record::{Proposal, Record};

/// The tenant of whoever runs without any: it is not written.
const LOCAL: &str = "local";
/// The longest text of a detail, in bytes.
const WORDS_BYTES: usize = 1024;

/// An event that is being put together.
pub(super) struct Event(AuditEvent);

impl Event {
    /// A registration was made, waits, was refused or did not start.
    pub(super) fn registered(by: &Principal, record: &Record, result: AuditResult) -> Self {
        Self::own("server_registered", by.into(), record.program.server(), result)
            .tenant(by)
            .program(&record.program)
            .words("justification", record.justification.as_deref())
    }

    /// A registration that nobody decided about is over, or did not start.
    pub(super) fn ended(record: &Record, result: AuditResult, cause: &str) -> Self {
        Self::own("server_registered", Actor::kernel(), record.program.server(), result)
            .program(&record.program)
            .words("cause", Some(cause))
    }

    /// An operator is asked about what is to be run.
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

    /// A registered server was removed.
    pub(super) fn deregistered(by: &Principal, server: ServerId, reason: Option<&str>) -> Self {
        Self::own("server_deregistered", by.into(), server, AuditResult::Success)
            .tenant(by)
            .words("justification", reason)
    }

    /// Somebody called a method and may not.
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

    /// The code of a sandboxed server is not safe.
    pub(super) fn code_rejected(by: &Principal, server: ServerId) -> Self {
        Self::new(EventType::CodeRejected, by.into(), Some(server), AuditResult::Blocked)
            .tenant(by)
            .code(ErrorCode::CODE_SAFETY_VIOLATION)
    }

    pub(super) fn code(self, code: ErrorCode) -> Self {
        self.detail("code", &code).words("reason", code.name())
    }

    /// The trace of the call that led to it.
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

    /// What is run, without what may be secret in it: arguments and values of the environment.
    fn program(self, program: &Proposal) -> Self {
        let files = program.files.iter().map(|file| file.sha256.as_str());
        self.words("trust", Some(program.trust.as_str()))
            .words("command", Some(&program.command))
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
        // Texts and lists of them can always be written.
        let _ = self.0.details.get_or_insert_with(Object::new).encode(name, value);
        self
    }
}

fn cut(text: &str) -> String {
    if text.len() <= WORDS_BYTES {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(WORDS_BYTES)])
}
