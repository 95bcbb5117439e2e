//! Tests of tokens that are bound to a key (RFC 9449): when they are requested, how they are sent, and that unbound
//! tokens never replace them.

use std::sync::Arc;

use mgp_client_sdk::auth::{
    ClientCredentials, DpopMode, FileTokens, MemoryTokens, OAuth, TokenKind, TokenStore as _,
};
use mgp_transport::http::{CredentialRefusal, Credentials as _, RequestTarget};
use serde_json::{Value, json};

use crate::proofs::NonceRule;
use crate::world::{ONE, SECRET, SERVER, Switches, World};

fn offers() -> Value {
    json!({ "dpop_signing_alg_values_supported": ["RS256", "ES256"] })
}

/// Creates a world whose authorization server offers `DPoP`, and whose protected server requires it.
fn bound(set: impl FnOnce(&mut Switches)) -> Arc<World> {
    World::new(|s| {
        (s.server, s.schemes) = (offers(), &["DPoP"]);
        s.refreshes = true;
        set(s);
    })
}

#[tokio::test]
async fn each_request_has_its_own_proof_with_one_key() {
    let world = bound(|_| {});
    let oauth = world.oauth();
    for _ in 0..3 {
        world.call(&oauth, "").await.unwrap();
    }
    let (tokens, server) = world.proofs();
    assert_eq!((tokens.len(), server.len()), (1, 3));
    assert!(
        tokens.iter().chain(&server).all(|(key, nonce)| *key == tokens[0].0 && nonce.is_none())
    );
    assert_eq!(world.logins()[0]["dpop_jkt"], tokens[0].0);
    // Another client must use another key.
    world.call(&world.oauth(), "").await.unwrap();
    assert_ne!(world.proofs().0[1].0, tokens[0].0);
    world.check();
}

