//! The kernel's events: those that the kernel itself emits, and those that it forwards from its servers (MGP §13).
//!
//! An operator of the tenant `local` receives all events, an operator of another tenant those of its tenant. Any other
//! subscriber receives an event only if its lists contain the server or tool of the event, and never an event about a
//! call of another caller.

mod by_name;
mod deliveries;
mod failures;
mod forward;
mod notify;
mod router;
mod security;
mod webhooks;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use mgp_discovery::KernelConfig;
use mgp_lifecycle::Transition;
use mgp_security::{Administration, Governance};
use mgp_server_sdk::{EventDraft, EventHub, EventLimits, EventSubject};
use mgp_types::mgp::{ServerState, Severity};
use mgp_types::proposal::TransactionRecord;
use mgp_types::service::{AgentId, Context, Principal, ServerId, TenantId};
use mgp_types::{Payload, RpcError};
use serde::Serialize;
use tokio::time::Instant;

use self::by_name::ServersByName;
use self::forward::ForwardLog;
use crate::caller_view::CallerView;

use self::deliveries::Deliveries;
pub(crate) use self::deliveries::DeliveryContext;
pub(crate) use self::notify::OpenDecisions;
pub use self::notify::notify_test;
pub(crate) use self::security::follow as follow_audit;

const CHANNELS: [(&str, &str); 11] = [
    (SERVER_STATE, "A server changed its state"),
    (SYSTEM_ERROR, "A server failed"),
    (TOOL_STARTED, "A call of a tool began"),
    (TOOL_COMPLETED, "A call of a tool ended with a result"),
    (TOOL_FAILED, "A call of a tool failed or was refused"),
    (ACCESS_DENIED, "A caller was refused"),
    (VALIDATION_FAILED, "A validator rejected the arguments of a call"),
    (DEFINITION_CHANGED, "The definition of a tool changed"),
    (APPROVAL_REQUESTED, "A decision waits for an operator"),
    (APPROVAL_DECIDED, "An operator decided"),
    (
        TRANSACTION_STUCK,
        "A transaction could not be rolled back completely, and waits for an operator",
    ),
];

const SERVER_STATE: &str = "system.server_state";
const SYSTEM_ERROR: &str = "system.error";
const TOOL_STARTED: &str = "tool.started";
const TOOL_COMPLETED: &str = "tool.completed";
const TOOL_FAILED: &str = "tool.failed";
const ACCESS_DENIED: &str = "security.access_denied";
const VALIDATION_FAILED: &str = "security.validation_failed";
const DEFINITION_CHANGED: &str = "security.definition_changed";
const APPROVAL_REQUESTED: &str = "approvals.requested";
const APPROVAL_DECIDED: &str = "approvals.decided";
const TRANSACTION_STUCK: &str = "transactions.stuck";

/// The key under which a call keeps the duration of its earlier rounds, in milliseconds, until its next request
/// (round). If the key is present, the start of the call was published in an earlier round.
const STARTED_KEY: &str = "mgp.event.started";

/// The reserved size, in bytes, of the text with the data that all events of a call contain. The data usually fit, so
/// that no second allocation is needed.
const FACTS_CAPACITY: usize = 256;

/// The reserved size of the members that each event adds after `facts`, in bytes, to avoid a second allocation.
const ADDED_CAPACITY: usize = 64;

/// The events of a kernel. This handle is cheap to clone.
#[derive(Clone)]
pub(crate) struct KernelEvents {
    hub: EventHub,
    forwards: Arc<ForwardLog>,
    by_name: ServersByName,
    pub(crate) deliveries: Deliveries,
}

mgp_types::opaque_debug!(KernelEvents);

/// A call whose start was published as an event. A caller can repeat a call with answers to questions; each of these
/// requests is a round of the call. The start is published in the first round.
pub(crate) struct PublishedCall<'a> {
    events: &'a KernelEvents,
    cx: &'a Context,
    server: &'a ServerId,
    tool: &'a str,
    /// The data that all events of the call contain, as JSON without the closing brace.
    facts: String,
    began: Instant,
    /// The duration of the earlier requests (rounds) of the call; zero if the caller has not repeated the call.
    earlier: Duration,
}

