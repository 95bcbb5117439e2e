//! Tests of one kernel with several tenants: the removal of a tenant must not affect the others, and some servers are
//! only for some tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ServerChange, ToolResult as _};
use mgp_lifecycle::Transactions;
use mgp_server_sdk::EventHub;
use mgp_testkit::{hello, http_exchange, until};
use mgp_toolindex::{History, HistoryConfig};
use mgp_types::mgp::DiscoveryListParams;
use mgp_types::proposal::BeginTransactionParams;
use mgp_types::service::Principal;
use mgp_types::store::Db;
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::world::World;

/// The server `notes`, whose calls of `notes.keep` need an approval that no caller here waits for.
const NOTES: &str = r#"
[kernel]
approval_timeout = "50ms"
[[servers]]
id = "notes"
command = "{MGP}"
args = ["__example", "notes"]
[servers.mgp]
default_policy = "opt-out"
risk = { "notes.keep" = "dangerous" }
"#;

/// The server `notes`, which only callers of the tenant `acme` may use.
const OF_ACME: &str = r#"
[[servers]]
id = "notes"
command = "{MGP}"
args = ["__example", "notes"]
tenants = ["acme"]
[servers.mgp]
default_policy = "opt-out"
[[servers]]
id = "off"
command = "{MGP}"
enabled = false
tenants = ["acme"]
"#;

/// The server `notes` with an instance for each agent, and long results in parts.
const ISOLATED: &str = r#"
[kernel.results]
max_text = 1000
[[servers]]
id = "notes"
command = "{MGP}"
args = ["__example", "notes"]
[servers.mgp]
default_policy = "opt-out"
isolation = "per_agent"
"#;

/// Stores a durable subscription of a caller of the tenant `gamma`, with an event.
const SUBSCRIPTION: &str = r#"
INSERT INTO events_subscriptions VALUES ('sub-1', '{"principal":{"tenant":"gamma","subject":"ann",
    "agent":"ada","is_operator":false},"patterns":["*"],"rank":0}', 2, 0, unixepoch());
INSERT INTO events_kept VALUES ('sub-1', 1, '{}', unixepoch());
"#;

/// Counts the stored subscriptions and their events.
const STORED: &str =
    "SELECT (SELECT count(*) FROM events_subscriptions) + (SELECT count(*) FROM events_kept)";

/// Creates a key of a tenant, and returns the key.
fn key(world: &World, agent: &str, tenant: &str, more: &[&str]) -> String {
    let made = world.json(&[&["keys", "add", agent, "--tenant", tenant][..], more].concat());
    made["key"].as_str().unwrap().to_owned()
}

/// Denies the server `notes` to the agent `carl` of an operator's tenant.
async fn deny_carl(boss: &Client) {
    let denial = json!({
        "entry_type": "server_grant", "agent_id": "carl", "server_id": "notes", "permission": "deny",
    });
    boss.call("mgp.access.grant").args(&denial).await.unwrap();
}

/// Calls `notes.keep` with the same arguments each time; returns whether the call ran.
async fn keep(agent: &Client) -> bool {
    agent.call("notes.keep").arg("title", "a").arg("text", "b").await.is_ok()
}

/// Approves the waiting call of `notes.keep` in an operator's tenant, and all calls like it.
async fn approve(boss: &Client) {
    let open = boss.call("mgp.kernel.approvals").await.unwrap();
    let open: Value = open.structured_content.unwrap().get().unwrap();
    let answer = json!({"id": open["approvals"][0]["id"], "term": "like"});
    boss.call("mgp.kernel.approvals.approve").args(&answer).await.unwrap();
}

/// Returns whether an agent finds a tool of the server `notes` by a search.
async fn sees_notes(agent: &Client) -> bool {
    let found = agent.call("mgp_tools_discover").arg("query", "keep a note").await.unwrap();
    serde_json::to_string(&found).unwrap().contains("notes.keep")
}

