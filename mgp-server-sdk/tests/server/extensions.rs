//! Tests of the 19 methods and 6 notifications of MGP with each of the nine extensions, in both eras (MGP §2.4).
//!
//! If the extension of a method is not negotiated, the server sends nothing that belongs to the method, and refuses it
//! as unknown. If the extension is negotiated, the server serves the method, unless this file lists it as not served.

use mgp_testkit::{RawPeer, hello, modern_meta};
use mgp_types::method::{
    AuditNotification, Direction, Kind, MethodInfo, Notification as _, lookup, methods,
};
use mgp_types::mgp::{Extension, ExtensionSet};
use serde_json::{Value, json};

use super::bench::{Settings, server};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

/// A peer that offers one extension, or none, to a server that offers all nine.
struct Peer {
    raw: RawPeer,
    era: Era,
    capabilities: Value,
    negotiated: Value,
}

impl Peer {
    async fn new(era: Era, flags: &[&str], offered: Option<Extension>) -> Self {
        let settings = Settings::parse(flags.iter().map(ToString::to_string)).unwrap();
        let mut raw = super::raw::connect(server(&settings));
        let capabilities = offered.map_or_else(
            || json!({}),
            |extension| {
                let mgp = json!({"version": "0.3.0", "extensions": [extension.as_str()]});
                json!({"extensions": {"dev.cloto/mgp": mgp}})
            },
        );
        let answer = match era {
            Era::Legacy => {
                let answer = raw.ask("initialize", hello("2025-11-25", &capabilities)).await;
                raw.notify("notifications/initialized", json!({})).await;
                answer
            }
            Era::Modern => {
                raw.ask("server/discover", json!({"_meta": modern_meta(&capabilities)})).await
            }
        };
        let negotiated = answer["result"]["capabilities"].clone();
        Self { raw, era, capabilities, negotiated }
    }

    /// Returns the extensions that the server listed in its answer to the handshake.
    fn named(&self) -> Vec<&str> {
        let all = self.negotiated["extensions"]["dev.cloto/mgp"]["extensions"].as_array();
        all.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn params(&self, mut params: Value) -> Value {
        if self.era == Era::Modern {
            let meta = modern_meta(&self.capabilities);
            let given = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
            let mut meta = meta.as_object().unwrap().clone();
            meta.extend(given.as_object().unwrap().clone());
            params["_meta"] = meta.into();
        }
        params
    }

    async fn ask(&mut self, method: &str, params: Value) -> Vec<Value> {
        self.raw.ask_all(method, self.params(params)).await
    }

    /// Sends a notification and then a request; returns the messages before the answer, which are the reaction to the
    /// notification.
    async fn notify(&mut self, method: &str) -> Vec<Value> {
        self.raw.notify(method, self.params(json!({}))).await;
        let mut received = self.ask("tools/list", json!({})).await;
        received.pop();
        received
    }
}

const FORCED: &[&str] = &["--extensions", "all"];

fn seed() -> impl Iterator<Item = &'static MethodInfo> {
    methods().filter(|info| info.seed)
}

fn whole(info: &MethodInfo) -> Extension {
    info.extension.unwrap().whole()
}

#[tokio::test]
async fn a_method_without_its_extension_is_unknown() {
    for era in [Era::Legacy, Era::Modern] {
        let offers = Extension::STANDARD.iter().copied().map(Some).chain([None]);
        for offered in offers {
            let mut peer = Peer::new(era, FORCED, offered).await;
            assert_eq!(
                peer.named(),
                offered.map(Extension::as_str).into_iter().collect::<Vec<_>>()
            );
            for info in seed().filter(|info| Some(whole(info)) != offered) {
                if info.kind == Kind::Notification {
                    assert_eq!(peer.notify(info.name).await, [Value::Null; 0], "{}", info.name);
                    continue;
                }
                let received = peer.ask(info.name, json!({})).await;
                let code = if era == Era::Legacy { -32601 } else { -32021 };
                assert_eq!(received.len(), 1, "{received:?}");
                assert_eq!(received[0]["error"]["code"], code, "{era:?} {offered:?} {received:?}");
            }
        }
    }
}

/// Returns whether this server cannot serve an extension, because only servers of another kind do: governed servers
/// serve access control, and kernels serve both kinds of discovery.
fn is_anothers(extension: Extension) -> bool {
    matches!(extension, Extension::AccessControl | Extension::Discovery | Extension::ToolDiscovery)
}