impl KernelEvents {
    pub(crate) fn new(governance: &Governance, view: &CallerView) -> Self {
        let (governance, view) = (governance.clone(), view.clone());
        let sees = move |cx: &Context, subject: &EventSubject| {
            let is_own = subject.tenant.as_ref() == Some(cx.principal.tenant());
            governance.is_operator(cx, Administration::Reads)
                || (is_own && governance.is_operator(cx, Administration::ReadsOwnTenant))
                || may_see(&view, cx, subject)
        };
        let hub = EventHub::with_recent(EventLimits::default(), sees);
        for (channel, description) in CHANNELS {
            hub.declare(channel, description);
        }
        Self {
            hub,
            forwards: Arc::default(),
            by_name: ServersByName::default(),
            deliveries: Deliveries::default(),
        }
    }

    pub(crate) fn hub(&self) -> &EventHub {
        &self.hub
    }

    /// Applies the configuration of webhooks, and subscribes to their channels at servers that accept no patterns.
    pub(crate) async fn apply_deliveries(&self, config: &KernelConfig) {
        self.deliveries.apply(&self.hub, config).await;
        let channels: Vec<_> =
            config.webhooks.values().flat_map(|webhook| webhook.channels.clone()).collect();
        self.follow_configured(&EventHub::names_in(&channels));
    }

    /// Publishes an event without waiting for slow subscribers: the kernel must not wait for a client.
    fn publish(&self, draft: EventDraft) {
        if let Err(error) = self.hub.publish(draft) {
            tracing::debug!(%error, "an event of the kernel was refused");
        }
    }

    pub(crate) fn server_state(&self, server: &ServerId, change: &Transition) {
        let mut subject = EventSubject::default();
        subject.server = Some(server.clone());
        let params = change.to_params(Some(server));
        let is_failure = change.to == ServerState::Error;
        let severity = if is_failure { Severity::Error } else { Severity::Info };
        let draft = |channel| EventDraft::new(channel).severity(severity.clone());
        let drafts = [Some(draft(SERVER_STATE)), is_failure.then(|| draft(SYSTEM_ERROR))];
        for draft in drafts.into_iter().flatten() {
            if let Ok(draft) = draft.data(&params) {
                self.publish(draft.subject(subject.clone()));
            }
        }
    }

    /// Publishes that a transaction waits for an operator. The event does not contain the arguments of the
    /// transaction's steps. It names the tenant, unless this is the local one.
    pub(crate) fn transaction_stuck(&self, tenant: &str, transaction: &TransactionRecord) {
        let mut shown = transaction.clone();
        for step in shown.steps.iter_mut() {
            step.compensation = None;
        }
        if tenant != Principal::local().tenant().as_str() {
            // Encoding a string cannot fail.
            drop(shown.extra.encode("tenant", tenant));
        }
        let mut subject = EventSubject::default();
        subject.tenant = Some(TenantId::from(tenant));
        let draft = EventDraft::new(TRANSACTION_STUCK).severity(Severity::Warning);
        if let Ok(draft) = draft.data(&shown) {
            self.publish(draft.subject(subject));
        }
    }

    /// Publishes the start of a call, unless the call repeats an earlier request with answers to questions (a later
    /// round).
    pub(crate) fn call<'a>(
        &'a self,
        cx: &'a Context,
        server: &'a ServerId,
        tool: &'a str,
    ) -> PublishedCall<'a> {
        let tenant = cx.principal.tenant();
        let facts = CallFacts {
            server_id: server.as_str(),
            tool_name: tool,
            agent_id: cx.principal.as_agent().map(AgentId::as_str),
            tenant: (tenant != Principal::local().tenant()).then(|| tenant.as_str()),
            trace_id: cx.trace.as_deref(),
        };
        let mut facts = facts.to_json();
        facts.pop();
        let kept = cx.caller_access.channel().and_then(|asker| asker.kept(STARTED_KEY));
        let earlier = kept.as_ref().and_then(|kept| kept.get().ok());
        let earlier = earlier.map_or(Duration::ZERO, Duration::from_millis);
        let began = Instant::now();
        let call = PublishedCall { events: self, cx, server, tool, facts, began, earlier };
        if kept.is_none() {
            call.publish(TOOL_STARTED, Severity::Info, |_| {});
        }
        call
    }
}

