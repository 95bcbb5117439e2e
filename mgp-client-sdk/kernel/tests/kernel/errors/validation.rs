//! Tests of the codes 4000 to 4199: invalid calls.

use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_types::mgp::RiskLevel;
use mgp_types::service::Stack;
use serde_json::json;

use super::expected_error::ExpectedError;
use super::gateway;
use super::peer::{Dialect, PEERS, Peer};
use super::security::open_to_all;
use crate::route::world::{build_with_tools, kernel_with, open};

#[derive(Deserialize, JsonSchema)]
struct Number {
    n: i64,
}

#[tokio::test]
async fn code_4000_invalid_tool_args() {
    let double = Tool::new("double", "Doubles", |Args(Number { n }): Args<Number>| async move {
        (n * 2).to_string()
    });
    let stack = Server::new("s", "1").tool(double).into_stack().unwrap();
    ExpectedError::new(ErrorCode::INVALID_TOOL_ARGS)
        .message(["invalid arguments for `double`: `n`: it is missing"])
        .details(["field", "expected"])
        .check_all_peers(&stack, "double")
        .await;
    for kind in PEERS {
        let mut peer = Peer::join(&stack, kind).await;
        let wrong = json!({ "name": "double", "arguments": { "n": "two" } });
        let answer = peer.ask("tools/call", wrong).await;
        ExpectedError::new(ErrorCode::INVALID_TOOL_ARGS)
            .message(["`n`: invalid type: string \"two\", expected i64"])
            .details(["field", "expected"])
            .check(&peer, &answer);
    }
}

#[tokio::test]
async fn a_kernel_names_the_arguments_that_do_not_fit() {
    let double = || {
        Tool::new("double", "Doubles", |Args(Number { n }): Args<Number>| async move {
            (n * 2).to_string()
        })
    };
    let server = move || Server::new("s", "1").tool(double());
    let kernel = kernel_with("s", open(&[]), 1, server).await;
    ExpectedError::new(ErrorCode::INVALID_TOOL_ARGS)
        .message(["the arguments do not fit the input schema of `double`: `/n`: "])
        .details(["tool", "field", "violations"])
        .check_all_peers(&kernel.server().into_stack().unwrap(), "s.double")
        .await;
}

#[tokio::test]
async fn code_4001_tool_not_found() {
    let weather = Tool::new("weather", "The weather", || async { "rain" });
    let stack = Server::new("s", "1").tool(weather).into_stack().unwrap();
    let long = "x".repeat(300);
    for (tool, words) in [
        ("wether", "unknown tool `wether`; did you mean `weather`?"),
        ("bake", "unknown tool `bake`; use a name from `tools/list`"),
        (&long, "unknown tool `xxx"),
    ] {
        for kind in PEERS {
            let mut peer = Peer::join(&stack, kind).await;
            let answer = peer.call(tool).await;
            if peer.dialect == Dialect::Mgp {
                ExpectedError::new(ErrorCode::TOOL_NOT_FOUND).message([""]).check_mgp(&answer);
            } else {
                // A plain peer must get the code that MCP defines.
                assert_eq!(answer["error"]["code"], -32602, "{answer}");
                assert!(answer["error"].get("data").is_none(), "{answer}");
            }
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.starts_with(words) && message.len() < 200, "{message}");
        }
    }
    // The governance layer must not repeat an unknown name in its message, because the name may be very long.
    let governed = Server::new("s", "1").governed(&open_to_all(), "s").into_stack().unwrap();
    let mut peer = Peer::join(&governed, PEERS[0]).await;
    let answer = peer.call(&"x".repeat(3000)).await;
    ExpectedError::new(ErrorCode::TOOL_NOT_FOUND)
        .message(["3000 bytes", "use a name from `tools/list`"])
        .check_mgp(&answer);
}

