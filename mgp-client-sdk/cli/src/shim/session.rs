//! The part of a session between a host and its kernel that the shim must know to continue the session with another
//! kernel.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::mem;

use mgp_types::mcp::key::SUBSCRIPTION_ID;
use mgp_types::mcp::{CancelledParams, ListenParams, SubscriptionFilter};
use mgp_types::method::{
    Cancelled, EventNotification, Initialize, Initialized, LoggingSetLevel, Notification as _,
    PromptsListChanged, Request as _, ResourcesListChanged, ResourcesSubscribe,
    ResourcesUnsubscribe, ToolsListChanged,
};
use mgp_types::service::CutMessage;
use mgp_types::{ErrorCode, Id};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::events::EventSubscriptions;
use super::requests::{OpenRequests, Repeat};
use crate::socket_hello::{HOLDING, LEAVING, REPEAT};

/// While the first kernel runs, lines longer than this are not parsed as a whole; only `CUT_BYTES` at each end are
/// read.
const MAX_PARSED_BYTES: usize = 64 * 1024;
const CUT_BYTES: usize = 1024;

/// The maximum number of remembered requests of the host. The same limit applies to requests of the kernel to the host
/// ("questions"), and to subscriptions.
pub(super) const MAX_REMEMBERED: usize = 4096;

/// The prefix of the ids that the shim creates: for requests that it repeats, and for questions (requests to the host)
/// of later kernels.
const PREFIX: &str = "mgp-shim";

/// The way a line is forwarded to the other side.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Forward {
    AsReceived,
    Rewritten(Vec<u8>),
    Nothing,
}

/// The session of a host. It continues when the kernel is replaced by another one.
#[derive(Default)]
pub(super) struct Session {
    /// The number of kernels that have been replaced.
    generation: u32,
    /// The host's latest `initialize` request with its id.
    initialize: Option<(Id, Vec<u8>)>,
    /// `true` once a kernel has answered the `initialize` request.
    is_accepted: bool,
    initialized: Option<Vec<u8>>,
    /// The latest log level request and the open resource subscriptions of the host, by method and URI.
    settings: BTreeMap<String, Vec<u8>>,
    /// The host's unanswered requests by id.
    requests: OpenRequests,
    /// The ids, as the host knows them, of unanswered questions, i.e. requests of the kernel to the host.
    questions: HashSet<Id>,
    events: EventSubscriptions,
    /// The ids of requests that the shim has repeated, whose responses the host must not receive.
    repeated: HashSet<Id>,
}

/// A JSON-RPC message whose members are kept as raw text.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Envelope<'_> {
    fn id(&self) -> Option<Id> {
        serde_json::from_str(self.id?.get()).ok()
    }

    fn error_code(&self) -> Option<i32> {
        #[derive(Deserialize)]
        struct Coded {
            code: i32,
        }
        serde_json::from_str::<Coded>(self.error?.get()).ok().map(|error| error.code)
    }

    /// Returns the message as a line, with its id replaced by `id`.
    fn with_id(&self, id: &Id) -> Vec<u8> {
        let mut message = json!({ "jsonrpc": "2.0", "id": id });
        if let Some(method) = &self.method {
            message["method"] = json!(method);
        }
        let mut line = message.to_string();
        line.pop();
        for (name, value) in
            [("params", self.params), ("result", self.result), ("error", self.error)]
        {
            // Copy the value as text, because parsing could change it, e.g. a number with many digits.
            if let Some(value) = value {
                let _ = write!(line, ",\"{name}\":{}", value.get());
            }
        }
        (line + "}\n").into_bytes()
    }
}

/// Returns whether a line of the kernel reports that it is about to end.
pub(super) fn is_leaving(line: &[u8]) -> bool {
    read(line).is_some_and(|message| message.method.as_deref() == Some(LEAVING))
}

fn to_line(message: &serde_json::Value) -> Vec<u8> {
    (message.to_string() + "\n").into_bytes()
}

fn read(line: &[u8]) -> Option<Envelope<'_>> {
    serde_json::from_slice(line).ok()
}

