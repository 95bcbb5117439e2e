//! Requests that stand alone: a call lives as long as its response, and writes to nothing else.
//!
//! Applies to: inbound.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use http::{Response, StatusCode};
use mgp_types::method::{
    Cancelled, Notification as _, Request as _, SubscriptionsListen, ToolsCall,
};
use mgp_types::service::{
    BoxFuture, Call, Kind, Link, MetaKey, Method, Params, Peer, Reply, closed, write_call,
};
use mgp_types::{ErrorCode, Id, RpcError};
use tokio::time::timeout;

use super::body::HttpBody;
use super::config::Answers;
use super::events::{Driven, Events, Reader};
use super::heads;
use super::post::{Post, context, written};
use super::refusal::{Refusal, empty, events, json};
use super::stream::Stream;

impl Post<'_> {
    /// A request that stands alone: it ends when its client leaves.
    pub(super) async fn modern(
        self,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let Self { came, principal, mut busy } = self;
        let shared = came.shared;
        let config = &shared.config;
        let within = shared.handles.enter(principal, handle(&params).as_deref());
        let stream = Arc::new(Stream::new(None, Arc::clone(&shared.store)));
        let reader = Reader::new(&stream, None);
        let mut cx = context(PostLink::peer(&stream), &within.scope, &within.principal, came);
        cx.wire_id = Some(id.clone());
        if method.as_str() == ToolsCall::METHOD {
            cx.extensions.insert_shared(heads::params(&came.parts.headers));
        }
        let listens = method.as_str() == SubscriptionsListen::METHOD;
        let says_all = params.meta_member(MetaKey::ClientCapabilities).is_some();
        let mut call = shared.stack.send(Call::request(method, params, cx));
        let mut outcome = None;
        let begin = poll_fn(|task| match call.as_mut().poll(task) {
            Poll::Ready(ended) => {
                outcome = Some(ended);
                Poll::Ready(())
            }
            Poll::Pending => stream.poll_begin(task).map(drop),
        });
        // A call that is silent for long is answered with a stream.
        let _ = timeout(config.quiet, begin).await;
        if let Some(outcome) = outcome {
            let answer = written(&id, &outcome);
            // It was cancelled before it said anything, so nobody waits.
            if answer.is_empty() && stream.is_silent() {
                return Ok(empty(StatusCode::ACCEPTED));
            }
            if stream.is_silent() && config.answers == Answers::AsNeeded {
                return Ok(json(status(&outcome, says_all), answer));
            }
            stream.as_events(None);
            stream.finish(answer);
            return Ok(events(stream.take_all().into()));
        }
        stream.as_events(None);
        if listens {
            // It runs as long as its client likes, and would keep others from running; who listens is bounded elsewhere.
            busy.stop_running();
        }
        let driven = Driven::new(id, call, (within, busy));
        let body =
            Events::new(reader, config.keep_alive).driving(driven).for_holder_of(came.pass());
        Ok(events(HttpBody::events(body)))
    }

    pub(super) async fn tell_modern(
        self,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        // A client cancels by closing its stream. An id says little here: others count from 1 as well.
        if method.as_str() == Cancelled::METHOD {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        let Self { came, principal, busy: _busy } = self;
        let within = came.shared.handles.enter(principal, handle(&params).as_deref());
        let cx = context(Peer::none(), &within.scope, &within.principal, came);
        let telling = came.shared.stack.send(Call::notification(method, params, cx));
        // A notification has no answer; what it meets is logged by whoever meets it.
        let _ = telling.await;
        Ok(empty(StatusCode::ACCEPTED))
    }
}

/// The handle a request gives its client.
fn handle(params: &Params) -> Option<String> {
    params.meta_member(MetaKey::Handle).and_then(|json| serde_json::from_str(json).ok())
}

/// The status of an answer: what a proxy should see is wrong with the request has one of its own.
fn status(outcome: &Result<Reply, RpcError>, says_all: bool) -> StatusCode {
    match outcome.as_ref().map_err(RpcError::code) {
        Err(ErrorCode::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Err(
            ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::HEADER_MISMATCH
            | ErrorCode::MISSING_CLIENT_CAPABILITY
            | ErrorCode::UNSUPPORTED_VERSION,
        ) => StatusCode::BAD_REQUEST,
        Err(ErrorCode::INVALID_PARAMS) if !says_all => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The way back to the caller of one request: its own response.
#[derive(Debug)]
pub(super) struct PostLink(pub(super) Arc<Stream>);

impl PostLink {
    pub(super) fn peer(stream: &Arc<Stream>) -> Peer {
        Peer::new(Arc::new(Self(Arc::clone(stream))))
    }
}

impl Link for PostLink {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        if call.kind() == Kind::Request {
            let why =
                "a server asks nothing by itself in this revision; a result can say what it needs";
            return Box::pin(std::future::ready(Err(RpcError::internal(why))));
        }
        let stream = Arc::clone(&self.0);
        Box::pin(async move {
            let gone = || closed("the client is gone");
            stream.room().await.map_err(|_| gone())?;
            stream
                .push(|out| {
                    write_call(out, None, call.method().as_str(), call.params(), call.hop());
                })
                .map_err(|_| gone())?;
            Ok(Reply::None)
        })
    }

    fn is_closed(&self) -> bool {
        self.0.is_ended()
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;

    use super::*;

    #[test]
    fn statuses_say_what_a_proxy_should_see() {
        for (code, says_all, expected) in [
            (ErrorCode::METHOD_NOT_FOUND, true, 404),
            (ErrorCode::PARSE_ERROR, true, 400),
            (ErrorCode::INVALID_REQUEST, true, 400),
            (ErrorCode::HEADER_MISMATCH, true, 400),
            (ErrorCode::MISSING_CLIENT_CAPABILITY, true, 400),
            (ErrorCode::UNSUPPORTED_VERSION, true, 400),
            (ErrorCode::INVALID_PARAMS, true, 200),
            (ErrorCode::INVALID_PARAMS, false, 400),
            (ErrorCode::INTERNAL_ERROR, true, 200),
            (ErrorCode::RESOURCE_EXHAUSTED, true, 200),
            (ErrorCode(1000), true, 200),
        ] {
            let outcome = Err(RpcError::new(code, "no"));
            assert_eq!(status(&outcome, says_all), expected, "{code:?} {says_all}");
        }
        assert_eq!(status(&Ok(Reply::raw(Payload::empty_object())), false), 200);
        assert_eq!(written(&Id::Number(1), &Ok(Reply::None)), b"", "what has no answer");
    }
}
