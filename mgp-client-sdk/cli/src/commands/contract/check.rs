//! `mgp contract check`.

use std::path::{Path, PathBuf};

use mgp_contract::{Bump, Contract, LockFile, compare};
use serde::Serialize;

use super::super::lock;
use super::diff::ToolDiff;
use super::{SourceArgs, source};
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Color, Output, Render, plural, print};

/// The result of `mgp contract check`: which required tools the servers no longer offer as they did.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CheckReport {
    /// The number of required tools that are missing or broke their contract. A server that could not be checked counts
    /// as one required tool.
    broken: usize,
    /// The result for each server.
    servers: Vec<ServerCheck>,
}

/// The result of checking the required tools of one server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServerCheck {
    /// The server or file that was checked.
    source: String,
    /// The reason why the server could not be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The number of required tools.
    required: usize,
    /// The required tools that do not exist.
    missing: Vec<String>,
    /// The required tools that changed.
    changed: Vec<ToolDiff>,
}

impl ServerCheck {
    fn broken(&self) -> usize {
        let changed = self.changed.iter().filter(|tool| tool.bump == "major").count();
        usize::from(self.failure.is_some()) + self.missing.len() + changed
    }
}

impl Render for CheckReport {
    fn render(&self, out: &mut Output) {
        for server in &self.servers {
            let (word, color) =
                if server.broken() == 0 { ("ok", Color::Green) } else { ("broken", Color::Red) };
            let text = format!("{}: {} required", server.source, plural(server.required, "tool"));
            out.status_line(&Cell::from(word).color(color), &text);
            if let Some(failure) = &server.failure {
                out.line(format!("  {failure}"));
            }
            for missing in &server.missing {
                out.line(format!("  missing: {missing}"));
            }
            server.changed.iter().for_each(|changed| changed.render(out));
        }
    }
}

pub(super) async fn run(global: &Global, args: &SourceArgs, against: &Path) -> CliResult {
    let (sources, common) = source::names(args);
    let file = required_file(against, &common.config)?.display().to_string();
    let text = source::read_text(&file)?;
    let text = text.ok_or_else(|| Failure::failed(format!("there is no file `{file}`")))?;
    let lock = LockFile::parse(&text).ok();
    let all = source::parse(&file, &text)?;
    let mut servers = Vec::new();
    for name in sources {
        let required = match lock.as_ref().map(|lock| lock.servers.get(name)) {
            Some(Some(locked)) => locked.contracts(),
            Some(None) => {
                return Err(Failure::failed(format!(
                    "`{name}` is not in `{file}`; run `mgp lock`"
                )));
            }
            None => all.clone(),
        };
        servers.push(match source::read(global, name, common).await {
            Ok(now) => judge(name, &required, &now),
            Err(failure) => ServerCheck {
                source: name.clone(),
                failure: Some(failure.to_string()),
                required: required.len(),
                missing: Vec::new(),
                changed: Vec::new(),
            },
        });
    }
    let broken = servers.iter().map(ServerCheck::broken).sum();
    print(global, &CheckReport { broken, servers })?;
    if broken == 0 {
        return Ok(());
    }
    Err(Failure::failed("a required tool is missing or broke its contract"))
}

/// Returns the file with the required tools. The bare name of the lock file also means the lock file beside the
/// configuration file, where `mgp lock` writes it.
fn required_file(against: &Path, config: &ConfigArg) -> CliResult<PathBuf> {
    if against.exists() || against != Path::new(lock::FILE_NAME) {
        return Ok(against.to_owned());
    }
    let beside = lock::path_of(config)?;
    if beside.exists() { Ok(beside) } else { Err(lock::missing(&beside)) }
}

fn judge(source: &str, required: &[Contract], now: &[Contract]) -> ServerCheck {
    let (mut missing, mut changed) = (Vec::new(), Vec::new());
    for tool in required {
        match now.iter().find(|other| other.name == tool.name) {
            None => missing.push(tool.name.clone()),
            Some(other) => {
                let found = compare(tool, other);
                if found.bump != Bump::None {
                    changed.push(ToolDiff::new(found, required, now));
                }
            }
        }
    }
    ServerCheck {
        source: source.to_owned(),
        failure: None,
        required: required.len(),
        missing,
        changed,
    }
}
