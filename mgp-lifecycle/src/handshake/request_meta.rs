//! Adds to outbound calls the `_meta` members that the callee needs (MCP 2026-07-28; MGP §6.5).
//!
//! Applies to: outbound.

use std::borrow::Cow;
use std::future::ready;
use std::sync::Arc;

use bytestring::ByteString;
use mgp_types::mcp::{ClientCapabilities, Era, Revision, key};
use mgp_types::method::{TasksCancel, TasksGet, TasksUpdate, lookup};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::proposal::CallMembers;
use mgp_types::service::{
    BoxFuture, Call, CallerTrace, Context, Either, Kind, MgpService, PeerInfo, Reply, ServerId,
    TraceSpan,
};
use mgp_types::{ErrorCode, Payload, RpcError, push_hex, random_name};
use serde::Deserialize;
use tower_service::Service;

use super::declared::{CallerCapabilities, DeclaredCapabilities};
use super::offer::{Answerer, ClientOffer};
use super::state::HandshakeState;
use crate::retry::AttemptKey;

/// Layer that stores the negotiated facts about the callee in each outbound call, and adds this client's `_meta`
/// members.
#[derive(Clone)]
#[must_use]
pub struct RequestMetaLayer {
    session: Arc<HandshakeState>,
    members: Arc<MetaMembers>,
    server: Option<ServerId>,
    /// If `true`, servers that did not negotiate MGP also receive `_meta.traceparent`.
    traces_plain: bool,
}

/// The number of `_meta` members for which the vector is allocated: the members in `MetaMembers`, grants, the trace and
/// a progress token.
const MAX_META_MEMBERS: usize = 8;

/// The members of `_meta` that every modern request contains, encoded once.
#[derive(Debug)]
struct MetaMembers {
    info: Payload,
    revision: Payload,
    capabilities: DeclaredCapabilities,
    /// Determines which questions of servers (sampling, forms, roots) the caller of a forwarded call can answer; `None`
    /// if this client answers all questions itself.
    of_callers: Option<CallerCapabilities>,
    /// The handle that lets the server distinguish this client from other clients of the same principal.
    handle: Payload,
}

impl MetaMembers {
    /// Returns the capabilities to declare in a call: the capabilities of its caller if the caller answers the server's
    /// questions, otherwise the capabilities of this client.
    fn declared(&self, cx: &Context) -> DeclaredCapabilities {
        let of_caller = self.of_callers.as_ref().and_then(|callers| callers.of(cx));
        of_caller.unwrap_or_else(|| self.capabilities.clone())
    }
}

/// Marker among a call's extensions. It means that the call's caller can wait for a task, so the call declares the
/// tasks extension.
///
/// Capabilities are declared per request. So a call can become a task only if it has this marker or
/// [`AcceptsRequiredTask`].
#[derive(Clone, Copy, Debug)]
pub struct AcceptsTask;

/// Marker among a call's extensions. It means that the call's caller can wait for a task, but prefers an ordinary
/// result: the call declares the tasks extension only after the server has refused to run the call without it.
///
/// In MCP 2026-07-28, tools do not declare that they run only as tasks, so the refusal is the first sign of it.
#[derive(Clone, Copy, Debug)]
pub struct AcceptsRequiredTask;

impl RequestMetaLayer {
    /// Creates a layer for a connection; `session` holds the state of its handshake.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the offer cannot be written as JSON.
    pub fn new(session: Arc<HandshakeState>, offer: &ClientOffer) -> Result<Self, RpcError> {
        let capabilities = offer.modern_capabilities()?;
        let members = MetaMembers {
            info: Payload::of(&offer.info)?,
            revision: quoted(Revision::MODERN.as_str()),
            capabilities: DeclaredCapabilities::new(capabilities.clone())?,
            of_callers: (offer.answerer == Answerer::Caller)
                .then(|| CallerCapabilities::new(capabilities, offer)),
            handle: Payload::of(&random_name()?)?,
        };
        Ok(Self { session, members: Arc::new(members), server: None, traces_plain: false })
    }

    /// Also sends `_meta.traceparent` to servers without MGP.
    pub fn trace_plain(mut self) -> Self {
        self.traces_plain = true;
        self
    }

    /// Sets the server for calls whose context names no server.
    pub fn server(mut self, server: Option<ServerId>) -> Self {
        self.server = server;
        self
    }
}

mgp_types::opaque_debug!(RequestMetaLayer { session });

mgp_types::layer_service! {
    /// The service that [`RequestMetaLayer`] creates.
    pub RequestMetaService for RequestMetaLayer
}

