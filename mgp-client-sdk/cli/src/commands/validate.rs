//! `mgp validate`: judges a server or a client by the rules of MCP and MGP.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_validate::{
    Options, Report, RuleInfo, RuleLevel, Target, judge_client, judge_pair, judge_server,
};
use serde::Serialize;
use serde_json::Value;

use crate::args::Global;
use crate::escape::escape_lines;
use crate::exit::{CliResult, Failure};
use crate::output::{
    Cell, Output, Render, first_line, plural, print, print_json, print_note, print_stderr,
    write_stdout,
};
use crate::signals::{Signals, exit_code};
use crate::time_args;

/// `mgp validate`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Validate {
    /// Judge a server: a program, or one at a URL
    #[command(
        after_help = "Tools are called only if they declare to be read-only, and without arguments, or with --tool.\n\nExample:\n  mgp validate server -- uvx mcp-server-time\n  mgp validate server --url http://127.0.0.1:8000/mcp --page report.html"
    )]
    Server(Server),
    /// Judge a client: configure this command as a server in it, and use it
    #[command(
        after_help = "The report is written when the client disconnects, or a signal stops this command. The example is for the file of a host.\n\nExample:\n  {\"mcpServers\": {\"judge\": {\"command\": \"mgp\", \"args\": [\"validate\", \"client\", \"--page\", \"/tmp/report.html\"]}}}"
    )]
    Client(Files),
    /// Judge a client and a server: configure this command as the server in the client, and use it
    #[command(
        after_help = "The report is written when the client disconnects, the server ends, or a signal stops this command. The example is for the file of a host.\n\nExample:\n  {\"mcpServers\": {\"time\": {\"command\": \"mgp\", \"args\": [\"validate\", \"pair\", \"--page\", \"/tmp/report.html\", \"--\", \"uvx\", \"mcp-server-time\"]}}}"
    )]
    Pair(Pair),
    /// List the rules
    Rules,
}

/// `mgp validate server`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Server {
    /// Let the rules call this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Arguments of the tool
    #[arg(long, value_name = "JSON", requires = "tool", default_value = "{}")]
    args: String,
    /// Time to wait for each answer, at most 10m
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = answer_timeout)]
    timeout: Duration,
    #[command(flatten)]
    judged: Pair,
}

/// The arguments of `mgp validate pair` and `server`: the server to judge, the rules to play, and the files to write.
#[derive(Clone, Debug, Args)]
pub(crate) struct Pair {
    /// Judge the server at this URL
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// Send this header with each request to the URL, as `NAME: VALUE`
    #[arg(long, requires = "url", value_name = "HEADER")]
    header: Vec<String>,
    /// Play only rules whose names begin with this
    #[arg(long, value_name = "RULE")]
    only: Vec<String>,
    #[command(flatten)]
    files: Files,
    /// Program of the server with its arguments
    #[arg(last = true, required_unless_present = "url")]
    command: Vec<String>,
}

/// The files to write.
#[derive(Clone, Debug, Args)]
pub(crate) struct Files {
    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the report in the schema of proposal 12 to this file, with its tests CONF-001 to CONF-007
    #[arg(long, value_name = "FILE")]
    conformance: Option<PathBuf>,
    /// Write the report as a page to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Write a badge (SVG) to this file
    #[arg(long, value_name = "FILE")]
    badge: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Rules {
    rules: Vec<&'static RuleInfo>,
}

impl Render for Rules {
    fn render(&self, out: &mut Output) {
        let rows = self.rules.iter().map(|rule| {
            let level = if rule.level == RuleLevel::Must { "must" } else { "should" };
            [rule.id, level, rule.section, rule.text].map(Cell::from)
        });
        out.table(["RULE", "LEVEL", "SECTION", "TEXT"], rows);
    }
}

pub(crate) async fn run(global: &Global, validate: Validate) -> CliResult {
    match validate {
        Validate::Rules => print(global, &Rules { rules: mgp_validate::pair_rules().collect() }),
        Validate::Server(server) => {
            check_names(&server.judged.only, mgp_validate::rules())?;
            let (target, options) = (target(&server.judged)?, options(&server)?);
            let mut signals = Signals::new()?;
            print_note(global, "playing the rules; a server that starts slowly takes minutes");
            // If a signal arrives, dropping the judge's future ends the processes that the judge started.
            let report = tokio::select! {
                report = judge_server(&target, &options) => report,
                number = signals.next() => {
                    let code = u8::try_from(exit_code(number)).unwrap_or(1);
                    return Err(Failure::with_code(code, "stopped by a signal"));
                }
            };
            // Print the report before writing files, so that it is not lost if a file cannot be written.
            if global.json {
                print_json(&report)?;
            } else {
                write_stdout(&(escape_lines(&report.to_text()) + "\n"))?;
            }
            write_files(&server.judged.files, &report)?;
            verdict(&report)
        }
        Validate::Pair(pair) => {
            check_names(&pair.only, mgp_validate::pair_rules())?;
            let mut options = Options::new();
            options.only.clone_from(&pair.only);
            let stopped = stopped()?;
            finish_client(&pair.files, &judge_pair(&target(&pair)?, &options, stopped).await)
        }
        Validate::Client(files) => finish_client(&files, &judge_client(stopped()?).await),
    }
}

/// Returns a future that completes when a signal stops this command: many hosts end a server by a signal.
fn stopped() -> CliResult<impl Future<Output = ()>> {
    let mut signals = Signals::new()?;
    Ok(async move {
        signals.next().await;
    })
}

/// Parses the time to wait for an answer: a duration, or a number of seconds.
fn answer_timeout(text: &str) -> Result<Duration, String> {
    let timeout = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => time_args::duration(text)?,
    };
    let range = Duration::from_secs(1)..=Duration::from_mins(10);
    if range.contains(&timeout) { Ok(timeout) } else { Err("use 1s to 10m".to_owned()) }
}

