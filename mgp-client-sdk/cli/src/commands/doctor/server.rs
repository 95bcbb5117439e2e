//! Checks servers by starting them, several at a time.

use std::collections::BTreeSet;

use mgp_discovery::{
    Config, ServerConfig, TargetConfig, clear_secrets, describe_target, read_manifest,
};
use mgp_security::{DefinitionState, Definitions, Finding, Governance, NameFlaw};
use mgp_toolindex::max_tokens_of_definition;
use mgp_types::mcp::Tool;
use mgp_types::mgp::KernelServer;

use super::super::grant;
use super::super::probe::{ProbeError, ProbedServer, Prober};
use super::environment;
use super::kernel::KernelState;
use super::report::{Check, Level};
use crate::args::Global;
use crate::output::{first_line, plural};

/// The remedy for a tool whose definition cannot be used.
const AUTHORS_FIX: &str = "report it to its author, who must fix the definition";

pub(super) struct ServerReport {
    pub(super) checks: Vec<Check>,
    pub(super) tools: usize,
    pub(super) tokens: u64,
    /// All tools of the server and their tokens; `None` if the server was not started or did not answer.
    pub(super) listed: Option<Vec<(String, u64)>>,
    /// The number of tools that the checks name as unusable.
    unusable: usize,
}

/// Checks all configured servers, in order; starts them only if a prober is given.
pub(super) async fn check(
    global: &Global,
    prober: Option<Prober>,
    config: &Config,
    running: &KernelState,
) -> Vec<ServerReport> {
    let servers = &config.servers;
    let governance = Governance::builder().build();
    for server in servers {
        governance.policies().set(server.id.clone(), grant::policy(server));
    }
    let probes = match &prober {
        Some(prober) => {
            let servers: Vec<&ServerConfig> = servers.iter().collect();
            prober.probe_all(global, &servers, governance.definitions()).await
        }
        None => servers.iter().map(|_| None).collect(),
    };
    let mut reports = Vec::new();
    for (server, probe) in servers.iter().zip(probes) {
        let id = server.id.as_str();
        let mut report = ServerReport::new(server, probe, &governance);
        let in_kernel = running.server(id);
        // If a kernel runs, report the tools that agents find in it, as `mgp status` does.
        if let Some(server) = in_kernel.filter(|server| server.tools > 0) {
            report.tools = usize::try_from(server.tools).unwrap_or(usize::MAX);
            // If this command started the server, the report has its own count of tokens; otherwise use the kernel's.
            if report.listed.is_none() {
                report.tokens = server.tokens;
            }
        }
        if report.is_broken() {
            report.checks.extend(environment::check_server(config, server));
        }
        // Report nothing about the manifest if the check of the running kernel reports the same problem.
        let lacks = in_kernel.and_then(|server| server.lacks.as_deref());
        let is_reported = !report.is_broken() && lacks.is_some_and(|text| text.contains(UNUSED));
        report.checks.extend(check_manifest(server).filter(|_| !is_reported));
        // If two ids look alike, the kernel accepts only one of them. Do not warn about the accepted id.
        let is_accepted = in_kernel.is_some_and(|server| server.tools > 0);
        let others = servers.iter().map(|server| server.id.as_str()).filter(|other| *other != id);
        if let Err(flaw) = NameFlaw::check_server(id, others)
            && !is_accepted
        {
            report.checks.push(flawed_id(&flaw, server));
        } else if let Some(check) = running.check_server(id)
            && !report.is_broken()
            && !in_kernel.is_some_and(|server| report.names_all(server))
        {
            report.checks.push(check);
        }
        reports.push(report);
    }
    reports
}

