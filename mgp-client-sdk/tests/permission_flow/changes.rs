//! Revoked, granted, expired while a legacy server is connected: it hears of it without a new connection.

use std::time::{Duration, SystemTime};

use mgp_types::Timestamp;
use mgp_types::mgp::GrantDecision::{Approved, Denied};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::book::Book;
use crate::told::{SPELLINGS, begin, finish, needing};

#[tokio::test(start_paused = true)]
async fn a_connected_server_is_told_what_changed_and_nothing_else() {
    for (extension, _, telling) in SPELLINGS {
        let book = Book::new(&[("shell.execute", Approved)]);
        let (mut script, connecting) =
            begin(book.client(), needing(&[extension], &["shell"])).await;
        script.serve(telling, json!({})).await;
        let client = finish(&mut script, connecting).await;

        // The same again is nothing new.
        book.set("shell.execute", Some(Approved.into()));
        assert!(timeout(Duration::from_secs(10), script.read()).await.is_err());

        // Several changes are one message.
        book.set("shell.execute", Some(Denied.into()));
        book.set("camera", Some(Approved.into()));
        book.set("com.example.x", Some(Denied.into()));
        let told = script.serve(telling, json!({})).await;
        assert_eq!(told["params"]["request_id"], "perm-2");
        let grants = json!({
            "shell": "denied", "shell.execute": "denied",
            "camera": "approved", "com.example.x": "denied",
        });
        assert_eq!(told["params"]["grants"], grants);

        // What does not stand any more is not passed over in silence.
        book.set("camera", None);
        let told = script.serve(telling, json!({})).await;
        assert_eq!(told["params"]["request_id"], "perm-3");
        assert_eq!(told["params"]["grants"]["camera"], "deferred");
        assert!(timeout(Duration::from_secs(10), script.read()).await.is_err());
        drop(client);
        book.set("camera", Some(Approved.into()));
        assert!(script.read().await.is_none(), "nobody follows for a client that is gone");
    }
}

#[tokio::test]
async fn an_expiry_is_told_when_it_comes() {
    let soon = Timestamp::from(SystemTime::now() + Duration::from_millis(300));
    let book = Book::new(&[("camera", Approved)]).until(soon.as_str());
    let (mut script, connecting) =
        begin(book.client(), needing(&["permissions"], &["camera"])).await;
    let told = script.serve("mgp/permission/grant", json!({})).await;
    assert_eq!(told["params"]["grants"]["camera"], "approved");
    let _client = finish(&mut script, connecting).await;
    let serving = script.serve("mgp/permission/grant", json!({}));
    let told = timeout(Duration::from_secs(10), serving).await.unwrap();
    assert_eq!(told["params"]["grants"]["camera"], "deferred");
    assert_eq!(told["params"]["expires_at"], Value::Null);
}
