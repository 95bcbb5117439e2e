//! Tests of an agent that requests a server of a registry that is at a URL: a person sees the URL and its headers,
//! approves them, and logs in at the server if it asks for a login.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use mgp_client_sdk::Client;
use mgp_testkit::{HttpRequest, KilledChild, http_response, serve_http, until};
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::place::Place;
use crate::published::{ask, store_secret};
use crate::world::World;

/// Returns a registry entry with one remote server.
fn entry(name: &str, remote: &Value) -> Value {
    let name = format!("io.github.acme/{name}");
    json!({ "server": {
        "name": name, "description": "A server elsewhere", "version": "1.0.0", "remotes": [remote],
    } })
}

fn far(url: &str) -> Value {
    entry(
        "far",
        &json!({
            "type": "streamable-http", "url": format!("{url}/{{room}}/mcp"),
            "variables": { "room": { "description": "The room", "isRequired": true } },
            "headers": [
                { "name": "X-Key", "description": "The key", "isRequired": true, "isSecret": true },
                { "name": "X-Mode", "value": "plain" },
                { "name": "X-Note", "description": "A note", "isSecret": true },
            ],
        }),
    )
}

/// Returns registry entries of remote servers that an agent cannot register, each with a part of the reason.
fn others() -> [(Value, &'static str); 9] {
    let at = |name: &str, url: &str| entry(name, &json!({ "type": "streamable-http", "url": url }));
    let with = |name: &str, url: &str, more: Value| {
        let mut remote = json!({ "type": "streamable-http", "url": url });
        remote.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry(name, &remote)
    };
    let host = json!({ "variables": { "host": { "default": "a" } } });
    let secret = json!({ "variables": { "key": { "isSecret": true, "isRequired": true } } });
    let header = json!({ "headers": [{ "name": "Host", "value": "inside.example" }] });
    [
        (at("plain", "http://far.example/mcp"), "not https"),
        (at("inside", "https://10.0.0.1/mcp"), "a public host"),
        (at("local", "https://localhost/mcp"), "a public host"),
        (at("intranet", "https://intranet/mcp"), "a public host"),
        (at("user", "https://a:b@far.example/mcp"), "a user name in its URL"),
        (with("steered", "https://{host}.example/mcp", host), "whose host depends on a value"),
        (with("secret", "https://far.example/mcp?key={key}", secret), "a secret in its URL"),
        (with("header", "https://far.example/mcp", header), "a header that is not valid"),
        (entry("sse", &json!({ "type": "sse", "url": "https://far.example/sse" })), "HTTP+SSE"),
    ]
}

/// Answers a request as a legacy server with one tool.
fn answer(request: &HttpRequest) -> String {
    let body = request.value();
    let method = body["method"].as_str().unwrap_or_default();
    let headers = "content-type: application/json\r\nmcp-session-id: s\r\n";
    let result = |result: Value| {
        let answer = json!({ "jsonrpc": "2.0", "id": body["id"], "result": result });
        http_response(200, headers, &answer.to_string())
    };
    match method {
        _ if request.head.starts_with("get ") => http_response(405, "", ""),
        "initialize" => result(json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "far", "version": "1" },
        })),
        _ if !request.head.contains("mcp-session-id: s\r") => {
            let error = json!({ "code": -32000, "message": "No valid session ID provided" });
            let answer = json!({ "jsonrpc": "2.0", "id": null, "error": error });
            http_response(400, headers, &answer.to_string())
        }
        "tools/list" => result(json!({ "tools": [
            { "name": "hail", "description": "Greets", "inputSchema": { "type": "object" } },
        ] })),
        "tools/call" => result(json!({ "content": [{ "type": "text", "text": "ahoy" }] })),
        _ if body["id"].is_null() => http_response(202, headers, ""),
        _ => result(json!({})),
    }
}

