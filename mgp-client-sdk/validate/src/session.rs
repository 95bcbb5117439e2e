//! A connection after its handshake. Rules send requests on it and check the answers.

use std::time::Duration;

use mgp_types::clip;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::json::{MAX_SHOWN, Wrong, shown};
use crate::link::{Link, Received, Sent, Target};
use crate::notices::Notices;
use crate::recording::Recording;

/// The newest revision of the era with a handshake.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The revision of the era without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";

/// The name of the extension that declares MGP in the modern era.
pub(crate) const MGP_KEY: &str = "dev.cloto/mgp";

pub(crate) const LEGACY_REVISIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", LEGACY];

/// The extensions that MGP §2.2 defines.
pub(crate) const EXTENSIONS: &[&str] = &[
    "security",
    "access_control",
    "audit",
    "code_safety",
    "lifecycle",
    "streaming",
    "bidirectional",
    "discovery",
    "tool_discovery",
];

/// The time during which a rule waits for messages that must not be sent.
const QUIET: Duration = Duration::from_millis(150);

/// The keywords of a schema that can require arguments which are not in `required`.
const ALTERNATIVES: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];

/// The maximum number of faults of one kind that are kept for a rule to check.
const MAX_KEPT: usize = 512;

/// Settings for judging a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The maximum time to wait for each answer; [`judge_pair`](crate::judge_pair) has no limit. Default: 10 s.
    pub timeout: Duration,
    /// A tool that the judge is allowed to call, with its arguments: rules about results and chunks need one. Default:
    /// a tool that declares to be read-only and needs no arguments.
    pub tool: Option<(String, Value)>,
    /// The beginnings of the names of the rules to check. Default: all rules.
    pub only: Vec<String>,
}

impl Options {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self { timeout: Duration::from_secs(10), tool: None, only: Vec::new() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// The kind of connection that a rule needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Setup {
    /// The legacy handshake without MGP.
    Legacy,
    /// The legacy handshake with all of MGP.
    LegacyMgp,
    /// The modern era without MGP.
    Modern,
    /// The modern era with all of MGP.
    ModernMgp,
    /// A connection before the judge's first message.
    Bare,
}

impl Setup {
    pub(crate) const fn is_modern(self) -> bool {
        matches!(self, Self::Modern | Self::ModernMgp)
    }

    pub(crate) const fn offers_mgp(self) -> bool {
        matches!(self, Self::LegacyMgp | Self::ModernMgp)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Result(Value),
    Error { code: i64, error: Value },
}

impl Answer {
    /// Returns the result, or an error that describes what was received instead.
    pub(crate) fn result(self, method: &str) -> Result<Value, Wrong> {
        match self {
            Self::Result(result) => Ok(result),
            Self::Error { error, .. } => {
                Err(format!("`{method}` was answered with the error {}", shown(&error)))
            }
        }
    }

