//! Tests that generate `docs/schema/cli/`, the schemas of `--json`, and `docs/cli.md`, the reference of all commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};

use crate::cli::Cli;
use crate::commands::*;
use crate::help::GROUPS;
use crate::output::{ActionReport, ErrorReport};

/// Returns the JSON schema of each document that commands print, by its name.
fn schemas() -> BTreeMap<&'static str, schemars::Schema> {
    fn of<T: JsonSchema>() -> schemars::Schema {
        SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>()
    }
    BTreeMap::from([
        ("access-matrix", of::<access::AccessMatrix>()),
        ("access-query", of::<access::QueryResult>()),
        ("audit-query", of::<audit::EventList>()),
        ("audit-verify", of::<audit::VerifyResult>()),
        ("connect", of::<connect::ConnectResult>()),
        ("console", of::<crate::console::ConsoleLink>()),
        ("contract-check", of::<contract::check::CheckReport>()),
        ("contract-diff", of::<contract::diff::DiffReport>()),
        ("contract-lint", of::<contract::lint::LintReport>()),
        ("lock", of::<lock::LockReport>()),
        ("disconnect", of::<connect::disconnect::DisconnectResult>()),
        ("doctor", of::<doctor::Report>()),
        ("done", of::<ActionReport>()),
        ("error", of::<ErrorReport<'_>>()),
        ("events", of::<events::EventTable>()),
        ("import", of::<import::ImportResult>()),
        ("init", of::<init::InitResult>()),
        ("keys-add", of::<keys::NewKey>()),
        ("keys-ls", of::<keys::KeyList>()),
        ("approvals-ls", of::<approvals::ApprovalList>()),
        ("approvals-show", of::<approvals::WholeApproval>()),
        ("callbacks-ls", of::<callbacks::CallbackList>()),
        ("transactions-ls", of::<transactions::TransactionList>()),
        ("transactions-show", of::<transactions::WholeTransaction>()),
        ("permissions-ls", of::<permissions::DecisionList>()),
        ("notify-test", of::<notify::TestedPlaces>()),
        ("openapi", of::<openapi::ApiReport>()),
        ("secrets-ls", of::<secrets::SecretNames>()),
        ("servers-add", of::<servers::add::AddResult>()),
        ("logs", of::<logs::LogLines>()),
        ("servers-logs", of::<logs::LogLines>()),
        ("service-status", of::<service::ServiceStatus>()),
        ("servers-search", of::<servers::search::FoundServers>()),
        ("servers-update", of::<servers::update::UpdateReport>()),
        ("servers-ls", of::<servers::list::ServerList>()),
        ("sessions", of::<kernel::SessionList>()),
        ("status", of::<kernel::Status>()),
        ("subscriptions-ls", of::<subscriptions::SubscriptionList>()),
        ("tenants-ls", of::<tenants::TenantList>()),
        ("reload", of::<kernel::Reloaded>()),
        ("tools-call", of::<tools::CallOutput>()),
        ("tools-ls", of::<tools::ToolList>()),
        ("tools-risk", of::<tools::RiskProposals>()),
        ("tools-show", of::<tools::WholeTool>()),
        ("tools-search", of::<tools::SearchResult>()),
        ("tools-tokens", of::<tools::TokenReport>()),
        ("trust", of::<trust::TrustResult>()),
        ("trust-list", of::<trust::ApprovalList>()),
        ("why", of::<why::Explanation>()),
        ("setup", of::<setup::SetupResult>()),
        ("undo", of::<connect::undo::UndoResult>()),
        ("webhooks", of::<webhooks::WebhookTable>()),
    ])
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Compares a file with its expected content; with `UPDATE_GOLDEN=1`, writes the file first.
#[track_caller]
fn check(file: &Path, expected: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, expected).unwrap();
    }
    let actual = fs::read_to_string(file).unwrap_or_default();
    assert!(actual == expected, "{} is stale; run with UPDATE_GOLDEN=1", file.display());
}

#[test]
fn each_document_has_its_schema() {
    let folder = docs().join("schema/cli");
    let schemas = schemas();
    for (name, schema) in &schemas {
        let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
        check(&folder.join(format!("{name}.json")), &text);
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(schemas.contains_key(name.as_str()), "{name} is left over");
    }
}

/// The environment variables that commands read, each with its meaning.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("MGP_STATE", "The folder of the kernel's state, like `--state`."),
    (
        "XDG_STATE_HOME",
        "Without `--state` and `MGP_STATE`, the folder is `mgp` in this folder; if it is not set, `~/.local/state/mgp`. Under `sudo`, such a folder of the user who ran it is refused, because root would create files there that this user cannot read.",
    ),
    (
        "MGP_CONFIG_PATH",
        "The configuration file, like `--config`, also for `mgp serve`. It replaces the project's file and your own, and counts as your own.",
    ),
    (
        "XDG_CONFIG_HOME",
        "Your own configuration is `mgp/servers.toml` in this folder instead of `~/.config`, unless the folder `~/.config/mgp` exists. The files of hosts that follow this variable are found there too.",
    ),
    (
        "MGP_LOG",
        "The level of the log in place of that of `-v`: `error`, `warn`, `info`, `debug` or `trace`, or directives such as `warn,mgp_transport=debug`. A kernel has the variables of the program that started it.",
    ),
    (
        "MGP_LOG_FORMAT",
        "The form of what `mgp serve` writes to standard error, like `--log-format`: `text` or `json`.",
    ),
    ("NO_COLOR", "If it is not empty, no colours are printed; the same with `TERM=dumb`."),
];

