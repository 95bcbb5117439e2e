//! Between the server's answer and `initialized`: decided, told, in the words the server uses.

use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice, Error, Ungranted};
use mgp_lifecycle::ConnectError;
use mgp_types::ErrorCode;
use mgp_types::mgp::GrantDecision::{Approved, Deferred, Denied};
use serde_json::{Value, json};

use crate::book::{Book, Takes};
use crate::script::Script;

/// What a legacy server says that speaks the extension in these words and needs these permissions.
pub(crate) fn needing(extensions: &[&str], permissions: &[&str]) -> Value {
    json!({ "tools": {}, "mgp": {
        "version": "0.3.0", "extensions": extensions, "permissions_required": permissions,
    } })
}

/// The two spellings: the extension's name, and the methods of the flow.
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

/// Lets the handshake end.
pub(crate) async fn finish(
    script: &mut Script,
    connecting: tokio::task::JoinHandle<Result<Client, Error>>,
) -> Client {
    assert_eq!(script.read().await.unwrap()["method"], "notifications/initialized");
    connecting.await.unwrap().unwrap()
}

#[tokio::test]
async fn a_configured_decision_is_told_under_every_name_and_nobody_is_asked_to_wait() {
    for (extension, _, telling) in SPELLINGS {
        let book = Book::new(&[
            ("shell.execute", Approved),
            ("filesystem.read", Approved),
            ("filesystem.write", Denied),
        ])
        .until("2999-01-01T00:00:00Z");
        let needs = needing(&[extension], &["shell", "filesystem", "camera", "what"]);
        let (mut script, connecting) = begin(book.client(), needs).await;
        let told = script.serve(telling, json!({ "anything": true })).await;
        assert_eq!(
            told["params"],
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
                "trace_id": told["params"]["trace_id"], "_meta": told["params"]["_meta"],
            })
        );
        finish(&mut script, connecting).await;
        let names = ["shell.execute", "filesystem.read", "filesystem.write", "camera"];
        let expected = vec![("files".into(), names.map(str::to_owned).to_vec())];
        assert_eq!(book.asked(), expected, "what names nothing is not decided by anybody");
    }
}

#[tokio::test]
async fn limits_are_told_in_the_words_that_have_them() {
    let limited = json!({ "decision": "approved", "scope": { "commands": ["git"] } });
    for (extension, _, telling) in SPELLINGS {
        let book = Book::new(&[]);
        book.set("shell.execute", Some(serde_json::from_value(limited.clone()).unwrap()));
        let (mut script, connecting) =
            begin(book.client(), needing(&[extension], &["shell.execute"])).await;
        let told = script.serve(telling, json!({})).await;
        let expected = if extension == "security" { json!("approved") } else { limited.clone() };
        assert_eq!(told["params"]["grants"]["shell.execute"], expected);
        finish(&mut script, connecting).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_somebody_decides_the_server_is_asked_to_wait() {
    // Whatever a server answers to that is an acknowledgement.
    let acks = [
        json!({ "request_id": "perm-1", "status": "waiting" }),
        json!({ "request_id": "perm-1", "grants": { "camera": "approved" } }),
        json!(null),
        json!(["ok"]),
    ];
    for (extension, waiting, telling) in SPELLINGS {
        for ack in &acks {
            let book = Book::new(&[("camera", Denied)]).takes(Takes::Time(Duration::from_secs(50)));
            let (mut script, connecting) =
                begin(book.client(), needing(&[extension], &["camera"])).await;
            let asked = script.serve(waiting, ack.clone()).await;
            assert_eq!(asked["params"]["request_id"], "perm-1");
            assert_eq!(asked["params"]["permissions"], json!(["camera"]));
            assert_eq!(asked["params"]["policy"], "interactive");
            let told = script.serve(telling, ack.clone()).await;
            assert_eq!(told["params"]["request_id"], "perm-1");
            assert_eq!(told["params"]["grants"], json!({ "camera": "denied" }));
            finish(&mut script, connecting).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_decides_is_deferred_and_told_once_it_is_decided() {
    for (extension, waiting, telling) in SPELLINGS {
        let takes = Takes::Time(Duration::from_secs(100));
        let book = Book::new(&[("camera", Approved)]).takes(takes);
        let (mut script, connecting) =
            begin(book.client(), needing(&[extension], &["camera"])).await;
        let before = tokio::time::Instant::now();
        script.serve(waiting, json!({})).await;
        let told = script.serve(telling, json!({})).await;
        assert_eq!(told["params"]["grants"], json!({ "camera": "deferred" }));
        let _client = finish(&mut script, connecting).await;
        assert_eq!(before.elapsed().as_secs(), 60);
        // The operator came back, and the book has it.
        book.clone().takes(Takes::Nothing).set("camera", Some(Approved.into()));
        let told = script.serve(telling, json!({})).await;
        assert_eq!(told["params"]["grants"], json!({ "camera": "approved" }));
        assert_eq!(told["params"]["request_id"], "perm-2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_can_be_closed_for_want_of_a_permission() {
    let strict = |book: &Book| {
        book.client().config(|config| {
            config.connect.denied = Ungranted::Close;
            config.connect.deferred = Ungranted::Close;
        })
    };
    for (extension, _, telling) in SPELLINGS {
        for (decision, word) in [(Denied, "denied"), (Deferred, "deferred"), (Approved, "approved")]
        {
            let book = Book::new(&[("shell.execute", decision)]);
            let (mut script, connecting) =
                begin(strict(&book), needing(&[extension], &["shell"])).await;
            // It learns why.
            let told = script.serve(telling, json!({})).await;
            assert_eq!(told["params"]["grants"]["shell"], word);
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
async fn a_server_that_does_not_speak_the_extension_is_decided_about_and_told_nothing() {
    let book = Book::new(&[("camera", Approved)]);
    let (mut script, connecting) = begin(book.client(), needing(&["streaming"], &["camera"])).await;
    finish(&mut script, connecting).await;
    assert_eq!(book.asked().len(), 1);
}

#[tokio::test]
async fn decisions_need_a_name_to_be_kept_under() {
    let book = Book::new(&[]);
    let (end, _script) = Script::new();
    let builder = Client::builder("test", "1").grantor(std::sync::Arc::new(book));
    let error = builder.connect(end.reader, end.writer).await.unwrap_err();
    assert!(matches!(error, Error::Connect(ConnectError::Nameless)), "{error}");
}
