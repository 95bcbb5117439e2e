//! Leaves out tools that a host denies in other files than the file with its servers, e.g. in further settings files or
//! in the policies of Gemini CLI.

use std::collections::BTreeSet;
use std::path::Path;

use mgp_discovery::import::{Host, Import};

use super::sources::read_text;
use crate::exit::CliResult;
use crate::hosts::{claude_project_settings, gemini_policies, other_settings};

/// Returns the servers in a host's file without the tools that the host's settings files deny. The settings of a
/// project apply to the servers that `~/.claude.json` lists for that project.
pub(super) fn without_denied(mut import: Import, file: &Path) -> CliResult<Import> {
    // Ignore a file that cannot be read, because the host cannot read and apply it either.
    let others = other_settings(import.host, file)?;
    for settings in others.iter().filter_map(|file| read_text(file).ok()) {
        import.withhold(None, &settings);
    }
    if import.host == Host::GeminiCli {
        for policy in gemini_policies()?.iter().filter_map(|file| read_text(file).ok()) {
            import.withhold_policy(&policy);
        }
    }
    if import.host != Host::ClaudeCode {
        return Ok(import);
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
