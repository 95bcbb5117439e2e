//! Records the messages of a client and a server, so that the rules about servers can be checked on the client's
//! requests.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::json::{REVISION, shown};
use crate::notices::size;
use crate::session::MODERN;

/// The JSON pointer to the progress token in a request.
const TOKEN: &str = "/params/_meta/progressToken";

/// The codes with which a server that has only the modern era refuses `initialize`.
const OTHER_ERA: [i64; 2] = [-32601, -32022];

/// The maximum number of recorded messages of each peer.
pub(crate) const MAX_MESSAGES: usize = 10_000;

/// The maximum size of the recorded messages, in bytes of JSON with a fixed amount for each message.
pub(crate) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A request of the client, with the server's answer.
#[derive(Debug)]
struct Exchange {
    request: Value,
    /// The part of the params that is compared with a rule's request; if they are equal, the rule gets the answer to
    /// this request.
    essence: Value,
    answer: Option<Value>,
    is_cancelled: bool,
    /// `true` if another request with the same id was unanswered at the same time.
    is_ambiguous: bool,
    /// The range in [`Recording::notices`] of the messages that the server sent between the request and the answer.
    /// With parallel requests, some of these messages belong to other requests.
    notices: (usize, usize),
}

/// A recorded answer: the request, the answer, and the messages that the server sent in between.
pub(crate) type Recalled = (Value, Value, Vec<Value>);

/// The requests of a client and the messages of its server.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    exchanges: Vec<Exchange>,
    /// The ids of all recorded requests.
    ids: HashSet<Value>,
    /// The progress tokens of all recorded requests.
    tokens: HashSet<Value>,
    notices: Vec<Value>,
    /// The size of the recorded messages.
    bytes: usize,
    /// `true` if a limit was reached: from then on no message is recorded.
    is_full: bool,
    /// Answers without an open request.
    pub(crate) stray: Vec<String>,
    /// The indexes of the exchanges whose answers the current rule has received.
    used: HashSet<usize>,
    /// The indexes of the exchanges that [`Recording::next_call`] has returned to the current rule.
    offered: HashSet<usize>,
    /// The reason why the current rule cannot be judged.
    missed: Option<String>,
}

impl Recording {
    pub(crate) fn client_sent(&mut self, message: &Value) {
        let Some(method) = message["method"].as_str() else { return };
        let Some(id) = message.get("id") else {
            if method == "notifications/cancelled" {
                let id = message.pointer("/params/requestId");
                for exchange in self.exchanges.iter_mut().filter(|e| e.request.get("id") == id) {
                    exchange.is_cancelled = true;
                }
            }
            return;
        };
        if id.is_null() {
            return;
        }
        self.add_size(message, self.exchanges.len());
        if self.is_full {
            return;
        }
        self.ids.insert(id.clone());
        self.tokens.extend(message.pointer(TOKEN).cloned());
        let mut is_ambiguous = false;
        let is_same = |e: &&mut Exchange| e.answer.is_none() && e.request.get("id") == Some(id);
        for same in self.exchanges.iter_mut().filter(is_same) {
            (same.is_ambiguous, is_ambiguous) = (true, true);
        }
        self.exchanges.push(Exchange {
            is_ambiguous,
            essence: essence(method, message.get("params")),
            request: message.clone(),
            answer: None,
            is_cancelled: false,
            notices: (self.notices.len(), self.notices.len()),
        });
    }

    pub(crate) fn server_sent(&mut self, message: &Value) {
        let is_notice = message.get("method").is_some();
        self.add_size(message, if is_notice { self.notices.len() } else { 0 });
        // Record nothing once the limit is reached: requests and messages may be missing from then on, and a rule would
        // judge their answers wrongly.
        if self.is_full {
            return;
        }
        if is_notice {
            self.notices.push(message.clone());
            return;
        }
        let id = message.get("id").filter(|id| !id.is_null());
        let waiting = |exchange: &&mut Exchange| {
            exchange.answer.is_none() && id.is_some() && exchange.request.get("id") == id
        };
        if let Some(exchange) = self.exchanges.iter_mut().find(waiting) {
            exchange.answer = Some(message.clone());
            exchange.notices.1 = self.notices.len();
        } else if id.is_some() && self.stray.len() < MAX_MESSAGES {
            self.stray.push(shown(message));
        }
    }

