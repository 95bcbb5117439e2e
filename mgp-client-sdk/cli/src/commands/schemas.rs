//! What `--json` answers, as schemas in `docs/schema/cli/`, and the page of all commands, `docs/cli.md`.
//!
//! Applies to: both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};

use super::*;
use crate::cli::Cli;
use crate::output::Done;

/// The documents by the command that answers with them.
fn schemas() -> BTreeMap<&'static str, schemars::Schema> {
    fn of<T: JsonSchema>() -> schemars::Schema {
        SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>()
    }
    BTreeMap::from([
        ("access-matrix", of::<access::Table>()),
        ("access-query", of::<access::Answer>()),
        ("audit-query", of::<audit::Events>()),
        ("audit-verify", of::<audit::Verified>()),
        ("connect", of::<connect::Connected>()),
        ("doctor", of::<doctor::Report>()),
        ("done", of::<Done>()),
        ("import", of::<import::Imported>()),
        ("index-eval", of::<index::Judged>()),
        ("init", of::<init::Written>()),
        ("keys-add", of::<keys::Made>()),
        ("keys-ls", of::<keys::All>()),
        ("approvals-ls", of::<approvals::Waiting>()),
        ("permissions-ls", of::<permissions::Decided>()),
        ("servers-add", of::<servers::Added>()),
        ("servers-logs", of::<servers::Lines>()),
        ("servers-ls", of::<servers::All>()),
        ("sessions", of::<kernel::All>()),
        ("status", of::<kernel::Status>()),
        ("tools-call", of::<tools::Answered>()),
        ("tools-ls", of::<tools::All>()),
        ("tools-search", of::<tools::Found>()),
        ("tools-tokens", of::<tools::Tokens>()),
        ("trust", of::<trust::Judged>()),
        ("trust-list", of::<trust::Approvals>()),
    ])
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Compares a file with what it should say; `UPDATE_GOLDEN=1` writes it.
#[track_caller]
fn check(file: &Path, expected: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, expected).unwrap();
    }
    let there = fs::read_to_string(file).unwrap_or_default();
    assert!(there == expected, "{} is stale; run with UPDATE_GOLDEN=1", file.display());
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

#[test]
fn the_page_says_what_the_commands_say() {
    let mut command = Cli::command();
    command.build();
    let mut page = String::from(
        "# The commands of `mgp`\n\nGenerated from the program: `mgp help COMMAND` says the same.\n\n",
    );
    page += "Every command takes `--state DIR` (the folder of the kernel's state), `--json` (one JSON document, of the schemas in [schema/cli](schema/cli); what says nothing to people answers as `done`), and `-v`.\n";
    page += "Results go to standard output, everything else to standard error.\n\n";
    page += "| Ends with | when |\n|---|---|\n| 0 | it is done |\n| 1 | it was refused or failed; the last line of standard error says why, and what to do |\n| 2 | it was not understood |\n| 3 | it needs a kernel, and none runs |\n";
    commands(&command, "mgp", &mut page);
    check(&docs().join("cli.md"), &page);
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
            .filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"))
            .map(|arg| {
                let name = arg.to_string().replace('|', "\\|");
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let defaults: Vec<_> =
                    arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
                let words: Vec<_> = arg
                    .get_possible_values()
                    .iter()
                    .filter(|_| arg.get_action().takes_values())
                    .map(|word| format!("`{}`", word.get_name()))
                    .collect();
                let help =
                    if words.is_empty() { help } else { format!("{help}: {}", words.join(", ")) };
                let default = if defaults.is_empty() || defaults[0] == "false" {
                    String::new()
                } else {
                    format!("; {}", defaults.join(" "))
                };
                format!("| `{name}` | {}{default} |", help.replace('|', "\\|"))
            })
            .collect();
        if !rows.is_empty() {
            let _ = write!(page, "\n| | |\n|---|---|\n{}\n", rows.join("\n"));
        }
        if let Some(after) = sub.get_after_help() {
            let after = after.to_string();
            let (text, example) = after.split_once("Example:\n").unwrap_or((&after, ""));
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
    fn look(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{} of {}", arg.get_id(), command.get_name());
        }
        command.get_subcommands().for_each(look);
    }
    let mut command = Cli::command();
    command.clone().debug_assert();
    command.build();
    look(&command);
}
