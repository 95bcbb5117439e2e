//! Applies a changed lock file while the kernel runs. Only servers whose entries changed are affected.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use mgp_contract::LockFile;
use mgp_discovery::{OperatorProof, ServerConfig};
use mgp_types::mgp::{KernelChange, KernelFinding};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::handle::{Kernel, KernelParts};
use super::lock::ActiveLock;

/// The interval at which the lock file is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the lock file again, and restarts the servers whose entries changed. Returns the changes. Reports a problem as
/// a finding of the kernel.
pub(super) async fn reload(kernel: &Kernel) -> Vec<KernelChange> {
    let Some(lock) = kernel.0.fleet.context().lock.clone() else { return Vec::new() };
    apply_detached(kernel, lock).await
}

/// Applies each change of the lock file until the kernel stops, or only reports it if operators must prove their
/// presence.
pub(super) fn follow_file(kernel: &Kernel) {
    if let Some(lock) = kernel.0.fleet.context().lock.clone().filter(|lock| lock.path().is_some()) {
        tokio::spawn(follow(Arc::downgrade(&kernel.0), lock, kernel.0.config.watches()));
    }
}

async fn follow(kernel: Weak<KernelParts>, lock: ActiveLock, mut watches: watch::Receiver<()>) {
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut read) = (None, None);
    loop {
        tokio::select! {
            biased;
            _ = watches.changed() => return,
            _ = ticks.tick() => {}
        }
        let polled = lock.clone();
        let Ok(stamp) = spawn_blocking(move || polled.stamp()).await else { continue };
        // Read the lock file only when two checks in a row find the same length and modification time, because a
        // program may still be writing it.
        let is_settled = last.replace(stamp) == Some(stamp);
        if !is_settled || read == Some(stamp) {
            continue;
        }
        read = Some(stamp);
        let Some(kernel) = kernel.upgrade().map(Kernel) else { return };
        if kernel.operator_proof() == OperatorProof::None {
            apply_detached(&kernel, lock.clone()).await;
        } else if changed(&kernel, &lock).await.is_some() {
            let message =
                "the lock file was changed and is not applied; run `mgp reload` to apply it";
            tracing::warn!("{message}");
            set_finding(&kernel, Some(KernelFinding::new("warning", message)));
        }
    }
}

/// Reads the lock file, and returns its content if it differs from the active one. Returns `None` if the file cannot be
/// used; the active lock file then stays active.
async fn changed(kernel: &Kernel, lock: &ActiveLock) -> Option<LockFile> {
    let own = lock.clone();
    let read = spawn_blocking(move || own.read_file()).await.ok()??;
    match read {
        Ok(new) => {
            set_finding(kernel, None);
            Some(new).filter(|new| *new != *lock.current())
        }
        Err(error) => {
            tracing::warn!(%error, "reload failed; keeping the previous lock file");
            let message = format!("{error}; the kernel keeps the previous one");
            set_finding(kernel, Some(KernelFinding::new("error", message)));
            None
        }
    }
}

fn set_finding(kernel: &Kernel, finding: Option<KernelFinding>) {
    kernel.0.config.set_lock_finding(finding);
}

/// Applies a changed lock file in a separate task. The task completes even if the caller drops its future, so each
/// server that it stops is also started again.
async fn apply_detached(kernel: &Kernel, lock: ActiveLock) -> Vec<KernelChange> {
    let kernel = kernel.clone();
    let applied = tokio::spawn(async move { apply(&kernel, &lock).await });
    applied.await.unwrap_or_default()
}

async fn apply(kernel: &Kernel, lock: &ActiveLock) -> Vec<KernelChange> {
    let parts = &*kernel.0;
    let _applying = parts.config.applying.lock().await;
    // Read the lock file only now, after earlier changes were applied. So an earlier content never replaces a later
    // one.
    let Some(new) = changed(kernel, lock).await else { return Vec::new() };
    let changed = lock.replace(new);
    let config = parts.config.config();
    let affected = config.servers.iter().filter(|server| changed.contains(server.id.as_str()));
    let affected: Vec<ServerConfig> = affected.cloned().collect();
    let changes = join_all(affected.into_iter().map(|server| restart(parts, server))).await;
    tracing::info!(changes = changes.len(), "lock file reloaded");
    changes
}

/// Stops a server and adds it again, so that the kernel compares its program and its tools with the active lock file.
async fn restart(parts: &KernelParts, server: ServerConfig) -> KernelChange {
    let mut change = KernelChange::new("server", "changed");
    change.id = Some(server.id.as_str().to_owned());
    if let Err(error) = parts.fleet.replace(server).await {
        tracing::error!(server = change.id, %error, "server not started with the new lock file");
    }
    change
}
