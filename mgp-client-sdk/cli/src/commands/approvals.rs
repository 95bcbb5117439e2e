//! The command `mgp approvals`: shows and answers pending approvals (MGP §3.4, §4.4, §15.4).

use std::time::SystemTime;

use clap::{Args, Subcommand};
use mgp_types::Extras;
use mgp_types::mgp::{KernelApproval, KernelApprovalDecisionParams, Permission};
use mgp_types::service::Principal;
use serde::Serialize;

use crate::args::Global;
use crate::backend::Backend;
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, Cell, Color, Output, Render, print, print_note};
use crate::socket_hello::Intent;
use crate::{control, prompt, time_args};

mod watch;

/// The reason why a registration cannot be decided now, and the remedy.
const NEEDS_KERNEL: &str = "registrations of servers can be decided only while a kernel runs; `mgp approvals watch` starts a kernel, and asks";

/// `mgp approvals`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List pending approvals, and those answered within the last hour
    Ls,
    /// Show one approval, with the whole arguments of its call
    #[command(after_help = "Example:\n  mgp approvals show a9e645ed67")]
    Show {
        /// Id of the approval, as `mgp approvals ls` shows it
        id: String,
    },
    /// Approve, also after a denial: an approved call runs once, a server keeps an approved permission until it is
    /// revoked, and an approved registered server runs until it is removed
    #[command(
        override_usage = "mgp approvals approve [OPTIONS] <ID>",
        after_help = "`mgp permissions ls` lists approvals that hold for later calls, and `mgp permissions revoke` ends them.\n\nExample:\n  mgp approvals approve a9e645ed67 --because \"the disk is sold\"\n  mgp approvals approve a9e645ed67 --for 1h\n  mgp approvals approve a9e645ed67 --always-like-this"
    )]
    Approve(Approval),
    /// Deny; the caller reads the reason
    #[command(
        override_usage = "mgp approvals deny [OPTIONS] <ID>",
        after_help = "The same call is refused for an hour; `mgp approvals approve` takes that back.\n\nExample:\n  mgp approvals deny a9e645ed67 --because \"not on Fridays\""
    )]
    Deny(Decision),
    /// Print new approvals as they arrive, until interrupted; in a terminal, answer each
    Watch,
}

/// The approval that an operator answers, and the operator's reason.
#[derive(Clone, Debug, Args)]
pub(crate) struct Decision {
    /// Id of the approval, as `mgp approvals ls` shows it
    id: String,
    /// Reason, for the audit log and the caller
    #[arg(long, value_name = "TEXT")]
    because: Option<String>,
}

/// `mgp approvals approve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Approval {
    #[command(flatten)]
    decision: Decision,
    /// Permission that a sandboxed, registered server gets although its sandbox denies it; may be given several times
    #[arg(long, value_name = "PERMISSION")]
    grant: Vec<String>,
    #[command(flatten)]
    term: Term,
}

/// The calls that an approval covers: this call, all calls of the tool for some time, or all calls with similar
/// arguments.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub(crate) struct Term {
    /// Approve only this call; the default for a call
    #[arg(long)]
    once: bool,
    /// Approve all calls of the tool by the same agent for this time, e.g. 1h; or the permission for this time
    #[arg(long = "for", value_name = "TIME", value_parser = time_args::future)]
    until: Option<SystemTime>,
    /// Approve all calls of the tool by the same agent with similar arguments, as `mgp approvals show` describes them
    #[arg(long)]
    always_like_this: bool,
}

impl Term {
    fn set(&self, params: &mut KernelApprovalDecisionParams) {
        params.until = self.until.map(Into::into);
        params.term = match (self.until, self.always_like_this) {
            (Some(_), _) => Some("tool".to_owned()),
            (None, true) => Some("like".to_owned()),
            (None, false) => None,
        };
    }
}

