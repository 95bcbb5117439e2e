//! Tests that a host over streams and a host over HTTP receive only their own messages, and cancel only their own
//! calls, if they use the same request ids and progress tokens.
//!
//! Both hosts write their messages without an SDK, because an SDK would choose different ids.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_testkit::{RawPeer, http_exchange};
use mgp_types::mcp::Era;
use mgp_types::service::Principal;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use super::world::{kernel_with, limit_era, open, raw_peer, until};

#[derive(Deserialize, JsonSchema)]
struct Who {
    /// The name of the caller.
    who: String,
}

/// The state that the calls of both hosts share.
struct Shared {
    both: Barrier,
    runs: AtomicUsize,
    ends: Notify,
}

/// A guard that counts a running call until it is dropped.
struct RunningCall(Arc<Shared>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.runs.fetch_sub(1, Ordering::SeqCst);
    }
}

fn server(shared: &Arc<Shared>, era: Era) -> Server {
    let meet = Arc::clone(shared);
    let talk = Tool::new("talk", "Talks", move |Args(Who { who }): Args<Who>, cx: Context| {
        let met = Arc::clone(&meet);
        async move {
            met.both.wait().await;
            let total = if who == "ann" { 1000.0 } else { 2000.0 };
            for step in 1..=20 {
                let _ = cx.outlet.progress(step.into(), total).await;
                tokio::task::yield_now().await;
            }
            met.both.wait().await;
            format!("done for {who}")
        }
    });
    let shared = Arc::clone(shared);
    let hold = Tool::new("hold", "Holds", move |Args(Who { who }): Args<Who>| {
        let shared = Arc::clone(&shared);
        async move {
            shared.runs.fetch_add(1, Ordering::SeqCst);
            let _runs = RunningCall(Arc::clone(&shared));
            shared.ends.notified().await;
            format!("done for {who}")
        }
    });
    limit_era(Server::new("s", "1").tool(talk).tool(hold), era)
}

async fn world(era: Era) -> (Kernel, Arc<Shared>) {
    let shared = Shared { both: Barrier::new(2), runs: AtomicUsize::new(0), ends: Notify::new() };
    let shared = Arc::new(shared);
    let made = Arc::clone(&shared);
    let make = move || server(&made, era);
    let kernel = kernel_with("s", open(&["talk", "hold"]), 2, make).await;
    (kernel, shared)
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }})
}

/// Returns a request that differs between the hosts only in the name of the host.
fn call(tool: &str, who: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": tool, "arguments": {"who": who}, "_meta": {"progressToken": "same"},
    }})
}

fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A host over streams.
struct Streams(RawPeer);

impl Streams {
    async fn new(kernel: &Kernel, agent: &str) -> Self {
        let mut this = Self(raw_peer(kernel, agent));
        this.0.write(&hello()).await;
        this.answer().await;
        this.0.write(&notification("notifications/initialized", &json!({}))).await;
        this
    }

    /// Reads all messages up to and including the next response, and returns their text.
    async fn answer(&mut self) -> String {
        let mut all = String::new();
        while let Some(line) = self.0.read_line().await {
            all += &line;
            if line.contains("\"result\"") || line.contains("\"error\"") {
                return all;
            }
        }
        panic!("the stream ended after {all}");
    }
}

/// A host over HTTP that opens a connection for each request.
struct Posts {
    address: SocketAddr,
    /// The header line with the id of the session, preceded by the end of the previous line; empty before the session
    /// begins.
    session: String,
}

impl Posts {
    async fn new(kernel: &Kernel, agent: &str) -> Self {
        let principal = Principal::local().agent(agent);
        let http = kernel.server().http("127.0.0.1:0").no_auth();
        let bound = http.config(|config| config.anonymous = Some(principal)).bind().await.unwrap();
        let address = bound.local_addr();
        tokio::spawn(bound.run());
        let mut this = Self { address, session: String::new() };
        let greeted = this.post(&hello()).await;
        let session = greeted.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
        });
        this.session = format!("\r\nMcp-Session-Id: {}", session.unwrap());
        this.post(&notification("notifications/initialized", &json!({}))).await;
        this
    }

    /// Sends a request and returns the whole response.
    async fn post(&self, message: &Value) -> String {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18{}",
            self.session
        );
        http_exchange(self.address, &head, &message.to_string()).await
    }
}

#[track_caller]
fn check(received: &str, own: (&str, &str), other: (&str, &str)) {
    assert!(received.contains(&format!("done for {}", own.0)), "{received}");
    assert_eq!(received.matches(own.1).count(), 20, "{received}");
    let crossed = received.contains(&format!("done for {}", other.0)) || received.contains(other.1);
    assert!(!crossed, "a message for {} at {}: {received}", other.0, own.0);
}

#[tokio::test]
async fn progress_and_answers_with_equal_ids_and_tokens_stay_with_each() {
    for below in [Era::Legacy, Era::Modern] {
        let (kernel, _shared) = world(below).await;
        let mut ann = Streams::new(&kernel, "ann").await;
        let bob = Posts::new(&kernel, "bob").await;
        ann.0.write(&call("talk", "ann")).await;
        let asked = call("talk", "bob");
        let (of_ann, of_bob) = tokio::join!(ann.answer(), bob.post(&asked));
        let (one, two) = (("ann", "1000"), ("bob", "2000"));
        check(&of_ann, one, two);
        check(&of_bob, two, one);
    }
}

#[tokio::test]
async fn a_cancellation_by_one_host_leaves_the_call_of_the_other() {
    for below in [Era::Legacy, Era::Modern] {
        let (kernel, shared) = world(below).await;
        let mut ann = Streams::new(&kernel, "ann").await;
        let bob = Arc::new(Posts::new(&kernel, "bob").await);
        let runs = |count: usize| {
            let shared = Arc::clone(&shared);
            move || {
                let there = shared.runs.load(Ordering::SeqCst) == count;
                async move { there }
            }
        };
        ann.0.write(&call("hold", "ann")).await;
        let posts = Arc::clone(&bob);
        let held = tokio::spawn(async move { posts.post(&call("hold", "bob")).await });
        until("both run", runs(2)).await;
        ann.0.write(&notification("notifications/cancelled", &json!({"requestId": 7}))).await;
        until("one was cancelled", runs(1)).await;
        // The only running call with this request id is now that of the other host. It must not be cancelled.
        ann.0.write(&notification("notifications/cancelled", &json!({"requestId": 7}))).await;
        ann.0.write(&json!({"jsonrpc": "2.0", "id": 8, "method": "ping"})).await;
        while !ann.answer().await.contains("\"id\":8") {}
        assert!(shared.runs.load(Ordering::SeqCst) == 1 && !held.is_finished());
        shared.ends.notify_waiters();
        let received = held.await.unwrap();
        assert!(received.contains("done for bob") && !received.contains("ann"), "{received}");
    }
}
