//! Tests of the codes 1000 to 1099: permissions, access, credentials, validators.

use async_trait::async_trait;
use mgp_security::auth::{
    ApiKeys, AuthLayer, AuthRefused, Authenticated, ResourceMetadata, TokenVerifier,
};
use mgp_security::{
    CheckedCall, Governance, GovernanceBuilder, Policies, ServerPolicy, StandardValidators,
    Validate, Violation,
};
use mgp_server_sdk::{Server, Tool};
use mgp_types::ErrorCode;
use mgp_types::mcp::Era;
use mgp_types::mgp::{DefaultPolicy, Permission, RiskLevel, Validator};
use mgp_types::service::{Call, CredentialGrant, Stack, around};
use serde_json::json;

use super::expected_error::ExpectedError;
use super::http::{Answer, CALL, HEADERS, post};
use super::peer::{Dialect, PEERS, Peer};

/// Returns the builder of a governance that grants access to all callers, but no permissions, and that has no person to
/// ask.
fn open_builder() -> GovernanceBuilder {
    let policy = ServerPolicy::default().default_policy(DefaultPolicy::OptOut);
    Governance::builder().policies(Policies::with_default(policy))
}

pub(crate) fn open_to_all() -> Governance {
    open_builder().build()
}

fn tool(name: &'static str) -> Tool {
    Tool::new(name, "Does something", || async { "done" })
}

fn governed(governance: &Governance, tool: Tool) -> Stack {
    Server::new("disk", "1").tool(tool).governed(governance, "disk").into_stack().unwrap()
}

#[tokio::test]
async fn code_1000_permission_denied() {
    // The call is dangerous, and no person can be asked to confirm it.
    let stack = governed(&open_to_all(), tool("wipe").risk(RiskLevel::Dangerous));
    ExpectedError::new(ErrorCode::PERMISSION_DENIED)
        .message(["`wipe` did not run", "no person can be asked", "ask an operator"])
        .details(["tool", "server_id", "effective_risk_level", "status", "remedy"])
        .check_all_peers(&stack, "wipe")
        .await;

    // The call requires a permission that was not approved, so a layer in front of the server refuses it.
    let snap = tool("snap").risk(RiskLevel::Safe).permissions([Permission::Camera]);
    let stack = governed(&open_to_all(), snap);
    ExpectedError::new(ErrorCode::PERMISSION_DENIED)
        .message(["`snap` did not run", "lacks the permission `camera`"])
        .details(["missing", "tool", "server_id", "effective_risk_level", "status", "remedy"])
        .check_all_peers(&stack, "snap")
        .await;

    // The client has denied the permission to the server. So the server itself must refuse the call.
    let snap = tool("snap").permissions([Permission::Camera]);
    let own = Server::new("disk", "1").tool(snap).into_stack().unwrap();
    for kind in PEERS.into_iter().filter(|(_, dialect)| *dialect == Dialect::Mgp) {
        let mut peer = Peer::join(&own, kind).await;
        let denied = json!({ "camera": "denied" });
        let mut call = json!({ "name": "snap", "arguments": {} });
        if peer.era == Era::Modern {
            call["_meta"]["dev.cloto/mgp"]["grants"] = denied;
        } else {
            let response = json!({ "request_id": "p", "grants": denied });
            peer.ask("mgp/permission/response", response).await;
        }
        let answer = peer.ask("tools/call", call).await;
        ExpectedError::new(ErrorCode::PERMISSION_DENIED)
            .message([
                "`snap` needs the permission `camera`, which is denied",
                "the client's operator",
            ])
            .details(["permission", "status", "remedy"])
            .check(&peer, &answer);
    }

    // A caller that is not an operator calls a method for operators. For a plain peer, the method must be unknown.
    for kind in PEERS {
        let mut peer = Peer::join(&stack, kind).await;
        let grant = json!({
            "entry_type": "server_grant", "agent_id": "mallory", "server_id": "disk",
            "permission": "allow", "granted_by": "mallory",
        });
        let answer = peer.ask("mgp/access/grant", grant).await;
        if peer.dialect == Dialect::Mgp {
            ExpectedError::new(ErrorCode::PERMISSION_DENIED)
                .message(["only an operator", "`mgp/access/grant`"])
                .details(["method", "remedy"])
                .check_mgp(&answer);
        } else {
            let code = answer["error"]["code"].as_i64().unwrap();
            assert!([-32601, -32021].contains(&code), "{answer}");
        }
    }
}

#[tokio::test]
async fn code_1001_access_denied() {
    let stack = governed(&Governance::builder().build(), tool("look").risk(RiskLevel::Safe));
    ExpectedError::new(ErrorCode::ACCESS_DENIED)
        .message([
            "`mallory` has no access to `look` on `disk`",
            "an operator can allow it with `mgp/access/grant`",
        ])
        .details(["agent", "server_id", "tool", "source", "remedy"])
        .check_all_peers(&stack, "look")
        .await;
}

/// A verifier of tokens with a fixed reply for each token.
struct Tokens;

#[async_trait]
impl TokenVerifier for Tokens {
    async fn verify(&self, token: &str) -> Result<Authenticated, AuthRefused> {
        Err(match token {
            "expired" => AuthRefused::Expired,
            "early" => AuthRefused::Unavailable,
            _ => AuthRefused::Invalid("the token is for another resource"),
        })
    }