/// Pending approvals and recent approvals.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ApprovalList {
    approvals: Vec<KernelApproval>,
    /// `true` in `mgp approvals watch`, which does not recommend itself.
    #[serde(skip)]
    is_watch: bool,
}

impl Render for ApprovalList {
    fn render(&self, out: &mut Output) {
        if self.approvals.is_empty() {
            return out.line("no pending approvals");
        }
        let rows = self.approvals.iter().map(|one| {
            let color = match one.state.as_str() {
                "open" => Color::Yellow,
                "denied" => Color::Red,
                "later" => Color::Dim,
                _ => Color::Green,
            };
            let permissions: Vec<&str> = one.permissions.iter().map(Permission::as_str).collect();
            let what = match one.kind.as_str() {
                "registration" => None,
                "call" => one.tool.clone(),
                _ => Some(permissions.join(" ")),
            };
            [
                one.id.as_str().into(),
                one.kind.as_str().into(),
                Cell::from(one.state.as_str()).color(color),
                caller(one).into(),
                one.server_id.as_deref().into(),
                what.into(),
                one.risk_level.as_ref().map(ToString::to_string).into(),
                // Show no expiry of a decided permission or registration, because its `expires_at` only limited the
                // time to answer the question.
                one.expires_at
                    .as_ref()
                    .filter(|_| one.state == "open" || one.kind == "call")
                    .and_then(time_args::left_until)
                    .into(),
            ]
        });
        out.table(["ID", "KIND", "STATE", "FOR", "SERVER", "WHAT", "RISK", "EXPIRES"], rows);
        for open in self.approvals.iter().filter(|one| one.state == "open") {
            out.line("");
            out.line(format!("{}:", open.id));
            for line in open.question.lines() {
                out.line(format!("  {line}"));
            }
            let has_like = open.question.contains("\nCalls like this: ");
            if let Some(like) = open.like.as_ref().filter(|_| !has_like) {
                out.line(format!("  Calls like this: {like}"));
            }
            if open.kind == "call" {
                out.hint(format!("  The whole arguments: `mgp approvals show {}`", open.id));
            } else if open.question.contains("\n  script     ") {
                out.hint(format!("  The whole script: `mgp approvals show {}`", open.id));
            }
        }
        if self.approvals.iter().any(|one| one.state == "open") {
            let watch = if self.is_watch { "" } else { ", or `mgp approvals watch`" };
            out.line("");
            out.hint(format!("answer: `mgp approvals approve ID`, `mgp approvals deny ID`{watch}"));
        }
        if self.approvals.iter().any(|one| one.state == "open" && one.kind == "call") {
            out.line("a call that no longer waits runs when it is made again after the approval");
        }
    }
}

/// One approval with all its details and complete arguments, for `mgp approvals show`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WholeApproval(KernelApproval);

impl Render for WholeApproval {
    fn render(&self, out: &mut Output) {
        let Self(approval) = self;
        out.line(format!("{} {} ({})", approval.kind, approval.id, approval.state));
        let Some(arguments) = approval.arguments.as_ref().filter(|_| approval.kind == "call")
        else {
            out.block(&approval.question);
            if let Some(script) = script(approval) {
                render_script(out, &script);
            }
            return;
        };
        let server = approval.server_id.as_deref().unwrap_or("-");
        out.line(format!("for        {}", caller(approval)));
        out.line(format!("tool       {server} {}", approval.tool.as_deref().unwrap_or("-")));
        if let Some(risk) = &approval.risk_level {
            out.line(format!("risk       {risk}"));
        }
        for permission in &approval.permissions {
            out.line(format!("permission {permission} (the server lacks it)"));
        }
        if let Some(like) = &approval.like {
            out.line(format!("like this  {like}"));
        }
        if let Some(reason) = &approval.justification {
            out.line(format!("reason     {reason}"));
        }
        out.line(format!("arguments  {} bytes", arguments.len()));
        // Print each argument on its own line, in the order of the canonical JSON, whose hash identifies the approved
        // arguments.
        match serde_json::from_str::<Extras>(arguments) {
            Ok(members) => members
                .iter()
                .for_each(|(name, value)| out.line(format!("  {name} = {}", value.as_str()))),
            Err(_) => out.line(arguments),
        }
    }
}

