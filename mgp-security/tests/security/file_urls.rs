//! Tests of URLs of files in arguments: limits of paths decide about such URLs, and without limits the URLs are
//! blocked.

use mgp_security::{Governance, Policies, ServerPolicy, StandardValidators};
use mgp_types::Payload;
use mgp_types::mgp::{DefaultPolicy, Permission, RiskLevel};
use mgp_types::service::{Reply, Stack, mock};
use tower_layer::Layer;

const LIST: &str = r#"{"tools":[{"name":"convert","inputSchema":{"type":"object","properties":{"uri":{"type":"string"}}},"security":{"risk_level":"safe","permissions_required":["filesystem.read"],"side_effects":["none"],"validator":"network_restricted"}}]}"#;

/// Calls the tool with a URI; returns the code of the refusal, or 0.
async fn call(limits: &str, uri: &str) -> i32 {
    let policy = ServerPolicy::default()
        .default_policy(DefaultPolicy::OptOut)
        .permissions([Permission::from("*")])
        .risk("convert", RiskLevel::Safe)
        .permission_limits(serde_json::from_str(limits).unwrap());
    let governance = Governance::builder()
        .policies(Policies::with_default(policy))
        .standard_validators(&StandardValidators::new())
        .build();
    let server = Stack::from_fn(|call| {
        let answer = if call.tool().is_some() { "{}" } else { LIST };
        async move { Ok(Reply::raw(Payload::from_trusted(answer))) }
    });
    let mut client = mock::client(Stack::new(governance.layer("files").layer(server)));
    let params = format!(r#"{{"name":"convert","arguments":{{"uri":"{uri}"}}}}"#);
    client.request("tools/call", &params).await.map_or_else(|error| error.code().0, |_| 0)
}

#[tokio::test]
async fn the_url_of_a_file_within_the_limits_of_a_permission_passes() {
    let limits = r#"{"paths":["/srv/notes"]}"#;
    for (uri, code) in [
        ("file:///srv/notes/a.pdf", 0),
        ("file://localhost/srv/notes/My%20report.pdf", 0),
        ("file:///etc/passwd", 1000),
        ("file:///srv/notes/%2e%2e/%2e%2e/etc/passwd", 1000),
        ("file://evil.example/srv/notes/a.pdf", 1000),
    ] {
        assert_eq!(call(limits, uri).await, code, "{uri}");
    }
    assert_eq!(call("{}", "file:///srv/notes/a.pdf").await, 1010);
    assert_eq!(call(r#"{"deny_paths":["/etc"]}"#, "file:///srv/notes/a.pdf").await, 1010);
}
