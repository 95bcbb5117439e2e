//! Tests of a person's logins: registration, requested scopes, and accepted responses.

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::auth::{AuthError, Browser, LoopbackBrowser, MemoryTokens, OAuth, Scopes};
use mgp_transport::http::{CredentialRefusal, Credentials as _};
use mgp_types::service::{Fetch, FetchError, FetchRequest, FetchResponse, SharedFetch};
use mgp_types::{ErrorCode, RpcError};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::discovery::Elsewhere;
use crate::world::{DOCUMENT, Login, ONE, Person, REDIRECT, SECRET, SERVER, Switches, World};

/// Makes one call that logs in, which must request these scopes.
async fn check_requested_scopes(set: impl FnOnce(&mut Switches), expected: Option<&str>) {
    let world = World::new(set);
    world.call(&world.oauth(), "").await.unwrap();
    assert_eq!(world.logins()[0].get("scope").map(String::as_str), expected);
    world.check();
}

#[tokio::test]
async fn the_scopes_are_those_of_the_challenge_else_those_of_the_server_else_none() {
    check_requested_scopes(|s| (s.challenge_scope, s.scopes) = (Some("a"), Some("a b")), Some("a"))
        .await;
    check_requested_scopes(|s| s.scopes = Some("a b"), Some("a b")).await;
    check_requested_scopes(|_| {}, None).await;
}

#[tokio::test]
async fn offline_access_is_requested_only_if_it_is_listed() {
    let listed = |scopes: &'static str| {
        move |s: &mut Switches| {
            s.scopes = Some("a");
            s.server = json!({ "scopes_supported": scopes.split(' ').collect::<Vec<_>>() });
        }
    };
    check_requested_scopes(listed("a offline_access"), Some("a offline_access")).await;
    check_requested_scopes(listed("a b"), Some("a")).await;
}

#[tokio::test]
async fn credentials_precede_a_document_and_this_precedes_registration() {
    let takes = json!({ "client_id_metadata_document_supported": true });
    // Columns: whether the server accepts client documents, whether a document is configured, whether credentials are
    // given, and the expected client id.
    for (takes, document, given, expected) in [
        (true, true, true, "given"),
        (true, true, false, DOCUMENT),
        (false, true, true, "given"),
        (true, false, true, "given"),
        (false, true, false, "client-1"),
        (true, false, false, "client-1"),
    ] {
        let server = if takes { takes_documents() } else { json!({}) };
        let world = World::new(|s| s.server = server);
        world.add_client(ONE, "given", None);
        let mut oauth = world.oauth();
        if document {
            oauth = oauth.cimd(DOCUMENT);
        }
        if given {
            oauth = oauth.preregistered_public("given");
        }
        world.call(&oauth, "").await.unwrap();
        assert_eq!(world.logins()[0]["client_id"], expected);
        assert_eq!(world.registrations().len(), usize::from(expected == "client-1"));
        world.check();
    }
    let world = World::new(|s| s.server = takes);
    for unfit in ["http://127.0.0.1/client.json", "https://me.example", "https://me.example/"] {
        let error = world.call(&world.oauth().cimd(unfit), "").await.unwrap_err();
        assert!(error.message().contains("metadata document"), "{error}");
    }
}

fn takes_documents() -> Value {
    json!({ "client_id_metadata_document_supported": true })
}

#[tokio::test]
async fn a_registration_describes_the_client() {
    let world = World::new(|_| {});
    world.call(&world.oauth(), "").await.unwrap();
    let expected = json!({
        "client_name": "tester",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    });
    assert_eq!(world.registrations(), [expected]);
    let world = World::new(|s| s.registers = false);
    let error = world.call(&world.oauth(), "").await.unwrap_err();
    assert!(error.message().contains("does not accept registrations"), "{error}");
}

/// An authorization server that registers clients for logins only, without scopes, and accepts no secret in a header.
struct Picky(SharedFetch);

