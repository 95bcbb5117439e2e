//! The report of `mgp doctor`.

use serde::Serialize;

use super::server::ServerReport;
use crate::output::{Cell, Color, Output, Render, plural};
use crate::state_option;

/// The findings of `mgp doctor`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// The worst level of all checks.
    pub(super) level: Level,
    /// `true` if the servers were started.
    #[serde(skip)]
    pub(super) is_started: bool,
    /// The number of servers.
    pub(super) servers: usize,
    /// The number of servers that cannot be used.
    pub(super) broken: usize,
    /// The number of tools of all servers.
    pub(super) tools: usize,
    /// The number of tokens that a list of all tools takes.
    pub(super) tokens: u64,
    /// All checks.
    pub(super) checks: Vec<Check>,
}

/// A check and its result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Check {
    /// `config`, `environment`, `host`, `http`, `state`, `audit`, `clock`, `kernel`, `keys`, `limits`, `pins`,
    /// `names`, or `server`.
    pub(super) about: &'static str,
    /// The server, if the check is about a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    /// The result.
    pub(super) level: Level,
    /// The finding, in words.
    what: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) enum Level {
    /// A working part.
    Ok,
    /// A working part that needs attention.
    Warn,
    /// A broken part.
    Fail,
}

impl Report {
    /// Puts the `checks` and the reports of the servers together. `broken` counts the configured servers that an error
    /// of the configuration makes unusable, which have no report.
    pub(super) fn new(
        is_started: bool,
        mut checks: Vec<Check>,
        servers: Vec<ServerReport>,
        broken: usize,
    ) -> Self {
        let count = servers.len() + broken;
        let broken = servers.iter().filter(|server| server.is_broken()).count() + broken;
        let tools = servers.iter().map(|server| server.tools).sum();
        let tokens = servers.iter().map(|server| server.tokens).sum();
        checks.extend(servers.into_iter().flat_map(|server| server.checks));
        let level = checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
        Self { level, is_started, servers: count, broken, tools, tokens, checks }
    }
}

impl Level {
    fn cell(self) -> Cell {
        match self {
            Self::Ok => Cell::from("OK").color(Color::Green),
            Self::Warn => Cell::from("WARN").color(Color::Yellow),
            Self::Fail => Cell::from("FAIL").color(Color::Red),
        }
    }
}

impl Check {
    pub(super) fn new(about: &'static str, level: Level, what: impl Into<String>) -> Self {
        Self { about, server: None, level, what: what.into(), fix: None }
    }

    pub(super) fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    pub(super) fn for_server(mut self, server: &str) -> Self {
        self.server = Some(server.to_owned());
        self
    }
}

impl Render for Report {
    fn render(&self, out: &mut Output) {
        // Print the worst results last, where they are next to the shell's prompt.
        let mut checks: Vec<&Check> = self.checks.iter().collect();
        checks.sort_by_key(|check| (check.server.is_some(), check.level));
        let rows = checks.iter().map(|check| {
            let what = match &check.fix {
                Some(fix) => format!("{}; fix: {fix}", check.what),
                None => check.what.clone(),
            };
            let what = Cell::from(&*state_option::add_to(&what));
            [check.level.cell(), check.server.as_deref().unwrap_or(check.about).into(), what]
        });
        out.table(["", "CHECK", "RESULT"], rows);
        let Self { servers, broken, tools, tokens, .. } = self;
        if *servers == 0 {
            // If a check failed, show no next step here, because the remedy of that check is the next step.
            out.hint(match self.level {
                Level::Fail => "no server was checked",
                _ => {
                    "no server was checked; next: `mgp setup` copies the servers of your hosts, `mgp servers add` adds one"
                }
            });
            return;
        }
        if !self.is_started {
            // If no kernel runs and no server was started, no tools are known, so do not count them.
            let known = if *tools > 0 {
                format!("; {} known", plural(*tools, "tool"))
            } else {
                String::new()
            };
            out.line(format!("{} configured and not started{known}", plural(*servers, "server")));
            return;
        }
        let works = servers - broken;
        let work = if *servers == 1 { "works" } else { "work" };
        out.line(format!(
            "{works} of {} {work}, with {} in all; a full list costs at most {}",
            plural(*servers, "server"),
            plural(*tools, "tool"),
            plural(*tokens, "token")
        ));
    }
}
