//! Tests of callers over HTTP with access tokens and over TLS, and of the receivers to which the kernel sends the
//! events of the audit log.
//!
//! The files in `access/` are fixed: an Ed25519 key set; tokens, of which all but one are valid until 2100; two
//! certificate authorities, each with a certificate for `localhost` and `127.0.0.1`, valid until 2099.

use std::fs;
use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use mgp_client_sdk::{Client, ToolResult as _};
use mgp_testkit::{http_exchange, until};
use mgp_types::RawObject;
use mgp_types::method::TransactionBegin;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{BeginTransactionParams, Compensation, TransactionId};
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::world::World;

const NOTES: &str = r#"
[[servers]]
id = "notes"
command = "{MGP}"
args = ["__example", "notes"]
[servers.mgp]
default_policy = "opt-out"
"#;

pub(crate) fn token(name: &str) -> String {
    let tokens: Value = include_str!("access/tokens.json").parse().unwrap();
    tokens[name].as_str().unwrap().to_owned()
}

pub(crate) fn with_tokens(more: &str) -> World {
    let world = World::new(&format!(
        "{NOTES}[kernel.http.tokens]\nissuer = \"https://issuer.example\"\n\
         resource = \"https://mgp.example/mcp\"\nkeys = \"{{DIR}}/jwks.json\"\nscopes = [\"tools\"]\n{more}"
    ));
    world.write("jwks.json", include_str!("access/jwks.json"));
    world
}

