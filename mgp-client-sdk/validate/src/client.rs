//! Judges a client: acts as a small server on standard input and output, and watches what the client sends.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::json::{Wrong, shown, text};
use crate::link::{Link, Sent, of_this_process};
use crate::notices::size;
use crate::recording::{MAX_BYTES, MAX_MESSAGES};
use crate::report::{Report, RuleResult, Status, Subject};
use crate::rule::{RuleInfo, RuleLevel, Tier};
use crate::session::{LEGACY, LEGACY_REVISIONS, Options, Session, Setup, mgp_of, mgp_offered};

/// A rule about clients: it looks at all messages of a client after the connection ended.
struct ClientRule {
    info: RuleInfo,
    check: fn(&Seen) -> Result<bool, Wrong>,
}

macro_rules! client_rules {
    ($($id:literal, $section:literal, $level:ident, $tier:ident, $text:literal => $check:expr;)+) => {
        static RULES: &[ClientRule] = &[$(ClientRule {
            info: RuleInfo {
                id: $id,
                section: $section,
                level: RuleLevel::$level,
                tier: Tier::$tier,
                text: $text,
            },
            check: $check,
        }),+];
    };
}

client_rules! {
    "client.initialize", "MCP lifecycle", Must, Mcp,
        "a legacy client begins with `initialize`: revision, capabilities, name" => initialize;
    "client.initialized", "MCP lifecycle", Must, Mcp,
        "after the answer it sends `notifications/initialized`" => initialized;
    "client.initialized.order", "MCP lifecycle", Should, Mcp,
        "before `notifications/initialized` it sends nothing but `ping`" => initialized_first;
    "client.ids", "JSON-RPC §4", Must, Mcp,
        "each request has an id of its own" => unique_ids;
    "client.jsonrpc", "JSON-RPC §4", Must, Mcp,
        "each message has `\"jsonrpc\": \"2.0\"`" => envelopes;
    "client.json", "MCP stdio", Must, Mcp,
        "it sends nothing but messages" => only_messages;
    "client.ping", "MCP ping", Must, Mcp,
        "it answers `ping`" => answers_ping;
    "client.method.unknown", "JSON-RPC §5.1", Must, Mcp,
        "it answers an unknown request with -32601" => refuses_unknown;
    "client.notification.silent", "JSON-RPC §4.1", Must, Mcp,
        "it does not answer notifications" => silent;
    "client.undeclared", "MCP lifecycle", Must, Mcp,
        "it uses only what the server declared" => only_declared;
    "client.mgp.silence", "MGP §2.4", Must, Tier1,
        "it sends no method of MGP to a server that did not answer its offer" => no_mgp;
    "client.mgp.offer", "MGP §2.2", Must, Tier1,
        "an offer of MGP has a version and extensions" => offer;
}

/// The messages that a client sent, and the parts of the server's messages that the rules need to judge them.
#[derive(Default)]
pub(crate) struct Seen {
    messages: Vec<Value>,
    pub(crate) garbage: Vec<String>,
    /// The server's requests, each as its id and its method.
    asked: Vec<(Value, String)>,
    /// The client's answers to these requests.
    answers: Vec<Value>,
    declared: Option<Value>,
    /// The revision in the server's answer to `initialize`.
    negotiated: Option<Value>,
    /// The size of the recorded messages.
    bytes: usize,
    /// `true` if a limit was reached: from then on no message is recorded.
    is_full: bool,
    /// `true` if the client has disconnected, or the judge was stopped while it waited for the client.
    pub(crate) is_over: bool,
    pub(crate) subject: Subject,
}

/// The name of the rule about the first message of a legacy client.
pub(crate) const INITIALIZE: &str = "client.initialize";

/// A method that no client has.
const UNKNOWN: &str = "does/not/exist";

/// The time limit of one wait for a message; the judge then waits again until the client disconnects.
const WATCH_INTERVAL: Duration = Duration::from_hours(1);

