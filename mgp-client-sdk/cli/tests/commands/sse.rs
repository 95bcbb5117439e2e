//! Tests of servers with the older HTTP+SSE transport behind a kernel.

use std::time::Duration;

use mgp_testkit::until_blocking;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kernel::Kernel;
use crate::login::{TestServer, get, post_json};
use crate::world::Home;

fn kernel(server: &TestServer, more: &str) -> Kernel {
    let home = Home::new();
    let config = format!(
        "[[servers]]\nid = 'old'\nurl = '{}/sse'\n{more}\n\
         [servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ echo = 'safe' }}\n",
        server.origin
    );
    home.configure(&config);
    let kernel = Kernel::on(home, None);
    until_blocking("the tools are listed", || kernel.server("old")["tools"] == 1);
    kernel
}

#[track_caller]
fn echoes(kernel: &Kernel) {
    let out = kernel.home.succeed(&["tools", "call", "old.echo", "text=hi there"]);
    assert_eq!(out.trim(), "hi there");
}

#[test]
fn a_server_of_the_old_transport_is_used_if_the_configuration_says_so() {
    let server = TestServer::new("sse_server");
    let kernel = kernel(&server, "transport = 'sse'");
    echoes(&kernel);
    assert_eq!(kernel.server("old")["era"], "legacy");
    let report = kernel.home.json("doctor", &["doctor", "old"]);
    assert_eq!(report["tools"], 1, "{report}");

    get(&format!("{}/end", server.origin));
    until_blocking("the lost stream is opened again", || {
        let called = kernel.home.run(&["tools", "call", "old.echo", "text=back"]);
        called.out.trim() == "back"
    });
}

#[test]
fn a_server_that_accepts_only_the_old_transport_is_found_by_callers_of_both_eras() {
    let server = TestServer::new("sse_server");
    let kernel = kernel(&server, "");
    echoes(&kernel);
    let url: Value =
        std::fs::read_to_string(kernel.home.path("ready.json")).unwrap().parse().unwrap();
    let url = url["http"].as_str().unwrap();
    let arguments = json!({ "name": "mgp_tools_call",
        "arguments": { "name": "old.echo", "arguments": { "text": "modern" } } });
    let modern = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments });
    call["params"]["_meta"] = modern;
    let headers =
        ["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: mgp_tools_call"];
    let answer = post_json(url, &headers, &call);
    assert!(answer.contains("modern") && !answer.contains("isError\":true"), "{answer}");
}

/// According to MCP, a server that accepts only the old transport answers a request of the new one with the status 400,
/// 404 or 405.
#[test]
fn a_server_that_answers_the_new_transport_with_400_is_found() {
    let server = TestServer::with("sse_server", &["400"]);
    echoes(&kernel(&server, ""));
}

/// Regression test: the kernel requested the list of tools while it was still sending `notifications/initialized`.
#[test]
fn the_tools_are_requested_after_the_server_knows_that_the_client_is_initialized() {
    let server = TestServer::with("sse_server", &["strict"]);
    echoes(&kernel(&server, "transport = 'sse'"));
    assert_eq!(get(&format!("{}/early", server.origin)).1, "0");
}

#[test]
fn an_answer_above_the_size_limit_fails_its_call_at_once() {
    let server = TestServer::new("sse_server");
    let kernel = kernel(&server, "transport = 'sse'\nlimits.max_message = 65536");
    let text = format!("text={}", "x".repeat(100_000));
    let started = Instant::now();
    kernel.home.fail(1, &["tools", "call", "old.echo", &text], "larger than 65536 bytes");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    echoes(&kernel);
}