    /// Returns the error of the answer; fails if the answer is a result, or if the error has none of these codes.
    pub(crate) fn error(self, method: &str, codes: &[i64]) -> Result<Value, Wrong> {
        let codes_text = || codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        match self {
            Self::Error { code, error } if codes.contains(&code) => Ok(error),
            Self::Error { error, .. } => Err(format!(
                "`{method}` must fail with code {}, not {}",
                codes_text(),
                shown(&error)
            )),
            Self::Result(result) => Err(format!(
                "`{method}` must fail with code {}, and was answered with {}",
                codes_text(),
                shown(&result)
            )),
        }
    }
}

/// A connection for checking rules, or a recording in its place.
#[derive(Debug)]
pub(crate) struct Session {
    link: Link,
    pub(crate) setup: Setup,
    timeout: Duration,
    next_id: i64,
    /// The result of the handshake or of `server/discover`.
    pub(crate) hello: Value,
    /// The tools, after they were listed once.
    tools: Option<Vec<Value>>,
    pub(crate) tool: Option<(String, Value)>,
    /// `true` if the server accepted an offer of MGP on another connection.
    pub(crate) speaks_mgp: bool,
    /// Notifications and requests of the server, in order.
    pub(crate) notices: Notices,
    /// Texts that the peer sent in place of messages.
    pub(crate) garbage: Vec<String>,
    /// Messages that broke a rule of JSON-RPC.
    pub(crate) malformed: Vec<String>,
    pub(crate) end: Option<String>,
    /// The id of a request that received something other than an answer, and what it received.
    unanswered: Option<(Value, String)>,
    /// The names of the MGP extensions that were offered to the server.
    pub(crate) offered: Vec<String>,
    /// The last message in each direction, as evidence.
    last: (Value, Value),
    /// A recording that answers the requests of rules in place of a peer; `None` for a connection.
    pub(crate) recording: Option<Recording>,
}

impl Session {
    /// Returns a session without a connection, which answers the requests of rules from a recording.
    pub(crate) fn of_recording(recording: Recording, garbage: Vec<String>) -> Self {
        let (request, hello) = match recording.hello() {
            Some((request, hello)) => (request.clone(), hello.clone()),
            None => (Value::Null, Value::Null),
        };
        let offer = mgp_offered(&request);
        let setup = match (request["method"] == "server/discover", offer.is_some()) {
            (true, true) => Setup::ModernMgp,
            (true, false) => Setup::Modern,
            (false, true) => Setup::LegacyMgp,
            (false, false) => Setup::Legacy,
        };
        let mut session = Self::new(Link::closed(), setup, &Options::new());
        session.hello = hello;
        let names = offer.and_then(|offer| offer["extensions"].as_array()).into_iter().flatten();
        session.offered = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        session.garbage = garbage;
        for message in recording.notices().iter().chain(recording.answers()) {
            session.check_envelope(message);
        }
        session.recording = Some(recording);
        session
    }

    /// Opens a connection and does its handshake.
    pub(crate) async fn open(
        target: &Target,
        setup: Setup,
        options: &Options,
    ) -> Result<Self, Wrong> {
        let link = target.open(Some(options.timeout))?;
        let mut session = Self::new(link, setup, options);
        match setup {
            Setup::Bare => {}
            Setup::Legacy | Setup::LegacyMgp => {
                let answer = session.ask("initialize", session.initialize()).await?;
                session.hello = answer.result("initialize")?;
                session.tell("notifications/initialized", json!({})).await;
            }
            Setup::Modern | Setup::ModernMgp => {
                let answer = session.ask("server/discover", json!({})).await?;
                session.hello = answer.result("server/discover")?;
            }
        }
        Ok(session)
    }

    pub(crate) fn new(link: Link, setup: Setup, options: &Options) -> Self {
        Self {
            link,
            setup,
            timeout: options.timeout,
            next_id: 0,
            hello: Value::Null,
            tools: None,
            tool: options.tool.clone(),
            speaks_mgp: false,
            notices: Notices::default(),
            garbage: Vec::new(),
            malformed: Vec::new(),
            end: None,
            unanswered: None,
            offered: EXTENSIONS.iter().map(|name| (*name).to_owned()).collect(),
            last: (Value::Null, Value::Null),
            recording: None,
        }
    }

    /// Returns the params of `initialize` for this kind of connection.
    pub(crate) fn initialize(&self) -> Value {
        let mut capabilities = json!({});
        if self.setup.offers_mgp() {
            capabilities["mgp"] = mgp_offer();
        }
        json!({
            "protocolVersion": LEGACY,
            "capabilities": capabilities,
            "clientInfo": { "name": "mgp-validate", "version": env!("CARGO_PKG_VERSION") },
        })
    }

    /// Sends a request and returns its answer; other messages that arrive before it are kept in `notices`.
    ///
    /// # Errors
    /// If no valid answer comes in time, or the connection ends.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Result<Answer, Wrong> {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.ask_as(id, method, params).await
    }