/// Serves one client on standard input and output until the client disconnects or `stop` completes. Returns a report
/// about the rules that the client kept and broke.
///
/// The server has two harmless tools. It sends the client a `ping`, an unknown request and an unknown notification.
///
/// # Cancel safety
/// Dropping the future ends the connection.
pub async fn judge_client(stop: impl Future<Output = ()>) -> Report {
    judge(of_this_process().unwrap_or_else(|_| Link::closed()), stop).await
}

async fn judge(link: Link, stop: impl Future<Output = ()>) -> Report {
    let mut stop = pin!(stop);
    let replies = link.output.clone();
    let mut session = Session::new(link, Setup::Bare, &Options::new());
    let mut seen = Seen::default();
    while session.end.is_none() {
        let deadline = Instant::now() + WATCH_INTERVAL;
        let received = tokio::select! {
            () = &mut stop => break,
            received = session.next_until(deadline) => received,
        };
        let Some(message) = received else { continue };
        for reply in answers(&message) {
            seen.server_sent(&reply);
            if let Some(replies) = &replies {
                let _ = replies.send(Sent::Message(reply)).await;
            }
        }
        seen.client_sent(message);
    }
    seen.garbage = session.garbage;
    seen.is_over = true;
    let results = seen.judged();
    Report::new(seen.subject, results)
}

/// Returns all rules about clients.
pub(crate) fn rules() -> impl Iterator<Item = &'static RuleInfo> {
    RULES.iter().map(|rule| &rule.info)
}

fn judged(rule: &ClientRule, seen: &Seen) -> RuleResult {
    let (status, message) = match (rule.check)(seen) {
        Ok(true) => (Status::Passed, None),
        Ok(false) => (Status::Skipped, Some("the client did nothing to judge".to_owned())),
        Err(wrong) => (Status::Failed, Some(wrong)),
    };
    RuleResult::new(rule.info, status, message, Default::default(), 0)
}

/// Returns the server's messages after a client's message: an answer to a request, and after
/// `notifications/initialized` three messages of its own.
fn answers(message: &Value) -> Vec<Value> {
    let Some(method) = message["method"].as_str() else { return Vec::new() };
    let Some(id) = message.get("id") else {
        if method != "notifications/initialized" {
            return Vec::new();
        }
        return vec![
            json!({ "jsonrpc": "2.0", "id": "judge-ping", "method": "ping" }),
            json!({ "jsonrpc": "2.0", "id": "judge-unknown", "method": UNKNOWN, "params": {} }),
            json!({ "jsonrpc": "2.0", "method": "notifications/does/not/exist", "params": {} }),
        ];
    };
    let tool = |name: &str| {
        json!({ "name": name, "description": "Returns its text", "annotations": { "readOnlyHint": true },
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } } })
    };
    let result = match method {
        "initialize" => json!({
            "protocolVersion": LEGACY,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "mgp-validate", "version": env!("CARGO_PKG_VERSION") },
        }),
        "ping" => json!({}),
        "tools/list" => json!({ "tools": [tool("echo"), tool("repeat")] }),
        "tools/call" => {
            let text = message.pointer("/params/arguments/text").and_then(Value::as_str);
            json!({ "content": [{ "type": "text", "text": text.unwrap_or("nothing") }] })
        }
        _ => {
            let error = json!({ "code": -32601, "message": format!("`{method}` does not exist") });
            return vec![json!({ "jsonrpc": "2.0", "id": id, "error": error })];
        }
    };
    vec![json!({ "jsonrpc": "2.0", "id": id, "result": result })]
}

impl Seen {
    pub(crate) fn client_sent(&mut self, message: Value) {
        let id = message.get("id");
        let is_asked = || self.asked.iter().any(|(asked, _)| Some(asked) == id);
        let is_answer = message.get("method").is_none() && is_asked();
        let kept = if is_answer { &mut self.answers } else { &mut self.messages };
        self.bytes = self.bytes.saturating_add(size(&message));
        self.is_full |= kept.len() >= MAX_MESSAGES || self.bytes > MAX_BYTES;
        if !self.is_full {
            kept.push(message);
        }
    }

