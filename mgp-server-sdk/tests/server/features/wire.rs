//! A peer without an SDK: it writes and reads lines over a connection.

use std::collections::VecDeque;
use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_testkit::{RawPeer, hello, modern_meta};
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::Era;
use mgp_types::service::Scope;
use serde_json::{Value, json};

pub(crate) struct Wire {
    era: Era,
    capabilities: Value,
    /// The members that are added to the `_meta` of each modern request.
    pub(crate) meta: Value,
    pub(crate) raw: RawPeer,
    /// The notifications that were received and not returned yet.
    notices: VecDeque<Value>,
    /// The answers that the peer will give to the server's next questions, in this order.
    pub(crate) answers: VecDeque<Value>,
    /// The questions that the server has asked, each as `{method, params}`.
    pub(crate) asked: Vec<Value>,
    /// The number of times that the peer sent its last request again, because the server answered it with questions.
    pub(crate) rounds: usize,
    pub(crate) hello: Value,
    pub(crate) scope: Scope,
}

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

impl Wire {
    pub(crate) async fn join(server: Server, era: Era) -> Self {
        Self::offering(server, era, json!({})).await
    }

    /// Connects to a server as a client with these capabilities.
    pub(crate) async fn offering(server: Server, era: Era, capabilities: Value) -> Self {
        Self::to(&server.into_stack().unwrap(), era, capabilities).await
    }

    pub(crate) async fn to(
        stack: &mgp_types::service::Stack,
        era: Era,
        capabilities: Value,
    ) -> Self {
        let (here, there) = duplex();
        let connection = Connection::new(there.reader, there.writer, stack.clone());
        let scope = connection.scope().clone();
        tokio::spawn(connection.run());
        let mut wire = Self {
            era,
            capabilities,
            meta: json!({}),
            raw: RawPeer::new(here.reader, here.writer),
            notices: VecDeque::new(),
            answers: VecDeque::new(),
            asked: Vec::new(),
            rounds: 0,
            hello: Value::Null,
            scope,
        };
        wire.hello = match era {
            Era::Legacy => {
                let params = hello("2025-11-25", &wire.capabilities);
                let hello = wire.ask("initialize", params).await.unwrap();
                wire.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
                    .await;
                // A notification gets no answer, so a request follows: when it is answered, the
                // notification has been handled.
                wire.ask("ping", json!({})).await.unwrap();
                hello
            }
            Era::Modern => wire.ask("server/discover", json!({})).await.unwrap(),
        };
        wire
    }

    /// Sends a request and waits for its result; answers questions of the server, in either era.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let mut again = params.clone();
        self.rounds = 0;
        loop {
            self.rounds += 1;
            let id = self.send(method, again).await;
            let answer = self.answer(id).await;
            let result = match answer.get("error") {
                Some(error) => return Err(error.clone()),
                None => answer["result"].clone(),
            };
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            let mut responses = json!({});
            for (key, question) in result["inputRequests"].as_object().unwrap() {
                let mut question = question.clone();
                question["key"] = json!(key);
                self.asked.push(question);
                responses[key] = self.answers.pop_front().unwrap();
            }
            again = params.clone();
            again["inputResponses"] = responses;
            again["requestState"] = result["requestState"].clone();
        }
    }

    pub(crate) async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        if self.era == Era::Modern {
            let mut meta = modern_meta(&self.capabilities);
            let more = self.meta.as_object().unwrap().clone();
            meta.as_object_mut().unwrap().extend(more);
            params["_meta"] = meta;
        }
        self.raw.send(method, params).await
    }

    /// Waits for the next notification.
    pub(crate) async fn notice(&mut self) -> Value {
        if let Some(notice) = self.notices.pop_front() {
            return notice;
        }
        let notice = self.raw.receive().await;
        assert!(notice.get("id").is_none(), "{notice}");
        notice
    }

    /// Returns the notifications that arrive until there are no more.
    pub(crate) async fn notices(&mut self) -> Vec<Value> {
        // Wait in short intervals, so that a suspended process does not spend the whole time at once.
        let mut quiet = 0;
        while quiet < 10 {
            match tokio::time::timeout(Duration::from_millis(10), self.raw.receive()).await {
                Ok(notice) => {
                    self.notices.push_back(notice);
                    quiet = 0;
                }
                Err(_) => quiet += 1,
            }
        }
        self.notices.drain(..).collect()
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.raw.receive().await;
            if message.get("method").is_none() {
                assert_eq!(message["id"], id, "{message}");
                return message;
            }
            if message.get("id").is_none() {
                self.notices.push_back(message);
                continue;
            }
            assert_eq!(self.era, Era::Legacy, "a modern server sends no requests: {message}");
            let result = self.answers.pop_front().unwrap();
            self.asked.push(json!({ "method": message["method"], "params": message["params"] }));
            self.write(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).await;
        }
    }

    pub(crate) async fn write(&mut self, message: &Value) {
        self.raw.write(message).await;
    }
}

/// Returns the code of an error; fails if there is no error.
#[track_caller]
pub(crate) fn code(answer: &Result<Value, Value>) -> i64 {
    answer.as_ref().unwrap_err()["code"].as_i64().unwrap()
}
