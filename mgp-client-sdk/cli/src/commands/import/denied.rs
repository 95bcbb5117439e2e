//! Withholds the tools that rules in the settings of Claude Code deny.

use std::collections::BTreeSet;
use std::path::Path;

use mgp_discovery::import::{Host, Import};

use super::read_text;
use crate::exit::CliResult;
use crate::hosts::{claude_project_settings, claude_settings};

/// Returns the servers in a host's file without the tools that settings beside the file deny. The settings of a project
/// hold for the servers that `~/.claude.json` has for it.
pub(super) fn without_denied(mut import: Import, file: &Path) -> CliResult<Import> {
    if import.host != Host::ClaudeCode {
        return Ok(import);
    }
    // Claude Code does not apply settings that it cannot read either.
    for settings in claude_settings(file)?.iter().filter_map(|file| read_text(file).ok()) {
        import.withhold(None, &settings);
    }
    let projects: BTreeSet<String> =
        import.servers.iter().filter_map(|server| server.project.clone()).collect();
    for project in projects {
        let files = claude_project_settings(Path::new(&project));
        for settings in files.iter().filter_map(|file| read_text(file).ok()) {
            import.withhold(Some(&project), &settings);
        }
    }
    Ok(import)
}
