//! Tests that credentials are used only for the server and the issuer to which they belong.

use std::sync::Arc;

use mgp_client_sdk::auth::{MemoryTokens, OAuth, TokenEntry, TokenStore, TokenStoreError};
use mgp_types::ErrorCode;

use crate::world::{DOCUMENT, ONE, SECRET, SERVER, TWO, World};

#[tokio::test]
async fn no_credentials_follow_a_server_to_another_issuer() {
    let world = World::new(|s| (s.refreshes, s.method) = (true, "client_secret_basic"));
    let oauth = world.logged_in().await;
    world.set(|s| s.issuers = vec![TWO]);
    world.revoke();
    world.call(&oauth, "").await.unwrap();
    let logins = world.logins();
    assert_eq!(logins[1]["issuer"], TWO);
    assert_ne!(logins[0]["client_id"], logins[1]["client_id"]);
    assert_eq!(world.registrations().len(), 2);
    let grants: Vec<_> = world.tokens().iter().map(|form| form["grant_type"].clone()).collect();
    assert_eq!(grants, ["authorization_code", "authorization_code"]);
    // The server names its first issuer again, at which the first registration is still valid.
    world.set(|s| s.issuers = vec![ONE]);
    world.revoke();
    world.call(&oauth, "").await.unwrap();
    assert_eq!(world.registrations().len(), 2);
    world.check();
}

#[tokio::test]
async fn an_expired_token_is_not_refreshed_at_another_issuer() {
    use mgp_transport::http::Credentials as _;
    let world = World::new(|s| (s.refreshes, s.expires_in) = (true, Some(0)));
    let oauth = world.oauth();
    let refusal = mgp_transport::http::CredentialRefusal::new(401, vec![], None);
    oauth.handle_refusal(refusal).await.unwrap();
    world.set(|s| s.issuers = vec![TWO]);
    assert_eq!(oauth.authorization().await.unwrap(), None);
    assert_eq!(world.tokens().len(), 1);
    world.check();
}

#[tokio::test]
async fn configured_credentials_are_not_sent_to_another_issuer() {
    for pinned in [false, true] {
        let store = Arc::new(MemoryTokens::new());
        let world = World::new(|s| s.method = "client_secret_basic");
        world.add_client(ONE, "given", Some(SECRET));
        let oauth = || {
            let oauth = world.oauth().preregistered("given", SECRET).store(Arc::clone(&store));
            if pinned { oauth.issuer(ONE) } else { oauth }
        };
        world.call(&oauth(), "").await.unwrap();
        world.set(|s| s.issuers = vec![TWO]);
        world.revoke();
        // A new client with the same store, as in another process, must not send the stored credentials to the second
        // issuer either.
        let error = world.call(&oauth(), "").await.unwrap_err();
        assert!(
            error.message().contains("the credentials are for `https://one.example`"),
            "{error}"
        );
        assert_eq!(world.logins().len(), 1);
        world.check();
    }
}

#[tokio::test]
async fn a_metadata_document_is_valid_at_every_issuer() {
    let server = serde_json::json!({ "client_id_metadata_document_supported": true });
    let world = World::new(|s| s.server = server);
    let oauth = world.oauth().cimd(DOCUMENT);
    world.call(&oauth, "").await.unwrap();
    world.set(|s| s.issuers = vec![TWO]);
    world.revoke();
    world.call(&oauth, "").await.unwrap();
    assert!(world.logins().iter().all(|login| login["client_id"] == DOCUMENT));
    world.check();
}

#[tokio::test]
async fn tokens_of_one_server_are_not_sent_to_another() {
    use mgp_transport::http::Credentials as _;
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|_| {});
    world.call(&world.oauth().store(Arc::clone(&store)), "").await.unwrap();
    let same = OAuth::new("https://MCP.example/mcp", world.fetcher()).store(Arc::clone(&store));
    assert!(same.authorization().await.unwrap().is_some());
    for other in ["https://mcp.example", "https://mcp.example/mcp2", "https://other.example/mcp"] {
        let oauth = OAuth::new(other, world.fetcher()).store(Arc::clone(&store));
        assert_eq!(oauth.authorization().await.unwrap(), None);
    }
}

#[tokio::test]
async fn tokens_are_not_reused_with_other_credentials() {
    use mgp_transport::http::Credentials as _;
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|_| {});
    world.add_client(ONE, "one", None);
    world.add_client(ONE, "two", None);
    let oauth = |id| world.oauth().preregistered_public(id).store(Arc::clone(&store));
    world.call(&oauth("one"), "").await.unwrap();
    assert!(oauth("one").authorization().await.unwrap().is_some());
    assert_eq!(oauth("two").authorization().await.unwrap(), None);
    world.call(&oauth("two"), "").await.unwrap();
    assert_eq!(world.logins()[1]["client_id"], "two");
    world.check();
}

#[tokio::test]
async fn tokens_that_another_process_renewed_are_used() {
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|s| s.refreshes = true);
    let oauth = || world.oauth().store(Arc::clone(&store));
    let (one, two) = (oauth(), oauth());
    world.call(&one, "").await.unwrap();
    world.call(&two, "").await.unwrap();
    world.revoke();
    world.call(&one, "").await.unwrap();
    // The time of a token is stored in whole seconds. Add a second, so that the stored token appears to be newer.
    let mut kept = store.latest(SERVER).await.unwrap().unwrap();
    kept.tokens.as_mut().unwrap().issued_at += 1;
    store.save(kept).await.unwrap();
    world.call(&two, "").await.unwrap();
    assert_eq!((world.logins().len(), world.tokens().len()), (1, 2));
    world.check();
}

/// A store that cannot be written and, unless it is empty, cannot be read either.
struct FaultyStore {
    is_empty: bool,
}

#[async_trait::async_trait]
impl TokenStore for FaultyStore {
    async fn load(&self, server: &str, _: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
        self.latest(server).await
    }

    async fn latest(&self, _: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
        if self.is_empty { Ok(None) } else { Err(TokenStoreError::Other("broken".to_owned())) }
    }

    async fn save(&self, _: TokenEntry) -> Result<(), TokenStoreError> {
        Err(TokenStoreError::Other("full".to_owned()))
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_trusted_is_an_error() {
    let world = World::new(|_| {});
    let oauth = world.oauth().store(FaultyStore { is_empty: false });
    let error = world.call(&oauth, "").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::INTERNAL_ERROR);
    assert!(error.message().contains("broken"), "{error}");
}

#[tokio::test]
async fn a_login_that_cannot_be_stored_is_still_used() {
    let world = World::new(|s| s.refreshes = true);
    let oauth = world.oauth().store(FaultyStore { is_empty: true });
    world.call(&oauth, "").await.unwrap();
    world.revoke();
    world.call(&oauth, "").await.unwrap();
    assert_eq!(world.logins().len(), 1);
    world.check();
}
