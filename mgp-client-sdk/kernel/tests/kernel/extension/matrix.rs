//! Tests each extension with and without an offer by the client, the kernel and the server. A party that did not
//! negotiate the extension must see no difference.

use std::sync::Arc;

use mgp_client_sdk::{Client, ToolCall};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{HumanInTheLoop, ServerExtension, StructuredErrors};
use mgp_types::mcp::Era;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::proposal::{
    Compensation, ConfirmationRisk, DataReference, IdempotencyKey, Intent, Member, ToolCost,
    WantsCheckpoints,
};
use mgp_types::service::{Call, Stack};
use mgp_types::sync::Mutex;
use tower_layer::layer_fn;

use super::{checkpoint, idempotency, intent, manifest, media, provenance, session_state};
use crate::route::world::{build_with_tools, config_of, host, host_of, limit_era, open};

/// An extension, with a server and a call that use it.
struct Row {
    extension: Extension,
    /// Returns a server with the tool `list` and one more tool; it offers the extension.
    server: fn() -> Server,
    /// Adds the member of the extension to a call.
    call: fn(ToolCall) -> ToolCall,
    /// `true` if the server receives a member of the extension with the call.
    is_received: bool,
    /// `true` if the caller sees a difference in the list of tools or in the result.
    is_seen: bool,
}

impl Row {
    /// Creates the row of an extension that adds no member to calls.
    const fn without_member(extension: Extension, server: fn() -> Server, is_seen: bool) -> Self {
        Self { extension, server, call: |call| call, is_received: false, is_seen }
    }
}

const ROWS: &[Row] = &[
    Row {
        extension: Extension::Idempotency,
        server: idempotency::server,
        call: |call| call.with(&IdempotencyKey("order-7".to_owned())),
        is_received: true,
        is_seen: true,
    },
    Row {
        extension: Extension::IntentHints,
        server: || intent::server("recent"),
        call: |call| call.with(&Intent("the last incident".to_owned())),
        is_received: true,
        is_seen: true,
    },
    Row::without_member(Extension::Manifest, manifest::server, false),
    Row::without_member(Extension::Provenance, provenance::server, true),
    Row::without_member(Extension::MultimodalSignatures, media::server, true),
    Row::without_member(Extension::ServerRecommendations, || intent::server("recent"), false),
    Row::without_member(Extension::SessionState, session_state::counter, true),
    Row {
        extension: Extension::Checkpoint,
        server: checkpoint::server,
        call: |call| call.with(&WantsCheckpoints(true)),
        is_received: true,
        is_seen: false,
    },
    Row::without_member(
        Extension::CostHints,
        || {
            let mut cost = ToolCost::new();
            cost.estimated_units = Some(4_u64.into());
            server(Extension::CostHints, list().cost(&cost))
        },
        true,
    ),
    Row::without_member(
        Extension::StructuredErrors,
        || {
            let fail = || async { Err::<String, _>(ToolError("no room".to_owned())) };
            server(StructuredErrors, Tool::new("list", "Fails", fail))
        },
        true,
    ),
    Row::without_member(
        Extension::Scopes,
        || server(Extension::Scopes, list().required_scopes(["read"])),
        true,
    ),
    Row::without_member(
        Extension::HumanInTheLoop,
        || {
            let risk = &ConfirmationRisk::Destructive;
            server(HumanInTheLoop, list().confirm_each_call("List all?", risk))
        },
        true,
    ),
    Row::without_member(
        Extension::Transactions,
        || server(Extension::Transactions, answering(&Compensation::new("recent"))),
        true,
    ),
    Row::without_member(
        Extension::DataReferences,
        || {
            let text = "text/plain".to_owned();
            let mut reference = DataReference::new("r".to_owned(), "issues".to_owned(), text);
            reference.access_url = Some("http://127.0.0.1:9/x".to_owned());
            server(Extension::DataReferences, answering(&reference))
        },
        true,
    ),
];

/// Returns a server with the given tool `list` and the tool `recent`.
fn server(extension: impl ServerExtension, list: Tool) -> Server {
    let recent = Tool::new("recent", "Lists recent incidents", || async { "none" });
    Server::new("issues", "1").tool(list).tool(recent).extension(extension)
}

fn list() -> Tool {
    Tool::new("list", "Lists issues", || async { "3 issues" })
}

