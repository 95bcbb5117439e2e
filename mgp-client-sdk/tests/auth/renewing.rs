//! Tests of tokens that expire, are refused, or are needed by many calls at the same time.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all};
use mgp_client_sdk::auth::{MemoryTokens, OAuth, TokenStore as _};
use mgp_transport::http::{CredentialRefusal, Credentials as _};
use mgp_types::{ErrorCode, RpcError};

use crate::world::{SERVER, World};

#[tokio::test]
async fn a_refused_token_is_refreshed_and_the_refresh_token_rotated() {
    let world = World::new(|s| s.refreshes = true);
    let oauth = world.oauth();
    let mut shown = vec![world.call(&oauth, "").await.unwrap()];
    for _ in 0..2 {
        world.revoke();
        shown.push(world.call(&oauth, "").await.unwrap());
    }
    shown.dedup();
    assert_eq!(shown.len(), 3);
    assert_eq!(world.logins().len(), 1, "no second login");
    let grants: Vec<_> = world.tokens().iter().map(|form| form["grant_type"].clone()).collect();
    assert_eq!(grants[..2], ["authorization_code", "refresh_token"]);
    world.check();
}

#[tokio::test]
async fn a_refresh_token_that_is_not_rotated_stays() {
    let world = World::new(|s| (s.refreshes, s.rotates) = (true, false));
    let oauth = world.logged_in().await;
    world.set(|s| s.refreshes = false);
    for _ in 0..2 {
        world.revoke();
        world.call(&oauth, "").await.unwrap();
    }
    let forms = world.tokens();
    assert_eq!(forms[1]["refresh_token"], forms[2]["refresh_token"]);
    assert_eq!(world.logins().len(), 1);
    world.check();
}

#[tokio::test]
async fn a_token_is_renewed_before_the_server_refuses_it() {
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|s| (s.refreshes, s.expires_in) = (true, Some(1)));
    let oauth = world.oauth().store(Arc::clone(&store));
    world.set(|s| s.expires_in = Some(0));
    // The client logs in, and gets tokens that expire immediately.
    let refusal = CredentialRefusal::new(401, vec![], None);
    oauth.handle_refusal(refusal).await.unwrap();
    world.set(|s| s.expires_in = Some(3600));
    let renewed = oauth.authorization().await.unwrap();
    assert!(renewed.is_some());
    assert_eq!(world.tokens().last().unwrap()["grant_type"], "refresh_token");
    assert_eq!(world.logins().len(), 1);
    world.check();
}

#[tokio::test]
async fn an_expired_login_survives_a_move_of_the_metadata() {
    let world = World::new(|s| (s.refreshes, s.expires_in) = (true, Some(0)));
    let oauth = world.oauth();
    let at = "https://mcp.example/.well-known/oauth-protected-resource/mcp";
    let challenge = format!("Bearer resource_metadata=\"{at}\"");
    oauth.handle_refusal(CredentialRefusal::new(401, vec![challenge], None)).await.unwrap();
    world.set(|s| (s.metadata_at, s.expires_in) = (Some("/moved.json"), Some(3600)));
    world.call(&oauth, "").await.unwrap();
    assert_eq!(world.tokens().last().unwrap()["grant_type"], "refresh_token");
    assert_eq!(world.logins().len(), 1);
    world.check();
}

#[tokio::test]
async fn many_calls_share_one_login_and_one_refresh() {
    let world = World::new(|s| s.refreshes = true);
    let oauth = world.oauth();
    let calls = || join_all((0..20).map(|_| world.call(&oauth, "")));
    let shown: Vec<_> = calls().await.into_iter().map(Result::unwrap).collect();
    assert!(shown.iter().all(|token| *token == shown[0]));
    assert_eq!(
        (world.logins().len(), world.tokens().len(), world.registrations().len()),
        (1, 1, 1)
    );
    world.revoke();
    for call in calls().await {
        call.unwrap();
    }
    assert_eq!((world.logins().len(), world.tokens().len()), (1, 2));
    world.check();
}

