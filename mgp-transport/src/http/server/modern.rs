//! Requests without a session: a call ends with its response, and can send messages only on that response.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use http::{Response, StatusCode};
use mgp_types::method::{
    Cancelled, Notification as _, Request as _, SubscriptionsListen, ToolsCall,
};
use mgp_types::service::{
    BoxFuture, Call, Kind, Link, MetaKey, Method, Params, Peer, Reply, connection_closed,
    write_call,
};
use mgp_types::{ErrorCode, Id, RpcError};
use tokio::time::timeout;

use super::body::HttpBody;
use super::event_body::{DrivenCall, EventBody};
use super::headers;
use super::post::{Post, context, encode_answer};
use super::refusal::{Refusal, empty, events, json};
use super::stream::Stream;

impl Post<'_> {
    /// Serves a request without a session; the call ends if its client disconnects.
    pub(super) async fn answer_modern(
        self,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let Self { received, principal, mut load, .. } = self;
        let listens = method.as_str() == SubscriptionsListen::METHOD;
        if listens && !received.headers.takes_events() {
            return Err(Refusal::Accept);
        }
        let state = received.state;
        let request = state.handles.enter(principal, handle(&params).as_deref());
        let stream = Arc::new(Stream::new(None, Arc::clone(&state.modern_budget)));
        let reader = received.attach_reader(&stream);
        let mut cx = context(PostLink::peer(&stream), &request.scope, &request.principal, received);
        cx.wire_id = Some(id.clone());
        if method.as_str() == ToolsCall::METHOD {
            cx.extensions.insert_shared(headers::params(&received.parts.headers));
        }
        let names_capabilities = params.meta_member(MetaKey::ClientCapabilities).is_some();
        let mut call = state.stack.send(Call::request(method, params, cx));
        let mut outcome = None;
        let begin = poll_fn(|task| match call.as_mut().poll(task) {
            Poll::Ready(ended) => {
                outcome = Some(ended);
                Poll::Ready(())
            }
            Poll::Pending => stream.poll_first_output(task).map(drop),
        });
        // If the call sends nothing during this time, it is answered with an event stream.
        let _ = timeout(received.stream_delay(), begin).await;
        if let Some(outcome) = outcome {
            let answer = encode_answer(&id, &outcome);
            // The call was cancelled before it sent anything, so the client expects no answer.
            if answer.is_empty() && stream.is_silent() {
                return Ok(empty(StatusCode::ACCEPTED));
            }
            if stream.is_silent() && received.answers_in_json() {
                received.check_credentials_of_call()?;
                return Ok(json(status(&outcome, names_capabilities), answer));
            }
            stream.begin_events(None);
            stream.finish(answer);
            return Ok(events(stream.take_events().into()));
        }
        stream.begin_events(None);
        if listens {
            // A subscription lasts long, so it is not a running request; the number of subscriptions has its own limit.
            load.stop_running();
        }
        let driven = DrivenCall::new(id, listens, call, request, load);
        let body = EventBody::new(reader, state.config.keep_alive_interval)
            .with_call(driven)
            .with_grant(received.grant());
        Ok(events(HttpBody::events(body)))
    }

    pub(super) async fn notify_modern(
        self,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        // A cancellation is ignored: a modern client cancels by closing its response stream, and different clients can
        // use the same request id.
        if method.as_str() == Cancelled::METHOD {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        let Self { received, principal, load: _load, .. } = self;
        let request = received.state.handles.enter(principal, handle(&params).as_deref());
        let cx = context(Peer::none(), &request.scope, &request.principal, received);
        let notifying = received.state.stack.send(Call::notification(method, params, cx));
        // Ignore the outcome: a notification gets no answer, and its handlers log their errors themselves.
        let _ = notifying.await;
        Ok(empty(StatusCode::ACCEPTED))
    }
}

/// Returns the handle that the client sent with a request.
fn handle(params: &Params) -> Option<String> {
    params.meta_member(MetaKey::Handle).and_then(|json| serde_json::from_str(json).ok())
}

/// Returns the HTTP status for an answer: 200, except for a few errors that intermediaries should recognize.
fn status(outcome: &Result<Reply, RpcError>, names_capabilities: bool) -> StatusCode {
    match outcome.as_ref().map_err(RpcError::code) {
        Err(ErrorCode::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Err(
            ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::HEADER_MISMATCH
            | ErrorCode::MISSING_CLIENT_CAPABILITY
            | ErrorCode::UNSUPPORTED_VERSION,
        ) => StatusCode::BAD_REQUEST,
        Err(ErrorCode::INVALID_PARAMS) if !names_capabilities => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The [`Link`] to the client of one request; it sends messages on the response to that request only.
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
                "this revision has no server requests; return an `input_required` result instead";
            return Box::pin(std::future::ready(Err(RpcError::internal(why))));
        }
        let stream = Arc::clone(&self.0);
        Box::pin(async move {
            let disconnected = || connection_closed("the client is gone");
            stream.wait_for_room().await.map_err(|_| disconnected())?;
            stream
                .push(|out| {
                    write_call(out, None, call.method().as_str(), call.params(), call.hop());
                })
                .map_err(|_| disconnected())?;
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
    fn a_proxy_sees_errors_of_the_request_in_the_status() {
        for (code, names_capabilities, expected) in [
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
            assert_eq!(
                status(&outcome, names_capabilities),
                expected,
                "{code:?} {names_capabilities}"
            );
        }
        assert_eq!(status(&Ok(Reply::raw(Payload::empty_object())), false), 200);
        assert_eq!(encode_answer(&Id::Number(1), &Ok(Reply::None)), b"", "what has no answer");
    }
}
