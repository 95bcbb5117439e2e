//! The command `mgp servers rm`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_discovery::{
    Config, LoadedConfig, Registrations, SecretFile, ServerConfig, Sources, TargetConfig, Trust,
    private_folder,
};
use mgp_kernel::forget_stored_lists;
use mgp_security::{NameFlaw, ServerHoldings};
use mgp_toolindex::{Erase, History, HistoryConfig, HistoryScope};
use mgp_transport::http::Proxy;
use mgp_types::method::{KernelReload, KernelServers};
use mgp_types::mgp::{
    DeregisterParams, KernelReloadParams, KernelServersParams, RegistrationStatus,
};
use mgp_types::service::ServerId;
use mgp_types::store::Db;
use tokio::time::{Instant, sleep};

use super::bundle_users::BundleUsers;
use super::unpack::BundleFile;
use super::{ConfiguredServer, POLL_INTERVAL};
use crate::args::Global;
use crate::backend::Backend;
use crate::commands::known_names::check_running;
use crate::commands::login;
use crate::config_file::{ConfigFile, check_server_id};
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit;
use crate::output::ActionReport;
use crate::socket_hello::Intent;
use crate::{control, state};

/// The time that the command waits until a removed server has finished its running calls.
const REMOVE_TIMEOUT: Duration = Duration::from_mins(1);

/// Removes a server from the configuration, together with the decisions about it. A server that was registered at run
/// time is deregistered instead.
pub(super) async fn run(global: &Global, arg: &ConfiguredServer) -> CliResult {
    let id = &arg.server;
    let removed = ActionReport::new(&**id, "removed");
    let file = arg.config.file_to_edit()?;
    let own = ConfigFile::open(file.clone())?;
    let in_file = own.check_server(id);
    if in_file.is_ok() {
        let notes = remove_configured(global, arg, &file, &own).await?;
        return removed.with_notes(notes).print(global);
    }
    // Ask the kernel about a server that is not in the configuration file: it might have been registered at run time,
    // even if the project of this folder has a different server with its id.
    let is_in_other_file = ConfigFile::file_with(id).is_some();
    let client = match control::connect_to_change(global).await {
        Ok(client) => client,
        Err(failure) if failure.is_no_kernel() && is_in_other_file => return in_file,
        Err(failure) if failure.is_no_kernel() => {
            let failure = in_file.err().unwrap_or(failure);
            let unknown = Failure::failed(format!(
                "{failure}; a registered server can be removed only while a kernel is running"
            ));
            return remove_left(global, arg, unknown).await;
        }
        Err(failure) => return Err(failure),
    };
    let running = check_running(&client, id).await;
    let is_registered = running.as_ref().is_ok_and(|server| server.source == "registered");
    if is_in_other_file && !is_registered {
        return in_file;
    }
    let unknown = match running {
        Ok(_) if is_registered => None,
        // The entry was probably deleted by hand, and the kernel has not applied that yet.
        Ok(_) => in_file.err().map(|failure| {
            Failure::failed(format!(
                "{failure}; if the running kernel has it from another file, name that file with --config"
            ))
        }),
        Err(unknown) => Some(unknown),
    };
    if let Some(unknown) = unknown {
        return remove_left(global, arg, unknown).await;
    }
    deregister(&client, id).await?;
    removed.with_notes(kept_secrets(global, id)?.into_iter().collect()).print(global)
}

/// Removes the entry of a server from a configuration file, and what is stored for the server; returns notes about it.
async fn remove_configured(
    global: &Global,
    arg: &ConfiguredServer,
    file: &Path,
    own: &ConfigFile,
) -> CliResult<Vec<String>> {
    let id = &arg.server;
    admit_edit(global, &arg.config).await?;
    let former = login::configured_in(file, id);
    let bundle = bundle_folder(global, former.as_ref().map(|(server, _)| server), id)?;
    // Open the decisions before the edit: without them, e.g. while a kernel is stopping, nothing must be removed.
    let decisions = open_decisions(global).await;
    let decisions = decisions.map_err(|failure| failure.after("nothing was changed"))?;
    let mut pins = own.remove_server(id)?;
    // Name a pin only once, even if several agents have it.
    pins.sort();
    pins.dedup();
    let forgotten = forget(global, arg, former, decisions).await;
    let (_, mut notes) = forgotten.map_err(|failure| {
        let done = format!(
            "`{id}` was removed from the configuration, but what is stored for it may remain until `mgp servers rm {id}` runs again"
        );
        control::explain_stop(global, failure).after(done)
    })?;
    notes.extend(bundle.map(|folder| remove_bundle(&folder, arg)));
    if !pins.is_empty() {
        notes.push(format!("removed with it: the pins {}", pins.join(", ")));
    }
    notes.extend(kept_secrets(global, id)?);
    notes.extend(arg.config.approval_note());
    Ok(notes)
}