impl ServerReport {
    fn new(
        server: &ServerConfig,
        probe: Option<Result<ProbedServer, ProbeError>>,
        governance: &Governance,
    ) -> Self {
        let mut report =
            Self { checks: Vec::new(), tools: 0, tokens: 0, listed: None, unusable: 0 };
        for secret in clear_secrets(server) {
            let what =
                format!("`{}` looks like a secret in clear text ({})", secret.place, secret.reason);
            report.push(server, Level::Warn, what, Some(secret.remedy));
        }
        match probe {
            None => {
                let what = format!("configured: {}", describe_target(server));
                report.push(server, Level::Ok, what, None);
            }
            Some(Err(ProbeError { reason, stderr })) => {
                let (reason, fix) = split_remedy(&reason).unwrap_or_else(|| {
                    let known = stderr.as_deref().and_then(incomplete_package);
                    (reason, known.unwrap_or_else(|| manual_fix(server)))
                });
                let what = ProbeError { reason, stderr }.to_string();
                report.push(server, Level::Fail, what, Some(fix));
            }
            Some(Ok(probed)) => report.add_tools(server, &probed, governance),
        }
        report
    }

    pub(super) fn is_broken(&self) -> bool {
        self.checks.iter().any(|check| check.level == Level::Fail)
    }

    /// Returns whether the kernel reports only the unusable tools that the checks name.
    fn names_all(&self, server: &KernelServer) -> bool {
        let counted = format!("{} cannot be used", plural(self.unusable, "definition"));
        let is_named = |lacks: &str| lacks == NO_TOOLS || lacks.starts_with(&counted);
        self.unusable > 0 && server.error.is_none() && server.lacks.as_deref().is_some_and(is_named)
    }

    fn push(&mut self, server: &ServerConfig, level: Level, what: String, fix: Option<String>) {
        let mut check = Check::new("server", level, what).for_server(server.id.as_str());
        check.fix = fix;
        self.checks.push(check);
    }

    fn add_tools(&mut self, server: &ServerConfig, probed: &ProbedServer, governance: &Governance) {
        // Count as the kernel does.
        let cost = |tool: &Tool| {
            let text = serde_json::to_string(tool).unwrap_or_default();
            u64::from(max_tokens_of_definition(&text))
        };
        let costs: Vec<_> =
            probed.tools.iter().map(|tool| (tool.name.clone(), cost(tool))).collect();
        let tokens: u64 = costs.iter().map(|(_, tokens)| tokens).sum();
        (self.tools, self.tokens) = (probed.tools.len(), tokens);
        // Also count tools whose definition waits for a decision. They are not in agents' lists, so they cost no
        // tokens.
        let held = probed.listed.iter().filter(|name| costs.iter().all(|(own, _)| own != *name));
        let held: Vec<_> = held.map(|name| (name.clone(), 0)).collect();
        self.listed = Some([costs, held].concat());
        self.push(server, Level::Ok, summary(probed, tokens), None);
        let tools: Vec<_> = probed.tools.iter().collect();
        let proposed = grant::proposals(governance, &server.id, &tools);
        if proposed > 0 {
            let tools = plural(proposed, "tool");
            let reads = if proposed == 1 { "reads by its name" } else { "read by their names" };
            let what = format!(
                "a person confirms each call of {tools} that only {reads}, because the server does not declare it"
            );
            let fix = format!("`mgp tools risk {}` shows them, and sets a lower risk", server.id);
            self.push(server, Level::Warn, what, Some(fix));
        }
        self.unusable = probed.unreadable.len();
        for tool in &probed.unreadable {
            self.push(server, Level::Warn, tool.to_string(), Some(AUTHORS_FIX.to_owned()));
        }
        // Use a set, because a server may list a tool twice.
        let names: BTreeSet<_> = probed.listed.iter().collect();
        let state = |name: &str| governance.definitions().state(Some(&server.id), name);
        let (left_out, names): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| state(name).is_left_out());
        if !left_out.is_empty() {
            let tools = plural(left_out.len(), "tool");
            let what = format!(
                "{tools} cannot be used: mgp uses at most 10,000 of a server, and 16 MiB of definitions"
            );
            let fix = "let the server list fewer, if it has an option for that".to_owned();
            self.push(server, Level::Warn, what, Some(fix));
        }
        for name in names {
            if let Err(flaw) = NameFlaw::check_tool(name) {
                let what = format!("the tool `{}` cannot be used: {flaw}", first_line(name, 40));
                let fix = "ask its author for another name; it cannot be called".to_owned();
                self.unusable += 1;
                self.push(server, Level::Warn, what, Some(fix));
            } else if let Some((what, fix)) =
                held_definition(server, name, governance.definitions())
            {
                self.unusable += usize::from(fix == AUTHORS_FIX);
                self.push(server, Level::Warn, what, Some(fix));
            }
        }
    }
}

