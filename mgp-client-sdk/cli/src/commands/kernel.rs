//! The commands `mgp status`, `mgp reload`, `mgp stop` and `mgp sessions`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use mgp_client_sdk::Client;
use mgp_types::method::{
    KernelApprovals, KernelInfo, KernelReload, KernelServers, KernelSessions, KernelStop,
    KernelWebhooks,
};
use mgp_types::mgp::{
    KernelApprovalsParams, KernelClient, KernelFinding, KernelInfoParams, KernelInfoResult,
    KernelReloadParams, KernelReloadResult, KernelServersParams, KernelSession,
    KernelSessionsParams, KernelStopParams, KernelWebhook, KernelWebhooksParams, ServerState,
};
use serde::Serialize;
use tokio::time::{sleep, timeout};

use super::callbacks::open_questions;
use super::tools::{fetch_tools, needs_decision};
use super::transactions;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::lock::{self, LockAttempt};
use crate::output::{ActionReport, Cell, Color, Output, Render, plural, print};
use crate::redaction::without_paths;
use crate::socket_hello::lossy;
use crate::{control, state, state_option, time_args};

/// The default time that `mgp stop` gives the kernel's running calls to finish.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that `mgp stop` gives connections and servers to close, in addition to the time for running calls.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The severity of a finding that makes an entry of the configuration unusable.
pub(crate) const ERROR: &str = "error";

/// The name of a member of protocol results that the output of commands omits.
pub(super) const RESULT_TYPE: &str = "resultType";

/// Returns a warning, and its remedy, if the running kernel does not read a configuration file.
pub(super) fn unread_file(info: &KernelInfoResult, file: &Path) -> Option<(String, &'static str)> {
    let real = |path: &Path| lossy(&dunce::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    let file = real(file);
    if info.config.iter().any(|read| real(Path::new(read)) == file) {
        return None;
    }
    let what = format!(
        "the running kernel does not read `{}`: it was started in another folder or with other files",
        file.display()
    );
    let fix = "let the host of the project start `mgp serve --stdio --state DIR` with a folder of its own, and run `mgp trust --state DIR`";
    Some((what, fix))
}

/// `mgp stop`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  mgp stop --timeout 5s")]
pub(crate) struct Stop {
    /// Time for running calls to finish, e.g. 30s
    #[arg(long, value_name = "DURATION", value_parser = time_args::duration)]
    timeout: Option<Duration>,
}

/// `mgp sessions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Sessions {
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

/// The state of the kernel, and what waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Status {
    #[serde(flatten)]
    info: KernelInfoResult,
    /// The number of calls, permissions and registrations that wait for a decision.
    waiting_approvals: usize,
    /// The number of tools whose definition waits for a decision, by server.
    waiting_definitions: BTreeMap<String, usize>,
    /// The number of questions of servers that wait for an answer.
    waiting_questions: usize,
    /// The number of transactions that could not be undone and wait for a decision.
    waiting_transactions: usize,
    /// The servers that do not work, each with the reason.
    failing: BTreeMap<String, String>,
    /// The webhooks and the places for notifications whose last delivery failed, each with the reason.
    failing_webhooks: BTreeMap<String, String>,
}

impl Status {
    fn render_waiting(&self, out: &mut Output) {
        let counts = [
            (self.waiting_approvals, "approval", "`mgp approvals watch`"),
            (self.waiting_questions, "question", "`mgp callbacks ls`"),
            (self.waiting_transactions, "transaction", "`mgp transactions ls`"),
        ];
        let counted = counts.into_iter().filter(|(count, ..)| *count > 0);
        let lines = counted
            .map(|(count, what, command)| format!("{}: {command}", plural(count, what)))
            .chain(self.waiting_definitions.iter().map(|(server, count)| {
                let count = plural(*count, "definition");
                format!("{count} of {server}: `mgp tools ls {server} --waiting`")
            }));
        for (at, line) in lines.enumerate() {
            out.hint(format!("  {:10}{line}", if at == 0 { "waiting" } else { "" }));
        }
    }
}

/// The changes that a reload applied.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Reloaded(KernelReloadResult);

/// Sessions of agents.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SessionList(Vec<KernelSession>);