/// Deregisters a server that was registered at run time, and waits until it has finished its running calls.
async fn deregister(client: &Client, id: &str) -> CliResult {
    let result = client.mgp().discovery_deregister(&DeregisterParams::new(id)).await?;
    let end = Instant::now() + REMOVE_TIMEOUT;
    let mut is_there = result.status != RegistrationStatus::Deregistered;
    while is_there && Instant::now() < end {
        sleep(POLL_INTERVAL).await;
        let all = client.request::<KernelServers>(&KernelServersParams::new()).await?.servers;
        is_there = all.iter().any(|server| server.id == id);
    }
    if is_there {
        return Err(Failure::failed(format!(
            "`{id}` is still draining; it is removed when its calls have finished"
        )));
    }
    Ok(())
}

/// Deletes the decisions about a server whose entry was deleted by hand, and the files of its bundle. Fails with
/// `unknown` if there are none.
async fn remove_left(global: &Global, arg: &ConfiguredServer, unknown: Failure) -> CliResult {
    let id = &arg.server;
    // Refuse a reserved id: the decisions about the kernel's own tools are stored under such an id, and must not be
    // deleted.
    if NameFlaw::check_server(id, []).is_err() {
        return Err(unknown);
    }
    let bundle = BundleFile::folder_of(global, id)?;
    let has_bundle = bundle.is_dir() && !is_bundle_used(&bundle, arg);
    if !has_bundle && !is_held(global, id).await? {
        return Err(unknown);
    }
    control::admit_change(global).await?;
    let decisions = open_decisions(global).await?;
    let (is_gone, mut notes) = forget(global, arg, None, decisions).await?;
    // Fail if the kernel or another file has the server, e.g. with `enabled = false`.
    if !is_gone {
        return Err(unknown);
    }
    notes.extend(has_bundle.then(|| remove_bundle(&bundle, arg)));
    ActionReport::new(&**id, "removed").with_notes(notes).print(global)
}

/// Returns whether decisions about a server are stored.
async fn is_held(global: &Global, id: &str) -> CliResult<bool> {
    if !state::folder(global)?.join("state.db").exists() {
        return Ok(false);
    }
    Ok(ServerHoldings::read(&state::db(global).await?).await?.contains_key(id))
}

/// Returns a note about the stored secrets whose names `mgp servers add` or a registration formed from the id of this
/// server. These secrets stay, because other entries can also refer to them.
fn kept_secrets(global: &Global, id: &str) -> CliResult<Option<String>> {
    let names = SecretFile::in_folder(&state::folder(global)?).names().unwrap_or_default();
    let is_of_server = |name: &&String| {
        let rest = name.strip_prefix(id).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| !rest.contains('.'))
    };
    let names: Vec<&str> = names.iter().filter(is_of_server).map(String::as_str).collect();
    Ok((!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("its stored secrets stay: {names}; `mgp secrets rm NAME` deletes one")
    }))
}

/// Returns the folder with the files of a server's bundle; `None` if the server does not run in that folder.
fn bundle_folder(
    global: &Global,
    server: Option<&ServerConfig>,
    id: &str,
) -> CliResult<Option<PathBuf>> {
    let folder = BundleFile::folder_of(global, id)?;
    let runs_there = match server.map(|server| &server.target) {
        Some(TargetConfig::Program { cwd: Some(cwd), .. }) => {
            Path::new(&cwd.replace("$$", "$")).starts_with(&folder)
        }
        _ => false,
    };
    Ok(runs_there.then_some(folder))
}

fn is_bundle_used(folder: &Path, arg: &ConfiguredServer) -> bool {
    BundleUsers::read(folder, arg.config.sources().files()).may_use(None)
}

