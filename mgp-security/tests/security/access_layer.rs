//! Tests of the access layer in a stack: calls, lists, methods for whole servers, credentials (MGP §5).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_security::{Access, AccessLayer, AuditLayer, Governance, Policies, ServerPolicy};
use mgp_types::Payload;
use mgp_types::mgp::{AccessGrantParams, DefaultPolicy};
use mgp_types::service::{
    CredentialGrant, MemoryAudit, Principal, Reply, Rule, Stack, Visibility, mock,
};
use serde_json::Value;
use tower_layer::Layer;

const LIST: &str =
    r#"{"tools":[{"name":"read","x-more":1},{"name":"write"}],"nextCursor":"n","z":[1]}"#;

fn server(answer: &'static str) -> Stack {
    Stack::from_fn(move |_| async move { Ok(Reply::raw(Payload::from_trusted(answer))) })
}

fn client(access: &Access, answer: &'static str) -> mock::Client {
    let layer = AccessLayer::new(access.clone()).server("files");
    mock::client(Stack::new(layer.layer(server(answer))))
}

async fn allow(access: &Access, agent: &str, tool: Option<&str>) {
    let mut grant = AccessGrantParams::allow(agent, "files");
    if let Some(tool) = tool {
        grant = grant.tool(tool);
    }
    access.grant(&Principal::local().operator(), grant).await.unwrap();
}

async fn deny(access: &Access, tool: &str) {
    let deny = AccessGrantParams::deny("*", "files").tool(tool);
    access.grant(&Principal::local().operator(), deny).await.unwrap();
}

