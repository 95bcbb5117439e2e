//! Tests of rows of `docs/errors.md` over `mgp serve`: 1002, 1003, 4001, 4003, 4004, 4100 to 4102, 5000 to 5002.
//!
//! The test of 4002 is in `recorded.rs`.

use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use mgp_client_sdk::{Client, Error};
use mgp_types::mcp::Era;
use mgp_types::service::{Call, Method, Params};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::refusal::Refused;
use crate::serving::Serving;
use crate::world::{ERAS, World};
use mgp_testkit::until;

/// Two servers with the same tools, and one server whose tools fail.
const CONFIG: &str = r#"
[[servers]]
id = "one"
command = "{MGP}"
args = ["__example", "notes"]
[servers.mgp]
default_policy = "opt-out"

[[servers]]
id = "two"
command = "{MGP}"
args = ["__example", "notes"]
[servers.mgp]
default_policy = "opt-out"

[[servers]]
id = "harbour"
command = "sh"
args = ["{DIR}/gateway.sh"]
[servers.mgp]
default_policy = "opt-out"
risk = { forecast = "safe", radar = "safe", tides = "safe" }
"#;

/// A shell script of a server whose tools fail with different codes.
const GATEWAY: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in *'"radar"'*) code=5001 ;; *'"tides"'*) code=5002 ;; *) code=5000 ;; esac
  schema='"inputSchema":{"type":"object"}'
  case "$line" in
    *'"initialize"'*) answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer '"result":{"tools":[{"name":"forecast","description":"Tells the weather",'"$schema"'},{"name":"radar","description":"Shows the rain",'"$schema"'},{"name":"tides","description":"Tells the tides",'"$schema"'}]}' ;;
    *'"tools/call"'*) answer '"error":{"code":'"$code"',"message":"the weather service says no"}' ;;
    *'"id"'*) [ -n "$id" ] && answer '"error":{"code":-32601,"message":"unknown"}' ;;
  esac
done
"#;

/// Starts hosts of both eras, with and without MGP.
async fn hosts(world: &World) -> Vec<(Era, bool, Client)> {
    let mut hosts = Vec::new();
    for era in ERAS {
        for plain in [true, false] {
            let builder = Client::builder("host", "1");
            let builder = if plain { builder.without_mgp() } else { builder };
            let agent = format!("ada{}", hosts.len());
            hosts.push((era, plain, world.host(&agent, era, builder).await));
        }
    }
    hosts
}

#[tokio::test]
async fn unknown_and_ambiguous_tools_and_resources_are_refused() {
    let world = World::new(CONFIG);
    world.write("gateway.sh", GATEWAY);
    let hosts = hosts(&world).await;
    world.knows(11).await;
    for (era, plain, host) in &hosts {
        let error = host.call("no_such_tool").await.unwrap_err();
        let expected = if *plain { -32602 } else { 4001 };
        assert_eq!(error.code().0, expected, "{era:?}: {error}");
        assert!(error.message().contains("no_such_tool"), "{error}");

        for arguments in [json!({}), json!({"name": "notes.list", "arguments": {}})] {
            let is_own = arguments == json!({});
            let tool = if is_own { "notes.list" } else { "mgp_tools_call" };
            let refused = Refused::of(host.call(tool).args(&arguments).await);
            assert_eq!(refused.code, 4003, "{era:?} {plain}: {refused:?}");
            for name in ["one.notes.list", "two.notes.list"] {
                assert!(refused.reason.contains(name), "{refused:?}");
            }
        }
        host.call("two.notes.list").await.unwrap();

        let error = host.read_resource("nowhere:///a").await.unwrap_err();
        let expected = match era {
            _ if !plain => 4004,
            Era::Legacy => -32002,
            Era::Modern => -32602,
        };
        assert_eq!(error.code().0, expected, "{era:?} {plain}: {error}");
    }
}

#[tokio::test]
async fn failures_behind_a_server_are_passed_on() {
    let url = broken().await;
    let web = format!(
        "{CONFIG}[[servers]]\nid = 'web'\nurl = '{url}'\n[servers.mgp]\ndefault_policy = 'opt-out'\n\
         risk = {{ breaks = 'safe' }}\n"
    );
    let world = World::new(&web);
    world.write("gateway.sh", GATEWAY);
    let hosts = hosts(&world).await;
    world.knows(12).await;
    for (era, plain, host) in &hosts {
        for (tool, code) in [("forecast", 5000), ("radar", 5001), ("tides", 5002)] {
            let refused = Refused::of(host.call(tool).await);
            assert_eq!(refused.code, code, "{era:?} {plain}: {refused:?}");
            assert!(refused.reason.contains("the weather service says no"), "{refused:?}");
        }
        let refused = Refused::of(host.call("breaks").await);
        assert_eq!(refused.code, 5000, "{era:?} {plain}: {refused:?}");
        assert!(refused.reason.contains("500"), "{refused:?}");
    }
}

