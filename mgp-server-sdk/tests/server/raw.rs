//! Peers of a server without an SDK: one that writes and reads lines over a connection in memory, and one that calls
//! the stack directly.

use mgp_server_sdk::Server;
use mgp_testkit::RawPeer;
use mgp_transport::duplex;
use mgp_types::service::mock;
use serde_json::Value;

/// Connects to a server without a handshake.
pub(crate) fn connect(server: Server) -> RawPeer {
    let (here, there) = duplex();
    tokio::spawn(server.serve(there.reader, there.writer));
    RawPeer::new(here.reader, here.writer).with_line_timeout(None)
}

/// Connects a legacy client that offers these capabilities (JSON) directly to the stack of a server; returns the
/// client, and the server's answer to `initialize`.
pub(crate) async fn connect_mock(server: Server, capabilities: &str) -> (mock::Client, Value) {
    let mut client = mock::client(server.into_stack().unwrap());
    let hello = format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{{"name":"t","version":"1"}}}}"#
    );
    let answer = client.request("initialize", &hello).await.unwrap().get().unwrap();
    (client, answer)
}
