//! 1000 to 1099: permission, access, credentials, validators.

use mgp_security::auth::{
    ApiKeys, AuthLayer, AuthRefused, Authenticated, ResourceMetadata, TokenVerifier,
};
use mgp_security::{Assessment, Governance, Policies, ServerPolicy, Validate, Violation};
use mgp_server_sdk::{Server, Tool};
use mgp_types::ErrorCode;
use mgp_types::mcp::Era;
use mgp_types::mgp::{DefaultPolicy, Permission, RiskLevel, Validator};
use mgp_types::service::{BoxFuture, Call, Pass, Stack, around};
use serde_json::json;

use crate::heard::Heard;
use crate::http::{Answer, CALL, HEADERS, post};
use crate::peer::{PEERS, Peer, Tongue};

/// Everybody has access; nothing else is allowed, and nobody can be asked.
pub(crate) fn open_to_all() -> Governance {
    let mut policy = ServerPolicy::default();
    policy.default_policy = DefaultPolicy::OptOut;
    Governance::builder().policies(Policies::all(policy)).build()
}

fn tool(name: &'static str) -> Tool {
    Tool::new(name, "Does something", || async { "done" })
}

fn governed(governance: &Governance, tool: Tool) -> Stack {
    Server::new("disk", "1").tool(tool).governed(governance, "disk").into_stack().unwrap()
}

#[tokio::test]
async fn code_1000_permission_denied() {
    // A dangerous call, and nobody who could confirm it.
    let stack = governed(&open_to_all(), tool("wipe").risk(RiskLevel::Dangerous));
    Heard::of(ErrorCode::PERMISSION_DENIED)
        .says(["`wipe` was not run", "nobody can be asked", "tool_grant"])
        .details(["tool", "server_id", "effective_risk_level", "status", "remedy"])
        .heard_by_all(&stack, "wipe")
        .await;

    // A call without a permission it needs, as whoever governs the server sees it.
    let snap = tool("snap").risk(RiskLevel::Safe).permissions([Permission::Camera]);
    let stack = governed(&open_to_all(), snap);
    Heard::of(ErrorCode::PERMISSION_DENIED)
        .says(["`snap` needs `camera`"])
        .details(["missing", "server_id", "tool", "remedy"])
        .heard_by_all(&stack, "snap")
        .await;

    // The same, as the server sees it whose client denied the permission.
    let snap = tool("snap").permissions([Permission::Camera]);
    let own = Server::new("disk", "1").tool(snap).into_stack().unwrap();
    for kind in PEERS.into_iter().filter(|(_, tongue)| *tongue == Tongue::Mgp) {
        let mut peer = Peer::join(&own, kind).await;
        let denied = json!({ "camera": "denied" });
        let mut call = json!({ "name": "snap", "arguments": {} });
        if peer.era == Era::Modern {
            call["_meta"]["dev.cloto/mgp"]["grants"] = denied;
        } else {
            let told = json!({ "request_id": "p", "grants": denied });
            peer.ask("mgp/permission/response", told).await;
        }
        let answer = peer.ask("tools/call", call).await;
        Heard::of(ErrorCode::PERMISSION_DENIED)
            .says(["`snap` needs the permission `camera`, which is denied", "runs the client"])
            .details(["permission", "status", "remedy"])
            .check(&peer, &answer);
    }

    // Administration by somebody who is no operator; plain peers do not know that there is any.
    for kind in PEERS {
        let mut peer = Peer::join(&stack, kind).await;
        let grant = json!({
            "entry_type": "server_grant", "agent_id": "mallory", "server_id": "disk",
            "permission": "allow", "granted_by": "mallory",
        });
        let answer = peer.ask("mgp/access/grant", grant).await;
        if peer.tongue == Tongue::Mgp {
            Heard::of(ErrorCode::PERMISSION_DENIED)
                .says(["only an operator", "`mgp/access/grant`"])
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
    Heard::of(ErrorCode::ACCESS_DENIED)
        .says([
            "`mallory` has no access to `look` on `disk`",
            "an operator can allow it with `mgp/access/grant`",
        ])
        .details(["agent", "server_id", "tool", "source", "remedy"])
        .heard_by_all(&stack, "look")
        .await;
}

/// Tokens by their names.
struct Tokens;

impl TokenVerifier for Tokens {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Authenticated, AuthRefused>> {
        Box::pin(async move {
            Err(match token {
                "expired" => AuthRefused::Expired,
                "early" => AuthRefused::Unavailable,
                _ => AuthRefused::Invalid("the token is for another resource"),
            })
        })
    }

    fn metadata(&self) -> ResourceMetadata {
        ResourceMetadata::new("https://mcp.example/mcp", "https://issuer.example").unwrap()
    }
}

/// What a server at a URL answers to these credentials.
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
    let told = answer.body["error"]["message"].as_str().unwrap();
    assert!(told.contains("expired; get a new one"), "{answer:?}");
    assert!(answer.body["error"].get("data").is_none(), "nothing was negotiated: {answer:?}");

    // Credentials that end while a connection lasts: the gates find it with the next call.
    let governance = open_to_all();
    let ended = around(|mut call: Call, next: Stack| async move {
        call.cx_mut().extensions.insert(Pass::new(["tools.call"], || false));
        next.send(call).await
    });
    let server = Server::new("disk", "1").tool(tool("look").risk(RiskLevel::Safe));
    let stack = server.governed(&governance, "disk").around(ended).into_stack().unwrap();
    Heard::of(ErrorCode::AUTH_EXPIRED)
        .says(["the credentials no longer hold; get new ones"])
        .heard_by_all(&stack, "look")
        .await;
    // What is no tool call has no result to put a refusal in.
    for kind in PEERS {
        let mut peer = Peer::join(&stack, kind).await;
        let answer = peer.ask("prompts/get", json!({ "name": "p" })).await;
        if peer.tongue == Tongue::Mgp {
            Heard::of(ErrorCode::AUTH_EXPIRED).check_mgp(&answer);
        } else {
            assert_eq!(answer["error"]["code"], 1003, "{answer}");
            assert!(answer["error"].get("data").is_none(), "{answer}");
        }
    }
}

/// A check that always finds something.
struct Never;

impl Validate for Never {
    fn check(&self, _: &Call, _: &Assessment) -> Result<(), Violation> {
        Err(Violation::new("`--force` is not allowed; leave it out"))
    }
}

#[tokio::test]
async fn code_1010_validation_blocked() {
    let run = tool("run").risk(RiskLevel::Safe).validator(Validator::Sandbox);
    let stack = governed(&open_to_all(), run);
    Heard::of(ErrorCode::VALIDATION_BLOCKED)
        .says(["`run` was not run", "`sandbox` is not there", "`none`"])
        .details(["tool", "server_id", "validator", "status", "remedy"])
        .heard_by_all(&stack, "run")
        .await;

    // A check of one's own that finds something.
    let mut policy = ServerPolicy::default();
    policy.default_policy = DefaultPolicy::OptOut;
    let governance = Governance::builder()
        .policies(Policies::all(policy))
        .validator(Validator::Sandbox, Never)
        .build();
    let run = tool("run").risk(RiskLevel::Safe).validator(Validator::Sandbox);
    Heard::of(ErrorCode::VALIDATION_BLOCKED)
        .says(["`run` was not run", "leave it out"])
        .details(["tool", "server_id", "validator", "status", "violation"])
        .heard_by_all(&governed(&governance, run), "run")
        .await;
}
