//! Tests of the decisions about permissions that the client sends after the server's answer and before `initialized`,
//! with the method names that the server uses.

use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice, Error, UngrantedPolicy};
use mgp_lifecycle::ConnectError;
use mgp_types::ErrorCode;
use mgp_types::mgp::GrantDecision::{Approved, Deferred, Denied};
use serde_json::{Value, json};

use super::authority::{DecisionTime, TestAuthority};
use crate::script::Script;

/// Returns the capabilities of a legacy server with these extensions that needs these permissions.
pub(crate) fn needing(extensions: &[&str], permissions: &[&str]) -> Value {
    json!({ "tools": {}, "mgp": {
        "version": "0.3.0", "extensions": extensions, "permissions_required": permissions,
    } })
}

/// The names in the first specification, and the names in later specifications: the extension, the method that asks the
/// server to wait, and the method that sends the decision.
pub(crate) const SPELLINGS: [(&str, &str, &str); 2] = [
    ("security", "mgp/permission/request", "mgp/permission/response"),
    ("permissions", "mgp/permission/await", "mgp/permission/grant"),
];

/// Begins a legacy handshake up to the server's answer.
pub(crate) async fn begin(
    builder: ClientBuilder,
    capabilities: Value,
) -> (Script, tokio::task::JoinHandle<Result<Client, Error>>) {
    let (end, mut script) = Script::new();
    let connecting = builder.era(EraChoice::Legacy).connect(end.reader, end.writer);
    let connecting = tokio::spawn(connecting);
    let result = json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities,
        "serverInfo": { "name": "script", "version": "1" },
    });
    script.serve("initialize", result).await;
    (script, connecting)
}

pub(crate) async fn finish(
    script: &mut Script,
    connecting: tokio::task::JoinHandle<Result<Client, Error>>,
) -> Client {
    assert_eq!(script.read().await.unwrap()["method"], "notifications/initialized");
    connecting.await.unwrap().unwrap()
}

#[tokio::test]
async fn a_configured_decision_is_sent_in_each_spelling_without_delay() {
    for (extension, _, method) in SPELLINGS {
        let authority = TestAuthority::new(&[
            ("shell.execute", Approved),
            ("filesystem.read", Approved),
            ("filesystem.write", Denied),
        ])
        .until("2999-01-01T00:00:00Z");
        let needs = needing(&[extension], &["shell", "filesystem", "camera", "what"]);
        let (mut script, connecting) = begin(authority.client(), needs).await;
        let notification = script.serve(method, json!({ "anything": true })).await;
        assert_eq!(
            notification["params"],
            json!({
                "request_id": "perm-1",
                "grants": {
                    "shell": "approved", "shell.execute": "approved",
                    "filesystem": "denied", "filesystem.read": "approved",
                    "filesystem.write": "denied",
                    "camera": "deferred", "what": "denied",
                },
                "approved_by": "ada",
                "expires_at": "2999-01-01T00:00:00Z",
                "trace_id": notification["params"]["trace_id"], "_meta": notification["params"]["_meta"],
            })
        );
        finish(&mut script, connecting).await;
        let names = ["shell.execute", "filesystem.read", "filesystem.write", "camera"];
        let expected = vec![("files".into(), names.map(str::to_owned).to_vec())];
        assert_eq!(authority.asked(), expected, "what names nothing is not decided by anybody");
    }
}