fn read_ends(line: &[u8]) -> Option<CutMessage> {
    CutMessage::read(&line[..CUT_BYTES], line[line.len() - CUT_BYTES..].trim_ascii_end())
}

impl Session {
    /// Records a line of the host, and returns how to pass it on.
    pub(super) fn note_host(&mut self, line: &[u8]) -> Forward {
        if line.len() > MAX_PARSED_BYTES && self.generation == 0 {
            match read_ends(line) {
                Some(CutMessage::Request(id)) => {
                    self.requests.add(id, Repeat::Never, line);
                    return self.held();
                }
                Some(CutMessage::Answer(id)) => drop(self.questions.remove(&id)),
                _ => {}
            }
            return Forward::AsReceived;
        }
        let Some(message) = read(line) else { return Forward::AsReceived };
        match (&message.method, message.id()) {
            (Some(method), Some(id)) => {
                self.events.note_request(&id, method, message.params);
                self.note_request(id, method, &message, line);
                return self.held();
            }
            (Some(method), None) if method == Initialized::METHOD => {
                self.initialized = Some(line.to_vec());
            }
            (Some(method), None) if method == Cancelled::METHOD => {
                if let Some(id) = cancelled_id(&message) {
                    self.requests.end(&id);
                    self.events.note_answer(&id, None);
                }
            }
            (None, Some(shown)) => return self.note_answer(&shown, &message),
            _ => {}
        }
        Forward::AsReceived
    }

    fn note_request(&mut self, id: Id, method: &str, message: &Envelope<'_>, line: &[u8]) {
        self.requests.add(id.clone(), Repeat::of(method), line);
        if method == Initialize::METHOD {
            (self.initialize, self.is_accepted) = (Some((id, line.to_vec())), false);
        } else if method == LoggingSetLevel::METHOD {
            self.settings.insert(method.to_owned(), line.to_vec());
        } else if let Some(uri) = uri(message) {
            let key = format!("{} {uri}", ResourcesSubscribe::METHOD);
            if method == ResourcesUnsubscribe::METHOD {
                self.settings.remove(&key);
            } else if method == ResourcesSubscribe::METHOD && self.settings.len() < MAX_REMEMBERED {
                self.settings.insert(key, line.to_vec());
            }
        }
    }

    /// Returns how to pass on a request of the host: not at all if the kernel is about to end, so that the request
    /// waits for the next kernel.
    fn held(&self) -> Forward {
        if self.requests.is_holding() { Forward::Nothing } else { Forward::AsReceived }
    }

    /// Returns whether a request waits for the next kernel.
    pub(super) fn has_held(&self) -> bool {
        self.requests.has_held()
    }

    /// Records that the kernel is about to end, so that further requests wait for the next kernel. Returns the line
    /// that confirms this to the kernel.
    pub(super) fn hold(&mut self) -> Vec<u8> {
        self.requests.hold();
        to_line(&json!({ "jsonrpc": "2.0", "method": HOLDING }))
    }

    /// Keeps a request for the next kernel. Returns how to pass on the current kernel's answer, which reports that the
    /// kernel did not start the request.
    fn repeat_later(&mut self, id: &Id) -> Forward {
        if self.requests.repeat_later(id) {
            return Forward::Nothing;
        }
        let reason = "the kernel is being replaced and did not start the call; call again";
        Forward::Rewritten(refuse(vec![id.clone()], reason, &mut self.events))
    }

    /// Returns how to pass on the host's answer to a question of a kernel. The answer is passed on only to the kernel
    /// that asked, under the id that this kernel used.
    fn note_answer(&mut self, shown: &Id, message: &Envelope<'_>) -> Forward {
        let is_open = self.questions.remove(shown);
        if self.generation == 0 {
            return Forward::AsReceived;
        }
        match self.own_id(shown).filter(|_| is_open) {
            Some(id) => Forward::Rewritten(message.with_id(&id)),
            None => Forward::Nothing,
        }
    }

