//! Each extension with each of client, kernel and server with and without it: whatever did not negotiate it sees what
//! it saw before.

use std::sync::Arc;

use mgp_client_sdk::{Client, ToolCall};
use mgp_discovery::Config;
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{IdempotencyKey, Intent, WantsCheckpoints};
use mgp_types::service::{Call, Stack};
use mgp_types::sync::Mutex;
use tower_layer::layer_fn;

use crate::world::{build, host, host_of, limit_era, open, wait_for_tools};
use crate::{checkpoint, idempotency, intent, manifest, media, provenance, session_state};

/// An extension with a server that uses it and a call that does.
struct Row {
    extension: Extension,
    /// Returns a server with the tool `list` and one more tool; it offers the extension.
    server: fn() -> Server,
    /// Adds the member of the extension to a call.
    call: fn(ToolCall) -> ToolCall,
    /// If set, the server receives a member with the call.
    is_received: bool,
}

const ROWS: &[Row] = &[
    Row {
        extension: Extension::Idempotency,
        server: idempotency::server,
        call: |call| call.with(&IdempotencyKey("order-7".to_owned())),
        is_received: true,
    },
    Row {
        extension: Extension::IntentHints,
        server: || intent::server("recent"),
        call: |call| call.with(&Intent("the last incident".to_owned())),
        is_received: true,
    },
    Row {
        extension: Extension::Manifest,
        server: manifest::server,
        call: |call| call,
        is_received: false,
    },
    Row {
        extension: Extension::Provenance,
        server: provenance::server,
        call: |call| call,
        is_received: false,
    },
    Row {
        extension: Extension::MultimodalSignatures,
        server: media::server,
        call: |call| call,
        is_received: false,
    },
    Row {
        extension: Extension::ServerRecommendations,
        server: || intent::server("recent"),
        call: |call| call,
        is_received: false,
    },
    Row {
        extension: Extension::SessionState,
        server: session_state::counter,
        call: |call| call,
        is_received: false,
    },
    Row {
        extension: Extension::Checkpoint,
        server: checkpoint::server,
        call: |call| call.with(&WantsCheckpoints(true)),
        is_received: true,
    },
];

/// The messages that each side of a call saw.
#[derive(Debug, PartialEq)]
struct Seen {
    tools: String,
    result: String,
    /// The params that the server received, without what differs from call to call.
    received: String,
}

/// The parties that offer the extension.
#[derive(Clone, Copy, Debug)]
struct Offers {
    client: bool,
    kernel: bool,
    server: bool,
}

async fn seen(row: &Row, era: Era, offers: Offers) -> Seen {
    let received = Arc::new(Mutex::new(String::new()));
    let (server, extension, record) = (row.server, row.extension, Arc::clone(&received));
    let config = if offers.kernel { "" } else { "[kernel]\nextensions = []" };
    let builder = Kernel::builder()
        .config(Config::parse("mgp.toml", config).unwrap().config)
        .local_with("issues", open(&["list", "recent"]), move || {
            let record = Arc::clone(&record);
            let server = limit_era(server(), era).around(layer_fn(move |inner: Stack| {
                let record = Arc::clone(&record);
                Stack::from_fn(move |call: Call| {
                    if call.method().as_str() == "tools/call" {
                        *record.lock() = without_changing(&format!("{:?}", call.params()));
                    }
                    inner.clone().send(call)
                })
            }));
            if offers.server {
                return server;
            }
            server.offer(|offer| {
                if let Some(mgp) = &mut offer.mgp {
                    mgp.extensions = mgp.extensions.without(extension);
                }
            })
        });
    let kernel = build(builder).await;
    wait_for_tools(&kernel, "issues", 2).await;
    let mut builder = host_of(era);
    if offers.client {
        builder = builder.extension(row.extension);
    }
    let client: Client = host(&kernel, "ada", builder).await;
    let tools = serde_json::to_string(&client.list_tools().await.unwrap()).unwrap();
    let result = (row.call)(client.call("list")).await.unwrap();
    let result = serde_json::to_string(&result).unwrap();
    client.close().await;
    kernel.stop().await;
    let received = received.lock().clone();
    Seen { tools, result, received }
}

/// Removes trace and handle, which are new in each call, and the offers of the modern era.
fn without_changing(params: &str) -> String {
    let mut params: serde_json::Value = serde_json::from_str(params).unwrap();
    if let Some(params) = params.as_object_mut() {
        params.remove("trace_id");
        if let Some(meta) = params.get_mut("_meta").and_then(|meta| meta.as_object_mut()) {
            for name in [
                "traceparent",
                "dev.cloto/mgp/handle",
                "io.modelcontextprotocol/clientCapabilities",
            ] {
                meta.remove(name);
            }
        }
    }
    params.to_string()
}

#[tokio::test]
async fn whoever_did_not_negotiate_an_extension_sees_what_it_saw_before() {
    for row in ROWS {
        for era in [Era::Legacy, Era::Modern] {
            let off = Offers { client: false, kernel: false, server: false };
            let before = seen(row, era, off).await;
            for bits in 1..8_u8 {
                let offers =
                    Offers { client: bits & 1 > 0, kernel: bits & 2 > 0, server: bits & 4 > 0 };
                let now = seen(row, era, offers).await;
                let at = format!("{} {era:?} {offers:?}", row.extension);
                // The caller: the extension is active for it only if it and the kernel offer it.
                if !(offers.client && offers.kernel) {
                    assert_eq!((&now.tools, &now.result), (&before.tools, &before.result), "{at}");
                }
                // The server: it receives members only if all three offer the extension.
                let is_active = row.is_received && offers.client && offers.kernel && offers.server;
                assert_eq!(now.received != before.received, is_active, "{at}: {}", now.received);
            }
        }
    }
}