/// Starts an HTTP server whose tool answers with status 500; returns its URL.
async fn broken() -> String {
    async fn answer(message: String) -> Response {
        let message: Value = message.parse().unwrap();
        let reply = |answer: Value| {
            ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
        };
        let id = &message["id"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"},
            }),
            "tools/list" => {
                json!({"tools": [{"name": "breaks", "description": "Breaks", "inputSchema": {"type": "object"}}]})
            }
            "tools/call" => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            _ if id.is_null() => return StatusCode::ACCEPTED.into_response(),
            _ => {
                let error = json!({"code": -32601, "message": "unknown"});
                return reply(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        reply(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = axum::Router::new().route("/mcp", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test]
async fn invalid_registrations_are_refused() {
    let world = World::new(CONFIG);
    world.write("gateway.sh", GATEWAY);
    let hosts = hosts(&world).await;
    world.knows(11).await;
    // Each host acts as an agent of its own, because registrations are limited per agent.
    for agent in 0..hosts.len() {
        for tool in ["mgp.discovery.register", "mgp.discovery.deregister"] {
            world.quietly(&["access", "grant", &format!("ada{agent}"), "mgp", tool]);
        }
    }
    let script = json!({"id": "made", "command": "sh", "args": ["-c", "exec sleep 60"]});
    let program = env!("CARGO_BIN_EXE_mgp");
    for (era, plain, host) in &hosts {
        for (method, params, code) in [
            ("mgp/discovery/register", &script, 4100),
            ("mgp/discovery/register", &json!({"id": "one", "command": program}), 4101),
            ("mgp/discovery/deregister", &json!({"id": "one"}), 4102),
            ("mgp/discovery/deregister", &json!({"id": "nothing"}), 4004),
        ] {
            let case = format!("{era:?} {plain} {method} {code}");
            let refused = Refused::of(host.call(method).args(params).await);
            assert_eq!(refused.code, code, "{case}: {refused:?}");
            assert_eq!(refused.details["server_id"], params["id"], "{case}: {refused:?}");
            let error = ask(host, method, params).await.unwrap_err();
            assert_eq!(error.0, if *plain { -32601 } else { code }, "{case}: {}", error.1);
        }
    }
    let servers = world.json(&["servers", "ls"]);
    assert_eq!(servers.as_array().unwrap().len(), 3, "{servers}");
}

/// Sends a request with this method; returns the code and the message if it is refused.
async fn ask(host: &Client, method: &str, params: &Value) -> Result<(), (i32, String)> {
    let params = Params::split(method, params.to_string().into()).unwrap();
    let call = Call::request(Method::of(method), params, host.context());
    let answer = host.stack().send(call).await;
    answer.map(drop).map_err(|error| (error.code().0, error.message().to_owned()))
}

#[tokio::test]
async fn missing_wrong_and_expired_credentials_are_refused() {
    let world = World::new("");
    let serving = Serving::new(&world).await;
    // A request with a missing or unknown key gets status 401; the test reads the raw HTTP response.
    for shown in ["", "Authorization: Bearer mgp_0123_wrong\r\n", "Authorization: Basic YTpi\r\n"] {
        let answer = asked(&serving.url, shown).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("www-authenticate: bearer"), "{answer}");
        assert!(answer.contains(r#""code":1002"#), "{answer}");
    }
    let code = |error: Error| error.code().0;
    assert_eq!(code(serving.host(None).await.unwrap_err()), 1002);

    let made = world.json(&["keys", "add", "ada"]);
    let key = made["key"].as_str().unwrap();
    let host = serving.comes(key).await;
    host.list_tools().await.unwrap();
    let brief = world.json(&["keys", "add", "ada", "--expires", "4s"]);
    let brief = brief["key"].as_str().unwrap();
    let last = serving.comes(brief).await;
    // An expired key is refused with another code than an unknown key.
    let until_now = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        match last.list_tools().await {
            Err(error) if error.code().0 == 1003 => break,
            other => assert!(tokio::time::Instant::now() < until_now, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = asked(&serving.url, &format!("Authorization: Bearer {brief}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains(r#""code":1003"#), "{answer}");
    assert_eq!(code(serving.host(Some(brief)).await.unwrap_err()), 1003);

    world.quietly(&["keys", "revoke", made["id"].as_str().unwrap()]);
    until("the key has ended", async || host.list_tools().await.is_err()).await;
    let answer = asked(&serving.url, &format!("Authorization: Bearer {key}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

/// Sends a raw HTTP request with a header, and returns the whole response.
async fn asked(url: &str, header: &str) -> String {
    let place = url.strip_prefix("http://").unwrap();
    let (address, path) = place.split_once('/').unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\
         {header}\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