    /// Records a line of the kernel, and returns how to pass it on.
    pub(super) fn note_kernel(&mut self, line: &[u8]) -> Forward {
        if line.len() > MAX_PARSED_BYTES && self.generation == 0 {
            match read_ends(line) {
                Some(CutMessage::Answer(id)) => self.requests.end(&id),
                Some(CutMessage::Request(id)) => self.add_question(id),
                _ => {}
            }
            return Forward::AsReceived;
        }
        let Some(message) = read(line) else { return Forward::AsReceived };
        match (&message.method, message.id()) {
            (None, Some(id)) if self.repeated.remove(&id) => Forward::Nothing,
            (None, Some(id)) if message.error_code() == Some(REPEAT) => self.repeat_later(&id),
            // The answer to a request for a notification stream ends the stream. Do not pass it on, because the next
            // kernel continues the stream.
            (None, Some(id)) if message.result.is_some() && self.requests.is_listening(&id) => {
                Forward::Nothing
            }
            (None, Some(id)) => {
                let is_of = |(own, _): &(Id, Vec<u8>)| message.result.is_some() && *own == id;
                self.is_accepted |= self.initialize.as_ref().is_some_and(is_of);
                self.events.note_answer(&id, message.result);
                self.requests.end(&id);
                Forward::AsReceived
            }
            (Some(method), None) if method == LEAVING => Forward::Nothing,
            (Some(method), None) if method == EventNotification::METHOD => {
                self.events.note_event(message.params);
                Forward::AsReceived
            }
            (Some(_), Some(id)) => {
                let shown = self.shown_id(&id);
                self.add_question(shown.clone());
                self.rewritten(|| message.with_id(&shown))
            }
            (Some(method), None) if method == Cancelled::METHOD => {
                let Some(id) = cancelled_id(&message) else { return Forward::AsReceived };
                let shown = self.shown_id(&id);
                self.questions.remove(&shown);
                self.rewritten(|| cancelled(&shown))
            }
            _ => Forward::AsReceived,
        }
    }

    fn add_question(&mut self, shown: Id) {
        if self.questions.len() < MAX_REMEMBERED {
            self.questions.insert(shown);
        }
    }

    fn rewritten(&self, line: impl FnOnce() -> Vec<u8>) -> Forward {
        if self.generation == 0 { Forward::AsReceived } else { Forward::Rewritten(line()) }
    }

    /// Returns the id of a question of the kernel as the host receives it. Each kernel counts from 1, so questions of
    /// later kernels get an id with a prefix.
    fn shown_id(&self, id: &Id) -> Id {
        match (self.generation, json!(id)) {
            (0, _) => id.clone(),
            (generation, id) => Id::String(format!("{PREFIX}-{generation}-{id}").into()),
        }
    }

    /// Returns the id that the current kernel itself gave to its question; `None` if an earlier kernel asked the
    /// question.
    fn own_id(&self, shown: &Id) -> Option<Id> {
        let Id::String(shown) = shown else { return None };
        let own = shown.strip_prefix(&format!("{PREFIX}-{}-", self.generation))?;
        serde_json::from_str(own).ok()
    }

    // === Another kernel ===

    /// Ends the questions of a kernel that has exited, and the host's open requests except those that the shim repeats
    /// with the next kernel. Returns the messages that report this to the host.
    pub(super) fn end_kernel(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        for id in mem::take(&mut self.questions) {
            lines.extend(cancelled(&id));
        }
        lines.extend(refuse(
            self.requests.end_kernel(),
            "the kernel ended before it answered; the call may have run: call again only if that does no harm",
            &mut self.events,
        ));
        self.repeated.clear();
        self.generation += 1;
        lines
    }

    /// Ends the host's open requests, except those for notification streams, because no kernel runs. Returns the
    /// messages that report this to the host.
    pub(super) fn refuse(&mut self, reason: &str) -> Vec<u8> {
        self.repeated.clear();
        refuse(self.requests.end_held(), reason, &mut self.events)
    }