#[tokio::test]
async fn the_metadata_lists_the_scopes_that_every_token_needs() {
    let world = with_tokens("operator_scope = \"mgp:admin\"\n");
    let serving = Serving::new(&world).await;
    let address = serving.url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp"));
    let head = "GET /.well-known/oauth-protected-resource/mcp HTTP/1.1";
    let answer = http_exchange(address.unwrap().parse().unwrap(), head, "").await;
    assert!(answer.contains(r#""scopes_supported":["tools"]"#), "{answer}");
}

#[tokio::test]
async fn access_tokens_admit_callers_as_the_agents_they_name() {
    let world = with_tokens("operator_scope = \"mgp:admin\"\n");
    let serving = Serving::new(&world).await;
    let planner = serving.host(Some(&token("good"))).await.unwrap();
    planner.list_tools().await.unwrap();
    let clients = world.json(&["status"])["clients"].take();
    assert!(clients.as_array().unwrap().iter().any(|one| one["agent"] == "planner"), "{clients}");
    for (refused, reason) in [
        ("other_audience", "the token is for another resource"),
        ("other_issuer", "the token is from another issuer"),
        ("expired", "expired"),
        ("no_scope", "insufficient_scope"),
    ] {
        let error = serving.host(Some(&token(refused))).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{refused}: {error}");
    }
    // The kernel still accepts API keys. It treats the caller of a token as an operator only if the token has the scope
    // of operators.
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    serving.comes(&key).await;
    let boss = serving.host(Some(&token("operator"))).await.unwrap();
    let arguments = serde_json::json!({"agent_id": "other", "server_id": "notes"});
    boss.call("mgp.access.query").args(&arguments).await.unwrap();
    let refused = planner.call("mgp.access.query").args(&arguments).await.unwrap_err();
    assert_eq!(refused.code().0, 1000, "{refused}");
}

#[tokio::test]
async fn keys_that_an_issuer_adds_to_its_file_count_without_a_restart() {
    let world = with_tokens("");
    let keys = include_str!("access/jwks.json");
    let earlier = keys.replacen("\"kid\": \"", "\"kid\": \"earlier-", 1);
    assert_ne!(earlier, keys);
    world.write("jwks.json", &earlier);
    let serving = Serving::new(&world).await;
    world.write("jwks.json", keys);
    serving.host(Some(&token("good"))).await.unwrap();
}

#[tokio::test]
async fn claims_name_the_agent_and_the_tenant_of_a_token() {
    let world = with_tokens("agent_claim = \"agent\"\n");
    let serving = Serving::new(&world).await;
    let reviewer = serving.host(Some(&token("agent"))).await.unwrap();
    reviewer.list_tools().await.unwrap();
    let clients = world.json(&["status"])["clients"].take();
    assert!(clients.as_array().unwrap().iter().any(|one| one["agent"] == "reviewer"), "{clients}");
    assert!(serving.host(Some(&token("good"))).await.is_err(), "a token without the claim");
    drop(serving);

    let world = with_tokens("tenant_claim = \"org\"\n");
    let serving = Serving::new(&world).await;
    serving.host(Some(&token("tenant"))).await.unwrap();
    assert!(serving.host(Some(&token("good"))).await.is_err(), "a token without the claim");
}

#[tokio::test]
async fn a_key_of_another_tenant_is_shown_with_it() {
    let world = World::new(NOTES);
    let serving = Serving::new(&world).await;
    let made = world.json(&["keys", "add", "ada", "--tenant", "acme"]);
    serving.comes(made["key"].as_str().unwrap()).await;
    assert_eq!(world.json(&["keys", "ls"])[0]["tenant"], "acme");
    let output = world.command(&["keys", "add", "ada", "--tenant", "a b"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    // A decision of an operator of the tenant `local` has no effect for a key of another tenant; both commands report
    // this.
    let granted = world.command(&["access", "grant", "ada", "notes"]).output().unwrap();
    let noted = String::from_utf8_lossy(&granted.stderr);
    assert!(granted.status.success() && noted.contains("belongs to the tenant `acme`"), "{noted}");
    let added = world.command(&["keys", "add", "bob", "--tenant", "acme"]).output().unwrap();
    let noted = String::from_utf8_lossy(&added.stderr);
    assert!(noted.contains("bob has no access yet; an operator of `acme`"), "{noted}");
    // The audit log has the events of all tenants, so the query prints no note about a tenant.
    let query = world.command(&["audit", "query", "--agent", "bob"]).output().unwrap();
    let noted = String::from_utf8_lossy(&query.stderr);
    assert!(query.status.success() && !noted.contains("acme"), "{noted}");
    assert!(!noted.contains("is known yet"), "{noted}");
}

#[tokio::test]
async fn the_matrix_of_another_tenant_shows_what_its_operators_granted() {
    let world = World::new(NOTES);
    let serving = Serving::new(&world).await;
    let made = world.json(&["keys", "add", "boss", "--tenant", "acme", "--admin"]);
    let boss = serving.comes(made["key"].as_str().unwrap()).await;
    let grant = serde_json::json!({
        "entry_type": "server_grant", "agent_id": "carl", "server_id": "notes", "permission": "deny",
    });
    boss.call("mgp.access.grant").args(&grant).await.unwrap();
    let matrix = world.json(&["access", "matrix", "--tenant", "acme"]);
    assert_eq!(matrix["agents"].as_array().map(Vec::len), Some(1), "{matrix}");
    let carl = &matrix["agents"][0];
    assert!(carl["agent"] == "carl" && carl["access"][0]["whole"] == "deny", "{matrix}");
}

/// Regression test: the refusal sent the agent to the console, in which nothing can be decided about another tenant,
/// and the lists of callers did not name their tenants.
#[tokio::test]
async fn an_agent_of_another_tenant_is_shown_with_it_and_sent_to_its_operators() {
    let world = World::new(&format!(
        "[kernel]\napproval_timeout = \"50ms\"\n{NOTES}risk = {{ \"notes.keep\" = \"dangerous\" }}\n"
    ));
    let serving = Serving::new(&world).await;
    let made = world.json(&["keys", "add", "ada", "--tenant", "acme"]);
    let ada = serving.comes(made["key"].as_str().unwrap()).await;
    let kept = ada.call("notes.keep").arg("title", "a").arg("text", "b").await;
    let refused = kept.unwrap_err().to_string();
    assert!(refused.contains("ask an operator of the tenant `acme` to decide it"), "{refused}");
    let made = world.json(&["keys", "add", "boss", "--tenant", "acme", "--admin"]);
    let boss = serving.comes(made["key"].as_str().unwrap()).await;
    boss.list_tools().await.unwrap();
    let clients = world.json(&["status"])["clients"].take();
    for (agent, operator) in [("ada", false), ("boss", true)] {
        let expected = json!([agent, "acme", operator]);
        let is_shown =
            |one: &Value| json!([one["agent"], one["tenant"], one["operator"]]) == expected;
        assert!(clients.as_array().unwrap().iter().any(is_shown), "{clients}");
    }
    for command in [&["status"][..], &["sessions"], &["audit", "query", "--agent", "ada"]] {
        let shown = || String::from_utf8(world.command(command).output().unwrap().stdout).unwrap();
        until("it shows the tenant", async || shown().contains("ada of acme")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_does_not_run_with_a_revoked_key() {
    // The tool `notes.keep` must not be `safe`, because a tool that only reads needs no compensation.
    let world = World::new(&format!("{NOTES}risk = {{ \"notes.keep\" = \"moderate\" }}\n"));
    let serving = Serving::new(&world).await;
    let made = world.json(&["keys", "add", "ada"]);
    let key = made["key"].as_str().unwrap().to_owned();
    serving.comes(&key).await.close().await;
    let builder = Client::builder("host", "1").bearer(&*key);
    let ada = builder.extension(Extension::Transactions).connect_url(&serving.url).await.unwrap();
    let mut begin = BeginTransactionParams::new();
    (begin.transaction_id, begin.timeout_seconds) = (Some("tx".to_owned()), Some(3));
    ada.request::<TransactionBegin>(&begin).await.unwrap();
    let note = |text: &str| serde_json::json!({"title": "a", "text": text});
    let mut undo = Compensation::new("notes.keep");
    undo.arguments = Some(RawObject::of(&note("undone")).unwrap());
    let step = ada.call("notes.keep").args(note("kept"));
    step.with(&TransactionId("tx".to_owned())).with(&undo).await.unwrap();
    world.json(&["keys", "revoke", made["id"].as_str().unwrap()]);

    let mut stuck = Value::Null;
    until("the transaction waits for a person", async || {
        stuck = world.json(&["transactions", "ls"])[0].clone();
        stuck["status"] == "partially_rolled_back"
    })
    .await;
    assert!(stuck.to_string().contains("the credentials of its caller have ended"), "{stuck}");
    assert_eq!(world.json(&["status"])["waiting_transactions"], 1);
    let other = world.json(&["keys", "add", "bob"])["key"].as_str().unwrap().to_owned();
    let bob = serving.comes(&other).await;
    let read = async || bob.call("notes.read").arg("title", "a").await.unwrap().to_text();
    assert_eq!(read().await, "kept");
    // An operator may still roll back the transaction.
    world.json(&["transactions", "retry", "tx"]);
    assert_eq!(read().await, "undone");
}

fn certify(world: &World, certificate: &str, key: &str) {
    world.write("server.key.pem", key);
    world.write("server.pem", certificate);
}

#[tokio::test]
async fn tls_is_served_and_a_renewed_certificate_is_used_without_a_restart() {
    let files =
        "[kernel.http]\ntls_cert = \"{DIR}/server.pem\"\ntls_key = \"{DIR}/server.key.pem\"\n";
    let world = World::new(&format!("{NOTES}{files}"));
    certify(&world, include_str!("access/first.pem"), include_str!("access/first.key.pem"));
    let serving = Serving::new(&world).await;
    assert!(serving.url.starts_with("https://127.0.0.1:"), "{}", serving.url);
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    let connect = async |root: &'static str| {
        let client = Client::builder("host", "1").bearer(&*key).http(|http| {
            http.root_certificates(root);
        });
        client.connect_url(&serving.url).await
    };
    let (first, renewed) =
        (include_str!("access/first.root.pem"), include_str!("access/renewed.root.pem"));
    let mut client = None;
    until("the key is known", async || {
        client = connect(first).await.ok();
        client.is_some()
    })
    .await;
    let client = client.unwrap();
    assert_ne!(client.list_tools().await.unwrap().len(), 0);
    assert!(connect(renewed).await.is_err(), "the other certificate is not in use yet");
    certify(&world, include_str!("access/renewed.pem"), include_str!("access/renewed.key.pem"));
    until("the new certificate is used", async || connect(renewed).await.is_ok()).await;
    certify(&world, "no certificate", "no key");
    assert!(connect(renewed).await.is_ok(), "a broken file changes nothing");
    // The kernel keeps a connection that was opened before the certificates changed.
    assert_ne!(client.list_tools().await.unwrap().len(), 0);
}

#[test]
fn tls_without_its_files_is_refused_with_their_names() {
    let files =
        "[kernel.http]\ntls_cert = \"{DIR}/server.pem\"\ntls_key = \"{DIR}/server.key.pem\"\n";
    let world = World::new(&format!("{NOTES}{files}"));
    let mut serve = world.command(&["serve", "--http", "127.0.0.1:0", "--config"]);
    let output = serve.arg(world.path("mgp.toml")).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("server.pem"), "{text}");
    assert!(text.contains("`tls_cert` and `tls_key` under `[kernel.http]`"), "{text}");
}

/// A collector that receives audit events over HTTP, and refuses them while `fails` is set.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<CollectorState>>);

#[derive(Default)]
struct CollectorState {
    events: Vec<Value>,
    keys: Vec<String>,
    fails: bool,
}

impl Collector {
    async fn serve(self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let take = async |State(this): State<Self>, headers: HeaderMap, body: String| {
            let mut state = this.0.lock().unwrap();
            if state.fails {
                return StatusCode::SERVICE_UNAVAILABLE;
            }
            state.keys.push(headers["x-key"].to_str().unwrap().to_owned());
            state.events.push(body.parse().unwrap());
            StatusCode::ACCEPTED
        };
        let router = axum::Router::new().route("/events", axum::routing::post(take));
        tokio::spawn(async { axum::serve(listener, router.with_state(self)).await.unwrap() });
        url
    }

    fn sequence(&self) -> Vec<u64> {
        let state = self.0.lock().unwrap();
        state.events.iter().map(|event| event["_mgp"]["seq"].as_u64().unwrap()).collect()
    }
}

/// Returns the sequence number of the last event in the file of events, in which each line is an event; 0 if the file
/// has none.
fn last_in_file(world: &World) -> u64 {
    let text = fs::read_to_string(world.path("state/events.jsonl")).unwrap_or_default();
    let last = text.lines().last().and_then(|line| line.parse::<Value>().ok());
    last.and_then(|event| event["_mgp"]["seq"].as_u64()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn sinks_get_each_audit_event_also_after_they_were_away() {
    let collector = Collector::default();
    let url = collector.clone().serve().await;
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp_at, tcp_at) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let world = World::new(&format!(
        "{NOTES}[kernel.audit.sinks.lines]\nfile = \"events.jsonl\"\n\
         [kernel.audit.sinks.web]\nurl = \"{url}\"\nheaders = {{ X-Key = \"${{PWD_OF_SINK:-k1}}\" }}\n\
         [kernel.audit.sinks.udp]\nsyslog = \"udp://{udp_at}\"\n\
         [kernel.audit.sinks.tcp]\nsyslog = \"tcp://{tcp_at}\"\n"
    ));
    let serving = Serving::new(&world).await;
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    let ada = serving.comes(&key).await;
    ada.call("notes.list").await.unwrap().to_text();
    until("the call is in the collector and the file", async || {
        let state = collector.0.lock().unwrap();
        let by_ada = |event: &&Value| event["actor"]["id"] == "ada";
        let call = state.events.iter().find(by_ada).and_then(|event| event["_mgp"]["seq"].as_u64());
        call.is_some_and(|call| last_in_file(&world) >= call)
    })
    .await;
    assert!(collector.0.lock().unwrap().keys.iter().all(|key| key == "k1"));

    let mut datagram = vec![0; 65_536];
    let length = udp.recv(&mut datagram).unwrap();
    let message = String::from_utf8(datagram[..length].to_vec()).unwrap();
    let (head, event) = message.split_once(" audit - ").unwrap();
    assert!(head.starts_with("<110>1 20") && head.contains(" - mgp "), "{message}");
    assert_eq!(event.parse::<Value>().unwrap()["_mgp"]["seq"], 1);
    let mut framed = [0; 64];
    let (mut stream, _) = tcp.accept().unwrap();
    stream.read_exact(&mut framed).unwrap();
    let framed = String::from_utf8_lossy(&framed);
    let (length, rest) = framed.split_once(' ').unwrap();
    assert!(length.parse::<usize>().unwrap() > 64 && rest.starts_with("<110>1 "), "{framed}");

    // No event is lost while a receiver refuses events, even if the kernel is killed meanwhile.
    collector.0.lock().unwrap().fails = true;
    ada.call("notes.list").await.unwrap().to_text();
    drop(serving);
    fs::remove_file(world.path("ready.json")).unwrap();
    collector.0.lock().unwrap().fails = false;
    let serving = Serving::new(&world).await;
    serving.comes(&key).await.call("notes.list").await.unwrap().to_text();
    until("the sink has caught up", async || {
        let newest = last_in_file(&world);
        collector.sequence().last() == Some(&newest)
    })
    .await;
    let mut numbers = collector.sequence();
    // Accept repeated numbers: the kernel may send events of the last second before the kill again, with the same
    // numbers.
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}