impl Render for Status {
    fn render(&self, out: &mut Output) {
        let info = &self.info;
        out.status_line(
            &Cell::from("running").color(Color::Green),
            &format!("mgp {}, process {}, since {}", info.version, info.pid, info.started_at),
        );
        out.line(format!("  servers   {}, with {}", info.servers, plural(info.tools, "tool")));
        for (at, (server, why)) in self.failing.iter().enumerate() {
            let name = if at == 0 { "failing" } else { "" };
            out.hint(format!("  {name:10}{server}: {why}; `mgp doctor {server}`"));
        }
        render_webhooks(&self.failing_webhooks, out);
        self.render_waiting(out);
        for (name, text) in [("state", &info.state), ("socket", &info.socket), ("http", &info.http)]
        {
            if let Some(text) = text {
                out.line(format!("  {name:10}{text}"));
            }
        }
        for file in &info.config {
            out.line(format!("  config    {file}"));
        }
        render_findings(&info.findings, out);
        // Leave out commands such as this one, which connect as an operator without a name.
        let name = |client: &KernelClient| client.agent.clone().or_else(|| client.subject.clone());
        let clients = info.clients.iter();
        let mut named = clients.filter_map(|one| Some((one, name(one)?))).peekable();
        if named.peek().is_none() {
            return;
        }
        let rows = named.map(|(client, name)| {
            [
                with_tenant(Some(&name), client.tenant.as_deref()).into(),
                // Show the role in its own column, because an agent may have any name, e.g. `operator`.
                Cell::from(if client.operator { "operator" } else { "agent" }),
                client.transport.as_deref().into(),
                client.since.as_ref().into(),
                client.last_seen.as_ref().into(),
            ]
        });
        out.table(["CONNECTED", "AS", "OVER", "SINCE", "LAST SEEN"], rows);
    }
}

impl Render for Reloaded {
    fn render(&self, out: &mut Output) {
        if self.0.changed.is_empty() {
            out.line("nothing has changed");
        }
        for change in &self.0.changed {
            let id = change.id.as_deref().map_or_else(String::new, |id| format!(" {id}"));
            out.line(format!("{}{id}: {}", change.kind, change.change));
        }
        render_findings(&self.0.findings, out);
    }
}

/// Returns the name of a client, with its tenant unless that is the local tenant.
pub(crate) fn with_tenant(name: Option<&str>, tenant: Option<&str>) -> Option<String> {
    let tenant = tenant.map(|tenant| format!(" of {tenant}")).unwrap_or_default();
    name.map(|name| format!("{name}{tenant}"))
}

/// Writes a line for each failing webhook, without the paths of URLs, which can be secrets.
fn render_webhooks(failing: &BTreeMap<String, String>, out: &mut Output) {
    for (at, (target, why)) in failing.iter().enumerate() {
        let name = if at == 0 { "webhooks" } else { "" };
        let (target, why) = (without_paths(target), without_paths(why));
        out.hint(format!("  {name:10}{target}: {why}; `mgp webhooks`"));
    }
}

/// Returns the webhooks whose last delivery failed, each with the reason.
pub(super) fn failing_webhooks(webhooks: Vec<KernelWebhook>) -> BTreeMap<String, String> {
    let failing = webhooks.into_iter();
    failing.filter_map(|webhook| Some((webhook.url, webhook.last_error?))).collect()
}

/// Writes findings about the configuration, each with its place in the file.
fn render_findings(findings: &[KernelFinding], out: &mut Output) {
    for finding in findings {
        let color = if finding.severity == ERROR { Color::Red } else { Color::Yellow };
        let mark = Cell::from(finding.severity.as_str()).color(color);
        out.status_line(&mark, &state_option::add_to(&with_place(finding)));
    }
}

/// Returns the message of a finding about the configuration, after its place in the file.
pub(super) fn with_place(finding: &KernelFinding) -> String {
    match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!("{file}:{line}: {}", finding.message),
        _ => finding.message.clone(),
    }
}

impl Render for SessionList {
    fn render(&self, out: &mut Output) {
        // Leave out the sessions of commands, which have no agent.
        let mut of_agents = self.0.iter().filter(|one| one.agent_id.is_some()).peekable();
        if of_agents.peek().is_none() {
            return out.line("no sessions of agents");
        }
        let rows = of_agents.map(|session| {
            [
                with_tenant(session.agent_id.as_deref(), session.tenant.as_deref()).into(),
                session.transport.as_deref().into(),
                session.since.as_ref().into(),
                session.last_seen.as_ref().into(),
                format!("{}/{}", session.total_tokens, session.max_tokens).into(),
                Cell::number(session.pinned.len()),
                session.cached.join(" ").into(),
            ]
        });
        out.table(["AGENT", "OVER", "SINCE", "LAST SEEN", "TOKENS", "PINNED", "CACHED"], rows);
    }
}

