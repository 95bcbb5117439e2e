//! Tests of mode B: in the middle of a task, the model lacks a tool and requests it (MGP §16.6, the flow diagram).

use std::fs;
use std::sync::atomic::Ordering;

use mgp_client_sdk::Client;
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::model::{Model, Speaks, Way};
use crate::world::{DESK, ERAS, World};
use mgp_testkit::until;

const MORE: &str = "[agents.ada]\npinned = ['read_file', 'parse_csv', 'write_report']\n\
    [kernel]\ntools_request = true\n";

const TABLE: &str = "city,rain\nBern,12\nOslo,18\nRome,3\n";

#[tokio::test]
async fn a_task_of_four_steps_gets_the_tool_that_its_third_step_lacks() {
    let world = World::new(&format!("{DESK}{MORE}"));
    let file = world.write("work/rain.csv", TABLE);
    let first = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.knows(5).await;
    for era in ERAS {
        for speaks in [Speaks::Plain, Speaks::Mgp] {
            for way in [Way::ByName, Way::Through] {
                let case = format!("{era:?} {speaks:?} {way:?}");
                let mut model = Model::new(&world, era, speaks, way).await;
                let listed = model.look().await;
                for name in ["read_file", "parse_csv", "write_report", "mgp_tools_request"] {
                    assert!(listed.contains(&name.to_owned()), "{case}: {listed:?}");
                }
                assert!(!listed.iter().any(|name| name.contains("analy")), "{listed:?}");

                // Steps 1 and 2 use tools that the kernel lists.
                let csv = model.calls("read_file", json!({"path": file})).await;
                let rows: Value =
                    model.calls("parse_csv", json!({"text": csv})).await.parse().unwrap();
                assert_eq!(rows["columns"], json!(["city", "rain"]));

                // Step 3 needs a tool that the kernel does not list.
                let request = json!({
                    "reason": "capability_gap",
                    "context": "need statistical analysis",
                    "requirements": {"capabilities": ["statistics"]},
                });
                let before = model.changes.load(Ordering::Relaxed);
                let given = model.learns("mgp_tools_request", request, "tools_loaded").await;
                assert_eq!(given["status"], "fulfilled", "{case}: {given}");
                let loaded = given["tools_loaded"].as_array().unwrap();
                assert_eq!(loaded.len(), 1, "{given}");
                assert_eq!(loaded[0]["name"], "analyze_csv");
                assert_eq!(loaded[0]["server_id"], "tool.data_processing");
                assert_eq!(loaded[0]["inputSchema"]["required"], json!(["csv"]));
                assert_eq!(given["tools_unavailable"], json!([]));
                assert!(given["context_tokens_added"].as_u64().unwrap() > 20, "{given}");
                assert_eq!(given["session_tools_count"], 4, "{given}");
                lists(&mut model, era, before).await;

                let figures = model.calls("analyze_csv", json!({"csv": csv})).await;
                let figures: Value = figures.parse().unwrap();
                assert_eq!((&figures["count"], &figures["mean"]), (&json!(3), &json!(11.0)));

                // Step 4 uses listed tools again.
                let report = world.path("work/report.md");
                let text = format!("It rained {} mm on average.\n", figures["mean"]);
                model.look().await;
                model.calls("write_report", json!({"path": report, "text": text})).await;
                assert_eq!(fs::read_to_string(report).unwrap(), "It rained 11.0 mm on average.\n");
                session(&model, speaks, &given).await;
                model.host.close().await;
            }
        }
    }
    first.close().await;
}

/// Checks that the kernel lists the loaded tool. It does so only in the legacy era, because the modern era has no
/// sessions.
async fn lists(model: &mut Model, era: Era, before: usize) {
    if era == Era::Legacy {
        let changes = model.changes.clone();
        until("the list has changed", async || changes.load(Ordering::Relaxed) > before).await;
        assert!(model.look().await.contains(&"analyze_csv".to_owned()));
    }
}

/// Checks that the agent's session contains the requested tool.
async fn session(model: &Model, speaks: Speaks, given: &Value) {
    let handle = &given["session_handle"];
    let arguments = if handle.is_null() { json!({}) } else { json!({"session_handle": handle}) };
    let reply = model.host.call("mgp_tools_session").args(arguments).await.unwrap();
    let reply: Value = reply.structured_content.unwrap().get().unwrap();
    assert_eq!(reply["pinned"], json!(["read_file", "parse_csv", "write_report"]), "{speaks:?}");
    let cached = reply["cached"].as_array().unwrap();
    assert!(cached.contains(&json!("analyze_csv")), "{reply}");
    assert!(reply["total_tokens"].as_u64() <= reply["max_tokens"].as_u64(), "{reply}");
}