    /// Returns the requests to send first to the next kernel; the host does not receive their responses again.
    ///
    /// In the legacy era, the only such request is `initialize`. The modern era has no handshake; there, these requests
    /// open the event subscriptions again that the host's repeated `subscriptions/listen` requests name.
    pub(super) fn opening(&mut self) -> Option<Vec<u8>> {
        let Some((_, line)) = self.initialize.clone() else {
            let lines = self.repeat_events();
            return Some(lines).filter(|lines| !lines.is_empty());
        };
        // Open the session only if the host continues it: a kernel has accepted `initialize`, or the host has sent
        // `initialized`.
        let is_open = self.is_accepted || self.initialized.is_some();
        is_open.then(|| self.repeat(&line, "opening"))
    }

    fn repeat_events(&mut self) -> Vec<u8> {
        let requests: Vec<_> = self.events.requests().collect();
        let lines = requests.iter().map(to_line).enumerate();
        lines.flat_map(|(number, line)| self.repeat(&line, &format!("events-{number}"))).collect()
    }

    /// Returns the messages to send after the opening requests: `initialized`, the log level, the subscriptions to
    /// resources, and the requests that are repeated. In the legacy era, also the subscriptions to events.
    pub(super) fn settings(&mut self) -> Vec<u8> {
        let mut lines = self.initialized.clone().unwrap_or_default();
        let settings: Vec<_> = self.settings.values().cloned().collect();
        for (number, line) in settings.iter().enumerate() {
            lines.extend(self.repeat(line, &number.to_string()));
        }
        if self.initialize.is_some() {
            lines.extend(self.repeat_events());
        }
        lines.extend(self.requests.repeated());
        lines
    }

    fn repeat(&mut self, line: &[u8], name: &str) -> Vec<u8> {
        let Some(message) = read(line) else { return Vec::new() };
        let id = Id::String(format!("{PREFIX}-{}-{name}", self.generation).into());
        let line = message.with_id(&id);
        self.repeated.insert(id);
        line
    }

    /// Returns whether the response to [`opening`](Self::opening) is still expected.
    pub(super) fn is_opening(&self) -> bool {
        !self.repeated.is_empty()
    }

    /// Returns list-changed notifications for the host, because the next kernel may offer other tools, prompts and
    /// resources.
    pub(super) fn changes(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        if self.initialized.is_some() {
            for method in LIST_CHANGES {
                lines.extend(to_line(&json!({ "jsonrpc": "2.0", "method": method })));
            }
        }
        for (id, line) in self.requests.listening() {
            for method in wanted(line) {
                let params = json!({ "_meta": { SUBSCRIPTION_ID: id } });
                lines.extend(to_line(
                    &json!({ "jsonrpc": "2.0", "method": method, "params": params }),
                ));
            }
        }
        lines
    }
}

const LIST_CHANGES: [&str; 3] =
    [ToolsListChanged::METHOD, PromptsListChanged::METHOD, ResourcesListChanged::METHOD];

/// Returns the list-changed notifications that a `subscriptions/listen` request demands.
fn wanted(line: &[u8]) -> impl Iterator<Item = &'static str> {
    let params = read(line)
        .and_then(|message| serde_json::from_str::<ListenParams>(message.params?.get()).ok());
    let filter = params.map_or_else(SubscriptionFilter::new, |params| params.notifications);
    let wanted =
        [filter.tools_list_changed, filter.prompts_list_changed, filter.resources_list_changed];
    LIST_CHANGES.into_iter().zip(wanted).filter(|(_, wanted)| *wanted == Some(true)).map(|(m, _)| m)
}

fn uri(message: &Envelope<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        uri: String,
    }
    serde_json::from_str::<Named>(message.params?.get()).ok().map(|named| named.uri)
}

fn cancelled_id(message: &Envelope<'_>) -> Option<Id> {
    let params: CancelledParams = serde_json::from_str(message.params?.get()).ok()?;
    params.request_id
}

