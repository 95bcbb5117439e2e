//! Tests of the four most frequent refusals: the caller gets the reason and the remedy, and `mgp audit query` shows
//! them.

use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_types::mcp::{ElicitAction, ElicitResult};
use serde_json::{Value, json};

use crate::refusal::Refused;
use crate::world::{ERAS, World};
use mgp_testkit::until;

const UNRULY: &str = r#"
[[servers]]
id = "unruly"
command = "{MGP}"
args = ["__example", "unruly"]

[[servers]]
id = "desk"
command = "{DESK}"
"#;

/// Starts hosts with and without MGP in both eras; each acts as a different agent.
async fn hosts(world: &World) -> Vec<(String, Client)> {
    let mut hosts = Vec::new();
    for era in ERAS {
        for plain in [true, false] {
            let agent = format!("{era:?}-{}", if plain { "plain" } else { "mgp" }).to_lowercase();
            // The host would accept every form, but the kernel must send it none.
            let builder = Client::builder("host", "1").timeout(Duration::from_mins(2));
            let builder =
                builder.on_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) });
            let builder = if plain { builder.without_mgp() } else { builder };
            let host = world.host(&agent, era, builder).await;
            hosts.push((agent, host));
        }
    }
    hosts
}

/// Returns the events of one type about an agent's calls of a tool.
fn events(world: &World, kind: &str, agent: &str, tool: &str) -> Vec<Value> {
    let query = ["audit", "query", "--type", kind, "--agent", agent, "--tool", tool];
    world.json(&query).as_array().unwrap().clone()
}

/// Waits until the audit log has the refusal of a call with its code and its rule.
async fn recorded(world: &World, agent: &str, tool: &str, code: i32) {
    until("it is on the record", async || {
        events(world, "TOOL_BLOCKED", agent, tool).iter().any(|event| {
            let details = &event["details"];
            event["result"] == "BLOCKED"
                && details["code"] == code
                && details["rule"].is_string()
                && details["reason"].is_string()
        })
    })
    .await;
    if code == 1000 {
        assert!(!events(world, "PERMISSION_DENIED", agent, tool).is_empty(), "{agent} {tool}");
    }
}

#[tokio::test]
async fn access_without_a_grant_is_refused_and_the_operator_reads_the_command_that_grants_it() {
    let world = World::new(UNRULY);
    let hosts = hosts(&world).await;
    world.knows(9).await;
    for (agent, host) in &hosts {
        for tool in ["unruly.weather", "weather", "mgp_tools_call"] {
            let arguments = match tool {
                "mgp_tools_call" => json!({"name": "weather", "arguments": {"city": "Bern"}}),
                _ => json!({"city": "Bern"}),
            };
            let refused = Refused::of(host.call(tool).args(arguments).await);
            assert_eq!(refused.code, 1001, "{agent} {tool}: {refused:?}");
            assert!(refused.reason.contains(refused.remedy()), "{refused:?}");
            assert!(refused.remedy().contains("operator"), "{refused:?}");
        }
        recorded(&world, agent, "weather", 1001).await;
        Refused::of(host.call("weather").arg("city", "Bern").await).names_no_command();
        // An operator can run the command that `mgp why` names without changing it.
        run(&world, agent, "weather", &format!("mgp access grant {agent} unruly"));
        assert!(host.call("weather").arg("city", "Bern").await.is_ok(), "{agent}");
    }
}

#[tokio::test]
async fn permissions_and_confirmations_wait_for_a_person() {
    let world = World::new(&format!("[kernel]\napproval_timeout = \"2s\"\n{UNRULY}"));
    let file = world.write("work/a.txt", "a");
    let hosts = hosts(&world).await;
    world.knows(9).await;
    for (agent, _) in &hosts {
        for server in ["unruly", "desk"] {
            world.quietly(&["access", "grant", agent, server]);
        }
    }
    let calls = hosts.iter().map(|(_, host)| async {
        let read = async { host.call("read_file").arg("path", &file).await };
        let wipe = async { host.call("wipe").arg("disk", "the old one").await };
        tokio::join!(read, wipe)
    });
    let answers = futures_util::future::join_all(calls).await;
    for ((agent, _), (read, wipe)) in hosts.iter().zip(answers) {
        let read = Refused::of(read);
        assert_eq!((read.code, &read.details["status"]), (1000, &json!("approval_pending")));
        assert_eq!(read.details["missing"][0]["permission"], "filesystem.read", "{read:?}");
        assert!(
            read.reason.contains("filesystem.read") && read.remedy().contains("stays open"),
            "{read:?}"
        );
        recorded(&world, agent, "read_file", 1000).await;

        let wipe = Refused::of(wipe);
        assert_eq!((wipe.code, &wipe.details["status"]), (1000, &json!("approval_pending")));
        assert_eq!(wipe.details["effective_risk_level"], "dangerous");
        assert!(wipe.reason.contains("it was not confirmed in time"), "{wipe:?}");
        assert!(wipe.remedy().contains("stays open"), "{wipe:?}");
        wipe.names_no_command();
        recorded(&world, agent, "wipe", 1000).await;
    }
    // After an operator's approval, the call runs once.
    let (_, host) = &hosts[0];
    let waiting = world.json(&["approvals", "ls"]);
    let of = |agent: &str| {
        let all = waiting.as_array().unwrap().iter();
        all.clone().find(|one| one["tool"] == "wipe" && one["agent_id"] == agent).cloned()
    };
    let open = of(&hosts[0].0).unwrap_or_else(|| panic!("{waiting}"));
    world.quietly(&["approvals", "approve", open["id"].as_str().unwrap()]);
    let ran = host.call("wipe").arg("disk", "the old one").await.unwrap();
    assert!(serde_json::to_string(&ran).unwrap().contains("that was number 1"), "{ran:?}");

    // After denying a call, an operator can still permit the tool with the command that `mgp why` names.
    for (agent, host) in &hosts[1..] {
        let open = of(agent).unwrap_or_else(|| panic!("{waiting}"));
        let id = open["id"].as_str().unwrap();
        world.quietly(&["approvals", "deny", id, "--because", "the backup is not done"]);
        let denied = Refused::of(host.call("wipe").arg("disk", "the old one").await);
        assert_eq!((denied.code, &denied.details["status"]), (1000, &json!("denied")));
        assert!(denied.reason.contains("the backup is not done"), "{denied:?}");
        denied.names_no_command();
        run(&world, agent, "wipe", &format!("mgp access grant {agent} unruly wipe --no-confirm"));
        assert!(host.call("wipe").arg("disk", "the old one").await.is_ok(), "{agent}");
    }
}

