//! Judges a client and a server together: relays their messages, and checks the rules on these messages.

use std::pin::pin;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};

use crate::client::{INITIALIZE, Seen};
use crate::json::{MAX_SHOWN, Wrong, shown};
use crate::link::{Link, Received, Sent, Target, of_this_process};
use crate::recording::Recording;
use crate::report::{Report, RuleResult, Status, Subject};
use crate::rule::{Outcome, Rule, RuleInfo, RuleLevel, Tier};
use crate::rules;
use crate::server::{CONNECTS, on};
use crate::session::{Options, Session, Setup};

const ANSWERS: RuleInfo = RuleInfo {
    id: "pair.answers",
    section: "JSON-RPC §5",
    level: RuleLevel::Must,
    tier: Tier::Mcp,
    text: "each answer of the server has the id of a request that waits",
};

const ANSWERED: RuleInfo = RuleInfo {
    id: "pair.answered",
    section: "JSON-RPC §5",
    level: RuleLevel::Should,
    tier: Tier::Mcp,
    text: "each request is answered or cancelled before the connection ends",
};

/// The time limit for the end of a server after its client has disconnected.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of times that a rule is checked on a recording. Each time the rule gets the next recorded
/// answers.
const MAX_ROUNDS: usize = 256;

/// The maximum number of recorded texts of one peer that are not messages.
const MAX_GARBAGE: usize = 512;

/// Serves one client on standard input and output with the messages of a real server, and judges both.
///
/// JSON values and other texts are forwarded. The relay sends no message of its own, except an error for a request
/// whose HTTP response has no answer. A rule about servers is therefore checked on the requests that the client sent,
/// and skipped if the client did not send the request that the rule needs. The relay ends when the client disconnects,
/// when the server ends, or when `stop` completes.
///
/// # Cancel safety
/// Dropping the future ends the connections and the program that was started.
pub async fn judge_pair(
    server: &Target,
    options: &Options,
    stop: impl Future<Output = ()>,
) -> Report {
    let mut pair = Pair::default();
    // Connect without a time limit, because the client has time limits of its own.
    let connected = match server.open(None).and_then(|link| Ok((link, of_this_process()?))) {
        Ok((link, mut client)) => {
            let ended = pair.relay(&mut client, link, stop).await;
            client.finish(DRAIN_TIMEOUT).await;
            ended
        }
        Err(wrong) => Err(wrong),
    };
    pair.report(server.name(), connected, options).await
}

/// Returns all rules that [`judge_pair`] checks.
pub fn pair_rules() -> impl Iterator<Item = &'static RuleInfo> {
    let own = [&ANSWERS, &ANSWERED];
    crate::client::rules().chain(own).chain(crate::rule::rules())
}

/// The messages of both peers.
#[derive(Default)]
struct Pair {
    client: Seen,
    recording: Recording,
    garbage: Vec<String>,
}

impl Pair {
    /// Relays messages until one peer ends the connection or `stop` completes; if the server ends it, returns the
    /// reason as an error.
    async fn relay(
        &mut self,
        client: &mut Link,
        mut server: Link,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Wrong> {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                received = client.input.recv() => match received {
                    None | Some(Received::End(_)) => break,
                    Some(received) => send(&server, self.client_sent(received)).await,
                },
                received = server.input.recv() => match received {
                    None => return Err("the connection ended".to_owned()),
                    Some(Received::End(reason)) => return Err(reason),
                    Some(received) => send(client, self.server_sent(received)).await,
                },
            }
        }
        self.client.is_over = true;
        server.output = None;
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while let Ok(Some(received)) = timeout_at(deadline, server.input.recv()).await {
            if matches!(received, Received::End(_)) {
                break;
            }
            send(client, self.server_sent(received)).await;
        }
        server.close().await;
        Ok(())
    }

    /// Records what the client sent, and returns what is forwarded to the server.
    fn client_sent(&mut self, received: Received) -> Option<Sent> {
        match received {
            Received::Message(message) => {
                self.recording.client_sent(&message);
                self.client.client_sent(message.clone());
                Some(Sent::Message(message))
            }
            Received::Garbage(text) => Some(kept(&mut self.client.garbage, &text)),
            Received::Status(_) | Received::Unanswered(..) | Received::End(_) => None,
        }
    }

    /// Records what the server sent, and returns what is forwarded to the client.
    fn server_sent(&mut self, received: Received) -> Option<Sent> {
        match received {
            Received::Message(message) => {
                self.recording.server_sent(&message);
                self.client.server_sent(&message);
                Some(Sent::Message(message))
            }
            Received::Garbage(text) => Some(kept(&mut self.garbage, &text)),
            Received::Unanswered(id, _) if self.recording.is_cancelled(&id) => None,
            Received::Unanswered(id, reason) => {
                kept(&mut self.garbage, &reason);
                // Send an error in place of the missing answer, because the client would wait for one.
                let message = format!("the server did not answer: {reason}");
                let error = json!({ "code": -32603, "message": message });
                Some(Sent::Message(json!({ "jsonrpc": "2.0", "id": id, "error": error })))
            }
            Received::Status(_) | Received::End(_) => None,
        }
    }

    async fn report(
        mut self,
        target: String,
        connected: Result<(), Wrong>,
        options: &Options,
    ) -> Report {
        let mut results = self.client.judged();
        let mut subject = Subject { target, ..Subject::default() };
        let opened = self.recording.hello().is_some() || self.recording.has_modern_answer();
        let is_faulty =
            |result: &RuleResult| result.rule.id == INITIALIZE && result.status == Status::Failed;
        // Blame the client if it sent an invalid `initialize`: it is itself the cause if the server refuses it or ends
        // after it.
        let is_to_blame = results.iter().any(is_faulty);
        let refusal = self.recording.refused_initialize().filter(|_| !opened && !is_to_blame);
        let connected = if let Some(refusal) = refusal {
            Err(format!("`initialize` was answered with {}", shown(refusal)))
        } else if opened {
            Ok(())
        } else if self.recording.unanswered().next().is_none() {
            if is_to_blame { Ok(()) } else { connected }
        } else {
            let reason = connected.map_or_else(|reason| format!(": {reason}"), |()| String::new());
            Err(format!("the handshake was not answered{reason}"))
        };
        results.push(outcome(CONNECTS, connected.map(|()| opened)));
        if opened {
            let stray = self.recording.stray.first();
            let stray =
                stray.map_or(Ok(true), |stray| Err(format!("this answers nothing: {stray}")));
            results.push(outcome(ANSWERS, stray));
            let waiting = self.recording.unanswered().next();
            let waiting = waiting.map_or(Ok(true), |request| Err(shown(request)));
            results.push(outcome(ANSWERED, waiting));
            let mut session = Session::of_recording(self.recording, self.garbage);
            subject.note(&session);
            for rule in rules::all() {
                results.push(match why_not(rule, &session) {
                    Some(reason) => skipped(rule.info, reason.to_owned()),
                    None => play(rule, &mut session).await,
                });
            }
        }
        results.retain(|result| options.selects(result.rule.id));
        let mut report = Report::new(subject, results);
        report.client = Some(self.client.subject);
        report
    }
}

