//! Collects the decisions that wait for a person, and writes the text of the message about them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;

use mgp_server_sdk::ReadEvent;
use mgp_types::{Timestamp, clip, escape_hidden};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::super::{APPROVAL_DECIDED, APPROVAL_REQUESTED, DEFINITION_CHANGED, TRANSACTION_STUCK};
use super::open_decisions::{OpenDecisions, Subject};

/// The maximum number of decisions that a message names.
const MAX_LINES: usize = 10;
/// The maximum number of decisions for one message.
const MAX_WAITING: usize = 256;

/// The maximum length of an id in a link to the console, in bytes.
const MAX_LINK_ID: usize = 256;

/// The maximum length of a name in a message to a person, in bytes.
const MAX_NAME: usize = 64;

#[derive(Debug, Serialize)]
pub(super) struct Message {
    pub(super) title: String,
    /// The number of decisions that wait for a person.
    waiting: usize,
    pub(super) lines: Vec<String>,
    /// For each line, the page of the console about it; empty if the console has no known address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<String>,
    /// The page that a click on the message opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<String>,
    /// The option that the commands in a message need to reach this kernel, preceded by a space; empty if they need
    /// none.
    #[serde(skip)]
    option: String,
}

/// The decisions that have begun to wait for a person since the last message was sent.
#[derive(Default)]
pub(super) struct Waiting {
    lines: BTreeMap<String, Line>,
    since: Option<Instant>,
    /// The last event that was read, whether or not it added a decision.
    pub(super) last: Option<ReadEvent>,
}

struct Line {
    text: String,
    /// The command that shows more about the decision; set only if the console has no page about it, e.g. for a
    /// transaction.
    command: Option<&'static str>,
    /// The path of the console's page about the decision.
    page: String,
    expires_at: Option<Timestamp>,
    /// The definition or transaction that waits for a decision; `None` for an approval, because an event reports when
    /// it is decided.
    subject: Option<Subject>,
}

impl Line {
    fn is_expired(&self, now: SystemTime) -> bool {
        self.expires_at.as_ref().and_then(|end| end.is_before(now)).unwrap_or_default()
    }
}

/// The members of an event that a message needs.
#[derive(Deserialize)]
struct Event {
    channel: String,
    data: EventData,
}

#[derive(Deserialize)]
struct EventData {
    actor: Option<String>,
    /// The tenant whose operators decide; `None` for the local one.
    tenant: Option<String>,
    server_id: Option<String>,
    tool_name: Option<String>,
    transaction_id: Option<String>,
    #[serde(default)]
    details: EventDetails,
}

#[derive(Default, Deserialize)]
struct EventDetails {
    approval_id: Option<String>,
    expires_at: Option<Timestamp>,
}

impl Message {
    fn new(waiting: &[Line], console: Option<&str>, option: Option<&str>) -> Self {
        let option = option.map(|option| format!(" {option}")).unwrap_or_default();
        let link = |page: &str| Some(format!("{}{page}", console?));
        let shown = waiting.iter().take(MAX_LINES);
        let links: Vec<String> = shown.clone().filter_map(|line| link(&line.page)).collect();
        let text = |line: &Line| match line.command {
            Some(command) => format!("{}: see `{command}{option}`", line.text),
            None => line.text.clone(),
        };
        let mut lines: Vec<String> = shown.map(text).collect();
        let waiting = waiting.len();
        let link = if waiting == 1 { links.first().cloned() } else { link("") };
        let title = match waiting {
            1 => "mgp: a decision waits for you".to_owned(),
            many => format!("mgp: {many} decisions wait for you"),
        };
        if waiting > MAX_LINES {
            lines.push(format!("and {} more", waiting - MAX_LINES));
        }
        Self { title, waiting, lines, links, link, option }
    }

    pub(super) fn test(console: Option<&str>) -> Self {
        let line = "This is how a decision that waits will reach you.".to_owned();
        let title = "mgp: a test message".to_owned();
        let link = console.map(str::to_owned);
        let links = link.iter().cloned().collect();
        Self { title, waiting: 0, lines: vec![line], links, link, option: String::new() }
    }

    /// Returns the text of the message below its title.
    pub(super) fn text(&self) -> String {
        let option = &self.option;
        let decide =
            format!("Decide with `mgp console ID{option}`, or with `mgp approvals{option}`.");
        let mut parts = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            parts.push(line.as_str());
            parts.extend(self.links.get(at).map(String::as_str));
        }
        if self.waiting > 0 && self.links.is_empty() {
            parts.push(&decide);
        }
        parts.join("\n")
    }

    /// Returns the message as JSON, with the member `text` that Slack and other chat programs require. Escapes markup
    /// in the text, so that a name cannot e.g. mention all people in a channel.
    pub(super) fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Posted<'a> {
            #[serde(flatten)]
            message: &'a Message,
            text: String,
        }
        let text = escape_markup(&format!("{}\n{}", self.title, self.text()));
        serde_json::to_string(&Posted { message: self, text })
    }
}

