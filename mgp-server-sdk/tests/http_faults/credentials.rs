//! Tests that callers must be authenticated, and that a stream ends when its caller's credentials become invalid.

use mgp_security::auth::{ApiKeys, AuthLayer, KeyGrant};
use mgp_server_sdk::ServeError;
use mgp_server_sdk::prelude::*;
use mgp_transport::http::HttpConfig;
use mgp_types::service::{CredentialGrant, Principal};
use serde_json::json;
use tower_layer::Identity;

use super::caller::{Caller, result_text};
use super::direct::{request, send, text};
use super::world::{Hold, World, server};

#[tokio::test]
async fn service_without_authentication_serves_no_caller() {
    let service = server(&Hold::default()).into_http_service(HttpConfig::default()).unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    for (method, body) in [("POST", hello), ("GET", ""), ("DELETE", "")] {
        let response = send(&service, request(method, &[("mcp-session-id", "x")], body)).await;
        assert_eq!(response.status(), 401, "{method}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert!(text(response).await.contains("the caller is not authenticated"));
    }
    assert_eq!(service.sessions(), 0);
}

#[tokio::test]
async fn endpoint_must_be_a_path() {
    let bound = Server::new("s", "1").http("127.0.0.1:0").endpoint("mcp").no_auth().bind().await;
    assert!(matches!(bound, Err(ServeError::Endpoint(_))));
}

#[tokio::test]
async fn stream_of_a_revoked_key_ends() {
    let world = World::guarded().await;
    let kept = world.key("acme", "ann").await;
    let new = world.keys.issue(KeyGrant::new("acme", "bob")).await.unwrap();
    let revoked = format!("Bearer {}", new.reveal());
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut streams = Vec::new();
    for key in [&kept, &revoked] {
        let modern = Caller::modern(&world, json!({}), Some(key));
        let mut listens = modern.request(1, "subscriptions/listen", filter.clone()).await;
        assert_eq!(
            listens.event().await.unwrap().data["method"],
            "notifications/subscriptions/acknowledged"
        );
        let legacy = Caller::legacy(&world, json!({}), Some(key)).await;
        streams.push((listens, legacy.get(None).await));
    }
    world.keys.revoke(new.id()).await.unwrap();
    world.tools.add(Tool::new("more", "New", || async { "" }));
    let (mut listens, mut session) = streams.remove(0);
    for stream in [&mut listens, &mut session] {
        assert_eq!(
            stream.event().await.unwrap().data["method"],
            "notifications/tools/list_changed"
        );
    }
    let (mut listens, mut session) = streams.remove(0);
    for stream in [&mut listens, &mut session] {
        assert!(stream.rest().await.is_empty(), "the key is revoked");
    }
}

/// Regression test: the stream of such a call ended without an answer, and many clients waited for an answer until they
/// gave up.
#[tokio::test]
async fn running_call_of_a_revoked_key_is_answered_with_an_error() {
    let world = World::guarded().await;
    let key = world.keys.issue(KeyGrant::new("acme", "bob")).await.unwrap();
    let caller = Caller::modern(&world, json!({}), Some(&format!("Bearer {}", key.reveal())));
    world.hold.step(1);
    let mut response = caller.follow(1, "steps", json!({ "n": 3 })).await;
    assert_eq!(response.event().await.unwrap().data["params"]["progress"], 1.0);
    world.keys.revoke(key.id()).await.unwrap();
    world.hold.step(1);
    let rest = response.rest().await;
    let [answer] = &rest[..] else { panic!("{rest:?}") };
    assert_eq!((&answer.data["id"], &answer.data["error"]["code"]), (&json!(1), &json!(1003)));
    world.quiet().await;
}

/// Regression test: open notification streams counted as running calls, so 8,192 of them blocked all other callers.
#[tokio::test]
async fn listening_takes_no_slot() {
    let world = World::open(|server| server.config(|config| config.in_flight = 2)).await;
    let caller = Caller::modern(&world, json!({}), None);
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut listening = Vec::new();
    for id in 0..4 {
        let mut listens = caller.request(id, "subscriptions/listen", filter.clone()).await;
        assert_eq!(listens.status, 200);
        listens.event().await.unwrap();
        listening.push(listens);
    }
    assert_eq!(world.service.running(), 0);
    assert_eq!(caller.call(9, "now", json!({})).await.status, 200);
    drop(listening);
    world.quiet().await;
}

#[tokio::test]
async fn tool_sees_what_its_caller_may_do() {
    let may = Tool::new("may", "Says what its caller may do", |cx: Context| async move {
        let pass = cx.extensions.get::<CredentialGrant>();
        pass.map_or_else(|| "no pass".to_owned(), |pass| pass.permissions().join(" "))
    });
    let keys = ApiKeys::new();
    let grant = KeyGrant::new("acme", "ann").permission("files.read").permission("files.list");
    let key = keys.issue(grant).await.unwrap();
    let server = Server::new("s", "1").tool(may).http("127.0.0.1:0");
    let world = World::of(server.auth(AuthLayer::new().keys(keys.clone())), keys).await;
    for legacy in [true, false] {
        let key = format!("Bearer {}", key.reveal());
        let caller = if legacy {
            Caller::legacy(&world, json!({}), Some(&key)).await
        } else {
            Caller::modern(&world, json!({}), Some(&key))
        };
        let answer = caller.call(1, "may", json!({})).await.message().await;
        assert_eq!(result_text(&answer), "files.read files.list");
    }
}

/// The error occurs before the server binds an address, so this test binds none.
#[tokio::test]
async fn authentication_must_be_chosen_and_cannot_be_off_beyond_this_machine() {
    let at = |address: &str| Server::new("s", "1").http(address);
    assert!(matches!(at("127.0.0.1:0").bind().await, Err(ServeError::Unguarded(_))));
    for everywhere in ["0.0.0.0:0", "[::]:0"] {
        assert!(matches!(at(everywhere).bind().await, Err(ServeError::Unguarded(_))));
        assert!(matches!(at(everywhere).no_auth().bind().await, Err(ServeError::Exposed(_))));
        let half_open = at(everywhere).auth(AuthLayer::new());
        let half_open = half_open.config(|config| config.anonymous = Some(Principal::local()));
        assert!(matches!(half_open.bind().await, Err(ServeError::Exposed(_))));
    }
}

/// Regression test: if a program called `no_auth` before `auth`, callers that the layer did not authenticate were
/// admitted.
#[tokio::test]
async fn last_choice_of_authentication_counts() {
    let at = || server(&Hold::default()).http("127.0.0.1:0");
    let guarded = at().no_auth().auth(Identity::new());
    let open = at().auth(Identity::new()).no_auth();
    for (server, status) in [(guarded, 401), (open, 200)] {
        let world = World::of(server, ApiKeys::new()).await;
        let caller = Caller::modern(&world, json!({}), None);
        assert_eq!(caller.call(1, "now", json!({})).await.status, status);
    }
}

/// Regression test: for a host in a wrong form, the error recommended an entry that the configuration already had.
#[tokio::test]
async fn hosts_and_origins_are_written_as_browsers_write_them() {
    for wrong in ["mcp.example.com:8000", "https://x.example.com", "", "a/b", "*.example.com"] {
        let server = Server::new("s", "1").http("127.0.0.1:0").no_auth();
        let bound = server.config(|config| config.hosts.push(wrong.to_owned())).bind().await;
        assert!(bound.unwrap_err().to_string().contains("without scheme and port"), "{wrong}");
    }
    for wrong in
        ["https://app.example.com/", "b.example.com", "null", "https://", "https://a.example:443"]
    {
        let server = Server::new("s", "1").http("127.0.0.1:0").no_auth();
        let bound = server.config(|config| config.origins.push(wrong.to_owned())).bind().await;
        assert!(bound.unwrap_err().to_string().contains("nothing behind"), "{wrong}");
    }
    let server = Server::new("s", "1").http("127.0.0.1:0").no_auth().config(|config| {
        config.hosts.extend(["mcp.example.com".to_owned(), "[fd00::1]".to_owned()]);
        config.origins.push("https://app.example.com:8443".to_owned());
    });
    assert!(server.bind().await.is_ok());
}

/// Regression test: a service for another router accepted hosts and origins in a wrong form, which no request matches.
#[test]
fn service_of_a_router_is_refused_for_the_same_configurations() {
    let changes: [fn(&mut HttpConfig); 3] = [
        |config| config.hosts.push("mcp.example.com:8000".to_owned()),
        |config| config.origins.push("https://app.example.com/".to_owned()),
        |config| config.endpoint = Some("mcp".to_owned()),
    ];
    for change in changes {
        let mut config = HttpConfig::default();
        change(&mut config);
        let error = Server::new("s", "1").into_http_service(config).unwrap_err();
        assert!(matches!(error, ServeError::Listed { .. } | ServeError::Endpoint(_)), "{error}");
    }
}
