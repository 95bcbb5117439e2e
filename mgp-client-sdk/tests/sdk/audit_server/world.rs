//! A log, a file, and an audit server process between them that can be killed.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice};
use mgp_security::{Delivery, Event, Forwarder, Forwarding, Replay};
use mgp_testkit::{TempDir, example, temp_dir, until};
use mgp_transport::ChildCommand;
use mgp_types::Payload;
use mgp_types::mgp::Actor;
use mgp_types::service::{AuditSink, MemoryAudit};
use mgp_types::store::{Change, MemoryStore, Store};
use serde_json::{Value, json};

/// The log, the file and the settings of a test: everything except the audit server's process.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) log: MemoryAudit,
    store: MemoryStore,
    forwarder: Forwarder,
    folder: Arc<TempDir>,
}

impl World {
    pub(crate) fn new(confirm: Delivery) -> Self {
        Self::small(confirm, 10_000)
    }

    /// Creates a world whose log keeps `capacity` events.
    pub(crate) fn small(confirm: Delivery, capacity: usize) -> Self {
        let (log, store) = (MemoryAudit::bounded(capacity), MemoryStore::new());
        let forwarder =
            Forwarder::new(Arc::new(log.clone()), Arc::new(store.clone())).sink("archive", confirm);
        Self { log, store, forwarder, folder: Arc::new(temp_dir()) }
    }

    pub(crate) async fn write(&self, count: usize) {
        for number in 0..count {
            let event = Event::policy_changed(Actor::user("ada"), None).detail("number", &number);
            self.log.record(event.build()).await.unwrap();
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("events.jsonl")
    }

    pub(crate) fn command(&self) -> ChildCommand {
        ChildCommand::new(example("mgp-server-sdk", "audit_server")).arg("--file").arg(self.file())
    }

    /// Returns a builder of clients that replay events when their server requests it.
    pub(crate) fn builder(&self, era: EraChoice) -> ClientBuilder {
        let replay = Replay::new(Arc::new(self.log.clone()), Arc::new(MemoryAudit::new()));
        let answers = replay.router_for("archive", &self.forwarder);
        Client::builder("kernel", "1").era(era).handlers(answers)
    }

    pub(crate) async fn start(&self, era: EraChoice) -> Client {
        self.builder(era).spawn(self.command()).await.unwrap()
    }

    pub(crate) fn forward(&self, client: &Client) -> Forwarding {
        self.forwarder.forward("archive", client.stack().clone()).unwrap()
    }

    /// Stores that the sink has received all events up to `seq`, although it has not.
    pub(crate) async fn pretend_reached(&self, seq: u64) {
        let seq = Payload::of(&seq).unwrap();
        self.store.commit(Change::new().put("audit.forward", "archive", seq)).await.unwrap();
    }

    /// Cuts the last line in the middle, like a process that is killed while it writes.
    pub(crate) fn tear(&self) {
        let file = std::fs::OpenOptions::new().write(true).open(self.file()).unwrap();
        file.set_len(file.metadata().unwrap().len() - 10).unwrap();
    }

    pub(crate) fn content(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    pub(crate) fn replace_content(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    /// Returns the event numbers in the file, in order.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let text = self.content();
        let number = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["_mgp"]["seq"].as_u64().unwrap()
        };
        text.lines().map(number).collect()
    }

    pub(crate) async fn stats(&self, client: &Client) -> Value {
        ask(client, "get_audit_stats", json!({})).await
    }

    /// Waits until the server has `count` events.
    pub(crate) async fn until_there(&self, client: &Client, count: u64) {
        until("the events arrive", async || self.stats(client).await["total"] == count).await;
    }
}

pub(crate) fn kill(client: &Client) {
    let pid = client.pid().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
}

pub(crate) async fn ask(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = client.call(tool).args(arguments).send().await.unwrap();
    assert_ne!(result.is_error, Some(true), "{result:?}");
    serde_json::from_str(result.structured_content.unwrap().as_str()).unwrap()
}
