//! Tests of granting, revoking, querying and expiry: answers, authority, audit events, and when a change takes effect
//! (MGP §5.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use mgp_security::{Access, KernelToolsLayer, Policies, ServerPolicy};
use mgp_testkit::until;
use mgp_types::Payload;
use mgp_types::mgp::{
    AccessGrantParams, AccessPermission, AccessQueryParams, AccessRevokeParams, AuditEvent,
    DefaultPolicy, EntryType,
};
use mgp_types::service::{MemoryAudit, Principal, Router, Stack, mock};
use mgp_types::store::MemoryStore;
use serde_json::{Value, json};
use tower_layer::Layer as _;

struct Book {
    access: Access,
    log: MemoryAudit,
    store: MemoryStore,
}

fn book() -> Book {
    let (store, log) = (MemoryStore::new(), MemoryAudit::new());
    Book { access: over(&store, &log), log, store }
}

fn over(store: &MemoryStore, log: &MemoryAudit) -> Access {
    Access::new(Arc::new(store.clone()), Arc::new(log.clone()), Policies::default())
}

fn ann() -> Principal {
    Principal::new("acme", "ann").operator()
}

fn client(access: &Access, principal: Principal) -> mock::Client {
    let mut client = mock::client(Stack::new(access.router()));
    client.cx.principal = principal;
    client.cx.trace = Some("trace-1".into());
    client
}

async fn ask(client: &mut mock::Client, method: &str, params: Value) -> Result<Value, i32> {
    let answer = client.request(method, &params.to_string()).await;
    answer.map(|answer| answer.get().unwrap()).map_err(|error| error.code().0)
}

fn allow(agent: &str) -> AccessGrantParams {
    AccessGrantParams::allow(agent, "files")
}

fn tool(agent: &str, tool: &str) -> AccessGrantParams {
    allow(agent).tool(tool)
}

fn may(access: &Access, tenant: &str, agent: &str, tool: &str) -> bool {
    let principal = Principal::new(tenant, agent);
    access.decide(&principal, Some(&"files".into()), Some(tool), SystemTime::now()).is_allowed()
}

fn of_type(log: &MemoryAudit, event_type: &str) -> Vec<AuditEvent> {
    let events = log.events().into_iter();
    events.filter(|event| event.event_type.as_str() == event_type).collect()
}

fn details(event: &AuditEvent) -> Value {
    serde_json::from_str(Payload::of(&event.details).unwrap().as_str()).unwrap()
}

#[tokio::test]
async fn a_tenant_learns_nothing_of_a_server_that_is_for_others() {
    let policies = Policies::default();
    let open = ServerPolicy::default().default_policy(DefaultPolicy::OptOut);
    policies.set("files", open.tenants(["acme"]));
    let access = Access::in_memory(policies).clock(|| SystemTime::UNIX_EPOCH);
    let boss = Principal::new("beta", "boss").operator();
    let query = |server: &str| {
        let mut params = AccessQueryParams::new("ada", server);
        params.tool_name = Some("read".to_owned());
        params
    };
    let answer = async |server: &str| {
        let answer = access.query(&boss, query(server)).await.unwrap();
        Payload::of(&answer).unwrap().as_str().replace(server, "SERVER")
    };
    assert_eq!(answer("files").await, answer("unknown").await);
    for server in ["files", "unknown"] {
        let granted = access.grant(&boss, AccessGrantParams::allow("ada", server)).await.unwrap();
        assert_eq!(granted.status, "granted");
    }
    assert_eq!(answer("files").await, answer("unknown").await);
    assert!(!may(&access, "beta", "ada", "read"));

    // In contrast, an operator of `local` must learn the reason.
    let mut params = query("files");
    params.extra.encode("tenant", "beta").unwrap();
    let answer = access.query(&Principal::local().operator(), params).await.unwrap();
    assert_eq!(answer.permission, Some(AccessPermission::Deny));
    assert_eq!(answer.source.unwrap().as_str(), "tenants");
}