/// The kernel's text about a server whose list of tools is known and has no usable tool.
const NO_TOOLS: &str = "it lists no tools";

/// The beginning of the text about a manifest that cannot be used. The kernel's text about such a manifest contains it
/// too.
const UNUSED: &str = "its manifest is not used";

/// Reports a manifest that cannot be used. Without it, the tools are known only after the server was started.
fn check_manifest(server: &ServerConfig) -> Option<Check> {
    let error = read_manifest(server.manifest.as_ref()?).err()?;
    let check = Check::new("server", Level::Warn, format!("{UNUSED}: {error}"));
    Some(check.with_fix("correct `manifest` or the file").for_server(server.id.as_str()))
}

/// Reports a server id that makes the server's tools unavailable.
fn flawed_id(flaw: &NameFlaw, server: &ServerConfig) -> Check {
    let what = match flaw {
        NameFlaw::LooksLike { like, .. } => {
            format!("its id looks like `{like}`, so one of the two has no tools")
        }
        NameFlaw::Reserved(_) => "its id is reserved, so it has no tools".to_owned(),
        flaw => format!("its id cannot be used: {flaw}"),
    };
    let fix = format!("give it another `id` in `{}`", server.file.display());
    Check::new("server", Level::Fail, what).with_fix(fix).for_server(server.id.as_str())
}

/// Returns the remedy if the server's package lacks a module. Either `npx` has installed the package incompletely,
/// which no later start repairs, or the package does not fit a newer version of one of its dependencies. The server's
/// messages on standard error name the folder of the package.
fn incomplete_package(stderr: &str) -> Option<String> {
    let is_missing = ["Cannot find package", "Cannot find module", "ERR_MODULE_NOT_FOUND"]
        .iter()
        .any(|words| stderr.contains(words));
    let (before, after) = stderr.split_once("/_npx/").filter(|_| is_missing)?;
    let begins = |c: char| c.is_whitespace() || "'\"`(".contains(c);
    let home = before.rsplit(begins).next()?.trim_start_matches("file://");
    let hash: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
    (home.starts_with('/') && !hash.is_empty()).then(|| {
        format!(
            "its package is installed incompletely, or does not fit a newer package that it uses: delete {home}/_npx/{hash}, and start it again; if the module is still missing, use another version of the server"
        )
    })
}

/// Splits the reason of a failure into the failure and the remedy; `None` if the reason has no remedy. The remedy
/// begins after the last semicolon outside of quoted lines. The code and the cause of an error follow its remedy, and
/// belong to the failure.
pub(super) fn split_remedy(reason: &str) -> Option<(String, String)> {
    let is_unquoted = |at: &usize| {
        let rest = &reason[*at..];
        rest.matches('“').count() == rest.matches('”').count()
    };
    let at = reason.rmatch_indices("; ").map(|(at, _)| at).find(is_unquoted)?;
    let (what, rest) = (&reason[..at], &reason[at + 2..]);
    let code_at = rest.match_indices(" (").find_map(|(at, _)| {
        let (code, after) = rest[at + 2..].split_once(')')?;
        let is_code = code.parse::<i32>().is_ok() && (after.is_empty() || after.starts_with(": "));
        is_code.then_some(at)
    });
    let (fix, tail) = rest.split_at(code_at.unwrap_or(rest.len()));
    Some((format!("{what}{tail}"), fix.to_owned()))
}

