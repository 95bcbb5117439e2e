//! A message that was sent: to which era it belongs, what it becomes, how it is answered.
//!
//! Applies to: inbound.

use bytes::Bytes;
use http::Response;
use http_body::Body;
use mgp_types::mcp::Era;
use mgp_types::service::{Context, Kind, Message, Peer, Principal, Reply, Scope, write_answer};
use mgp_types::{Id, RpcError};

use super::body::HttpBody;
use super::load::Busy;
use super::refusal::Refusal;
use super::{Came, read};
use crate::connection::is_ping;

/// Answers a POST.
pub(super) async fn post<B>(came: &Came<'_>, body: B) -> Result<Response<HttpBody>, Refusal>
where
    B: Body<Data = Bytes>,
{
    let config = &came.shared.config;
    if !came.heads.content_type.is_some_and(is_json) {
        return Err(Refusal::ContentType);
    }
    if !came.heads.takes_both() {
        return Err(Refusal::Accept);
    }
    let principal = came.principal()?;
    let mut busy = came.shared.load.enter_for_life(&principal, config.in_flight)?;
    let text = read::text(&came.heads, body, config, &mut busy).await?;
    let message = Message::parse(text).map_err(|bad| {
        let error = bad.error.unwrap_or_else(|| RpcError::invalid_request("an unreadable answer"));
        Refusal::Message(error.without_recovery(), bad.id)
    })?;
    let is_ping = matches!(&message, Message::Request { method, .. } if is_ping(method));
    if !is_ping && let Some(refusal) = busy.refusal() {
        return Err(refusal);
    }
    let post = Post { came, principal, busy };
    match message {
        Message::Request { id, method, params } => {
            let asked = id.clone();
            let answer = match came.heads.era(Kind::Request, &method, &params) {
                Ok(Era::Modern) => post.modern(id, method, params).await,
                Ok(Era::Legacy) => post.legacy(id, method, params).await,
                Err(refusal) => Err(refusal),
            };
            answer.or_else(|refusal| Ok(refusal.of(Some(asked))))
        }
        Message::Notification { method, params } => {
            match came.heads.era(Kind::Notification, &method, &params)? {
                Era::Modern => Box::pin(post.tell_modern(method, params)).await,
                Era::Legacy => post.tell_legacy(method, params),
            }
        }
        Message::Response { id, outcome } => post.answered(id.as_ref(), outcome),
        Message::Batch(items) => Box::pin(post.batch(items)).await,
    }
}

fn is_json(kind: &str) -> bool {
    kind == "application/json"
        || kind
            .split(';')
            .next()
            .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// One message, and where it came from.
pub(super) struct Post<'a> {
    pub(super) came: &'a Came<'a>,
    pub(super) principal: Principal,
    pub(super) busy: Busy,
}

/// The surroundings of a call that came with a request.
pub(super) fn context(
    peer: Peer,
    scope: &Scope,
    principal: &Principal,
    came: &Came<'_>,
) -> Context {
    let mut cx = Context::new(peer, scope.clone(), principal.clone());
    if let Some(pass) = came.pass() {
        cx.extensions.insert(pass);
    }
    cx
}

/// An answer as it is written; empty where there is none.
pub(super) fn written(id: &Id, outcome: &Result<Reply, RpcError>) -> Vec<u8> {
    let mut answer = Vec::with_capacity(256);
    write_answer(&mut answer, Some(id), outcome);
    answer
}
