//! Creates the target of a server's start from its configuration: a program, a URL or an in-process server (MGP §15.2).

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mgp_client_sdk::gateway::{HttpTransport, ServerTarget};
use mgp_discovery::{Expanded, ExpandedServer, ExpandedTarget, TargetConfig};
use mgp_transport::{ChildCommand, duplex};
use mgp_types::mgp::Transport;
use mgp_types::service::{BoxFuture, Principal, SpawnError};

use super::confinement::confinement;
use super::context::{CreateServer, FleetContext};
use super::instance::InstanceParts;
use super::server_log::ServerLog;
use crate::logins::{self, LoginServer};
use crate::{kernel_hops, lock, references};

/// A function that resolves the target for one start of a server.
pub(super) type Resolve =
    dyn Fn() -> BoxFuture<'static, Result<ServerTarget, SpawnError>> + Send + Sync;

/// Returns the function that resolves a server's target at each start, so that a changed password is picked up.
///
/// The approved files of a registered server are verified at each start too.
pub(super) fn target(parts: &InstanceParts) -> Box<Resolve> {
    let starting = Starting {
        context: parts.context.clone(),
        log: Arc::clone(&parts.log),
        owner: parts.login_owner(),
    };
    if let Some(approved) = parts.approved.clone() {
        return Box::new(move || {
            let (approved, starting) = (approved.clone(), starting.clone());
            Box::pin(async move {
                starting.resolved(approved.launch().await.map_err(SpawnError::new)?, &[])
            })
        });
    }
    let server = Arc::clone(&parts.config);
    let local = parts.context.local.get(&server.id).cloned();
    Box::new(move || {
        let (server, local, starting) = (Arc::clone(&server), local.clone(), starting.clone());
        Box::pin(async move {
            if let (TargetConfig::InProcess, Some(create)) = (&server.target, local) {
                return Ok(in_memory(&create));
            }
            // Expand the configuration on the blocking pool, because this reads files and runs commands.
            let resolved = tokio::task::spawn_blocking(move || {
                let config = starting.context.config.config();
                let pass_env = [&config.kernel.pass_env[..], &server.pass_env].concat();
                let filled = starting.context.expander.server(&server);
                // Do not try again after a failure, e.g. because a variable in the configuration is not set: another
                // attempt would not help.
                let filled = filled.map_err(|error| SpawnError::new(error).permanent())?;
                if let Some(lock) = &starting.context.lock {
                    lock::check_start(&lock.current(), &server, &filled)
                        .map_err(|reason| SpawnError::new(reason).permanent())?;
                }
                starting.resolved(filled, &pass_env)
            });
            resolved.await.map_err(SpawnError::new)?
        })
    })
}

/// The parts of the kernel and of an instance that a start needs.
#[derive(Clone)]
struct Starting {
    context: FleetContext,
    log: Arc<ServerLog>,
    /// The principal who owns the login at the server; `None` for the login that all agents share.
    owner: Option<Principal>,
}

/// Serves a new in-process server over an in-memory connection.
fn in_memory(create: &CreateServer) -> ServerTarget {
    let create = Arc::clone(create);
    ServerTarget::in_memory(move || {
        let (here, there) = duplex();
        let server = create().owned_by_peer();
        tokio::spawn(async move {
            if let Err(error) = server.serve(there.reader, there.writer).await {
                tracing::warn!(%error, "in-process server ended");
            }
        });
        here
    })
}

impl Starting {
    /// Returns the target of a server whose variables are expanded. Its program inherits the environment variables
    /// in `pass_env`.
    fn resolved(
        &self,
        server: ExpandedServer,
        pass_env: &[String],
    ) -> Result<ServerTarget, SpawnError> {
        let log = Arc::clone(&self.log);
        log.begin_start(server.secrets().map(str::to_owned).collect());
        let ExpandedServer { id, target, rights, .. } = server;
        match target {
            ExpandedTarget::Program { command, args, cwd, env } => {
                let stray = Arc::clone(&log);
                let program = ChildCommand::new(command.as_str())
                    .args(args.iter().map(Expanded::as_str))
                    .inherit_env(pass_env)
                    .envs(env.iter().map(|(name, value)| (name, value.as_str())))
                    .env(kernel_hops::VARIABLE, (kernel_hops::depth() + 1).to_string())
                    .envs(self.context.lock.iter().flat_map(|_| lock::OFFLINE))
                    .envs(self.context.references.base_url().map(|url| (references::VARIABLE, url)))
                    .server(id.as_str())
                    .cwd(cwd)
                    .on_stderr(move |line| log.push_line(line))
                    .on_stray_stdout(move |line| stray.push_stray(line));
                let program = match rights {
                    Some(rights) => program.confined(confinement(rights)),
                    None => program,
                };
                Ok(ServerTarget::Child(Box::new(program)))
            }
            ExpandedTarget::Url { url, headers, auth, transport } => {
                let headers = headers.iter().map(header).collect::<Result<HeaderMap, _>>()?;
                let url = url.as_str().to_owned();
                let proxy = logins::proxy(&self.context.config.config().kernel);
                let logins = self.context.logins.clone().with_proxy(proxy);
                let credentials = (!headers.contains_key(AUTHORIZATION)).then(|| {
                    let owner = self.owner.clone();
                    let report = move |missing: Option<&str>| {
                        log.set_login(owner.as_ref(), missing);
                    };
                    let server = LoginServer { id, url: url.clone(), auth: *auth };
                    logins.reporting(server, self.owner.as_ref(), Arc::new(report))
                });
                let transport = match transport {
                    Transport::Sse => HttpTransport::Sse,
                    _ => HttpTransport::Streamable,
                };
                let credentials = credentials.flatten();
                let proxy = Some(logins.proxy().clone());
                Ok(ServerTarget::Url { url, headers, transport, proxy, credentials })
            }
            _ => Err(SpawnError::new("unknown kind of server; use `command` or `url`")),
        }
    }
}

/// Parses a header that is sent with each request. No error message contains its value, which may be secret.
fn header((name, value): (&String, &Expanded)) -> Result<(HeaderName, HeaderValue), SpawnError> {
    let bad = |what: &str| SpawnError::new(format!("`headers.{name}`: {what}"));
    let header = HeaderName::try_from(name.as_str()).map_err(|_| bad("not a valid header name"))?;
    let mut value =
        HeaderValue::try_from(value.as_str()).map_err(|_| bad("not a valid header value"))?;
    value.set_sensitive(true);
    Ok((header, value))
}