#[tokio::test]
async fn the_answers_are_those_of_the_specification() {
    let book = book();
    let mut ann = client(&book.access, ann());
    let grant = json!({
        "entry_type": "tool_grant", "agent_id": "ada", "server_id": "files", "tool_name": "read",
        "permission": "allow", "granted_by": "another user", "justification": "to read",
        "expires_at": "2999-01-01T00:00:00Z",
    });
    let made = ask(&mut ann, "mgp/access/grant", grant.clone()).await.unwrap();
    assert_eq!((&made["status"], &made["granted_by"]), (&json!("granted"), &json!("ann")));
    assert_eq!((&made["agent_id"], &made["tool_name"]), (&json!("ada"), &json!("read")));
    let again = ask(&mut ann, "mgp/access/grant", grant).await.unwrap();
    assert_eq!((&again["status"], &again["id"]), (&json!("replaced"), &made["id"]));

    let query = json!({ "agent_id": "ada", "server_id": "files", "tool_name": "read" });
    let found = ask(&mut ann, "mgp/access/query", query).await.unwrap();
    assert_eq!((&found["permission"], &found["source"]), (&json!("allow"), &json!("tool_grant")));
    assert_eq!(found["granted_by"], "ann");
    assert_eq!(found["expires_at"], "2999-01-01T00:00:00Z");
    assert_eq!(
        found["rule"],
        "tool_grant allow for ada on files/read (by ann, until 2999-01-01T00:00:00Z)"
    );
    let query = json!({ "agent_id": "ada", "server_id": "files", "tool_name": "write" });
    let found = ask(&mut ann, "mgp/access/query", query).await.unwrap();
    assert_eq!(
        (&found["permission"], &found["source"]),
        (&json!("deny"), &json!("default_policy"))
    );
    assert_eq!((&found["granted_by"], &found["expires_at"]), (&Value::Null, &Value::Null));
    let query = json!({ "agent_id": "ada", "server_id": "files" });
    let found = ask(&mut ann, "mgp/access/query", query).await.unwrap();
    assert_eq!(found["entries"].as_array().unwrap().len(), 1);

    ask(&mut ann, "mgp/access/grant", serde_json::to_value(tool("ada", "write")).unwrap())
        .await
        .unwrap();
    let revoke = json!({ "agent_id": "ada", "server_id": "files", "entry_type": "tool_grant" });
    let gone = ask(&mut ann, "mgp/access/revoke", revoke.clone()).await.unwrap();
    assert_eq!((&gone["status"], &gone["deleted_count"]), (&json!("revoked"), &json!(2)));
    let names: Vec<_> =
        gone["revoked"].as_array().unwrap().iter().map(|e| &e["tool_name"]).collect();
    assert_eq!(names, ["read", "write"]);
    let nothing = ask(&mut ann, "mgp/access/revoke", revoke).await.unwrap();
    assert_eq!(nothing["deleted_count"], 0);

    let granted = of_type(&book.log, "ACCESS_GRANTED");
    assert_eq!(granted.len(), 3);
    let shown = details(&granted[1]);
    assert_eq!(
        (&shown["justification"], &shown["entry_type"]),
        (&json!("to read"), &json!("tool_grant"))
    );
    assert_eq!(shown["expires_at"], "2999-01-01T00:00:00Z");
    assert_eq!(shown["before"]["granted_by"], "ann");
    assert!(details(&granted[0]).get("before").is_none());
    assert_eq!(granted[0].trace_id.as_deref(), Some("trace-1"));
    assert_eq!(of_type(&book.log, "ACCESS_REVOKED").len(), 2, "one for each entry that went");
}

#[tokio::test]
async fn ambiguous_params_are_refused() {
    let book = book();
    let mut ann = client(&book.access, ann());
    let base = serde_json::to_value(allow("ada")).unwrap();
    let long = "x".repeat(257);
    for wrong in [
        json!({ "entry_type": "tool_grant" }),
        json!({ "tool_name": "read" }),
        json!({ "agent_id": "" }),
        json!({ "agent_id": "group:" }),
        json!({ "agent_id": "a\nb" }),
        json!({ "server_id": long }),
        json!({ "justification": "x".repeat(1025) }),
        json!({ "expires_at": "2001-01-01T00:00:00Z" }),
        json!({ "expires_at": "soon" }),
        json!({ "permission": "maybe" }),
        json!({ "confirm": "never", "permission": "deny" }),
        json!({ "confirm": "sometimes" }),
    ] {
        let mut params = base.clone();
        params.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        assert_eq!(ask(&mut ann, "mgp/access/grant", params).await, Err(-32602), "{wrong}");
    }
    assert!(book.log.events().is_empty());
}

