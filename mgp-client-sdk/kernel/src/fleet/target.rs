//! From the entry of a server to the target of a start (MGP §15.2).

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use mgp_client_sdk::gateway::ServerTarget;
use mgp_discovery::{
    ApprovedRegistration, Expanded, ExpandedServer, ExpandedTarget, ServerConfig, TargetConfig,
};
use mgp_transport::{ChildCommand, duplex};
use mgp_types::service::{BoxFuture, SpawnError};

use super::context::{CreateServer, FleetContext};
use super::server_log::ServerLog;
use crate::hops;

/// Resolves the target of one start of a server.
pub(super) type Resolve =
    dyn Fn() -> BoxFuture<'static, Result<ServerTarget, SpawnError>> + Send + Sync;

/// Returns the function that resolves a server's target at each start, so that a changed password is picked up.
///
/// The approved files of a registered server are verified at each start too.
pub(super) fn target(
    server: &Arc<ServerConfig>,
    approved: Option<&ApprovedRegistration>,
    context: &FleetContext,
    log: &Arc<ServerLog>,
) -> Box<Resolve> {
    if let Some(approved) = approved {
        let (approved, log) = (approved.clone(), Arc::clone(log));
        return Box::new(move || {
            let (approved, log) = (approved.clone(), Arc::clone(&log));
            Box::pin(async move {
                resolved(approved.launch().await.map_err(SpawnError::new)?, log, &[])
            })
        });
    }
    let (server, expander) = (Arc::clone(server), context.expander.clone());
    let local = context.local.get(&server.id).cloned();
    let config = context.config.clone();
    let log = Arc::clone(log);
    Box::new(move || {
        let (server, expander) = (Arc::clone(&server), expander.clone());
        let (local, log, config) = (local.clone(), Arc::clone(&log), config.clone());
        Box::pin(async move {
            if let (TargetConfig::InProcess, Some(create)) = (&server.target, local) {
                return Ok(in_memory(&create));
            }
            let pass_env = [&config.config().kernel.pass_env[..], &server.pass_env].concat();
            // It reads files and runs commands.
            let filled = tokio::task::spawn_blocking(move || expander.server(&server)).await;
            let filled = filled.map_err(SpawnError::new)?;
            // E.g. a variable is not set.
            let filled = filled.map_err(|error| SpawnError::new(error).permanent())?;
            resolved(filled, log, &pass_env)
        })
    })
}

/// Serves a new instance of a server of this process over memory.
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

/// Returns the target of an expanded server; its program inherits the variables of `pass_env`.
fn resolved(
    server: ExpandedServer,
    log: Arc<ServerLog>,
    pass_env: &[String],
) -> Result<ServerTarget, SpawnError> {
    let ExpandedServer { id, target: reach, .. } = server;
    match reach {
        ExpandedTarget::Program { command, args, cwd, env } => {
            let program = ChildCommand::new(command.as_str())
                .args(args.iter().map(Expanded::as_str))
                .inherit_env(pass_env)
                .envs(env.iter().map(|(name, value)| (name, value.as_str())))
                .env(hops::VARIABLE, (hops::depth() + 1).to_string())
                .server(id.as_str())
                .cwd(cwd)
                .on_stderr(move |line| log.push_line(line));
            Ok(ServerTarget::Child(Box::new(program)))
        }
        ExpandedTarget::Url { url, headers, .. } => {
            let headers = headers.iter().map(header).collect::<Result<HeaderMap, _>>()?;
            Ok(ServerTarget::Url { url: url.as_str().to_owned(), headers })
        }
        _ => Err(SpawnError::new("unknown kind of server; use `command` or `url`")),
    }
}

/// Returns a header of every request; its value may be secret, so no message contains it.
fn header((name, value): (&String, &Expanded)) -> Result<(HeaderName, HeaderValue), SpawnError> {
    let bad = |what: &str| SpawnError::new(format!("`headers.{name}`: {what}"));
    let header = HeaderName::try_from(name.as_str()).map_err(|_| bad("not a valid header name"))?;
    let mut value =
        HeaderValue::try_from(value.as_str()).map_err(|_| bad("not a valid header value"))?;
    value.set_sensitive(true);
    Ok((header, value))
}
