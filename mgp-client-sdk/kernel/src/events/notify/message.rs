//! The text of a message.

use std::collections::BTreeMap;
use std::time::SystemTime;

use mgp_server_sdk::ReadEvent;
use mgp_types::{Timestamp, clip, escape_hidden};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The maximum number of lines of a message, and of things that are collected for it.
const MAX_LINES: usize = 10;
const MAX_WAITING: usize = 256;

/// The maximum length of a name.
const MAX_NAME: usize = 64;

/// A message to a person.
#[derive(Debug, Serialize)]
pub(super) struct Message {
    pub(super) title: String,
    /// The number of things that wait.
    waiting: usize,
    pub(super) lines: Vec<String>,
}

/// The decisions that wait for a person since the last message.
#[derive(Default)]
pub(super) struct Waiting {
    lines: BTreeMap<String, Line>,
    since: Option<Instant>,
    /// The last event that was read, also if nothing waits because of it.
    pub(super) last: Option<ReadEvent>,
}

struct Line {
    text: String,
    expires_at: Option<Timestamp>,
}

impl Line {
    fn is_expired(&self, now: SystemTime) -> bool {
        self.expires_at.as_ref().and_then(|end| end.is_before(now)).unwrap_or_default()
    }
}

/// The members of an event that a message uses.
#[derive(Deserialize)]
struct Event {
    channel: String,
    data: EventData,
}

#[derive(Deserialize)]
struct EventData {
    actor: Option<String>,
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
    fn new(mut lines: Vec<String>) -> Self {
        let waiting = lines.len();
        let title = match waiting {
            1 => "mgp: a decision waits for you".to_owned(),
            many => format!("mgp: {many} decisions wait for you"),
        };
        if waiting > MAX_LINES {
            lines.truncate(MAX_LINES);
            lines.push(format!("and {} more", waiting - MAX_LINES));
        }
        Self { title, waiting, lines }
    }

    pub(super) fn test() -> Self {
        let line = "This is how a decision that waits will reach you.".to_owned();
        Self { title: "mgp: a test message".to_owned(), waiting: 0, lines: vec![line] }
    }

    /// Returns the text below the title.
    pub(super) fn text(&self) -> String {
        let mut text = self.lines.join("\n");
        if self.waiting > 0 {
            text.push_str("\nDecide with `mgp approvals`, or in `mgp console`.");
        }
        text
    }
}

impl Waiting {
    /// Returns when the first thing began to wait, or an event was read for which the position is not stored yet.
    pub(super) fn since(&self) -> Option<Instant> {
        self.last.as_ref().and(self.since)
    }

    /// Adds what an event asks for, or removes what it answers.
    pub(super) fn add(&mut self, read: ReadEvent) {
        self.since.get_or_insert_with(Instant::now);
        if let Ok(event) = read.event.get::<Event>() {
            self.add_event(event);
        }
        self.last = Some(read);
    }

    fn add_event(&mut self, Event { channel, data }: Event) {
        let EventData { actor, server_id, tool_name, transaction_id, details } = data;
        let name = |text: Option<String>| clip(&escape_hidden(&text.unwrap_or_default()), MAX_NAME);
        let server = name(server_id);
        let target = match tool_name {
            Some(tool) => format!("{server}.{}", name(Some(tool))),
            None => server,
        };
        let (key, text) = match (&*channel, details.approval_id) {
            ("approvals.decided", Some(id)) => {
                self.lines.remove(&id);
                return;
            }
            ("approvals.requested", Some(id)) => {
                let text =
                    format!("{} asks for {target} (id {})", name(actor), name(Some(id.clone())));
                (id, text)
            }
            ("security.definition_changed", _) => {
                (format!("definition {target}"), format!("the definition of {target} changed"))
            }
            (super::super::TRANSACTION_STUCK, _) => {
                let id = name(transaction_id);
                (format!("transaction {id}"), format!("the transaction {id} could not be undone"))
            }
            _ => return,
        };
        if self.lines.len() < MAX_WAITING {
            self.lines.insert(key, Line { text, expires_at: details.expires_at });
        }
    }

    /// Returns the message about what still waits, if anything does, and starts again.
    pub(super) fn take(&mut self) -> Option<Message> {
        self.since = None;
        let now = SystemTime::now();
        let lines = std::mem::take(&mut self.lines).into_values();
        let lines = lines.filter(|line| !line.is_expired(now));
        let lines: Vec<_> = lines.map(|line| line.text).collect();
        (!lines.is_empty()).then(|| Message::new(lines))
    }
}

#[cfg(test)]
mod tests {
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
        let message = waiting.take().unwrap();
        assert_eq!(message.title, "mgp: a decision waits for you");
        assert_eq!(message.lines, ["ada asks for files.delete\\n\\u{202e}x (id a)"]);
        assert!(waiting.take().is_none());
    }

    #[test]
    fn a_flood_of_decisions_makes_one_short_message() {
        let mut waiting = Waiting::default();
        for number in 0..2000 {
            let tool = format!("tool{number}{}", "x".repeat(1000));
            let asked = asked(&number.to_string(), &tool, "2999-01-01T00:00:00.000Z");
            add(&mut waiting, "approvals.requested", &asked);
        }
        let message = waiting.take().unwrap();
        assert_eq!(message.lines.len(), MAX_LINES + 1);
        assert!(message.text().len() < 4096);
    }
}