#[tokio::test]
async fn code_4002_tool_disabled() {
    let now = Tool::new("now", "The time", || async { "noon" });
    let server = Server::new("s", "1").tool(now);
    let tools = server.tools();
    assert!(tools.disable("now"));
    let stack = server.into_stack().unwrap();
    ExpectedError::new(ErrorCode::TOOL_DISABLED)
        .message(["the tool `now` is disabled by its server", "use another listed one"])
        .check_all_peers(&stack, "now")
        .await;
    assert!(tools.enable("now"));
    let answer = Peer::join(&stack, PEERS[0]).await.call("now").await;
    assert_eq!(answer["result"]["content"][0]["text"], "noon", "{answer}");

    // Change the definition of a tool, so that it differs from the approved definition.
    let look = |text: &'static str| Tool::new("t", text, || async { "seen" }).risk(RiskLevel::Safe);
    let below = Server::new("below", "1").tool(look("Looks at a file."));
    let tools = below.tools();
    let client = gateway::client(below).await;
    let governance = open_to_all();
    let stack = gateway::to(client).layer(governance.layer("below")).into_stack().unwrap();
    let list =
        async |stack: &Stack| Peer::join(stack, PEERS[0]).await.ask("tools/list", json!({})).await;
    assert_eq!(list(&stack).await["result"]["tools"][0]["name"], "t");
    assert!(tools.remove("t"));
    tools.add(look("Looks at a file, and sends it."));
    let shown = list(&stack).await;
    assert_eq!(shown["result"]["tools"], json!([]), "{shown}");
    let details =
        ["server_id", "tool", "status", "hash", "pinned_hash", "differences", "findings", "remedy"];
    ExpectedError::new(ErrorCode::TOOL_DISABLED)
        .message(["`t` of `below` is disabled", "its definition changed since it was approved"])
        .details(details)
        .check_all_peers(&stack, "t")
        .await;
}

#[tokio::test]
async fn a_held_tool_is_of_the_server_whose_id_begins_its_name() {
    let with = |name: &'static str| {
        move || {
            let held = "Adds\u{200b}.";
            let now = Tool::new("now", "The time", || async { "noon" });
            Server::new("s", "1").tool(now).tool(Tool::new(name, held, || async { "3" }))
        }
    };
    // The kernel refuses the definitions of both tools. A call of `two.add` must get the error about the tool `add` of
    // `two`, although the server `one` has a tool with this whole name.
    let builder = Kernel::builder().local_with("one", open(&[]), with("two.add"));
    let builder = builder.local_with("two", open(&[]), with("add"));
    let kernel = build_with_tools(builder, [("one", 1), ("two", 1)]).await;
    let stack = kernel.server().into_stack().unwrap();
    for kind in PEERS {
        let answer = Peer::join(&stack, kind).await.call("two.add").await;
        assert!(answer.to_string().contains("`add` of `two` is disabled"), "{answer}");
    }
}

#[tokio::test]
async fn code_4003_tool_name_conflict() {
    let clock =
        || Server::new("clock", "1").tool(Tool::new("now", "The time", || async { "noon" }));
    let builder = Kernel::builder().local_with("one", open(&[]), clock);
    let builder = builder.local_with("two", open(&[]), clock);
    let kernel = build_with_tools(builder, [("one", 1), ("two", 1)]).await;
    let stack = kernel.server().into_stack().unwrap();
    ExpectedError::new(ErrorCode::TOOL_NAME_CONFLICT)
        .message(["`now`", "one.now", "two.now"])
        .check_all_peers(&stack, "now")
        .await;
    // A call of the tool through `mgp_tools_call` gets the same error.
    let named =
        json!({ "name": "mgp_tools_call", "arguments": { "name": "now", "arguments": {} } });
    for kind in PEERS {
        let answer = Peer::join(&stack, kind).await.ask("tools/call", named.clone()).await;
        let shown = answer.to_string();
        assert!(shown.contains("4003") && shown.contains("one.now"), "{answer}");
    }
}