#[tokio::test]
async fn nonces_are_learnt_from_refusals_and_kept_apart() {
    let world = bound(|s| (s.token_wants, s.server_wants) = (NonceRule::Nonce, NonceRule::Nonce));
    let oauth = world.logged_in().await;
    world.call(&oauth, "").await.unwrap();
    world.revoke();
    world.call(&oauth, "").await.unwrap();
    let (tokens, server) = world.proofs();
    let nonces = |of: &[crate::world::Shown]| {
        of.iter().map(|(_, nonce)| nonce.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    // Only the first request to each server has a proof without a nonce; no later request is refused because of a
    // nonce.
    assert_eq!(nonces(&tokens), ["", "token~nonce!1", "token~nonce!1"]);
    // The last token was refreshed. `check` reports a refresh token if it comes with a key other than its own.
    assert_eq!(world.logins().len(), 1);
    assert_eq!(nonces(&server), ["", "server~nonce!1", "server~nonce!1", "server~nonce!1"]);
    world.check();
}

#[tokio::test]
async fn a_nonce_that_comes_with_an_answer_is_used_next() {
    let world = bound(|s| s.server_wants = NonceRule::Rotated);
    let oauth = world.oauth();
    for _ in 0..4 {
        world.call(&oauth, "").await.unwrap();
    }
    assert_eq!(world.proofs().1.len(), 1 + 4, "only the first request was refused");
    world.check();
}

#[tokio::test]
async fn servers_that_require_another_nonce_each_time_are_given_up() {
    let world = bound(|s| s.token_wants = NonceRule::Endless);
    let error = world.call(&world.oauth(), "").await.unwrap_err();
    assert!(error.message().contains("use_dpop_nonce"), "{error}");
    assert_eq!(world.proofs().0.len(), 3);
    let world = bound(|s| s.server_wants = NonceRule::Endless);
    let error = world.call(&world.oauth(), "").await.unwrap_err();
    assert!(error.message().contains("another nonce each time"), "{error}");
    assert!(world.proofs().1.len() <= 5);
    assert_eq!(world.logins().len(), 1, "nothing is wrong with the token");
    world.check();
}

#[tokio::test]
async fn a_refused_proof_does_not_lead_to_another_token() {
    for (fault, words) in [
        (("invalid_dpop_proof", None), "compare the clock"),
        (("use_dpop_nonce", None), "does not send one"),
        (("use_dpop_nonce", Some("no\"nonce")), "another nonce each time"),
    ] {
        let world = bound(|s| s.proof_fault = Some(fault));
        let error = world.call(&world.oauth(), "").await.unwrap_err();
        assert!(error.message().contains(words), "{error}");
        assert_eq!((world.logins().len(), world.tokens().len()), (1, 1));
        world.check();
    }
}

#[tokio::test]
async fn tokens_are_bound_if_both_sides_support_it() {
    let takes = || json!({ "dpop_signing_alg_values_supported": ["ES256"] });
    let others = || json!({ "dpop_signing_alg_values_supported": ["PS256"] });
    // Columns: additional metadata of the authorization server, additional metadata of the protected server, the
    // schemes that the protected server accepts, and the expected kind of token.
    for (server, more, schemes, expected) in [
        (offers(), json!({}), &["Bearer", "DPoP"][..], TokenKind::Dpop),
        (offers(), json!({}), &["DPoP"], TokenKind::Dpop),
        (json!({}), json!({}), &["DPoP"], TokenKind::Dpop),
        (offers(), takes(), &["Bearer", "DPoP"], TokenKind::Dpop),
        (offers(), others(), &["Bearer", "DPoP"], TokenKind::Bearer),
        (others(), json!({}), &["Bearer", "DPoP"], TokenKind::Bearer),
        // Many authorization servers offer DPoP although the protected servers do not support it.
        (offers(), json!({}), &["Bearer"], TokenKind::Bearer),
        (json!({}), json!({}), &["Bearer", "DPoP"], TokenKind::Bearer),
    ] {
        let store = Arc::new(MemoryTokens::new());
        let world = World::new(|s| {
            (s.server, s.resource_more, s.schemes) = (server.clone(), more.clone(), schemes);
        });
        world.call(&world.oauth().store(Arc::clone(&store)), "").await.unwrap();
        let kept = store.latest(SERVER).await.unwrap().unwrap();
        assert_eq!(kept.tokens.unwrap().kind, expected, "{server} {more} {schemes:?}");
        assert_eq!(kept.key.is_some(), expected == TokenKind::Dpop);
        world.check();
    }
}

#[tokio::test]
async fn bearer_tokens_are_used_if_the_server_accepts_them() {
    let world = World::new(|s| {
        (s.server, s.binds, s.refreshes) = (offers(), false, true);
        s.schemes = &["Bearer", "DPoP"];
    });
    let oauth = world.logged_in().await;
    world.revoke();
    world.call(&oauth, "").await.unwrap();
    assert_eq!((world.logins().len(), world.proofs().1.len()), (1, 0));
    world.check();
}

#[tokio::test]
async fn a_token_that_must_be_bound_is_never_sent_unbound() {
    let requires = || json!({ "dpop_bound_access_tokens_required": true });
    let only: &[&str] = &["DPoP"];
    // The metadata, the challenge or the user requires a bound token, so the client discards an unbound one.
    for (more, schemes, mode) in [
        (requires(), &["Bearer"][..], DpopMode::Offered),
        (json!({}), only, DpopMode::Offered),
        (json!({}), &["Bearer"], DpopMode::Always),
    ] {
        let store = Arc::new(MemoryTokens::new());
        let world = bound(|s| (s.resource_more, s.schemes, s.binds) = (more, schemes, false));
        let oauth = world.oauth().store(Arc::clone(&store)).dpop(mode);
        let error = world.call(&oauth, "").await.unwrap_err();
        assert!(error.message().contains("bound to a key (DPoP), which is required"), "{error}");
        assert_eq!(oauth.authorization().await.unwrap(), None);
        assert_eq!(store.latest(SERVER).await.unwrap().unwrap().tokens, None);
        assert_eq!(world.proofs().0.len(), 1);
        world.check();
    }
    // The client cannot get a bound token, so the person is not asked to log in.
    let others = json!({ "dpop_signing_alg_values_supported": ["RS256"] });
    for (server, more, schemes, mode, words) in [
        (others, requires(), only, DpopMode::Offered, "signed with `ES256`"),
        (offers(), requires(), &["Bearer"], DpopMode::Never, "configured never to use it"),
        (offers(), json!({}), only, DpopMode::Never, "configured never to use it"),
    ] {
        let world =
            bound(|s| (s.server, s.resource_more, s.schemes) = (server.clone(), more, schemes));
        let error = world.call(&world.oauth().dpop(mode), "").await.unwrap_err();
        assert!(error.message().contains(words), "{error}");
        assert_eq!(world.logins().len(), 0);
    }
}

#[tokio::test]
async fn the_user_decides_if_the_server_allows_both() {
    for (mode, server, kind) in
        [(DpopMode::Never, offers(), "Bearer"), (DpopMode::Always, json!({}), "DPoP")]
    {
        let world = World::new(|s| (s.server, s.schemes) = (server, &["Bearer", "DPoP"]));
        let oauth = world.oauth().dpop(mode);
        world.call(&oauth, "").await.unwrap();
        let shown = oauth.authorization().await.unwrap().unwrap();
        assert_eq!(shown.split_once(' ').unwrap().0, kind);
        world.check();
    }
}

#[tokio::test]
async fn refreshing_never_unbinds_a_token() {
    let world = bound(|s| s.schemes = &["Bearer", "DPoP"]);
    let oauth = world.logged_in().await;
    world.revoke();
    world.set(|s| s.binds = false);
    world.call(&oauth, "").await.unwrap();
    assert_eq!(world.logins().len(), 2, "a login decides again, a refresh does not");
    world.check();
}

#[tokio::test]
async fn an_authorization_server_that_stops_binding_is_noticed_once() {
    let world = bound(|s| (s.refreshes, s.method) = (false, "client_secret_basic"));
    world.add_client(ONE, "job", Some(SECRET));
    let credentials = ClientCredentials::secret("job", SECRET);
    let oauth = OAuth::client_credentials(SERVER, world.fetcher(), credentials);
    world.set(|s| s.expires_in = Some(0));
    oauth.handle_refusal(CredentialRefusal::new(401, vec!["DPoP".to_owned()], None)).await.unwrap();
    // From now on, tokens are not bound. The client must send no such token before the server has asked for credentials
    // again.
    world.set(|s| (s.binds, s.server, s.expires_in) = (false, json!({}), Some(3600)));
    assert_eq!(oauth.authorization().await.unwrap(), None);
    world.set(|s| s.schemes = &["Bearer"]);
    world.call(&oauth, "").await.unwrap();
    assert!(oauth.authorization().await.unwrap().unwrap().starts_with("Bearer "));
    world.check();
}

#[tokio::test]
async fn stored_tokens_are_used_only_as_configured() {
    let both: &[&str] = &["Bearer", "DPoP"];
    for (first, then, logins) in [
        (DpopMode::Never, DpopMode::Always, 2),
        (DpopMode::Always, DpopMode::Never, 2),
        (DpopMode::Always, DpopMode::Offered, 1),
        (DpopMode::Never, DpopMode::Offered, 1),
    ] {
        let store = Arc::new(MemoryTokens::new());
        let world = World::new(|s| (s.server, s.schemes) = (offers(), both));
        for mode in [first, then] {
            let oauth = world.oauth().store(Arc::clone(&store)).dpop(mode);
            world.call(&oauth, "").await.unwrap();
        }
        assert_eq!(world.logins().len(), logins, "{first:?}, {then:?}");
        world.check();
    }
}

#[tokio::test]
async fn a_server_that_accepts_only_bearer_tokens_is_supported() {
    // At a login before the first request, the client does not know which tokens the server accepts.
    let world = World::new(|s| (s.server, s.refreshes) = (offers(), true));
    let oauth = world.oauth();
    oauth.log_in().await.unwrap();
    assert!(oauth.authorization().await.unwrap().unwrap().starts_with("DPoP "));
    world.call(&oauth, "").await.unwrap();
    assert!(oauth.authorization().await.unwrap().unwrap().starts_with("Bearer "));
    // From now on the client knows that the server accepts only bearer tokens.
    world.revoke();
    world.call(&oauth, "").await.unwrap();
    assert_eq!(world.logins().len(), 2);
    world.check();
}

#[tokio::test]
async fn a_challenge_without_proofs_does_not_unbind_a_working_token() {
    let world = bound(|_| {});
    let store = Arc::new(MemoryTokens::new());
    let oauth = world.oauth().store(Arc::clone(&store));
    world.call(&oauth, "").await.unwrap();
    // Make the stored token an hour old, so that the client assumes that the server has accepted it before.
    let mut kept = store.latest(SERVER).await.unwrap().unwrap();
    kept.tokens.as_mut().unwrap().issued_at -= 3600;
    store.save(kept).await.unwrap();
    let oauth = world.oauth().store(Arc::clone(&store));
    let shown = oauth.authorization().await.unwrap();
    let refusal =
        CredentialRefusal::new(401, vec!["Bearer error=\"invalid_token\"".to_owned()], shown);
    oauth.handle_refusal(refusal).await.unwrap();
    world.call(&oauth, "").await.unwrap();
    // After a refusal that asks for further scopes, the tokens must stay bound too.
    let shown = oauth.authorization().await.unwrap();
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"a\"".to_owned();
    oauth.handle_refusal(CredentialRefusal::new(403, vec![challenge], shown)).await.unwrap();
    world.call(&oauth, "a").await.unwrap();
    assert_eq!(world.logins().len(), 2);
    world.check();
}

#[tokio::test]
async fn the_key_is_stored_with_its_tokens() {
    let folder = mgp_testkit::temp_dir();
    let path = folder.path().join("tokens.json");
    let world = bound(|_| {});
    for _ in 0..3 {
        let oauth = world.oauth().store(FileTokens::at(&path));
        world.call(&oauth, "").await.unwrap();
        world.revoke();
    }
    let (tokens, server) = world.proofs();
    assert_eq!(world.logins().len(), 1, "the refresh token is of use after a start");
    assert!(tokens.iter().chain(&server).all(|(key, _)| *key == tokens[0].0));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let text: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let key = text["entries"][0]["key"].as_str().unwrap();
    assert_eq!(key.len(), 43);
    // Without its key a token is useless, so the client does not send it.
    let mut without = text.clone();
    without["entries"][0].as_object_mut().unwrap().remove("key");
    std::fs::write(&path, without.to_string()).unwrap();
    let oauth = world.oauth().store(FileTokens::at(&path));
    assert_eq!(oauth.authorization().await.unwrap(), None);
    world.check();
}

#[tokio::test]
async fn machine_clients_prove_their_tokens_too() {
    let world = bound(|s| {
        (s.method, s.token_wants) = ("client_secret_basic", NonceRule::Nonce);
        s.expires_in = Some(0);
    });
    world.add_client(ONE, "job", Some(SECRET));
    let credentials = ClientCredentials::secret("job", SECRET);
    let oauth = OAuth::client_credentials(SERVER, world.fetcher(), credentials);
    let first = CredentialRefusal::new(401, vec!["DPoP".to_owned()], None);
    oauth.handle_refusal(first).await.unwrap();
    // An expired token must be renewed with the same key before it is sent.
    world.set(|s| s.expires_in = Some(3600));
    world.call(&oauth, "").await.unwrap();
    let (tokens, server) = world.proofs();
    assert_eq!((tokens.len(), server.len()), (3, 1));
    assert!(tokens.iter().chain(&server).all(|(key, _)| *key == tokens[0].0));
    world.check();
}

#[tokio::test]
async fn printed_values_contain_no_key_and_no_proof() {
    let store = Arc::new(MemoryTokens::new());
    let world = bound(|_| {});
    let oauth = world.oauth().store(Arc::clone(&store));
    let token = world.call(&oauth, "").await.unwrap();
    let kept = store.latest(SERVER).await.unwrap().unwrap();
    let key = serde_json::to_string(&kept.key).unwrap().trim_matches('"').to_owned();
    let shown = oauth.for_request(RequestTarget::new("POST", SERVER)).await.unwrap();
    let proof = &shown.headers[0].1;
    let printed = format!("{oauth:?} {store:?} {kept:?} {kept:#?} {:?} {shown:?}", kept.key);
    for secret in [key.as_str(), &token, proof, proof.rsplit('.').next().unwrap()] {
        assert!(!printed.contains(secret), "{secret} in {printed}");
    }
    assert!(printed.contains(&kept.key.unwrap().thumbprint()), "something was printed");
}