    /// Sends a request with a given id, and returns its answer.
    pub(crate) async fn ask_as(
        &mut self,
        id: Value,
        method: &str,
        params: Value,
    ) -> Result<Answer, Wrong> {
        if let Some(recording) = &mut self.recording {
            let Some((request, answer, notices)) = recording.recall(method, &params) else {
                return Err(format!("`{method}` was not sent"));
            };
            self.last = (request, Value::Null);
            self.notices = notices.into();
            return self.read_answer(answer);
        }
        let request = self.request(&id, method, params);
        self.send(request).await;
        self.answer_to(&id, method).await
    }

    /// Returns a request in the form that this kind of connection requires.
    pub(crate) fn request(&self, id: &Value, method: &str, mut params: Value) -> Value {
        if self.setup.is_modern() {
            let mut meta = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
            let mut capabilities = json!({});
            if self.setup.offers_mgp() {
                capabilities["extensions"][MGP_KEY] = mgp_offer();
            }
            let own = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
                "io.modelcontextprotocol/clientInfo":
                    { "name": "mgp-validate", "version": env!("CARGO_PKG_VERSION") },
            });
            for (name, value) in own.as_object().into_iter().flatten() {
                if meta.get(name).is_none() {
                    meta[name.as_str()] = value.clone();
                }
            }
            params["_meta"] = meta;
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    pub(crate) async fn tell(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.miss();
        if message.get("id").is_some() {
            // Forget the last answer, because it does not belong to this request.
            self.last.1 = Value::Null;
        }
        self.last.0 = message.clone();
        if let Some(output) = &self.link.output {
            let _ = output.send(Sent::Message(message)).await;
        }
    }

    /// Sends a text, which need not be JSON.
    pub(crate) async fn send_raw(&mut self, text: &str) {
        self.miss();
        self.last = (Value::String(text.to_owned()), Value::Null);
        if let Some(output) = &self.link.output {
            let _ = output.send(Sent::Raw(text.to_owned())).await;
        }
    }

    pub(crate) async fn answer_to(&mut self, id: &Value, method: &str) -> Result<Answer, Wrong> {
        let deadline = Instant::now() + self.timeout;
        let (mut stray, known) = (String::new(), self.garbage.len());
        loop {
            let Some(message) = self.next_until(deadline).await else {
                match self.unanswered.take() {
                    Some((of, reason)) if of == *id => {
                        return Err(format!("`{method}` was not answered: {reason}"));
                    }
                    Some(_) => continue,
                    None => {}
                }
                let reason = self
                    .end
                    .clone()
                    .unwrap_or_else(|| format!("no answer within {} s", self.timeout.as_secs()));
                if let Some(text) = self.garbage.get(known) {
                    stray = format!("; it wrote what is not JSON: {text}{stray}");
                }
                return Err(format!("`{method}` was not answered: {reason}{stray}"));
            };
            if message.get("method").is_none() && message.get("id") == Some(id) {
                return self.read_answer(message);
            }
            if message.get("method").is_none() {
                stray = format!("; it sent {} instead", shown(&message));
            }
            self.keep(message).await;
        }
    }

    fn read_answer(&mut self, message: Value) -> Result<Answer, Wrong> {
        self.check_envelope(&message);
        let answer = match (message.get("result"), message.get("error")) {
            (Some(result), None) => Answer::Result(result.clone()),
            (None, Some(error)) => {
                let code = error.get("code").and_then(Value::as_i64);
                let code = code
                    .ok_or_else(|| format!("an error needs an integer `code`: {}", shown(error)))?;
                Answer::Error { code, error: error.clone() }
            }
            _ => {
                return Err(format!(
                    "an answer needs either `result` or `error`, and `null` counts as one: {}",
                    shown(&message)
                ));
            }
        };
        self.last.1 = message;
        Ok(answer)
    }

    /// Waits for a short time, and keeps the messages that the peer sends without a request.
    pub(crate) async fn listen(&mut self) {
        if let Some(recording) = &self.recording {
            self.notices = recording.notices().to_vec().into();
            return;
        }
        let deadline = Instant::now() + QUIET;
        while let Some(message) = self.next_until(deadline).await {
            self.keep(message).await;
        }
    }

