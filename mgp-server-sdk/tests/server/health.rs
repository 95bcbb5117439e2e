//! Tests that a server reports its health under any load (MGP §11.3).

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_testkit::{RawPeer, hello, modern_meta};
use serde_json::{Value, json};

async fn connect(server: Server) -> RawPeer {
    let mut raw = super::raw::connect(server);
    let mgp = json!({"mgp": {"version": "0.3.0", "extensions": ["lifecycle"]}});
    let answer = raw.ask("initialize", hello("2025-11-25", &mgp)).await;
    let negotiated = &answer["result"]["capabilities"]["mgp"]["extensions"];
    assert_eq!(negotiated, &json!(["lifecycle"]), "{answer}");
    raw.notify("notifications/initialized", json!({})).await;
    raw
}

/// Sends a tool call without waiting for it.
async fn begin(raw: &mut RawPeer, id: u64, tool: &str) {
    let params = json!({"name": tool, "arguments": {}});
    raw.write(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
}

#[tokio::test]
async fn a_status_has_real_figures_and_the_checks_of_its_author() {
    let server = Server::new("books", "1.0")
        .tool(Tool::new("now", "The time", || async { "noon" }))
        .tool(Tool::new("hangs", "Hangs", std::future::pending::<String>))
        .offer(|offer| offer.mgp.as_mut().unwrap().server_id = Some("books.main".to_owned()))
        .check("database", || async { true })
        .health(|health| health.optional_check("search", || async { false }))
        .health(|health| health.resource("books", || async { 12_000 }));
    assert!(server.tools().disable("now"));
    let mut raw = connect(server).await;
    for id in 100..103 {
        begin(&mut raw, id, "hangs").await;
    }
    let status = raw.ask("mgp/health/status", json!({})).await;
    let status = &status["result"];
    assert_eq!(status["status"], "degraded", "{status}");
    assert_eq!((&status["tools_total"], &status["tools_available"]), (&json!(2), &json!(1)));
    assert_eq!(status["pending_requests"], 3);
    assert_eq!(status["checks"], json!({"database": true, "search": false}));
    assert_eq!(status["resources"]["books"], 12_000);
    assert_eq!(status["resources"]["open_connections"], 1);
    assert_eq!(status["resources"]["memory_bytes"].is_u64(), cfg!(target_os = "linux"));
    let ping = raw.ask("mgp/health/ping", json!({"timestamp": "2026-02-27T12:00:00Z"})).await;
    assert_eq!(ping["result"]["status"], "degraded", "{ping}");
    assert_eq!(ping["result"]["server_id"], "books.main");
    assert!(ping["result"]["timestamp"].is_string() && ping["result"]["uptime_secs"].is_u64());
    let moon = raw.ask("mgp/health/ping", json!({"server_id": "moon"})).await;
    assert_eq!(moon["result"], json!({"server_id": "moon", "status": "not_found"}));
}

/// A tool repeatedly blocks the worker thread that was reading from the connection, until the test releases the tool.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_ping_is_answered_while_a_tool_blocks_its_thread() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let blocks = Tool::new("blocks", "Blocks its thread", move || {
        let blocked = Arc::clone(&blocked);
        async move {
            let freed = blocked.lock().unwrap().recv_timeout(Duration::from_mins(1)).is_ok();
            if freed { "freed" } else { "forgotten" }
        }
    });
    let (here, there) = tokio::net::UnixStream::pair().unwrap();
    let (reader, writer) = there.into_split();
    tokio::spawn(Server::new("s", "1").tool(blocks).serve(reader, writer));
    let talk = tokio::spawn(async move {
        let (reader, mut writer) = here.into_split();
        let mut lines = BufReader::new(reader).lines();
        let mgp = json!({"mgp": {"version": "0.3.0", "extensions": ["lifecycle"]}});
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello("2025-11-25", &mgp)});
        writer.write_all(format!("{initialize}\n").as_bytes()).await.unwrap();
        lines.next_line().await.unwrap().unwrap();
        for round in 0..20 {
            let call = json!({"jsonrpc": "2.0", "id": 1000 + round, "method": "tools/call", "params": {"name": "blocks"}});
            writer.write_all(format!("{call}\n").as_bytes()).await.unwrap();
            // Wait, so that every task of the server has time to become idle before the pings arrive.
            tokio::time::sleep(Duration::from_millis(2)).await;
            for ping in 0..5 {
                let ping = json!({"jsonrpc": "2.0", "id": ping, "method": "mgp/health/ping"});
                writer.write_all(format!("{ping}\n").as_bytes()).await.unwrap();
                let answer: Value =
                    serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
                assert_eq!(answer["result"]["status"], "healthy", "{answer}");
            }
            release.send(()).unwrap();
            let answer = lines.next_line().await.unwrap().unwrap();
            assert!(answer.contains("freed"), "{answer}");
        }
    });
    tokio::time::timeout(Duration::from_secs(50), talk).await.unwrap().unwrap();
}

#[tokio::test]
async fn over_http_connections_are_counted() {
    let bound = Server::new("s", "1").http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let address = bound.local_addr();
    let running = tokio::spawn(bound.run());
    let mgp = json!({"version": "0.3.0", "extensions": ["lifecycle"]});
    let meta = modern_meta(&json!({"extensions": {"dev.cloto/mgp": mgp}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "mgp/health/status", "params": {"_meta": meta}});
    let body = body.to_string();
    let _idle = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: mgp/health/status";
    let answer = mgp_testkit::http_exchange(address, head, &body).await;
    assert!(answer.contains(r#""open_connections":2"#), "{answer}");
    running.abort();
}
