//! Tests that the kernel finds the members of extensions in the places where other implementations write them. The
//! script `dialects.py` has recorded these places.

use mgp_lifecycle::ProposalLayer;
use mgp_types::mcp::{CallToolResult, Tool};
use mgp_types::mgp::ExtensionSet;
use mgp_types::proposal::{
    ConfirmationRisk, ConfirmationToken, CostHints, ErrorKind, Intent, SessionToken,
    StructuredError, ToolConfirmation, UserConfirmed, required_scopes,
};
use mgp_types::service::{Call, PeerInfo, Reply, Stack, mock};
use serde::Deserialize;
use serde_json::Value;
use tower_layer::Layer;

const RECORDED: &str = include_str!("dialects.jsonl");

#[derive(Deserialize)]
struct Recorded {
    kind: String,
    dialect: String,
    message: Value,
}

/// Returns the members of extensions that a tool finds in a call with these params.
async fn understood(params: &Value) -> String {
    let tool = Stack::from_fn(|call: Call| async move {
        let cx = call.cx();
        let intent = cx.member::<Intent>()?.map(|intent| intent.0);
        let token = cx.member::<ConfirmationToken>()?.map(|token| token.0);
        let confirmed = cx.member::<UserConfirmed>()?.map(|word| word.0);
        let session = cx.member::<SessionToken>()?.map(|token| token.0);
        Reply::of(&(intent, token, confirmed, session))
    });
    let mut client = mock::client(Stack::new(ProposalLayer::new().layer(tool)));
    let mut caller = PeerInfo::default();
    caller.mgp = Some(ExtensionSet::PROPOSALS);
    client.cx.caller = caller.into();
    client.request("tools/call", &params.to_string()).await.unwrap().as_str().to_owned()
}

#[tokio::test]
async fn each_dialect_is_understood() {
    let mut lines = 0;
    for line in RECORDED.lines() {
        let Recorded { kind, dialect, message } = serde_json::from_str(line).unwrap();
        let at = format!("{kind} {dialect}");
        lines += 1;
        match kind.as_str() {
            "error" => {
                let result: CallToolResult = serde_json::from_value(message).unwrap();
                let error = StructuredError::in_result(&result).unwrap();
                assert_eq!(error.category, ErrorKind::RateLimited, "{at}");
                assert_eq!(error.to_error().as_recovery().unwrap().retry_after_ms, Some(42_000));
            }
            "tool" => {
                let tool: Tool = serde_json::from_value(message).unwrap();
                assert_eq!(required_scopes(&tool), ["delete:tickets"], "{at}");
                let confirmation = ToolConfirmation::of(&tool);
                assert!(confirmation.is_required, "{at}");
                assert_eq!(confirmation.risk, Some(ConfirmationRisk::Destructive), "{at}");
                assert_eq!(CostHints::of(&tool).units(), Some(5), "{at}");
            }
            _ => {
                let expected = match kind.as_str() {
                    "intent" => r#"["find the last incident",null,null,null]"#,
                    "confirmation_token" => r#"[null,"conf-abc123",null,null]"#,
                    "user_confirmed" => "[null,null,true,null]",
                    _ => r#"[null,null,null,"st-1"]"#,
                };
                assert_eq!(understood(&message).await, expected, "{at}");
            }
        }
    }
    assert_eq!(lines, 16);
}
