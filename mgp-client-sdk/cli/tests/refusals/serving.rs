//! A fixture: a kernel that serves HTTP, and hosts that connect to it with API keys.

use std::process::Stdio;

use mgp_client_sdk::{Client, Error};
use serde_json::Value;

use crate::world::World;
use mgp_testkit::{KilledChild, until};

/// A running `mgp serve --http`; dropping this value kills it.
pub(crate) struct Serving {
    _child: KilledChild,
    pub(crate) url: String,
}

impl Serving {
    pub(crate) async fn new(world: &World) -> Self {
        let ready = world.path("ready.json");
        let mut command = world.command(&["serve", "--http", "127.0.0.1:0"]);
        command.arg("--config").arg(world.path("mgp.toml")).arg("--ready-file").arg(&ready);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("it is ready", async || ready.exists()).await;
        let line: Value = std::fs::read_to_string(ready).unwrap().parse().unwrap();
        Self { _child: KilledChild(child), url: line["http"].as_str().unwrap().to_owned() }
    }

    /// Connects a host, with or without a key.
    pub(crate) async fn host(&self, key: Option<&str>) -> Result<Client, Error> {
        let builder = Client::builder("host", "1");
        let builder = match key {
            Some(key) => builder.bearer(key),
            None => builder,
        };
        builder.connect_url(&self.url).await
    }

    /// Connects a host with a new key, and repeats this until the kernel has read the key, for which it looks four
    /// times a second.
    pub(crate) async fn comes(&self, key: &str) -> Client {
        let mut host = None;
        until("the key is known", async || {
            host = self.host(Some(key)).await.ok();
            host.is_some()
        })
        .await;
        host.unwrap()
    }
}