/// Checks that `mgp why` names the command `expected` for a call, and runs this command.
#[track_caller]
fn run(world: &World, agent: &str, tool: &str, expected: &str) {
    let why = world.json(&["why", agent, tool]);
    assert!(why["reason"].as_str().unwrap().contains(&format!("`{expected}`")), "{why}");
    let words: Vec<_> = expected.split(' ').skip(1).map(|word| word.trim_matches('\'')).collect();
    world.quietly(&words);
}

#[tokio::test]
async fn a_denial_and_a_permission_are_undone_by_what_the_operator_reads() {
    let world = World::new(UNRULY);
    let file = world.write("work/a.txt", "a");
    let host = world.host("ada", ERAS[0], Client::builder("host", "1")).await;
    world.knows(9).await;
    for server in ["unruly", "desk"] {
        world.quietly(&["access", "grant", "ada", server]);
    }
    world.quietly(&["access", "grant", "ada", "unruly", "weather", "--deny"]);
    let refused = Refused::of(host.call("weather").arg("city", "Bern").await);
    assert_eq!(refused.code, 1001);
    refused.names_no_command();
    run(&world, "ada", "weather", "mgp access revoke ada unruly weather");
    assert!(host.call("weather").arg("city", "Bern").await.is_ok());

    world.quietly(&["access", "grant", "*", "unruly", "weather", "--deny"]);
    run(&world, "ada", "weather", "mgp access revoke '*' unruly weather");

    world.quietly(&["permissions", "deny", "desk", "filesystem.read"]);
    let refused = Refused::of(host.call("read_file").arg("path", &file).await);
    assert_eq!(refused.code, 1000, "{refused:?}");
    refused.names_no_command();
    run(&world, "ada", "read_file", "mgp permissions approve desk filesystem.read");
    assert!(host.call("read_file").arg("path", &file).await.is_ok());

    let refused = Refused::of(host.call("mgp_access_grant").await);
    assert_eq!(refused.code, 1000);
    refused.names_no_command();
}

#[tokio::test]
async fn a_changed_definition_is_held_back_until_it_is_approved() {
    let world = World::new(UNRULY);
    let hosts = hosts(&world).await;
    world.knows(9).await;
    for (agent, _) in &hosts {
        world.quietly(&["access", "grant", agent, "unruly"]);
    }
    hosts[0].1.call("turn_coat").await.unwrap();
    let standing = || {
        let all = world.json(&["tools", "ls"]);
        let all = all.as_array().unwrap().iter();
        all.clone().find(|tool| tool["tool_id"] == "unruly.weather").unwrap()["standing"].clone()
    };
    until("it is held back", async || standing() == "changed").await;
    for (agent, host) in &hosts {
        let refused = Refused::of(host.call("unruly.weather").arg("city", "Bern").await);
        assert_eq!(
            (refused.code, &refused.details["status"]),
            (4002, &json!("definition_changed"))
        );
        assert!(refused.remedy().contains("approve"), "{refused:?}");
        // Agents must not see the new definition, which might contain instructions.
        assert!(!format!("{refused:?}").contains(".ssh"), "{refused:?}");
        let found = host.call("mgp_tools_discover").arg("query", "weather in a city").await;
        let found: Value = found.unwrap().structured_content.unwrap().get().unwrap();
        let found = found["tools"].as_array().unwrap().iter();
        assert!(found.clone().all(|tool| tool["name"] != "weather"), "{agent}");
        recorded(&world, agent, "weather", 4002).await;
        refused.names_no_command();
    }
    let held = ["audit", "query", "--type", "dev.cloto.definition_changed"];
    let held = world.json(&held);
    assert!(held.to_string().contains("weather"), "{held}");
    world.quietly(&["tools", "approve", "unruly.weather", "--yes"]);
    let (_, host) = &hosts[0];
    until("it is back", async || host.call("weather").arg("city", "Bern").await.is_ok()).await;
}
