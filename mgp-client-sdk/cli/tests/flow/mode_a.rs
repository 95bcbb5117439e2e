//! Tests of mode A: the user asks for something, and the model searches for a tool (MGP §16.5, the flow diagram).

use std::sync::atomic::Ordering;

use mgp_types::mcp::Era;
use serde_json::json;

use crate::model::{Model, SEARCH, Speaks, Way};
use crate::world::{DESK, ERAS, World};
use mgp_testkit::until;

/// The user's request: "show me what is in this file".
const WISH: &str = "このファイルの中身を見せて";

#[tokio::test]
async fn a_file_is_shown_by_a_model_that_knows_only_how_to_find_tools() {
    let world = World::new(&format!("{DESK}{SEARCH}"));
    let file = world.write("work/haiku.txt", "古池や 蛙飛び込む 水の音\n");
    // The test waits until all tools are known, because the first search must not race with the start of the servers.
    let first = world.host("ada", Era::Legacy, mgp_client_sdk::Client::builder("host", "1")).await;
    world.knows(5).await;
    for era in ERAS {
        for speaks in [Speaks::Plain, Speaks::Mgp] {
            for way in [Way::ByName, Way::Through] {
                let case = format!("{era:?} {speaks:?} {way:?}: {WISH}");
                let mut model = Model::new(&world, era, speaks, way).await;
                let listed = model.look().await;
                assert!(listed.iter().all(|name| name.starts_with("mgp_tools_")), "{listed:?}");
                assert!(listed.len() <= 3, "{case}: {listed:?}");

                let query = json!({"query": "read file contents"});
                let found = model.learns("mgp_tools_discover", query, "tools").await;
                let best = &found["tools"][0];
                assert_eq!(best["name"], "read_file", "{case}: {found}");
                assert_eq!(best["server_id"], "tool.terminal");
                assert_eq!(best["security"]["permissions_required"], json!(["filesystem.read"]));
                assert!(best["relevance_score"].as_f64().unwrap() > 0.5, "{found}");
                assert!(found["search_strategy"].is_string() && found["query_time_ms"].is_number());

                let text = model.calls("read_file", json!({"path": file})).await;
                assert_eq!(text, "古池や 蛙飛び込む 水の音\n", "{case}");

                if era == Era::Legacy {
                    // A host that reads the list again after a change finds the tool in it.
                    let changes = model.changes.clone();
                    let reply = async || changes.load(Ordering::Relaxed) > 0;
                    until("the list has changed", reply).await;
                    assert!(model.look().await.contains(&"read_file".to_owned()), "{case}");
                }
                model.host.close().await;
            }
        }
    }
    first.close().await;
}
