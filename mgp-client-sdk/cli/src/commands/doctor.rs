//! `mgp doctor`: looks at everything, and says what to do.
//!
//! Applies to: both.

use std::time::Duration;

use clap::Args;
use mgp_discovery::{Loaded, Severity, Trust};
use serde::Serialize;
use std::sync::Arc;

use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Page, Shown, Tone, many, show};
use crate::places::Configured;
use crate::{span, state};

mod folder;
mod kernel;
mod pins;
mod server;

/// `mgp doctor`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Each server is started for a moment, several at a time; a server that hangs holds up no other.\n\nExample:\n  mgp doctor\n  mgp doctor files --timeout 60s     # a package runner may download first"
)]
pub(crate) struct Doctor {
    /// Only these servers
    server: Vec<String>,
    /// How long a server may take to answer
    #[arg(long, value_name = "SPAN", value_parser = span::span, default_value = "10s")]
    timeout: Duration,
    /// Start no server
    #[arg(long)]
    no_start: bool,
    #[command(flatten)]
    configured: Configured,
}

/// What was found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    /// The worst that was found.
    level: Level,
    /// How many servers there are.
    servers: usize,
    /// How many of them cannot be used.
    broken: usize,
    /// How many tools all of them have.
    tools: usize,
    /// How many tokens it would cost to list all of them.
    tokens: u64,
    /// Everything that was looked at.
    checks: Vec<Check>,
}

/// Something that was looked at.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Check {
    /// `config`, `state`, `audit`, `kernel`, `keys`, `model`, `pins`, or `server`.
    about: &'static str,
    /// The server, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// How it is.
    level: Level,
    /// What was found.
    what: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// It works, but somebody should look at it.
    Warn,
    /// It does not work.
    Fail,
}

impl Level {
    fn cell(self) -> Cell {
        match self {
            Self::Ok => Cell::from("OK").tone(Tone::Good),
            Self::Warn => Cell::from("WARN").tone(Tone::Doubtful),
            Self::Fail => Cell::from("FAIL").tone(Tone::Bad),
        }
    }
}

impl Check {
    fn new(about: &'static str, level: Level, what: impl Into<String>) -> Self {
        Self { about, server: None, level, what: what.into(), fix: None }
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    fn of(mut self, server: &str) -> Self {
        self.server = Some(server.to_owned());
        self
    }
}

impl Shown for Report {
    fn show(&self, page: &mut Page) {
        // The worst comes last, where it is seen.
        let mut checks: Vec<&Check> = self.checks.iter().collect();
        checks.sort_by_key(|check| (check.server.is_some(), check.level));
        let rows = checks.iter().map(|check| {
            let what = match &check.fix {
                Some(fix) => format!("{}; fix: {fix}", check.what),
                None => check.what.clone(),
            };
            [check.level.cell(), check.server.as_deref().unwrap_or(check.about).into(), what.into()]
        });
        page.table(["", "WHAT", "HOW IT IS"], rows);
        let Self { servers, broken, tools, tokens, .. } = self;
        let works = servers - broken;
        page.line(format!(
            "{works} of {servers} servers work; their tools, {tools} in all, cost {} to list",
            many(*tokens, "token")
        ));
    }
}

pub(crate) async fn run(global: &Global, doctor: &Doctor) -> Ended {
    let mut checks = Vec::new();
    let config = config(global, doctor, &mut checks).await;
    checks.extend(folder::state(global).await);
    let running = kernel::look(global, &mut checks).await;
    checks.extend(folder::keys(global).await);
    let is_known = config.is_some();
    // What is stopped by an error in its entry is a server too.
    let (config, mut broken) =
        config.map(|loaded| (loaded.config, loaded.broken)).unwrap_or_default();
    let mut servers = config.servers.clone();
    if !doctor.server.is_empty() {
        // Where nothing can be read, that is what is wrong.
        if let Some(unknown) = doctor.server.iter().find(|id| {
            is_known
                && !broken.contains(id)
                && !servers.iter().any(|server| server.id.as_str() == **id)
        }) {
            return Err(Failure::failed(format!(
                "there is no server `{unknown}` in the configuration"
            )));
        }
        servers.retain(|server| doctor.server.iter().any(|id| id == server.id.as_str()));
        broken.retain(|server| doctor.server.contains(server));
        checks.retain(|check| check.server.as_ref().is_none_or(|id| doctor.server.contains(id)));
    }
    let judged = server::judge(global, doctor, &servers, &running).await;
    // Whoever asks about one server asks about nothing else.
    if doctor.server.is_empty() {
        let named = servers.iter().map(|server| server.id.as_str());
        let named: Vec<_> = named.chain(broken.iter().map(String::as_str)).collect();
        checks.extend(running.others(&named));
        let known = pins::Known::of(&servers, &judged, &broken, &running);
        checks.extend(pins::judge(&config, &known));
    }
    let mut report = Report {
        level: Level::Ok,
        servers: servers.len() + broken.len(),
        broken: judged.iter().filter(|server| server.is_broken()).count() + broken.len(),
        tools: judged.iter().map(|server| server.tools).sum(),
        tokens: judged.iter().map(|server| server.tokens).sum(),
        checks,
    };
    report.checks.extend(judged.into_iter().flat_map(|server| server.checks));
    report.level = report.checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
    show(global, &report)?;
    if report.level < Level::Fail {
        return Ok(());
    }
    let failed = report.checks.iter().filter(|check| check.level == Level::Fail).count();
    let what = match failed {
        1 => "one thing does not work; what to do stands beside it".to_owned(),
        _ => format!("{failed} things do not work; what to do stands beside each"),
    };
    Err(Failure::failed(what))
}

/// The files of the configuration.
async fn config(global: &Global, doctor: &Doctor, checks: &mut Vec<Check>) -> Option<Loaded> {
    let store = match state::db(global).await {
        Ok(db) => db,
        Err(failure) => {
            checks.push(Check::new("state", Level::Fail, failure.to_string()));
            return None;
        }
    };
    let sources = doctor.configured.sources();
    let loaded = match sources.load(&Trust::new(Arc::new(store))).await {
        Ok(loaded) => loaded,
        Err(error) => {
            checks.extend(
                error.to_string().lines().map(|line| Check::new("config", Level::Fail, line)),
            );
            return None;
        }
    };
    for finding in &loaded.findings {
        let level = if finding.severity == Severity::Error { Level::Fail } else { Level::Warn };
        let mut told = finding.clone();
        let fix = told.remedy.take();
        let mut check = Check::new("config", level, told.to_string());
        check.fix = fix;
        check.server.clone_from(&finding.server);
        checks.push(check);
    }
    if let Some(unapproved) = &loaded.unapproved {
        let what =
            format!("`{}` is not approved as it is, and does nothing", unapproved.file.display());
        checks.push(Check::new("config", Level::Warn, what).fix("read it, then run `mgp trust`"));
    }
    let files: Vec<_> = sources.files().filter(|file| file.exists()).collect();
    let count = loaded.config.servers.len();
    if count == 0 {
        let what = "no servers are configured";
        let fix = "run `mgp import`, or `mgp servers add`";
        checks.push(Check::new("config", Level::Warn, what).fix(fix));
    } else {
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        checks.push(Check::new(
            "config",
            Level::Ok,
            format!("{} in {}", many(count, "server"), files.join(", ")),
        ));
    }
    Some(loaded)
}
