//! Tests of servers that do not declare what they offer.

use mgp_client_sdk::ToolResult as _;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::{Era, InitializeResult, ServerCapabilities};
use mgp_types::method::Initialize;
use mgp_types::service::{Call, Reply, Stack, around};

use super::world::{host, host_of, kernel_with, limit_era, open};

#[tokio::test]
async fn a_server_that_declares_no_capability_is_asked_for_its_tools() {
    let server = || {
        let server = Server::new("c", "1").tool(Tool::new("tick", "Ticks", || async { "tock" }));
        limit_era(server, Era::Legacy).around(around(|call: Call, inner: Stack| async move {
            let is_handshake = call.is::<Initialize>();
            let reply = inner.send(call).await?;
            if !is_handshake {
                return Ok(reply);
            }
            let mut result: InitializeResult = reply.get()?;
            result.capabilities = ServerCapabilities::default();
            Reply::of(&result)
        }))
    };
    let kernel = kernel_with("c", open(&["tick"]), 1, server).await;
    let host = host(&kernel, "ann", host_of(Era::Legacy)).await;
    assert_eq!(host.call("tick").await.unwrap().to_text(), "tock");
    kernel.stop().await;
}
