//! Looks at servers, several at a time.
//!
//! Applies to: outbound.

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mgp_discovery::{Reach, Server, clear_secrets};
use mgp_security::{Definitions, Finding, Governance, NameFlaw, Standing};
use mgp_toolindex::TokenCounter;
use mgp_types::mcp::Tool;

use super::super::probe::{Broken, Probed, Prober, shown};
use super::kernel::Running;
use super::{Check, Doctor, Level};
use crate::cli::Global;
use crate::output::{Progress, brief, many};

/// From so many tokens on a list of tools is worth a word.
const MANY: u64 = 10_000;

/// What was found about a server.
pub(super) struct Judged {
    pub(super) checks: Vec<Check>,
    pub(super) tools: usize,
    pub(super) tokens: u64,
    /// What it lists, each with what it costs; none where it was not asked or did not answer.
    pub(super) listed: Option<Vec<(String, u64)>>,
}

impl Judged {
    pub(super) fn is_broken(&self) -> bool {
        self.checks.iter().any(|check| check.level == Level::Fail)
    }
}

/// Looks at servers; in their order.
pub(super) async fn judge(
    global: &Global,
    doctor: &Doctor,
    servers: &[Server],
    running: &Running,
) -> Vec<Judged> {
    let governance = Governance::builder().build();
    let definitions = governance.definitions();
    let prober = Prober::new(doctor.timeout);
    let mut probes: FuturesUnordered<_> = servers
        .iter()
        .enumerate()
        .map(|(at, server)| {
            let prober = &prober;
            async move {
                if doctor.no_start {
                    return (at, None);
                }
                let probed = Some(prober.probe(server, definitions).await);
                (at, probed)
            }
        })
        .collect();
    let mut progress = Progress::new(global, "checking servers", servers.len());
    let mut probed: Vec<_> = servers.iter().map(|_| None).collect();
    while let Some((at, found)) = probes.next().await {
        progress.step();
        probed[at] = found;
    }
    drop(progress);
    let counter = TokenCounter::new();
    let others = |id: &str| {
        let id = id.to_owned();
        servers.iter().map(|server| server.id.as_str()).filter(move |other| *other != id)
    };
    servers
        .iter()
        .zip(probed)
        .map(|(server, probed)| {
            let id = server.id.as_str();
            let mut judged = one(server, probed, definitions, &counter);
            let told = running.server(id);
            // Of two that look alike a kernel lets one in, and knows which.
            let is_in = told.is_some_and(|server| server.tools > 0);
            if let Err(flaw) = NameFlaw::check_server(id, others(id))
                && !is_in
            {
                judged.checks.push(flawed(&flaw, server));
            } else if let Some(check) = running.lacks(id)
                && !judged.is_broken()
            {
                judged.checks.push(check);
            }
            judged
        })
        .collect()
}

