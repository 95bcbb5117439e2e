//! The command `mgp permissions`: shows and changes what each server may do (MGP §3).

use std::time::SystemTime;

use clap::{Args, Subcommand};
use mgp_discovery::nearest;
use mgp_security::{CallApprovals, scope_words};
use mgp_types::mgp::{KernelPermission, KernelPermissionChangeParams, Permission, PermissionScope};
use serde::Serialize;

use super::known_names::{DID_YOU_MEAN, KnownNames, unknown, without_force};
use crate::args::Global;
use crate::backend::{Backend, PermissionDecision};
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, Cell, Color, Output, Render, print};
use crate::socket_hello::Intent;
use crate::state_option::shell_word_or;
use crate::time_args;

/// `mgp permissions`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Permissions {
    /// List decisions
    Ls {
        /// Only decisions about this server
        server: Option<String>,
    },
    /// Allow a server to do something
    #[command(
        after_help = "Example:\n  mgp permissions approve files filesystem.read filesystem.write\n  mgp permissions approve files filesystem.write --tool write_file --expires 8h\n  mgp permissions approve files filesystem.write --path /srv/notes"
    )]
    Approve(Decided),
    /// Forbid a server to do something, without further questions
    #[command(after_help = "Example:\n  mgp permissions deny files network.outbound")]
    Deny {
        #[command(flatten)]
        change: Change,
        /// End of the denial: 30m, 8h, 90d, or a timestamp
        #[arg(long, value_name = "TIME", value_parser = time_args::future)]
        expires: Option<SystemTime>,
    },
    /// Take back a permission or a denial; the next call that needs the permission asks again
    #[command(
        after_help = "With the id of an approved call, which `mgp permissions ls` lists, later calls like that one need an approval again. To let the configuration decide instead of asking, use `mgp permissions reset`.\n\nExample:\n  mgp permissions revoke files filesystem.write\n  mgp permissions revoke files call-3f1c20a97e"
    )]
    Revoke {
        #[command(flatten)]
        change: Change,
        /// End of the revocation, after which the configuration decides again: 30m, 8h, 90d, or a timestamp
        #[arg(long, value_name = "TIME", value_parser = time_args::future)]
        expires: Option<SystemTime>,
    },
    /// Forget a decision or revocation; the configuration and its policy decide again
    #[command(
        after_help = "After `revoke`, a permission is asked for even if the configuration grants it; after `reset`, it is granted again.\n\nExample:\n  mgp permissions reset files filesystem.write"
    )]
    Reset(Change),
}

/// A server and permissions.
#[derive(Clone, Debug, Args)]
pub(crate) struct Change {
    /// Server
    server: String,
    /// Permissions, e.g. filesystem.read or network.outbound; `revoke` and `reset` also take ids of approved calls
    #[arg(required = true, value_name = "PERMISSION")]
    permissions: Vec<String>,
    /// Reason for the audit log
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
    /// Accept names that do not exist yet and, with `approve`, relative paths
    #[arg(long)]
    force: bool,
}

/// A decision about permissions. Only an approval can be limited to tools and arguments.
#[derive(Clone, Debug, Args)]
pub(crate) struct Decided {
    #[command(flatten)]
    change: Change,
    /// Only for this tool; may be given several times
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
    #[command(flatten)]
    limits: Limits,
    /// End of the approval: 30m, 8h, 90d, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = time_args::future)]
    expires: Option<SystemTime>,
}

impl Decided {
    fn without_limits(change: &Change, expires: Option<SystemTime>) -> Self {
        Self { change: change.clone(), tool: Vec::new(), limits: Limits::default(), expires }
    }
}

/// Limits on the arguments of calls, e.g. on paths: an approval with these limits applies only to calls that fit them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Limits {
    /// Only for paths below this path; may be given several times
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Only for this host; may be given several times
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Only for commands that begin with these words; may be given several times
    #[arg(long, value_name = "WORDS")]
    command: Vec<String>,
    /// Only for this port; may be given several times
    #[arg(long, value_name = "PORT")]
    port: Vec<u16>,
}

