//! Tests that calls obey the rules for code that the server of the tool declares (MGP §7.3).

use mgp_security::{Governance, Policies, ServerPolicy, StandardValidators};
use mgp_types::Payload;
use mgp_types::mgp::{DefaultPolicy, Permission, RiskLevel};
use mgp_types::service::{Reply, Stack, mock};
use serde_json::{Value, json};
use tower_layer::Layer;

/// Calls a tool that declares `rules`, with `code` as its argument; returns the error code of the refusal, or 0.
async fn call(tool: &str, rules: &Value, code: &str) -> i32 {
    let policy = ServerPolicy::default()
        .default_policy(DefaultPolicy::OptOut)
        .permissions([Permission::from("*")])
        .risk(tool, RiskLevel::Safe);
    let governance = Governance::builder()
        .policies(Policies::with_default(policy))
        .standard_validators(&StandardValidators::new())
        .build();
    let tools = json!({ "tools": [{
        "name": tool,
        "inputSchema": { "type": "object", "properties": { "code": { "type": "string" } } },
        "security": { "risk_level": "safe", "validator": "code_safety", "code_safety": rules },
    }] });
    let list = Payload::from_trusted(tools.to_string());
    let server = Stack::from_fn(move |call| {
        let answer = if call.tool().is_some() { Payload::empty_object() } else { list.clone() };
        async move { Ok(Reply::raw(answer)) }
    });
    let mut client = mock::client(Stack::new(governance.layer("files").layer(server)));
    let params = json!({ "name": tool, "arguments": { "code": code } }).to_string();
    client.request("tools/call", &params).await.map_or_else(|error| error.code().0, |_| 0)
}

#[tokio::test]
async fn the_language_of_unrestricted_code_is_known_and_its_imports_are_still_checked() {
    let rules = json!({ "level": "unrestricted", "language": "python" });
    assert_eq!(call("run_snippet", &rules, "import json").await, 0);
    assert_eq!(call("run_snippet", &rules, "import subprocess").await, 1011);
}

#[tokio::test]
async fn rules_without_a_language_are_for_that_of_the_tools_name() {
    let rules = json!({ "level": "strict", "allowed_imports": ["json"] });
    assert_eq!(call("run_python", &rules, "import json").await, 0);
    assert_eq!(call("run_python", &rules, "import math").await, 1011);
    assert_eq!(call("run_snippet", &rules, "import json").await, 1011, "the language is unknown");
}