fn exit_code(world: &World, arguments: &[&str]) -> Option<i32> {
    world.command(arguments).output().unwrap().status.code()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_tenant_leaves_nothing_to_a_later_one_with_its_name() {
    let world = World::new(NOTES);
    let serving = Serving::new(&world).await;
    let mut agents = Vec::new();
    for tenant in ["acme", "beta"] {
        let boss = serving.comes(&key(&world, "boss", tenant, &["--admin"])).await;
        let ada = serving.comes(&key(&world, "ada", tenant, &[])).await;
        deny_carl(&boss).await;
        assert!(!keep(&ada).await, "the call waits for an operator");
        approve(&boss).await;
        assert!(keep(&ada).await, "calls like it are approved");
        agents.push(ada);
    }
    let listed = world.json(&["tenants", "ls"]);
    assert!(listed[0]["tenant"] == "acme" && listed[1]["tenant"] == "beta", "{listed}");
    assert_eq!((&listed[0]["keys"], &listed[0]["access"]), (&json!(2), &json!(1)), "{listed}");
    assert_ne!(listed[0]["approvals"], 0, "{listed}");

    // The command removes nothing if it has no terminal for its question, or if the name of the tenant is wrong.
    assert_eq!(exit_code(&world, &["tenants", "rm", "acme"]), Some(2));
    assert_eq!(exit_code(&world, &["tenants", "rm", "acne", "--yes"]), Some(1));
    assert_eq!(exit_code(&world, &["tenants", "rm", "local", "--yes"]), Some(2));
    assert_eq!(world.json(&["tenants", "ls"])[0], listed[0]);

    let removed = world.json(&["tenants", "rm", "acme", "--yes"]);
    assert_eq!((&removed["subject"], &removed["status"]), (&json!("acme"), &json!("removed")));
    assert!(removed["notes"].to_string().contains("2 keys, 1 access entry"), "{removed}");
    until("the session of its agent ends", async || agents[0].list_tools().await.is_err()).await;
    let left = world.json(&["tenants", "ls"]);
    assert!(left[0]["tenant"] == "beta" && left[0]["keys"] == 2 && left[1].is_null(), "{left}");
    assert_eq!(world.json(&["access", "matrix", "--tenant", "acme"])["agents"], json!([]));
    assert!(keep(&agents[1]).await, "the other tenant keeps its approval");
    let carl = serving.comes(&key(&world, "carl", "beta", &[])).await;
    assert!(!sees_notes(&carl).await, "the other tenant keeps its denial");

    let later = serving.comes(&key(&world, "ada", "acme", &[])).await;
    assert!(!keep(&later).await, "the approval of the former tenant applies to a later one");
    let carl = serving.comes(&key(&world, "carl", "acme", &[])).await;
    assert!(sees_notes(&carl).await, "the denial of the former tenant applies to a later one");
    let recorded = world.json(&["audit", "query"]).to_string();
    for event in ["dev.cloto.key_revoked", "ACCESS_REVOKED", "tenant_removed"] {
        assert!(recorded.contains(event), "{event}: {recorded}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_tenant_does_not_inherit_the_searches_of_a_removed_one() {
    const QUERY: &str = "list the titles of my notes";
    for has_kernel in [false, true] {
        let world = World::new(&format!("{NOTES}[kernel.search]\nlearning = true\n"));
        key(&world, "ada", "acme", &[]);
        let open = async || {
            let db = Db::open(world.path("state/state.db")).await.unwrap();
            History::open(db, HistoryConfig::new()).await.unwrap()
        };
        let called = async || open().await.called_tools("notes", |_| false).await.unwrap();
        let history = open().await;
        for (tenant, tool) in [("acme", "notes.notes.read"), ("beta", "notes.changes")] {
            history.record(&Principal::new(tenant, "local"), QUERY, tool);
        }
        history.flush().await.unwrap();
        assert_eq!(called().await, ["notes.changes", "notes.notes.read"]);

        let serving = if has_kernel { Some(Serving::new(&world).await) } else { None };
        world.json(&["tenants", "rm", "acme", "--yes"]);
        assert_eq!(called().await, ["notes.changes"], "with a kernel: {has_kernel}");
        let Some(serving) = serving else { continue };
        // A kernel that still had the search in memory would store it again after this call.
        let later = serving.comes(&key(&world, "ada", "acme", &[])).await;
        later.call("mgp_tools_discover").arg("query", QUERY).await.unwrap();
        later.call("notes.list").await.unwrap();
        let is_stored = async || called().await.iter().any(|tool| tool == "notes.notes.list");
        until("the call is stored", is_stored).await;
        assert_eq!(called().await, ["notes.changes", "notes.notes.list"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_tenant_gets_no_instance_and_no_result_of_a_removed_one() {
    let world = World::new(ISOLATED);
    let serving = Serving::new(&world).await;
    let (mut hosts, mut handles) = (Vec::new(), Vec::new());
    for tenant in ["acme", "beta"] {
        let ada = serving.comes(&key(&world, "ada", tenant, &[])).await;
        let note = json!({"title": "a", "text": "secret ".repeat(1000)});
        ada.call("notes.keep").args(&note).await.unwrap();
        let read = ada.call("notes.read").arg("title", "a").await.unwrap().to_text();
        let handle = read.split("\"handle\":\"").nth(1).and_then(|rest| rest.split('"').next());
        handles.push(handle.unwrap().to_owned());
        hosts.push(ada);
    }
    world.json(&["tenants", "rm", "acme", "--yes"]);
    hosts[0] = serving.comes(&key(&world, "ada", "acme", &[])).await;
    for ((ada, handle), is_removed) in hosts.iter().zip(&handles).zip([true, false]) {
        let read = ada.call("notes.read").arg("title", "a").await.unwrap().to_text();
        assert_eq!(read.contains("secret"), !is_removed, "{read}");
        let more = ada.call("mgp_read_more").arg("handle", handle.as_str()).await;
        assert_eq!(more.is_err(), is_removed, "{more:?}");
    }
}

/// Sends a message of the legacy era, with the header of a session or an empty text. Returns the whole response.
async fn post(serving: &Serving, key: &str, session: &str, message: &Value) -> String {
    let address = serving.url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp"));
    let head = format!(
        "POST /mcp HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18{session}"
    );
    http_exchange(address.unwrap().parse().unwrap(), &head, &message.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_tenant_cannot_use_a_session_of_a_removed_one() {
    let world = World::new(ISOLATED);
    let serving = Serving::new(&world).await;
    let params = hello("2025-06-18", &json!({}));
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let greeted = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let (mut keys, mut sessions) = (Vec::new(), Vec::new());
    for tenant in ["acme", "beta"] {
        let key = key(&world, "ada", tenant, &[]);
        serving.comes(&key).await;
        let answer = post(&serving, &key, "", &greeting).await;
        let id = answer.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
        });
        let session = format!("\r\nMcp-Session-Id: {}", id.unwrap());
        post(&serving, &key, &session, &greeted).await;
        keys.push(key);
        sessions.push(session);
    }
    world.json(&["tenants", "rm", "acme", "--yes"]);
    keys[0] = key(&world, "ada", "acme", &[]);
    serving.comes(&keys[0]).await;
    for ((key, session), status) in keys.iter().zip(&sessions).zip(["404", "200"]) {
        let answer = post(&serving, key, session, &list).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_without_keys_is_removed_with_its_searches_transactions_and_subscriptions() {
    for has_kernel in [false, true] {
        let world = World::new(NOTES);
        assert_eq!(world.json(&["tenants", "ls"]), json!([]));
        let db = Db::open(world.path("state/state.db")).await.unwrap();
        // This caller has an access token and no key, so only the stored data name its tenant.
        let caller = Principal::new("gamma", "ann").agent("ada");
        let history = History::open(db.clone(), HistoryConfig::new()).await.unwrap();
        history.record(&caller, "list the titles of my notes", "notes.notes.list");
        history.flush().await.unwrap();
        let transactions = Transactions::open(Arc::new(db.clone())).await.unwrap();
        transactions.begin(&caller, BeginTransactionParams::new()).await.unwrap();
        EventHub::new().keep_in_db(db.clone()).await.unwrap();
        let subscribing = db.write(|tx| Ok(tx.execute_batch(SUBSCRIPTION)?));
        subscribing.await.unwrap();
        let serving = if has_kernel { Some(Serving::new(&world).await) } else { None };

        let listed = world.json(&["tenants", "ls"]);
        let counted = json!({
            "tenant": "gamma", "keys": 0, "access": 0, "permissions": 0, "approvals": 0,
            "logins": 0, "searches": 1, "results": 0, "transactions": 1, "subscriptions": 1,
        });
        assert_eq!(listed, json!([counted]), "with a kernel: {has_kernel}");
        let removed = world.json(&["tenants", "rm", "gamma", "--yes"]);
        assert!(
            removed["notes"].to_string().contains("1 stored query, 1 transaction, 1 subscription"),
            "{removed}"
        );
        assert_eq!(world.json(&["tenants", "ls"]), json!([]), "with a kernel: {has_kernel}");
        let stored = db.write(|tx| Ok(tx.query_row(STORED, [], |row| row.get::<_, u32>(0))?));
        assert_eq!(stored.await.unwrap(), 0, "with a kernel: {has_kernel}");
        let Some(serving) = serving else { continue };
        let boss = serving.comes(&key(&world, "boss", "gamma", &["--admin"])).await;
        let seen = boss.call("mgp.kernel.transactions").arg("all", true).await.unwrap();
        assert!(!serde_json::to_string(&seen).unwrap().contains("\"ada\""), "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_a_tenant_are_revoked_together_and_its_rules_stay() {
    let world = World::new(NOTES);
    let serving = Serving::new(&world).await;
    let boss = serving.comes(&key(&world, "boss", "acme", &["--admin"])).await;
    let other = serving.comes(&key(&world, "ada", "beta", &[])).await;
    deny_carl(&boss).await;
    for refused in [&["keys", "revoke"][..], &["keys", "revoke", "--tenant", "acme"]] {
        assert_eq!(exit_code(&world, refused), Some(2), "{refused:?}");
    }
    boss.list_tools().await.unwrap();

    let revoked = world.json(&["keys", "revoke", "--tenant", "acme", "--yes"]);
    assert!(revoked["notes"].to_string().contains("(boss)"), "{revoked}");
    until("its session ends", async || boss.list_tools().await.is_err()).await;
    other.list_tools().await.unwrap();
    let left = world.json(&["tenants", "ls"]);
    assert_eq!((&left[0]["keys"], &left[0]["access"]), (&json!(0), &json!(1)), "{left}");
    assert_eq!(exit_code(&world, &["keys", "revoke", "--tenant", "acme", "--yes"]), Some(1));
}

#[test]
fn a_tenant_is_removed_while_no_kernel_runs() {
    let world = World::new(OF_ACME);
    key(&world, "ada", "acme", &[]);
    let config = world.path("mgp.toml");
    let config = config.to_str().unwrap();
    let removed = world.json(&["tenants", "rm", "acme", "--yes", "--config", config]);
    assert!(removed["notes"].to_string().contains("may use `notes`"), "{removed}");
    assert_eq!(world.json(&["tenants", "ls"]), json!([]));
    assert_eq!(world.json(&["keys", "ls"])[0]["status"], "revoked");
    // Searches and call results of the tenant can be stored although no command lists the tenant, so a second removal
    // succeeds too.
    assert_eq!(exit_code(&world, &["tenants", "rm", "acme", "--yes"]), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_access_of_an_agent_of_another_tenant_is_shown_by_its_entries() {
    let world = World::new(NOTES);
    let serving = Serving::new(&world).await;
    deny_carl(&serving.comes(&key(&world, "boss", "acme", &["--admin"])).await).await;
    let query = ["access", "query", "carl", "notes", "notes.keep"];
    let own = world.json(&query);
    assert!(own["permission"] == "allow" && own.get("tenant").is_none(), "{own}");
    let other = world.json(&[&query[..], &["--tenant", "acme"]].concat());
    assert!(other["permission"] == "deny" && other["tenant"] == "acme", "{other}");
    let shown = |tenant| {
        let output = world.command(&[&query[..], &["--tenant", tenant]].concat()).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [answer, note] = shown("acme");
    assert!(
        answer.contains("an operator of `acme`") && !answer.contains("mgp access grant"),
        "{answer}"
    );
    let [_, mistyped] = shown("acmee");
    let hint = "no tenant `acmee` is known yet; did you mean `acme`?";
    assert!(!note.contains("is known yet") && mistyped.contains(hint), "{note}{mistyped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_exist_for_tenants_that_its_configuration_does_not_name() {
    let world = World::new(OF_ACME);
    let serving = Serving::new(&world).await;
    let acme = serving.comes(&key(&world, "ada", "acme", &[])).await;
    acme.call("notes.list").await.unwrap();
    assert!(sees_notes(&acme).await);
    let boss = serving.comes(&key(&world, "boss", "beta", &["--admin"])).await;
    let beta = serving.comes(&key(&world, "ada", "beta", &[])).await;
    let local = serving.comes(&key(&world, "ada", "local", &[])).await;
    for agent in ["ada", "boss"] {
        let grant = json!({
            "entry_type": "server_grant", "agent_id": agent, "server_id": "notes", "permission": "allow",
        });
        boss.call("mgp.access.grant").args(&grant).await.unwrap();
    }
    for agent in [&boss, &beta, &local] {
        assert!(!sees_notes(agent).await);
        assert_eq!(agent.call("notes.list").await.unwrap_err().code().0, 1001);
        let known = agent.mgp().discovery_list(&DiscoveryListParams::default()).await.unwrap();
        assert!(known.servers.is_empty(), "{:?}", known.servers);
    }
    let refused = async |server: &str| {
        let approval = json!({"server_id": server, "permissions": ["camera"]});
        let answer = boss.call("mgp.kernel.permissions.approve").args(&approval).await;
        answer.unwrap_err().to_string().replace(server, "SERVER")
    };
    assert_eq!(refused("notes").await, refused("unknown").await);
    let revoke = async |server: &str| {
        let approval = json!({"server_id": server, "permissions": ["camera"]});
        let answer = boss.call("mgp.kernel.permissions.revoke").args(&approval).await;
        answer.unwrap_err().to_string().replace(server, "SERVER")
    };
    assert_eq!(revoke("off").await, revoke("unknown").await);

    // `mgp why` shows the reason to the operator of `local`.
    let why = world.json(&["why", "ada", "notes.list"]).to_string();
    assert!(why.contains("tenants: the server is for other tenants"), "{why}");
    assert!(why.contains("`tenants` of server `notes`") && !why.contains("access grant"), "{why}");
    let query = ["access", "query", "ada", "notes", "notes.list", "--tenant"];
    let of_beta = world.json(&[&query[..], &["beta"]].concat());
    assert!(of_beta["permission"] == "deny" && of_beta["source"] == "tenants", "{of_beta}");
    assert_eq!(world.json(&[&query[..], &["acme"]].concat())["permission"], "allow");
    let matrix = world.json(&["access", "matrix", "--tenant", "beta"]);
    assert_eq!(matrix["agents"][0]["access"][0]["by_default"], "excluded", "{matrix}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_tenants_of_a_server_apply_at_once_and_are_announced() {
    let world = World::new(OF_ACME);
    let serving = Serving::new(&world).await;
    let acme = serving.comes(&key(&world, "ada", "acme", &[])).await;
    let of_beta = key(&world, "ada", "beta", &[]);
    drop(serving.comes(&of_beta).await);
    let changes = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&changes);
    let beta = Client::builder("host", "1").bearer(of_beta).on_change(move |what| {
        counts.fetch_add(usize::from(*what == ServerChange::Tools), Ordering::SeqCst);
    });
    let beta = beta.connect_url(&serving.url).await.unwrap();
    assert!(sees_notes(&acme).await && !sees_notes(&beta).await);

    let before = changes.load(Ordering::SeqCst);
    world.configure(&OF_ACME.replace("acme", "beta"));
    world.quietly(&["reload"]);
    assert_eq!(acme.call("notes.list").await.unwrap_err().code().0, 1001);
    beta.call("notes.list").await.unwrap();
    let is_announced = async || changes.load(Ordering::SeqCst) > before;
    until("the changed list is announced", is_announced).await;
    assert!(!sees_notes(&acme).await && sees_notes(&beta).await);

    // A mistake does not open the server to all tenants: the kernel keeps the previous entry.
    world.configure(&OF_ACME.replace("[\"acme\"]", "[]"));
    world.command(&["reload"]).output().unwrap();
    assert!(!sees_notes(&acme).await && sees_notes(&beta).await);

    // If the entry of the server changes too, the server restarts, and only the new tenants may use it.
    world.configure(&OF_ACME.replace("tenants", "env = { A = \"b\" }\ntenants"));
    world.quietly(&["reload"]);
    until("the new tenant sees it", async || sees_notes(&acme).await).await;
    assert!(!sees_notes(&beta).await);
}
