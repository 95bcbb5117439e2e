//! Tests of the methods of tool search (MGP §16.5–§16.7).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use mgp_types::mcp::Tool;
use mgp_types::mgp::{Permission, RiskLevel, ToolSecurity};
use mgp_types::service::{
    Context, CredentialGrant, Hidden, Principal, Scope, ScopeKind, Stack, mock, visibility,
};
use mgp_types::{Payload, RawObject};
use serde_json::{Value, json};

use super::*;
use crate::{
    IndexedTool, Pins, Query, ServerEntry, SessionLimits, Sessions, TokenCounter, ToolEntry,
    ToolIndex, default_budget,
};

fn tool(name: &str, description: &str, schema: &Value, risk: RiskLevel) -> ToolEntry {
    let mut tool = Tool::new(name.to_owned(), RawObject::of(schema).unwrap());
    tool.description = Some(description.to_owned());
    ToolEntry::from(tool).security(ToolSecurity::new(risk))
}

fn path() -> Value {
    json!({"type": "object", "properties": {"csv_path": {"type": "string"}}, "required": ["csv_path"]})
}

fn index() -> ToolIndex {
    let index = ToolIndex::new();
    let data = ServerEntry::new("data").categories(["data"]).tools([
        tool("analyze_csv", "Compute statistics on CSV data", &path(), RiskLevel::Safe),
        tool(
            "train_model",
            "Train a regression model",
            &json!({"type": "object"}),
            RiskLevel::Dangerous,
        ),
    ]);
    let files = ServerEntry::new("files").categories(["filesystem"]).tools([
        tool("read_file", "Read the contents of a file", &path(), RiskLevel::Safe),
        tool("delete_file", "Delete a file for good", &path(), RiskLevel::Dangerous),
    ]);
    index.put_all([data, files]).unwrap();
    index
}

fn endpoints() -> Endpoints {
    Endpoints::new(index(), Sessions::new())
}

fn client(endpoints: &Endpoints) -> mock::Client {
    mock::client(Stack::new(endpoints.router()))
}

async fn ask(client: &mut mock::Client, method: &str, params: Value) -> Value {
    let answer = client.request(&format!("mgp/tools/{method}"), &params.to_string()).await;
    answer.unwrap().get().unwrap()
}