#[tokio::test]
async fn a_caller_without_authority_is_refused_before_its_params_are_checked() {
    let book = book();
    let tools = Stack::new(KernelToolsLayer::new(book.access.router()).layer(Router::new()));
    for method in ["mgp/access/query", "mgp/access/grant", "mgp/access/revoke"] {
        for bad in [json!({ "server_id": "files", "agent_id": 3 }), json!({ "nonsense": [] })] {
            let mut ada = client(&book.access, Principal::new("acme", "ada"));
            assert_eq!(ask(&mut ada, method, bad.clone()).await, Err(1000), "{method} {bad}");
            let mut ann = client(&book.access, ann());
            assert_eq!(ask(&mut ann, method, bad.clone()).await, Err(-32602), "{method} {bad}");
        }
        let mut ada = mock::client(tools.clone());
        ada.cx.principal = Principal::new("acme", "ada");
        let call = |arguments: Value| json!({ "name": method, "arguments": arguments });
        for bad in [json!([1]), json!(3), json!({ "agent_id": 3 })] {
            assert_eq!(ask(&mut ada, "tools/call", call(bad)).await, Err(1000), "{method}");
        }
        ada.cx.principal = ann();
        assert_eq!(ask(&mut ada, "tools/call", call(json!([1]))).await, Err(-32602), "{method}");
    }
    let blocked = of_type(&book.log, "PERMISSION_DENIED");
    assert_eq!(blocked.len(), 15, "each is recorded");
    let server = blocked[0].target.as_ref().unwrap().server_id.as_deref();
    assert_eq!(server, Some("files"));
}

#[tokio::test]
async fn other_callers_can_query_only_themselves() {
    let book = book();
    let mut ada = client(&book.access, Principal::new("acme", "someone").agent("ada"));
    let about =
        |agent: &str| json!({ "agent_id": agent, "server_id": "files", "tool_name": "read" });
    assert!(ask(&mut ada, "mgp/access/query", about("ada")).await.is_ok());
    assert_eq!(ask(&mut ada, "mgp/access/query", about("bob")).await, Err(1000));
    let denied = of_type(&book.log, "PERMISSION_DENIED");
    let shown = details(&denied[0]);
    assert_eq!((denied.len(), denied[0].actor.id.as_str()), (1, "ada"));
    assert_eq!(
        (&shown["method"], &shown["code"], &shown["rule"]),
        (&json!("mgp/access/query"), &json!(1000), &json!("operators only"))
    );
}

#[tokio::test]
async fn groups_everyone_and_tenants() {
    let Book { access, .. } = book();
    access.groups().set("acme", "ada", ["interns"]);
    access.grant(&ann(), allow("*")).await.unwrap();
    assert!(may(&access, "acme", "ada", "read") && may(&access, "acme", "bob", "read"));
    assert!(!may(&access, "other", "ada", "read"), "an entry counts for its tenant only");
    access.grant(&ann(), AccessGrantParams::deny("group:interns", "files")).await.unwrap();
    assert!(!may(&access, "acme", "ada", "read") && may(&access, "acme", "bob", "read"));
    access.grant(&ann(), tool("ada", "read")).await.unwrap();
    assert!(may(&access, "acme", "ada", "read") && !may(&access, "acme", "ada", "write"));
    access.groups().set("acme", "ada", [""; 0]);
    assert!(may(&access, "acme", "ada", "write"));
    for name in ["*", "group:interns"] {
        assert!(!may(&access, "acme", name, "read"), "no agent is called `{name}`");
    }
    let other = Principal::new("other", "eve").operator();
    let gone = access.revoke(&other, AccessRevokeParams::server_grant("*", "files"));
    assert_eq!(gone.await.unwrap().deleted_count, 0, "an operator of one tenant changes that only");
    let found = access.query(&ann(), AccessQueryParams::new("ada", "files")).await.unwrap();
    assert_eq!(found.entries.len(), 2, "its own and everyone's");
}

