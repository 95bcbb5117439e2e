//! From a server's entry to what is started (MGP §15.2).
//!
//! Applies to: outbound.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use mgp_client_sdk::gateway::ServerTarget;
use mgp_discovery::{Approved, Expanded, ExpandedReach, ExpandedServer, Reach, Server};
use mgp_transport::{ChildCommand, duplex};
use mgp_types::service::{BoxFuture, SpawnError};

use super::diary::Diary;
use super::servers::Ground;
use crate::hops;

/// Creates a server of this process, a new one for each start.
pub(crate) type CreateServer = Arc<dyn Fn() -> mgp_server_sdk::Server + Send + Sync>;

/// Finds the target of one start of a server.
pub(super) type Resolve =
    dyn Fn() -> BoxFuture<'static, Result<ServerTarget, SpawnError>> + Send + Sync;

/// What is started: filled in anew each time, so that a password that changed is the new one.
///
/// Of a server that was registered it is what was approved, looked at anew each time.
pub(super) fn target(
    server: &Arc<Server>,
    approved: Option<&Approved>,
    ground: &Ground,
    diary: &Arc<Diary>,
) -> Box<Resolve> {
    if let Some(approved) = approved {
        let (approved, diary) = (approved.clone(), Arc::clone(diary));
        return Box::new(move || {
            let (approved, diary) = (approved.clone(), Arc::clone(&diary));
            Box::pin(
                async move { reached(approved.launch().await.map_err(SpawnError::new)?, diary) },
            )
        });
    }
    let (server, expander) = (Arc::clone(server), ground.expander.clone());
    let within = ground.within.get(&server.id).cloned();
    let diary = Arc::clone(diary);
    Box::new(move || {
        let (server, expander) = (Arc::clone(&server), expander.clone());
        let (within, diary) = (within.clone(), Arc::clone(&diary));
        Box::pin(async move {
            if let (Reach::Within, Some(create)) = (&server.reach, within) {
                return Ok(in_memory(&create));
            }
            // Files are read and commands run.
            let filled = tokio::task::spawn_blocking(move || expander.server(&server)).await;
            reached(filled.map_err(SpawnError::new)?.map_err(SpawnError::new)?, diary)
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

fn reached(server: ExpandedServer, diary: Arc<Diary>) -> Result<ServerTarget, SpawnError> {
    let ExpandedServer { id, reach, .. } = server;
    match reach {
        ExpandedReach::Program { command, args, cwd, env } => {
            let mut program = ChildCommand::new(command.as_str())
                .args(args.iter().map(Expanded::as_str))
                .envs(env.iter().map(|(name, value)| (name, value.as_str())))
                .env(hops::VARIABLE, (hops::depth() + 1).to_string())
                .server(id.as_str())
                .on_stderr(move |line| diary.line(line));
            if let Some(cwd) = cwd {
                program = program.cwd(cwd);
            }
            Ok(ServerTarget::Child(Box::new(program)))
        }
        ExpandedReach::Url { url, headers, .. } => {
            let headers = headers.iter().map(header).collect::<Result<HeaderMap, _>>()?;
            Ok(ServerTarget::Url { url: url.as_str().to_owned(), headers })
        }
        _ => Err(SpawnError::new("it is reached in a way this kernel does not know")),
    }
}

/// A header of every request; its value may be secret and is in no message.
fn header((name, value): (&String, &Expanded)) -> Result<(HeaderName, HeaderValue), SpawnError> {
    let bad = |what: &str| SpawnError::new(format!("`headers.{name}`: {what}"));
    let header = HeaderName::try_from(name.as_str()).map_err(|_| bad("no name of a header"))?;
    let mut value =
        HeaderValue::try_from(value.as_str()).map_err(|_| bad("no value of a header"))?;
    value.set_sensitive(true);
    Ok((header, value))
}
