//! Runs, drains and removes servers that are registered at run time (MGP §15.4, §15.5).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_discovery::{
    ApprovedRegistration, AuditSinkConfig, CodeJudge, KernelConfig, KnownServer, PublishedEntry,
    RegistrationAllowList, RegistrationConfig, Registrations, ServerRunner, path_in,
};
use mgp_security::{NameFlaw, review_text};
use mgp_toolindex::{AllTools, Sessions};
use mgp_types::service::{BoxFuture, Context, Hidden, ServerId, Visibility, visibility};
use mgp_types::{ErrorCode, RpcError};

use super::active_config::SharedConfig;
use super::caller_view::CallerView;
use super::fleet::{Fleet, ManagedServer};
use super::handle::Kernel;
use super::logins;
use super::policy::{is_remote, registered_policy};
use super::published::{PublishedPlace, PublishedServers};

/// The id of the kernel as a server. Grants for the kernel's own tools contain it.
const KERNEL_ID: &str = "mgp";

/// The [`ServerRunner`] that runs registered servers in the fleet. Because [`Registrations`] owns this value, the value
/// must not contain a handle of [`Registrations`].
#[derive(Clone)]
pub(super) struct RegisteredServers {
    fleet: Fleet,
    config: SharedConfig,
    sessions: Sessions,
}

/// Returns the files and folders that the settings of a kernel with this state folder name, and that registered servers
/// must not access.
pub(super) fn named_paths(config: &KernelConfig, folder: &Path) -> Vec<PathBuf> {
    let tls = config.http.tls.iter().flat_map(|(certificate, key)| [certificate, key]);
    let keys = config.http.tokens.iter().filter_map(|tokens| tokens.keys.as_ref());
    let keys = keys.filter(|keys| !keys.contains("://"));
    let sinks = config.audit.sinks.values().filter_map(|sink| match sink {
        AuditSinkConfig::File(path) => Some(path),
        _ => None,
    });
    let encoder = [&config.search.encoder, &config.search.encoder_library].into_iter().flatten();
    // The system itself protects its libraries, and each server must be able to list them.
    let encoder = encoder.filter(|path| !path.starts_with("/usr/"));
    let texts = tls.chain(keys).chain(&config.audit.dir).chain(sinks).chain(encoder);
    texts.map(|text| path_in(folder, text)).chain(config.registry.clone()).collect()
}

/// Creates the registry of servers that are registered at run time.
pub(super) fn registrations(
    servers: RegisteredServers,
    view: &CallerView,
    judge: Arc<dyn CodeJudge>,
    config: RegistrationConfig,
) -> Registrations {
    let governance = servers.fleet.context().governance.clone();
    let (store, audit) = (Arc::clone(governance.store()), Arc::clone(governance.audit()));
    let (access, view) = (governance.access().clone(), view.clone());
    let may = visibility(move |cx: &Context, server: Option<&ServerId>, tool: &str| {
        if server.is_some() {
            return view.sees(cx, server, tool);
        }
        // Require a grant that names the registration tool. A grant for all tools of the server `mgp`, i.e. of the
        // kernel, does not allow registrations.
        let kernel = ServerId::from(KERNEL_ID);
        access.sees(cx, Some(&kernel), tool)?;
        match access.named(&cx.principal, Some(&kernel), tool, SystemTime::now()) {
            Some(_) => Ok(()),
            None => Err(Hidden::new("no grant names it")),
        }
    });
    let builder = Registrations::builder(store, Arc::new(servers))
        .audit(audit)
        .authorized_by(Arc::new(may))
        .config(config);
    builder.judge(judge).build()
}

impl Kernel {
    /// Deletes the operators' decisions about a server that does not exist any more. Returns `false` if the server
    /// exists.
    pub(super) async fn forget_server(&self, id: &ServerId) -> Result<bool, RpcError> {
        // Exclude reloads: one that adds the server after the check would lose the policy of the server.
        let _applying = self.0.config.applying.lock().await;
        let (fleet, sessions) = (self.0.fleet.clone(), self.0.dispatcher.parts().sessions.clone());
        let servers = RegisteredServers::new(fleet, self.0.config.shared.clone(), sessions);
        let is_registered = || {
            self.registrations().fleet().known().iter().any(|known| known.summary.id == id.as_str())
        };
        if servers.is_configured(id) || self.0.fleet.get(id.as_str()).is_some() || is_registered() {
            return Ok(false);
        }
        servers.forget(id).await.map(|()| true)
    }
}

impl RegisteredServers {
    pub(super) fn new(fleet: Fleet, config: SharedConfig, sessions: Sessions) -> Self {
        Self { fleet, config, sessions }
    }

    /// Returns a server of the fleet if it was registered at run time; otherwise `None`.
    fn get(&self, id: &ServerId) -> Option<Arc<ManagedServer>> {
        self.fleet.get(id.as_str()).filter(|server| server.approved().is_some())
    }