#[tokio::test]
async fn limits_are_sent_in_the_spelling_that_supports_them() {
    let limited = json!({ "decision": "approved", "scope": { "commands": ["git"] } });
    for (extension, _, method) in SPELLINGS {
        let authority = TestAuthority::new(&[]);
        authority.set("shell.execute", Some(serde_json::from_value(limited.clone()).unwrap()));
        let (mut script, connecting) =
            begin(authority.client(), needing(&[extension], &["shell.execute"])).await;
        let notification = script.serve(method, json!({})).await;
        let expected = if extension == "security" { json!("approved") } else { limited.clone() };
        assert_eq!(notification["params"]["grants"]["shell.execute"], expected);
        finish(&mut script, connecting).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_decision_is_pending_the_server_is_asked_to_wait() {
    // The client must accept any answer of the server to this request as an acknowledgement.
    let acks = [
        json!({ "request_id": "perm-1", "status": "waiting" }),
        json!({ "request_id": "perm-1", "grants": { "camera": "approved" } }),
        json!(null),
        json!(["ok"]),
    ];
    for (extension, waiting, method) in SPELLINGS {
        for ack in &acks {
            let authority = TestAuthority::new(&[("camera", Denied)])
                .with_decision_time(DecisionTime::Time(Duration::from_secs(50)));
            let (mut script, connecting) =
                begin(authority.client(), needing(&[extension], &["camera"])).await;
            let asked = script.serve(waiting, ack.clone()).await;
            assert_eq!(asked["params"]["request_id"], "perm-1");
            assert_eq!(asked["params"]["permissions"], json!(["camera"]));
            assert_eq!(asked["params"]["policy"], "interactive");
            let notification = script.serve(method, ack.clone()).await;
            assert_eq!(notification["params"]["request_id"], "perm-1");
            assert_eq!(notification["params"]["grants"], json!({ "camera": "denied" }));
            finish(&mut script, connecting).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_no_operator_makes_is_not_announced_as_pending() {
    for (extension, _, method) in SPELLINGS {
        let authority = TestAuthority::new(&[("camera", Approved)])
            .with_decision_time(DecisionTime::Time(Duration::from_millis(10)))
            .without_operator();
        let (mut script, connecting) =
            begin(authority.client(), needing(&[extension], &["camera"])).await;
        let notification = script.serve(method, json!({})).await;
        assert_eq!(notification["params"]["grants"], json!({ "camera": "approved" }));
        finish(&mut script, connecting).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_undecided_permission_is_deferred_and_sent_once_it_is_decided() {
    for (extension, waiting, method) in SPELLINGS {
        let with_decision_time = DecisionTime::Time(Duration::from_secs(100));
        let authority =
            TestAuthority::new(&[("camera", Approved)]).with_decision_time(with_decision_time);
        let (mut script, connecting) =
            begin(authority.client(), needing(&[extension], &["camera"])).await;
        let before = tokio::time::Instant::now();
        script.serve(waiting, json!({})).await;
        let notification = script.serve(method, json!({})).await;
        assert_eq!(notification["params"]["grants"], json!({ "camera": "deferred" }));
        let _client = finish(&mut script, connecting).await;
        assert_eq!(before.elapsed().as_secs(), 60);
        // The operator decides later, and the decision is stored.
        authority
            .clone()
            .with_decision_time(DecisionTime::Nothing)
            .set("camera", Some(Approved.into()));
        let notification = script.serve(method, json!({})).await;
        assert_eq!(notification["params"]["grants"], json!({ "camera": "approved" }));
        assert_eq!(notification["params"]["request_id"], "perm-2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_can_be_closed_for_want_of_a_permission() {
    let strict = |authority: &TestAuthority| {
        authority.client().config(|config| {
            config.connect.on_denied = UngrantedPolicy::Close;
            config.connect.on_deferred = UngrantedPolicy::Close;
        })
    };
    for (extension, _, method) in SPELLINGS {
        for (decision, word) in [(Denied, "denied"), (Deferred, "deferred"), (Approved, "approved")]
        {
            let authority = TestAuthority::new(&[("shell.execute", decision)]);
            let (mut script, connecting) =
                begin(strict(&authority), needing(&[extension], &["shell"])).await;
            // The server must receive the decision before the connection is closed.
            let notification = script.serve(method, json!({})).await;
            assert_eq!(notification["params"]["grants"]["shell"], word);
            if decision == Approved {
                finish(&mut script, connecting).await;
                continue;
            }
            let error = connecting.await.unwrap().unwrap_err();
            assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
            let Error::Connect(why) = error else { panic!("{error}") };
            match why {
                ConnectError::Rejected(names) => {
                    assert_eq!((names, word), (vec!["shell".into()], "denied"));
                }
                ConnectError::Deferred(names) => {
                    assert_eq!((names, word), (vec!["shell".into()], "deferred"));
                }
                other => panic!("{other}"),
            }
            assert!(script.read().await.is_none());
        }
    }
}

#[tokio::test]
async fn a_server_without_the_extension_receives_no_decision() {
    let authority = TestAuthority::new(&[("camera", Approved)]);
    let (mut script, connecting) =
        begin(authority.client(), needing(&["streaming"], &["camera"])).await;
    finish(&mut script, connecting).await;
    assert_eq!(authority.asked().len(), 1);
}

#[tokio::test]
async fn decisions_need_a_server_id() {
    let authority = TestAuthority::new(&[]);
    let (end, _script) = Script::new();
    let builder = Client::builder("test", "1").grantor(std::sync::Arc::new(authority));
    let error = builder.connect(end.reader, end.writer).await.unwrap_err();
    assert!(matches!(error, Error::Connect(ConnectError::MissingServerId)), "{error}");
}