    /// Counts the size of a message, and checks the limits; `count` is the number of recorded messages of its kind.
    fn add_size(&mut self, message: &Value, count: usize) {
        if !self.is_full {
            self.bytes = self.bytes.saturating_add(size(message));
            self.is_full = count >= MAX_MESSAGES || self.bytes > MAX_BYTES;
        }
    }

    /// Returns the request and the result of the handshake or of `server/discover`.
    pub(crate) fn hello(&self) -> Option<(&Value, &Value)> {
        let opens = |exchange: &&Exchange| {
            ["initialize", "server/discover"].iter().any(|name| exchange.request["method"] == *name)
        };
        self.exchanges.iter().filter(opens).find_map(|exchange| {
            Some((&exchange.request, exchange.answer.as_ref()?.get("result")?))
        })
    }

    /// Returns the error that the server answered to `initialize`. The refusal of a server that has only the modern era
    /// does not count.
    pub(crate) fn refused_initialize(&self) -> Option<&Value> {
        let handshakes = self.exchanges.iter().filter(|e| e.request["method"] == "initialize");
        let mut errors = handshakes.filter_map(|e| e.answer.as_ref()?.get("error"));
        errors.find(|error| !OTHER_ERA.iter().any(|code| error["code"] == *code))
    }

    /// Returns whether the server answered a request of the modern era with a result.
    pub(crate) fn has_modern_answer(&self) -> bool {
        self.exchanges.iter().any(|exchange| {
            exchange.request.pointer(REVISION).is_some()
                && exchange.answer.as_ref().is_some_and(|answer| answer.get("result").is_some())
        })
    }

    pub(crate) fn is_cancelled(&self, id: &Value) -> bool {
        self.exchanges.iter().any(|e| e.is_cancelled && e.request.get("id") == Some(id))
    }

    /// Returns all messages of the server that are not answers.
    pub(crate) fn notices(&self) -> &[Value] {
        &self.notices
    }

    pub(crate) fn answers(&self) -> impl Iterator<Item = &Value> {
        self.exchanges.iter().filter_map(|exchange| exchange.answer.as_ref())
    }

