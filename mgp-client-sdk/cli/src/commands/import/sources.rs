//! The files of hosts from which `mgp import` reads servers.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use mgp_discovery::import::{
    Entry, Host, Import as Read, ImportedServer, read, read_of_user, switched_off,
};
use mgp_discovery::{DiscoveryError, SecretFile};

use super::Import;
use super::denied::without_denied;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, claude_settings, current_folder, home, with_tilde};
use crate::output::print_note;
use crate::pipe::explained;
use crate::state;
use crate::this_program::is_mgp;

/// The maximum length of a file that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A host's file that was read, with the agent name of the host.
pub(in crate::commands) struct Source {
    pub(super) read: Read,
    pub(super) agent: String,
}

impl Source {
    /// Returns whether the host has servers that can be copied, or starts mgp already.
    pub(in crate::commands) fn has_servers(&self) -> bool {
        !self.read.servers.is_empty()
    }

    /// Returns whether the host starts servers of the user that cannot be copied.
    fn has_left_out(&self) -> bool {
        self.read.refused.iter().any(|refused| !refused.is_intended())
    }
}

/// Reads the files and hosts named on the command line, or the files of all hosts. Also returns the reasons for which
/// files of hosts are not read.
pub(super) fn read_all(global: &Global, import: &Import) -> CliResult<(Vec<Source>, Vec<String>)> {
    let (mut sources, mut faults) = (Vec::new(), Vec::new());
    if import.from.is_empty() {
        for host in KnownHost::ALL {
            for file in host_files(global, host, import)? {
                match read_host(global, host, &file) {
                    Ok(source) => sources.push(source),
                    // Skip hosts that have no servers.
                    Err(failure) if failure.is_no_servers() => {}
                    Err(failure) => faults.push(failure.to_string()),
                }
            }
        }
    }
    for name in &import.from {
        match KnownHost::from_name(name) {
            Some(host) => {
                let files = host_files(global, host, import)?;
                if files.is_empty() {
                    let file = host.user_file(&home()?);
                    return Err(Failure::failed(format!(
                        "{name} has no file; looked for `{}`",
                        file.display()
                    )));
                }
                for file in files {
                    sources.push(read_host(global, host, &file)?);
                }
            }
            None => sources.push(read_file(name)?),
        }
    }
    if sources.is_empty() && !faults.is_empty() {
        return Err(Failure::failed(format!(
            "no host's servers can be read: {}; correct this, or name a file: `mgp import FILE`",
            faults.join("; ")
        )));
    }
    if sources.is_empty() {
        return Err(Failure::failed(
            "no host of this computer has servers; name a file: `mgp import FILE`",
        ));
    }
    Ok((sources, faults))
}

/// Returns the existing files of a host. Prints a note about the host's settings file, if it lists servers, because no
/// command can change that file.
fn host_files(global: &Global, host: KnownHost, import: &Import) -> CliResult<Vec<PathBuf>> {
    let home = home()?;
    let settings = host.settings_with_servers(&home);
    if let Some(settings) = &settings {
        let (shown, title) = (settings.display(), host.title());
        print_note(
            global,
            &format!(
                "mgp cannot change `{shown}`, so {title} starts the servers in it itself, not governed; remove there what you import"
            ),
        );
    }
    warn_of_ungoverned(global, host, &home);
    // A project's file may come from other people, so it is read only with `--project`.
    let project = if import.project { host.project_file(&current_folder()?) } else { None };
    let with_others = |file: PathBuf| {
        let others = host.files_beside(&file);
        std::iter::once(file).chain(others)
    };
    let of_user = with_others(host.user_file(&home)).chain(settings);
    let files = of_user.chain(project.into_iter().flat_map(with_others));
    // Keep a file whose folder cannot be read: reading the file later reports the error.
    Ok(files.filter(|file| file.try_exists().unwrap_or(true)).collect())
}

