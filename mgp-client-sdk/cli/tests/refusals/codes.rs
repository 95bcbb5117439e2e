//! Tests of the codes 1002 (auth required) and 1003 (auth expired) over `mgp serve`: missing, wrong, expired and
//! revoked credentials.

use std::time::Duration;

use mgp_client_sdk::Error;
use mgp_testkit::{http_exchange, until};
use serde_json::json;

use crate::serving::Serving;
use crate::world::World;

#[tokio::test]
async fn missing_wrong_and_expired_credentials_are_refused() {
    let world = World::new("");
    let serving = Serving::new(&world).await;
    // A request with a missing or unknown key gets status 401; the test reads the raw HTTP response.
    for shown in ["", "\r\nAuthorization: Bearer mgp_0123_wrong", "\r\nAuthorization: Basic YTpi"] {
        let answer = asked(&serving.url, shown).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.to_ascii_lowercase().contains("www-authenticate: bearer"), "{answer}");
        assert!(answer.contains(r#""code":1002"#), "{answer}");
    }
    let code = |error: Error| error.code().0;
    assert_eq!(code(serving.host(None).await.unwrap_err()), 1002);

    let made = world.json(&["keys", "add", "ada"]);
    let key = made["key"].as_str().unwrap();
    let host = serving.comes(key).await;
    host.list_tools().await.unwrap();
    let brief = world.json(&["keys", "add", "ada", "--expires", "8s"]);
    let brief = brief["key"].as_str().unwrap();
    let last = serving.comes(brief).await;
    // The kernel refuses an expired key with code 1003 (auth expired), and an unknown key with code 1002 (auth
    // required).
    let until_now = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        match last.list_tools().await {
            Err(error) if error.code().0 == 1003 => break,
            other => assert!(tokio::time::Instant::now() < until_now, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = asked(&serving.url, &format!("\r\nAuthorization: Bearer {brief}")).await;
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains(r#""code":1003"#), "{answer}");
    assert_eq!(code(serving.host(Some(brief)).await.unwrap_err()), 1003);

    world.quietly(&["keys", "revoke", made["id"].as_str().unwrap()]);
    until("the key has ended", async || host.list_tools().await.is_err()).await;
    let answer = asked(&serving.url, &format!("\r\nAuthorization: Bearer {key}")).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[tokio::test]
async fn a_revoked_key_stays_refused_if_an_older_copy_of_the_keys_comes_back() {
    let world = World::new("");
    let made = world.json(&["keys", "add", "ada"]);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let file = world.path("state/keys.json");
    let older = std::fs::read(&file).unwrap();
    world.quietly(&["keys", "revoke", id]);
    std::fs::write(&file, older).unwrap();
    let serving = Serving::new(&world).await;
    let answer = asked(&serving.url, &format!("\r\nAuthorization: Bearer {key}")).await;
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains(r#""code":1002"#), "{answer}");
    assert_eq!(world.json(&["keys", "ls"])[0]["status"], "revoked");
}

/// Sends an HTTP request with additional headers, each of which must follow a line break, and returns the whole
/// response.
async fn asked(url: &str, header: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).to_string();
    let head = format!(
        "POST /{path} HTTP/1.1\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream{header}"
    );
    http_exchange(address.parse().unwrap(), &head, &body).await
}