/// Writes the report to files and to standard error: standard output belongs to the client.
fn finish_client(files: &Files, report: &Report) -> CliResult {
    print_stderr(&report.to_text());
    write_files(files, report)?;
    verdict(report)
}

fn verdict(report: &Report) -> CliResult {
    if report.is_passed() {
        return Ok(());
    }
    let failed = report.summary.failed;
    let (rules, verb) = (plural(failed, "rule"), if failed == 1 { "is" } else { "are" });
    Err(Failure::failed(format!("{rules} of level `must` {verb} broken")))
}

fn target(server: &Pair) -> Result<Target, Failure> {
    let Some(url) = &server.url else { return Ok(Target::command(server.command.clone())) };
    server.header.iter().try_fold(Target::url(url.as_str()), |target, header| {
        let (name, value) = header_pair(header).map_err(Failure::usage)?;
        Ok(target.header(name, value))
    })
}

/// Splits a header, `NAME: VALUE` or `NAME=VALUE`, into its name and its value.
pub(super) fn header_pair(text: &str) -> Result<(String, String), String> {
    let at = text.find([':', '=']).filter(|at| !text[..*at].trim().is_empty());
    let wrong = || format!("`{}` is not a header; write `NAME: VALUE`", first_line(text, 20));
    let at = at.ok_or_else(wrong)?;
    Ok((text[..at].trim().to_owned(), text[at + 1..].trim().to_owned()))
}

/// Checks that each `--only` selects a rule, because a report without rules passes.
fn check_names(only: &[String], rules: impl Iterator<Item = &'static RuleInfo>) -> CliResult {
    let ids: Vec<_> = rules.map(|rule| rule.id).collect();
    let selects = |only: &&String| ids.iter().any(|id| id.starts_with(only.as_str()));
    only.iter().find(|only| !selects(only)).map_or(Ok(()), |unknown| {
        let what = "no rule that this command checks begins with";
        Err(Failure::usage(format!("{what} `{unknown}`; see `mgp validate rules`")))
    })
}

fn options(server: &Server) -> Result<Options, Failure> {
    let mut options = Options::new();
    options.timeout = server.timeout;
    options.only.clone_from(&server.judged.only);
    if let Some(tool) = &server.tool {
        let arguments: Value = serde_json::from_str(&server.args)
            .map_err(|error| Failure::usage(format!("`--args` is not JSON: {error}")))?;
        if !arguments.is_object() {
            return Err(Failure::usage("`--args` must be a JSON object"));
        }
        options.tool = Some((tool.clone(), arguments));
    }
    Ok(options)
}

fn write_files(files: &Files, report: &Report) -> CliResult {
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => fs::write(path, text()).map_err(|error| cannot_write(path, &error)),
        None => Ok(()),
    };
    write(&files.report, &|| report.to_json())?;
    write(&files.conformance, &|| report.to_conformance_json())?;
    write(&files.page, &|| report.to_html())?;
    write(&files.badge, &|| report.to_badge())
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