/// Reads the servers of a host, including those that cannot be copied; `None` if the host has no file, or its file has
/// no servers.
pub(in crate::commands) fn read_host_file(
    global: &Global,
    host: KnownHost,
) -> CliResult<Option<Source>> {
    let home = home()?;
    if let Some(settings) = host.settings_with_servers(&home) {
        let (shown, name, title) = (settings.display(), host.name(), host.title());
        print_note(
            global,
            &with_tilde(&format!(
                "`{shown}` has servers that {title} starts itself, not governed; `mgp import {name} --apply` copies them, then remove them there"
            )),
        );
    }
    warn_of_ungoverned(global, host, &home);
    let file = host.user_file(&home);
    if !file.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    match read_host(global, host, &file) {
        Ok(source) => Ok(Some(source).filter(|one| one.has_servers() || one.has_left_out())),
        Err(failure) if failure.is_no_servers() => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn warn_of_ungoverned(global: &Global, host: KnownHost, home: &Path) {
    for warning in host.ungoverned_servers(home) {
        print_note(global, &with_tilde(&warning));
    }
}

fn read_host(global: &Global, host: KnownHost, file: &Path) -> CliResult<Source> {
    let mut read = read_servers(global, host, file, &read_text(file)?)?;
    read.leave_out(&switched_off_servers(host, file));
    Ok(Source { read, agent: agent_of(host) })
}

/// Returns the agent name (`--agent`) with which a host starts mgp, according to the user's own file of the host;
/// otherwise the name of the host. A project's file may come from other people, so it chooses no agent.
fn agent_of(host: KnownHost) -> String {
    let named = || {
        let file = host.user_file(&home().ok()?);
        let servers = read(host.format(), &file, &read_text(&file).ok()?).ok()?.servers;
        let own = servers.iter().find(|server| is_own(server))?;
        option_of(&own.entry, "--agent")
    };
    named().unwrap_or_else(|| host.name().to_owned())
}

/// Reads the servers in the text of a host's file, without the tools that the host's rules deny.
pub(in crate::commands) fn read_servers(
    global: &Global,
    host: KnownHost,
    file: &Path,
    text: &str,
) -> CliResult<Read> {
    without_denied(read_entries(global, host, file, text)?, file)
}

/// Reads the entries in the text of a host's file. Only the user's own file is allowed to name stored secrets.
fn read_entries(global: &Global, host: KnownHost, file: &Path, text: &str) -> CliResult<Read> {
    let home = home()?;
    let user_file = host.user_file(&home);
    let others = host.settings_file(&home).into_iter().chain(host.files_beside(&user_file));
    let mut of_user = std::iter::once(user_file).chain(others);
    let is_same =
        |own: &PathBuf| file == own || Some(file) == dunce::canonicalize(own).ok().as_deref();
    let Some(user_file) = of_user.find(is_same) else {
        return read(host.format(), file, text).map_err(unreadable);
    };
    let secrets = SecretFile::in_folder(&state::folder(global)?).names();
    let secrets = secrets.map_err(|error| Failure::failed(error.to_string()))?;
    // Use the unresolved path even if `file` is the resolved one, so that each import has the same source.
    read_of_user(host.format(), &user_file, text, &secrets).map_err(unreadable)
}

/// Returns the failure to read a host's file, so that the caller can recognize a file without servers.
fn unreadable(error: DiscoveryError) -> Failure {
    match error {
        DiscoveryError::NoServers { .. } => Failure::no_servers(error),
        _ => error.into(),
    }
}

/// Returns the servers of a project's `.mcp.json` that the user has disabled in Claude Code. The servers of other files
/// stay, because these settings do not apply to them.
fn switched_off_servers(host: KnownHost, file: &Path) -> Vec<String> {
    let (Host::ClaudeCode, Some(project)) = (host.format(), file.parent()) else {
        return Vec::new();
    };
    if !file.ends_with(".mcp.json") {
        return Vec::new();
    }
    let of_user = home().map(|home| host.user_file(&home));
    let files = claude_settings(file).unwrap_or_default().into_iter().chain(of_user);
    let texts = files.filter_map(|file| read_text(&file).ok());
    texts.flat_map(|text| switched_off(&text, project)).collect()
}

fn read_file(name: &str) -> CliResult<Source> {
    let file = PathBuf::from(name);
    if !file.exists() {
        let known = KnownHost::ALL.map(KnownHost::name).join(", ");
        return Err(Failure::usage(format!(
            "`{name}` is neither a known host nor a file; known: {known}"
        )));
    }
    let file = dunce::canonicalize(&file).unwrap_or(file);
    let text = read_text(&file)?;
    let (format, agent) = match KnownHost::from_imported_file(&file) {
        Some(host) => (host.format(), agent_of(host)),
        None if is_registry(&text) => (Host::Registry, "default".to_owned()),
        None => (Host::Generic, "default".to_owned()),
    };
    match read(format, &file, &text) {
        // The file can be a renamed copy of a host's file, or belong to a host whose file has the same name as that of
        // another host, e.g. Trae and VS Code. So try all formats.
        Err(error @ DiscoveryError::NoServers { .. }) => {
            let read = other_formats(&file).find_map(|format| read(format, &file, &text).ok());
            Ok(Source { read: read.ok_or(error)?, agent: "default".to_owned() })
        }
        read => Ok(Source { read: without_denied(read?, &file)?, agent }),
    }
}

/// Returns the formats that a file with this extension may have, one for each name of the member with the servers.
fn other_formats(file: &Path) -> impl Iterator<Item = Host> {
    let formats: &[Host] = match file.extension().and_then(OsStr::to_str) {
        Some("toml") => &[Host::Generic, Host::Codex],
        Some("yaml" | "yml") => &[Host::Generic, Host::Goose],
        _ => &[Host::Generic, Host::VsCode, Host::Zed, Host::OpenCode],
    };
    formats.iter().copied()
}

pub(super) fn read_text(file: &Path) -> CliResult<String> {
    let failed =
        |reason: String| Failure::failed(format!("`{}` cannot be read: {reason}", file.display()));
    let metadata = fs::metadata(file).map_err(|error| failed(error.to_string()))?;
    // Check the kind of the file before reading it, because opening a named pipe would block.
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(failed("it is not a plain file, or too long".to_owned()));
    }
    fs::read_to_string(file).map_err(|error| failed(explained(error).to_string()))
}

/// Returns whether a text is a server document of the MCP registry.
fn is_registry(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let value = value.get("server").unwrap_or(&value);
    value.get("name").is_some()
        && (value.get("packages").is_some() || value.get("remotes").is_some())
}

/// Returns whether a server in a host's file is the entry of mgp for all projects.
pub(in crate::commands) fn is_own(server: &ImportedServer) -> bool {
    server.name == "mgp" && server.project.is_none() && is_mgp(&server.entry)
}

/// Returns the value of an option in the entry that starts mgp.
pub(in crate::commands) fn option_of(entry: &Entry, name: &str) -> Option<String> {
    let mut args = entry.args.iter();
    while let Some(argument) = args.next() {
        let value = match argument.strip_prefix(name) {
            Some("") => args.next().map(String::as_str),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        if let Some(value) = value {
            // Undo the doubling of dollar signs: the reader of a host's file doubles each dollar sign outside of
            // variables.
            return Some(value.replace("$$", "$"));
        }
    }
    None
}
