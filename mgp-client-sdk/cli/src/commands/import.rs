//! The command `mgp import`: copies the servers of other hosts into the configuration (MGP §15.2).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use mgp_discovery::import::{ImportLine, ImportOutcome};
use mgp_discovery::{Config, describe_target};
use serde::Serialize;

use super::grant::GrantResult;
use crate::args::{ConfigArg, Global};
use crate::config_file;
use crate::control;
use crate::exit::CliResult;
use crate::hosts::with_tilde;
use crate::operator::admit_edit;
use crate::output::{Cell, Color, Output, Render, print};
use crate::replace_file::backup_line;

mod denied;
mod plan;
mod sources;
mod variables;

use plan::IS_MGP;
pub(super) use plan::{ImportPlan, planned_config};
pub(super) use sources::{Source, is_own, option_of, read_host_file, read_servers};

/// `mgp import`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp import                          # show the servers of all hosts of this computer\n  mgp import claude-code --apply      # copy them, and let the agent claude-code use exactly these\n  mgp import ./server.json --apply --agent default"
)]
pub(crate) struct Import {
    /// Hosts, as `mgp connect --help` lists them, or files; the default is all hosts of this user
    #[arg(value_name = "HOST|FILE")]
    from: Vec<String>,
    /// Write the configuration; without this, only show the plan
    #[arg(long)]
    apply: bool,
    /// Also read the hosts' files in the project of this folder
    #[arg(long)]
    project: bool,
    /// Agent that gets access; the default is the name of the host
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Write the configuration only; grant nothing and start no server
    #[arg(long)]
    no_grant: bool,
    #[command(flatten)]
    config: ConfigArg,
}

/// The result of `mgp import`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ImportResult {
    /// The configuration file.
    file: PathBuf,
    /// `true` if the file was written; otherwise this is the plan.
    applied: bool,
    /// The path of a copy of the file as it was before this change.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// Each server and its source.
    servers: Vec<ServerReport>,
    /// The servers that each agent gets access to, i.e. the servers of its host.
    access: BTreeMap<String, BTreeSet<String>>,
    /// The access and permissions that were granted, for each server.
    granted: Vec<GrantResult>,
    /// The reasons for which files of hosts are not read.
    faults: Vec<String>,
}

/// A server of another host.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ServerReport {
    /// The name in the file of the host.
    name: String,
    /// The file of that host.
    source: PathBuf,
    /// The server's id in the configuration; absent if the server was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// `true` if the configuration has the same server already, or gets it from another host.
    present: bool,
    /// The command line or URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<String>,
    /// The environment variables and headers that the server gets.
    sets: Vec<String>,
    /// The reason why the server was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    /// Settings that were not copied, and steps that remain.
    notes: Vec<String>,
}

impl ServerReport {
    fn new(line: &ImportLine, config: &Config) -> Self {
        let (id, is_present, left_out) = match &line.outcome {
            ImportOutcome::Added(id) => (Some(id.clone()), false, None),
            ImportOutcome::Present(id) => (Some(id.clone()), true, None),
            ImportOutcome::Skipped(reason) => (None, false, Some(reason.clone())),
            _ => (None, false, None),
        };
        let server = id.as_ref().filter(|_| !is_present).and_then(|id| config.server(id));
        Self {
            name: line.name.clone(),
            source: line.source.clone(),
            id,
            present: is_present,
            runs: server.map(describe_target),
            sets: server.map(variables::settings).unwrap_or_default(),
            left_out,
            notes: line.notes.clone(),
        }
    }

    pub(super) fn is_added(&self) -> bool {
        self.id.is_some() && !self.present
    }

    /// Returns whether the import does not add the server, because the configuration already has it, or because it
    /// stays in the host's file. For the entry of mgp itself, returns `false`.
    pub(super) fn is_kept(&self) -> bool {
        !self.is_added() && self.left_out.as_deref() != Some(IS_MGP)
    }

    /// Returns whether the report has notes, or an id that is not the name of the server in the file of the host.
    pub(super) fn is_notable(&self) -> bool {
        !self.notes.is_empty() || self.id.as_ref().is_some_and(|id| *id != self.name)
    }

    pub(super) fn render(&self, out: &mut Output) {
        let Self { name, source, id, runs, sets, left_out, notes, .. } = self;
        let mark = match id {
            Some(_) if self.present => Cell::from("=").color(Color::Dim),
            Some(_) => Cell::from("+").color(Color::Green),
            None => Cell::from("-").color(Color::Dim),
        };
        let mut line = with_tilde(&format!("{name}  from {}", source.display()));
        if let Some(runs) = runs {
            let verb = if runs.contains("://") && !runs.contains(' ') { "at" } else { "runs" };
            line = format!("{line}  {verb} {runs}");
        }
        match id {
            Some(id) if self.present => line = format!("{line}  is the same as `{id}` in mgp"),
            Some(id) if id != name => line = format!("{line}  as {id}"),
            _ => {}
        }
        if let Some(reason) = left_out {
            line = format!("{line}  left out: {reason}");
        }
        out.status_line(&mark, &line);
        for set in sets {
            out.line(format!("    sets {set}"));
        }
        for note in notes {
            out.line(format!("    {note}"));
        }
    }
}

impl Render for ImportResult {
    fn render(&self, out: &mut Output) {
        for server in &self.servers {
            server.render(out);
        }
        for fault in &self.faults {
            out.hint(with_tilde(&format!("! {fault}")));
        }
        GrantResult::render_all(&self.granted, out);
        GrantResult::render_failed(&self.granted, &BTreeSet::new(), out);
        let added = self.servers.iter().filter(|server| server.is_added()).count();
        let file = self.file.display();
        if !self.applied {
            for (agent, servers) in &self.access {
                let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
                out.line(format!("`--apply` lets {agent} use {}", servers.join(", ")));
            }
        }
        if !self.applied && added > 0 {
            out.line(format!("nothing was written; `--apply` adds {added} to {file}"));
        } else if added == 0 {
            out.line("nothing to add");
        } else {
            out.line(format!("added {added} to {file}"));
            if let Some(backup) = &self.backup {
                out.line(backup_line(backup));
            }
            out.hint("next: `mgp doctor`, then `mgp connect HOST --replace`");
        }
    }
}

pub(crate) async fn run(global: &Global, import: &Import) -> CliResult {
    let file = import.config.file_to_edit()?;
    let (mut sources, faults) = sources::read_all(global, import)?;
    if let Some(agent) = &import.agent {
        for source in &mut sources {
            source.agent.clone_from(agent);
        }
    }
    let mut planned = ImportPlan::new(&file, sources)?;
    let mut result = ImportResult {
        file,
        applied: import.apply,
        backup: None,
        access: if import.no_grant { BTreeMap::new() } else { planned.access() },
        servers: std::mem::take(&mut planned.servers),
        granted: Vec::new(),
        faults,
    };
    if import.apply {
        admit_edit(global, &import.config).await?;
    }
    if import.apply && import.no_grant {
        result.backup = config_file::apply(&planned.plan)?;
        control::reload(global).await;
    } else if import.apply {
        (result.granted, result.backup) =
            planned.apply(global, &result.access, "import", || Ok(()), || Ok(())).await?;
    }
    print(global, &result)
}