impl PublishedCall<'_> {
    /// Publishes that the tool returned a result.
    pub(crate) fn complete(&self) {
        self.publish_end(TOOL_COMPLETED, Severity::Info, |_| {});
    }

    /// Publishes that the call failed: with an error in the result of the tool, or with `error` instead of a result.
    pub(crate) fn fail(&self, error: Option<&RpcError>) {
        self.publish_end(TOOL_FAILED, Severity::Warning, |data| {
            if let Some(error) = error {
                // Writing to a string cannot fail.
                let _ = write!(data, ",\"code\":{}", error.code().0);
            }
        });
    }

    /// Publishes that the caller cancelled the call or disconnected.
    pub(crate) fn cancel(&self) {
        self.publish_end(TOOL_FAILED, Severity::Info, |data| {
            data.push_str(",\"reason\":\"cancelled\"");
        });
    }

    /// Stores the duration of the call so far for the caller's next request (round), because the call asks its caller a
    /// question. The stored value also shows that the start of the call was published.
    pub(crate) fn suspend(&self) {
        if let Some(asker) = self.cx.caller_access.channel() {
            let time = mgp_types::millis(self.time());
            asker.keep(STARTED_KEY, &Payload::from_trusted(time.to_string()));
        }
    }

    /// Waits until all events so far are stored for durable subscriptions and, for a limited time, until they are sent
    /// to the subscriptions of the caller.
    pub(crate) async fn settle(&self) {
        let hub = &self.events.hub;
        if hub.is_sending() {
            hub.settle(&self.cx.scope).await;
        }
    }

    /// Returns the duration of all requests (rounds) of the call so far.
    pub(crate) fn time(&self) -> Duration {
        self.earlier.saturating_add(self.began.elapsed())
    }

    /// Publishes an end of the call with its duration and the members that `add` writes.
    fn publish_end(
        &self,
        channel: &'static str,
        severity: Severity,
        add: impl FnOnce(&mut String),
    ) {
        self.publish(channel, severity, |data| {
            // Writing to a string cannot fail.
            let _ = write!(data, ",\"duration_ms\":{}", mgp_types::millis(self.time()));
            add(data);
        });
    }

    /// Publishes an event with the common data of the call and the members that `add` writes.
    fn publish(&self, channel: &'static str, severity: Severity, add: impl FnOnce(&mut String)) {
        let mut subject = EventSubject::default();
        subject.server = Some(self.server.clone());
        subject.tool = Some(self.tool.to_owned());
        subject.tenant = Some(self.cx.principal.tenant().clone());
        subject.owner = Some(self.cx.principal.clone());
        let mut data = String::with_capacity(self.facts.len() + ADDED_CAPACITY);
        data.push_str(&self.facts);
        add(&mut data);
        data.push('}');
        let draft = EventDraft::new(channel).severity(severity);
        self.events.publish(draft.payload(Payload::from_trusted(data)).subject(subject));
    }
}

/// The members that the data of all events of a call contain.
#[derive(Serialize)]
struct CallFacts<'a> {
    server_id: &'a str,
    tool_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a str>,
    /// The tenant of the caller, unless it is the local one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
}

impl CallFacts<'_> {
    fn to_json(&self) -> String {
        let mut text = Vec::with_capacity(FACTS_CAPACITY);
        // Encoding texts cannot fail.
        let _ = serde_json::to_writer(&mut text, self);
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Returns whether a caller that is not an operator may see an event: its lists contain the event's server or tool, and
/// the event is not about another caller.
fn may_see(view: &CallerView, cx: &Context, subject: &EventSubject) -> bool {
    let is_foreign = subject.owner.as_ref().is_some_and(|owner| *owner != cx.principal)
        || subject.tenant.as_ref().is_some_and(|tenant| tenant != cx.principal.tenant());
    match (&subject.server, &subject.tool) {
        _ if is_foreign => false,
        (Some(server), Some(tool)) => view.shows(cx, server.as_str(), tool),
        (Some(server), None) => view.sees_server(cx, server),
        (None, _) => false,
    }
}
