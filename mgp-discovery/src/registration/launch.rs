//! The launch of a registered server: it either runs exactly the approved program, or fails (MGP §15.4).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::mgp::{DefaultPolicy, RestartPolicy, ServerMgpConfig};
use mgp_types::service::ServerId;

use super::confinement::rights;
use super::program::{FileCheck, compare_files, is_python};
use super::record::{Proposal, Stage};
use super::refusal::RegistrationError as Refused;
use super::registrations::RegistrationState;
use super::servers::ApprovedRegistration;
use super::source;
use crate::config::{GovernanceConfig, RestartConfig, ServerConfig, TargetConfig};
use crate::error::DiscoveryError;
use crate::expand::{Expanded, ExpandedServer, ExpandedTarget, ProcessRights, SecretFile};
use crate::source::Origin;

impl RegistrationState {
    /// Returns the registration of a server in the form that [`ServerRunner`](super::ServerRunner) receives, if it is
    /// approved.
    pub(super) fn approved(self: &Arc<Self>, server: &ServerId) -> Option<ApprovedRegistration> {
        let stored = self.stored(server)?;
        let Stage::Approved { .. } = stored.record.stage else { return None };
        Some(ApprovedRegistration {
            server: entry(&stored.record.program),
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
            let state = config.secrets.as_ref().and_then(SecretFile::folder);
            let rights = rights(&program, &granted, script.as_deref(), own.as_deref(), state);
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
fn entry(program: &Proposal) -> ServerConfig {
    let target = TargetConfig::Program {
        command: program.command.clone(),
        args: program.args.clone(),
        cwd: Some(program.cwd.clone()),
        env: program.env.clone(),
    };
    // Leave `approved_files` empty, because the approval of a registration covers its files.
    ServerConfig::new(program.server(), target, govern(program), Origin::Project)
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
    GovernanceConfig {
        extensions: extensions.into_vec(),
        permissions_required: permissions_required.into_vec(),
        trust_level: program.trust.clone(),
        default_policy: default_policy.unwrap_or(DefaultPolicy::OptIn),
        restart: RestartConfig {
            policy: restart_policy.unwrap_or(RestartPolicy::OnFailure),
            max: max_restarts.unwrap_or(default.max).min(10_000),
            window,
            backoff_base: base,
            backoff_max: millis(backoff_max_ms, default.backoff_max).max(base),
        },
        ..GovernanceConfig::default()
    }
}
