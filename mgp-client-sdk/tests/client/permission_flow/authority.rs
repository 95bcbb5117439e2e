//! A permission authority that decides as a test configures.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mgp_client_sdk::{Client, ClientBuilder};
use mgp_types::Timestamp;
use mgp_types::mgp::{Grant, GrantDecision, Permission, PermissionDecision};
use mgp_types::service::{Context, PermissionAuthority, ServerId};
use tokio::sync::watch;

/// Decisions about permissions, the same for every server.
#[derive(Clone)]
pub(crate) struct TestAuthority(Arc<AuthorityState>);

struct AuthorityState {
    grants: Mutex<BTreeMap<Permission, Grant>>,
    expires_at: Mutex<Option<Timestamp>>,
    /// The time that the authority takes for a decision.
    with_decision_time: Mutex<DecisionTime>,
    asks_operator: AtomicBool,
    asked: Mutex<Vec<(ServerId, Vec<String>)>>,
    changes: watch::Sender<u64>,
}

#[derive(Clone, Copy)]
pub(crate) enum DecisionTime {
    Nothing,
    Time(Duration),
    Forever,
}

impl TestAuthority {
    pub(crate) fn new(grants: &[(&str, GrantDecision)]) -> Self {
        let grants = grants.iter().map(|(name, decision)| ((*name).into(), (*decision).into()));
        Self(Arc::new(AuthorityState {
            grants: Mutex::new(grants.collect()),
            expires_at: Mutex::default(),
            with_decision_time: Mutex::new(DecisionTime::Nothing),
            asks_operator: AtomicBool::new(true),
            asked: Mutex::default(),
            changes: watch::Sender::new(0),
        }))
    }

    pub(crate) fn with_decision_time(self, with_decision_time: DecisionTime) -> Self {
        *self.0.with_decision_time.lock().unwrap() = with_decision_time;
        self
    }

    pub(crate) fn without_operator(self) -> Self {
        self.0.asks_operator.store(false, Ordering::Relaxed);
        self
    }

    pub(crate) fn until(self, time: &str) -> Self {
        *self.0.expires_at.lock().unwrap() = Some(time.into());
        self
    }

    pub(crate) fn set(&self, name: &str, grant: Option<Grant>) {
        let mut grants = self.0.grants.lock().unwrap();
        match grant {
            Some(grant) => drop(grants.insert(name.into(), grant)),
            None => drop(grants.remove(&Permission::from(name))),
        }
        self.0.changes.send_modify(|number| *number += 1);
    }

    /// Returns the requested permissions, with their server.
    pub(crate) fn asked(&self) -> Vec<(ServerId, Vec<String>)> {
        self.0.asked.lock().unwrap().clone()
    }

    fn decided(&self) -> PermissionDecision {
        let mut decision =
            PermissionDecision::new("of the book", self.0.grants.lock().unwrap().clone());
        decision.approved_by = Some("ada".to_owned());
        decision.expires_at.clone_from(&self.0.expires_at.lock().unwrap());
        decision
    }

    /// Returns the builder of a client with this authority, for a server with the id `files`.
    pub(crate) fn client(&self) -> ClientBuilder {
        self.over(Client::builder("test", "1"))
    }

    pub(crate) fn over(&self, builder: ClientBuilder) -> ClientBuilder {
        builder.server_id("files").grantor(Arc::new(self.clone()))
    }
}

#[async_trait]
impl PermissionAuthority for TestAuthority {
    async fn decide(
        &self,
        _: &Context,
        server: &ServerId,
        permissions: Vec<Permission>,
    ) -> PermissionDecision {
        let names = permissions.iter().map(|name| name.as_str().to_owned()).collect();
        self.0.asked.lock().unwrap().push((server.clone(), names));
        let (authority, with_decision_time) =
            (self.clone(), *self.0.with_decision_time.lock().unwrap());
        match with_decision_time {
            DecisionTime::Nothing => {}
            DecisionTime::Time(time) => tokio::time::sleep(time).await,
            DecisionTime::Forever => pending().await,
        }
        let mut decision = authority.decided();
        decision.grants.retain(|name, _| permissions.contains(name));
        for name in permissions {
            decision.grants.entry(name).or_insert_with(|| GrantDecision::Deferred.into());
        }
        decision
    }

    fn asks_operator(&self, _: &Context, _: &ServerId, _: &[Permission]) -> bool {
        self.0.asks_operator.load(Ordering::Relaxed)
    }

    fn standing(&self, _: &Context, _: &ServerId, _: &[Permission]) -> PermissionDecision {
        match *self.0.with_decision_time.lock().unwrap() {
            DecisionTime::Nothing => self.decided(),
            // An authority that takes time has no decision before it is asked for one.
            _ => PermissionDecision::new("", BTreeMap::new()),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}
