//! What is run of a registration: what was approved, or nothing (MGP §15.4; checklist C33).
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::mgp::{DefaultPolicy, RestartPolicy, ServerMgpConfig};
use mgp_types::service::ServerId;

use super::book::Inner;
use super::program::{Now, look};
use super::record::{Proposal, Stage};
use super::refused::RegistrationRefused as Refused;
use super::servers::Approved;
use super::source;
use crate::config::{Reach, Restart, Server, ServerMgp};
use crate::error::Error;
use crate::expand::{Expanded, ExpandedReach, ExpandedServer};
use crate::source::Origin;

impl Inner {
    /// A registration that may run, for whoever runs it.
    pub(super) fn approved(self: &Arc<Self>, server: &ServerId) -> Option<Approved> {
        let kept = self.kept(server)?;
        let Stage::Approved { .. } = kept.record.stage else { return None };
        Some(Approved {
            server: entry(&kept.record.program),
            denied: kept.record.denied(),
            created_by: kept.record.by.to_principal(),
            book: self.weak(),
        })
    }

    pub(super) async fn launch(
        book: &Weak<Self>,
        server: &ServerId,
    ) -> Result<ExpandedServer, Error> {
        let not_approved = || Error::from(Refused::NotApproved(server.clone()));
        let inner = book.upgrade().ok_or_else(not_approved)?;
        if inner.servers.configured(server) {
            return Err(not_approved());
        }
        let kept = inner.kept(server).ok_or_else(not_approved)?;
        let Stage::Approved { .. } = kept.record.stage else { return Err(not_approved()) };
        let program = kept.record.program.clone();
        let looked = inner.blocking(server, move |config| {
            let folder = config.scripts.as_deref();
            look(&program).and_then(|now| Ok((now, source::put(folder, &program)?)))
        });
        match looked.await? {
            Ok((Now::Same, script)) => expanded(&kept.record.program, script),
            Ok((Now::Changed(now), _)) => {
                tracing::warn!(%server, "what was approved was changed; an operator is asked again");
                inner.ask_again(kept, *now).await?;
                Err(Refused::Changed(server.clone()).into())
            }
            Err(reason) => Err(Refused::NotThere { server: server.clone(), reason }.into()),
        }
    }
}

/// What is run, as a server of the configuration would be.
fn expanded(program: &Proposal, script: Option<PathBuf>) -> Result<ExpandedServer, Error> {
    let said = |text: &str| {
        let mut said = Expanded::new();
        said.push(text);
        said
    };
    let hidden = |value: &String| {
        let mut hidden = Expanded::new();
        hidden.push_secret(value);
        hidden
    };
    let script = script.map(|path| path.into_os_string().into_string());
    let script = script.transpose().map_err(|path| Error::NotText { path: path.into() })?;
    let env: BTreeMap<_, _> =
        program.env.iter().map(|(name, value)| (name.clone(), hidden(value))).collect();
    Ok(ExpandedServer {
        id: program.server(),
        reach: ExpandedReach::Program {
            command: said(&program.command),
            args: script.iter().chain(&program.args).map(|arg| said(arg)).collect(),
            cwd: Some(Path::new(&program.cwd).to_owned()),
            env,
        },
    })
}

/// The server as an entry of a configuration would say it, with no more rights than a project's.
fn entry(program: &Proposal) -> Server {
    Server {
        id: program.server(),
        reach: Reach::Program {
            command: program.command.clone(),
            args: program.args.clone(),
            cwd: Some(program.cwd.clone()),
            env: program.env.clone(),
        },
        era: None,
        mgp: Some(govern(program)),
        file: PathBuf::new(),
        origin: Origin::Project,
    }
}

/// How it is governed: as an entry of the configuration that says the same.
fn govern(program: &Proposal) -> ServerMgp {
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
    let default = Restart::default();
    let millis = |figure: Option<u64>, otherwise| {
        figure.map_or(otherwise, |millis| Duration::from_millis(millis.clamp(1, 86_400_000)))
    };
    let base = millis(backoff_base_ms, default.backoff_base);
    let window = restart_window_secs
        .map_or(default.window, |secs| Duration::from_secs(secs.clamp(1, 31_536_000)));
    ServerMgp {
        extensions: extensions.into_vec(),
        permissions_required: permissions_required.into_vec(),
        trust_level: program.trust.clone(),
        default_policy: default_policy.unwrap_or(DefaultPolicy::OptIn),
        restart: Restart {
            policy: restart_policy.unwrap_or(RestartPolicy::OnFailure),
            max: max_restarts.unwrap_or(default.max).min(10_000),
            window,
            backoff_base: base,
            backoff_max: millis(backoff_max_ms, default.backoff_max).max(base),
        },
        ..ServerMgp::default()
    }
}