#[test]
fn every_variable_of_the_program_is_on_the_page() {
    let discovery =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mgp-discovery/src/source/merge.rs");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = ["args.rs", "log.rs", "output.rs", "state.rs"].map(|name| own.join(name));
    for file in files.into_iter().chain([discovery]) {
        let text = fs::read_to_string(&file).unwrap();
        let words = text.split('"').filter(|word| {
            let is_of_us = ["MGP_", "XDG_"].iter().any(|start| word.starts_with(start));
            is_of_us || *word == "NO_COLOR"
        });
        for word in words {
            assert!(
                ENVIRONMENT.iter().any(|(name, _)| *name == word),
                "{word}: {}",
                file.display()
            );
        }
    }
}

#[test]
fn the_page_has_the_help_of_all_commands() {
    let mut command = Cli::command();
    command.build();
    let mut page = String::from(
        "# Commands of `mgp`\n\nGenerated from the program; `mgp help COMMAND` shows the same.\n\n",
    );
    page += "With `--json` a command prints one JSON document that follows a schema in [schema/cli](schema/cli); commands without output return `done`.\n";
    page += "Names that other programs use are understood too, e.g. `list` for `ls`, `get` for `show`, `remove` or `delete` for `rm` and `revoke`.\n";
    page += "Results go to standard output, everything else to standard error.\nA DURATION is a number and a unit, e.g. `30s`, `15m`, `12h`, `90d` or `2w`; a TIME is a duration or a timestamp, e.g. `2027-01-31T00:00:00Z`.\n\n";
    page += "| Exit code | Meaning |\n|---|---|\n| 0 | Success |\n| 1 | Refused or failed, also for a name that does not exist; the last line of standard error has the reason and the remedy |\n| 2 | Invalid usage |\n| 3 | No kernel serves: the command needs one and none is running, or it is stopping or has stopped meanwhile |\n";
    page += "\nEvery command accepts:\n\n| | |\n|---|---|\n";
    for arg in command.get_arguments().filter(|arg| arg.is_global_set()) {
        let _ = writeln!(page, "{}", row(arg));
    }
    page += "\nIt also reads these environment variables:\n\n| | |\n|---|---|\n";
    for (name, meaning) in ENVIRONMENT {
        let _ = writeln!(page, "| `{name}` | {meaning} |");
    }
    page += "\n| Purpose | Commands |\n|---|---|\n";
    for (group, names) in GROUPS {
        let links = names.iter().filter(|name| **name != "help");
        let links: Vec<_> = links.map(|name| format!("[`{name}`](#mgp-{name})")).collect();
        let _ = writeln!(page, "| {group} | {} |", links.join(" "));
    }
    commands(&command, "mgp", &mut page);
    check(&docs().join("cli.md"), &page);
}

fn row(arg: &clap::Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let name = format!("{short}{arg}").replace('|', "\\|");
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let takes_values = arg.get_action().takes_values();
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let words: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|_| takes_values)
        .map(|word| format!("`{}`", word.get_name()))
        .collect();
    let help = if words.is_empty() { help } else { format!("{help}: {}", words.join(", ")) };
    let default = if defaults.is_empty() || !takes_values {
        String::new()
    } else {
        format!("; the default is `{}`", defaults.join(" "))
    };
    format!("| `{name}` | {}{default} |", help.replace('|', "\\|"))
}

fn commands(command: &clap::Command, path: &str, page: &mut String) {
    for sub in
        command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        let path = format!("{path} {}", sub.get_name());
        if sub.has_subcommands() {
            let _ = write!(page, "\n## {path}\n\n{}.\n", sub.get_about().unwrap_or_default());
            commands(sub, &path, page);
            continue;
        }
        let level = if path.split(' ').count() > 2 { "###" } else { "##" };
        let _ = write!(page, "\n{level} {path}\n\n{}.\n", sub.get_about().unwrap_or_default());
        let usage = sub.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim();
        let _ = write!(page, "\n```text\n{usage}\n```\n");
        let own = sub.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_global_set());
        let rows: Vec<String> = own
            .filter(|arg| {
                arg.get_id() != "help" && !matches!(arg.get_action(), clap::ArgAction::Version)
            })
            .map(row)
            .collect();
        if !rows.is_empty() {
            let _ = write!(page, "\n| | |\n|---|---|\n{}\n", rows.join("\n"));
        }
        if let Some(after) = sub.get_after_help() {
            let after = after.to_string();
            let (text, example) = after.split_once("Example:\n").unwrap_or((&after, ""));
            assert!(
                !text.contains("Example") && !example.contains("\n\n"),
                "the example of {path} is not last"
            );
            if !text.trim().is_empty() {
                let _ = write!(page, "\n{}\n", text.trim());
            }
            if !example.is_empty() {
                let lines: Vec<_> =
                    example.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
                let _ = write!(page, "\n```sh\n{}\n```\n", lines.join("\n"));
            }
        }
    }
}

#[test]
fn every_option_is_explained() {
    fn check(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{} of {}", arg.get_id(), command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    let mut command = Cli::command();
    command.clone().debug_assert();
    command.build();
    check(&command);
}