async fn send(link: &Link, sent: Option<Sent>) {
    if let (Some(output), Some(sent)) = (&link.output, sent) {
        // Do not wait without limit for a peer that does not read, because the other peer waits meanwhile.
        let _ = timeout(Duration::from_mins(1), output.send(sent)).await;
    }
}

/// Records a text that is not a message, and returns the text to be forwarded.
fn kept(garbage: &mut Vec<String>, text: &str) -> Sent {
    if garbage.len() < MAX_GARBAGE {
        garbage.push(mgp_types::clip(text.trim(), MAX_SHOWN));
    }
    Sent::Raw(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn outcome(rule: RuleInfo, kept: Result<bool, Wrong>) -> RuleResult {
    let (status, message) = match kept {
        Ok(true) => (Status::Passed, None),
        Ok(false) => (Status::Skipped, Some("the client opened no connection".to_owned())),
        Err(wrong) => (Status::Failed, Some(wrong)),
    };
    RuleResult::new(rule, status, message, Default::default(), 0)
}

fn skipped(rule: RuleInfo, reason: String) -> RuleResult {
    RuleResult::new(rule, Status::Skipped, Some(reason), Default::default(), 0)
}

/// Returns why a rule does not apply to a recording; `None` if it applies.
fn why_not(rule: &Rule, session: &Session) -> Option<&'static str> {
    let offers_mgp = session.setup.offers_mgp();
    let changes = || {
        let notices = session.recording.as_ref().map_or(&[][..], Recording::notices);
        notices.iter().any(|notice| notice["method"] == json!("notifications/tools/list_changed"))
    };
    if rule.is_alone || rule.setup == Setup::Bare {
        Some("the rule needs a connection of its own")
    } else if session.recording.as_ref().is_some_and(|recording| recording.hello().is_none()) {
        Some("the client did not send `server/discover`, so the capabilities are unknown")
    } else if rule.setup.is_modern() != session.setup.is_modern() {
        Some("the client speaks the other era")
    } else if rule.setup.offers_mgp() && !offers_mgp {
        Some("the client does not offer MGP")
    } else if offers_mgp && rule.info.id.starts_with("mgp.silence.") {
        Some("the client offers MGP")
    } else if rule.info.id == "mcp.tools.stable" && changes() {
        Some("the server reported that its list changed")
    } else {
        None
    }
}

/// Checks a rule repeatedly, until it has seen all recorded messages that it applies to, or [`MAX_ROUNDS`] times.
async fn play(rule: &Rule, session: &mut Session) -> RuleResult {
    let mut result = None;
    if let Some(recording) = &mut session.recording {
        recording.begin_rule();
    }
    for _ in 0..MAX_ROUNDS {
        let before = session.recording.as_ref().map(Recording::progress);
        session.notices.clear();
        let (played, evidence) = on(rule, session).await;
        let missed = session.recording.as_mut().and_then(Recording::take_missed);
        let now = match (missed, played) {
            (Some(reason), _) | (None, Err(Outcome::Skipped(reason))) => skipped(rule.info, reason),
            (None, Ok(())) => outcome(rule.info, Ok(true)),
            (None, Err(Outcome::Failed(wrong))) => {
                let (status, shown) = (Status::Failed, evidence.unwrap_or_default());
                return RuleResult::new(rule.info, status, Some(wrong), shown, 0);
            }
        };
        if now.status == Status::Passed || result.is_none() {
            result = Some(now);
        }
        if session.recording.as_ref().map(Recording::progress) == before {
            break;
        }
    }
    result.unwrap_or_else(|| skipped(rule.info, String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_ends_after_an_invalid_initialize_is_not_at_fault() {
        let mut pair = Pair::default();
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
        pair.client_sent(Received::Message(request));
        let error = json!({ "code": -32602, "message": "invalid params" });
        let answer = json!({ "jsonrpc": "2.0", "id": 1, "error": error });
        pair.server_sent(Received::Message(answer));
        let ended = Err("the peer closed its output".to_owned());
        let report = pair.report("s".to_owned(), ended, &Options::new()).await;
        let of =
            |id: &str| report.results.iter().find(|one| one.rule.id == id).map(|one| one.status);
        assert_eq!(of(INITIALIZE), Some(Status::Failed));
        assert_eq!(of(CONNECTS.id), Some(Status::Skipped));
    }
}