#[track_caller]
fn names(all: &Value) -> Vec<&str> {
    all.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn results_have_everything_that_a_call_needs() {
    let found = ask(&mut client(&endpoints()), "discover", json!({"query": "read a file"})).await;
    let first = &found["tools"][0];
    assert_eq!(first["name"], "read_file");
    assert_eq!(first["server_id"], "files");
    assert_eq!(first["inputSchema"], path());
    assert_eq!(first["security"]["risk_level"], "safe");
    assert!(first["relevance_score"].as_f64().is_some_and(|score| score > 0.0 && score <= 1.0));
    assert_eq!(found["total_available"], 4);
    assert!(found["search_strategy"].is_string() && found["query_time_ms"].is_u64());
    for absent in ["trimmed", "tool_id", "reason"] {
        assert!(first[absent].is_null(), "{first}");
    }
}

#[tokio::test]
async fn results_name_the_part_of_the_query_that_they_serve() {
    let endpoints = endpoints();
    let mut client = client(&endpoints);
    let query = "compute statistics of the sales, then delete the old file";
    let found = ask(&mut client, "discover", json!({"query": query, "explain": true})).await;
    let parts = found["_mgp"]["parts"].as_array().unwrap();
    assert_eq!(parts[0]["text"], "compute statistics of the sales");
    assert_eq!(parts[0]["tools"][0], "analyze_csv", "{found}");
    assert_eq!(parts[1]["tools"][0], "delete_file", "{found}");
    let served = parts.iter().flat_map(|part| part["tools"].as_array().unwrap()).count();
    assert_eq!(served, names(&found["tools"]).len(), "each tool serves one part");
    let single = ask(&mut client, "discover", json!({"query": "read a file"})).await;
    assert!(single["_mgp"].is_null(), "{single}");
}

#[tokio::test]
async fn an_empty_query_browses_and_the_number_has_a_cap() {
    let index = ToolIndex::new();
    let schema = json!({"type": "object"});
    let tools =
        (0..80).map(|number| tool(&format!("t{number}"), "Does it", &schema, RiskLevel::Safe));
    index.put(ServerEntry::new("many").tools(tools)).unwrap();
    let endpoints = Endpoints::new(index, Sessions::new());
    let mut client = client(&endpoints);
    for (params, expected) in [
        (json!({}), 5),
        (json!({"query": "  "}), 5),
        (json!({"max_results": 9}), 9),
        (json!({"max_results": 9.0}), 9),
        (json!({"max_results": 0}), 1),
        (json!({"max_results": u64::MAX}), 50),
    ] {
        let found = ask(&mut client, "discover", params.clone()).await;
        let told = found["tools"].as_array().unwrap().len() as u64;
        assert_eq!(told + found["omitted"].as_u64().unwrap_or(0), expected, "{params}");
        assert_eq!(found["total_available"], 80);
    }
}

#[tokio::test]
async fn unknown_words_are_refused_with_the_known_ones() {
    let mut client = client(&endpoints());
    for (params, expected) in [
        (
            json!({"strategy": "magic"}),
            "unknown strategy `magic`; known: keyword, semantic, category, hybrid",
        ),
        (json!({"filter": {"risk_level_max": "mild"}}), "known: safe, moderate, dangerous"),
        (json!({"filter": {"status": "asleep"}}), "connected, draining"),
        (
            json!({"filter": {"category": ["x"]}}),
            "unknown member of `filter` `category`; known: categories, ",
        ),
        (json!({"filter": {"categories": ["musik"]}}), "unknown category `musik`; known: "),
        (json!({"filter": {"servers": ["fils"]}}), "unknown server `fils`; known: "),
        (
            json!({"query": "q".repeat(70_000)}),
            "`query` has 70000 bytes; at most 65536 are allowed",
        ),
        (
            json!({"filter": {"servers": vec!["s"; 100]}}),
            "`filter.servers` has 100 words; at most 32 are allowed",
        ),
        (
            json!({"filter": {"categories": ["c".repeat(9999)]}}),
            "9999 bytes a word; at most 256 are allowed",
        ),
        (json!({"strategy": "\u{7}".repeat(9000)}), "unknown strategy"),
    ] {
        let refused = client.request("mgp/tools/discover", &params.to_string()).await.unwrap_err();
        assert_eq!(refused.code().0, -32602, "{refused}");
        assert!(refused.message().contains(expected), "{refused}");
        assert!(refused.message().len() < 400);
    }
    let many = json!({"requirements": {"capabilities": vec!["x"; 5000]}});
    for (params, expected) in [
        (many, "`requirements.capabilities` has 5000 words; at most 16 are allowed"),
        (json!({"requirements": {"capabilities": []}}), "describe each capability in a few words"),
        (
            json!({"requirements": {"capabilities": [" "]}}),
            "describe each capability in a few words",
        ),
        (
            json!({"requirements": {"capabilities": ["x"], "preferred_risk_level": "none"}}),
            "known: safe",
        ),
        (
            json!({"requirements": {"capabilities": ["x"]}, "context": "c".repeat(5000)}),
            "`context`",
        ),
        (json!({}), "requirements"),
    ] {
        let refused = client.request("mgp/tools/request", &params.to_string()).await.unwrap_err();
        assert_eq!(refused.code().0, -32602, "{refused}");
        assert!(refused.message().contains(expected), "{refused}");
    }
    let deep = format!(r#"{{"filter":{}1{}}}"#, r#"{"categories":"#.repeat(5000), "}".repeat(5000));
    assert!(client.request("mgp/tools/discover", &deep).await.is_err());
}

#[tokio::test]
async fn a_tool_without_access_is_not_found_counted_or_named() {
    let open = Arc::new(AtomicBool::new(false));
    let (decides, counts) = (Arc::clone(&open), Arc::new(AtomicU64::new(0)));
    let version = Arc::clone(&counts);
    let endpoints = endpoints()
        .visibility(visibility(move |cx: &Context, server, _: &str| {
            assert_eq!(cx.principal.subject().as_str(), "local");
            match server.map(mgp_types::service::ServerId::as_str) {
                Some("files") if !decides.load(Ordering::Relaxed) => Err(Hidden::new("not files")),
                _ => Ok(()),
            }
        }))
        .version(move || version.load(Ordering::Relaxed));
    let mut client = client(&endpoints);
    let found =
        ask(&mut client, "discover", json!({"query": "delete a file", "explain": true})).await;
    assert_eq!(found["total_available"], 2);
    assert!(!found.to_string().contains("files") && !found.to_string().contains("delete_file"));
    let params = json!({"filter": {"categories": ["filesystem"]}}).to_string();
    let refused = client.request("mgp/tools/discover", &params).await.unwrap_err();
    assert!(refused.message().ends_with("known: data"), "{refused}");
    let params = json!({"filter": {"servers": ["files"]}}).to_string();
    let refused = client.request("mgp/tools/discover", &params).await.unwrap_err();
    assert!(refused.message().ends_with("unknown server `files`; known: data"), "{refused}");
    assert!(endpoints.similar_tools(&client.cx, "delete_fil").is_empty());
    let asked = json!({"requirements": {"capabilities": ["delete a file"]}});
    assert_eq!(ask(&mut client, "request", asked).await["status"], "unavailable");
    open.store(true, Ordering::Relaxed);
    counts.fetch_add(1, Ordering::Relaxed);
    let found = ask(&mut client, "discover", json!({"query": "delete a file"})).await;
    assert_eq!((&found["total_available"], names(&found["tools"])[0]), (&json!(4), "delete_file"));
    let similar = |name| endpoints.similar_tools(&client.cx, name);
    assert_eq!(similar("delete_fil")[0].name(), "delete_file");
    assert_eq!(similar("Files_deleteFile")[0].name(), "delete_file");
    assert!(["zzz", "-", "files"].into_iter().all(|name| similar(name).is_empty()));
}

#[tokio::test]
async fn two_credentials_of_one_subject_never_share_decisions() {
    let endpoints = endpoints()
        .visibility(visibility(|cx: &Context, _, _: &str| {
            match cx.extensions.get::<CredentialGrant>() {
                Some(grant) if !grant.permits("tools.list") => Err(Hidden::new("not permitted")),
                _ => Ok(()),
            }
        }))
        .version(|| 0);
    let mut client = client(&endpoints);
    for (permissions, expected) in
        [(None, 4), (Some("tools.list"), 4), (Some("tools.call:x"), 0), (Some("tools.list"), 4)]
    {
        if let Some(permission) = permissions {
            client.cx.extensions.insert(CredentialGrant::new([permission], || true));
        }
        let found = ask(&mut client, "discover", json!({"query": "delete a file"})).await;
        assert_eq!(found["total_available"], expected, "{permissions:?}");
    }
}

#[tokio::test]
async fn a_name_that_several_servers_have_comes_with_its_id() {
    let again = tool("read_file", "Read a file of a bucket", &path(), RiskLevel::Safe);
    let index = index();
    index.put(ServerEntry::new("bucket").tool(again)).unwrap();
    let endpoints = Endpoints::new(index, Sessions::new());
    let found = ask(&mut client(&endpoints), "discover", json!({"query": "read file"})).await;
    let ids: Vec<_> =
        found["tools"].as_array().unwrap().iter().map(|tool| &tool["tool_id"]).collect();
    assert!(ids.contains(&&json!("files.read_file")) && ids.contains(&&json!("bucket.read_file")));
}

/// Returns an index of tools with descriptions of every size, one of them far larger than the whole reserve.
fn bulky() -> ToolIndex {
    let index = ToolIndex::new();
    let sized = |number: usize, size: usize| {
        let properties: serde_json::Map<_, _> = (0..size)
            .map(|at| {
                (
                    format!("parameter_{at}"),
                    json!({"type": "string", "description": "Names a thing to report. ".repeat(4)}),
                )
            })
            .collect();
        let schema =
            json!({"type": "object", "properties": properties, "required": ["parameter_0"]});
        tool(
            &format!("report_{number}"),
            &"Makes a report. ".repeat(size),
            &schema,
            RiskLevel::Safe,
        )
    };
    let sizes = (0..60).map(|number| sized(number, 1 + number % 12)).chain([sized(99, 500)]);
    index.put(ServerEntry::new("reports").tools(sizes)).unwrap();
    index
}

#[tokio::test]
async fn no_answer_costs_more_than_its_reserve() {
    let (index, counter) = (bulky(), TokenCounter::new());
    let endpoints = Endpoints::new(index.clone(), Sessions::new());
    let mut client = client(&endpoints);
    let whole = counter.count(index.get("reports", "report_99").unwrap().definition());
    assert!(whole > 9000, "{whole}");
    for _ in 0..2 {
        for most in [1, 3, 5, 20, 50] {
            for query in ["report_99", "report", "report_11 things", ""] {
                let params =
                    json!({"query": query, "max_results": most, "explain": true}).to_string();
                let told = client.request("mgp/tools/discover", &params).await.unwrap();
                assert!(counter.count(told.as_str()) <= 3000, "{most} {query}");
                let told: Value = told.get().unwrap();
                let (tools, omitted) =
                    (told["tools"].as_array().unwrap(), told["omitted"].as_u64());
                assert!(!tools.is_empty());
                assert!(tools.len() as u64 + omitted.unwrap_or(0) <= most);
                for tool in tools {
                    assert_eq!(tool["inputSchema"]["type"], "object");
                }
            }
        }
        // Do not wait for the background task: count the remaining tokens now, so that the second round searches with
        // exact counts.
        index.count_tokens();
        assert_eq!(index.count_tokens(), 0);
    }
    let alone = ask(&mut client, "discover", json!({"query": "report_11", "max_results": 1})).await;
    assert!(alone["tools"][0]["trimmed"].is_null(), "{alone}");
}

#[tokio::test]
async fn a_definition_is_cut_only_when_the_reserve_is_spent() {
    let (endpoints, counter) = (Endpoints::new(bulky(), Sessions::new()), TokenCounter::new());
    let mut client = client(&endpoints);
    let large = counter.count(bulky().get("reports", "report_11").unwrap().definition());
    assert!(large > 300, "{large}");
    // Five definitions fit into the answer, so the model can call each tool without another search.
    let among = ask(&mut client, "discover", json!({"query": "report_11"})).await;
    let tools = among["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 5);
    assert!(tools.iter().all(|tool| tool["trimmed"].is_null()), "{among}");
    assert_eq!(tools[0]["inputSchema"]["properties"].as_object().unwrap().len(), 12);
    // Fifty definitions do not fit into the answer.
    let params = json!({"query": "report_11", "max_results": 50});
    let crowded = ask(&mut client, "discover", params).await;
    let tools = crowded["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["trimmed"] == true), "{crowded}");
}

#[tokio::test]
async fn exact_counts_make_room_and_estimates_never_overflow() {
    let counter = TokenCounter::new();
    let index = bulky();
    for _ in 0..2 {
        let found = index.search(&Query::new("report").limit(50), &crate::AllTools).unwrap();
        for reserve in [60_u64, 200, 500, 1000, 3000] {
            let mut budget = default_budget();
            budget.discovery_reserve = reserve;
            let told = Payload::of(&render_results(&found, &budget)).unwrap();
            let count = counter.count(told.as_str());
            assert!(u64::from(count) <= reserve, "{count} of {reserve}");
            assert!(reserve < 3000 || count > 1800, "{count}");
        }
        index.count_tokens();
    }
}

#[tokio::test]
async fn a_fulfilled_request_loads_its_tools_and_counts_them_exactly() {
    let endpoints = endpoints();
    let mut client = client(&endpoints);
    let asked = json!({"reason": "capability_gap", "context": "Processing CSV data but need statistics",
        "requirements": {"capabilities": ["statistics"], "input_types": ["csv"], "preferred_risk_level": "safe"}});
    let answer = ask(&mut client, "request", asked.clone()).await;
    assert_eq!(answer["status"], "fulfilled", "{answer}");
    assert_eq!(names(&answer["tools_loaded"]), ["analyze_csv"]);
    assert_eq!(answer["tools_unavailable"], json!([]));
    assert_eq!(answer["session_tools_count"], 1);
    assert!(answer["session_handle"].is_null());
    let tool = index().get("data", "analyze_csv").unwrap();
    let exact = TokenCounter::new().count(&crate::tokens::lean::lean(tool.definition()));
    assert_eq!(answer["context_tokens_added"], exact);
    let again = ask(&mut client, "request", asked).await;
    assert_eq!(
        (&again["status"], &again["context_tokens_added"]),
        (&json!("fulfilled"), &json!(0))
    );

    let session = ask(&mut client, "session", json!({})).await;
    assert_eq!(session["cached"], json!(["analyze_csv"]));
    assert_eq!(session["max_tokens"], 8000);
    let evicted = ask(&mut client, "session/evict", json!({"tools": ["analyze_csv"]})).await;
    assert_eq!(evicted, json!({"evicted": 1, "remaining_count": 0, "freed_tokens": exact}));
    assert_eq!(ask(&mut client, "session", json!({})).await["cached"], json!([]));
}

#[tokio::test]
async fn an_unfulfilled_capability_has_a_reason() {
    let mut client = client(&endpoints());
    let asked =
        json!({"requirements": {"capabilities": ["read file", "xylophone quantum brewing"]}});
    let answer = ask(&mut client, "request", asked).await;
    assert_eq!(answer["status"], "partial", "{answer}");
    assert_eq!(names(&answer["tools_loaded"]), ["read_file"]);
    let unmet = &answer["tools_unavailable"];
    assert_eq!(
        unmet[0],
        json!({"capability": "xylophone quantum brewing", "reason": "no tool does this"})
    );

    let asked =
        json!({"requirements": {"capabilities": ["delete file"], "input_types": ["spreadsheet"]}});
    let answer = ask(&mut client, "request", asked).await;
    assert_eq!(answer["status"], "partial", "{answer}");
    let why = answer["tools_unavailable"][0]["reason"].as_str().unwrap();
    assert_eq!(why, "it was loaded, but does not say that it can take spreadsheet");

    let asked = json!({"requirements": {"capabilities": ["xylophone quantum brewing"]}});
    let answer = ask(&mut client, "request", asked).await;
    assert_eq!(answer["status"], "unavailable");
    assert_eq!(answer["notes"][0], "no tool is made for it: `tool_creation` is not enabled");
}

#[tokio::test]
async fn a_preferred_risk_comes_first_and_a_greater_one_is_reported() {
    let index = index();
    let safe =
        tool("fetch_file", "Read the contents of a file from a URL", &path(), RiskLevel::Dangerous);
    index.put(ServerEntry::new("net").tool(safe)).unwrap();
    let mut client = client(&Endpoints::new(index, Sessions::new()));
    let asked = |what: &str| json!({"requirements": {"capabilities": [what], "preferred_risk_level": "safe"}});
    let answer = ask(&mut client, "request", asked("read the contents of a file")).await;
    assert_eq!(names(&answer["tools_loaded"]), ["read_file"]);
    assert!(answer["notes"].is_null(), "{answer}");
    let answer = ask(&mut client, "request", asked("train a model")).await;
    assert_eq!(answer["status"], "fulfilled");
    assert_eq!(
        answer["notes"][0],
        "`train_model` is dangerous: no tool that is safe at most does `train a model`"
    );
}

#[tokio::test]
async fn tools_that_need_approval_are_pending_and_refused_ones_are_hidden() {
    let endpoints = endpoints().availability(|_: &Context, tool: &IndexedTool| match tool.name() {
        "train_model" => Availability::NeedsApproval {
            permissions: vec![Permission::from("code_execution")],
            how: Some("run `mgp approve 7`".to_owned()),
        },
        "delete_file" => Availability::Refused,
        _ => Availability::Callable,
    });
    let mut client = client(&endpoints);
    let asked = |what: &[&str]| json!({"requirements": {"capabilities": what}});
    let answer = ask(&mut client, "request", asked(&["train a model"])).await;
    assert_eq!(answer["status"], "pending_approval");
    let unmet = &answer["tools_unavailable"][0];
    assert_eq!(unmet["name"], "train_model");
    assert_eq!(unmet["reason"], "needs approval of `code_execution`: run `mgp approve 7`");
    assert_eq!((&answer["session_tools_count"], &answer["tools_loaded"]), (&json!(0), &json!([])));
    let answer = ask(&mut client, "request", asked(&["train a model", "read file"])).await;
    assert_eq!(answer["status"], "partial");
    let answer = ask(&mut client, "request", asked(&["delete for good"])).await;
    assert_eq!(answer["status"], "unavailable");
    assert!(!answer.to_string().contains("delete_file"));
    let found = json!({"query": "delete a file", "max_results": 3});
    let found = ask(&mut client, "discover", found).await;
    assert_eq!((names(&found["tools"]).len(), &found["total_available"]), (3, &json!(3)));
    assert!(!found.to_string().contains("delete_file"), "{found}");
}

#[tokio::test]
async fn refused_tools_do_not_crowd_out_a_tool_that_can_be_called_and_are_refused_once() {
    let numbered = |n: u8| {
        tool(&format!("delete_file_{n}"), "Delete a file for good", &path(), RiskLevel::Safe)
    };
    let erase = tool("erase", "Can also delete a file", &path(), RiskLevel::Safe);
    let refused = ServerEntry::new("a").tools((0..60).map(numbered));
    let index = ToolIndex::new();
    index.put_all([refused, ServerEntry::new("b").tool(erase)]).unwrap();
    let decisions = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&decisions);
    let standing = move |_: &Context, tool: &IndexedTool| {
        counted.fetch_add(1, Ordering::Relaxed);
        if tool.server_id() == "a" { Availability::Refused } else { Availability::Callable }
    };
    let endpoints = Endpoints::new(index, Sessions::new()).availability(standing);
    let mut client = client(&endpoints);
    let found = ask(&mut client, "discover", json!({"query": "delete a file"})).await;
    assert_eq!(names(&found["tools"]), ["erase"], "{found}");
    let wanted = json!({"capabilities": ["delete a file", "delete the file"]});
    let asked = json!({"requirements": wanted, "context": "delete a file"});
    let answer = ask(&mut client, "request", asked).await;
    assert_eq!(names(&answer["tools_loaded"]), ["erase"], "{answer}");
    // Each of the two requests makes one decision about each of the 61 tools, and a few more about the tools that it
    // chooses.
    assert!(decisions.load(Ordering::Relaxed) < 2 * 65, "{decisions:?}");
}

struct Workshop(CreationOutcome);

#[async_trait]
impl ToolCreator for Workshop {
    async fn create(&self, _: Context, wanted: CreationRequest) -> CreationOutcome {
        assert_eq!(wanted.capabilities, ["xylophone quantum brewing"]);
        self.0.clone()
    }
}

#[tokio::test]
async fn a_missing_tool_is_created_only_with_a_hook() {
    for (creating, status) in [
        (CreationOutcome::Started("it waits for approval".to_owned()), "creating"),
        (CreationOutcome::Refused("the operator is asleep".to_owned()), "unavailable"),
    ] {
        let mut client = client(&endpoints().create(Workshop(creating)));
        let asked = json!({"requirements": {"capabilities": ["xylophone quantum brewing"]}});
        let answer = ask(&mut client, "request", asked).await;
        assert_eq!(answer["status"], status);
        assert!(answer["notes"][0].as_str().unwrap().contains(if status == "creating" {
            "waits"
        } else {
            "asleep"
        }));
        // No tool must be created for a capability that an existing tool has.
        let asked = json!({"requirements": {"capabilities": ["read file"]}});
        assert_eq!(ask(&mut client, "request", asked).await["status"], "fulfilled");
    }
}

#[tokio::test]
async fn stateless_requests_get_a_handle_that_no_other_principal_can_use() {
    let endpoints = endpoints();
    let mut client = client(&endpoints);
    let fresh = |client: &mut mock::Client| client.cx.scope = Scope::new(ScopeKind::Request);
    fresh(&mut client);
    assert_eq!(ask(&mut client, "session", json!({})).await["cached"], json!([]));
    let asked = json!({"requirements": {"capabilities": ["read file"]}});
    let answer = ask(&mut client, "request", asked.clone()).await;
    let handle = answer["session_handle"].as_str().unwrap().to_owned();
    fresh(&mut client);
    let session = ask(&mut client, "session", json!({"session_handle": handle})).await;
    assert_eq!(session["cached"], json!(["read_file"]));
    let mut again = asked.clone();
    again["session_handle"] = json!(handle);
    assert_eq!(ask(&mut client, "request", again.clone()).await["session_handle"], json!(handle));
    client.cx.principal = Principal::new("local", "mallory");
    fresh(&mut client);
    for (method, mut params) in [
        ("request", again),
        ("session", json!({})),
        ("session/evict", json!({"tools": ["read_file"]})),
        ("discover", json!({"query": "read"})),
    ] {
        params["session_handle"] = json!(handle);
        let method = format!("mgp/tools/{method}");
        let refused = client.request(&method, &params.to_string()).await.unwrap_err();
        assert_eq!(refused.code().0, -32602);
        assert!(refused.message().contains("unknown `session_handle`"), "{refused}");
    }
    // A request without a match must not open a session.
    let nothing = json!({"requirements": {"capabilities": ["xylophone quantum brewing"]}});
    assert!(ask(&mut client, "request", nothing).await["session_handle"].is_null());
}

#[tokio::test]
async fn pinned_tools_are_not_loaded_and_stay() {
    let pins = Pins::new().agent("bot", ["read_file"]);
    let sessions = Sessions::with_budget(default_budget(), pins, SessionLimits::default());
    let mut client = client(&Endpoints::new(index(), sessions));
    client.cx.principal = Principal::local().agent("bot");
    let asked = json!({"requirements": {"capabilities": ["read file"]}});
    let answer = ask(&mut client, "request", asked).await;
    assert_eq!(
        (&answer["status"], &answer["context_tokens_added"]),
        (&json!("fulfilled"), &json!(0))
    );
    let session = ask(&mut client, "session", json!({})).await;
    assert_eq!((&session["pinned"], &session["cached"]), (&json!(["read_file"]), &json!([])));
    let evicted =
        ask(&mut client, "session/evict", json!({"tools": ["read_file", "nothing"]})).await;
    assert_eq!(evicted["not_evicted"], json!(["read_file"]));
}

#[tokio::test]
async fn the_change_hook_is_called_for_each_change_of_a_session_and_nothing_else() {
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    let endpoints = endpoints().on_change(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let mut client = client(&endpoints);
    let wish = json!({"requirements": {"capabilities": ["statistics on CSV data"]}});
    let given = ask(&mut client, "request", wish.clone()).await;
    assert_eq!((&given["status"], heard.load(Ordering::Relaxed)), (&json!("fulfilled"), 1));
    let handle = given["session_handle"].clone();
    let again = json!({"requirements": wish["requirements"], "session_handle": handle});
    ask(&mut client, "request", again).await;
    let absurd = json!({"requirements": {"capabilities": ["brew espresso"]}});
    ask(&mut client, "request", absurd).await;
    assert_eq!(heard.load(Ordering::Relaxed), 1, "it was there, or nobody has it");
    for expected in [2, 2] {
        let params = json!({"tools": ["analyze_csv"], "session_handle": handle});
        ask(&mut client, "session/evict", params).await;
        assert_eq!(heard.load(Ordering::Relaxed), expected);
    }
}