    /// Records the request and the declared capabilities that a message of the server contains.
    pub(crate) fn server_sent(&mut self, message: &Value) {
        if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
            self.bytes = self.bytes.saturating_add(size(message));
            self.is_full |= self.asked.len() >= MAX_MESSAGES || self.bytes > MAX_BYTES;
            if !self.is_full {
                self.asked.push((id.clone(), method.to_owned()));
            }
        }
        if let Some(declared) = message.pointer("/result/capabilities")
            && self.declared.is_none()
        {
            self.declared = Some(declared.clone());
            self.negotiated = message.pointer("/result/protocolVersion").cloned();
        }
    }

    /// Checks the rules about clients on the messages so far, and returns the results.
    pub(crate) fn judged(&mut self) -> Vec<RuleResult> {
        self.note_subject();
        RULES.iter().map(|rule| judged(rule, self)).collect()
    }

    /// Returns the client's answers to all requests of a method that the server sent; fails if one was not answered.
    fn answers_to(&self, wanted: &str) -> Result<Vec<&Value>, Wrong> {
        let asked = self.asked.iter().filter(|(_, method)| method == wanted);
        let answer = |id: &Value| self.answers.iter().find(|answer| answer.get("id") == Some(id));
        // If the limit of recorded messages was reached, the answer may have arrived afterwards, so do not report it as
        // missing.
        asked
            .filter(|(id, _)| !self.is_full || answer(id).is_some())
            .map(|(id, _)| answer(id).ok_or_else(|| format!("`{wanted}` was not answered")))
            .collect()
    }

    fn requests(&self) -> impl Iterator<Item = (&str, &Value)> {
        let methods = self.messages.iter().filter(|message| message.get("id").is_some());
        methods.filter_map(|message| Some((message["method"].as_str()?, message)))
    }

    fn handshake(&self) -> Option<&Value> {
        self.requests().find(|(method, _)| *method == "initialize").map(|(_, message)| message)
    }

    fn has_initialized(&self) -> bool {
        self.messages.iter().any(|message| message["method"] == "notifications/initialized")
    }

    fn note_subject(&mut self) {
        "a client on standard input".clone_into(&mut self.subject.target);
        let first = self.handshake().or_else(|| self.requests().next().map(|(_, first)| first));
        let Some(first) = first.cloned() else { return };
        // Also look into the metadata of the request, in which modern clients introduce themselves.
        let of = |member: &str| {
            let modern = format!("/params/_meta/io.modelcontextprotocol~1{member}");
            let value = first.pointer(&format!("/params/{member}"));
            value.or_else(|| first.pointer(&modern))?.as_str().map(str::to_owned)
        };
        self.subject.name = of("clientInfo/name");
        self.subject.version = of("clientInfo/version");
        self.subject.revisions.extend(of("protocolVersion"));
        if let Some(offer) = mgp_offered(&first) {
            self.subject.mgp_version = offer["version"].as_str().map(str::to_owned);
            let names = offer["extensions"].as_array().into_iter().flatten();
            self.subject.extensions =
                names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        }
    }
}

fn initialize(seen: &Seen) -> Result<bool, Wrong> {
    let is_modern = |message: &Value| {
        message.pointer(crate::json::REVISION).is_some() || message["method"] == "server/discover"
    };
    let first = seen.messages.first().filter(|message| !is_modern(message));
    let Some(handshake) = seen.handshake() else {
        if seen.is_over && seen.messages.is_empty() && seen.garbage.is_empty() {
            return Err("the client sent no message".to_owned());
        }
        return first
            .map_or(Ok(false), |first| Err(format!("the first message was {}", shown(first))));
    };
    let params = crate::json::object(handshake, "params")?;
    let revision = text(params, "protocolVersion")?;
    crate::json::object(params, "capabilities")?;
    text(crate::json::object(params, "clientInfo")?, "name")?;
    if LEGACY_REVISIONS.contains(&revision) {
        return Ok(true);
    }
    Err(format!("`{revision}` is not a revision with `initialize`"))
}