/// Runs `mgp approvals approve`; returns whether it succeeded, and its notes.
fn approve(world: &World, id: &Value) -> (bool, String) {
    let output = world.command(&["approvals", "approve", id.as_str().unwrap()]).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the text of the only open approval.
fn card(world: &World) -> String {
    world.json(&["approvals", "ls"])[0]["question"].as_str().unwrap().to_owned()
}

async fn agent(world: &World) -> Client {
    let ada = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.register"]);
    ada
}

#[tokio::test]
async fn an_agent_asks_for_a_server_at_a_url_and_a_person_approves_exactly_that() {
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&heads);
    let url = serve_http(move |request| {
        log.lock().unwrap().push(request.head.clone());
        answer(request)
    });
    let refused = others().map(|(entry, _)| entry);
    let place = Place::with(refused.into_iter().chain([far(&url)]).collect());
    let world = World::new(&format!("[kernel.registry]\nurl = '{}'\n", place.url));
    let ada = agent(&world).await;
    for (entry, why) in others() {
        let refused = ask(&ada, json!({ "id": "far", "published": entry["server"]["name"] })).await;
        let refused = refused.to_string();
        assert!(refused.contains(why) && refused.contains("mgp servers add"), "{why}: {refused}");
    }
    for direct in [json!({ "command": url }), json!({ "command": "x", "transport": "http" })] {
        let mut direct = direct;
        direct["id"] = "far".into();
        let refused = ask(&ada, direct).await.to_string();
        assert!(refused.contains("`mgp servers add ID --url URL`"), "{refused}");
    }
    let published = json!({ "id": "far", "published": "io.github.acme/far" });
    let refused = ask(&ada, published.clone()).await.to_string();
    assert!(refused.contains("the server asks for `ROOM`"), "{refused}");
    assert_eq!(world.json(&["approvals", "ls"]), json!([]));

    let mut blue = published;
    blue["env"] = json!({ "ROOM": "blue" });
    let reply = ask(&ada, blue).await;
    assert_eq!(reply["status"], "pending_approval", "{reply}");
    let card = self::card(&world);
    for shown in [
        &*format!("io.github.acme/far 1.0.0 of {}", place.url),
        &*format!("is at      {url}/blue/mcp"),
        "is sent    X-Key: ${keyring:far.X_KEY}",
        "is sent    X-Mode: plain",
        "mgp secrets set far.X_KEY",
        "mgp servers login far",
        "can change without another approval",
    ] {
        assert!(card.contains(shown), "{shown}: {card}");
    }
    assert!(!card.contains("X-Note:") && !card.contains("is already stored"), "{card}");
    assert!(heads.lock().unwrap().is_empty(), "nothing is sent before the approval");
    let (is_approved, why) = approve(&world, &reply["approval_id"]);
    assert!(!is_approved && why.contains("`mgp secrets set far.X_KEY`"), "{why}");
    store_secret(&world, "far.X_KEY", "geheim9");
    let (is_approved, found) = approve(&world, &reply["approval_id"]);
    assert!(is_approved, "{found}");
    world.knows(1).await;
    let sent = heads.lock().unwrap().clone();
    for part in [" /blue/mcp http", "x-key: geheim9\r\n", "x-mode: plain\r\n"] {
        assert!(sent.iter().all(|head| head.contains(part)), "{part}: {sent:?}");
    }
    call_and_remove(&world, &ada).await;
    ada.close().await;
}