impl Limits {
    /// Refuses a relative path. It would not be resolved in the folder in which this command runs, and would apply only
    /// to calls that name a path relative to the server's own folder.
    fn check_paths(&self) -> CliResult {
        let is_relative = |path: &&String| {
            let is_drive = matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
            let begins = |root: &str| path.starts_with(root);
            !is_drive && *path != "~" && !["/", "~/", "\\\\"].into_iter().any(begins)
        };
        let Some(path) = self.path.iter().find(is_relative) else { return Ok(()) };
        let full = std::path::absolute(path).unwrap_or_else(|_| "/".into());
        Err(Failure::usage(format!(
            "`{path}` is relative; write `{}`, or add --force for calls whose paths are relative to the server's own folder",
            full.display()
        )))
    }

    /// Returns the limits as a permission scope; `None` if no limit is given.
    fn scope(&self) -> Option<PermissionScope> {
        let mut scope = PermissionScope::default();
        let texts = |values: &[String]| (!values.is_empty()).then(|| values.to_vec().into());
        // Leave out empty lists, because a list that is present but empty would match no call.
        if let Some(paths) = texts(&self.path) {
            scope.paths = paths;
        }
        if let Some(hosts) = texts(&self.host) {
            scope.hosts = hosts;
        }
        if let Some(commands) = texts(&self.command) {
            scope.commands = commands;
        }
        if !self.port.is_empty() {
            scope.ports = self.port.clone().into();
        }
        (scope != PermissionScope::default()).then_some(scope)
    }
}

/// Decisions about permissions.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DecisionList(Vec<KernelPermission>);

impl Render for DecisionList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no decisions yet; the kernel asks when tools are called");
        }
        let rows = self.0.iter().map(|one| {
            let color = if one.decision == "approved" { Color::Green } else { Color::Red };
            let tools: Vec<String> = one.tools.iter().cloned().collect();
            [
                one.server_id.as_deref().into(),
                one.permission.as_str().into(),
                Cell::from(one.decision.as_str()).color(color),
                one.agent_id.as_deref().into(),
                (!tools.is_empty()).then(|| tools.join(" ")).into(),
                limits(one).into(),
                one.expires_at.as_ref().into(),
                one.approved_by.as_str().into(),
                one.justification.as_deref().into(),
            ]
        });
        let columns = [
            "SERVER",
            "PERMISSION",
            "DECISION",
            "FOR",
            "TOOLS",
            "ONLY",
            "EXPIRES",
            "BY",
            "BECAUSE",
        ];
        out.table(columns, rows);
    }
}

pub(crate) async fn run(global: &Global, permissions: &Permissions) -> CliResult {
    let intent = match permissions {
        Permissions::Ls { .. } => Intent::Read,
        _ => Intent::Change,
    };
    let backend = Backend::open(global, intent).await?;
    let result = execute(global, permissions, &backend).await;
    // Print the report only after the backend is closed, because its close writes the change to disk.
    backend.close().await?;
    result?.map_or(Ok(()), |report| report.print(global))
}

async fn execute(
    global: &Global,
    permissions: &Permissions,
    backend: &Backend,
) -> CliResult<Option<ActionReport>> {
    match permissions {
        Permissions::Ls { server } => {
            let decisions = backend.permissions(server.as_deref()).await?;
            // Check the name only if the server has no decisions, because a server that was removed may still have
            // some.
            if let Some(server) = server.as_ref().filter(|_| decisions.is_empty()) {
                check_server(global, backend, server).await?;
            }
            print(global, &DecisionList(decisions))?;
            Ok(None)
        }
        Permissions::Approve(decided) => {
            decide(global, backend, PermissionDecision::Approve, decided).await.map(Some)
        }
        Permissions::Deny { change, expires } => {
            let decided = Decided::without_limits(change, *expires);
            decide(global, backend, PermissionDecision::Deny, &decided).await.map(Some)
        }
        Permissions::Revoke { change, expires } => {
            let decided = Decided::without_limits(change, *expires);
            decide(global, backend, PermissionDecision::Revoke, &decided).await.map(Some)
        }
        Permissions::Reset(change) => {
            let decided = Decided::without_limits(change, None);
            decide(global, backend, PermissionDecision::Reset, &decided).await.map(Some)
        }
    }
}

