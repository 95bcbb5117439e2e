//! Tests of the tools of the audit server.

use std::time::{Duration, SystemTime};

use mgp_client_sdk::{Client, EraChoice};
use mgp_security::{Delivery, Event};
use mgp_types::mgp::{AccessEntry, AccessPermission, Actor, EntryType};
use mgp_types::service::{AuditSink, Principal};
use serde_json::{Value, json};

use super::world::{World, ask};

/// Starts an audit server and forwards thirty events of three kinds to it, one second apart from noon on.
async fn garden() -> (World, Client, mgp_security::Forwarding) {
    let world = World::new(Delivery::Confirmed);
    let noon = SystemTime::UNIX_EPOCH + Duration::from_hours(492_396);
    let agent = Principal::local().agent("agent.one");
    let garden = "garden".into();
    for number in 0..30 {
        let event = match number % 3 {
            0 => Event::policy_changed(Actor::user("=ada"), Some(&garden)),
            1 => Event::call_denied(&agent, Some(&garden), "water").trace(Some("trace-77")),
            _ => {
                let allow = AccessPermission::Allow;
                let entry = AccessEntry::new(EntryType::ServerGrant, "agent.one", "shed", allow);
                Event::access_granted(Actor::user("ada"), &mgp_security::Entry::new("local", entry))
            }
        };
        let event = event.at(noon + Duration::from_secs(number)).build();
        world.log.record(event).await.unwrap();
    }
    let client = world.start(EraChoice::Auto).await;
    let mut forwarding = world.forward(&client);
    forwarding.wait_for(30).await;
    (world, client, forwarding)
}

fn numbers(answer: &Value) -> Vec<u64> {
    let events = answer["events"].as_array().unwrap();
    events.iter().map(|event| event["_mgp"]["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn events_are_found_by_their_content() {
    let (_world, client, _forwarding) = garden().await;
    let every = |from: u64| (0..10).map(|n| from + 3 * n).collect::<Vec<_>>();
    let grants = every(3);
    for (filter, expected) in [
        (json!({ "event_type": "dev.cloto.policy_changed" }), every(1)),
        (json!({ "tool_name": "water" }), every(2)),
        (json!({ "trace_id": "trace-77", "server_id": "garden" }), every(2)),
        (json!({ "server_id": "shed" }), grants.clone()),
        (json!({ "agent_id": "agent.one", "event_type": "ACCESS_GRANTED" }), grants),
        (json!({ "agent_id": "agent.two" }), vec![]),
        (
            json!({ "since": "2026-03-04T12:00:05Z", "until": "2026-03-04T12:00:08Z" }),
            vec![6, 7, 8],
        ),
        (json!({ "limit": 2 }), vec![1, 2]),
    ] {
        let answer = ask(&client, "query_audit_log", filter.clone()).await;
        assert_eq!(numbers(&answer), expected, "{filter}");
    }
    let (mut pages, mut filter) = (Vec::new(), json!({ "tool_name": "water", "limit": 4 }));
    loop {
        let answer = ask(&client, "query_audit_log", filter.clone()).await;
        pages.push(numbers(&answer));
        let Some(cursor) = answer["next_cursor"].as_str() else { break };
        filter["cursor"] = cursor.into();
    }
    assert_eq!(pages, [vec![2, 5, 8, 11], vec![14, 17, 20, 23], vec![26, 29]]);
    client.close().await;
}

#[tokio::test]
async fn events_are_counted() {
    let (_world, client, _forwarding) = garden().await;
    let stats = ask(&client, "get_audit_stats", json!({})).await;
    assert_eq!(
        stats["by_type"],
        json!({ "ACCESS_GRANTED": 10, "PERMISSION_DENIED": 10, "dev.cloto.policy_changed": 10 })
    );
    assert_eq!(stats["by_result"], json!({ "SUCCESS": 20, "BLOCKED": 10 }));
    assert_eq!(stats["by_agent"], json!({ "agent.one": 10 }));
    assert_eq!(stats["by_tool"], json!({ "garden/water": 10 }));
    assert_eq!(stats["last"], "2026-03-04T12:00:29.000Z");
    let few = ask(&client, "get_audit_stats", json!({ "until": "2026-03-04T12:00:03Z" })).await;
    assert_eq!(few["total"], 3);
    client.close().await;
}

#[tokio::test]
async fn events_are_exported_page_by_page() {
    let (_world, client, _forwarding) = garden().await;
    let export = |arguments: Value| ask(&client, "export_audit", arguments);
    let lines = export(json!({ "filter": { "limit": 7 } })).await;
    let text = lines["text"].as_str().unwrap();
    assert_eq!((lines["count"].as_u64(), text.lines().count()), (Some(7), 7));
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    let all = export(json!({ "format": "json" })).await;
    let all: Vec<Value> = serde_json::from_str(all["text"].as_str().unwrap()).unwrap();
    assert_eq!(all.len(), 30);
    let first = export(json!({ "format": "csv", "filter": { "limit": 2 } })).await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = json!({ "format": "csv", "filter": { "limit": 1, "cursor": cursor } });
    let second = export(second).await;
    let rows: Vec<_> = first["text"].as_str().unwrap().lines().collect();
    assert_eq!(rows.len(), 3);
    assert!(rows[0].starts_with("seq,timestamp,event_type,result,actor_type"));
    // The name `=ada` is preceded by an apostrophe, because a spreadsheet would evaluate it as a formula.
    assert!(rows[1].contains(r#""user","'=ada","garden","""#), "{}", rows[1]);
    assert!(rows[2].contains(r#""{""code"":1000,"#), "{}", rows[2]);
    assert!(second["text"].as_str().unwrap().starts_with(r#""3","2026-03-04T12:00:02.000Z""#));
    client.close().await;
}

#[tokio::test]
async fn invalid_queries_are_refused_with_the_reason() {
    let (_world, client, _forwarding) = garden().await;
    for (tool, arguments, expected) in [
        ("query_audit_log", json!({ "since": "noon" }), "`noon` is not a time"),
        ("query_audit_log", json!({ "cursor": "x" }), "`x` is not the cursor"),
        ("query_audit_log", json!({ "agent": "x" }), "`agent`: there is no such argument"),
        ("export_audit", json!({ "format": "xml" }), "xml"),
    ] {
        let refused = match client.call(tool).args(arguments).send().await {
            Ok(result) => format!("{result:?}"),
            Err(error) => error.to_string(),
        };
        assert!(refused.contains(expected), "{refused}");
    }
    let tools = client.tools().await.unwrap();
    assert_eq!(tools.len(), 3);
    for tool in tools.iter() {
        let security = tool.find_security().unwrap();
        assert_eq!(security.valid().unwrap().risk_level.as_str(), "safe");
    }
    client.close().await;
}
