//! Tests that tokens are revoked at their issuer after a logout.

use mgp_client_sdk::auth::{AuthError, OAuth, TokenEntry};
use mgp_types::service::FetchError;
use serde_json::json;

use crate::world::{ONE, SECRET, SERVER, World};

const ENDPOINT: &str = "https://one.example/revoke";

#[tokio::test]
async fn a_revocation_ends_the_refresh_token_and_the_access_token() {
    for method in ["none", "client_secret_basic", "client_secret_post"] {
        let world = World::new(|s| {
            (s.refreshes, s.method) = (true, method);
            s.server = json!({ "revocation_endpoint": ENDPOINT });
        });
        let oauth = world.logged_in().await;
        let entry = oauth.entry().unwrap();
        // New credentials, as in another process, must be able to revoke the tokens of a stored entry.
        OAuth::new(SERVER, world.fetcher()).revoke(&entry).await.unwrap();
        let asked = world.log().into_iter().filter(|line| line.ends_with(ENDPOINT)).count();
        assert_eq!(asked, 2, "{method}");
        world.call(&oauth, "").await.unwrap();
        assert_eq!(world.logins().len(), 2, "neither token is valid");
        world.check();
    }
}

#[tokio::test]
async fn an_entry_of_a_client_that_was_registered_by_hand_is_revoked_with_its_secret() {
    let world = World::new(|s| {
        (s.refreshes, s.method) = (true, "client_secret_basic");
        s.server = json!({ "revocation_endpoint": ENDPOINT });
    });
    world.add_client(ONE, "given", Some(SECRET));
    let oauth = world.oauth().preregistered("given", SECRET);
    world.call(&oauth, "").await.unwrap();
    let entry = oauth.entry().unwrap();
    oauth.revoke(&entry).await.unwrap();
    world.check();
    // The secret must be sent only to the configured issuer.
    let elsewhere = world.oauth().preregistered("given", SECRET).issuer("https://two.example");
    elsewhere.revoke(&entry).await.unwrap();
    assert!(world.faults().contains(&"another secret".to_owned()), "{:?}", world.faults());
    oauth.revoke(&TokenEntry::new(SERVER, ONE)).await.unwrap();
}

#[tokio::test]
async fn a_revocation_that_fails_names_the_reason() {
    let world = World::new(|s| s.refreshes = true);
    let oauth = world.logged_in().await;
    let entry = oauth.entry().unwrap();
    let missing = oauth.revoke(&entry).await.unwrap_err();
    assert!(matches!(missing, AuthError::MissingEndpoint { .. }), "{missing}");
    for endpoint in ["http://one.example/revoke", "https://127.0.0.1/revoke"] {
        world.set(|s| s.server = json!({ "revocation_endpoint": endpoint }));
        let refused = oauth.revoke(&entry).await.unwrap_err();
        assert!(matches!(refused, AuthError::Address { .. }), "{refused}");
    }
    assert!(!world.log().iter().any(|line| line.ends_with("/revoke")));
    world.set(|s| {
        s.server = json!({ "revocation_endpoint": ENDPOINT });
        s.broken = Some((503, ENDPOINT));
    });
    let refused = oauth.revoke(&entry).await.unwrap_err();
    assert!(refused.to_string().contains("did not revoke the token (status 503)"), "{refused}");
    world.set(|s| s.unreachable = Some(ENDPOINT));
    let failed = oauth.revoke(&entry).await.unwrap_err();
    assert!(matches!(failed, AuthError::Fetch(FetchError::Failed { .. })), "{failed}");
    world.check();
}
