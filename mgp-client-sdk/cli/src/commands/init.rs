//! `mgp init`: a configuration to begin with.
//!
//! Applies to: both.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Page, Shown, show};
use crate::places::Configured;

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
    configured: Configured,
}

/// What was written.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Written {
    /// The file.
    file: PathBuf,
    /// Whether it does nothing until `mgp trust` approved it.
    needs_trust: bool,
}

impl Shown for Written {
    fn show(&self, page: &mut Page) {
        page.line(format!("wrote {}", self.file.display()));
        page.line(if self.needs_trust {
            "next: name your servers in it, then run `mgp trust`"
        } else {
            "next: name your servers in it, or run `mgp import`; then `mgp doctor`"
        });
    }
}

pub(crate) fn run(global: &Global, init: &Init) -> Ended {
    let file = if init.project { PathBuf::from("mgp.toml") } else { init.configured.own_file()? };
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let failed =
            |error| Failure::failed(format!("`{}` cannot be made: {error}", folder.display()));
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if !init.project {
        // Secrets get into such files.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let written = options.open(&file).and_then(|mut file| file.write_all(BEGINNING.as_bytes()));
    written.map_err(|error| {
        let file = file.display();
        Failure::failed(match error.kind() {
            ErrorKind::AlreadyExists => {
                format!("`{file}` is there already; edit it, or remove it first")
            }
            _ => format!("`{file}` cannot be written: {error}"),
        })
    })?;
    show(global, &Written { file, needs_trust: init.project })
}

/// The file as it begins; everything that may be written is in `docs/config.md`.
const BEGINNING: &str = r#"# The servers behind `mgp`, and how they are governed.
# Look at it with `mgp doctor` whenever you changed it; a kernel that runs follows it by itself.

# A server is a program ...
#
# [[servers]]
# id = "files"
# command = "npx"
# args = ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/projects"]
# env = { TOKEN = "${FILES_TOKEN}" }     # ${VAR}, ${VAR:-default}, ${file:PATH}, ${cmd:COMMAND}: no secret in clear text
#
# ... or a place.
#
# [[servers]]
# id = "tracker"
# url = "https://example.org/mcp"
# headers = { Authorization = "Bearer ${TRACKER_TOKEN}" }

# How the server above is governed; without it the defaults hold, which are the careful ones.
#
# [servers.mgp]
# default_policy = "opt-in"              # who has no grant has no access; `mgp access grant` gives it
# permissions = ["network.outbound"]     # what the server may do; asked for where it is not written
# confirm = "dangerous"                  # "moderate": confirm those calls too

# What holds for all servers.
#
# [kernel]
# permission_policy = "interactive"

# What holds for one agent, as `mgp serve --agent cursor` names it.
#
# [agents.cursor]
# interactive = true                     # a person sits there, who may confirm calls
# pinned = ["files.read_file"]           # always in its list of tools
"#;

#[cfg(test)]
mod tests {
    use mgp_discovery::Config;

    use super::*;

    #[test]
    fn the_beginning_is_right_as_it_is_and_with_all_its_comments_taken_away() {
        let check = |text: &str| {
            let parsed = Config::parse("mgp.toml", text).unwrap();
            assert!(parsed.findings.is_empty(), "{:?}", parsed.findings);
            parsed.config
        };
        assert!(check(BEGINNING).servers.is_empty());
        let is_example = |line: &str| line.starts_with('[') || line.contains(" = ");
        let examples: Vec<_> = BEGINNING
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|line| is_example(line))
            .collect();
        let config = check(&examples.join("\n"));
        assert_eq!((config.servers.len(), config.agents.len()), (2, 1));
    }
}