impl<S: MgpService> Service<Call> for RequestMetaService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let repetition = self.layer.may_require_task(&call).then(|| call.clone());
        if let Some(outcome) = self.layer.prepare(&mut call) {
            return Either::Right { future: Box::pin(ready(outcome)) };
        }
        let sending = self.inner.call(call);
        match repetition {
            Some(repetition) => {
                Either::Right { future: Box::pin(self.clone().or_as_task(sending, repetition)) }
            }
            None => Either::Left { future: sending },
        }
    }
}

impl<S: MgpService> RequestMetaService<S> {
    /// Waits for the outcome of a call. If the server refused it because it would run only as a task, repeats the call
    /// and declares that the caller accepts a task. The call does not run twice, because a server does not run a call
    /// that it refuses in this way.
    async fn or_as_task(
        mut self,
        sending: S::Future,
        mut repetition: Call,
    ) -> Result<Reply, RpcError> {
        match sending.await {
            Err(error) if requires_task(&error) => {}
            outcome => return outcome,
        }
        repetition.cx_mut().extensions.insert(AcceptsTask);
        match self.layer.prepare(&mut repetition) {
            Some(outcome) => outcome,
            None => self.inner.call(repetition).await,
        }
    }
}

impl RequestMetaLayer {
    /// Adds to a call the facts about the callee and the `_meta` members. Returns the outcome of a call that must not
    /// be sent.
    fn prepare(&self, call: &mut Call) -> Option<Result<Reply, RpcError>> {
        let (facts, permissions) = self.session.outbound();
        if call.cx().server.is_none() {
            call.cx_mut().server.clone_from(&self.server);
        }
        // Do not send a call whose method belongs to an inactive extension, because the peer would not know the method.
        let extension = lookup(call.method().as_str()).and_then(|info| info.extension);
        if let Some(extension) = extension
            && !facts.has(extension)
        {
            return Some(inactive(call, extension));
        }
        // MCP's own notifications need no `_meta`. Notifications of an extension need it: without the offer in it,
        // servers ignore them.
        let needs_meta = call.kind() == Kind::Request || extension.is_some();
        if facts.era == Era::Modern && needs_meta {
            let members = &self.members;
            let revision = if facts.revision == Revision::MODERN {
                members.revision.clone()
            } else {
                quoted(facts.revision.as_str())
            };
            let tasks = call.cx().extensions.get::<AcceptsTask>().is_some() || is_about_task(call);
            let declared = members.declared(call.cx());
            let capabilities = if tasks { declared.with_tasks } else { declared.plain };
            let meta = &mut call.hop_mut().meta;
            meta.reserve(MAX_META_MEMBERS);
            meta.extend([
                (Cow::Borrowed(key::PROTOCOL_VERSION), revision),
                (Cow::Borrowed(key::CLIENT_CAPABILITIES), capabilities),
                (Cow::Borrowed(key::CLIENT_INFO), members.info.clone()),
            ]);
            // Add the handle, with which the server can relate later requests to this one, even on another connection.
            if facts.has(Extension::Streaming) {
                let handle = (Cow::Borrowed(key::MGP_HANDLE), members.handle.clone());
                call.hop_mut().meta.push(handle);
            }
            if let Some(flow) = permissions.filter(|_| facts.has(Extension::Permissions))
                && let Err(error) = flow.add_grants(call)
            {
                return Some(Err(error));
            }
        }
        add_members(call, facts.mgp.unwrap_or_default() & ExtensionSet::PROPOSALS);
        if let Some(key) = call.cx().extensions.get_shared::<AttemptKey>()
            && let Err(error) = key.add_to(call, &facts)
        {
            return Some(Err(error));
        }
        // A plain MCP peer must not receive MGP's trace member (MGP §6.5). It gets only `traceparent`, and only if
        // `traces_plain` is set.
        let is_traced = facts.supports_mgp() || self.traces_plain;
        if is_traced && call.kind() == Kind::Request {
            add_trace(call, facts.supports_mgp());
        }
        call.cx_mut().callee = facts;
        None
    }

    /// Returns whether the server might refuse a call for not declaring the tasks extension although the call's caller
    /// would accept a task.
    fn may_require_task(&self, call: &Call) -> bool {
        let extensions = &call.cx().extensions;
        extensions.get::<AcceptsRequiredTask>().is_some()
            && extensions.get::<AcceptsTask>().is_none()
            && serves_tasks(&self.session.facts())
    }
}

/// Returns whether a server declares the tasks extension. The text of its capabilities is only searched and not parsed,
/// so `true` can be wrong.
#[must_use]
pub fn serves_tasks(server: &PeerInfo) -> bool {
    let declared = server.capabilities.as_ref().filter(|_| server.era == Era::Modern);
    declared.is_some_and(|declared| declared.as_str().contains(key::TASKS_EXTENSION))
}