    /// Returns the next message; `None` if the deadline passes, the connection ends, or a request stays without an
    /// answer.
    pub(crate) async fn next_until(&mut self, deadline: Instant) -> Option<Value> {
        while self.end.is_none() {
            match timeout_at(deadline, self.link.input.recv()).await {
                Err(_) => return None,
                Ok(None) => self.end = Some("the connection ended".to_owned()),
                Ok(Some(Received::Message(message))) => return Some(message),
                Ok(Some(Received::Garbage(text))) => {
                    let text = text.trim().replace('\u{feff}', "(byte order mark)");
                    push_bounded(&mut self.garbage, clip(&text, MAX_SHOWN));
                }
                Ok(Some(Received::Status(status))) if status >= 400 => {
                    let text = format!("HTTP status {status} without a message");
                    push_bounded(&mut self.garbage, text);
                }
                Ok(Some(Received::Status(_))) => {}
                Ok(Some(Received::Unanswered(id, reason))) => {
                    push_bounded(&mut self.garbage, reason.clone());
                    self.unanswered = Some((id, reason));
                    return None;
                }
                Ok(Some(Received::End(reason))) => self.end = Some(reason),
            }
        }
        None
    }

    /// Keeps a message that is not the answer to a pending request. If the message is a request of the server, answers
    /// it.
    async fn keep(&mut self, message: Value) {
        self.check_envelope(&message);
        if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
            let answer = match method {
                "ping" | "mgp/health/ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
                _ => json!({ "jsonrpc": "2.0", "id": id,
                    "error": { "code": -32601, "message": "not supported" } }),
            };
            if let Some(output) = &self.link.output {
                let _ = output.send(Sent::Message(answer)).await;
            }
        }
        self.notices.push(message);
    }