/// Calls the tool of the approved server, and removes the server. The card of a later server with its id names the
/// secret that is still stored.
async fn call_and_remove(world: &World, ada: &Client) {
    let servers = world.json(&["servers", "ls", "far"]);
    assert_eq!(servers[0]["trust_level"], "sandboxed", "{servers}");
    assert_eq!(servers[0]["source"], "registered", "{servers}");
    assert!(servers[0]["reach"].as_str().unwrap().ends_with("/blue/mcp"), "{servers}");
    assert!(!servers.to_string().contains("geheim9"), "{servers}");
    let arguments = json!({ "name": "far.hail", "arguments": {} });
    let call = async || match ada.call("mgp_tools_call").args(arguments.clone()).await {
        Ok(answer) => serde_json::to_string(&answer).unwrap(),
        Err(error) => error.to_string(),
    };
    assert!(!call().await.contains("ahoy"), "access is another decision");
    world.quietly(&["access", "grant", "ada", "far", "hail", "--no-confirm"]);
    until("the tool is called", async || call().await.contains("ahoy")).await;
    let removed = world.command(&["servers", "rm", "far"]).output().unwrap();
    let note = String::from_utf8(removed.stderr).unwrap();
    let has_note = note.contains("its stored secrets stay: far.X_KEY; `mgp secrets rm NAME`");
    assert!(removed.status.success() && has_note, "{note}");
    assert_eq!(world.json(&["servers", "ls"]), json!([]));
    let again = json!({ "id": "far", "published": "io.github.acme/far", "env": { "ROOM": "red" } });
    let reply = ask(ada, again).await;
    assert_eq!(reply["status"], "pending_approval", "{reply}");
    let card = card(world);
    assert!(card.contains("the secret `far.X_KEY` is already stored"), "{card}");
}

/// Sends a GET request; returns the head and the body of the response.
fn get(url: &str) -> (String, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Runs `mgp servers login far`, and logs in as a user by following the redirects like a browser.
fn log_in(world: &World) {
    let mut login = world.command(&["servers", "login", "far"]);
    let login = login.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut login = KilledChild(login);
    let mut output = BufReader::new(login.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("/authorize?") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the login printed no address");
    }
    let (head, _) = get(&format!("{}&user=ada", line.trim()));
    get(head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(login.wait().unwrap().success(), "{rest}");
}

#[tokio::test]
async fn a_person_logs_in_at_a_registered_server_and_the_login_is_removed_with_it() {
    let mut issuer = Command::new(mgp_testkit::program("oauth_server"));
    let mut issuer = KilledChild(issuer.stdout(Stdio::piped()).spawn().unwrap());
    let mut origin = String::new();
    BufReader::new(issuer.stdout.take().unwrap()).read_line(&mut origin).unwrap();
    let origin = origin.trim();
    let remote = json!({ "type": "streamable-http", "url": format!("{origin}/mcp") });
    let place = Place::with(vec![entry("far", &remote)]);
    let world = World::new(&format!("[kernel.registry]\nurl = '{}'\n", place.url));
    let ada = agent(&world).await;
    let reply = ask(&ada, json!({ "id": "far", "published": "io.github.acme/far" })).await;
    let unknown = world.command(&["servers", "login", "far"]).output().unwrap();
    assert!(!unknown.status.success(), "it is not approved");
    // The command fails if the kernel has learnt by then that it cannot connect without a login.
    let (_, noted) = approve(&world, &reply["approval_id"]);
    let is_named = noted.contains("run `mgp servers login far`");
    assert!(is_named || noted.contains("check again later"), "{noted}");
    let server = || world.json(&["servers", "ls", "far"])[0].clone();
    until("the lack of a login is shown", async || {
        server()["error"].to_string().contains("run `mgp servers login far`")
    })
    .await;
    log_in(&world);
    let tokens = world.path("state/logins/far.json");
    assert!(tokens.exists(), "the tokens are stored");
    until("the server is connected", async || server()["status"] == "connected").await;
    world.knows(1).await;
    get(&format!("{origin}/test/no-registration"));
    let refused = world.command(&["servers", "login", "far"]).output().unwrap();
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.contains("accepts no registrations"), "{refused}");
    assert!(refused.contains("then `mgp servers add far --url URL`"), "{refused}");
    world.quietly(&["servers", "rm", "far"]);
    until("the tokens are removed", async || !tokens.exists()).await;
    let mut log = String::new();
    until("the tokens are revoked", async || {
        log.push_str(&get(&format!("{origin}/test/log")).1);
        log.contains("revoke refresh ada")
    })
    .await;
    ada.close().await;
}