/// Returns the tool `list`, which adds a member to its results.
fn answering<M: Member + Clone + Send + Sync + 'static>(member: &M) -> Tool {
    let member = member.clone();
    Tool::new("list", "Lists issues", move |cx: Context| {
        let added = cx.add_to_result(&member);
        async move { added.map(|()| "3 issues") }
    })
}

/// The messages that the caller and the server received.
#[derive(Debug, PartialEq)]
struct Seen {
    tools: String,
    result: String,
    /// The params that the server received, without the members that differ from call to call.
    received: String,
}

/// The parties that offer the extension.
#[derive(Clone, Copy, Debug)]
struct Offers {
    /// `Some(true)` if the client offers the extension, `Some(false)` if it speaks MGP without the extension; `None`
    /// for a client without MGP.
    client: Option<bool>,
    kernel: bool,
    server: bool,
}

async fn seen(row: &Row, era: Era, offers: Offers) -> Seen {
    let received = Arc::new(Mutex::new(String::new()));
    let (server, extension, record) = (row.server, row.extension, Arc::clone(&received));
    let only = if offers.kernel { "references.enabled = true" } else { "extensions = []" };
    let config = format!(
        "[agents.ada]\ninteractive = true\n[kernel]\nsurface = 'direct'\napproval_timeout = '50ms'\n{only}"
    );
    let builder = Kernel::builder().config(config_of(&config)).local_with(
        "issues",
        open(&["list", "recent"]),
        move || {
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
        },
    );
    let kernel = build_with_tools(builder, [("issues", 2)]).await;
    let builder = match offers.client {
        Some(true) => host_of(era).extension(row.extension),
        Some(false) => host_of(era),
        None => host_of(era).without_mgp(),
    };
    let client: Client = host(&kernel, "ada", builder).await;
    let tools = serde_json::to_string(&client.list_tools().await.unwrap()).unwrap();
    let result = match (row.call)(client.call("list")).await {
        Ok(result) => serde_json::to_string(&result).unwrap(),
        Err(error) => error.to_string(),
    };
    let result = without_approval(&result);
    client.close().await;
    kernel.stop().await;
    let received = received.lock().clone();
    Seen { tools, result, received }
}

/// Removes from a refusal the ids of approvals, which are random, and the times at which the approvals end.
fn without_approval(text: &str) -> String {
    let text = text.split("\"approval_id\"").next().unwrap_or_default();
    let mut parts = text.split("approval ");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest += part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
    }
    rest
}

/// Removes the parts of the params that differ in each call: the trace id, the handle, and the offers that a modern
/// client sends with each call.
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
async fn whatever_did_not_negotiate_an_extension_sees_what_it_saw_before() {
    let all: ExtensionSet = ROWS.iter().map(|row| row.extension).collect();
    assert_eq!(all, ExtensionSet::PROPOSALS);
    let mut wrong = Vec::new();
    for row in ROWS {
        for era in [Era::Legacy, Era::Modern] {
            let of = |client, kernel, server| seen(row, era, Offers { client, kernel, server });
            let before = of(Some(false), false, false).await;
            let plain = of(None, false, false).await;
            for bits in 1..8_u8 {
                let [client, kernel, server] = [1, 2, 4].map(|bit| bits & bit > 0);
                let now = of(Some(client), kernel, server).await;
                // The caller must see a difference only if both the caller and the kernel offer the extension.
                let is_same = (&now.tools, &now.result) == (&before.tools, &before.result);
                // The server must receive members of the extension only if all three parties offer it.
                let is_active = client && kernel && server;
                let is_received = now.received != before.received;
                let is_wrong = !(is_same || client && kernel)
                    || is_active && is_same == row.is_seen
                    || is_received != (is_active && row.is_received);
                if is_wrong {
                    let at = format!("{} {era:?} {client} {kernel} {server}", row.extension);
                    wrong.push(format!("{at}: {now:#?}, before {before:#?}"));
                }
            }
            let now = of(None, true, true).await;
            let is_mgp_seen = |text: &str| text.contains("dev.cloto/mgp");
            if now != plain || is_mgp_seen(&plain.tools) || is_mgp_seen(&plain.result) {
                wrong.push(format!("{} {era:?} plain: {now:#?}, before {plain:#?}", row.extension));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
