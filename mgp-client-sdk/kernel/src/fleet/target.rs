//! Creates the target of a server's start from its configuration: a program, a URL, or a server in this process (MGP
//! §15.2).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mgp_client_sdk::gateway::{HttpTransport, ServerTarget};
use mgp_discovery::{
    ConfinedCode, Expanded, ExpandedServer, ExpandedTarget, TargetConfig, path_variable,
};
use mgp_transport::{ChildCommand, SkippedFolder, duplex};
use mgp_types::mgp::Transport;
use mgp_types::service::{BoxFuture, Principal, SpawnError};

use super::confinement::confine;
use super::context::{CreateServer, FleetContext};
use super::instance::InstanceParts;
use super::server_log::ServerLog;
use crate::logins::{self, LoginServer};
use crate::{kernel_hops, lock, references};

/// A function that resolves the target for one start of a server.
pub(super) type Resolve =
    dyn Fn() -> BoxFuture<'static, Result<ServerTarget, SpawnError>> + Send + Sync;

/// Returns the function that resolves a server's target at each start, so that a changed password takes effect at the
/// next start.
///
/// For a registered server, the function also compares the files with the approval at each start.
pub(super) fn target(parts: &InstanceParts) -> Box<Resolve> {
    let starting = Starting {
        context: parts.context.clone(),
        log: Arc::clone(&parts.log),
        owner: parts.login_owner(),
        only_public: parts.config.only_public,
    };
    if let Some(approved) = parts.approved.clone() {
        return Box::new(move || {
            let (approved, starting) = (approved.clone(), starting.clone());
            Box::pin(async move {
                starting.resolved(approved.launch().await.map_err(SpawnError::new)?, &[], None)
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
                    lock::check_start(&lock.current(), &config.kernel.pass_env, &server, &filled)
                        .map_err(|reason| SpawnError::new(reason).permanent())?;
                }
                let path = search_path_of(&filled)?;
                starting.resolved(filled, &pass_env, path)
            });
            resolved.await.map_err(SpawnError::new)?
        })
    })
}

/// The parts of the kernel and of an instance that are needed for a start.
#[derive(Clone)]
struct Starting {
    context: FleetContext,
    log: Arc<ServerLog>,
    /// The principal that owns the login at the server; `None` for the login that all agents share.
    owner: Option<Principal>,
    /// If set, the server may only be at a public address.
    only_public: bool,
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
    /// Returns the target of a server whose variables are already expanded. Its program inherits the environment
    /// variables in `pass_env`. If `env` has no `PATH`, the program gets `path`.
    fn resolved(
        &self,
        server: ExpandedServer,
        pass_env: &[String],
        path: Option<OsString>,
    ) -> Result<ServerTarget, SpawnError> {
        let log = Arc::clone(&self.log);
        log.begin_start(server.secrets().map(str::to_owned).collect());
        let ExpandedServer { id, target, rights, .. } = server;
        match target {
            ExpandedTarget::Program { command, args, cwd, env } => {
                let stray = Arc::clone(&log);
                let search = path.clone().unwrap_or_else(|| program_path(&env));
                // A package that an agent registered is not in the lock file, and its private folder has no copy of it
                // before its first start.
                let is_locked = self.context.lock.is_some()
                    && rights.as_ref().is_none_or(|rights| rights.code != ConfinedCode::Package);
                let program = ChildCommand::new(command.as_str())
                    .args(args.iter().map(Expanded::as_str))
                    .inherit_env(pass_env);
                let program = confine(program, rights, command.as_str(), &search)
                    .map_err(|reason| SpawnError::new(reason).permanent())?
                    .envs(path.map(|path| ("PATH", path)))
                    .envs(env.iter().map(|(name, value)| (name, value.as_str())))
                    .env(kernel_hops::VARIABLE, (kernel_hops::depth() + 1).to_string())
                    .envs(is_locked.then_some(lock::OFFLINE).into_iter().flatten())
                    .envs(self.context.references.base_url().map(|url| (references::VARIABLE, url)))
                    .server(id.as_str())
                    .cwd(cwd)
                    .on_stderr(move |line| log.push_line(line))
                    .on_stray_stdout(move |line| stray.push_stray(line));
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
                    let (url, only_public) = (url.clone(), self.only_public);
                    let server = LoginServer { id, url, auth: *auth, only_public };
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

/// Returns the search path for the program of a server with the variables `env`: their `PATH`, or else the `PATH` of
/// this process, followed by the usual folders of the user for programs. The call may read folders, so it blocks for a
/// moment.
#[must_use]
pub fn program_path(env: &BTreeMap<String, Expanded>) -> OsString {
    path_variable(env).map_or_else(mgp_transport::search_path, |path| OsString::from(path.as_str()))
}

/// Returns the search path for the program of a configured server; `None` if `env` has a `PATH`. If the folder of the
/// program is not in the `PATH` of the kernel, logs the folder.
///
/// # Errors
/// Returns a permanent error if the program is only in a folder that is left out of the search, because other users
/// could change this folder.
fn search_path_of(server: &ExpandedServer) -> Result<Option<OsString>, SpawnError> {
    let ExpandedTarget::Program { command, env, .. } = &server.target else { return Ok(None) };
    if path_variable(env).is_some() {
        return Ok(None);
    }
    let path = mgp_transport::search_path();
    let own = std::env::var_os("PATH").unwrap_or_default();
    let program = command.as_str();
    if let Some(folder) = added_folder(program, &own, &path) {
        let (id, folder) = (&server.id, folder.display());
        tracing::info!(server = %id, program, %folder, "the program is in a folder that PATH of the kernel lacks");
    } else if folder_of(program, &path).is_none()
        && let Some(skipped) = SkippedFolder::with_program(program)
    {
        let place = format!("program \"{program}\" is only in a folder that is left out");
        let reason = format!("{place}: {skipped}; {}", skipped.remedy());
        return Err(SpawnError::new(reason).permanent());
    }
    Ok(Some(path))
}

/// Returns the first folder of the search path `path` that contains a program; `None` if the search path `own` has this
/// folder too.
fn added_folder(program: &str, own: &OsStr, path: &OsStr) -> Option<PathBuf> {
    let found = folder_of(program, path)?;
    (!std::env::split_paths(own).any(|folder| folder == found)).then_some(found)
}

pub(super) fn folder_of(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains(std::path::is_separator) {
        return None;
    }
    std::env::split_paths(path).find(|folder| folder.join(program).is_file())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_the_own_path_lacks_is_in_an_added_folder() {
        let (own, added) = (mgp_testkit::temp_dir(), mgp_testkit::temp_dir());
        let path = std::env::join_paths([own.path(), added.path()]).unwrap();
        for name in ["both", "new"] {
            std::fs::write(added.path().join(name), "").unwrap();
        }
        std::fs::write(own.path().join("both"), "").unwrap();
        let find = |program: &str| added_folder(program, own.path().as_os_str(), &path);
        assert_eq!(find("new"), Some(added.path().to_owned()));
        let whole = added.path().join("new");
        for program in ["both", "missing", whole.to_str().unwrap()] {
            assert_eq!(find(program), None, "{program}");
        }
    }
}