#[tokio::test]
async fn only_operators_of_the_local_tenant_see_entries_of_another_tenant() {
    let Book { access, .. } = book();
    access.grant(&ann(), allow("ada")).await.unwrap();
    let mut params = AccessQueryParams::new("ada", "files");
    params.extra.encode("tenant", "acme").unwrap();
    for sees in [Principal::local().operator(), ann(), Principal::new("acme", "ada")] {
        let found = access.query(&sees, params.clone()).await.unwrap();
        assert_eq!(found.entries.len(), 1, "{sees:?}");
    }
    let (eve, ada) = (Principal::new("other", "eve"), Principal::new("other", "ada"));
    for other in [eve.operator(), ada, Principal::local().agent("ada")] {
        let refused = access.query(&other, params.clone()).await.unwrap_err();
        assert_eq!(refused.code().0, 1000, "{other:?}");
    }
}

/// Regression test: the member `tenant`, which queries accept, was ignored in changes. Therefore the changes were made
/// in the operator's own tenant.
#[tokio::test]
async fn a_change_that_names_another_tenant_is_refused() {
    let Book { access, .. } = book();
    let mut denial = AccessGrantParams::deny("ada", "files");
    let mut back = AccessRevokeParams::server_grant("ada", "files");
    for params in [&mut denial.extra, &mut back.extra] {
        params.encode("tenant", "acme").unwrap();
    }
    let local = Principal::local().operator();
    for other in [&local, &Principal::new("other", "eve").operator()] {
        assert_eq!(access.grant(other, denial.clone()).await.unwrap_err().code().0, -32602);
        assert_eq!(access.revoke(other, back.clone()).await.unwrap_err().code().0, -32602);
        let own = access.query(other, AccessQueryParams::new("ada", "files")).await.unwrap();
        assert_eq!(own.entries.len(), 0);
    }
    access.grant(&ann(), denial).await.unwrap();
    assert_eq!(access.revoke(&ann(), back).await.unwrap().deleted_count, 1);
}

#[tokio::test]
async fn a_grant_that_names_a_tool_may_say_that_it_is_never_confirmed() {
    let Book { access, .. } = book();
    let (ada, files) = (Principal::new("acme", "ada"), "files".into());
    access.grant(&ann(), allow("ada")).await.unwrap();
    let named = || access.named(&ada, Some(&files), "read", SystemTime::now());
    assert!(named().is_none(), "a server_grant names no tool");
    access.grant(&ann(), tool("ada", "read").without_confirmation()).await.unwrap();
    assert_eq!(named().unwrap().confirm, Some(mgp_security::ConfirmRule::Never));
    let deny = AccessGrantParams::deny("*", "files").tool("read");
    access.grant(&ann(), deny).await.unwrap();
    assert!(named().is_none(), "a deny beats it");
}

#[tokio::test]
async fn answers_and_events_show_that_a_grant_is_never_confirmed() {
    let Book { access, log, .. } = book();
    let mut ann = client(&access, ann());
    let grant = json!({"entry_type": "tool_grant", "agent_id": "ada", "server_id": "files",
        "tool_name": "read", "permission": "allow", "confirm": "never"});
    let granted = ask(&mut ann, "mgp/access/grant", grant).await.unwrap();
    assert_eq!(granted["confirm"], "never");
    assert_eq!(details(&of_type(&log, "ACCESS_GRANTED")[0])["confirm"], "never");
    let all = json!({"agent_id": "ada", "server_id": "files"});
    let entries = ask(&mut ann, "mgp/access/query", all).await.unwrap();
    assert_eq!(entries["entries"][0]["confirm"], "never");
    let one = json!({"agent_id": "ada", "server_id": "files", "tool_name": "read"});
    let decided = ask(&mut ann, "mgp/access/query", one).await.unwrap();
    assert_eq!(decided["confirm"], "never");
    let back = json!({"agent_id": "ada", "server_id": "files", "entry_type": "tool_grant"});
    let gone = ask(&mut ann, "mgp/access/revoke", back).await.unwrap();
    assert_eq!(gone["revoked"][0]["confirm"], "never");
    assert_eq!(details(&of_type(&log, "ACCESS_REVOKED")[0])["confirm"], "never");
}