#[async_trait::async_trait]
impl Fetch for Picky {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        if request.headers.iter().any(|(name, _)| *name == "authorization") {
            return Ok(FetchResponse::new(401, r#"{"error":"invalid_client"}"#));
        }
        if request.url.ends_with("/register") {
            let client: Value = serde_json::from_slice(&request.body).unwrap();
            let grants = json!(["authorization_code"]);
            if client.get("scope").is_some() || client["grant_types"] != grants {
                return Ok(FetchResponse::new(400, r#"{"error":"invalid_client_metadata"}"#));
            }
        }
        self.0.fetch(request).await
    }
}

#[tokio::test]
async fn a_refused_registration_is_repeated_without_scopes_and_grants_that_are_not_offered() {
    for (grants, is_registered) in [
        (json!(["authorization_code", "implicit"]), true),
        (json!(["authorization_code", "refresh_token"]), false),
        (json!(null), false),
    ] {
        let world = World::new(|s| {
            (s.challenge_scope, s.server) = (Some("a"), json!({ "grant_types_supported": grants }));
        });
        let oauth = OAuth::new(SERVER, Arc::new(Picky(world.fetcher())));
        let called = world.call(&oauth.browser(Person(Arc::clone(&world))), "a").await;
        assert_eq!(called.is_ok(), is_registered, "{called:?}");
        let scopes: Vec<_> = world.logins().iter().map(|login| login["scope"].clone()).collect();
        assert_eq!(scopes, if is_registered { vec!["a"] } else { vec![] });
        world.check();
    }
}

#[tokio::test]
async fn a_secret_that_is_refused_in_the_header_is_sent_in_the_body_if_that_is_offered() {
    for (other, is_offered) in [("client_secret_post", true), ("private_key_jwt", false)] {
        let methods = json!(["client_secret_basic", other]);
        let world = World::new(|s| {
            s.method = "client_secret_post";
            s.server = json!({
                "token_endpoint_auth_methods_supported": methods,
                "revocation_endpoint": "https://one.example/revoke",
            });
        });
        world.add_client(ONE, "given", Some(SECRET));
        let oauth = OAuth::new(SERVER, Arc::new(Picky(world.fetcher())));
        let oauth = oauth.preregistered("given", SECRET).browser(Person(Arc::clone(&world)));
        let called = world.call(&oauth, "").await;
        assert_eq!(called.is_ok(), is_offered, "{called:?}");
        if is_offered {
            oauth.revoke(&oauth.entry().unwrap()).await.unwrap();
        }
        world.check();
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_on_another_device_sends_a_refused_secret_in_the_body_if_that_is_offered() {
    for (other, is_offered) in [("client_secret_post", true), ("private_key_jwt", false)] {
        let methods = json!(["client_secret_basic", other]);
        let world = World::new(|s| {
            s.method = "client_secret_post";
            s.server = json!({
                "token_endpoint_auth_methods_supported": methods,
                "device_authorization_endpoint": "https://one.example/device",
            });
            s.device = json!({
                "device_code": "d", "user_code": "A-B",
                "verification_uri": "https://one.example/enter",
            });
        });
        world.add_client(ONE, "given", Some(SECRET));
        let oauth = OAuth::new(SERVER, Arc::new(Picky(world.fetcher())));
        let oauth = oauth.preregistered("given", SECRET).browser(Elsewhere::default());
        let called = world.call(&oauth, "").await;
        assert_eq!(called.is_ok(), is_offered, "{called:?}");
        world.check();
    }
}

/// A person at an authorization server that refuses scopes with which the client did not register.
struct Strict(Arc<World>);

#[async_trait::async_trait]
impl Browser for Strict {
    async fn redirect_uri(&self, _registered: Option<&str>) -> Result<String, AuthError> {
        Ok(REDIRECT.to_owned())
    }

    async fn authorize(&self, url: &str) -> Result<String, AuthError> {
        let asked = Url::parse(url).unwrap();
        let field = |name: &str| {
            let value = asked.query_pairs().find(|(known, _)| known == name);
            value.map(|(_, value)| value.into_owned()).unwrap_or_default()
        };
        let registration = self.0.registrations().pop().unwrap();
        let registered = Scopes::parse(registration["scope"].as_str().unwrap_or_default());
        if registered.contains_all(&Scopes::parse(&field("scope"))) {
            return Person(Arc::clone(&self.0)).authorize(url).await;
        }
        Ok(format!("{REDIRECT}?error=invalid_scope&state={}", field("state")))
    }
}

#[tokio::test]
async fn a_client_registers_with_the_scopes_that_it_requests() {
    let world = World::new(|s| s.challenge_scope = Some("a"));
    let oauth = OAuth::new(SERVER, world.fetcher()).browser(Strict(Arc::clone(&world)));
    world.call(&oauth, "a").await.unwrap();
    world.call(&oauth, "b").await.unwrap();
    let registrations = world.registrations();
    let scopes: Vec<_> = registrations.iter().map(|one| one["scope"].as_str()).collect();
    assert_eq!(scopes, [Some("a"), Some("a b")]);
    world.check();
}

#[tokio::test]
async fn a_registration_with_more_scopes_is_used_only_if_its_login_succeeds() {
    let world = World::new(|s| (s.challenge_scope, s.refreshes) = (Some("a"), true));
    let oauth = OAuth::new(SERVER, world.fetcher()).browser(Strict(Arc::clone(&world)));
    world.call(&oauth, "a").await.unwrap();
    world.set(|s| s.login = Login::Denied);
    world.call(&oauth, "b").await.unwrap_err();
    assert_eq!(world.registrations().len(), 2);
    world.revoke();
    world.call(&oauth, "a").await.unwrap();
    let renewed = world.tokens().pop().unwrap();
    assert_eq!((&*renewed["grant_type"], &*renewed["client_id"]), ("refresh_token", "client-1"));
    world.check();
}

#[tokio::test]
async fn a_failed_step_up_does_not_end_the_login() {
    for login in [Login::Denied, Login::NoResponse] {
        let world = World::new(|s| s.refreshes = true);
        let oauth = world.logged_in().await;
        world.set(|s| s.login = login);
        world.call(&oauth, "a").await.unwrap_err();
        world.revoke();
        world.call(&oauth, "").await.unwrap();
        assert_eq!(world.tokens().last().unwrap()["grant_type"], "refresh_token");
        world.check();
    }
}

#[tokio::test]
async fn clients_authenticate_as_they_registered() {
    for method in ["none", "client_secret_basic", "client_secret_post"] {
        let world = World::new(|s| s.method = method);
        world.call(&world.oauth(), "").await.unwrap();
        assert_eq!(world.registrations()[0]["token_endpoint_auth_method"], method);
        world.check();
        if method != "none" {
            let world = World::new(|s| s.method = method);
            world.add_client(ONE, "given", Some(SECRET));
            world.call(&world.oauth().preregistered("given", SECRET), "").await.unwrap();
            world.check();
        }
    }
    let both = json!(["client_secret_basic", "client_secret_post"]);
    let world = World::new(|s| {
        s.method = "client_secret_post";
        s.server = json!({ "token_endpoint_auth_methods_supported": both });
    });
    world.call(&world.oauth(), "").await.unwrap();
    assert_eq!(world.registrations()[0]["token_endpoint_auth_method"], "client_secret_post");
    world.check();
    // The server lists no authentication methods, so the client must use basic authentication.
    let world = World::new(|s| {
        s.method = "client_secret_basic";
        s.server = json!({ "token_endpoint_auth_methods_supported": null });
    });
    world.add_client(ONE, "given", Some(SECRET));
    world.call(&world.oauth().preregistered("given", SECRET), "").await.unwrap();
    world.check();
}

#[tokio::test]
async fn a_response_is_accepted_only_from_the_requested_issuer() {
    #[track_caller]
    fn judge(
        found: Result<String, mgp_types::RpcError>,
        expected: Result<(), &str>,
        world: &World,
    ) {
        match (found, expected) {
            (Ok(_), Ok(())) => world.check(),
            (Err(error), Err(words)) => {
                assert!(error.message().contains(words), "{error}");
                assert_eq!(world.tokens().len(), 0, "the code goes nowhere");
            }
            (found, _) => panic!("{found:?}"),
        }
    }
    let promised = || json!({ "authorization_response_iss_parameter_supported": true });
    // Columns: whether the issuer promises `iss` in its responses, the `iss` of the response, and the result that RFC
    // 9207 §2.4 and MCP require.
    for (promises, iss, expected) in [
        (true, Some(ONE), Ok(())),
        (true, None, Err("does not name its issuer")),
        (true, Some("https://evil.example"), Err("another issuer")),
        (true, Some("https://one.example/"), Err("another issuer")),
        (true, Some("https://ONE.example"), Err("another issuer")),
        (true, Some("https://one.example:443"), Err("another issuer")),
        (false, None, Ok(())),
        (false, Some(ONE), Ok(())),
        (false, Some("https://evil.example"), Err("another issuer")),
        (false, Some(""), Err("another issuer")),
    ] {
        let world = World::new(|s| {
            s.iss = iss;
            s.server = if promises { promised() } else { json!({}) };
        });
        judge(world.call(&world.oauth(), "").await, expected, &world);
    }
    for (login, words) in [
        (Login::WrongState, "another state"),
        (Login::Elsewhere, "another address"),
        (Login::Denied, "access_denied"),
        (Login::NoResponse, "no response"),
    ] {
        let world = World::new(|s| s.login = login);
        judge(world.call(&world.oauth(), "").await, Err(words), &world);
    }
    // The message must not contain the error in a response from another issuer.
    let world = World::new(|s| (s.login, s.iss) = (Login::Denied, Some("https://evil.example")));
    let error = world.call(&world.oauth(), "").await.unwrap_err();
    assert!(!error.message().contains("access_denied"), "{error}");
}

#[tokio::test]
async fn only_a_registration_that_may_be_wrong_is_replaced() {
    for (login, registrations) in
        [(Login::Denied, 1), (Login::WrongState, 1), (Login::NoResponse, 2)]
    {
        let world = World::new(|_| {});
        let oauth = world.logged_in().await;
        world.revoke();
        world.set(|s| s.login = login);
        world.call(&oauth, "").await.unwrap_err();
        world.set(|s| s.login = Login::Code);
        world.call(&oauth, "").await.unwrap();
        assert_eq!(world.registrations().len(), registrations);
        world.check();
    }
}

#[tokio::test]
async fn each_login_has_its_own_state_and_challenge() {
    let world = World::new(|_| {});
    for _ in 0..2 {
        world.call(&world.oauth(), "").await.unwrap();
    }
    let logins = world.logins();
    for name in ["state", "code_challenge"] {
        assert_ne!(logins[0][name], logins[1][name]);
    }
}

#[tokio::test]
async fn without_a_browser_the_error_names_what_is_missing() {
    let world = World::new(|_| {});
    let oauth = OAuth::new(SERVER, world.fetcher());
    let error = world.call(&oauth, "").await.unwrap_err();
    assert!(error.message().contains("give the client a `browser`"), "{error}");
}

#[tokio::test]
async fn without_a_browser_each_lack_of_scopes_requires_a_login() {
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|_| {});
    world.call(&world.oauth().store(Arc::clone(&store)), "").await.unwrap();
    let later = OAuth::new(SERVER, world.fetcher()).store(store);
    let before = world.log();
    for _ in 0..5 {
        let error = world.call(&later, "write").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::AUTH_EXPIRED, "{error}");
        assert!(error.message().contains("does not include the scopes `write`"), "{error}");
    }
    assert_eq!(world.log(), before, "no metadata is fetched");
}

#[tokio::test]
async fn more_scopes_are_requested_if_needed_and_none_is_lost() {
    let world = World::new(|s| (s.challenge_scope, s.scopes) = (Some("read"), Some("read write")));
    let oauth = world.oauth();
    world.call(&oauth, "read").await.unwrap();
    world.call(&oauth, "write").await.unwrap();
    world.call(&oauth, "read write").await.unwrap();
    let scopes: Vec<_> = world.logins().iter().map(|login| login["scope"].clone()).collect();
    assert_eq!(scopes, ["read", "read write"]);
    assert_eq!(world.registrations().len(), 1, "the registration is used again");
    world.check();
}

#[tokio::test]
async fn scopes_that_are_never_granted_are_not_requested_forever() {
    let world = World::new(|s| s.withheld = "admin");
    let oauth = world.oauth();
    let error = world.call(&oauth, "admin").await.unwrap_err();
    assert!(error.message().contains("asked for `admin` more than 3 times"), "{error}");
    assert_eq!(world.logins().len(), 1 + 3);
    // The limit applies only to this operation, which stays refused; other operations still succeed.
    world.call(&oauth, "read").await.unwrap();
    assert!(world.call(&oauth, "admin").await.is_err());
    assert_eq!(world.logins().len(), 1 + 3 + 1);
    let world = World::new(|s| s.withheld = "admin");
    assert!(world.call(&world.oauth().step_up_limit(1), "admin").await.is_err());
    assert_eq!(world.logins().len(), 1 + 1);
}

#[tokio::test]
async fn a_refusal_that_scopes_do_not_solve_is_an_error() {
    let world = World::new(|_| {});
    let oauth = world.oauth();
    for challenge in ["Basic realm=x", "Bearer error=\"invalid_token\", scope=\"a\""] {
        let refusal = CredentialRefusal::new(403, vec![challenge.to_owned()], None);
        let error = oauth.handle_refusal(refusal).await.unwrap_err();
        assert!(error.message().contains("does not name scopes that would help"), "{error}");
    }
    assert!(world.log().is_empty());
}

/// Refuses a request for lack of scopes that the refusal does not name.
async fn refuse_scopes(oauth: &OAuth) -> Result<(), RpcError> {
    let shown = oauth.authorization().await.unwrap();
    let challenge = "Bearer error=\"insufficient_scope\"".to_owned();
    oauth.handle_refusal(CredentialRefusal::new(403, vec![challenge], shown)).await
}

#[tokio::test]
async fn a_refusal_that_names_no_scopes_is_solved_by_new_scopes_in_the_metadata_only() {
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|s| s.scopes = Some("read"));
    world.call(&world.oauth().store(Arc::clone(&store)), "read").await.unwrap();
    let later = OAuth::new(SERVER, world.fetcher()).store(Arc::clone(&store));
    for oauth in [&later, &world.oauth().store(Arc::clone(&store))] {
        let error = refuse_scopes(oauth).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED, "{error}");
    }
    world.set(|s| s.scopes = Some("read write"));
    let error = refuse_scopes(&later).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AUTH_EXPIRED, "{error}");
    assert!(error.message().contains("does not include the scopes `read write`"), "{error}");
    assert_eq!(world.logins().len(), 1);
    refuse_scopes(&world.oauth().store(store)).await.unwrap();
    assert_eq!(world.logins()[1]["scope"], "read write");
    world.check();
}

#[tokio::test]
async fn a_person_can_log_in_before_anything_is_asked() {
    let world = World::new(|s| s.scopes = Some("a"));
    let oauth = world.oauth();
    oauth.log_in().await.unwrap();
    oauth.log_in().await.unwrap();
    world.call(&oauth, "a").await.unwrap();
    assert_eq!(world.logins().len(), 1);
    world.set(|s| s.login = Login::Denied);
    let error = world.oauth().log_in().await.unwrap_err();
    assert!(error.to_string().contains("access_denied"), "{error}");
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_login_may_take_as_long_as_configured() {
    let limit = Duration::from_mins(10);
    let world = World::new(|_| {});
    let oauth = world.oauth().browser(LoopbackBrowser::new(|_| ())).login_timeout(limit);
    let begun = Instant::now();
    let mut login = Box::pin(world.call(&oauth, ""));
    let early = timeout(Duration::from_secs(301), &mut login).await;
    assert!(early.is_err(), "{early:?}");
    let error = login.await.unwrap_err();
    assert!(error.message().contains("timed out after 600 s"), "{error}");
    assert_eq!(begun.elapsed().as_secs(), limit.as_secs());
}