pub(crate) async fn status(global: &Global) -> CliResult {
    let client = control::connect(global).await?;
    let mut info = client.request::<KernelInfo>(&KernelInfoParams::new()).await?;
    info.extra.remove(RESULT_TYPE);
    let mut undecided = KernelApprovalsParams::new();
    undecided.max_decided = Some(0);
    let approvals = client.request::<KernelApprovals>(&undecided).await?.approvals;
    let waiting_approvals = approvals.iter().filter(|approval| approval.state == "open").count();
    let mut waiting_definitions = BTreeMap::new();
    for tool in fetch_tools(&client, None, None).await?.into_iter().filter(needs_decision) {
        *waiting_definitions.entry(tool.server_id).or_default() += 1;
    }
    let waiting_questions = open_questions(&client).await?.len();
    let waiting_transactions = transactions::stuck(&client).await?.len();
    let servers = client.request::<KernelServers>(&KernelServersParams::new()).await?.servers;
    let failing = servers.into_iter().filter(|server| server.status != ServerState::Connected);
    let failing = failing.filter_map(|server| Some((server.id, server.error?))).collect();
    let webhooks = client.request::<KernelWebhooks>(&KernelWebhooksParams::new()).await?.webhooks;
    let status = Status {
        info,
        waiting_approvals,
        waiting_definitions,
        waiting_questions,
        waiting_transactions,
        failing,
        failing_webhooks: failing_webhooks(webhooks),
    };
    print(global, &status)
}

/// Makes the running kernel apply the configuration files as they are now, and prints the changes.
pub(crate) async fn reload(global: &Global) -> CliResult {
    let client = control::connect_to_change(global).await?;
    let mut result = client.request::<KernelReload>(&KernelReloadParams::new()).await?;
    client.close().await;
    result.extra.remove(RESULT_TYPE);
    let errors = result.findings.iter().filter(|finding| finding.severity == ERROR).count();
    print(global, &Reloaded(result))?;
    match errors {
        0 => Ok(()),
        errors => Err(Failure::failed(format!(
            "{} in the configuration; a server whose entry is broken keeps its previous one, if it had one",
            plural(errors, "error")
        ))),
    }
}

pub(crate) async fn stop(global: &Global, stop: &Stop) -> CliResult {
    let client = control::connect_to_change(global).await?;
    // Remove the marker of a service: stopping the kernel ends the service too, and without the marker, hosts start the
    // next kernel immediately.
    let _ = std::fs::remove_file(state::service_marker(&state::folder(global)?));
    stop_over(global, &client, stop.timeout).await?;
    ActionReport::new("kernel", "stopped").print(global)
}

/// Stops the kernel at the other end of a connection; returns when the state folder is free for the next kernel.
pub(crate) async fn stop_over(
    global: &Global,
    client: &Client,
    drain: Option<Duration>,
) -> CliResult {
    let folder = state::folder(global)?;
    let stopping = lock_holder(&folder)?;
    let mut params = KernelStopParams::new();
    params.timeout_ms = drain.map(mgp_types::millis);
    if !client.request::<KernelStop>(&params).await?.accepted {
        return Err(Failure::failed("the kernel refuses to stop; see `mgp status`"));
    }
    let limit = drain.unwrap_or(DRAIN_TIMEOUT).saturating_add(CLOSE_TIMEOUT);
    let free = async {
        client.closed().await;
        // Wait until the kernel releases the lock: it closes connections first, then stops the servers and closes the
        // log. If another process holds the lock by then, the next kernel has already started.
        while stopping.is_some() && lock_holder(&folder)? == stopping {
            sleep(LOCK_INTERVAL).await;
        }
        Ok(())
    };
    timeout(limit, free).await.unwrap_or_else(|_| {
        let limit = limit.as_secs();
        Err(Failure::failed(format!("the kernel is still stopping after {limit} s")))
    })
}

/// Returns the id of the process that holds the lock of a folder, 0 if the id is unknown; `None` if the lock is free.
fn lock_holder(folder: &Path) -> CliResult<Option<u32>> {
    Ok(match lock::try_kernel(folder)? {
        LockAttempt::Acquired(_) => None,
        LockAttempt::Held(pid) => Some(pid.unwrap_or_default()),
    })
}

pub(crate) async fn sessions(global: &Global, sessions: &Sessions) -> CliResult {
    let client = control::connect(global).await?;
    let mut params = KernelSessionsParams::new();
    params.agent_id.clone_from(&sessions.agent);
    print(global, &SessionList(client.request::<KernelSessions>(&params).await?.sessions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_webhook_is_shown_without_the_path_of_its_url() {
        let mut failed = KernelWebhook::new("https://hooks.example/in/s3cret", 0_u64, 1_u64);
        failed.last_error = Some("`https://hooks.example/in/s3cret` did not answer".to_owned());
        let works = KernelWebhook::new("kernel.notify.phone", 1_u64, 0_u64);
        let mut out = Output::default();
        render_webhooks(&failing_webhooks(vec![failed, works]), &mut out);
        let shown = out.text();
        assert!(shown.starts_with("  webhooks  https://hooks.example"), "{shown}");
        assert!(shown.ends_with("; `mgp webhooks`\n") && shown.lines().count() == 1, "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