    /// Returns the requests that were neither answered nor cancelled; no request after a limit was reached, because
    /// from then on answers are not recorded.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &Value> {
        let is_full = self.is_full;
        let waits = move |exchange: &&Exchange| {
            !is_full && exchange.answer.is_none() && !exchange.is_cancelled
        };
        self.exchanges.iter().filter(waits).map(|exchange| &exchange.request)
    }

    /// Begins the check of the next rule, which sees the whole recording again.
    pub(crate) fn begin_rule(&mut self) {
        self.used.clear();
        self.offered.clear();
        self.missed = None;
    }

    /// Returns a number that grows when the current rule reads a further part of the recording.
    pub(crate) fn progress(&self) -> usize {
        self.used.len() + self.offered.len()
    }

    /// Returns the recorded answer to a request. Each answer is returned once per rule; if none is left, records that
    /// the rule cannot be judged.
    pub(crate) fn recall(&mut self, method: &str, params: &Value) -> Option<Recalled> {
        let wanted = essence(method, Some(params));
        let has_token = |params: Option<&Value>| {
            params.is_some_and(|params| params.pointer("/_meta/progressToken").is_some())
        };
        let needs_token = has_token(Some(params));
        // A rule can send a request in another revision, which only the metadata of the request shows. So compare the
        // revisions, too.
        let revision = params.pointer(REVISION.trim_start_matches("/params"));
        let has_revision = |request: &Value| match (revision, request.pointer(REVISION)) {
            (Some(wanted), own) => own == Some(wanted),
            (None, own) => own.is_none_or(|own| *own == MODERN),
        };
        let found = self.exchanges.iter().enumerate().find(|(at, exchange)| {
            !self.used.contains(at)
                && exchange.answer.is_some()
                && !exchange.is_ambiguous
                && exchange.request["method"] == method
                && exchange.essence == wanted
                && (!needs_token || has_token(exchange.request.get("params")))
                && has_revision(&exchange.request)
        });
        let Some((at, exchange)) = found else {
            self.miss(format!("the client sent no such `{method}`, or no more"));
            return None;
        };
        let answer = exchange.answer.clone()?;
        self.used.insert(at);
        let (from, to) = exchange.notices;
        let request = exchange.request.clone();
        let sent = self.notices[from..to].iter();
        let notices =
            sent.filter(|notice| !self.is_of_another(notice, &request)).cloned().collect();
        Some((request, answer, notices))
    }

    /// Returns whether a message of the server belongs to a recorded request other than `request`.
    fn is_of_another(&self, notice: &Value, request: &Value) -> bool {
        let (named, own, all) = match notice["method"].as_str() {
            Some("notifications/progress") => ("/params/progressToken", TOKEN, &self.tokens),
            Some("notifications/mgp.stream.chunk") => ("/params/request_id", "/id", &self.ids),
            _ => return false,
        };
        let named = notice.pointer(named);
        named != request.pointer(own) && named.is_some_and(|named| all.contains(named))
    }

    /// Returns the tool name and the arguments of the next recorded call that succeeded. Each call is returned once per
    /// rule.
    pub(crate) fn next_call(&mut self) -> Option<(String, Value)> {
        let is_call = |exchange: &Exchange| {
            exchange.request["method"] == "tools/call"
                && !exchange.is_ambiguous
                && exchange.answer.as_ref().is_some_and(|answer| answer.get("result").is_some())
        };
        let next = self
            .exchanges
            .iter()
            .enumerate()
            .find(|(at, exchange)| !self.offered.contains(at) && is_call(exchange));
        let Some((at, exchange)) = next else {
            self.miss("the client made no call that succeeded, or no more".to_owned());
            return None;
        };
        self.offered.insert(at);
        let name = exchange.essence["name"].as_str().unwrap_or_default().to_owned();
        Some((name, exchange.essence["arguments"].clone()))
    }

    /// Records that the current rule needs a request that the client did not send.
    pub(crate) fn miss(&mut self, reason: String) {
        self.missed.get_or_insert(reason);
    }

    /// Removes and returns the reason why the current rule could not be judged.
    pub(crate) fn take_missed(&mut self) -> Option<String> {
        self.missed.take()
    }
}

