//! The command `mgp report`: writes what helps to find the cause of a fault into one file, without secrets.
//!
//! The file has what other commands print, so that a person can read it before sending it.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use mgp_discovery::{AuditSinkConfig, Expander, NotifyWay, Origin, SecretFile, Template};

use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::ActionReport;
use crate::redaction::{Secrets, masked, names_secret, without_paths};
use crate::replace_file::{create_private, write_or_remove};
use crate::{control, state};

/// The commands whose output is part of a report.
const COMMANDS: [&[&str]; 5] = [
    &["status"],
    &["servers", "ls"],
    &["doctor", "--no-start"],
    &["approvals", "ls"],
    &["webhooks"],
];

/// The maximum number of servers whose standard error is part of a report.
const MAX_SERVERS: usize = 50;

/// `mgp report`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The file has the versions, what `mgp doctor` finds, the configuration without its comments, and the last lines of the logs; secrets are replaced by `…`. Read it before you send it.\n\nExample:\n  mgp report"
)]
pub(crate) struct ReportArgs {
    /// File to create
    #[arg(long, value_name = "FILE", default_value = "mgp-report.md")]
    out: PathBuf,
    #[command(flatten)]
    config: ConfigArg,
}

pub(crate) async fn run(global: &Global, report: &ReportArgs) -> CliResult {
    control::admit_reader(global).await?;
    let failed = |error: std::io::Error| {
        let out = report.out.display();
        Failure::failed(match error.kind() {
            ErrorKind::AlreadyExists => {
                format!("`{out}` exists; delete it, or name another file with --out")
            }
            _ => format!("`{out}`: {error}"),
        })
    };
    let file = create_private(&report.out).map_err(failed)?;
    let mut secrets = Secrets::default();
    for (_, value) in std::env::vars_os().filter(|(name, _)| names_secret(&name.to_string_lossy()))
    {
        secrets.add(&value.to_string_lossy());
    }
    let servers = configured(global, report, &mut secrets).await;
    let mut text = format!(
        "# Report of mgp {}\n\n{} on {}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    let mut commands: Vec<Vec<&str>> = COMMANDS.map(<[_]>::to_vec).to_vec();
    match &servers {
        Ok(servers) => {
            commands.push(vec!["logs", "-n", "200"]);
            let of_servers = servers.iter().take(MAX_SERVERS);
            commands.extend(of_servers.map(|id| vec!["logs", id, "-n", "20"]));
        }
        // Leave out the logs, because the secrets to remove from them are in the configuration, which cannot be read.
        Err(failure) => add(&mut text, "Logs", &format!("left out: {failure}")),
    }
    for words in commands {
        let mut shown = printed(global, report, &words);
        if words == ["webhooks"] {
            // Remove all paths of URLs: the running kernel may have other URLs than the configuration that was read
            // here, so their secrets are not known.
            shown = without_paths(&shown);
        } else if words == ["approvals", "ls"] {
            // Cut the text after the table, because that text shows the arguments of calls, which can be private.
            shown.truncate(shown.find("\n\n").unwrap_or(shown.len()));
        }
        add(&mut text, &format!("mgp {}", words.join(" ")), &shown);
    }
    for path in report.config.sources().files().filter(|path| path.exists()) {
        let shown = masked(path).unwrap_or_else(|failure| failure.to_string());
        add(&mut text, &path.display().to_string(), &shown);
    }
    let mut text = secrets.redact(&text);
    if let Some(home) = std::env::home_dir().filter(|home| home.parent().is_some()) {
        text = text.replace(&*home.to_string_lossy(), "~");
    }
    write_or_remove(&file, &report.out, &text).map_err(failed)?;
    let notes = vec!["read it before you send it".to_owned()];
    ActionReport::new(report.out.display().to_string(), "written").with_notes(notes).print(global)
}

/// Adds a section. The body is indented as a block of code, so that none of its lines can end the section early.
fn add(text: &mut String, title: &str, body: &str) {
    text.extend(["\n## ", title, "\n\n"]);
    text.extend(body.lines().flat_map(|line| ["    ", line, "\n"]));
}

/// Adds the secrets of the configuration to `secrets`, and returns the ids of the servers.
async fn configured(
    global: &Global,
    report: &ReportArgs,
    secrets: &mut Secrets,
) -> CliResult<Vec<String>> {
    let folder = state::folder(global)?;
    let config = report.config.load(global).await?.config;
    let kernel = &config.kernel;
    kernel.webhooks.values().for_each(|webhook| secrets.add_url(&webhook.url));
    for place in kernel.notify.values() {
        if let NotifyWay::Ntfy(url) | NotifyWay::Webhook(url) = &place.way {
            secrets.add_url(url);
        }
    }
    let servers = config.servers;
    let ids = servers.iter().map(|server| server.id.as_str().to_owned()).collect();
    let sinks = config.kernel.audit.sinks;
    let expander = Expander::from_env().secrets(SecretFile::in_folder(&folder));
    let expand = move || {
        let url = |sink: &AuditSinkConfig| {
            let AuditSinkConfig::Url { url, .. } = sink else { return None };
            let template = Template::parse(url).ok()?;
            let url = expander.expand(&template, Origin::User, &folder).ok()?;
            Some(url.as_str().to_owned())
        };
        let urls: Vec<String> = sinks.values().filter_map(url).collect();
        let servers: Result<Vec<_>, _> =
            servers.iter().map(|server| expander.server(server)).collect();
        (urls, servers)
    };
    let expanded = tokio::task::spawn_blocking(expand).await;
    let (urls, expanded) = expanded.map_err(|error| Failure::failed(error.to_string()))?;
    for url in &urls {
        secrets.add_url(url);
    }
    for server in expanded.map_err(|error| Failure::failed(error.to_string()))? {
        secrets.add_server(&server);
    }
    Ok(ids)
}

/// Returns what a command of this program prints.
fn printed(global: &Global, report: &ReportArgs, words: &[&str]) -> String {
    let run = || -> std::io::Result<String> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).stdin(Stdio::null());
        if let Some(folder) = &global.state {
            command.arg("--state").arg(folder);
        }
        if let (["doctor", ..], Some(file)) = (words, report.config.named_file()) {
            command.arg("--config").arg(file);
        }
        let output = command.output()?;
        Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    run().unwrap_or_else(|error| error.to_string())
}
