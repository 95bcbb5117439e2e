//! A scripted server that sees every byte of the client.

use std::ops::{Deref, DerefMut};

use mgp_client_sdk::{Client, ClientBuilder, EraChoice};
use mgp_testkit::RawPeer;
use mgp_transport::{DuplexEnd, duplex};
use serde_json::{Value, json};

pub(crate) struct Script(RawPeer);

impl Deref for Script {
    type Target = RawPeer;

    fn deref(&self) -> &RawPeer {
        &self.0
    }
}

impl DerefMut for Script {
    fn deref_mut(&mut self) -> &mut RawPeer {
        &mut self.0
    }
}

impl Script {
    /// Creates a connection: returns the client's end, and the scripted server at the other end.
    pub(crate) fn new() -> (DuplexEnd, Self) {
        let (here, there) = duplex();
        let peer = RawPeer::new(there.reader, there.writer);
        (here, Self(peer.with_line_timeout(None)))
    }

    /// Answers `initialize`, and waits for `notifications/initialized`; returns the request `initialize`.
    pub(crate) async fn initialize(&mut self, revision: &str, capabilities: Value) -> Value {
        let result = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "serverInfo": { "name": "script", "version": "1" },
        });
        let hello = self.serve("initialize", result).await;
        assert_eq!(self.read().await.unwrap()["method"], "notifications/initialized");
        hello
    }

    pub(crate) async fn discover(&mut self, capabilities: Value) -> Value {
        let result = json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "ttlMs": 1000,
            "cacheScope": "private",
        });
        self.serve("server/discover", result).await
    }

    pub(crate) async fn legacy(builder: ClientBuilder, capabilities: Value) -> (Client, Self) {
        let (end, mut script) = Self::new();
        let builder = builder.era(EraChoice::Legacy);
        let connecting = builder.connect(end.reader, end.writer);
        let (client, _) = tokio::join!(connecting, script.initialize("2025-11-25", capabilities));
        (client.unwrap(), script)
    }

    pub(crate) async fn modern(builder: ClientBuilder, capabilities: Value) -> (Client, Self) {
        let (end, mut script) = Self::new();
        let builder = builder.era(EraChoice::Modern);
        let connecting = builder.connect(end.reader, end.writer);
        let (client, _) = tokio::join!(connecting, script.discover(capabilities));
        (client.unwrap(), script)
    }
}

pub(crate) fn plain() -> ClientBuilder {
    Client::builder("test", "1").without_mgp()
}
