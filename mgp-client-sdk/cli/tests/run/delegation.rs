//! Tests of calls that an agent makes on behalf of others (MGP §5.6).

use serde_json::{Value, json};

use crate::reach::{agent, text, world};
use crate::world::{Host, World, within};

fn call_for(host: &mut Host, delegation: &Value) -> Result<Value, Value> {
    let params = json!({"name": "log", "arguments": {}, "_mgp": {"delegation": delegation}});
    let result = host.ask("tools/call", &params)?;
    // A host without MGP gets a refusal as a tool result that is marked as an error.
    if result["isError"] == true { Err(result) } else { Ok(result) }
}

/// Calls the tool with `mgp_tools_call_many`, and returns the outcome of this call.
fn batch_for(host: &mut Host, delegation: &Value) -> Result<Value, Value> {
    let arguments = json!({"calls": [{"name": "log", "arguments": {}}]});
    let params = json!({"name": "mgp_tools_call_many", "arguments": arguments, "_mgp": {"delegation": delegation}});
    let result = host.ask("tools/call", &params)?;
    if result["isError"] == true {
        return Err(result);
    }
    let results: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    let outcome = &results["results"][0];
    match outcome.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(outcome["result"].clone()),
    }
}

/// Connects the agents `ann` and `bob`; `bob` has no access to the server.
fn ann_and_denied_bob(world: &World) -> (Host, Host) {
    let (mut ann, mut bob) = (agent(world, "ann"), agent(world, "bob"));
    within(|| ann.call("log", &json!({})).ok());
    let deny = json!({"entry_type": "server_grant", "agent_id": "bob", "server_id": "files", "permission": "deny"});
    world.operator().ask("mgp/access/grant", &deny).unwrap();
    within(|| bob.call("log", &json!({})).err());
    (ann, bob)
}

#[test]
fn a_delegated_call_has_the_rights_that_all_named_agents_have() {
    let world = world(&[("log", text("a"))], "");
    let (mut ann, mut bob) = ann_and_denied_bob(&world);

    call_for(&mut ann, &json!({"agent_id": "carl"})).unwrap();
    call_for(&mut ann, &json!({"chain": ["carl", "dora", "emil"]})).unwrap();
    for narrowed in [json!({"agent_id": "bob"}), json!({"chain": ["carl", "bob"]})] {
        let refused = call_for(&mut ann, &narrowed).unwrap_err().to_string();
        assert!(refused.contains("`bob`"), "{refused}");
    }
    // An agent gains no right by naming another agent.
    call_for(&mut bob, &json!({"agent_id": "ann"})).unwrap_err();
    let deep = call_for(&mut ann, &json!({"chain": ["a", "b", "c", "d"]})).unwrap_err().to_string();
    assert!(deep.contains("delegated over 4 agents"), "{deep}");
    for odd in [json!({}), json!({"to": "bob"}), json!({"chain": [""]})] {
        let refused = call_for(&mut ann, &odd).unwrap_err().to_string();
        assert!(refused.contains("_mgp.delegation"), "{refused}");
    }
    let recorded = world.operator().ask("mgp/kernel/audit", &json!({"limit": 500})).unwrap();
    assert!(recorded.to_string().contains(r#""on_behalf_of":"carl, dora, emil""#), "{recorded}");
}

#[test]
fn each_call_of_a_delegated_batch_has_the_rights_that_all_named_agents_have() {
    let world = world(&[("log", text("a"))], "");
    let (mut ann, _bob) = ann_and_denied_bob(&world);

    let refused = batch_for(&mut ann, &json!({"agent_id": "bob"})).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("`bob`"), "{refused}");
    let answered = batch_for(&mut ann, &json!({"chain": ["carl", "fred"]})).unwrap();
    assert_eq!(answered["content"][0]["text"], "a", "{answered}");
    let deep = batch_for(&mut ann, &json!({"chain": ["a", "b", "c", "d"]})).unwrap_err();
    assert!(deep.to_string().contains("delegated over 4 agents"), "{deep}");
    let odd = batch_for(&mut ann, &json!({"to": "bob"})).unwrap_err();
    assert!(odd.to_string().contains("_mgp.delegation"), "{odd}");
    let recorded = world.operator().ask("mgp/kernel/audit", &json!({"limit": 500})).unwrap();
    assert!(recorded.to_string().contains(r#""on_behalf_of":"carl, fred""#), "{recorded}");
}