#[tokio::test]
async fn an_expiry_is_recorded_once_by_one_of_several_processes() {
    let Book { access: here, log, store } = book();
    let there = over(&store, &log);
    there.open().await.unwrap();
    let shown = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&shown);
    there.on_change(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let grant = allow("ada").until(SystemTime::now() + Duration::from_secs(3));
    here.grant(&ann(), grant).await.unwrap();
    assert!(may(&here, "acme", "ada", "read"));
    until("the expiry is recorded", async || !of_type(&log, "ACCESS_REVOKED").is_empty()).await;
    assert!(!may(&here, "acme", "ada", "read") && !may(&there, "acme", "ada", "read"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let ended = of_type(&log, "ACCESS_REVOKED");
    assert_eq!((ended.len(), ended[0].actor.kind.as_str()), (1, "kernel"));
    assert_eq!(details(&ended[0])["cause"], "expired");
    assert!(shown.load(Ordering::Relaxed) >= 2, "the grant and its end");
    let made = here.grant(&ann(), allow("ada")).await.unwrap();
    assert_eq!(made.status, "granted", "what has ended is absent");
}

#[tokio::test]
async fn every_change_runs_the_hooks() {
    let policies = Policies::default();
    let access = Access::in_memory(policies.clone());
    let shown = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&shown);
    access.on_change(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let news = || shown.swap(0, Ordering::Relaxed) > 0;
    access.grant(&ann(), allow("ada")).await.unwrap();
    assert!(news(), "a grant");
    access.revoke(&ann(), AccessRevokeParams::server_grant("ada", "files")).await.unwrap();
    assert!(news(), "a revocation");
    let mut open = ServerPolicy::default();
    open.default_policy = DefaultPolicy::OptOut;
    policies.set("files", open);
    assert!(news() && may(&access, "acme", "ada", "read"), "a policy");
    access.groups().set("acme", "ada", ["interns"]);
    assert!(news(), "a group");
}

#[tokio::test]
async fn a_change_or_expiry_of_entries_changes_the_revision_of_their_tenant_only() {
    let seconds = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&seconds);
    let after = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let access = Access::in_memory(Policies::default());
    let access = access.clock(move || after(clock.load(Ordering::Relaxed)));
    let boss = Principal::new("beta", "boss").operator();
    access.grant(&boss, allow("ada")).await.unwrap();
    let of = |tenant: &str| access.revisions().unwrap().get(tenant).copied();
    let (before, beta) = (of("acme"), of("beta"));
    access.grant(&ann(), allow("ada").until(after(5))).await.unwrap();
    let granted = of("acme");
    assert!(before.is_none() && granted.is_some() && beta.is_some());
    access.grant(&ann(), tool("ada", "wipe")).await.unwrap();
    assert_ne!(of("acme"), granted, "a second entry");
    let both = of("acme");
    seconds.store(5, Ordering::Relaxed);
    assert_ne!(of("acme"), both, "the first entry has expired");
    assert_eq!(of("beta"), beta);
}

#[tokio::test]
async fn entries_of_a_tenant_are_bounded() {
    let Book { access, store, .. } = book();
    let mut change = mgp_types::store::Change::new();
    for number in 0..10_000 {
        let entry = mgp_types::mgp::AccessEntry::new(
            EntryType::ServerGrant,
            number.to_string(),
            "files",
            AccessPermission::Allow,
        );
        let entry = mgp_security::Entry::new("acme", entry);
        change = change.put("access", number.to_string(), Payload::of(&entry).unwrap());
    }
    mgp_types::store::Store::commit(&store, change).await.unwrap();
    let full = access.grant(&ann(), allow("one more")).await.unwrap_err();
    assert_eq!(full.code().0, 3001);
    assert_eq!(full.message(), "there are 10000 access entries already; revoke some first");
    let elsewhere = Principal::new("other", "eve").operator();
    assert!(access.grant(&elsewhere, allow("ada")).await.is_ok());
}