/// Removes the files of a removed server's bundle, unless another server may use them; returns a note about them.
fn remove_bundle(folder: &Path, arg: &ConfiguredServer) -> String {
    let shown = folder.display();
    if is_bundle_used(folder, arg) {
        return format!(
            "the files of its bundle in {shown} stay, because another server may use them"
        );
    }
    match fs::remove_dir_all(folder) {
        Ok(()) => format!("removed with it: the files of its bundle in {shown}"),
        Err(error) => format!("the files of its bundle in {shown} stay: {error}"),
    }
}

/// Erases the searches that led to the tools of a removed server, so that they do not change the ranking of a later
/// server with the same id.
async fn forget_searches(db: Db, id: &str, configs: &[&Config]) -> CliResult {
    // Use this scope because it makes the history contain the searches of every agent, whichever scope is configured.
    let options = HistoryConfig::new().scope(HistoryScope::Agent);
    let registered = Registrations::registered_in(&db).await?;
    let history = History::open(db, options).await?;
    let is_server = |id: &str| {
        configs.iter().any(|config| config.server(id).is_some())
            || registered.contains(&ServerId::from(id))
    };
    for tool in history.called_tools(id, is_server).await? {
        history.erase(Erase::Tool(&tool)).await?;
    }
    Ok(history.flush().await?)
}

/// Returns whether a configuration has a server, even one that is broken or switched off.
fn has(loaded: &LoadedConfig, id: &str) -> bool {
    let mut unused = loaded.broken.iter().chain(&loaded.disabled);
    loaded.config.server(id).is_some() || unused.any(|other| other == id)
}

/// Opens the backend with the decisions about servers; returns `None` if none were stored yet.
async fn open_decisions(global: &Global) -> CliResult<Option<Backend>> {
    if !state::folder(global)?.join("state.db").exists() {
        return Ok(None);
    }
    Backend::open(global, Intent::Change).await.map(Some)
}

/// Deletes the decisions about a removed server and the logins at this server, so that a later server with the same id
/// does not inherit them. `former` is the removed entry. Returns `false` if another server has this id, so that the
/// decisions stay, and notes about what was deleted or stays.
async fn forget(
    global: &Global,
    arg: &ConfiguredServer,
    former: Option<(ServerConfig, Proxy)>,
    decisions: Option<Backend>,
) -> CliResult<(bool, Vec<String>)> {
    let id = &arg.server;
    let Some(backend) = decisions else { return Ok((true, Vec::new())) };
    let db = state::db(global).await?;
    let held = ServerHoldings::read(&db).await?.remove(id).unwrap_or_default();
    let trust = Trust::new(Arc::new(db.clone()));
    let forgotten = match &backend {
        Backend::Kernel(client) => {
            let mut params = KernelReloadParams::new();
            params.forget.push(id.clone());
            client.request::<KernelReload>(&params).await?.forgotten.contains(id)
        }
        Backend::Folder(governance, _) => {
            // Keep the decisions if another server has this id: a server in another file of the user or of a project,
            // or a registered server.
            let named = arg.config.sources().load(&trust).await?;
            let own = Sources::from_env().load(&trust).await;
            let server = ServerId::from(&**id);
            let is_gone = !has(&named, id)
                && own.as_ref().is_ok_and(|own| !has(own, id))
                && !Registrations::is_approved_in(&db, &server).await?;
            if is_gone {
                governance.remove_server(&server).await?;
                forget_stored_lists(&db, &server).await?;
                let configs = [&named].into_iter().chain(&own).map(|loaded| &loaded.config);
                forget_searches(db, id, &configs.collect::<Vec<_>>()).await?;
            }
            is_gone
        }
    };
    backend.close().await?;
    let mut notes = match (forgotten, held.is_empty()) {
        (_, true) => Vec::new(),
        (true, false) => vec![format!("removed with it: {held}")],
        (false, false) => vec![format!("kept, since there is another server `{id}`: {held}")],
    };
    if forgotten {
        let server = ServerId::from(&**id);
        notes.extend(login::delete_all(global, &server, former).await?);
        if check_server_id(id).is_ok() {
            // A later server with this id must not run what a confined one left; most servers have no such folder.
            let _ = fs::remove_dir_all(private_folder(&state::folder(global)?, &server));
        }
    }
    Ok((forgotten, notes))
}
