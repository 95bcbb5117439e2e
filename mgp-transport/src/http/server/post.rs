//! POST: reads a message, determines its [protocol era](Era) and answers it.
//!
//! `era.rs` determines the era, and `modern.rs` answers modern messages. `legacy/calls.rs` answers legacy messages, and
//! receives the client's answers to requests of the server, which only the legacy era has. `legacy/batch.rs` answers
//! batches.

use bytes::Bytes;
use http::Response;
use http_body::Body;
use mgp_types::mcp::Era;
use mgp_types::method::{Cancelled, Notification as _};
use mgp_types::proposal::{IdempotencyHeader, IdempotencyKey, SessionToken};
use mgp_types::service::{Context, Kind, Message, Peer, Principal, Reply, Scope, write_answer};
use mgp_types::{Id, RpcError};

use super::body::HttpBody;
use super::load::LoadGuard;
use super::refusal::Refusal;
use super::{ReceivedRequest, multipart, request_body};
use crate::connection::{MAX_PING_BYTES, is_ping};

/// One received message, with its caller, and the guard that counts it in the server's load.
pub(super) struct Post<'a> {
    pub(super) received: &'a ReceivedRequest<'a>,
    pub(super) principal: Principal,
    pub(super) load: LoadGuard,
    /// The length of the message in bytes.
    pub(super) size: usize,
}

/// Reads the message of a POST request, and answers it according to its era.
pub(super) async fn post<B>(
    received: &ReceivedRequest<'_>,
    body: B,
) -> Result<Response<HttpBody>, Refusal>
where
    B: Body<Data = Bytes>,
{
    let config = &received.state.config;
    let boundary = boundary(received)?;
    // MCP requires that clients accept both JSON and event streams. Some accept only one of them, which is enough here,
    // so refuse only a client that accepts neither.
    if !received.headers.takes_events() && !received.headers.takes_json() {
        return Err(Refusal::Accept);
    }
    let principal = received.principal()?;
    // If too many requests are running, a few more are still read, because only the body shows whether the message is
    // served anyway.
    let mut load = received.state.load.admit_extra(&principal, config.in_flight)?;
    let text = request_body::read_text(&received.headers, body, boundary, config, &mut load);
    let text = text.await?;
    let size = text.len();
    let message = Message::parse(text).map_err(|bad| {
        let error =
            bad.error.unwrap_or_else(|| RpcError::invalid_request("the answer is malformed"));
        Refusal::Message(error.without_recovery(), bad.id)
    })?;
    if !is_served_beyond_limits(&message, size)
        && let Some(refusal) = load.refusal()
    {
        return Err(refusal);
    }
    let post = Post { received, principal, load, size };
    match message {
        Message::Request { id, method, params } => {
            let request_id = id.clone();
            let answer = match received.headers.era(Kind::Request, &method, &params) {
                Ok(Era::Modern) => post.answer_modern(id, method, params).await,
                Ok(Era::Legacy) => post.answer_legacy(id, method, params).await,
                Err(refusal) => Err(refusal),
            };
            answer.or_else(|refusal| Ok(refusal.into_response(Some(request_id))))
        }
        Message::Notification { method, params } => {
            match received.headers.era(Kind::Notification, &method, &params)? {
                Era::Modern => Box::pin(post.notify_modern(method, params)).await,
                Era::Legacy => post.notify_legacy(method, params),
            }
        }
        Message::Response { id, outcome } => post.accept_response(id.as_ref(), outcome),
        Message::Batch(items) => Box::pin(post.answer_batch(items)).await,
    }
}

/// Returns whether a message of this size is served even if too many requests are running: answers, small pings and
/// small cancellations. Without answers and cancellations, the running calls would not end.
fn is_served_beyond_limits(message: &Message, size: usize) -> bool {
    match message {
        Message::Response { .. } => true,
        _ if size > MAX_PING_BYTES => false,
        Message::Request { method, .. } => is_ping(method),
        Message::Notification { method, .. } => method.as_str() == Cancelled::METHOD,
        Message::Batch(_) => false,
    }
}

/// Returns the boundary of a body with several parts; `None` if the body is JSON.
fn boundary<'a>(received: &ReceivedRequest<'a>) -> Result<Option<&'a str>, Refusal> {
    let kind = received.headers.content_type.ok_or(Refusal::ContentType)?;
    if is_json(kind) {
        return Ok(None);
    }
    let parts = multipart::boundary(kind).filter(|_| received.state.config.multipart);
    parts.map(Some).ok_or(Refusal::ContentType)
}

pub(super) fn is_json(kind: &str) -> bool {
    kind == "application/json"
        || kind
            .split(';')
            .next()
            .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// Creates the context of a call that was received in an HTTP request.
pub(super) fn context(
    peer: Peer,
    scope: &Scope,
    principal: &Principal,
    received: &ReceivedRequest<'_>,
) -> Context {
    let mut cx = Context::new(peer, scope.clone(), principal.clone());
    for hook in &received.state.config.on_request {
        hook.read(received.parts, &mut cx.extensions);
    }
    if let Some(grant) = received.grant() {
        cx.extensions.insert(grant);
    }
    if let Some(key) = received.headers.idempotency_key {
        cx.extensions.insert(IdempotencyHeader(IdempotencyKey(key.to_owned())));
    }
    if let Some(token) = received.headers.session_token {
        cx.extensions.insert(SessionToken(token.to_owned()));
    }
    cx
}

/// Encodes an answer; returns no bytes if the outcome contains no answer.
pub(super) fn encode_answer(id: &Id, outcome: &Result<Reply, RpcError>) -> Vec<u8> {
    let mut answer = Vec::with_capacity(256);
    write_answer(&mut answer, Some(id), outcome);
    answer
}