    fn metadata(&self) -> ResourceMetadata {
        ResourceMetadata::new("https://mcp.example/mcp", "https://issuer.example").unwrap()
    }
}

/// Returns the response of an HTTP server to a call with these credentials.
pub(crate) async fn with_token(token: Option<&str>) -> Answer {
    let auth = AuthLayer::new().keys(ApiKeys::new()).tokens(Tokens);
    let server = Server::new("clock", "1").tool(tool("now"));
    let bound = server.http("127.0.0.1:0").auth(auth).bind().await.unwrap();
    let address = bound.local_addr();
    let serving = tokio::spawn(bound.run());
    let mut headers = HEADERS.to_vec();
    let shown = token.map(|token| format!("Bearer {token}"));
    if let Some(shown) = &shown {
        headers.push(("Authorization", shown));
    }
    let answer = post(address, &headers, CALL).await;
    serving.abort();
    answer
}

#[tokio::test]
async fn code_1002_auth_required() {
    for (token, words) in [(None, "Authorization: Bearer"), (Some("foreign"), "another resource")] {
        let answer = with_token(token).await;
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(answer.head.contains("www-authenticate: bearer "), "{answer:?}");
        assert_eq!(answer.body["error"]["code"], 1002);
        assert!(answer.body["error"]["message"].as_str().unwrap().contains(words), "{answer:?}");
        assert!(answer.body["error"].get("data").is_none(), "nothing was negotiated: {answer:?}");
    }
}

#[tokio::test]
async fn code_1003_auth_expired() {
    let answer = with_token(Some("expired")).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (401, &json!(1003)));
    assert!(answer.head.contains(r#"error="invalid_token""#), "{answer:?}");
    let response = answer.body["error"]["message"].as_str().unwrap();
    assert!(response.contains("expired; get a new one"), "{answer:?}");
    assert!(answer.body["error"].get("data").is_none(), "nothing was negotiated: {answer:?}");

    // The credentials expire while the connection is open, so the server refuses the next call over it.
    let governance = open_to_all();
    let ended = around(|mut call: Call, next: Stack| async move {
        call.cx_mut().extensions.insert(CredentialGrant::new(["tools.call"], || false));
        next.send(call).await
    });
    let server = Server::new("disk", "1").tool(tool("look").risk(RiskLevel::Safe));
    let stack = server.governed(&governance, "disk").around(ended).into_stack().unwrap();
    ExpectedError::new(ErrorCode::AUTH_EXPIRED)
        .message(["the credentials no longer hold; get new ones"])
        .check_all_peers(&stack, "look")
        .await;
    // Only the refusal of a tool call can be a result. The refusals of other requests are errors.
    for kind in PEERS {
        let mut peer = Peer::join(&stack, kind).await;
        let answer = peer.ask("prompts/get", json!({ "name": "p" })).await;
        if peer.dialect == Dialect::Mgp {
            ExpectedError::new(ErrorCode::AUTH_EXPIRED).check_mgp(&answer);
        } else {
            assert_eq!(answer["error"]["code"], 1003, "{answer}");
            assert!(answer["error"].get("data").is_none(), "{answer}");
        }
    }
}

/// A validator that always fails.
struct Never;

impl Validate for Never {
    fn check(&self, _: &CheckedCall<'_>) -> Result<(), Violation> {
        Err(Violation::new("`--force` is not allowed; leave it out"))
    }
}

#[tokio::test]
async fn code_1010_validation_blocked() {
    let run = tool("run").risk(RiskLevel::Safe).validator(Validator::Sandbox);
    let stack = governed(&open_to_all(), run);
    ExpectedError::new(ErrorCode::VALIDATION_BLOCKED)
        .message(["`run` was not run", "`sandbox` is not installed", "`none`"])
        .details(["tool", "server_id", "validator", "status", "remedy"])
        .check_all_peers(&stack, "run")
        .await;

    // A custom validator refuses the call.
    let governance = open_builder().validator(Validator::Sandbox, Never).build();
    let run = tool("run").risk(RiskLevel::Safe).validator(Validator::Sandbox);
    ExpectedError::new(ErrorCode::VALIDATION_BLOCKED)
        .message(["`run` was not run", "leave it out"])
        .details(["tool", "server_id", "validator", "status", "violation"])
        .check_all_peers(&governed(&governance, run), "run")
        .await;
}

#[tokio::test]
async fn code_1011_code_safety_violation() {
    let governance = open_builder().standard_validators(&StandardValidators::new()).build();
    let run = tool("run_python").risk(RiskLevel::Safe).validator(Validator::CodeSafety);
    let stack = governed(&governance, run);
    for kind in PEERS {
        let mut peer = Peer::join(&stack, kind).await;
        let code = json!({ "name": "run_python", "arguments": { "code": "import socket" } });
        let answer = peer.ask("tools/call", code).await;
        ExpectedError::new(ErrorCode::CODE_SAFETY_VIOLATION)
            .message(["`run_python` was not run", "Blocked import: 'socket'"])
            .details([
                "tool",
                "server_id",
                "validator",
                "status",
                "violation",
                "reason",
                "violations",
                "hints",
            ])
            .check(&peer, &answer);
    }
}