#[tokio::test]
async fn many_calls_share_one_failure() {
    let world = World::new(|s| s.login = crate::world::Login::Denied);
    let oauth = world.oauth();
    for call in join_all((0..20).map(|_| world.call(&oauth, ""))).await {
        assert!(call.unwrap_err().message().contains("access_denied"));
    }
    assert_eq!(world.logins().len(), 1, "a person who declines is asked once");
}

/// Lets one call request more scopes, which the person declines, while another call has to replace its token. Returns
/// the outcomes of both.
async fn decline_more_scopes(world: &Arc<World>) -> (Result<(), RpcError>, Result<(), RpcError>) {
    let oauth = world.logged_in().await;
    world.set(|s| s.login = crate::world::Login::Denied);
    let shown = oauth.authorization().await.unwrap();
    let refusal = |status, challenge: &str| {
        CredentialRefusal::new(status, vec![challenge.to_owned()], shown.clone())
    };
    let lacks_scope = refusal(403, "Bearer error=\"insufficient_scope\", scope=\"more\"");
    let expired = refusal(401, "Bearer error=\"invalid_token\"");
    join(oauth.handle_refusal(lacks_scope), oauth.handle_refusal(expired)).await
}

/// Regression test: the call that only needed a refreshed token failed with the error of the other call's login.
#[tokio::test]
async fn a_declined_login_for_more_scopes_does_not_fail_another_call() {
    let world = World::new(|s| s.refreshes = true);
    let (declined, renewed) = decline_more_scopes(&world).await;
    assert!(declined.unwrap_err().message().contains("access_denied"));
    renewed.unwrap();
    assert_eq!(world.logins().len(), 2);
    assert_eq!(world.tokens().last().unwrap()["grant_type"], "refresh_token");
}

#[tokio::test]
async fn a_person_who_declined_more_scopes_is_not_asked_again_for_another_call() {
    let world = World::new(|_| {});
    let (declined, refused) = decline_more_scopes(&world).await;
    for error in [declined.unwrap_err(), refused.unwrap_err()] {
        assert!(error.message().contains("access_denied"), "{error}");
    }
    assert_eq!(world.logins().len(), 2);
}

/// Regression test: during a login for more scopes, which can take minutes, a call waited if its token was about to
/// expire.
#[tokio::test]
async fn a_call_with_a_valid_token_does_not_wait_for_a_login_for_more_scopes() {
    let world = World::new(|s| s.refreshes = true);
    let earlier = world.oauth();
    world.call(&earlier, "").await.unwrap();
    let mut entry = earlier.entry().unwrap();
    let tokens = entry.tokens.as_mut().unwrap();
    tokens.expires_at = Some(tokens.issued_at + 20);
    tokens.issued_at -= 3_600;
    let store = Arc::new(MemoryTokens::new());
    store.save(entry).await.unwrap();
    // The token is valid for 20 more seconds, and cannot be renewed.
    world.set(|s| s.token_fault = Some((503, "")));
    let oauth = world.oauth().store(Arc::clone(&store));
    let shown = oauth.authorization().await.unwrap();
    let challenge = "Bearer error=\"insufficient_scope\", scope=\"more\"".to_owned();
    let refusal = CredentialRefusal::new(403, vec![challenge], shown.clone());
    let mut login = Box::pin(oauth.handle_refusal(refusal));
    assert!(login.as_mut().now_or_never().is_none());
    assert!(shown.is_some());
    assert_eq!(oauth.authorization().now_or_never().unwrap().unwrap(), shown);
}

#[tokio::test]
async fn a_cancelled_caller_does_not_interrupt_a_rotation() {
    let world = World::new(|s| s.refreshes = true);
    let oauth = world.logged_in().await;
    world.revoke();
    {
        let mut leaving = Box::pin(world.call(&oauth, ""));
        assert!(leaving.as_mut().now_or_never().is_none());
    }
    world.call(&oauth, "").await.unwrap();
    assert_eq!((world.logins().len(), world.tokens().len()), (1, 2));
    world.check();
}

#[tokio::test]
async fn an_invalid_refresh_token_leads_to_a_login() {
    let world = World::new(|s| s.refreshes = true);
    let oauth = world.logged_in().await;
    world.revoke();
    world.revoke_refresh();
    world.call(&oauth, "").await.unwrap();
    assert_eq!(world.logins().len(), 2);
    assert_eq!(world.registrations().len(), 1);
    world.check();
}