/// Returns general advice for a failure that has no specific remedy.
fn manual_fix(server: &ServerConfig) -> String {
    let reach = first_line(&describe_target(server), 120);
    match server.target {
        TargetConfig::Program { .. } => format!("run it by hand to see its messages: {reach}"),
        _ => format!("check that the server is running, and that {reach} is its address"),
    }
}

fn summary(probed: &ProbedServer, tokens: u64) -> String {
    let ProbedServer { era, revision, mgp, name, version, tools, .. } = probed;
    let name =
        name.as_deref().map(|name| format!(", {}", first_line(name, 40))).unwrap_or_default();
    let version = version
        .as_deref()
        .map(|version| format!(" {}", first_line(version, 20)))
        .unwrap_or_default();
    let mgp = if *mgp { ", speaks MGP" } else { "" };
    let (tools, tokens) = (plural(tools.len(), "tool"), plural(tokens, "token"));
    format!("{tools}, {tokens}, MCP {revision} ({era}){mgp}{name}{version}")
}

/// Returns the finding and the remedy for a tool whose definition was refused or waits for an operator; `None` for any
/// other tool.
fn held_definition(
    server: &ServerConfig,
    tool: &str,
    definitions: &Definitions,
) -> Option<(String, String)> {
    let findings = match definitions.state(Some(&server.id), tool) {
        DefinitionState::Flagged(held) | DefinitionState::Changed(held) => held.findings.clone(),
        DefinitionState::Refused(findings) => {
            let what = format!("the tool `{tool}` cannot be used: {}", join(&findings));
            return Some((what, AUTHORS_FIX.to_owned()));
        }
        _ => return None,
    };
    let what = format!("the tool `{tool}` waits for an operator: {}", join(&findings));
    Some((what, format!("read it, then run `mgp tools approve {}.{tool}`", server.id)))
}

fn join(findings: &[Finding]) -> String {
    let mut words: Vec<_> = findings.iter().map(ToString::to_string).collect();
    // Several rules of the review can find the same text.
    words.dedup();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{incomplete_package, split_remedy};

    #[test]
    fn the_code_and_the_cause_of_an_error_are_not_part_of_its_remedy() {
        let check = |reason: &str, what: &str, fix: &str| {
            assert_eq!(split_remedy(reason), Some((what.to_owned(), fix.to_owned())));
        };
        check(
            "it failed; check its log (5000): HTTP 500",
            "it failed (5000): HTTP 500",
            "check its log",
        );
        check("a; b; use it (or not) (-32600)", "a; b (-32600)", "use it (or not)");
        check("it is not on the PATH; install it", "it is not on the PATH", "install it");
        assert_eq!(split_remedy("it failed (2000)"), None);
        check("it wrote “a; b”, and it failed; c", "it wrote “a; b”, and it failed", "c");
        assert_eq!(split_remedy("it wrote “a; b”, and it failed"), None);
    }

    #[test]
    fn the_folder_of_an_incomplete_package_is_named() {
        let fix = incomplete_package(
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /home/a b/.npm/_npx/a3241bba/node_modules/x/index.js",
        );
        assert_eq!(fix, None, "a folder with a blank is not guessed");
        let fix = incomplete_package("Cannot find package 'zod' imported from /home/ada/.npm/_npx/a3241bba/node_modules/x/i.js").unwrap();
        assert!(fix.contains("delete /home/ada/.npm/_npx/a3241bba,"), "{fix}");
        assert!(fix.contains("use another version of the server"), "{fix}");
        assert_eq!(incomplete_package("Cannot find module './x' in /srv/x.js"), None);
        assert_eq!(incomplete_package("started from /home/ada/.npm/_npx/a3241bba/x"), None);
    }
}