/// Returns whether a server refused a call because the call does not declare the tasks extension.
#[must_use]
pub fn requires_task(error: &RpcError) -> bool {
    #[derive(Deserialize)]
    struct Missing {
        #[serde(rename = "requiredCapabilities")]
        required: ClientCapabilities,
    }
    if error.code() != ErrorCode::MISSING_CLIENT_CAPABILITY {
        return false;
    }
    let missing = error.as_data().and_then(|data| data.get::<Missing>().ok());
    let extensions = missing.and_then(|missing| missing.required.extensions);
    extensions.is_some_and(|all| all.get(key::TASKS_EXTENSION).is_some())
}

/// Adds the trace of the call: its id for a peer that speaks MGP, and `traceparent`.
///
/// The parent is the span that this process exports for the call. If it exports none, the parent is the caller's span
/// or, in a trace that begins here, an id that this process creates. `tracestate` and `baggage` are passed on as the
/// caller sent them.
fn add_trace(call: &mut Call, speaks_mgp: bool) {
    let trace = call.cx_mut().trace_or_new().clone();
    let is_id = is_open_telemetry_id(&trace);
    let own = call.cx().extensions.get::<TraceSpan>().copied();
    let fallback = || own.unwrap_or_else(|| TraceSpan::of(call.cx().key));
    let received = call.cx().extensions.get_shared::<CallerTrace>();
    let parent = match (&received, own) {
        (Some(received), None) => Some(received.parent().clone()),
        (Some(received), Some(own)) => Some(traceparent(received.trace(), own, received.flags())),
        (None, _) => is_id.then(|| traceparent(&trace, fallback(), "01")),
    };
    let id = || if is_id { Some(quoted(&trace)) } else { Payload::of(&trace).ok() };
    let hop = call.hop_mut();
    hop.trace_id = if speaks_mgp { id() } else { None };
    if let Some(parent) = parent {
        hop.meta.push((Cow::Borrowed(key::TRACEPARENT), parent));
    }
    if let Some(received) = received {
        let state = received.state().map(|state| (key::TRACESTATE, state));
        let passed_on = state.into_iter().chain(received.baggage().map(|all| (key::BAGGAGE, all)));
        hop.meta.extend(passed_on.map(|(name, value)| (Cow::Borrowed(name), value.clone())));
    }
}

/// Adds the call's members for proposals, but not for inactive proposals.
fn add_members(call: &mut Call, active: ExtensionSet) {
    if active.is_empty() {
        return;
    }
    let Some(members) = call.cx().extensions.get_shared::<CallMembers>() else { return };
    let known = members.for_peer(active).map(|(name, value)| (Cow::Borrowed(name), value.clone()));
    call.hop_mut().meta.extend(known);
}

fn is_about_task(call: &Call) -> bool {
    call.is::<TasksGet>() || call.is::<TasksUpdate>() || call.is::<TasksCancel>()
}

/// Returns whether a trace id has the form that OpenTelemetry requires.
fn is_open_telemetry_id(trace: &str) -> bool {
    trace.len() == 32
        && trace.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && trace.bytes().any(|byte| byte != b'0')
}

/// Returns the `traceparent` value. It is assembled byte by byte, because it is needed for every call and `format!` is
/// slower.
fn traceparent(trace: &str, TraceSpan(span): TraceSpan, flags: &str) -> Payload {
    let span = span.to_be_bytes();
    let before = "\"00-";
    // The capacity is exact, because shrinking a larger buffer would cost a second allocation.
    let length = before.len() + trace.len() + 1 + 2 * span.len() + 1 + flags.len() + 1;
    let mut text = Vec::with_capacity(length);
    text.extend_from_slice(before.as_bytes());
    text.extend_from_slice(trace.as_bytes());
    text.push(b'-');
    push_hex(&span, &mut text);
    text.push(b'-');
    text.extend_from_slice(flags.as_bytes());
    text.push(b'"');
    Payload::from_trusted(ByteString::try_from(text).unwrap_or_default())
}

/// Returns a text as a JSON string; the text must contain no characters that need escapes.
fn quoted(text: &str) -> Payload {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    quoted.push_str(text);
    quoted.push('"');
    Payload::from_trusted(quoted)
}

/// Returns the outcome of a call that is not sent: an error for a request, nothing for a notification.
fn inactive(call: &Call, extension: Extension) -> Result<Reply, RpcError> {
    match call.kind() {
        Kind::Notification => Ok(Reply::None),
        Kind::Request => Err(RpcError::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!(
                "`{}` needs the extension `{extension}`, which the server did not negotiate",
                call.method()
            ),
        )),
    }
}