#[tokio::test]
async fn a_refusal_names_agent_tool_reason_and_remedy() {
    let access = Access::in_memory(Policies::default());
    let log = MemoryAudit::new();
    let layer = AccessLayer::new(access.clone()).server("files").layer(server("{}"));
    let mut client = mock::client(Stack::new(AuditLayer::new(Arc::new(log.clone())).layer(layer)));
    // An operator, too, needs access to a server to call its tools. So the call is refused.
    client.cx.principal = Principal::local().operator();
    let error = client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`local` has no access to `read` on `files`; an operator can allow it with `mgp/access/grant` (1001)"
    );
    assert_eq!(Rule::of(&error).unwrap().as_str(), "default_policy opt-in");
    let details = Payload::of(error.as_recovery().unwrap().details.as_ref().unwrap()).unwrap();
    assert_eq!(
        details.as_str(),
        r#"{"agent":"local","server_id":"files","tool":"read","source":"default_policy","remedy":"an operator can allow it with `mgp/access/grant`"}"#
    );
    let events = log.events();
    assert_eq!((events.len(), events[0].event_type.as_str()), (1, "TOOL_BLOCKED"));
    let details = Payload::of(&events[0].details).unwrap();
    assert!(details.as_str().contains(r#""rule":"default_policy opt-in""#), "{details:?}");

    allow(&access, "local", None).await;
    deny(&access, "read").await;
    let error = client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err();
    assert_eq!(
        Rule::of(&error).unwrap().as_str(),
        "tool_grant deny for * on files/read (by local)"
    );
    let details = Payload::of(error.as_recovery().unwrap().details.as_ref().unwrap()).unwrap();
    assert!(details.as_str().contains("take back the tool_grant for `*` with `mgp/access/revoke`"));
}

#[tokio::test]
async fn a_refusal_of_a_reserved_name_does_not_propose_to_grant_access_to_it() {
    let access = Access::in_memory(Policies::default());
    for name in ["*", "group:admins"] {
        let mut client = client(&access, "{}");
        client.cx.principal = Principal::local().agent(name);
        let error = client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err();
        assert_eq!(error.code().0, 1001, "{name}");
        assert!(!error.to_string().contains("mgp/access/grant"), "{error}");
    }
}

#[tokio::test]
async fn a_list_is_read_only_if_a_tool_may_be_hidden() {
    let access = Access::in_memory(Policies::default());
    allow(&access, "local", None).await;
    // The layer parses a list of tools only if it must hide one of them. Otherwise it passes on even this list, which
    // cannot be parsed.
    let mut odd = client(&access, r#"{"tools":7}"#);
    assert_eq!(odd.request("tools/list", "{}").await.unwrap().as_str(), r#"{"tools":7}"#);
    let mut client = client(&access, LIST);
    assert_eq!(client.request("tools/list", "{}").await.unwrap().as_str(), LIST);
    deny(&access, "write").await;
    assert_eq!(
        client.request("tools/list", "{}").await.unwrap().as_str(),
        r#"{"tools":[{"name":"read","x-more":1}],"nextCursor":"n","z":[1]}"#
    );
    assert_eq!(odd.request("tools/list", "{}").await.unwrap_err().code().0, -32603);
}

#[tokio::test]
async fn methods_of_a_whole_server_are_decided_for_the_server() {
    let access = Access::in_memory(Policies::default());
    allow(&access, "local", Some("read")).await;
    let mut client = client(&access, r#"{"resources":[1],"prompts":[1],"resourceTemplates":[1]}"#);
    let guarded = [
        ("resources/read", r#"{"uri":"file:///a"}"#),
        ("resources/subscribe", r#"{"uri":"file:///a"}"#),
        ("prompts/get", r#"{"name":"p"}"#),
        ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"p"}}"#),
    ];
    let lists = [
        ("resources/list", r#"{"resources":[]}"#),
        ("resources/templates/list", r#"{"resourceTemplates":[]}"#),
        ("prompts/list", r#"{"prompts":[]}"#),
    ];
    for (method, params) in guarded {
        let error = client.request(method, params).await.unwrap_err();
        let expected = "`local` has no access to `files`; an operator can allow it with `mgp/access/grant` (1001)";
        assert_eq!(error.to_string(), expected, "{method}");
        assert!(client.notify(method, params).await.is_err(), "{method}");
    }
    for (method, empty) in lists {
        assert_eq!(client.request(method, "{}").await.unwrap().as_str(), empty);
    }
    assert!(client.request("resources/unsubscribe", r#"{"uri":"file:///a"}"#).await.is_ok());
    assert!(client.request("ping", "{}").await.is_ok());
    allow(&access, "local", None).await;
    for (method, params) in guarded.into_iter().chain(lists.map(|(method, _)| (method, "{}"))) {
        let answer = client.request(method, params).await.unwrap();
        assert!(answer.as_str().contains("[1]"), "{method}");
    }
}

#[tokio::test]
async fn a_server_for_other_tenants_is_closed_whatever_is_granted() {
    let policies = Policies::default();
    let access = Access::in_memory(policies.clone());
    let open = || ServerPolicy::default().default_policy(DefaultPolicy::OptOut);
    let (ada, boss) = (Principal::new("beta", "ada"), Principal::new("beta", "boss").operator());
    for grant in [allow_all("*"), allow_all("ada"), allow_all("ada").tool("read")] {
        access.grant(&boss, grant).await.unwrap();
    }
    let mut client = client(&access, LIST);
    client.cx.principal = ada.clone();
    assert_eq!(client.request("tools/list", "{}").await.unwrap().as_str(), LIST);

    policies.set("files", open().tenants(["acme"]));
    let error = client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`ada` has no access to `read` on `files`; an operator can allow it with `mgp/access/grant` (1001)"
    );
    assert_eq!(Rule::of(&error).unwrap().as_str(), "tenants: the server is for other tenants");
    assert!(client.notify("tools/call", r#"{"name":"read"}"#).await.is_err());
    assert!(client.request("resources/read", r#"{"uri":"file:///a"}"#).await.is_err());
    let listed = client.request("tools/list", "{}").await.unwrap();
    assert_eq!(listed.as_str(), r#"{"tools":[],"nextCursor":"n","z":[1]}"#);
    let files = "files".into();
    assert!(!access.may_see_a_tool(&client.cx, &files));
    assert!(access.may_call(&client.cx, &files, "read").is_err());
    // The tenant `local`, and an operator, are treated as any other caller.
    for principal in [Principal::local(), Principal::local().operator(), boss] {
        client.cx.principal = principal;
        assert!(client.request("tools/call", r#"{"name":"read"}"#).await.is_err());
    }
    client.cx.principal = Principal::new("acme", "ada");
    assert_eq!(client.request("tools/list", "{}").await.unwrap().as_str(), LIST);
    assert!(client.request("tools/call", r#"{"name":"read"}"#).await.is_ok());

    policies.set("files", open().tenants(["acme", "beta"]));
    client.cx.principal = ada;
    assert!(client.request("tools/call", r#"{"name":"read"}"#).await.is_ok());
}

#[tokio::test]
async fn an_explanation_names_the_tenants_of_a_server() {
    let policies = Policies::default();
    policies.set("files", ServerPolicy::default().tenants(["acme"]));
    let governance = Governance::builder().policies(policies).build();
    let (operator, ada) = (Principal::local().operator(), Principal::local().agent("ada"));
    governance.access().grant(&operator, allow_all("ada")).await.unwrap();
    let verdict = governance.explain(&ada, &"files".into(), "read", &Payload::empty_object());
    let step = &verdict.steps()[0];
    assert_eq!(
        format!("{} {}: {}", step.stage, step.result, step.rule),
        "access refused: tenants: the server is for other tenants"
    );
}

fn allow_all(agent: &str) -> AccessGrantParams {
    AccessGrantParams::allow(agent, "files")
}

#[tokio::test]
async fn a_tool_call_without_a_tool_name_is_refused() {
    let access = Access::in_memory(Policies::default());
    let mut client = client(&access, "{}");
    for params in ["{}", r#"{"name":7}"#] {
        assert_eq!(client.request("tools/call", params).await.unwrap_err().code().0, -32602);
    }
    assert!(client.notify("tools/call", r#"{"name":"read"}"#).await.is_err());
}

#[tokio::test]
async fn a_pass_narrows_and_never_widens() {
    let access = Access::in_memory(Policies::default());
    allow(&access, "local", None).await;
    let mut client = client(&access, LIST);
    let good = Arc::new(AtomicBool::new(true));
    let mut check = async |words: &[&str], listed: &[&str], called: &[&str]| {
        let still = Arc::clone(&good);
        let pass =
            CredentialGrant::new(words.iter().copied(), move || still.load(Ordering::Relaxed));
        client.cx.extensions.insert(pass);
        let list: Value = client.request("tools/list", "{}").await.unwrap().get().unwrap();
        let names = list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str());
        assert_eq!(names.collect::<Option<Vec<_>>>().unwrap(), listed, "{words:?}");
        for tool in ["read", "write"] {
            let answer = client.request("tools/call", &format!(r#"{{"name":"{tool}"}}"#)).await;
            assert_eq!(answer.is_ok(), called.contains(&tool), "{words:?} {tool}");
            let seen = access.sees(&client.cx, Some(&"files".into()), tool);
            assert_eq!(seen.is_ok(), listed.contains(&tool), "{words:?} {tool}");
        }
    };
    check(&[], &["read", "write"], &["read", "write"]).await;
    check(&["reports.read"], &["read", "write"], &["read", "write"]).await;
    check(&["tools.call"], &["read", "write"], &["read", "write"]).await;
    check(&["tools.list"], &["read", "write"], &[]).await;
    check(&["tools.call:read"], &["read"], &["read"]).await;
    check(&["tools.call:read", "tools.list"], &["read", "write"], &["read"]).await;
    check(&["tools.read:write"], &["write"], &[]).await;
    check(&["tools.nothing"], &[], &[]).await;
    deny(&access, "read").await;
    check(&["tools.call"], &["write"], &["write"]).await;
    let error = client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err();
    assert_eq!(error.code().0, 1001);

    good.store(false, Ordering::Relaxed);
    for (method, params) in [
        ("tools/call", r#"{"name":"write"}"#),
        ("tools/list", "{}"),
        ("prompts/list", "{}"),
        ("resources/read", r#"{"uri":"a"}"#),
    ] {
        assert_eq!(client.request(method, params).await.unwrap_err().code().0, 1003, "{method}");
    }
}

#[tokio::test]
async fn a_key_for_one_tool_permits_no_other_method_of_a_server() {
    let access = Access::in_memory(Policies::default());
    allow(&access, "local", None).await;
    let mut client = client(&access, r#"{"resources":[1]}"#);
    let files = "files".into();
    for (words, may) in [
        (&[][..], true),
        (&["reports.read"], true),
        (&["tools.call"], true),
        (&["tools.call:read"], false),
        (&["tools.list", "tools.read:read"], false),
    ] {
        client.cx.extensions.insert(CredentialGrant::new(words.iter().copied(), || true));
        for (method, params) in [
            ("resources/read", r#"{"uri":"file:///a"}"#),
            ("resources/subscribe", r#"{"uri":"file:///a"}"#),
            ("prompts/get", r#"{"name":"p"}"#),
            ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"p"}}"#),
        ] {
            let answer = client.request(method, params).await;
            let code = answer.as_ref().map_or_else(|error| error.code().0, |_| 0);
            assert_eq!(code, if may { 0 } else { 1001 }, "{words:?} {method}");
        }
        let listed = client.request("resources/list", "{}").await.unwrap();
        assert_eq!(listed.as_str().contains("[1]"), may, "{words:?}");
        assert_eq!(access.sees_server(&client.cx, &files).is_ok(), may, "{words:?}");
    }
}

#[tokio::test]
async fn a_caller_with_access_to_one_tool_may_see_a_tool_of_the_server() {
    let access = Access::in_memory(Policies::default());
    let mut client = client(&access, "{}");
    let files = "files".into();
    assert!(!access.may_see_a_tool(&client.cx, &files));
    deny(&access, "write").await;
    assert!(!access.may_see_a_tool(&client.cx, &files), "a denial allows nothing");
    allow(&access, "local", Some("read")).await;
    assert!(access.sees_server(&client.cx, &files).is_err());
    assert!(access.may_see_a_tool(&client.cx, &files));
    assert!(!access.may_see_a_tool(&client.cx, &"mail".into()));
    for (words, may) in
        [("tools.call:read", true), ("tools.list", true), ("tools.x", false), ("admin.read", true)]
    {
        client.cx.extensions.insert(CredentialGrant::new([words], || true));
        assert_eq!(access.may_see_a_tool(&client.cx, &files), may, "{words}");
    }
    client.cx.extensions.insert(CredentialGrant::new(["tools.call"], || false));
    assert!(!access.may_see_a_tool(&client.cx, &files), "the key has expired");
}

#[tokio::test]
async fn a_key_for_tools_does_not_administer() {
    let access = Access::in_memory(Policies::default());
    let mut client = mock::client(Stack::new(access.router()));
    client.cx.principal = Principal::local().operator();
    let revoke = r#"{"agent_id":"ada","server_id":"files","entry_type":"server_grant"}"#;
    let query = r#"{"agent_id":"ada","server_id":"files"}"#;
    for (words, writes, reads) in [
        (&[][..], true, true),
        (&["tools.call"], false, false),
        (&["tools.call", "admin.write"], true, true),
        (&["admin.read"], false, true),
    ] {
        client.cx.extensions.insert(CredentialGrant::new(words.iter().copied(), || true));
        let wrote = client.request("mgp/access/revoke", revoke).await;
        let code = wrote.as_ref().map_or_else(|error| error.code().0, |_| 0);
        assert_eq!(code, if writes { 0 } else { 1000 }, "{words:?}");
        if let Err(error) = wrote {
            let details = error.as_recovery().unwrap().details.clone().unwrap();
            let remedy: Option<String> = details.decode("remedy").unwrap();
            assert_eq!(remedy.as_deref(), Some("use credentials that permit it"), "{words:?}");
        }
        assert_eq!(client.request("mgp/access/query", query).await.is_ok(), reads, "{words:?}");
    }
}

#[tokio::test]
async fn subscribing_to_resources_needs_the_access_of_reading_them() {
    let access = Access::in_memory(Policies::default());
    let mut client = client(&access, "{}");
    let lists = r#"{"notifications":{"toolsListChanged":true}}"#;
    let watches = r#"{"notifications":{"resourceSubscriptions":["file:///a"]}}"#;
    assert!(client.request("subscriptions/listen", lists).await.is_ok());
    let refused = client.request("subscriptions/listen", watches).await.unwrap_err();
    assert_eq!(refused.code().0, 1001);
    assert!(client.request("subscriptions/listen", r#"{"notifications":7}"#).await.is_err());
    allow(&access, "local", None).await;
    assert!(client.request("subscriptions/listen", watches).await.is_ok());
}

#[tokio::test]
async fn entries_are_about_the_server_the_layer_names() {
    let access = Access::in_memory(Policies::default());
    let mut client = client(&access, "{}");
    client.cx.server = Some("elsewhere".into());
    allow(&access, "local", None).await;
    assert!(client.request("tools/call", r#"{"name":"read"}"#).await.is_ok());
}