/// Escapes the characters that begin markup, for desktop notifications and for Slack.
pub(super) fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Waiting {
    /// Returns the time when the first event since the last message was read; `None` if no event was read since the
    /// last message.
    pub(super) fn since(&self) -> Option<Instant> {
        self.last.as_ref().and(self.since)
    }

    /// Adds the decision that an event requests, or removes the decision if the event reports that it was made.
    pub(super) fn add(&mut self, read: ReadEvent) {
        self.since.get_or_insert_with(Instant::now);
        if let Ok(event) = read.event.get::<Event>() {
            self.add_event(event);
        }
        self.last = Some(read);
    }

    fn add_event(&mut self, Event { channel, data }: Event) {
        let EventData { actor, tenant, server_id, tool_name, transaction_id, details } = data;
        // Skip decisions of other tenants, because only operators of the local tenant receive the message. Keep
        // definitions, because all tenants share them.
        if tenant.is_some() && channel != DEFINITION_CHANGED {
            return;
        }
        let name = |text: Option<String>| clip(&escape_hidden(&text.unwrap_or_default()), MAX_NAME);
        let id = server_id.iter().chain(&tool_name).map(String::as_str).collect::<Vec<_>>();
        let definition = page("definition", &id.join("."));
        let changed = server_id.clone().zip(tool_name.clone());
        let changed = changed.map(|(server, tool)| Subject::Definition { server, tool });
        let server = name(server_id);
        let target = match tool_name {
            Some(tool) => format!("{server}.{}", name(Some(tool))),
            None => server,
        };
        let (key, text, page, command, subject) = match (&*channel, details.approval_id) {
            (APPROVAL_DECIDED, Some(id)) => {
                self.lines.remove(&id);
                return;
            }
            (APPROVAL_REQUESTED, Some(id)) => {
                let text =
                    format!("{} asks for {target} (id {})", name(actor), name(Some(id.clone())));
                let page = page("call", &id);
                (id, text, page, None, None)
            }
            (DEFINITION_CHANGED, _) => {
                let text = format!("the definition of {target} changed");
                (format!("definition {target}"), text, definition, None, changed)
            }
            (TRANSACTION_STUCK, _) => {
                let subject = transaction_id.clone().map(Subject::Transaction);
                let id = name(transaction_id);
                let text = format!("the transaction {id} could not be undone");
                let command = Some("mgp transactions ls");
                (format!("transaction {id}"), text, String::new(), command, subject)
            }
            _ => return,
        };
        if self.lines.len() >= MAX_WAITING {
            // Drop expired decisions to make room. After the quiet hours there may be many of them.
            let now = SystemTime::now();
            self.lines.retain(|_, line| !line.is_expired(now));
        }
        if self.lines.len() < MAX_WAITING {
            let expires_at = details.expires_at;
            self.lines.insert(key, Line { text, command, page, expires_at, subject });
        }
    }

    /// Removes the definitions and transactions that an operator has decided about meanwhile.
    pub(super) fn retain_open(&mut self, open: &OpenDecisions) {
        if self.lines.values().any(|line| line.subject.is_some()) {
            let is_open = open.now();
            self.lines.retain(|_, line| line.subject.as_ref().is_none_or(&is_open));
        }
    }

    /// Empties the collection, and returns the message about the decisions in it that still wait for an operator, or
    /// `None` if none does. `option` is the option, e.g. `--state FOLDER`, that the commands in the message need to
    /// reach this kernel.
    pub(super) fn take(&mut self, console: Option<&str>, option: Option<&str>) -> Option<Message> {
        self.since = None;
        let now = SystemTime::now();
        let lines = std::mem::take(&mut self.lines).into_values();
        let lines = lines.filter(|line| !line.is_expired(now));
        let lines: Vec<_> = lines.collect();
        (!lines.is_empty()).then(|| Message::new(&lines, console, option))
    }
}