#[tokio::test]
async fn a_refresh_token_that_is_refused_without_an_error_code_leads_to_a_login() {
    let world = World::new(|s| s.refreshes = true);
    let store = Arc::new(MemoryTokens::new());
    world.call(&world.oauth().store(Arc::clone(&store)), "").await.unwrap();
    world.revoke();
    world.set(|s| s.broken = Some((401, "https://one.example/token")));
    let oauth = world.oauth().store(store);
    assert!(world.call(&oauth, "").await.is_err(), "the login fails as well");
    assert_eq!(world.logins().len(), 2);
    world.set(|s| s.broken = None);
    world.call(&oauth, "").await.unwrap();
    world.check();
}

#[tokio::test]
async fn without_a_browser_a_token_is_refreshed_even_if_the_server_names_more_scopes() {
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|s| (s.refreshes, s.challenge_scope) = (true, Some("read")));
    world.call(&world.oauth().store(Arc::clone(&store)), "read").await.unwrap();
    let later = OAuth::new(SERVER, world.fetcher()).store(store);
    world.revoke();
    world.set(|s| s.challenge_scope = Some("read write"));
    world.call(&later, "read").await.unwrap();
    assert_eq!(world.tokens().last().unwrap()["grant_type"], "refresh_token");
    world.check();
}

#[tokio::test]
async fn a_failing_token_endpoint_does_not_lead_to_a_login() {
    for (status, fault, words) in [
        (503, "busy", "status 503"),
        (429, "invalid_grant", "status 429"),
        (400, "temporarily_unavailable", "temporarily_unavailable"),
    ] {
        let world = World::new(|s| s.refreshes = true);
        let oauth = world.logged_in().await;
        world.revoke();
        world.set(|s| s.token_fault = Some((status, fault)));
        let error = world.call(&oauth, "").await.unwrap_err();
        assert!(error.message().contains(words), "{error}");
        assert_eq!(error.code(), ErrorCode::UPSTREAM_UNAVAILABLE, "{error}");
        world.set(|s| s.token_fault = None);
        world.call(&oauth, "").await.unwrap();
        assert_eq!(world.logins().len(), 1);
        world.check();
    }
}

#[tokio::test]
async fn a_forgotten_client_registers_again() {
    let world = World::new(|_| {});
    let oauth = world.logged_in().await;
    world.revoke();
    world.remove_client(crate::world::ONE);
    // The client begins one login with the id that the issuer no longer knows. The script records this as a fault, so
    // this test does not check the faults.
    world.call(&oauth, "").await.unwrap();
    assert_eq!(world.registrations().len(), 2);
    world.revoke();
    world.call(&oauth, "").await.unwrap();
    assert_eq!(world.registrations().len(), 2);
}

#[tokio::test]
async fn a_server_that_refuses_all_tokens_is_given_up() {
    let world = World::new(|_| {});
    let oauth = world.oauth();
    let mut tries = 0;
    let error = loop {
        let shown = oauth.authorization().await.unwrap();
        match oauth.handle_refusal(CredentialRefusal::new(401, vec![], shown)).await {
            Ok(()) => tries += 1,
            Err(error) => break error,
        }
        assert!(tries < 10);
    };
    assert!(error.message().contains("refused 3 tokens in a row"), "{error}");
    assert_eq!(tries, 1 + 3);
}

#[tokio::test]
async fn without_a_browser_an_expired_login_has_its_own_error() {
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|s| s.refreshes = true);
    world.call(&world.oauth().store(Arc::clone(&store)), "").await.unwrap();
    let later = OAuth::new(SERVER, world.fetcher()).store(Arc::clone(&store));
    world.call(&later, "").await.unwrap();
    world.revoke();
    world.call(&later, "").await.unwrap();
    world.revoke();
    world.revoke_refresh();
    for _ in 0..5 {
        let error = world.call(&later, "").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::AUTH_EXPIRED, "{error}");
    }
    assert_eq!(world.logins().len(), 1);
    world.check();
}
