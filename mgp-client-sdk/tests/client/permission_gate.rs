//! Tests of a client's decision to accept a connection, made between the server's answer and `initialized` (MGP §3.4):
//! it must take effect if it is made in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mgp_client_sdk::{Client, ClientConfig, Error};
use mgp_lifecycle::{ConnectDecision, ConnectError, ConnectGate, EraChoice, MgpOffer};
use mgp_server_sdk::Server;
use mgp_transport::duplex;
use mgp_types::mgp::{Extension, ExtensionSet, Permission};
use mgp_types::service::{Context, PeerInfo};

/// A gate that decides after a while, and counts how often it was asked.
struct After {
    time: Duration,
    verdict: ConnectDecision,
    asked: Arc<AtomicUsize>,
}

#[async_trait]
impl ConnectGate for After {
    async fn decide(&self, facts: Arc<PeerInfo>, _: Context) -> ConnectDecision {
        assert_eq!(facts.permissions_required, ["shell.execute"]);
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (time, verdict) = (self.time, self.verdict);
        tokio::time::sleep(time).await;
        verdict
    }
}

async fn connect(
    era: EraChoice,
    time: Duration,
    verdict: ConnectDecision,
    needs: bool,
) -> (Result<Client, Error>, usize) {
    let streaming = ExtensionSet::EMPTY.with(Extension::Streaming);
    let server = Server::new("s", "1").offer(|offer| {
        let mut mgp = MgpOffer::new(streaming);
        if needs {
            mgp.permissions_required = vec![Permission::from("shell.execute")];
        }
        offer.mgp = Some(mgp);
    });
    let (here, there) = duplex();
    tokio::spawn(server.serve(there.reader, there.writer));
    let asked = Arc::new(AtomicUsize::new(0));
    let mut config = ClientConfig::new("c", "1");
    config.offer.mgp = Some(MgpOffer::new(streaming));
    config.connect.era = era;
    config.connect.permission_gate =
        Some(Arc::new(After { time, verdict, asked: Arc::clone(&asked) }));
    let client = Client::connect(here.reader, here.writer, config).await;
    (client, asked.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_waited_for_and_a_rejection_closes() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let (client, asked) =
            connect(era, Duration::from_secs(50), ConnectDecision::Proceed, true).await;
        assert!(client.is_ok());
        assert_eq!(asked, 1);
        let (client, _) =
            connect(era, Duration::from_secs(50), ConnectDecision::Reject, true).await;
        let error = client.unwrap_err();
        assert!(
            matches!(&error, Error::Connect(ConnectError::Rejected(permissions)) if *permissions == ["shell.execute"])
        );
        assert_eq!(
            error.to_string(),
            "the permissions the server needs were rejected: shell.execute"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_never_decides_delays_nothing_for_long() {
    let hour = Duration::from_hours(1);
    let before = tokio::time::Instant::now();
    let (client, asked) = connect(EraChoice::Legacy, hour, ConnectDecision::Reject, true).await;
    // A decision that is not made in time counts as deferred, so the connection continues without grants.
    assert!(client.is_ok());
    assert_eq!(asked, 1);
    assert_eq!(before.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_nothing_is_not_asked_about() {
    let (client, asked) =
        connect(EraChoice::Auto, Duration::ZERO, ConnectDecision::Reject, false).await;
    assert!(client.is_ok());
    assert_eq!(asked, 0);
}