/// Returns the path of an item's page in the console, or the path of the inbox if the id is too long for a link.
fn page(kind: &str, id: &str) -> String {
    if id.len() > MAX_LINK_ID {
        return String::new();
    }
    let mut path = format!("/{kind}/");
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mgp_types::store::MemoryStore;

    use super::*;

    fn add(waiting: &mut Waiting, channel: &str, data: &serde_json::Value) {
        let event = serde_json::json!({"channel": channel, "data": data}).to_string();
        waiting.add_event(serde_json::from_str(&event).unwrap());
    }

    fn asked(id: &str, tool: &str, until: &str) -> serde_json::Value {
        serde_json::json!({
            "event_type": "x", "actor": "ada", "server_id": "files", "tool_name": tool,
            "details": {"approval_id": id, "expires_at": until}
        })
    }

    #[test]
    fn a_message_names_what_still_waits_and_hides_nothing_in_names() {
        let later = "2999-01-01T00:00:00.000Z";
        let mut waiting = Waiting::default();
        add(&mut waiting, "approvals.requested", &asked("a", "delete\n\u{202e}x", later));
        add(&mut waiting, "approvals.requested", &asked("b", "write", later));
        add(&mut waiting, "approvals.requested", &asked("c", "read", "2001-01-01T00:00:00.000Z"));
        add(&mut waiting, "approvals.decided", &asked("b", "write", later));
        let console = Some("https://mgp.example/console");
        let message = waiting.take(console, None).unwrap();
        assert_eq!(message.title, "mgp: a decision waits for you");
        assert_eq!(message.lines, ["ada asks for files.delete\\n\\u{202e}x (id a)"]);
        assert_eq!(message.link.as_deref(), Some("https://mgp.example/console/call/a"));
        assert!(message.text().ends_with("\nhttps://mgp.example/console/call/a"));
        add(&mut waiting, "approvals.requested", &asked("a", "<!channel>", later));
        let json = waiting.take(console, None).unwrap().to_json().unwrap();
        assert!(json.contains("files.&lt;!channel&gt; (id a)"), "{json}");
        assert!(waiting.take(console, None).is_none());
        add(&mut waiting, "security.definition_changed", &asked("a", "x/../\"?key=1", later));
        let message = waiting.take(console, None).unwrap();
        let link = "https://mgp.example/console/definition/files.x%2F..%2F%22%3Fkey%3D1";
        assert_eq!(message.links, [link]);
    }

    #[test]
    fn a_message_leaves_out_what_operators_of_other_tenants_decide() {
        let mut waiting = Waiting::default();
        let mut foreign = asked("a", "write", "2999-01-01T00:00:00.000Z");
        foreign["tenant"] = "acme".into();
        add(&mut waiting, "approvals.requested", &foreign);
        let stuck = serde_json::json!({"transaction_id": "tx-1", "tenant": "acme"});
        add(&mut waiting, "transactions.stuck", &stuck);
        assert!(waiting.take(None, None).is_none());
        add(&mut waiting, "security.definition_changed", &foreign);
        let message = waiting.take(None, None).unwrap();
        assert_eq!(message.lines, ["the definition of files.write changed"]);
        add(&mut waiting, "transactions.stuck", &serde_json::json!({"transaction_id": "tx-1"}));
        let message = waiting.take(None, Some("--state /srv/mgp")).unwrap();
        let text = message.text();
        for expected in [
            "tx-1 could not be undone: see `mgp transactions ls --state /srv/mgp`",
            "with `mgp console ID --state /srv/mgp`, or with `mgp approvals --state /srv/mgp`",
        ] {
            assert!(text.contains(expected), "{text}");
        }
    }

    #[tokio::test]
    async fn a_message_leaves_out_definitions_and_transactions_that_no_longer_wait() {
        let governance = mgp_security::Governance::builder().build();
        governance.open().await.unwrap();
        let store = Arc::new(MemoryStore::new());
        let decided = OpenDecisions {
            definitions: Some(governance.definitions().clone()),
            transactions: Some(mgp_lifecycle::Transactions::open(store).await.unwrap()),
        };
        let later = "2999-01-01T00:00:00.000Z";
        let mut waiting = Waiting::default();
        for (open, number) in [(OpenDecisions::default(), 3), (decided, 1)] {
            add(&mut waiting, "approvals.requested", &asked("a", "write", later));
            add(&mut waiting, "security.definition_changed", &asked("b", "write", later));
            let stuck = serde_json::json!({"transaction_id": "tx-1"});
            add(&mut waiting, "transactions.stuck", &stuck);
            waiting.retain_open(&open);
            assert_eq!(waiting.take(None, None).unwrap().lines.len(), number);
        }
    }

    #[test]
    fn a_flood_of_decisions_makes_one_short_message() {
        let mut waiting = Waiting::default();
        for number in 0..2000 {
            let tool = format!("tool{number}{}", "x".repeat(1000));
            let asked = asked(&number.to_string(), &tool, "2999-01-01T00:00:00.000Z");
            add(&mut waiting, "approvals.requested", &asked);
        }
        let message = waiting.take(None, None).unwrap();
        assert_eq!(message.lines.len(), MAX_LINES + 1);
        assert!(message.text().contains("mgp console ID") && message.link.is_none());
        assert!(message.text().len() < 4096);
    }

    #[test]
    fn expired_decisions_take_no_place_of_later_ones() {
        let mut waiting = Waiting::default();
        for number in 0..MAX_WAITING {
            let expired = asked(&number.to_string(), "read", "2001-01-01T00:00:00.000Z");
            add(&mut waiting, "approvals.requested", &expired);
        }
        let later = asked("later", "write", "2999-01-01T00:00:00.000Z");
        add(&mut waiting, "approvals.requested", &later);
        let message = waiting.take(None, None).unwrap();
        assert_eq!(message.lines, ["ada asks for files.write (id later)"]);
    }
}
