//! Tests of a server's permissions: the client's decisions that it receives, and its requests to clients (MGP §3.5,
//! §3.6).

use mgp_server_sdk::{Grants, Manifest, Server, Tool};
use mgp_testkit::{RawPeer, hello, modern_meta};
use mgp_types::mgp::Permission;
use serde_json::{Value, json};

fn server() -> Server {
    let run = Tool::new("run", "Runs", |grants: Grants| async move {
        grants.standing(&Permission::ShellExecute).as_str().to_owned()
    });
    let all = Tool::new("all", "Runs and looks", || async { "ran" });
    let free = Tool::new("free", "Needs nothing", || async { "free" });
    Server::new("s", "1")
        .tool(run.permissions(["shell"]))
        .tool(all.permissions(["shell.execute", "camera"]))
        .tool(free)
}

fn offer(extensions: &[&str]) -> Value {
    json!({ "extensions": { "dev.cloto/mgp": { "version": "0.3.0", "extensions": extensions } } })
}

/// Makes a modern call as a client that offers these extensions.
async fn call(raw: &mut RawPeer, offered: &Value, tool: &str, meta: Value, more: Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": {}, "_meta": modern_meta(offered) });
    params["_meta"].as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    raw.ask("tools/call", params).await
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// Connects to a server and sends `initialize`; returns the connection, and the MGP part of the server's answer.
async fn legacy(server: Server, capabilities: Value) -> (RawPeer, Value) {
    let mut raw = super::raw::connect(server);
    let answer = raw.ask("initialize", hello("2025-11-25", &capabilities)).await;
    (raw, answer["result"]["capabilities"]["extensions"]["dev.cloto/mgp"].clone())
}

#[tokio::test]
async fn the_extension_is_offered_once_a_tool_needs_a_permission() {
    for (word, shown) in [("security", "security"), ("permissions", "permissions")] {
        let (_, mgp) = legacy(server(), offer(&[word])).await;
        assert_eq!(mgp["extensions"], json!([shown]));
        let needed = json!(["shell.execute", "camera"]);
        assert_eq!(mgp["permissions_required"], needed);
    }
    // A client of the first specification has one name, `security`, for two extensions; this server serves only one of
    // the two. So the methods of the other extension must be unknown.
    let (mut raw, mgp) = legacy(Server::new("s", "1"), offer(&["security"])).await;
    assert_eq!(mgp["extensions"], json!(["security"]));
    let params = json!({ "request_id": "p", "grants": {} });
    let answer = raw.ask("mgp/permission/response", params).await;
    assert_eq!(answer["error"]["code"], -32601);
}

#[tokio::test]
async fn all_four_methods_are_answered_and_hold_from_the_next_call_on() {
    let spellings = [
        ("mgp/permission/request", "mgp/permission/response"),
        ("mgp/permission/await", "mgp/permission/grant"),
    ];
    for (waiting, telling) in spellings {
        let (mut raw, _) = legacy(server(), offer(&["security"])).await;
        let params = json!({ "request_id": "p1", "permissions": ["shell.execute"] });
        let answer = raw.ask(waiting, params).await;
        assert_eq!(answer["result"], json!({ "request_id": "p1", "status": "waiting" }));
        raw.notify("notifications/initialized", json!({})).await;
        let call = json!({ "name": "run", "arguments": {} });
        // The client has announced a decision about the permission, so the server refuses the call until it receives
        // the decision.
        let answer = raw.ask("tools/call", call.clone()).await;
        assert_eq!(answer["error"]["code"], 1000, "{answer}");

        for (grants, active, code) in [
            (json!({ "shell": "approved", "camera": "denied" }), json!(["shell.execute"]), None),
            (
                json!({ "shell.execute": { "decision": "approved", "scope": { "commands": ["git"] } } }),
                json!(["shell.execute"]),
                None,
            ),
            (json!({ "shell.execute": "deferred" }), json!([]), Some(1000)),
            (json!({ "shell.execute": "denied" }), json!([]), Some(1000)),
        ] {
            let params = json!({ "request_id": "p2", "grants": grants });
            let answer = raw.ask(telling, params).await;
            let expected = json!({ "request_id": "p2", "acknowledged": true, "active": active });
            let mut result = answer["result"].clone();
            if result["active"].is_null() {
                result["active"] = json!([]);
            }
            assert_eq!(result, expected);
            let answer = raw.ask("tools/call", call.clone()).await;
            match code {
                None => assert_eq!(text(&answer), "granted"),
                Some(code) => assert_eq!(answer["error"]["code"], code, "{answer}"),
            }
        }
        let many: serde_json::Map<_, _> =
            (0..300).map(|number| (format!("com.example.p{number}"), json!("approved"))).collect();
        let answer = raw.ask(telling, json!({ "request_id": "p", "grants": many })).await;
        assert_eq!(answer["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn a_modern_call_uses_the_grants_it_carries_and_no_others() {
    let mgp = offer(&["permissions"]);
    let mut raw = super::raw::connect(server());
    let ours = json!({ "dev.cloto/mgp": { "grants": { "shell.execute": "approved" } } });
    let older = json!({ "dev.cloto/mgp/grants": { "shell": "approved" } });
    for meta in [ours, older] {
        let answer = call(&mut raw, &mgp, "run", meta, json!({})).await;
        assert_eq!(text(&answer), "granted");
    }
    let denied = json!({ "dev.cloto/mgp": { "grants": { "shell.execute": "denied" } } });
    let answer = call(&mut raw, &mgp, "run", denied, json!({})).await;
    assert_eq!(answer["error"]["code"], 1000, "what was decided is not asked: {answer}");
    // Grants in earlier calls do not apply to this call.
    let answer = call(&mut raw, &mgp, "run", json!({}), json!({})).await;
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
}

#[tokio::test]
async fn a_modern_caller_is_asked_once_for_missing_grants() {
    asked_once(offer(&["permissions"])).await;
    // A client that also supports other questions receives a sealed state in addition to the question about
    // permissions.
    let mut answers_forms = offer(&["permissions"]);
    answers_forms["elicitation"] = json!({ "form": {} });
    asked_once(answers_forms).await;
}

async fn asked_once(mgp: Value) {
    let mut raw = super::raw::connect(server());
    let some = json!({ "dev.cloto/mgp": { "grants": { "shell.execute": "approved" } } });
    for (meta, missing) in [
        (json!({}), json!(["shell.execute", "camera"])),
        (some.clone(), json!(["camera"])),
        (json!({ "dev.cloto/mgp": { "grants": 7 } }), json!(["shell.execute", "camera"])),
    ] {
        let asked = call(&mut raw, &mgp, "all", meta.clone(), json!({})).await;
        let question = &asked["result"]["inputRequests"]["mgp.permission"];
        assert_eq!(question["method"], "mgp/permission/request", "{asked}");
        assert_eq!(question["params"]["permissions"], missing);
        let mut answers = json!({ "inputResponses": { "mgp.permission": {
            "request_id": question["params"]["request_id"],
            "grants": { "camera": "approved", "shell.execute": "approved" },
        } } });
        if let Some(state) = asked["result"].get("requestState") {
            answers["requestState"] = state.clone();
        }
        assert_eq!(text(&call(&mut raw, &mgp, "all", meta.clone(), answers).await), "ran");
        // An answer that contains no decision counts as a refusal: the call fails, and the caller is not asked again.
        for empty in
            [json!({}), json!({ "grants": {} }), json!({ "grants": { "camera": "deferred" } })]
        {
            let answers = json!({ "inputResponses": { "mgp.permission": empty } });
            let refused = call(&mut raw, &mgp, "all", meta.clone(), answers).await;
            assert_eq!(refused["error"]["code"], 1000, "{refused}");
        }
    }
    assert_eq!(text(&call(&mut raw, &mgp, "free", json!({}), json!({})).await), "free");
}

#[tokio::test]
async fn a_caller_is_not_asked_about_a_disabled_tool() {
    let server = server();
    assert!(server.tools().disable("run"));
    let mut raw = super::raw::connect(server);
    let refused = call(&mut raw, &offer(&["permissions"]), "run", json!({}), json!({})).await;
    assert_eq!(refused["error"]["code"], 4002, "{refused}");
}

#[tokio::test]
async fn a_caller_without_the_permissions_extension_is_never_asked() {
    for offered in [json!({}), offer(&["tool_security", "streaming"])] {
        let mut raw = super::raw::connect(server());
        let brought = json!({ "dev.cloto/mgp": { "grants": { "shell.execute": "denied" } } });
        for meta in [json!({}), brought] {
            let answer = call(&mut raw, &offered, "run", meta, json!({})).await;
            assert_eq!(text(&answer), "unknown", "{offered}");
            assert!(!answer.to_string().contains("permission"), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_modern_list_is_filtered_by_the_grants_of_its_request() {
    let mgp = offer(&["permissions", "manifest"]);
    let server = server().hide_denied_tools().extension(Manifest::new());
    let mut raw = super::raw::connect(server);
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    for method in ["tools/list", "mgp/manifest/get"] {
        let mut params = json!({ "_meta": modern_meta(&mgp) });
        assert_eq!(names(&raw.ask(method, params.clone()).await), ["run", "all", "free"]);
        params["_meta"]["dev.cloto/mgp"] = json!({ "grants": { "shell.execute": "approved" } });
        assert_eq!(names(&raw.ask(method, params).await), ["run", "free"], "{method}");
    }
}