async fn decide(
    global: &Global,
    backend: &Backend,
    decision: PermissionDecision,
    Decided { change, tool, limits, expires }: &Decided,
) -> CliResult<ActionReport> {
    let Change { server, permissions, because, force } = change;
    // `revoke` and `reset` also accept the ids of approved calls; do not check these ids as names of permissions.
    let is_call = |id: &str| decision.takes_back() && CallApprovals::is_id(id);
    for permission in permissions.iter().filter(|one| !is_call(one)) {
        check_permission(permission, *force)?;
    }
    if !force {
        limits.check_paths()?;
    }
    let known = KnownNames::read(global, backend).await?;
    let mut notes = Vec::new();
    let bare = |tool: &String| known.resolve(server, Some(tool)).1.unwrap_or_else(|| tool.clone());
    let tool: &Vec<String> = &tool.iter().map(bare).collect();
    if !force && !decision.takes_back() {
        known.check_server(server).await?;
        for tool in tool {
            notes.extend(known.check_tool(server, tool)?);
        }
    }
    let permissions: Vec<Permission> =
        permissions.iter().map(|name| name.as_str().into()).collect();
    let mut params = KernelPermissionChangeParams::new(server.as_str(), permissions);
    params.tools = tool.iter().cloned().collect();
    params.scope = limits.scope();
    params.until = expires.map(Into::into);
    params.because.clone_from(because);
    params.force = force.then_some(true);
    let changed = backend.decide(decision, params).await?;
    let status = match decision {
        PermissionDecision::Approve => "approved",
        PermissionDecision::Deny => "denied",
        PermissionDecision::Revoke | PermissionDecision::Reset if changed == 0 => {
            let server = shell_word_or("SERVER", server);
            let verb = if decision == PermissionDecision::Reset { "reset" } else { "revoke" };
            return Err(Failure::failed(format!(
                "there is no decision to {verb}; see `mgp permissions ls {server}`"
            )));
        }
        PermissionDecision::Revoke => "revoked",
        PermissionDecision::Reset => "reset",
    };
    Ok(ActionReport::new(&**server, status).with_notes(notes))
}

/// Returns in words the arguments to which a decision is limited.
pub(crate) fn limits(decision: &KernelPermission) -> Option<String> {
    decision.limits.clone().or_else(|| decision.scope.as_ref().map(scope_words))
}

/// Refuses a server that does not exist.
pub(crate) async fn check_server(global: &Global, backend: &Backend, server: &str) -> CliResult {
    let checked = KnownNames::read(global, backend).await?.check_server(server).await;
    checked.map_err(|failure| {
        let text = without_force(&failure);
        let is_near = text.contains(DID_YOU_MEAN);
        Failure::failed(if is_near { text } else { text + "; see `mgp servers ls`" })
    })
}

/// Refuses a word without a dot that is not a permission, and a likely misspelling of a known permission. Accepts other
/// names with a dot, because a server can define permissions of its own. With `force`, refuses nothing.
pub(crate) fn check_permission(permission: &str, force: bool) -> CliResult {
    if force || Permission::from(permission).is_known() {
        return Ok(());
    }
    let all: Vec<_> = Permission::KNOWN.iter().map(Permission::as_str).collect();
    if !permission.contains('.') {
        let all = all.join(", ");
        return Err(Failure::usage(format!("`{permission}` is not a permission; known: {all}")));
    }
    if nearest(permission, all.iter().copied()).is_some() {
        return Err(unknown("permission", permission, all));
    }
    Ok(())
}