fn initialized(seen: &Seen) -> Result<bool, Wrong> {
    let Some(handshake) = seen.handshake() else { return Ok(false) };
    if seen.has_initialized() {
        return Ok(true);
    }
    // A client does not have to continue if `initialize` was refused, or answered with a revision that it does not
    // know.
    let wanted = handshake.pointer("/params/protocolVersion");
    if seen.negotiated.is_none() || seen.negotiated.as_ref() != wanted {
        return Ok(false);
    }
    Err("`notifications/initialized` never came".to_owned())
}

fn initialized_first(seen: &Seen) -> Result<bool, Wrong> {
    let begun =
        seen.messages.iter().skip_while(|message| message["method"] != "initialize").skip(1);
    for method in begun.filter_map(|message| message["method"].as_str()) {
        match method {
            "ping" | "notifications/cancelled" => {}
            "notifications/initialized" => return Ok(true),
            // Without a handshake, other messages are not judged by this rule.
            _ if !seen.has_initialized() => return Ok(false),
            other => return Err(format!("`{other}` was sent before `notifications/initialized`")),
        }
    }
    Ok(false)
}

fn unique_ids(seen: &Seen) -> Result<bool, Wrong> {
    let mut known = HashSet::new();
    for (method, message) in seen.requests() {
        let id = &message["id"];
        if !id.is_i64() && !id.is_u64() && !id.is_string() {
            return Err(format!(
                "the id of `{method}` must be text or an integer, not {}",
                shown(id)
            ));
        }
        if !known.insert(id.to_string()) {
            return Err(format!("the id {} was used twice", shown(id)));
        }
    }
    Ok(!known.is_empty())
}

fn envelopes(seen: &Seen) -> Result<bool, Wrong> {
    let wrong = seen.messages.iter().find(|message| message["jsonrpc"] != "2.0");
    wrong.map_or(Ok(!seen.messages.is_empty()), |wrong| Err(format!("not so in {}", shown(wrong))))
}

fn only_messages(seen: &Seen) -> Result<bool, Wrong> {
    seen.garbage.first().map_or(Ok(true), |text| Err(format!("this is not a message: {text}")))
}

fn answers_ping(seen: &Seen) -> Result<bool, Wrong> {
    let answers = seen.answers_to("ping")?;
    match answers.iter().find(|answer| answer.get("result").is_none()) {
        Some(answer) => Err(format!("`ping` was answered with {}", shown(answer))),
        None => Ok(!answers.is_empty()),
    }
}

fn refuses_unknown(seen: &Seen) -> Result<bool, Wrong> {
    let answers = seen.answers_to(UNKNOWN)?;
    let refused = |answer: &&Value| answer.pointer("/error/code") == Some(&json!(-32601));
    match answers.iter().find(|answer| !refused(answer)) {
        Some(answer) => Err(format!("it was answered with {}", shown(answer))),
        None => Ok(!answers.is_empty()),
    }
}

fn silent(seen: &Seen) -> Result<bool, Wrong> {
    let answer = seen.messages.iter().find(|message| message.get("method").is_none());
    answer.map_or(Ok(seen.has_initialized()), |answer| {
        Err(format!("this answers nothing: {}", shown(answer)))
    })
}

fn only_declared(seen: &Seen) -> Result<bool, Wrong> {
    const CAPABILITIES: [(&str, &str); 5] = [
        ("tools/", "tools"),
        ("resources/", "resources"),
        ("prompts/", "prompts"),
        ("logging/", "logging"),
        ("completion/", "completions"),
    ];
    let Some(declared) = &seen.declared else { return Ok(false) };
    let is_undeclared = |method: &str| {
        CAPABILITIES.iter().any(|(of, name)| {
            method.starts_with(of) && declared.get(name).is_none_or(Value::is_null)
        })
    };
    let used = seen.requests().find(|(method, _)| is_undeclared(method));
    used.map_or(Ok(seen.has_initialized()), |(method, _)| Err(format!("`{method}` was sent")))
}

fn no_mgp(seen: &Seen) -> Result<bool, Wrong> {
    if seen.declared.as_ref().and_then(mgp_of).is_some() {
        return Ok(false);
    }
    let methods = seen.messages.iter().filter_map(|message| message["method"].as_str());
    let sent = methods
        .into_iter()
        .find(|method| method.starts_with("mgp/") || method.starts_with("notifications/mgp."));
    sent.map_or(Ok(seen.has_initialized()), |method| Err(format!("`{method}` was sent")))
}

