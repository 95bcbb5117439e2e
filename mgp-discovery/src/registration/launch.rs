//! The launch of a registered server: it either runs exactly the approved program, or fails (MGP §15.4).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::mgp::{DefaultPolicy, RestartPolicy, ServerMgpConfig, Transport};
use mgp_types::service::ServerId;
use mgp_types::store::Store;

use super::closed_paths::ClosedPaths;
use super::confinement::{further_rights, rights};
use super::program::{FileCheck, compare_files, is_python};
use super::record::{Proposal, Record, SPACE, Stage};
use super::refusal::RegistrationError as Refused;
use super::registrations::{RegistrationState, Registrations};
use super::remote::Remote;
use super::servers::ApprovedRegistration;
use super::source;
use crate::config::{GovernanceConfig, RestartConfig, ServerConfig, TargetConfig};
use crate::error::DiscoveryError;
use crate::expand::{Expanded, ExpandedServer, ExpandedTarget, ProcessRights, SecretFile};
use crate::source::Origin;

impl Registrations {
    /// Returns an approved server in a store as a configuration entry; `None` if no approved server has this id. Use it
    /// in programs that run no servers. The headers of a server at a URL can name the user's secrets, as an entry in
    /// the user's own file can.
    ///
    /// # Errors
    /// [`DiscoveryError::Store`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn approved_in(
        store: &dyn Store,
        server: &ServerId,
    ) -> Result<Option<ServerConfig>, DiscoveryError> {
        let records = store.load(SPACE).await?.records.into_iter();
        let mut of = records.filter(|record| record.key == server.as_str());
        let read = of.find_map(|record| record.value?.get::<Record>().ok());
        Ok(read.filter(Record::is_approved).map(|record| entry(&record)))
    }
}

impl RegistrationState {
    /// Returns the registration of a server in the form that [`ServerRunner`](super::ServerRunner) receives, if it is
    /// approved.
    pub(super) fn approved(self: &Arc<Self>, server: &ServerId) -> Option<ApprovedRegistration> {
        let stored = self.stored(server)?;
        let Stage::Approved { .. } = stored.record.stage else { return None };
        Some(ApprovedRegistration {
            server: entry(&stored.record),
            denied: stored.record.denied(),
            created_by: stored.record.by.to_principal(),
            records: Arc::downgrade(self),
        })
    }

    pub(super) async fn launch(
        records: &Weak<Self>,
        server: &ServerId,
    ) -> Result<ExpandedServer, DiscoveryError> {
        let not_approved = || DiscoveryError::from(Refused::NotApproved(server.clone()));
        let state = records.upgrade().ok_or_else(not_approved)?;
        if state.servers.is_configured(server) {
            return Err(not_approved());
        }
        let stored = state.stored(server).ok_or_else(not_approved)?;
        let Stage::Approved { .. } = stored.record.stage else { return Err(not_approved()) };
        let (program, granted) = (stored.record.program.clone(), stored.record.granted().to_vec());
        let looked = state.blocking(server, move |config| {
            let folder = config.scripts.as_deref();
            let now = compare_files(&program)?;
            let (script, own) =
                (source::put(folder, &program)?, source::own_folder(folder, &program)?);
            let closed = ClosedPaths::new(config, &program, &granted);
            let rights = rights(&program, &granted, script.as_deref(), own.as_deref(), closed);
            let secrets = secrets(&program, config.secrets.as_ref())?;
            Ok((now, script, own, rights, secrets))
        });
        match looked.await? {
            Ok((FileCheck::Same, script, own, rights, secrets)) => {
                expanded(&stored.record.program, script, own, rights, &secrets)
            }
            Ok((FileCheck::Changed(now), ..)) => {
                tracing::warn!(%server, "approved files changed; requesting approval again");
                state.ask_again(stored, *now).await?;
                Err(Refused::Changed(server.clone()).into())
            }
            Err(reason) => Err(Refused::MissingFile { server: server.clone(), reason }.into()),
        }
    }
}

/// Reads the user's secrets that a registry entry needs, by variable. Blocks.
pub(super) fn secrets(
    program: &Proposal,
    file: Option<&SecretFile>,
) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for (variable, name) in program.published.iter().flat_map(|origin| &origin.secrets) {
        let stored = file.map(|file| file.get(name)).transpose();
        let stored = stored.map_err(|error| error.to_string())?.flatten();
        let value = stored.ok_or_else(|| {
            format!("it needs `{variable}`; an operator must run `mgp secrets set {name}`")
        })?;
        values.insert(variable.clone(), value);
    }
    Ok(values)
}

/// Returns notes about the secrets that a registry entry needs and that are already stored. The server would get them,
/// although the user may have stored them for an earlier server with its id. Blocks.
pub(super) fn stored_secrets(program: &Proposal, file: Option<&SecretFile>) -> Vec<String> {
    let needed = program.published.iter().flat_map(|origin| origin.secrets.values());
    let stored = needed
        .filter(|name| file.is_some_and(|file| file.get(name).is_ok_and(|value| value.is_some())));
    let note = |name: &String| {
        format!(
            "the secret `{name}` is already stored, perhaps for another server; this one gets it"
        )
    };
    stored.map(note).collect()
}

