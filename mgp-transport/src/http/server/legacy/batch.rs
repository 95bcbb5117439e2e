//! Batches: several messages in one array, a feature of MCP 2025-03-26 only.

use std::sync::Arc;

use bytestring::ByteString;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{Response, StatusCode};
use mgp_types::Id;
use mgp_types::service::{Call, Context, Message, Method, Params, Principal, write_answer};

use super::super::ReceivedRequest;
use super::super::body::HttpBody;
use super::super::config::HttpConfig;
use super::super::headers::RequestHeaders;
use super::super::load::LoadGuard;
use super::super::post::{Post, context, encode_answer};
use super::super::refusal::{Refusal, empty, events, json};
use super::super::stream::push_data;
use super::session::Session;
use crate::connection::{MAX_SHORT_ANSWER, read_reply};
use crate::scoped::{ScopedTask, spawn_scoped};
use crate::too_long::batch_too_long;

impl Post<'_> {
    /// Serves a batch: the answers are sent in one array, in the order in which they become ready.
    pub(in super::super) async fn answer_batch(
        self,
        items: Vec<ByteString>,
    ) -> Result<Response<HttpBody>, Refusal> {
        if self.received.headers.is_modern() {
            return Err(Refusal::Batch);
        }
        let session = self.received.session(&self.principal)?;
        if !session.rules().accepts_batches() {
            return Err(Refusal::Batch);
        }
        let (received, mut load) = (self.received, self.load);
        load.stop_running();
        let config = &received.state.config;
        let mut answers = Answers { array: Vec::new(), config, load: load.for_more_bytes() };
        let batch = Batch { received, session, principal: self.principal, load: Arc::new(load) };
        let mut waiting = FuturesUnordered::new();
        for item in items {
            match Message::parse(item) {
                Ok(Message::Request { id, method, params }) => {
                    match batch.request(id.clone(), method, params) {
                        Ok(answer) => waiting.push(async move { (id, answer.await) }),
                        Err(refusal) => answers.refuse(refusal, Some(id)),
                    }
                }
                Ok(Message::Notification { method, params }) => batch.notify(method, params),
                Ok(Message::Response { id, outcome }) => {
                    let sent_requests = batch.session.sent_requests();
                    if let Some((id, sent_requests)) = id.as_ref().zip(sent_requests) {
                        sent_requests
                            .complete(id, |cx| outcome.and_then(|result| read_reply(cx, result)));
                    }
                }
                Ok(Message::Batch(_)) => answers.refuse(Refusal::Batch, None),
                Err(bad) => {
                    if let Some(error) = bad.error {
                        answers.refuse(Refusal::Message(error, None), bad.id);
                    }
                }
            }
        }
        while let Some((id, answer)) = waiting.next().await {
            match answer {
                Some(answer) => answers.push(Some(&id), answer),
                None if batch.session.is_ended() => answers.refuse(Refusal::SessionEnded, Some(id)),
                // The call panicked, and its task sent no answer, so the array contains none for it.
                None => {}
            }
        }
        // A batch waits for all its calls, however long that takes, so the credentials can have become invalid
        // meanwhile.
        received.check_credentials()?;
        Ok(answers.into_response(&received.headers))
    }
}

/// The answers of a batch, as far as they have been collected, as a JSON array without its end. Long answers count
/// against the limit of bytes in memory.
struct Answers<'a> {
    array: Vec<u8>,
    config: &'a HttpConfig,
    load: LoadGuard,
}

impl Answers<'_> {
    fn refuse(&mut self, refusal: Refusal, id: Option<Id>) {
        let answer = refusal.into_message(id);
        self.push(None, answer);
    }

    /// Adds an answer, or an error in its place if the answer has no room.
    fn push(&mut self, id: Option<&Id>, mut answer: Vec<u8>) {
        if answer.is_empty() {
            return;
        }
        // If the error has no room together with the id of the request, send it without the id.
        for id in [id, None] {
            if self.make_room(answer.len()) {
                break;
            }
            answer.clear();
            let error = batch_too_long(self.config.body_bytes).without_recovery();
            write_answer(&mut answer, id, &Err(error));
        }
        self.array.push(if self.array.is_empty() { b'[' } else { b',' });
        self.array.extend_from_slice(&answer);
    }

    fn make_room(&mut self, size: usize) -> bool {
        if size <= MAX_SHORT_ANSWER {
            return true;
        }
        if self.array.len() + size > self.config.body_bytes {
            return false;
        }
        let is_counted = self.load.add_bytes(size, self.config.held_bytes).is_ok();
        if !is_counted {
            self.load.remove_bytes(size);
        }
        is_counted
    }

    /// Returns the response; a client that accepts only event streams gets the array as one event.
    fn into_response(mut self, headers: &RequestHeaders<'_>) -> Response<HttpBody> {
        if self.array.is_empty() {
            return empty(StatusCode::ACCEPTED);
        }
        self.array.push(b']');
        if headers.takes_json() {
            return json(StatusCode::OK, self.array);
        }
        let mut event = b"event: message\n".to_vec();
        push_data(&mut event, &self.array);
        events(event.into())
    }
}