fn offer(seen: &Seen) -> Result<bool, Wrong> {
    let Some(offer) = seen.requests().find_map(|(_, message)| mgp_offered(message)) else {
        return Ok(false);
    };
    text(offer, "version")?;
    crate::json::texts(offer, "extensions")?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::link::Target;

    fn initialize() -> Value {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" } } })
    }

    fn status(results: &[RuleResult], id: &str) -> Option<Status> {
        results.iter().find(|result| result.rule.id == id).map(|result| result.status)
    }

    #[track_caller]
    fn check(answer: &Value, expected: Status) {
        let mut seen = Seen::default();
        seen.client_sent(initialize());
        seen.server_sent(answer);
        let results = seen.judged();
        assert_eq!(status(&results, "client.initialized"), Some(expected), "{answer}");
        assert_eq!(status(&results, INITIALIZE), Some(Status::Passed), "{answer}");
    }

    #[test]
    fn a_client_may_leave_a_server_that_it_cannot_use() {
        let answer = |revision: &str| {
            let result = json!({ "protocolVersion": revision, "capabilities": {} });
            json!({ "jsonrpc": "2.0", "id": 1, "result": result })
        };
        let error = json!({ "code": -32000, "message": "no" });
        check(&json!({ "jsonrpc": "2.0", "id": 1, "error": error }), Status::Skipped);
        check(&answer("2024-11-05"), Status::Skipped);
        check(&answer("2025-06-18"), Status::Failed);
    }

    #[test]
    fn a_client_that_disconnects_without_a_message_fails() {
        let mut seen = Seen::default();
        assert_eq!(status(&seen.judged(), INITIALIZE), Some(Status::Skipped), "not read yet");
        seen.is_over = true;
        assert_eq!(status(&seen.judged(), INITIALIZE), Some(Status::Failed));
    }

    #[test]
    fn requests_before_the_end_of_the_handshake_are_a_warning() {
        let mut seen = Seen::default();
        seen.client_sent(initialize());
        seen.client_sent(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
        seen.client_sent(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        let results = seen.judged();
        assert_eq!(status(&results, "client.initialized"), Some(Status::Passed));
        assert_eq!(status(&results, "client.initialized.order"), Some(Status::Failed));
    }

    #[test]
    fn requests_after_the_limit_are_not_judged() {
        let mut seen = Seen::default();
        seen.client_sent(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        for id in 0..=MAX_MESSAGES {
            seen.server_sent(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        }
        seen.client_sent(json!({ "jsonrpc": "2.0", "id": MAX_MESSAGES, "result": {} }));
        let results = seen.judged();
        assert_eq!(status(&results, "client.notification.silent"), Some(Status::Passed));
        assert_eq!(status(&results, "client.ping"), Some(Status::Skipped));
    }

    #[tokio::test(start_paused = true)]
    async fn a_judge_that_is_stopped_reports_what_the_client_sent_so_far() {
        let (input, mut client) = tokio::io::duplex(1024);
        client.write_all((initialize().to_string() + "\n").as_bytes()).await.unwrap();
        let ends = std::sync::Mutex::new(Some(input));
        let target =
            Target::memory(move || (ends.lock().unwrap().take().unwrap(), tokio::io::sink()));
        let stop = tokio::time::sleep(Duration::from_secs(1));
        let report = judge(target.open(None).unwrap(), stop).await;
        assert_eq!(status(&report.results, INITIALIZE), Some(Status::Passed));
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_watched_until_it_disconnects() {
        let target = Target::memory(|| {
            let (input, mut client) = tokio::io::duplex(1024);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_mins(90)).await;
                let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
                client.write_all(ping.as_bytes()).await.unwrap();
            });
            (input, tokio::io::sink())
        });
        let report = judge(target.open(None).unwrap(), std::future::pending()).await;
        assert_eq!(status(&report.results, "client.ids"), Some(Status::Passed));
    }
}