#[tokio::test]
async fn a_method_with_its_extension_is_served() {
    let requests = || {
        seed().filter(|info| info.kind == Kind::Request && info.direction != Direction::ToClient)
    };
    for era in [Era::Legacy, Era::Modern] {
        for info in requests() {
            // Each method gets its own connection, because some methods end it.
            let mut peer = Peer::new(era, FORCED, Some(whole(info))).await;
            let answer = peer.ask(info.name, json!({})).await.pop().unwrap();
            let served = answer["error"]["code"] != -32601;
            assert_ne!(served, is_anothers(whole(info)), "{era:?} {}: {answer}", info.name);
        }
    }
}

#[tokio::test]
async fn what_is_served_is_advertised_and_nothing_else() {
    for era in [Era::Legacy, Era::Modern] {
        for &extension in Extension::STANDARD {
            let peer = Peer::new(era, &[], Some(extension)).await;
            // Some extensions have two parts, e.g. `bidirectional` has `events` and `callbacks`; the server may offer
            // only one of them.
            let offered = ExtensionSet::from_offer(peer.named());
            for info in seed().filter(|info| whole(info) == extension) {
                let is_offered = info.extension.is_some_and(|part| offered.contains(part));
                // Only a server with an endpoint for audit events offers them, and this server has none.
                let is_chosen = info.name == AuditNotification::METHOD || is_anothers(extension);
                assert_eq!(is_offered, !is_chosen, "{era:?} {extension}: {}", info.name);
            }
        }
    }
}

/// Uses every feature of the server, and returns all messages that it sends.
async fn everything(peer: &mut Peer) -> Vec<Value> {
    let call = |name: &str, arguments: Value| {
        json!({
            "name": name, "arguments": arguments,
            "_mgp": {"stream": true}, "_meta": {"progressToken": name},
        })
    };
    let calls = [
        call("echo", json!({"message": "hello"})),
        call("echo", json!({"message": 1})),
        call("stream", json!({"chunks": 3, "bytes": 4})),
        call("progress", json!({"steps": 3})),
        call("fail", json!({"code": 3000})),
        call("publish", json!({})),
        call("shell", json!({"command": "ls"})),
        call("add_tool", json!({"name": "more"})),
        call("no_such_tool", json!({})),
    ];
    let mut received = peer.ask("tools/list", json!({})).await;
    for params in calls {
        received.extend(peer.ask("tools/call", params).await);
    }
    received
}

#[tokio::test]
async fn only_negotiated_extensions_send_anything() {
    for era in [Era::Legacy, Era::Modern] {
        for &extension in Extension::STANDARD {
            let mut peer = Peer::new(era, FORCED, Some(extension)).await;
            let received = everything(&mut peer).await;
            let sent = |name: &str| received.iter().any(|message| message["method"] == name);
            let names = received.iter().filter_map(|message| message["method"].as_str());
            for info in names.filter_map(lookup).filter(|info| info.is_mgp()) {
                assert_eq!(whole(info), extension, "{era:?}: {}", info.name);
            }
            let streamed =
                [("stream.chunk", Extension::Streaming), ("stream.progress", Extension::Streaming)];
            for (name, of) in streamed {
                let name = format!("notifications/mgp.{name}");
                assert_eq!(sent(&name), of == extension, "{era:?} {extension}: {name}");
            }
        }
    }
}

#[tokio::test]
async fn a_plain_peer_sees_no_name_of_mgp() {
    for era in [Era::Legacy, Era::Modern] {
        let mut peer = Peer::new(era, FORCED, None).await;
        let mut all = vec![peer.negotiated.clone()];
        all.extend(everything(&mut peer).await);
        for message in all {
            // The messages include the error for wrong arguments, which must not mention MGP either.
            assert!(!message.to_string().to_lowercase().contains("mgp"), "{era:?}: {message}");
        }
    }
}

#[tokio::test]
async fn chunks_and_progress_carry_the_trace_of_their_call() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    for era in [Era::Legacy, Era::Modern] {
        let mut peer = Peer::new(era, &[], Some(Extension::Streaming)).await;
        for (tool, arguments) in
            [("stream", json!({"chunks": 3, "bytes": 4})), ("progress", json!({"steps": 3}))]
        {
            let params = json!({
                "name": tool, "arguments": arguments, "trace_id": TRACE, "_mgp": {"stream": true},
            });
            let received = peer.ask("tools/call", params).await;
            let parts: Vec<_> = received
                .iter()
                .filter(|message| {
                    message["method"].as_str().is_some_and(|name| name.contains("mgp"))
                })
                .collect();
            assert!(!parts.is_empty(), "{era:?} {tool}: {received:?}");
            assert!(parts.iter().all(|part| part["params"]["trace_id"] == TRACE), "{parts:?}");
        }
    }
}