/// Returns the server with everything that its start needs: the program with its stored script, its own folder, its
/// rights and its secrets.
fn expanded(
    program: &Proposal,
    script: Option<PathBuf>,
    own: Option<PathBuf>,
    rights: Option<ProcessRights>,
    secrets: &BTreeMap<String, String>,
) -> Result<ExpandedServer, DiscoveryError> {
    let plain = |text: &str| {
        let mut expanded = Expanded::new();
        expanded.push(text);
        expanded
    };
    if let Some(remote) = &program.remote {
        let headers = remote.expanded_headers(&program.id, secrets);
        let headers =
            headers.map_err(|reason| Refused::MissingFile { server: program.server(), reason })?;
        let (url, transport) = (plain(&remote.url), Transport::Http);
        let target = ExpandedTarget::Url { url, headers, transport, auth: Box::default() };
        return Ok(ExpandedServer { id: program.server(), target, rights: None });
    }
    let hidden = |value: &String| {
        let mut hidden = Expanded::new();
        hidden.push_secret(value);
        hidden
    };
    let script = script.map(|path| path.into_os_string().into_string());
    let script =
        script.transpose().map_err(|path| DiscoveryError::NotText { path: path.into() })?;
    let env: BTreeMap<_, _> = program
        .env
        .iter()
        .chain(secrets)
        .map(|(name, value)| (name.clone(), hidden(value)))
        .collect();
    // The judge checked only the script of a sandboxed program. Add `-I`, because otherwise Python would also import
    // modules from the folder of the script, e.g. a `json.py` in it.
    let isolated = (rights.is_some() && is_python(program)).then(|| plain("-I"));
    let args = script.iter().chain(&program.args).map(|arg| plain(arg));
    Ok(ExpandedServer {
        id: program.server(),
        target: ExpandedTarget::Program {
            command: plain(&program.command),
            args: isolated.into_iter().chain(args).collect(),
            cwd: own.unwrap_or_else(|| Path::new(&program.cwd).to_owned()),
            env,
        },
        rights,
    })
}

/// Returns the server as a configuration entry, with the same restrictions as an entry in a project's file.
fn entry(record: &Record) -> ServerConfig {
    let program = &record.program;
    let target = match &program.remote {
        Some(remote) => TargetConfig::Url {
            url: remote.url.replace('$', "$$"),
            headers: remote.headers().clone(),
            transport: Transport::Http,
            auth: Box::default(),
        },
        None => TargetConfig::Program {
            command: program.command.clone(),
            args: program.args.clone(),
            cwd: Some(program.cwd.clone()),
            env: program.env.clone(),
        },
    };
    // Leave `approved_files` empty, because the approval of a registration covers its files.
    let mut entry = ServerConfig::new(program.server(), target, govern(program), Origin::Project);
    // Operators see these rights; the process gets those of `launch`.
    entry.confine = further_rights(program, record.granted());
    let origin = program.published.as_ref();
    let is_beside =
        |remote: &Remote| origin.is_some_and(|origin| remote.is_beside(&origin.registry));
    entry.only_public = program.remote.as_ref().is_some_and(|remote| !is_beside(remote));
    entry
}

/// Returns the governance settings of the program, in the form of a configuration entry.
fn govern(program: &Proposal) -> GovernanceConfig {
    let ServerMgpConfig {
        extensions,
        permissions_required,
        restart_policy,
        max_restarts,
        restart_window_secs,
        backoff_base_ms,
        backoff_max_ms,
        default_policy,
        ..
    } = program.mgp.clone();
    let default = RestartConfig::default();
    let millis = |figure: Option<u64>, otherwise| {
        figure.map_or(otherwise, |millis| Duration::from_millis(millis.clamp(1, 3_600_000)))
    };
    let base = millis(backoff_base_ms, default.backoff_base);
    let window = restart_window_secs
        .map_or(default.window, |secs| Duration::from_secs(secs.clamp(1, 2_592_000)));
    let mut restart = RestartConfig {
        policy: restart_policy.unwrap_or(RestartPolicy::OnFailure),
        max: max_restarts.unwrap_or(default.max).min(10_000),
        window,
        backoff_base: base,
        backoff_max: millis(backoff_max_ms, default.backoff_max).max(base),
    };
    if program.remote.is_some() {
        // The kernel never stops trying to reach a URL, so the request does not choose how often it tries.
        restart = RestartConfig { policy: restart.policy, ..default };
    }
    GovernanceConfig {
        extensions: extensions.into_vec(),
        permissions_required: permissions_required.into_vec(),
        trust_level: program.trust.clone(),
        default_policy: default_policy.unwrap_or(DefaultPolicy::OptIn),
        restart,
        ..GovernanceConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_does_not_choose_how_often_a_url_is_tried() {
        let restart = |remote| {
            let mgp =
                json!({ "restart_policy": "never", "backoff_base_ms": 1, "backoff_max_ms": 1 });
            let program = json!({
                "id": "far", "command": "", "real": "", "args": [], "cwd": "", "env": {}, "files": [],
                "remote": remote, "mgp": mgp, "trust": "sandboxed",
            });
            govern(&serde_json::from_value(program).unwrap()).restart
        };
        let default = RestartConfig { policy: RestartPolicy::Never, ..RestartConfig::default() };
        assert_eq!(restart(json!({ "url": "https://far.example/mcp" })), default);
        assert_eq!(restart(json!(null)).backoff_max, Duration::from_millis(1));
    }
}
