//! The command `mgp init`: writes a first configuration.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;
use mgp_types::create_own_folder;
use serde::Serialize;

use crate::args::{ConfigArg, Global};
use crate::config_file;
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit_of;
use crate::output::{Output, Render, print};
use crate::replace_file::write_or_remove;

/// `mgp init`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp init              # your own configuration\n  mgp init --project    # ./mgp.toml, which others must approve with `mgp trust`"
)]
pub(crate) struct Init {
    /// Write ./mgp.toml for this project instead of your own file
    #[arg(long, conflicts_with = "config")]
    project: bool,
    #[command(flatten)]
    config: ConfigArg,
}

/// The result of `mgp init`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct InitResult {
    /// The file that was written.
    file: PathBuf,
    /// `true` if the file has no effect before `mgp trust` approves it.
    needs_trust: bool,
}

impl Render for InitResult {
    fn render(&self, out: &mut Output) {
        out.line(format!("wrote {}", self.file.display()));
        out.hint(if self.needs_trust {
            "next: add your servers to it, then run `mgp trust`"
        } else {
            "next: add your servers to it, or run `mgp import`; then run `mgp doctor`"
        });
    }
}

pub(crate) async fn run(global: &Global, init: &Init) -> CliResult {
    let file = if init.project { PathBuf::from("mgp.toml") } else { init.config.file_to_edit()? };
    admit_edit_of(global, &file).await?;
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_own_folder(folder)
            .map_err(|error| config_file::failed(folder, "created", &error))?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if !init.project {
        // Create the file with the mode 0600, because it may contain secrets.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let text = if init.project { PROJECT_TEMPLATE } else { TEMPLATE };
    let written = options.open(&file).and_then(|new| write_or_remove(&new, &file, text));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let file = file.display();
            Failure::failed(format!("`{file}` already exists; edit it, or remove it first"))
        }
        _ => config_file::failed(&file, "written", &error),
    })?;
    print(global, &InitResult { file, needs_trust: init.project })
}

/// The user's own configuration that `mgp init` writes; `docs/config.md` describes all settings.
const TEMPLATE: &str = r#"# The servers behind `mgp`, and how they are governed.
# Check it with `mgp doctor` after changes; a running kernel reloads it by itself.

# A server is a program ...
#
# [[servers]]
# id = "files"
# command = "npx"
# args = ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/projects"]
# env = { TOKEN = "${keyring:FILES}" }   # after `mgp secrets set FILES`; or ${VAR}, ${VAR:-default}, ${file:PATH}, ${cmd:COMMAND}
#
# ... or a URL.
#
# [[servers]]
# id = "tracker"
# url = "https://example.org/mcp"
# headers = { Authorization = "Bearer ${TRACKER_TOKEN}" }

# How the server above is governed; the defaults are strict.
#
# [servers.mgp]
# default_policy = "opt-in"              # agents without a grant have no access; see `mgp access grant`
# permissions = ["network.outbound"]     # what the server may do; anything else needs approval
# confirm = "dangerous"                  # "moderate" also confirms moderate calls

# Settings for all servers.
#
# [kernel]
# permission_policy = "interactive"

# Settings for one agent, which `mgp serve --agent cursor` names.
#
# [agents.cursor]
# interactive = true                     # a person sits there and can confirm calls
# pinned = ["files.read_file"]           # always in its list of tools
"#;

/// The configuration that `mgp init --project` writes, with settings that have an effect in a project's file.
const PROJECT_TEMPLATE: &str = r#"# The servers of this project.
# Approve it with `mgp trust`, also after each change. Only servers count here; `[kernel]`, `[limits]`, `[agents]`,
# `${cmd:…}` and `${keyring:…}` belong in ~/.config/mgp/servers.toml.

# A server is a program ...
#
# [[servers]]
# id = "files"
# command = "npx"
# args = ["-y", "@modelcontextprotocol/server-filesystem", "."]     # a relative path begins at this folder
# env = { TOKEN = "${FILES_TOKEN}" }     # ${VAR}, ${VAR:-default}, ${file:PATH}: no secret in clear text
#
# ... or a URL.
#
# [[servers]]
# id = "tracker"
# url = "https://example.org/mcp"
# headers = { Authorization = "Bearer ${TRACKER_TOKEN}" }

# How the server above is governed; the defaults are strict.
#
# [servers.mgp]
# permissions = ["network.outbound"]     # what the server may do; anything else needs approval
# confirm = "dangerous"                  # "moderate" also confirms moderate calls
"#;

#[cfg(test)]
mod tests {
    use mgp_discovery::Config;

    use super::*;

    /// Checks a template as it is written, and returns the configuration with all its examples enabled.
    #[track_caller]
    fn with_examples(template: &str) -> Config {
        let check = |text: &str| {
            let parsed = Config::parse("mgp.toml", text).unwrap();
            assert!(parsed.findings.is_empty(), "{:?}", parsed.findings);
            parsed.config
        };
        assert!(check(template).servers.is_empty());
        let is_example = |line: &str| line.starts_with('[') || line.contains(" = ");
        let examples: Vec<_> = template
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|line| is_example(line))
            .collect();
        check(&examples.join("\n"))
    }

    #[test]
    fn the_template_is_valid_as_written_and_with_all_examples_enabled() {
        let config = with_examples(TEMPLATE);
        assert_eq!((config.servers.len(), config.agents.len()), (2, 1));
    }

    #[test]
    fn the_template_of_a_project_has_only_settings_that_have_an_effect_there() {
        let config = with_examples(PROJECT_TEMPLATE);
        assert_eq!(config.servers.len(), 2);
        let mut only_servers = Config::default();
        only_servers.servers.clone_from(&config.servers);
        assert_eq!(config, only_servers);
        for line in PROJECT_TEMPLATE.lines().filter(|line| line.contains(" = ")) {
            assert!(!line.contains("${cmd:") && !line.contains("${keyring:"), "{line}");
        }
    }
}