/// Returns the script in the arguments of a registration; `None` if they contain none.
fn script(approval: &KernelApproval) -> Option<String> {
    let arguments: Extras = serde_json::from_str(approval.arguments.as_deref()?).ok()?;
    arguments.get("script")?.get().ok()
}

/// Prints the lines of a script. Tabs become spaces, and every other invisible character is escaped.
fn render_script(out: &mut Output, script: &str) {
    out.line(format!("the script, {} bytes:", script.len()));
    for line in script.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        out.line(format!("  {}", line.replace('\t', "    ")));
    }
}

pub(crate) async fn run(global: &Global, approvals: &Approvals) -> CliResult {
    let is_change = match approvals {
        Approvals::Ls | Approvals::Show { .. } => false,
        Approvals::Watch => prompt::is_interactive(global),
        Approvals::Approve(_) | Approvals::Deny(_) => true,
    };
    let intent = if is_change { Intent::Change } else { Intent::Read };
    if let Approvals::Watch = approvals {
        // Require a kernel for a watch. Without a kernel, the watch would hold the lock of the state folder all the
        // time.
        let client = if is_change {
            control::connect_or_start_to_change(global).await?
        } else {
            control::connect_or_start(global).await?
        };
        let backend = Backend::Kernel(client);
        let result = watch::run(global, &backend, is_change).await;
        backend.close().await?;
        return result;
    }
    let backend = Backend::open(global, intent).await?;
    let result = execute(global, approvals, &backend).await;
    // Print the report only after the backend is closed, because its close writes the change to disk.
    backend.close().await?;
    result?.map_or(Ok(()), |report| report.print(global))
}

async fn execute(
    global: &Global,
    approvals: &Approvals,
    backend: &Backend,
) -> CliResult<Option<ActionReport>> {
    match approvals {
        Approvals::Ls | Approvals::Watch => {
            let approvals = backend.approvals(None).await?;
            let has_registrations = approvals.iter().any(is_registration);
            print(global, &ApprovalList { approvals, is_watch: false })?;
            if has_registrations && !backend.decides_registrations() {
                print_note(global, &format!("mgp: {NEEDS_KERNEL}"));
            }
            Ok(None)
        }
        Approvals::Show { id } => match backend.approvals(Some(id)).await?.into_iter().next() {
            Some(approval) => {
                let is_open = approval.state == "open";
                print(global, &WholeApproval(approval))?;
                if is_open {
                    print_note(
                        global,
                        &format!("answer: `mgp approvals approve {id}`, `mgp approvals deny {id}`"),
                    );
                }
                Ok(None)
            }
            None => Err(Failure::failed(format!(
                "no approval has the id `{id}`; `mgp approvals ls` lists them"
            ))),
        },
        Approvals::Approve(approval) => approve(global, approval, backend).await.map(Some),
        Approvals::Deny(decision) => {
            let asked = backend.approvals(Some(&decision.id)).await?.into_iter().next();
            check_kernel(backend, asked.as_ref())?;
            check_undecided(asked.as_ref(), Answer::Deny)?;
            let params = decision.params();
            backend.deny(&params).await?;
            let explanation = asked.and_then(|asked| match asked.kind.as_str() {
                "call" => {
                    let id = &decision.id;
                    Some(format!("for an hour, also if the same call is made again; `mgp approvals approve {id}` takes it back"))
                }
                _ => effect(&asked, &params),
            });
            let report = ActionReport::new(&*decision.id, "denied");
            Ok(Some(report.with_explanation(explanation)))
        }
    }
}