fn one(
    server: &Server,
    probed: Option<Result<Probed, Broken>>,
    definitions: &Definitions,
    counter: &TokenCounter,
) -> Judged {
    let id = server.id.as_str();
    let mut judged = Judged { checks: Vec::new(), tools: 0, tokens: 0, listed: None };
    let mut say = |level, what: String, fix: Option<String>| {
        let mut check = Check::new("server", level, what).of(id);
        check.fix = fix;
        judged.checks.push(check);
    };
    for secret in clear_secrets(server) {
        let what = format!("`{}` looks like a secret in clear text ({})", secret.place, secret.why);
        say(Level::Warn, what, Some(secret.remedy));
    }
    match probed {
        None => say(Level::Ok, format!("configured: {}", shown(server)), None),
        Some(Err(Broken { why, said })) => {
            // What is known of the remedy stands behind the last semicolon.
            let (why, fix) = match why.rsplit_once("; ") {
                Some((why, fix)) => (why.to_owned(), fix.to_owned()),
                None => (why, by_hand(server)),
            };
            say(Level::Fail, Broken { why, said }.to_string(), Some(fix));
        }
        Some(Ok(probed)) => {
            let cost = |tool: &Tool| {
                let text = serde_json::to_string(tool).unwrap_or_default();
                u64::from(counter.count(&text))
            };
            let costs: Vec<_> =
                probed.tools.iter().map(|tool| (tool.name.clone(), cost(tool))).collect();
            let tokens: u64 = costs.iter().map(|(_, tokens)| tokens).sum();
            (judged.tools, judged.tokens) = (probed.tools.len(), tokens);
            // What is held back is there all the same, and costs nothing.
            let held =
                probed.listed.iter().filter(|name| costs.iter().all(|(own, _)| own != *name));
            let held: Vec<_> = held.map(|name| (name.clone(), 0)).collect();
            judged.listed = Some([costs, held].concat());
            let mut say = |level, what: String, fix: Option<String>| {
                let mut check = Check::new("server", level, what).of(id);
                check.fix = fix;
                judged.checks.push(check);
            };
            say(Level::Ok, sentence(&probed, tokens), None);
            if tokens > MANY {
                let what = format!("its tools cost {tokens} tokens to list");
                say(
                    Level::Warn,
                    what,
                    Some("nothing behind mgp, which lists few; elsewhere list fewer".to_owned()),
                );
            }
            // One that is listed twice is told once.
            for name in probed.listed.iter().collect::<BTreeSet<_>>() {
                if let Err(flaw) = NameFlaw::check_tool(name) {
                    let fix = "tell its author; nobody can call it".to_owned();
                    let what = format!("the tool `{}` cannot be used: {flaw}", brief(name, 40));
                    say(Level::Warn, what, Some(fix));
                    continue;
                }
                if let Some((what, fix)) = doubt(server, name, definitions) {
                    say(Level::Warn, what, Some(fix));
                }
            }
        }
    }
    judged
}

/// An id that keeps all tools of a server away.
fn flawed(flaw: &NameFlaw, server: &Server) -> Check {
    let what = match flaw {
        NameFlaw::LooksLike { like, .. } => {
            format!("its id looks like `{like}`, so that one of the two has no tools")
        }
        NameFlaw::Reserved(_) => "its id is reserved, so that it has no tools".to_owned(),
        flaw => format!("its id cannot be used: {flaw}"),
    };
    let fix = format!("give it another `id` in `{}`", server.file.display());
    Check::new("server", Level::Fail, what).fix(fix).of(server.id.as_str())
}

/// What to do where nobody knows better.
fn by_hand(server: &Server) -> String {
    let shown = brief(&shown(server), 120);
    match server.reach {
        Reach::Program { .. } => format!("run it by hand to see what it says: {shown}"),
        _ => format!("look whether the server runs, and whether {shown} is its address"),
    }
}

fn sentence(probed: &Probed, tokens: u64) -> String {
    let Probed { era, revision, mgp, name, version, tools, .. } = probed;
    let calls = name.as_deref().map(|name| format!(", {}", brief(name, 40))).unwrap_or_default();
    let version =
        version.as_deref().map(|version| format!(" {}", brief(version, 20))).unwrap_or_default();
    let mgp = if *mgp { ", speaks MGP" } else { "" };
    let (tools, tokens) = (many(tools.len(), "tool"), many(tokens, "token"));
    format!("{tools}, {tokens}, MCP {revision} ({era}){mgp}{calls}{version}")
}

/// Why a tool is not callable at once.
fn doubt(server: &Server, tool: &str, definitions: &Definitions) -> Option<(String, String)> {
    let findings = match definitions.standing(Some(&server.id), tool) {
        Standing::Flagged(held) | Standing::Changed(held) => held.findings.clone(),
        Standing::Refused(findings) => {
            let what = format!("the tool `{tool}` cannot be used: {}", joined(&findings));
            return Some((what, "tell its author, who must mend its definition".to_owned()));
        }
        _ => return None,
    };
    let what = format!("the tool `{tool}` waits for an operator: {}", joined(&findings));
    Some((what, format!("read it, then run `mgp tools approve {}.{tool}`", server.id)))
}

fn joined(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