/// Returns an error response to each of these requests.
fn refuse(requests: Vec<Id>, reason: &str, events: &mut EventSubscriptions) -> Vec<u8> {
    let error = json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": reason });
    let refused = requests.into_iter().inspect(|id| events.note_answer(id, None));
    refused.flat_map(|id| to_line(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))).collect()
}

fn cancelled(id: &Id) -> Vec<u8> {
    let params = json!({ "requestId": id });
    to_line(&json!({ "jsonrpc": "2.0", "method": Cancelled::METHOD, "params": params }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<u8> {
        (text.to_owned() + "\n").into_bytes()
    }

    fn texts(lines: &[u8]) -> Vec<String> {
        String::from_utf8(lines.to_vec()).unwrap().lines().map(str::to_owned).collect()
    }

    /// Returns a session after the handshake, with one unanswered question of the kernel and one unanswered call of the
    /// host.
    fn open() -> Session {
        let mut session = Session::default();
        for text in [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"x":1.50}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}"#,
        ] {
            assert_eq!(session.note_host(&line(text)), Forward::AsReceived);
        }
        for text in [
            r#"{"jsonrpc":"2.0","id":0,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#,
        ] {
            assert_eq!(session.note_kernel(&line(text)), Forward::AsReceived);
        }
        session
    }

    #[test]
    fn the_next_kernel_gets_the_handshake_and_the_settings() {
        let mut session = open();
        let told = texts(&session.end_kernel());
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains("notifications/cancelled") && told[0].contains(r#""requestId":1"#)
        );
        assert!(told[1].contains(r#""id":2"#) && told[1].contains("may have run"));
        let opening = texts(&session.opening().unwrap()).remove(0);
        assert!(opening.contains(r#""params":{"x":1.50}"#), "{opening}");
        assert!(session.is_opening());
        let answer = r#"{"jsonrpc":"2.0","id":"mgp-shim-1-opening","result":{}}"#;
        assert_eq!(session.note_kernel(&line(answer)), Forward::Nothing);
        assert!(!session.is_opening());
        let settings = texts(&session.settings());
        assert!(settings[0].contains("initialized") && settings[1].contains(r#""uri":"a:b""#));
        assert_eq!(texts(&session.changes()).len(), 3);
    }

    #[test]
    fn a_host_that_has_not_completed_its_handshake_completes_it_with_the_next_kernel() {
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
        let opening = |answer: &str| {
            let mut session = Session::default();
            let _ = session.note_host(&line(initialize));
            let _ = session.note_kernel(&line(answer));
            let _ = session.end_kernel();
            (session.opening().is_some(), session.settings())
        };
        assert_eq!(opening(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#), (true, Vec::new()));
        let refused = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"x"}}"#;
        assert_eq!(opening(refused), (false, Vec::new()), "the host may try another version");
        let (is_open, again) = opening(r#"{"jsonrpc":"2.0","method":"x"}"#);
        assert_eq!((is_open, texts(&again)), (false, vec![initialize.to_owned()]), "unanswered");
    }

    #[test]
    fn an_answer_to_a_question_of_the_last_kernel_does_not_answer_one_of_the_next() {
        let mut session = open();
        let _ = session.end_kernel();
        let asked = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"y":2}}"#;
        let Forward::Rewritten(shown) = session.note_kernel(&line(asked)) else { panic!() };
        assert!(texts(&shown)[0].contains(r#""id":"mgp-shim-1-1""#), "{shown:?}");
        let late = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#;
        assert_eq!(session.note_host(&line(late)), Forward::Nothing);
        let answer = r#"{"jsonrpc":"2.0","id":"mgp-shim-1-1","result":{"action":"decline"}}"#;
        let Forward::Rewritten(own) = session.note_host(&line(answer)) else { panic!() };
        let own = texts(&own).remove(0);
        assert!(own.contains(r#""id":1,"#) && own.contains("decline"), "{own}");
        assert_eq!(session.note_host(&line(answer)), Forward::Nothing, "once only");
    }

    const SUBSCRIBE: &str =
        r#"{"jsonrpc":"2.0","id":5,"method":"mgp/events/subscribe","params":{"channels":["a.*"]}}"#;

    /// Simulates a subscription that the kernel accepts, and the kernel's event number 3 on it.
    fn subscribe(session: &mut Session) {
        let _ = session.note_host(&line(SUBSCRIBE));
        for text in [
            r#"{"jsonrpc":"2.0","id":5,"result":{"subscribed":[],"subscription_id":"sub-1"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/mgp.event","params":{"subscription_id":"sub-1","channel":"a.b","_mgp":{"seq":3}}}"#,
        ] {
            assert_eq!(session.note_kernel(&line(text)), Forward::AsReceived);
        }
    }

    #[test]
    fn subscriptions_to_events_go_on_with_the_next_kernel_after_the_last_event() {
        let expected = r#""params":{"after_seq":3,"channels":["a.*"],"subscription_id":"sub-1"}"#;
        let mut legacy = open();
        subscribe(&mut legacy);
        let _ = legacy.end_kernel();
        assert_eq!(texts(&legacy.opening().unwrap()).len(), 1);
        let settings = texts(&legacy.settings());
        let again = settings.iter().find(|text| text.contains("mgp/events/subscribe")).unwrap();
        assert!(again.contains(expected) && again.contains("mgp-shim-1-events-0"), "{again}");

        let mut modern = Session::default();
        subscribe(&mut modern);
        let _ = modern.end_kernel();
        assert!(texts(&modern.opening().unwrap())[0].contains(expected));
        assert!(modern.is_opening() && modern.settings().is_empty());

        let ended = r#"{"jsonrpc":"2.0","id":6,"method":"mgp/events/unsubscribe","params":{"subscription_id":"sub-1"}}"#;
        let _ = modern.note_host(&line(ended));
        let _ = modern.end_kernel();
        assert_eq!(modern.opening(), None);
    }

    #[test]
    fn requests_wait_for_the_next_kernel_once_this_one_is_about_to_end() {
        let mut session = open();
        let late = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"u"}}"#;
        assert_eq!(session.note_host(&line(late)), Forward::AsReceived);
        let leaving = r#"{"jsonrpc":"2.0","method":"shim/leaving"}"#;
        assert_eq!(session.note_kernel(&line(leaving)), Forward::Nothing);
        assert!(texts(&session.hold())[0].contains("shim/holding") && !session.has_held());
        let held = r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"v"}}"#;
        assert_eq!(session.note_host(&line(held)), Forward::Nothing);
        let dropped = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"w"}}"#;
        let _ = session.note_host(&line(dropped));
        let cancelled =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
        let _ = session.note_host(&line(cancelled));
        let not_started = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32020,"message":"x"}}"#;
        assert_eq!(session.note_kernel(&line(not_started)), Forward::Nothing);
        let told = texts(&session.end_kernel());
        assert!(told.iter().any(|text| text.contains(r#""id":2"#)), "it had begun: {told:?}");
        assert!(session.has_held() && told.len() == 2, "{told:?}");
        let mut settings = texts(&session.settings());
        settings.sort();
        settings.retain(|text| text.contains("tools/call"));
        assert_eq!(settings, [late, held]);
        assert!(!session.has_held(), "the next kernel may carry them out");
        assert_eq!(session.note_host(&line(held)), Forward::AsReceived);
    }

    #[test]
    fn a_stream_of_notifications_goes_on_with_the_next_kernel() {
        let mut session = Session::default();
        let listen = r#"{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}"#;
        let _ = session.note_host(&line(listen));
        let ended = r#"{"jsonrpc":"2.0","id":"l","result":{"resultType":"complete"}}"#;
        assert_eq!(session.note_kernel(&line(ended)), Forward::Nothing, "the kernel has drained");
        assert_eq!(session.end_kernel(), b"", "it is not answered");
        assert_eq!(session.opening(), None);
        assert_eq!(texts(&session.settings()), [listen]);
        let changes = texts(&session.changes());
        assert!(changes.len() == 1 && changes[0].contains(r#"subscriptionId":"l""#), "{changes:?}");
    }
}
