//! Takes over the state folder from a kernel that hosts started, so that a person or a service manager can start
//! another kernel.
//!
//! Hosts start the next kernel as soon as they send something. So a person could not win the folder from busy hosts
//! with `mgp stop`, and a service that had crashed would be refused again and again.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgp_discovery::{Sources, Trust};
use mgp_server_sdk::ServeError;
use mgp_types::store::MemoryStore;
use tokio::time::sleep;

use crate::args::Global;
use crate::commands::kernel;
use crate::exit::{CliResult, Failure};
use crate::launch::START_TIMEOUT;
use crate::lock::{self, Lock, LockAttempt};
use crate::serve::bind_failure;
use crate::socket_hello::{HOSTS, Hello, HelloReply, Intent};
use crate::{control, http_access, socket, version};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Stops the running kernel, as `mgp stop` does, if hosts started it. Its shims keep further requests for the next
/// kernel.
///
/// While the returned lock exists, no host starts a kernel. The running kernel continues if it cannot be stopped, or if
/// the new kernel could not serve with these `sources` at the address in `http`: a service that cannot serve must not
/// stop a kernel each time it is restarted. The flag in `http` is `true` if callers need no key.
///
/// # Cancel safety
/// Dropping the future releases the lock, but a kernel that was already asked to stop still stops.
pub(crate) async fn take_over(
    folder: &Path,
    sources: &Sources,
    http: Option<(&str, bool)>,
) -> Option<Lock> {
    let lock = lock_starts(folder).await?;
    if is_of_hosts(folder).await {
        tracing::info!("stopping the kernel that hosts started, to serve in its place");
        let stopped = match check(folder, sources, http).await {
            Ok(()) => stop(folder).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = stopped {
            tracing::warn!(reason = %failure, "the kernel that hosts started was not stopped");
        }
    }
    Some(lock)
}

/// Takes the lock that a process holds while it starts a kernel; returns `None` if that takes longer than such a start.
async fn lock_starts(folder: &Path) -> Option<Lock> {
    let mut waited = Duration::ZERO;
    while waited <= START_TIMEOUT {
        match lock::try_start(folder) {
            Ok(LockAttempt::Acquired(lock)) => return Some(lock),
            Ok(LockAttempt::Held(_)) => {}
            // Ignore the error: the attempt to take the kernel's lock will fail for the same reason, and report it.
            Err(_) => return None,
        }
        sleep(POLL_INTERVAL).await;
        waited += POLL_INTERVAL;
    }
    tracing::warn!(
        "another process holds `start.lock`; the kernel that hosts started is not stopped"
    );
    None
}

/// Returns whether the running kernel was started by hosts, and is not newer than this program.
async fn is_of_hosts(folder: &Path) -> bool {
    let path = socket::path_in(folder);
    let no_passphrase = || Err(Failure::failed("reading needs no passphrase"));
    let greeting = control::greet(&path, Hello::operator(Intent::Read), no_passphrase).await;
    let Ok(Some(greeting)) = greeting else { return false };
    match HelloReply::read(&greeting.line, &path) {
        Ok(reply) => {
            let is_of_hosts = reply.started_by.as_deref() == Some(HOSTS);
            is_of_hosts && !version::is_newer(&reply.version, version::own())
        }
        Err(failure) => {
            // Only log the reason: the error that follows names `mgp stop`, which also prints it.
            tracing::info!(reason = %failure, "the running kernel did not report who started it");
            false
        }
    }
}

/// Fails if the new kernel could not read its configuration or listen at its address.
async fn check(folder: &Path, sources: &Sources, http: Option<(&str, bool)>) -> CliResult {
    // Only the user's own file configures the listener; a project's file does not.
    let no_projects = Trust::new(Arc::new(MemoryStore::new()));
    let config = sources.load(&no_projects).await?.config.kernel;
    let Some((address, is_anonymous)) = http else { return Ok(()) };
    http_access::tls(&config.http, folder)?;
    // Try to bind the address now. The new kernel binds it again when it has the folder.
    let local = TcpListener::bind(address)?.local_addr()?;
    if is_anonymous && !local.ip().is_loopback() {
        return Err(bind_failure(ServeError::Exposed(local)));
    }
    Ok(())
}

async fn stop(folder: &Path) -> CliResult {
    let global = Global { state: Some(folder.to_owned()), json: false, verbose: 0 };
    let client = control::connect_to_change(&global).await?;
    kernel::stop_over(&global, &client, None).await
}