/// The messages of one batch. If the client disconnects, their calls continue; until they end, the body counts against
/// the limit of bytes in memory.
struct Batch<'a> {
    received: &'a ReceivedRequest<'a>,
    session: Arc<Session>,
    principal: Principal,
    load: Arc<LoadGuard>,
}

impl Batch<'_> {
    /// Starts a call of the batch, which counts in the limits like a single request.
    fn request(
        &self,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<ScopedTask<Vec<u8>>, Refusal> {
        let (state, session) = (&self.received.state, &self.session);
        let running = state.load.admit(&self.principal, state.config.in_flight)?;
        let mut cx = self.context();
        cx.wire_id = Some(id.clone());
        let call = state.stack.send(Call::request(method, params, cx));
        let held = (session.running(), Arc::clone(&self.load), running);
        Ok(spawn_scoped(session.scope(), async move {
            let _held = held;
            encode_answer(&id, &call.await)
        }))
    }

    fn notify(&self, method: Method, params: Params) {
        let call = Call::notification(method, params, self.context());
        let notifying = self.received.state.stack.send(call);
        let load = Arc::clone(&self.load);
        drop(spawn_scoped(self.session.scope(), async move {
            let _held = load;
            notifying.await
        }));
    }

    fn context(&self) -> Context {
        let session = &self.session;
        context(session.peer(), session.scope(), session.principal(), self.received)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderValue, Request};
    use http_body_util::{BodyExt as _, Full};
    use mgp_types::mcp::Revision;
    use mgp_types::method::{Initialize, Ping, Request as _, ToolsList};
    use mgp_types::service::{CredentialGrant, Reply, Stack, WireRules};
    use tower_service::Service as _;

    use super::*;
    use crate::http::HttpService;

    /// A server with a session of the revision that has batches.
    struct Server {
        service: HttpService,
        session: HeaderValue,
    }

    impl Server {
        /// Opens the session. A request for the list of tools ends it, and gets no answer.
        async fn open() -> Self {
            let stack = Stack::from_fn(|call: Call| async move {
                match call.method().as_str() {
                    Initialize::METHOD => {
                        call.cx().scope.state::<WireRules>().set_revision(&Revision::V2025_03_26);
                    }
                    ToolsList::METHOD => {
                        call.cx().peer.close("a test");
                        std::future::pending::<()>().await;
                    }
                    _ => {}
                }
                Ok(Reply::empty())
            });
            let config =
                HttpConfig { anonymous: Some(Principal::local()), ..HttpConfig::default() };
            let mut service = HttpService::new(stack, config);
            let opens = post(None, &request(0, Initialize::METHOD));
            let response = service.call(opens).await.unwrap();
            Self { session: response.headers()["mcp-session-id"].clone(), service }
        }

        /// Sends a batch of two requests with credentials, which are valid or not; returns the status and the body.
        async fn batch(&mut self, second: &str, is_valid: bool) -> (StatusCode, String) {
            let batch = format!("[{},{}]", request(1, Ping::METHOD), request(2, second));
            let mut request = post(Some(&self.session), &batch);
            request.extensions_mut().insert(CredentialGrant::new(["a"], move || is_valid));
            let response = self.service.call(request).await.unwrap();
            let status = response.status();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8(body.to_vec()).unwrap())
        }
    }

    fn request(id: u32, method: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
    }

    fn post(session: Option<&HeaderValue>, body: &str) -> Request<Full<Bytes>> {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.body(Full::from(body.to_owned())).unwrap()
    }

    /// Regression test: a call of a batch whose session ended got no answer at all, so its client waited for it.
    #[tokio::test]
    async fn a_call_whose_session_ends_is_answered_with_an_error() {
        let mut server = Server::open().await;
        let (status, body) = server.batch(ToolsList::METHOD, true).await;
        assert_eq!(status, StatusCode::OK);
        let answers: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
        let ended = answers.iter().find(|answer| answer["id"] == 2).unwrap();
        assert_eq!(ended["error"]["code"], 2000, "{body}");
    }

    /// Regression test: a client whose key was revoked while its batch ran got the answers.
    #[tokio::test]
    async fn a_batch_is_not_answered_after_its_credentials_became_invalid() {
        let mut server = Server::open().await;
        let (status, body) = server.batch(Ping::METHOD, true).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let (status, body) = server.batch(Ping::METHOD, false).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert!(body.contains(r#""code":1003"#) && body.contains("credentials"), "{body}");
    }
}
