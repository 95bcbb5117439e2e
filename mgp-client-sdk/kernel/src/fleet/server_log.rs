//! The log of a server for operators: its last state, its last failure, and the last lines of its standard error.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use mgp_types::mgp::{KernelLogLine, ServerState, ShutdownReason};
use mgp_types::service::Principal;
use mgp_types::sync::Mutex;
use mgp_types::{Timestamp, clip};

use super::era_choice::SessionKind;

/// The maximum number of lines in the log of a server; the oldest are dropped first.
const MAX_LINES: usize = 500;

const MAX_BYTES: usize = 64 * 1024;

/// The maximum number of missing logins that the log of a server contains.
const MAX_LOGINS: usize = 32;

/// The maximum number of bytes that are quoted from a line in the reason for a failed start.
const MAX_QUOTE_BYTES: usize = 200;

/// The minimum length of a secret that the log hides in quoted text. Hiding shorter values would hide ordinary words.
const MIN_SECRET_BYTES: usize = 6;

/// The log of a server, which is kept across restarts of its process.
#[derive(Default)]
pub(crate) struct ServerLog(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    lines: VecDeque<KernelLogLine>,
    bytes: usize,
    /// The states of the main session and of the legacy session; a `SessionKind` is the index.
    states: [SessionState; 2],
    /// A text about each missing login, by the owner of the login; `None` is the login that all agents share.
    missing_logins: HashMap<Option<Principal>, String>,
    /// The secrets in the server's configuration at the time of the last start.
    secrets: Vec<String>,
    /// `true` from the beginning of a start until the server is connected.
    is_starting: bool,
    /// The first line on standard output since the start that is not MCP.
    stray: Option<String>,
    /// The reason why the kernel does not use the server's manifest.
    manifest_error: Option<String>,
    failure: Option<Arc<str>>,
}

#[derive(Clone, Default)]
struct SessionState {
    since: Option<Timestamp>,
    error: Option<String>,
}

impl ServerLog {
    /// Adds a line that the server wrote to its standard error.
    pub(super) fn push_line(&self, text: &str) {
        let mut entries = self.0.lock();
        let end = text.floor_char_boundary(text.len().min(MAX_BYTES));
        entries.lines.push_back(KernelLogLine::new(Timestamp::now(), text[..end].to_owned()));
        entries.bytes += end;
        while entries.lines.len() > MAX_LINES || entries.bytes > MAX_BYTES {
            let Some(oldest) = entries.lines.pop_front() else { break };
            entries.bytes -= oldest.text.len();
        }
    }

    /// Records that a start of the server begins. `secrets` are the secrets in the server's configuration.
    pub(super) fn begin_start(&self, secrets: Vec<String>) {
        let mut entries = self.0.lock();
        (entries.secrets, entries.is_starting, entries.stray) = (secrets, true, None);
    }

    /// Adds a line on the server's standard output that is not MCP.
    pub(super) fn push_stray(&self, text: &str) {
        let text = {
            let mut entries = self.0.lock();
            let long = entries.secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES);
            let text = long.fold(text.to_owned(), |text, secret| text.replace(&**secret, "…"));
            if entries.is_starting && entries.stray.is_none() {
                entries.stray = Some(clip(&text, MAX_QUOTE_BYTES).replace(['“', '”'], "\""));
            }
            text
        };
        self.push_line(&format!("(stdout, not MCP) {text}"));
    }

    /// Records that a session entered a state, and the reason if it failed.
    pub(super) fn set_state(&self, of: SessionKind, state: &ServerState, reason: Option<&str>) {
        let mut entries = self.0.lock();
        if *state == ServerState::Connected {
            // A session has connected. So the login that all agents share is not missing any more.
            entries.missing_logins.remove(&None);
            (entries.is_starting, entries.stray) = (false, None);
        }
        let stray = entries.stray.as_ref().map(|line| {
            let reason = reason.map(|reason| format!("{reason}; ")).unwrap_or_default();
            format!("{reason}it wrote lines to standard output that are not MCP: “{line}”")
        });
        let session = &mut entries.states[of as usize];
        session.since = Some(Timestamp::now());
        let stops = [ShutdownReason::OperatorRequest, ShutdownReason::KernelShutdown];
        let is_stopped = stops.iter().any(|stop| reason == Some(stop.as_str()));
        if is_stopped && let Some(error) = &mut session.error {
            remove_next_try(error);
        }
        match state {
            ServerState::Connected => session.error = None,
            // Keep the recorded reason: the server has failed before, and was then stopped while it waited for its
            // restart.
            ServerState::Error if is_stopped => {}
            ServerState::Error | ServerState::Restarting => {
                session.error = stray.or_else(|| reason.map(str::to_owned));
            }
            _ => {}
        }
    }

    /// Records a text about a login that is missing or invalid. `None` records that the login is valid again.
    pub(super) fn set_login(&self, owner: Option<&Principal>, missing: Option<&str>) {
        let owner = owner.cloned();
        let logins = &mut self.0.lock().missing_logins;
        match missing {
            Some(missing) if logins.len() < MAX_LOGINS || logins.contains_key(&owner) => {
                logins.insert(owner, missing.to_owned());
            }
            Some(_) => {}
            None => drop(logins.remove(&owner)),
        }
    }

    /// Returns the text about the missing login of `owner`, with the remedy. For `None`, returns the text about the
    /// login that all agents share.
    pub(super) fn missing_login(&self, owner: Option<&Principal>) -> Option<String> {
        self.0.lock().missing_logins.get(&owner.cloned()).cloned()
    }

    /// Records the reason why the kernel does not use the server's manifest.
    pub(super) fn set_manifest_error(&self, error: String) {
        self.0.lock().manifest_error = Some(error);
    }

    pub(super) fn manifest_error(&self) -> Option<String> {
        self.0.lock().manifest_error.clone()
    }

    /// Records the reason why the server has failed. Returns whether it differs from the reason for the last failure.
    pub(super) fn set_failure(&self, reason: &Arc<str>) -> bool {
        self.0.lock().failure.replace(Arc::clone(reason)).as_ref() != Some(reason)
    }

    /// Returns the reason for the server's last failure, even if the server was started again since.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.0.lock().failure.clone()
    }

    /// Returns the last lines of the server's standard error, the oldest first.
    pub(crate) fn last_lines(&self, max: usize) -> Vec<KernelLogLine> {
        let entries = self.0.lock();
        entries.lines.iter().skip(entries.lines.len().saturating_sub(max)).cloned().collect()
    }

    /// Returns the time at which a session last changed its state, and the reason why it has failed since it was last
    /// connected. If it has not failed, returns a text about missing logins as the reason, if any.
    pub(super) fn state(&self, of: SessionKind) -> (Option<Timestamp>, Option<String>) {
        let entries = self.0.lock();
        let SessionState { since, error } = entries.states[of as usize].clone();
        (since, error.or_else(|| entries.missing_logins()))
    }
}