async fn approve(
    global: &Global,
    approval: &Approval,
    backend: &Backend,
) -> CliResult<ActionReport> {
    let mut params = approval.decision.params();
    let granted = approval.grant.iter().map(|name| Permission::from(name.as_str()));
    params.permissions = granted.collect();
    approval.term.set(&mut params);
    let asked = backend.approvals(Some(&approval.decision.id)).await?.into_iter().next();
    if approval.term.once && asked.as_ref().is_some_and(is_permission) {
        return Err(Failure::usage(
            "permissions are granted to a server, not to one call; leave out `--once`, or limit the grant with `--for 1h`",
        ));
    }
    let is_other = asked.as_ref().is_some_and(|asked| !is_registration(asked));
    if is_other && !params.permissions.is_empty() {
        return Err(Failure::usage("only a registration is approved with `--grant`"));
    }
    check_kernel(backend, asked.as_ref())?;
    check_undecided(asked.as_ref(), Answer::Approve)?;
    let approved = backend.approve(&params).await?;
    if let Some(message) = &approved.message {
        print_note(global, &format!("mgp: {message}"));
    }
    let effect = asked.and_then(|asked| effect(&asked, &params));
    let report = ActionReport::new(&*approval.decision.id, &approved.status);
    Ok(report.with_explanation(effect))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Approve,
    Deny,
}

/// Fails if the request is a registration, about which this backend cannot decide.
fn check_kernel(backend: &Backend, asked: Option<&KernelApproval>) -> CliResult {
    match asked.filter(|asked| is_registration(asked)) {
        Some(asked) if !backend.decides_registrations() => {
            Err(Failure::no_kernel(format!("`{}` is still open: {NEEDS_KERNEL}", asked.id)))
        }
        _ => Ok(()),
    }
}

/// Fails if an operator has already decided, so that the kernel would refuse this answer.
fn check_undecided(asked: Option<&KernelApproval>, answer: Answer) -> CliResult {
    let Some(asked) = asked.filter(|asked| !is_registration(asked)) else { return Ok(()) };
    match asked.state.as_str() {
        // Accept the answer, because a denied call can still be approved.
        "denied" if answer == Answer::Approve && asked.kind == "call" => Ok(()),
        "approved" | "denied" | "used" | "settled" => Err(already_decided(asked)),
        _ => Ok(()),
    }
}

pub(crate) fn already_decided(approval: &KernelApproval) -> Failure {
    let state = match approval.state.as_str() {
        "used" => "approved and used",
        "settled" => "decided",
        state => state,
    };
    let mut text = format!("`{}` is {state} already", approval.id);
    if let Some(by) = &approval.decided_by {
        text.extend([", by ", by]);
    }
    if let Some(reason) = &approval.justification {
        text.extend([": ", reason]);
    }
    Failure::failed(text)
}

fn is_registration(asked: &KernelApproval) -> bool {
    asked.kind == "registration"
}

fn is_permission(asked: &KernelApproval) -> bool {
    !matches!(asked.kind.as_str(), "call" | "registration")
}

/// Describes in words which calls an approval, or a denial of permissions, covers; `None` for a registration.
fn effect(asked: &KernelApproval, params: &KernelApprovalDecisionParams) -> Option<String> {
    let until = params.until.as_ref().map(Cell::from);
    if is_permission(asked) {
        let server = asked.server_id.as_deref()?;
        let end = until.map(|until| format!("until {}", until.text()));
        let end = end.unwrap_or_else(|| "until they are revoked".to_owned());
        return Some(format!(
            "for all tools of {server}, {end}; `mgp permissions revoke {server} PERMISSION` ends it"
        ));
    }
    let tool = asked.tool.as_deref().filter(|_| asked.kind == "call")?;
    let agent = asked.agent_id.as_deref().unwrap_or(&asked.subject);
    let server = asked.server_id.as_deref().unwrap_or("SERVER");
    let end =
        format!("`mgp permissions ls` lists it, and `mgp permissions revoke {server} ID` ends it");
    Some(match (params.term.as_deref(), until) {
        (Some("tool"), Some(until)) => {
            let until = until.text();
            format!("for all calls of {tool} by {agent} until {until}, with any arguments; {end}")
        }
        (Some("like"), _) => {
            let like = asked.like.as_deref().unwrap_or("exactly these arguments");
            format!("for this and later calls of {tool} by {agent}: {like}; {end}")
        }
        _ => format!("for this call, once; the next call of {tool} asks again"),
    })
}

