//! A client of a server that answers only the handshake.

use mgp_client_sdk::gateway::{self, ServerTarget};
use mgp_client_sdk::{Client, EraChoice, SuperviseConfig, SupervisedClient};
use mgp_transport::{Connection, duplex};
use mgp_types::Payload;
use mgp_types::method::{Initialize, Kind};
use mgp_types::service::{BoxFuture, Call, Reply, SpawnError, Stack};

const INITIALIZED: &str = r#"{
    "protocolVersion": "2025-06-18", "capabilities": { "resources": {} },
    "serverInfo": { "name": "silent", "version": "1" }
}"#;

/// Connects a client to a server that answers only the handshake.
pub(in crate::fleet) async fn silent_client() -> SupervisedClient {
    let target = ServerTarget::in_memory(|| {
        let (here, there) = duplex();
        let stack = Stack::from_fn(|call: Call| async move {
            if call.kind() == Kind::Request && !call.is::<Initialize>() {
                std::future::pending::<()>().await;
            }
            Ok(Reply::raw(Payload::from_trusted(INITIALIZED)))
        });
        tokio::spawn(Connection::new(there.reader, there.writer, stack).run());
        here
    });
    let builder = Client::builder("kernel", "1").era(EraChoice::Legacy);
    let resolve = move || -> BoxFuture<'static, Result<ServerTarget, SpawnError>> {
        Box::pin(std::future::ready(Ok(target.clone())))
    };
    let client = gateway::supervise(builder, resolve, SuperviseConfig::default()).unwrap();
    client.start().await;
    client.ready().await.unwrap();
    client
}