impl Entries {
    /// Returns the text about the missing login that all agents share. If only logins of single agents are missing,
    /// returns the text about one of them, with their number or the agent's name.
    fn missing_logins(&self) -> Option<String> {
        if let Some(shared) = self.missing_logins.get(&None) {
            return Some(shared.clone());
        }
        let owned = self.missing_logins.iter().filter_map(|(owner, text)| {
            let owner = owner.as_ref()?;
            Some((owner.name(), owner.tenant().as_str(), text))
        });
        let (agent, _, text) = owned.min()?;
        Some(match self.missing_logins.len() {
            1 => format!("agent `{agent}` lacks its login: {text}"),
            count => format!("{count} agents lack their logins, e.g. `{agent}`: {text}"),
        })
    }
}

/// Removes the time of the next start from the text about a failure.
fn remove_next_try(error: &mut String) {
    if let Some((before, rest)) = error.rsplit_once("; next try in ") {
        let behind = rest.find(';').map_or("", |end| &rest[end..]);
        *error = format!("{before}{behind}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_within_the_bounds() {
        let log = ServerLog::default();
        for number in 0..600 {
            log.push_line(&format!("line {number}"));
        }
        let lines = log.last_lines(usize::MAX);
        assert_eq!((lines.len(), lines[0].text.as_str()), (500, "line 100"));
        assert_eq!(log.last_lines(2)[0].text, "line 598");

        log.push_line(&"ä".repeat(MAX_BYTES));
        assert_eq!(log.last_lines(9).len(), 1, "a long line replaces all others");
        assert!(log.last_lines(9)[0].text.len() <= MAX_BYTES);
    }

    #[test]
    fn the_reason_of_a_missing_login_changes_also_while_the_most_are_remembered() {
        let log = ServerLog::default();
        let owner = |number: usize| Principal::local().agent(number.to_string());
        for number in 0..2 * MAX_LOGINS {
            log.set_login(Some(&owner(number)), Some("log in"));
        }
        assert_eq!(log.0.lock().missing_logins.len(), MAX_LOGINS);
        log.set_login(Some(&owner(0)), Some("log in with more scopes"));
        assert_eq!(log.missing_login(Some(&owner(0))).as_deref(), Some("log in with more scopes"));
    }

    #[test]
    fn missing_logins_of_agents_are_shown_with_an_agent_and_their_number() {
        let (log, main) = (ServerLog::default(), SessionKind::Main);
        let agent = |name: &str| Principal::local().agent(name);
        log.set_login(Some(&agent("ben")), Some("log in as ben"));
        let one = "agent `ben` lacks its login: log in as ben";
        assert_eq!(log.state(main).1.as_deref(), Some(one));
        log.set_login(Some(&agent("ada")), Some("log in as ada"));
        let two = "2 agents lack their logins, e.g. `ada`: log in as ada";
        assert_eq!(log.state(main).1.as_deref(), Some(two));
        log.set_login(None, Some("log in"));
        assert_eq!(log.state(main).1.as_deref(), Some("log in"), "all agents lack it");
    }

    #[test]
    fn an_error_lasts_until_the_server_is_connected() {
        let (log, main) = (ServerLog::default(), SessionKind::Main);
        log.set_state(main, &ServerState::Restarting, Some("it ended with code 1"));
        log.set_state(main, &ServerState::Connecting, None);
        let waits = "it ended with code 1; next try in 2.0 s (2 of 5)";
        log.set_state(main, &ServerState::Restarting, Some(waits));
        assert_eq!(log.state(main).1.as_deref(), Some(waits));
        log.set_state(main, &ServerState::Error, Some("operator_request"));
        log.set_state(SessionKind::Legacy, &ServerState::Connected, None);
        assert_eq!(log.state(main).1.as_deref(), Some("it ended with code 1"));
        assert_eq!(log.state(SessionKind::Legacy).1, None, "each session has its own");
        log.set_state(main, &ServerState::Connected, None);
        assert_eq!(log.state(main).1, None);
    }
}