/// Returns the params that are compared between requests: without the metadata, the trace id, the time of a health
/// ping, and all of `_mgp` except the request for chunks.
fn essence(method: &str, params: Option<&Value>) -> Value {
    let mut params = params.and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    params.remove("_meta");
    params.remove("trace_id");
    if method == "mgp/health/ping" {
        params.remove("timestamp");
    }
    if let Some(mgp) = params.remove("_mgp")
        && mgp["stream"] == true
    {
        params.insert("_mgp".to_owned(), json!({ "stream": true }));
    }
    if method == "tools/call" {
        params.entry("arguments").or_insert_with(|| json!({}));
    }
    Value::Object(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64, method: &str, params: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    #[test]
    fn each_answer_is_recalled_once_with_what_came_before_it() {
        let mut recording = Recording::default();
        let call = json!({ "name": "a", "trace_id": "t", "_meta": { "x": 1 } });
        recording.client_sent(&request(1, "tools/call", &call));
        recording.client_sent(&request(2, "ping", &json!({})));
        recording.server_sent(&json!({ "method": "notifications/progress" }));
        recording.server_sent(&json!({ "id": 1, "result": {} }));
        recording.server_sent(&json!({ "id": 1, "result": {} }));
        let asked = json!({ "name": "a", "arguments": {} });
        let (_, answer, notices) = recording.recall("tools/call", &asked).unwrap();
        assert_eq!((answer["id"].as_u64(), notices.len()), (Some(1), 1));
        assert!(recording.recall("tools/call", &asked).is_none());
        assert!(recording.take_missed().is_some());
        assert_eq!(recording.stray.len(), 1, "the second answer");
        assert_eq!(recording.unanswered().count(), 1, "the ping");
    }

    #[test]
    fn messages_after_the_limit_are_neither_stray_nor_missing() {
        let chunk = json!({ "method": "notifications/mgp.stream.chunk", "params": {} });
        let mut recording = Recording::default();
        recording.client_sent(&request(1, "ping", &json!({})));
        recording.client_sent(&request(2, "tools/call", &json!({ "name": "a" })));
        recording.server_sent(&json!({ "id": 1, "result": {} }));
        for _ in 0..=MAX_MESSAGES {
            recording.server_sent(&chunk);
        }
        recording.server_sent(&json!({ "id": 2, "result": {} }));
        recording.client_sent(&request(3, "ping", &json!({})));
        recording.server_sent(&json!({ "id": 3, "result": {} }));
        assert_eq!((recording.stray.len(), recording.unanswered().count()), (0, 0));
        assert!(recording.recall("ping", &json!({})).is_some());
        // One of the chunks is missing, so the call cannot be judged.
        assert!(recording.recall("tools/call", &json!({ "name": "a" })).is_none());

        let mut recording = Recording::default();
        let large =
            json!({ "method": "notifications/message", "params": "x".repeat(MAX_BYTES / 4) });
        for _ in 0..5 {
            recording.server_sent(&large);
        }
        assert_eq!(recording.notices().len(), 3, "the size of the messages is limited too");

        let mut recording = Recording::default();
        for id in 0..=MAX_MESSAGES as u64 {
            recording.client_sent(&request(id, "ping", &json!({})));
            recording.server_sent(&json!({ "id": id, "result": {} }));
        }
        assert_eq!((recording.stray.len(), recording.unanswered().count()), (0, 0));
    }

    #[test]
    fn a_request_is_recalled_only_for_its_revision() {
        let mut recording = Recording::default();
        let name = "io.modelcontextprotocol/protocolVersion";
        let of = |revision: &str| json!({ "_meta": { name: revision } });
        for (id, revision) in [(1, MODERN), (2, "2099-01-01"), (3, "2099-01-01")] {
            recording.client_sent(&request(id, "tools/list", &of(revision)));
            recording.server_sent(&json!({ "id": id, "result": {} }));
        }
        let (request, ..) = recording.recall("tools/list", &of("2099-01-01")).unwrap();
        assert_eq!(request["id"], 2);
        assert!(recording.recall("tools/list", &json!({})).is_some());
        assert!(recording.recall("tools/list", &json!({})).is_none());
        assert!(recording.recall("tools/list", &of("2099-01-01")).is_some());
        assert!(recording.recall("tools/list", &of("2099-01-01")).is_none());
    }

    #[test]
    fn a_health_ping_is_recalled_with_any_time() {
        let mut recording = Recording::default();
        let params = json!({ "timestamp": "2026-02-03T04:05:06Z" });
        recording.client_sent(&request(1, "mgp/health/ping", &params));
        recording.server_sent(&json!({ "id": 1, "result": {} }));
        let asked = json!({ "timestamp": "2026-01-31T12:00:00Z" });
        assert!(recording.recall("mgp/health/ping", &asked).is_some());
    }

    #[test]
    fn the_notices_of_parallel_calls_are_not_mixed() {
        let mut recording = Recording::default();
        let call = |name: &str| json!({ "name": name, "_meta": { "progressToken": name } });
        recording.client_sent(&request(1, "tools/call", &call("a")));
        recording.client_sent(&request(2, "tools/call", &call("b")));
        let notice = |method: &str, params: Value| json!({ "method": method, "params": params });
        let progress =
            |token: &str| notice("notifications/progress", json!({ "progressToken": token }));
        let chunk = |id: u64| notice("notifications/mgp.stream.chunk", json!({ "request_id": id }));
        let log = notice("notifications/message", json!({}));
        for sent in
            [progress("a"), progress("b"), progress("c"), chunk(1), chunk(2), chunk(3), log.clone()]
        {
            recording.server_sent(&sent);
        }
        for id in [2, 1] {
            recording.server_sent(&json!({ "id": id, "result": {} }));
        }
        for (id, name) in [(1, "a"), (2, "b")] {
            let (_, _, notices) = recording.recall("tools/call", &call(name)).unwrap();
            // A message with a progress token or an id that belongs to no request is kept, because the rules judge it.
            let expected = [progress(name), progress("c"), chunk(id), chunk(3), log.clone()];
            assert_eq!(notices, expected, "{name}");
        }
    }
}
