//! Writes on outbound calls what the callee needs to know of us (MCP 2026-07-28 `_meta`; MGP §6.5).
//!
//! Applies to: outbound.

use std::borrow::Cow;
use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytestring::ByteString;
use mgp_types::mcp::{Era, Revision, key};
use mgp_types::method::{TasksCancel, TasksGet, TasksUpdate, lookup};
use mgp_types::mgp::Extension;
use mgp_types::service::{Call, CallKey, Either, Kind, MgpService, Reply, ServerId};
use mgp_types::{ErrorCode, Payload, RpcError, push_hex, unguessable};
use tower_layer::Layer;
use tower_service::Service;

use super::negotiate;
use super::offer::ClientOffer;
use super::session::Session;

/// Gives outbound calls the facts of their callee, and their wire form the facts of ours.
#[derive(Clone)]
#[must_use]
pub struct StampLayer {
    session: Arc<Session>,
    offer: Arc<Stamps>,
    server: Option<ServerId>,
}

/// How many members of `_meta` a hop adds at most: those below, and a token for progress.
const MEMBERS: usize = 6;

/// The members of `_meta` that every modern request carries, encoded once.
#[derive(Debug)]
struct Stamps {
    info: Payload,
    revision: Payload,
    capabilities: Payload,
    /// The same, with the tasks extension.
    with_tasks: Payload,
    /// Tells this client from others of the same principal.
    handle: Payload,
}

/// Says, in the extensions of a call, that its caller can wait for a task: the tasks extension is offered with it.
///
/// A modern client says with each request what it can do, so that other calls, which somebody else makes, stay free of tasks.
#[derive(Clone, Copy, Debug)]
pub struct TakesTask;

impl StampLayer {
    /// A layer for a connection whose handshake is kept in `session`.
    ///
    /// # Errors
    /// −32603 when the offer cannot be written as JSON.
    pub fn new(session: Arc<Session>, offer: &ClientOffer) -> Result<Self, RpcError> {
        let mut capabilities = offer.capabilities.clone();
        if let Some(mgp) = &offer.mgp {
            negotiate::put_client(&mut capabilities, negotiate::client_offer(mgp))?;
            // In the modern era the extension is the only place; the literal member belongs to `initialize`.
            capabilities.mgp = None;
        }
        let plain = Payload::of(&capabilities)?;
        let extensions = capabilities.extensions.get_or_insert_default();
        if extensions.get(key::TASKS_EXTENSION).is_none() {
            extensions.insert(key::TASKS_EXTENSION, Payload::empty_object());
        }
        let stamps = Stamps {
            info: Payload::of(&offer.info)?,
            revision: quoted(Revision::MODERN.as_str()),
            capabilities: plain,
            with_tasks: Payload::of(&capabilities)?,
            handle: Payload::of(&unguessable()?)?,
        };
        Ok(Self { session, offer: Arc::new(stamps), server: None })
    }

    /// Says which server the calls go to that do not say so themselves.
    pub fn server(mut self, server: Option<ServerId>) -> Self {
        self.server = server;
        self
    }
}

impl fmt::Debug for StampLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

impl<S> Layer<S> for StampLayer {
    type Service = Stamp<S>;

    fn layer(&self, inner: S) -> Stamp<S> {
        Stamp { inner, layer: self.clone() }
    }
}

/// Service of [`StampLayer`].
#[derive(Clone)]
pub struct Stamp<S> {
    inner: S,
    layer: StampLayer,
}

impl<S> fmt::Debug for Stamp<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layer.fmt(f)
    }
}

impl<S: MgpService> Service<Call> for Stamp<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, Ready<Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let (facts, permissions) = self.layer.session.outbound();
        if call.cx().server.is_none() {
            call.cx_mut().server.clone_from(&self.layer.server);
        }
        // A method of an extension that is not active does not go out: the peer would not know it.
        let extension = lookup(call.method().as_str()).and_then(|info| info.extension);
        if let Some(extension) = extension
            && !facts.has(extension)
        {
            return Either::Right { future: ready(inactive(&call, extension)) };
        }
        // Notifications of MCP mean the same to everybody; those of an extension are heard from who offers it.
        let says = call.kind() == Kind::Request || extension.is_some();
        if facts.era == Era::Modern && says {
            let stamps = &self.layer.offer;
            let revision = if facts.revision == Revision::MODERN {
                stamps.revision.clone()
            } else {
                quoted(facts.revision.as_str())
            };
            let tasks = call.cx().extensions.get::<TakesTask>().is_some() || is_about_task(&call);
            let capabilities = if tasks { &stamps.with_tasks } else { &stamps.capabilities };
            let meta = &mut call.hop_mut().meta;
            meta.reserve(MEMBERS);
            meta.extend([
                (Cow::Borrowed(key::PROTOCOL_VERSION), revision),
                (Cow::Borrowed(key::CLIENT_CAPABILITIES), capabilities.clone()),
                (Cow::Borrowed(key::CLIENT_INFO), stamps.info.clone()),
            ]);
            // A later request may speak of this one, to cancel it, and need not come on the same connection.
            if facts.has(Extension::Streaming) {
                let handle = (Cow::Borrowed(key::MGP_HANDLE), stamps.handle.clone());
                call.hop_mut().meta.push(handle);
            }
            if let Some(flow) = permissions.filter(|_| facts.has(Extension::Permissions))
                && let Err(error) = flow.stamp(&mut call)
            {
                return Either::Right { future: ready(Err(error)) };
            }
        }
        // A plain peer never sees our trace member (checklist C12).
        if facts.speaks_mgp() && call.kind() == Kind::Request {
            let trace = call.cx_mut().trace_or_new().clone();
            let key = call.cx().key;
            let hop = call.hop_mut();
            if is_of_open_telemetry(&trace) {
                hop.trace_id = Some(quoted(&trace));
                hop.meta.push((Cow::Borrowed(key::TRACEPARENT), traceparent(&trace, key)));
            } else {
                hop.trace_id = Payload::of(&trace).ok();
            }
        }
        call.cx_mut().callee = facts;
        Either::Left { future: self.inner.call(call) }
    }
}

/// Whether a call asks for a task, or answers it, or ends it.
fn is_about_task(call: &Call) -> bool {
    call.is::<TasksGet>() || call.is::<TasksUpdate>() || call.is::<TasksCancel>()
}

/// Whether a trace has the form that OpenTelemetry gives it.
fn is_of_open_telemetry(trace: &str) -> bool {
    trace.len() == 32 && trace.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The trace in the words of OpenTelemetry; every call writes one, so it is put together by hand.
fn traceparent(trace: &str, call: CallKey) -> Payload {
    let span = call.as_u64().to_be_bytes();
    let (before, after) = ("\"00-", "-01\"");
    // Its exact length: text with room behind it would be a second allocation.
    let mut text =
        Vec::with_capacity(before.len() + trace.len() + 1 + 2 * span.len() + after.len());
    text.extend_from_slice(before.as_bytes());
    text.extend_from_slice(trace.as_bytes());
    text.push(b'-');
    push_hex(&span, &mut text);
    text.extend_from_slice(after.as_bytes());
    Payload::from_trusted(ByteString::try_from(text).unwrap_or_default())
}

/// A string as JSON that has nothing to be escaped.
fn quoted(text: &str) -> Payload {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    quoted.push_str(text);
    quoted.push('"');
    Payload::from_trusted(quoted)
}

/// What becomes of a call the callee would not know: an error to a request, silence for a notification.
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
