//! Restarts servers that are unhealthy (MGP §11.3).

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use mgp_lifecycle::{HealthReason, LiveServer, MonitorConfig};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::handle::WeakSupervisedClient;
use crate::client::Client;
use crate::health::Prober;
use crate::wire::{Liveness, TaskGuard};

/// The interval of the checks for an answer of a server that has missed its pings and has no running calls any more.
const RECHECK: Duration = Duration::from_millis(100);

/// The current run of a server, which changes with each start and end.
type Runs = watch::Receiver<Option<LiveServer<Client>>>;

/// Monitors each run of a server, until the last handle of the server is dropped.
pub(super) async fn monitor_runs(
    mut runs: Runs,
    config: MonitorConfig,
    server: WeakSupervisedClient,
) {
    loop {
        let run_info = runs.borrow_and_update().clone();
        if let Some(LiveServer { client, run, .. }) = run_info {
            let health = client.monitor_health(config.clone());
            let (life, prober) = (client.liveness().clone(), client.prober());
            // Drop the handle, because monitoring must not keep the client alive.
            drop(client);
            let change = match select(pin!(health.unhealthy()), pin!(runs.changed())).await {
                Either::Left((change, _)) => change,
                Either::Right((Ok(()), _)) => continue,
                Either::Right((Err(_), _)) => return,
            };
            if change.reason == HealthReason::NoAnswer
                && is_busy(&server, &life, prober, &mut runs).await
            {
                continue;
            }
            let why = format!("unhealthy: {}", change.reason);
            match change.reason {
                // The supervisor itself detects the end of a connection, so the monitor has nothing to do.
                HealthReason::Ended => {}
                HealthReason::Reported => {
                    let Some(server) = server.upgrade() else { return };
                    server.supervised().reported_unhealthy(run, why).await;
                }
                _ => {
                    let Some(server) = server.upgrade() else { return };
                    server.mark_unhealthy(run, why).await;
                }
            }
        }
        if runs.changed().await.is_err() {
            return;
        }
    }
}

/// Waits for the running calls of a server that does not answer its pings, up to the time that a stop would wait for
/// them. Returns whether the server has answered anything in this time, i.e. was only busy, or the run has ended
/// meanwhile.
async fn is_busy(
    server: &WeakSupervisedClient,
    life: &Liveness,
    prober: Prober,
    runs: &mut Runs,
) -> bool {
    let answers = life.answer_count();
    // Drop the handle before the wait, because monitoring must not keep the server alive.
    let calls = server.upgrade().map(|server| server.running_calls());
    if let Some((Some(connection), drain)) = calls
        && connection.may_be_busy()
    {
        let waiting = async {
            let mut ended = pin!(runs.changed());
            if let Either::Right(_) = select(pin!(connection.idle()), ended.as_mut()).await {
                return;
            }
            // Ping the server, which may still execute a call whose caller has given up. A late answer to that call
            // does not count as a sign of life, but the answer to this ping does.
            let _asking = TaskGuard::spawn(async move {
                let _ = prober.ask(1).await;
            });
            while life.answer_count() == answers {
                if let Either::Right(_) = select(pin!(sleep(RECHECK)), ended.as_mut()).await {
                    return;
                }
            }
        };
        if timeout(drain, waiting).await.is_ok() {
            return true;
        }
    }
    life.answer_count() != answers
}
