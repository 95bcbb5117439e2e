//! Tests of hosts outside of the public internet that the policy of a server permits.

use mgp_security::{Governance, Policies, ServerPolicy, StandardValidators};
use mgp_types::Payload;
use mgp_types::mgp::{DefaultPolicy, Permission, RiskLevel, Validator};
use mgp_types::service::{Reply, Stack, mock};
use serde_json::{Value, json};
use tower_layer::Layer;

const LIST: &str = r#"{"tools":[{"name":"use","inputSchema":{"type":"object"},"security":{"risk_level":"safe","side_effects":["none"]}}]}"#;

/// Calls a tool of a server with a validator; returns the code of the refusal, or 0. The policy of `app` permits
/// `localhost:3000`, the one of `other` permits no local host.
async fn call(server: &str, validator: Validator, arguments: Value) -> i32 {
    let policy = ServerPolicy::default()
        .default_policy(DefaultPolicy::OptOut)
        .permissions([Permission::from("*")])
        .risk("use", RiskLevel::Safe)
        .validator("use", validator);
    let policies = Policies::with_default(policy.clone());
    policies.set("app", policy.local_hosts(["localhost:3000".parse().unwrap()]));
    let governance = Governance::builder()
        .policies(policies)
        .standard_validators(&StandardValidators::new())
        .build();
    let tools = Stack::from_fn(|call| {
        let answer = if call.tool().is_some() { "{}" } else { LIST };
        async move { Ok(Reply::raw(Payload::from_trusted(answer))) }
    });
    let mut client = mock::client(Stack::new(governance.layer(server).layer(tools)));
    let params = json!({"name": "use", "arguments": arguments}).to_string();
    client.request("tools/call", &params).await.map_or_else(|error| error.code().0, |_| 0)
}

#[tokio::test]
async fn calls_of_a_server_reach_the_local_hosts_of_its_policy_only() {
    for (server, url, code) in [
        ("app", "http://localhost:3000/a", 0),
        ("app", "http://127.0.0.1:3000/a", 0),
        ("app", "http://localhost:3001/a", 1010),
        ("app", "http://169.254.169.254/a", 1010),
        ("other", "http://localhost:3000/a", 1010),
        ("other", "https://example.com/a", 0),
    ] {
        let arguments = json!({ "url": url });
        assert_eq!(call(server, Validator::NetworkRestricted, arguments).await, code, "{url}");
        let arguments = json!({ "command": format!("curl {url}") });
        assert_eq!(call(server, Validator::Sandbox, arguments).await, code, "{url}");
    }
}
