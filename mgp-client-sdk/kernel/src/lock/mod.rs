//! The active lock file (`mgp serve --locked`): a server starts only if it is unchanged since the lock file was
//! written, and a tool whose definition differs from the one in the lock file cannot be called.

mod package;
mod tree;

use std::path::{Path, PathBuf};

use mgp_contract::{Contract, LockFile, LockedServer};
use mgp_discovery::{Expanded, ExpandedServer, ExpandedTarget, ServerConfig, TargetConfig};
use mgp_types::service::ServerId;
use mgp_types::{Payload, Sha256Hash};
use serde_json::json;

use package::Package;

/// The maximum number of differing places that an error names.
const MAX_PLACES: usize = 4;

/// Environment variables that prevent package runners from updating the locked packages.
pub(crate) const OFFLINE: [(&str, &str); 2] = [("npm_config_offline", "true"), ("UV_OFFLINE", "1")];

/// Returns the entry of a server for the lock file, without its tools: the hashes of its configured command or URL, its
/// program and its package.
///
/// The call blocks: it reads the files of the program or the package.
///
/// # Errors
/// The reason why the program or the package cannot be read.
pub fn read_start(
    server: &ServerConfig,
    expanded: &ExpandedServer,
) -> Result<LockedServer, String> {
    let target = match &server.target {
        TargetConfig::Program { command, args, cwd, .. } => json!([command, args, cwd]),
        TargetConfig::Url { url, .. } => json!([url]),
        _ => json!([]),
    };
    let target = Sha256Hash::digest(target.to_string().as_bytes()).to_string();
    let mut locked = LockedServer { target, ..LockedServer::default() };
    let ExpandedTarget::Program { command, args, cwd, env } = &expanded.target else {
        return Ok(locked);
    };
    let args: Vec<&str> = args.iter().map(Expanded::as_str).collect();
    let variable = |name: &str| {
        let own = env.get(name).map(|value| value.as_str().into());
        own.or_else(|| std::env::var_os(name)).filter(|value| !value.is_empty())
    };
    if let Some(package) = Package::of(command.as_str(), &args, cwd) {
        locked.package = Some(package.read(cwd, &variable)?);
    } else {
        let program = find_program(command.as_str(), cwd, variable("PATH"))
            .ok_or_else(|| format!("the program `{}` is not found", command.as_str()))?;
        locked.program = Some(tree::hash_file(&program)?);
        locked.package = package::script(&args, cwd)?;
    }
    Ok(locked)
}

fn find_program(command: &str, cwd: &Path, path: Option<std::ffi::OsString>) -> Option<PathBuf> {
    if command.contains(std::path::is_separator) {
        return Some(cwd.join(command)).filter(|file| file.is_file());
    }
    let folders = path?;
    std::env::split_paths(&folders)
        .map(|folder| cwd.join(folder).join(command))
        .find(|file| file.is_file())
}

/// Compares a server that is about to start with the lock file: its command or URL, its program and its package.
///
/// # Errors
/// Returns a text with the differences and the remedy.
pub(crate) fn check_start(
    lock: &LockFile,
    server: &ServerConfig,
    expanded: &ExpandedServer,
) -> Result<(), String> {
    let id = server.id.as_str();
    let Some(locked) = lock.servers.get(id) else {
        return Err(format!("`{id}` is not in mgp.lock; read it, then run `mgp lock {id}`"));
    };
    let changes = locked.changes_of_start(&read_start(server, expanded)?);
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "`{id}` differs from mgp.lock: {}; check it, then run `mgp lock {id}`",
        changes.join(", ")
    ))
}

/// Compares a tool's definition with the lock file. Returns the names of the places that differ, without any text of
/// the server; `None` if the definition is the same, or if the server is not in the lock file.
pub(crate) fn check_definition(
    lock: &LockFile,
    server: &ServerId,
    raw: &Payload,
) -> Option<String> {
    let locked = lock.servers.get(server.as_str())?.contracts();
    let now = raw.get().ok().and_then(Contract::from_definition)?;
    let Some(old) = locked.iter().find(|tool| tool.name == now.name) else {
        return Some("the tool is not in mgp.lock".to_owned());
    };
    if old.hash() == now.hash() {
        return None;
    }
    let difference = mgp_contract::compare(old, &now);
    let places = difference.changes.iter().take(MAX_PLACES);
    let places: Vec<_> =
        places.map(|change| format!("{} ({})", change.path, change.bump)).collect();
    let places = if places.is_empty() { String::new() } else { format!(": {}", places.join(", ")) };
    Some(format!("the definition is not the one in mgp.lock{places}"))
}
