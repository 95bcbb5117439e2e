//! Tests of the declarations, arguments and errors of tools, as their callers see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_lifecycle::LimitConfig;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Cancelled, GrantState, Grants, ResultStream, SchemaStyle};
use mgp_types::Timestamp;
use mgp_types::mcp::ContentBlock;
use mgp_types::mgp::GrantDecision::{Approved, Deferred, Denied};
use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::{gate, mock};
use mgp_types::sync::Mutex;
use serde_json::{Value, json};

use super::raw::connect_mock as connect;

const MGP: &str = r#"{"mgp":{"version":"0.3.0","extensions":["streaming","tool_security"]}}"#;

async fn call(client: &mut mock::Client, tool: &str, arguments: &Value) -> Result<Value, RpcError> {
    let params = json!({ "name": tool, "arguments": arguments }).to_string();
    client.request("tools/call", &params).await?.get()
}

async fn list(client: &mut mock::Client) -> Value {
    client.request("tools/list", "{}").await.unwrap().get().unwrap()
}

// === Arguments ===

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only whether it is read matters")]
struct Search {
    /// The text to search.
    query: String,
    filter: Filter,
    pages: Vec<Page>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only whether it is read matters")]
struct Filter {
    /// The minimum number of stars.
    stars: u8,
    order: Option<Order>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Newest,
    Oldest,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only whether it is read matters")]
struct Page {
    number: u32,
}

#[tokio::test]
async fn invalid_arguments_never_reach_the_tool_and_the_error_names_the_field() {
    let runs = Arc::new(AtomicUsize::new(0));
    let search = {
        let runs = Arc::clone(&runs);
        Tool::new("search", "Searches", move |Args(search): Args<Search>| {
            runs.fetch_add(1, Ordering::Relaxed);
            async move {
                match search.filter.order {
                    Some(Order::Newest | Order::Oldest) => "sorted",
                    None => "found",
                }
            }
        })
    };
    for style in [SchemaStyle::Inlined, SchemaStyle::Hoisted] {
        let server = Server::new("t", "1").schema_style(style).tool(search.clone());
        let (mut client, _) = connect(server, MGP).await;
        let filter = json!({ "stars": 3 });
        let pages = json!([{ "number": 1 }]);
        for (arguments, field, says, expected) in [
            (json!({}), "query", "it is missing", Some("string")),
            (
                json!({ "query": 7 }),
                "query",
                "invalid type: integer `7`, expected a string",
                Some("string"),
            ),
            (
                json!({ "query": "q", "filter": {} }),
                "filter.stars",
                "it is missing",
                Some("integer"),
            ),
            (
                json!({ "query": "q", "filter": { "stars": 300 } }),
                "filter.stars",
                "invalid value: integer `300`, expected u8",
                Some("integer"),
            ),
            (
                json!({ "query": "q", "filter": { "stars": 3, "order": "best" } }),
                "filter.order",
                "unknown variant `best`, expected `newest` or `oldest`",
                None,
            ),
            (
                json!({ "query": "q", "filter": { "stars": 3, "sort": 1 } }),
                "filter.sort",
                "there is no such argument; expected `stars` or `order`",
                None,
            ),
            (
                json!({ "query": "q", "filter": filter, "pages": [{ "number": 1 }, { "number": "2" }] }),
                "pages[1].number",
                "invalid type: string \"2\", expected u32",
                Some("integer"),
            ),
        ] {
            let error = call(&mut client, "search", &arguments).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_TOOL_ARGS);
            let message = format!("invalid arguments for `search`: `{field}`: {says}");
            assert_eq!(error.message(), message, "{arguments}");
            let recovery = error.as_recovery().unwrap();
            assert_eq!(recovery.retryable, Some(false));
            let details = recovery.details.as_ref().unwrap();
            assert_eq!(details.decode::<String>("field").unwrap().unwrap(), field);
            let schema: Option<Value> = details.decode("expected").unwrap();
            if let Some(expected) = expected {
                assert_eq!(schema.unwrap()["type"], expected, "{arguments}");
            }
        }
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        let fine = json!({ "query": "q", "filter": filter, "pages": pages, "more": 1 });
        assert_eq!(
            call(&mut client, "search", &fine).await.unwrap()["content"][0]["text"],
            "found"
        );
        runs.store(0, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn an_integer_may_have_a_fraction_of_zeros() {
    #[derive(Deserialize, JsonSchema)]
    struct Steps {
        steps: u32,
        #[serde(default)]
        turned: bool,
    }
    let walk = Tool::new("walk", "Walks", |Args(Steps { steps, turned })| async move {
        format!("walked {steps} steps{}", if turned { " back" } else { "" })
    });
    let (mut client, _) = connect(Server::new("t", "1").tool(walk), MGP).await;
    let walked = call(&mut client, "walk", &json!({ "steps": 3.0 })).await.unwrap();
    assert_eq!(walked["content"][0]["text"], "walked 3 steps");
    let refused = call(&mut client, "walk", &json!({ "steps": 3.5 })).await.unwrap_err();
    let message =
        "invalid arguments for `walk`: `steps`: invalid type: floating point `3.5`, expected u32";
    assert_eq!(refused.message(), message);
    let wrong = json!({ "steps": 3.0, "turned": "no" });
    let refused = call(&mut client, "walk", &wrong).await.unwrap_err();
    let message =
        "invalid arguments for `walk`: `turned`: invalid type: string \"no\", expected a boolean";
    assert_eq!(refused.message(), message);
}

#[tokio::test]
async fn a_plain_client_reads_the_field_in_the_result() {
    let echo = Tool::new("search", "Searches", |Args(_): Args<Search>| async { "found" });
    let (mut client, _) = connect(Server::new("t", "1").tool(echo), "{}").await;
    let refused = call(&mut client, "search", &json!({})).await.unwrap();
    assert_eq!(refused["isError"], true);
    assert_eq!(refused["structuredContent"]["details"]["field"], "query");
    assert!(!refused.to_string().contains("mgp"), "{refused}");
}

#[tokio::test]
async fn a_refusal_does_not_break_the_schema_of_the_results() {
    let sum = Tool::new("sum", "Sums", |Args(_): Args<Search>| async { Json(Sum { sum: 1 }) });
    let (mut client, _) = connect(Server::new("t", "1").tool(sum), "{}").await;
    let refused = call(&mut client, "sum", &json!({})).await.unwrap();
    assert_eq!(refused["isError"], true);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("`query`"), "{refused}");
    assert!(refused.get("structuredContent").is_none(), "{refused}");
}

#[tokio::test]
async fn a_long_value_is_not_repeated_whole() {
    let echo = Tool::new("search", "Searches", |Args(_): Args<Filter>| async { "found" });
    let (mut client, _) = connect(Server::new("t", "1").tool(echo), MGP).await;
    let arguments = json!({ "stars": "x".repeat(100_000) });
    let error = call(&mut client, "search", &arguments).await.unwrap_err();
    assert!(error.message().len() < 400, "{error}");
}

// === Results ===

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[tokio::test]
async fn typed_results_carry_their_schema() {
    let server = Server::new("t", "1")
        .tool(Tool::new("typed", "", || async { Json(Sum { sum: 1 }) }))
        .tool(Tool::new("tried", "", || async { Ok::<_, ToolError>(Json(Sum { sum: 1 })) }))
        .tool(Tool::new("list", "", || async { Json(vec![1, 2]) }))
        .tool(Tool::new("named", "", || async { CallToolResult::text("x") }).output::<Sum>())
        .tool(Tool::new("text", "", || async { "x" }));
    let (mut client, _) = connect(server, "{}").await;
    let tools = list(&mut client).await;
    let has = |index: usize| tools["tools"][index]["outputSchema"]["properties"]["sum"].is_object();
    assert_eq!([0, 1, 2, 3, 4].map(has), [true, true, false, true, false]);
    let listed = call(&mut client, "list", &json!({})).await.unwrap();
    assert_eq!(listed["content"][0]["text"], "[1,2]");
    assert!(listed.get("structuredContent").is_none(), "MCP has objects there only");
}

#[tokio::test]
async fn schemas_are_inlined_or_hoisted_by_server_and_by_tool() {
    let search = || Tool::new("a", "", |Args(_): Args<Search>| async { "" });
    let other = Tool::new("b", "", |Args(_): Args<Search>| async { "" });
    let server = Server::new("t", "1").tool(search()).schema_style(SchemaStyle::Hoisted);
    let server = server.tool(other.schema_style(SchemaStyle::Inlined));
    let (mut client, _) = connect(server, "{}").await;
    let tools = list(&mut client).await;
    assert!(tools["tools"][0]["inputSchema"]["$defs"]["Filter"].is_object());
    assert!(!tools["tools"][1].to_string().contains("$ref"));
    // The schema that the author set is not changed.
    let raw = mgp_types::RawObject::of(&json!({ "type": "object", "x": 1 })).unwrap();
    let server = Server::new("t", "1").tool(search().input_schema(raw));
    let (mut client, _) = connect(server.schema_style(SchemaStyle::Hoisted), "{}").await;
    assert_eq!(list(&mut client).await["tools"][0]["inputSchema"]["x"], 1);
}

#[tokio::test]
async fn the_limit_of_a_server_for_chunks_also_holds_for_callers_without_chunks() {
    let long = |name: &str| {
        Tool::new(name, "", |stream: ResultStream| async move {
            stream.send_text("x".repeat(2_000)).await?;
            Ok::<_, RpcError>(())
        })
    };
    let passed = gate(|_| Ok(()));
    let server = Server::new("t", "1")
        .max_stream_bytes(1_000)
        .tool(long("long"))
        .tool(long("layered").layer(passed))
        .tool(long("own").max_stream_bytes(10_000));
    let (mut client, _) = connect(server, "{}").await;
    for tool in ["long", "layered"] {
        let refused = call(&mut client, tool, &json!({})).await.unwrap();
        assert_eq!(refused["structuredContent"]["code"], 3001, "{refused}");
        assert_eq!(refused["structuredContent"]["details"]["limit"], 1_000, "{refused}");
    }
    let whole = call(&mut client, "own", &json!({})).await.unwrap();
    assert_eq!(whole["content"][0]["text"].as_str().map(str::len), Some(2_000));
}

// === Security ===

fn shell() -> Tool {
    Tool::new("shell", "Runs a command", || async { "ran" })
        .risk(RiskLevel::Dangerous)
        .permissions(["shell"])
}

#[tokio::test]
async fn the_server_asks_for_the_permissions_of_its_tools() {
    let read = Tool::new("read", "Reads", || async { "" })
        .risk(RiskLevel::Safe)
        .permissions([Permission::FilesystemRead]);
    let all = Tool::new("all", "Does all", || async { "" }).permissions(["filesystem", "shell"]);
    let server = || Server::new("t", "1").tool(shell()).tool(read.clone()).tool(all.clone());
    let (mut client, hello) = connect(server(), MGP).await;
    let needed = &hello["capabilities"]["mgp"]["permissions_required"];
    assert_eq!(*needed, json!(["shell.execute", "filesystem.read", "filesystem.write"]));
    let tools = list(&mut client).await;
    // The metadata is listed unchanged, and in the two places where clients look for it.
    let security = &tools["tools"][0]["security"];
    assert_eq!(security["permissions_required"], json!(["shell"]));
    assert_eq!(tools["tools"][0]["_meta"]["dev.cloto/mgp"]["security"], *security);
    assert_eq!(tools["tools"][1]["annotations"]["readOnlyHint"], true);
    // A plain MCP peer receives the derived hints, and nothing that belongs to MGP.
    let (mut plain, hello) = connect(server(), "{}").await;
    let tools = list(&mut plain).await;
    assert_eq!(tools["tools"][0]["annotations"]["destructiveHint"], true);
    assert!(!format!("{hello}{tools}").contains("mgp"), "{hello} {tools}");
    assert!(!tools.to_string().contains("security"), "{tools}");
}

#[tokio::test]
async fn a_tool_without_its_permission_answers_1000_itself() {
    let (mut client, _) = connect(Server::new("t", "1").tool(shell()), MGP).await;
    // The client has sent no decision about the permission, so the server runs the tool.
    call(&mut client, "shell", &json!({})).await.unwrap();
    let grants = client.cx.scope.state::<Grants>();
    let past = Timestamp::from("2020-01-01T00:00:00Z");
    let future = Timestamp::from("2999-01-01T00:00:00Z");
    for (decision, until, standing) in [
        (Approved, None, GrantState::Granted),
        (Approved, Some(&future), GrantState::Granted),
        (Approved, Some(&past), GrantState::Expired),
        (Denied, None, GrantState::Denied),
        (Deferred, None, GrantState::Deferred),
    ] {
        grants.note(&Permission::ShellExecute, decision, until);
        assert_eq!(grants.standing(&Permission::from("shell")), standing);
        let answer = call(&mut client, "shell", &json!({})).await;
        if standing == GrantState::Granted {
            answer.unwrap();
            continue;
        }
        let error = answer.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
        let expected = format!(
            "`shell` needs the permission `shell.execute`, which is {}; ",
            standing.as_str()
        );
        assert!(error.message().starts_with(&expected), "{error}");
        let details = error.as_recovery().unwrap().details.clone().unwrap();
        assert_eq!(details.decode::<String>("permission").unwrap().unwrap(), "shell.execute");
        let remedy = details.decode::<String>("remedy").unwrap().unwrap();
        assert!(error.message().ends_with(&remedy), "{error}");
        assert_eq!(remedy.starts_with("call again"), standing == GrantState::Deferred, "{remedy}");
    }
    // Grants that a call itself carries take precedence over those that the client sent for the connection.
    let own = Grants::default();
    own.note(&Permission::ShellExecute, Approved, None);
    client.cx.extensions.insert(own);
    call(&mut client, "shell", &json!({})).await.unwrap();
}

#[tokio::test]
async fn a_tool_without_its_permission_can_be_hidden() {
    let free = || Tool::new("free", "Needs nothing", || async { "" });
    let server = Server::new("t", "1").tool(shell()).tool(free()).hide_denied_tools();
    let (mut client, _) = connect(server, MGP).await;
    assert_eq!(list(&mut client).await["tools"].as_array().unwrap().len(), 2);
    let grants = client.cx.scope.state::<Grants>();
    grants.note(&Permission::ShellExecute, Denied, None);
    let tools = list(&mut client).await;
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1);
    assert_eq!(tools["tools"][0]["name"], "free");
    let error = call(&mut client, "shell", &json!({})).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
    grants.note(&Permission::ShellExecute, Approved, None);
    assert_eq!(list(&mut client).await["tools"].as_array().unwrap().len(), 2);
}

// === Layers, time-outs, cancellation ===

#[tokio::test]
async fn a_layer_wraps_one_tool() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = {
        let seen = Arc::clone(&seen);
        gate(move |call| {
            assert!(call.cx().caller.supports_mgp(), "the caller is known");
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    };
    let closed = gate(|_| Err(RpcError::new(ErrorCode::ACCESS_DENIED, "not for you")));
    let words =
        Tool::new("open", "", |State(words): State<String>| async move { (*words).clone() });
    let server = Server::new("t", "1")
        .state("shared".to_owned())
        .tool(words.layer(count))
        .tool(Tool::new("closed", "", || async { "in" }).layer(closed))
        .tool(Tool::new("other", "", || async { "other" }));
    let (mut client, _) = connect(server, MGP).await;
    let open = call(&mut client, "open", &json!({})).await.unwrap();
    assert_eq!(open["content"][0]["text"], "shared");
    let error = call(&mut client, "closed", &json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "not for you (1001)");
    call(&mut client, "other", &json!({})).await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_has_its_own_time_limit() {
    let sleep = |name: &str, seconds: u64| {
        Tool::new(name, "", move || async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            "slept"
        })
    };
    let server = Server::new("t", "1")
        .timeout(Duration::from_secs(10))
        .tool(sleep("short", 5).timeout(Duration::from_secs(1)))
        .tool(sleep("long", 50).timeout(Duration::from_mins(1)))
        .tool(sleep("other", 50));
    let (mut client, _) = connect(server, MGP).await;
    let error = call(&mut client, "short", &json!({})).await.unwrap_err();
    assert!(error.to_string().starts_with("no answer within 1 s; it may have run"), "{error}");
    call(&mut client, "long", &json!({})).await.unwrap();
    let error = call(&mut client, "other", &json!({})).await.unwrap_err();
    assert!(error.to_string().starts_with("no answer within 10 s; it may have run"), "{error}");
}

/// Waits until a flag is set, and clears it.
async fn until_set(flag: &AtomicBool) {
    mgp_testkit::until("the flag is set", async || flag.swap(false, Ordering::Relaxed)).await;
}

#[tokio::test]
async fn a_blocking_tool_is_notified_when_its_call_is_dropped() {
    const LONGEST: Duration = Duration::from_secs(5);
    let [started, notified] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let work = |name: &str, waits: bool| {
        let (started, notified) = (Arc::clone(&started), Arc::clone(&notified));
        let work = move |cancelled: Cancelled| {
            let (started, notified) = (Arc::clone(&started), Arc::clone(&notified));
            async move {
                started.store(true, Ordering::Relaxed);
                let began = tokio::time::Instant::now();
                if waits {
                    let _ = tokio::time::timeout(LONGEST, cancelled.cancelled()).await;
                }
                while !cancelled.is_cancelled() && began.elapsed() < LONGEST {
                    std::thread::sleep(Duration::from_millis(1));
                }
                notified.store(cancelled.is_cancelled(), Ordering::Relaxed);
                "ended by itself"
            }
        };
        Tool::new(name, "", work).on_blocking_pool()
    };
    for waits in [false, true] {
        let short = work("short", waits).timeout(Duration::from_secs(2));
        let server = Server::new("t", "1").tool(short).tool(work("long", waits));
        let (mut client, _) = connect(server, MGP).await;
        let error = call(&mut client, "short", &json!({})).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::TIMEOUT);
        until_set(&started).await;
        until_set(&notified).await;
        let running = tokio::spawn(client.call("tools/call", r#"{"name":"long"}"#));
        until_set(&started).await;
        running.abort();
        until_set(&notified).await;
    }
}

#[tokio::test]
async fn a_blocking_tool_counts_as_running_until_it_returns() {
    for per_caller in [None, Some(1)] {
        let (release, released) = std::sync::mpsc::channel();
        let (started, released) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(released)));
        let count = Arc::clone(&started);
        let scan = Tool::new("scan", "", move || {
            let (count, released) = (Arc::clone(&count), Arc::clone(&released));
            async move {
                count.fetch_add(1, Ordering::Relaxed);
                let _ = released.lock().recv_timeout(Duration::from_secs(10));
                "scanned"
            }
        });
        let mut limit = LimitConfig::default();
        (limit.max_running, limit.max_waiting, limit.running_per_caller) = (1, 0, per_caller);
        let scan = scan.on_blocking_pool().timeout(Duration::from_secs(3));
        let (mut client, _) = connect(Server::new("t", "1").limit(limit).tool(scan), MGP).await;
        let running = tokio::spawn(client.call("tools/call", r#"{"name":"scan"}"#));
        while started.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // In the first case, the caller ends the call; in the second case, the call's time limit does.
        if per_caller.is_none() {
            running.abort();
        }
        assert!(matches!(running.await, Err(_) | Ok(Err(_))));
        let refused = call(&mut client, "scan", &json!({})).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(started.load(Ordering::Relaxed), 1);
        release.send(()).unwrap();
        release.send(()).unwrap();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while call(&mut client, "scan", &json!({})).await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "the permit is never released");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(started.load(Ordering::Relaxed), 2);
    }
}

// === Building ===

#[track_caller]
fn refused(server: Server, expected: &str) {
    let error = server.into_stack().unwrap_err();
    assert_eq!(error.message(), expected);
}

#[tokio::test]
async fn build_errors_are_reported_at_once() {
    let tool = |name: &str| Tool::new(name, "", || async { "" });
    let name = "a name is 1 to 128 of the characters A-Z a-z 0-9 _ . / -";
    refused(Server::new("t", "1").tool(tool("a b")), &format!("tool `a b`: {name}"));
    refused(Server::new("t", "1").tool(tool("")), &format!("tool ``: {name}"));
    for name in ["mgp/x", "mgp.x", "mgp_x"] {
        let prefix = &name[..4];
        let expected = format!(
            "tool `{name}`: names that begin with `{prefix}` are reserved by the protocol; choose another"
        );
        refused(Server::new("t", "1").tool(tool(name)), &expected);
    }
    let stateful = Tool::new("s", "", |State(_): State<AtomicUsize>| async { "" });
    let unknown = tool("p").permissions(["shel"]);
    refused(
        Server::new("t", "1").tool(tool("a")).tool(tool("a")).tool(stateful).tool(unknown),
        "tool `a` is defined twice; rename one, or replace the first with `replace`; \
         tool `p` needs the unknown permission `shel`; use a standard one, or a reverse-domain name such as `com.example.shel`; \
         tool `s` takes `State<core::sync::atomic::AtomicUsize>`, and the server has none; give it one with `.state(…)`",
    );
    let plain = Tool::blocking("greet", "", |name: String| name);
    let list = Tool::new("list", "", |Args(_): Args<Vec<String>>| async { "" });
    let raw = tool("raw").input_schema(mgp_types::RawObject::default());
    for (tool, name, kind) in
        [(plain, "greet", "\"string\""), (list, "list", "\"array\""), (raw, "raw", "missing")]
    {
        let expected = format!(
            "tool `{name}`: the `type` of its arguments' schema is {kind}, and must be \"object\"; take a struct with named fields, e.g. `Args<Greet>`"
        );
        refused(Server::new("t", "1").tool(tool), &expected);
    }
    let blocks = Tool::new("text", "", || async { Ok::<_, ToolError>(Vec::<ContentBlock>::new()) });
    for tool in [tool("text").output::<Sum>(), blocks.output::<Sum>()] {
        refused(
            Server::new("t", "1").tool(tool),
            "tool `text` has an output schema, and its function returns no structured content; return `Json<…>`, or omit the schema",
        );
    }
    for name in ["a", "A-b_c.d/e", &"x".repeat(128)] {
        Server::new("t", "1").tool(tool(name)).into_stack().unwrap();
    }
    let (here, there) = mgp_transport::duplex();
    let error = Server::new("t", "1").tool(tool("a b")).serve(here.reader, there.writer).await;
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("the server cannot be built: tool `a b`: a name is"), "{text}");
}

#[tokio::test]
async fn a_tool_added_at_run_time_is_checked_as_well() {
    let server = Server::new("t", "1");
    let tools = server.tools();
    let stack = server.into_stack().unwrap();
    assert!(tools.try_add(Tool::new("mgp_x", "", || async { "" })).is_err());
    let stateful = Tool::new("s", "", |State(_): State<AtomicUsize>| async { "" });
    assert!(tools.try_add(stateful).unwrap_err().message().contains("State<"));
    tools.add(Tool::new("a b", "", || async { "" }));
    assert_eq!(tools.len(), 0);
    tools.add(Tool::new("fine", "", || async { "" }));
    assert_eq!(tools.len(), 1);
    drop(stack);
}