    /// Checks the member `jsonrpc` of a message, and records what is wrong with it.
    fn check_envelope(&mut self, message: &Value) {
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            let text = format!("no `\"jsonrpc\": \"2.0\"` in {}", shown(message));
            push_bounded(&mut self.malformed, text);
        }
    }

    /// Records that the current rule cannot be judged on the recording, if any, because the rule sends messages of its
    /// own.
    fn miss(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.miss("the rule sends messages of its own".to_owned());
        }
    }

    /// Closes the peer's input, and returns whether the peer ends the connection within this time.
    pub(crate) async fn close_input(&mut self, wait: Duration) -> bool {
        self.miss();
        self.link.output = None;
        let deadline = Instant::now() + wait;
        while self.end.is_none() && Instant::now() < deadline {
            if self.next_until(deadline).await.is_none() {
                break;
            }
        }
        self.end.is_some()
    }

    /// Ends the connection, and with it the program or the session of the server.
    pub(crate) async fn close(self) {
        self.link.close().await;
    }

    /// Returns whether the peer is reached over HTTP.
    pub(crate) fn is_http(&self) -> bool {
        self.link.is_http
    }

    pub(crate) fn capability(&self, name: &str) -> Option<&Value> {
        self.hello.get("capabilities")?.get(name).filter(|value| !value.is_null())
    }

    /// Returns the server's answer to the offer of MGP.
    pub(crate) fn mgp(&self) -> Option<&Value> {
        mgp_of(self.hello.get("capabilities")?)
    }

    /// Returns whether an extension of MGP is active, either by its own name or by the names of its parts.
    pub(crate) fn has(&self, extension: &str) -> bool {
        let parts: &[&str] = match extension {
            "security" => &["permissions", "tool_security"],
            "bidirectional" => &["events", "callbacks"],
            _ => &[],
        };
        let Some(names) = self.mgp().and_then(|mgp| mgp["extensions"].as_array()) else {
            return false;
        };
        names
            .iter()
            .filter_map(Value::as_str)
            .any(|name| name == extension || parts.contains(&name))
    }

    /// Returns the server's tools, which are requested only once for each connection.
    pub(crate) async fn tools(&mut self) -> Result<Vec<Value>, Wrong> {
        if let (Some(tools), None) = (&self.tools, &self.recording) {
            return Ok(tools.clone());
        }
        let mut all = Vec::new();
        let mut params = json!({});
        // Stop after 50 pages, because a faulty server might never end its list.
        for _ in 0..50 {
            let answer = self.ask("tools/list", params).await;
            // The recorded client might have requested only some pages, or the list only once. Then use the tools that
            // are known.
            if let Some(recording) = &mut self.recording
                && (self.tools.is_some() || !all.is_empty())
                && recording.take_missed().is_some()
            {
                break;
            }
            let page = answer?.result("tools/list")?;
            all.extend(crate::json::list(&page, "tools")?.iter().cloned());
            let next = page.get("nextCursor").filter(|cursor| !cursor.is_null());
            // In the legacy era, ignore an empty cursor, because many legacy servers send one with the last page.
            match next.filter(|cursor| self.setup.is_modern() || **cursor != "") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => break,
            }
        }
        match &self.tools {
            Some(tools) if all.is_empty() => return Ok(tools.clone()),
            _ => self.tools = Some(all.clone()),
        }
        Ok(all)
    }

    /// Returns a tool that the judge is allowed to call, and its arguments. This is the configured tool, or else a
    /// read-only tool that needs no arguments, if possible with an output schema. On a recording, returns the next
    /// recorded call.
    pub(crate) async fn callable(&mut self) -> Result<Option<(String, Value)>, Wrong> {
        if let Some(recording) = &mut self.recording {
            return Ok(recording.next_call());
        }
        if self.tool.is_some() {
            if self.is_http() {
                // Read the list first: it names the arguments that a request of 2026-07-28 repeats in headers.
                let _ = self.tools().await;
            }
            return Ok(self.tool.clone());
        }
        let tools = self.tools().await?;
        let harmless = tools.iter().filter(|tool| {
            let required = tool.pointer("/inputSchema/required").and_then(Value::as_array);
            // Leave out tools that run only as tasks, because they refuse plain calls.
            tool.pointer("/execution/taskSupport") != Some(&json!("required"))
                && tool.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true))
                && required.is_none_or(Vec::is_empty)
                && ALTERNATIVES.iter().all(|keyword| tool["inputSchema"].get(keyword).is_none())
        });
        let tool = harmless.min_by_key(|tool| !tool["outputSchema"].is_object());
        Ok(tool.and_then(|tool| Some((tool["name"].as_str()?.to_owned(), json!({})))))
    }

    /// Returns the last request that was sent.
    pub(crate) fn sent(&self) -> &Value {
        &self.last.0
    }

    /// Returns the last message in each direction, shortened, as evidence.
    pub(crate) fn evidence(&self) -> (String, String) {
        let text = |value: &Value| match value {
            Value::Null => String::new(),
            value => clip(&value.to_string(), 2000),
        };
        (text(&self.last.0), text(&self.last.1))
    }
}

/// Returns the member of the capabilities that declares MGP, in any of the permitted places.
pub(crate) fn mgp_of(capabilities: &Value) -> Option<&Value> {
    let places = ["/mgp", "/experimental/mgp", "/extensions/dev.cloto~1mgp"];
    places.iter().find_map(|place| capabilities.pointer(place)).filter(|value| !value.is_null())
}

/// Returns the offer of MGP in a request of either era.
pub(crate) fn mgp_offered(request: &Value) -> Option<&Value> {
    let places =
        ["/params/capabilities", "/params/_meta/io.modelcontextprotocol~1clientCapabilities"];
    places.iter().find_map(|place| mgp_of(request.pointer(place)?))
}

fn mgp_offer() -> Value {
    json!({ "version": "0.3.0", "extensions": EXTENSIONS })
}

fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    if list.len() < MAX_KEPT {
        list.push(item);
    }
}