    /// Sets the policy of a server, and adds the server to the fleet.
    fn insert(&self, approved: ApprovedRegistration) -> Result<Arc<ManagedServer>, RpcError> {
        let id = approved.id().clone();
        if self.fleet.get(id.as_str()).is_some() || self.is_configured(&id) {
            let message = format!("the configuration has a server `{id}` now");
            return Err(RpcError::new(ErrorCode::SERVER_ALREADY_REGISTERED, message));
        }
        let policy = registered_policy(&self.config.config().kernel, &approved);
        self.fleet.context().governance.policies().set(id, policy);
        Ok(self.fleet.insert(approved.server.clone(), Some(approved))?)
    }

    /// Drains and removes a registered server. This completes even if the future is dropped.
    async fn take_out(&self, id: &ServerId) {
        let Some(server) = self.get(id) else { return };
        let fleet = self.fleet.clone();
        // Remove only this server: a reload may meanwhile replace it by a server of the configuration.
        let removed = tokio::spawn(async move { fleet.remove_server(&server).await });
        // Ignore the error: the task fails only when the runtime ends.
        let _ = removed.await;
    }

    async fn forget(&self, id: &ServerId) -> Result<(), RpcError> {
        let failed = |error| {
            RpcError::internal(format!("the tools of `{id}` are not forgotten")).because(error)
        };
        let context = self.fleet.context();
        context.events.forget_channels(id);
        self.fleet.forget(id).await.map_err(failed)?;
        context.governance.remove_server(id).await?;
        // Compute the view of each session, which also removes the tools of the removed server from the session.
        for cx in context.callers.all(|_| true) {
            let session = self.sessions.find(&cx, None).ok().flatten();
            self.sessions.view(&cx.principal, session.as_ref(), &context.index, &AllTools);
        }
        Ok(())
    }
}

impl mgp_discovery::ServerCatalog for RegisteredServers {
    fn known(&self) -> Vec<KnownServer> {
        mgp_discovery::ServerCatalog::known(&self.fleet)
    }
}

impl ServerRunner for RegisteredServers {
    fn allow_list(&self) -> RegistrationAllowList {
        self.config.config().kernel.registration.clone()
    }

    fn published(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> BoxFuture<'static, Result<PublishedEntry, String>> {
        let config = self.config.config();
        let (name, version) = (name.to_owned(), version.map(str::to_owned));
        Box::pin(async move {
            let registry = PublishedServers::open(&config.kernel, None)?;
            let Some(server) = registry.server(&name, version.as_deref()).await? else {
                let version = version.map(|version| format!(" in version `{version}`"));
                let version = version.unwrap_or_default();
                return Err(format!("the registry has no server `{name}`{version}"));
            };
            let findings =
                server.texts().iter().flat_map(|text| review_text(text)).collect::<Vec<_>>();
            let findings = findings.iter().map(ToString::to_string).collect();
            let place = match registry.place() {
                PublishedPlace::Url(url) => url.clone(),
                PublishedPlace::File(file) => file.display().to_string(),
            };
            Ok(PublishedEntry::new(server, place, findings))
        })
    }

    fn is_configured(&self, server: &ServerId) -> bool {
        let id = server.as_str();
        self.config.has_server(id) || NameFlaw::check_server(id, []).is_err()
    }

    fn start(&self, approved: ApprovedRegistration) -> BoxFuture<'static, Result<(), RpcError>> {
        let this = self.clone();
        // Insert the server now and not when the future is polled, so that its id is reserved immediately.
        let inserted = match self.get(approved.id()) {
            None => Ok(self.insert(approved)),
            Some(_) => Err(approved),
        };
        Box::pin(async move {
            let server = match inserted {
                Ok(inserted) => inserted?,
                Err(approved) => {
                    this.take_out(approved.id()).await;
                    this.insert(approved)?
                }
            };
            if this.fleet.is_known(&server) {
                return Ok(());
            }
            server.start().await;
            // The kernel never stops trying to reach a URL, so after a failure do not wait for a connection.
            if is_remote(&server.config())
                && let Some(error) = server.failure()
            {
                return Err(error);
            }
            Ok(server.client().ready().await.map(drop)?)
        })
    }

    fn drain(&self, server: &ServerId, _: Duration) -> BoxFuture<'static, ()> {
        let (this, server) = (self.clone(), server.clone());
        Box::pin(async move { this.take_out(&server).await })
    }

    fn remove(&self, server: &ServerId) -> BoxFuture<'static, Result<(), RpcError>> {
        let (this, server) = (self.clone(), server.clone());
        Box::pin(async move {
            this.take_out(&server).await;
            // Keep the data if a configured server has the same id, because the data then belong to that server.
            if this.is_configured(&server) {
                return Ok(());
            }
            let proxy = logins::proxy(&this.config.config().kernel);
            this.fleet.context().logins.clone().with_proxy(proxy).delete_all(&server).await;
            this.forget(&server).await
        })
    }
}