impl Decision {
    fn params(&self) -> KernelApprovalDecisionParams {
        let mut params = KernelApprovalDecisionParams::new(self.id.as_str());
        params.because.clone_from(&self.because);
        params.via = Some("terminal".to_owned());
        params
    }
}

/// Returns the caller who asks: the agent, and in brackets its user, unless that is the local user.
pub(crate) fn caller(approval: &KernelApproval) -> String {
    let user = &approval.subject;
    match &approval.agent_id {
        Some(agent) if user != Principal::local().subject().as_str() => format!("{agent} ({user})"),
        Some(agent) => agent.clone(),
        None => user.clone(),
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Timestamp;

    use super::*;

    #[test]
    fn the_users_of_one_agent_are_distinguished() {
        let of = |user: &str, agent: Option<&str>| {
            let mut asked = KernelApproval::new("a", "call", "open", "?", user, Timestamp::now());
            asked.agent_id = agent.map(str::to_owned);
            caller(&asked)
        };
        assert_eq!(of("ann", Some("app")), "app (ann)");
        assert_eq!((of("local", Some("ada")), of("ann", None)), ("ada".into(), "ann".into()));
    }

    #[test]
    fn a_watch_does_not_recommend_itself() {
        let asked = KernelApproval::new("a", "call", "open", "?", "eve", Timestamp::now());
        for is_watch in [true, false] {
            let mut out = Output::default();
            ApprovalList { approvals: vec![asked.clone()], is_watch }.render(&mut out);
            assert_ne!(out.text().contains("approvals watch"), is_watch, "{}", out.text());
        }
    }

    #[test]
    fn the_end_of_an_approval_is_shown_in_whole_seconds() {
        let mut asked = KernelApproval::new("a", "call", "open", "?", "eve", Timestamp::now());
        asked.tool = Some("files.look".to_owned());
        let mut params = KernelApprovalDecisionParams::new("a");
        params.term = Some("tool".to_owned());
        params.until = Some(Timestamp::from("2026-11-27T18:35:59.123Z"));
        let shown = effect(&asked, &params).unwrap();
        assert!(shown.contains("by eve until 2026-11-27T18:35:59Z, with any"), "{shown}");
    }

    #[test]
    fn an_answer_to_a_decided_approval_is_refused_with_the_earlier_decision() {
        let asked = |kind: &str, state: &str| {
            let now = Timestamp::now();
            let mut asked = KernelApproval::new("abc", kind, state, "May it?", "eve", now);
            asked.decided_by = Some("ann".to_owned());
            asked
        };
        let check = |kind: &str, state: &str, answer: Answer, expected: Option<&str>| {
            let refused = check_undecided(Some(&asked(kind, state)), answer).err();
            let refused = refused.map(|failure| failure.to_string());
            assert_eq!(refused.as_deref(), expected, "{kind} {state}");
        };
        let used = Some("`abc` is approved and used already, by ann");
        check("call", "used", Answer::Approve, used);
        check("call", "used", Answer::Deny, used);
        check("call", "approved", Answer::Approve, Some("`abc` is approved already, by ann"));
        check("permissions", "settled", Answer::Deny, Some("`abc` is decided already, by ann"));
        check("permissions", "denied", Answer::Approve, Some("`abc` is denied already, by ann"));
        check("call", "denied", Answer::Approve, None);
        check("call", "open", Answer::Deny, None);
        assert!(check_undecided(None, Answer::Deny).is_ok(), "the kernel refuses unknown ids");
    }
}
