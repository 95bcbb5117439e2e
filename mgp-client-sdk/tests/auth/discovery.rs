//! Tests of the discovery of authorization servers, also with documents that a client must not trust.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mgp_client_sdk::auth::{AuthError, Browser, DeviceCode};
use mgp_types::ErrorCode;
use serde_json::json;
use tokio::time::sleep;

use crate::world::{ONE, Person, REDIRECT, SERVER, Switches, TWO, World};

/// The URL of the protected server's metadata.
const RESOURCE_METADATA: &str = "https://mcp.example/.well-known/oauth-protected-resource/mcp";

/// The URL of the metadata of the authorization server [`ONE`].
const SERVER_METADATA: &str = "https://one.example/.well-known/oauth-authorization-server";

/// Makes one call. It must log in at the issuer in `Ok`, or fail with an error that contains the words in `Err`.
async fn check(set: impl FnOnce(&mut Switches), expected: Result<&str, &str>) {
    let world = World::new(set);
    let oauth = world.oauth();
    match (world.call(&oauth, "").await, expected) {
        (Ok(_), Ok(issuer)) => {
            assert_eq!(world.logins()[0]["issuer"], issuer);
            world.check();
        }
        (Err(error), Err(words)) => {
            assert!(error.message().contains(words), "{error}");
            assert_eq!(world.logins().len(), 0, "no login is opened");
            assert_eq!(world.registrations().len(), 0, "no registration is sent");
        }
        (found, _) => panic!("{found:?}"),
    }
}

#[tokio::test]
async fn the_metadata_of_the_server_is_found() {
    check(|_| {}, Ok(ONE)).await;
    check(|s| s.metadata_at = Some("/custom/place.json"), Ok(ONE)).await;
    check(|s| s.challenge_names_metadata = false, Ok(ONE)).await;
    let root = |s: &mut Switches| {
        s.challenge_names_metadata = false;
        s.metadata_at = Some("/.well-known/oauth-protected-resource");
        s.resource = "https://mcp.example";
    };
    check(root, Ok(ONE)).await;
}

#[tokio::test]
async fn the_path_is_tried_before_the_root_and_a_challenge_before_both() {
    let world = World::new(|s| {
        s.challenge_names_metadata = false;
        s.metadata_at = Some("/.well-known/oauth-protected-resource");
    });
    world.call(&world.oauth(), "").await.unwrap();
    assert_eq!(
        world.log()[..2],
        [
            "GET https://mcp.example/.well-known/oauth-protected-resource/mcp",
            "GET https://mcp.example/.well-known/oauth-protected-resource",
        ]
    );
    let world = World::new(|_| {});
    world.call(&world.oauth(), "").await.unwrap();
    assert!(
        !world
            .log()
            .contains(&"GET https://mcp.example/.well-known/oauth-protected-resource".to_owned())
    );
}

#[tokio::test]
async fn metadata_for_another_server_is_refused() {
    check(|s| s.resource = "https://evil.example/mcp", Err("is for `https://evil.example/mcp`"))
        .await;
    check(|s| s.resource = "https://mcp.example/other", Err("not for")).await;
    check(|s| s.resource = "http://mcp.example/mcp", Err("not for")).await;
    check(|s| s.issuers = vec![], Err("names no authorization server")).await;
    // If a challenge names the URL of the metadata, the client looks only there.
    let gone = |s: &mut Switches| {
        s.unreachable = Some("https://mcp.example/.well-known/oauth-protected-resource/mcp");
    };
    check(gone, Err("could not be fetched")).await;
}

#[tokio::test]
async fn metadata_is_redirected_within_its_origin_only() {
    let moved = |target: &'static str| {
        move |s: &mut Switches| {
            s.metadata_at = Some("/metadata.json");
            s.challenge_names_metadata = false;
            s.redirect = Some((RESOURCE_METADATA, target));
        }
    };
    check(moved("/metadata.json"), Ok(ONE)).await;
    check(moved("https://mcp.example/metadata.json"), Ok(ONE)).await;
    check(moved("https://evil.example/metadata.json"), Err("to another origin")).await;
    check(moved("http://mcp.example/metadata.json"), Err("to another origin")).await;
    check(moved(RESOURCE_METADATA), Err("too many redirects")).await;
}

#[tokio::test]
async fn failing_a_request_cannot_choose_the_trusted_metadata() {
    // A failed request must not count as "the server has no metadata here". Otherwise the client would trust the
    // metadata of the origin.
    let fails = |s: &mut Switches| {
        s.challenge_names_metadata = false;
        s.unreachable = Some("https://mcp.example/.well-known/oauth-protected-resource/mcp");
    };
    check(fails, Err("could not be fetched")).await;
    for status in [408, 429, 503] {
        let words = format!("the status is {status}");
        let broken = |s: &mut Switches| {
            s.challenge_names_metadata = false;
            s.broken = Some((status, RESOURCE_METADATA));
        };
        check(broken, Err(&words)).await;
        let server = |s: &mut Switches| {
            s.server_at = Some("/.well-known/openid-configuration{}");
            s.broken = Some((status, SERVER_METADATA));
        };
        check(server, Err(&words)).await;
    }
}

#[tokio::test]
async fn metadata_that_fails_for_now_is_fetched_again_by_the_next_call() {
    for url in [RESOURCE_METADATA, SERVER_METADATA] {
        let world = World::new(|s| s.broken = Some((503, url)));
        let oauth = world.oauth();
        let error = world.call(&oauth, "").await.unwrap_err();
        // With this code a client does not fall back to another era, but tries again later.
        assert_eq!(error.code(), ErrorCode::UPSTREAM_UNAVAILABLE, "{error}");
        world.set(|s| s.broken = None);
        world.call(&oauth, "").await.unwrap();
        world.check();
    }
}

#[tokio::test]
async fn authorization_servers_are_found_in_each_of_their_places() {
    for at in [
        "/.well-known/oauth-authorization-server{}",
        "/.well-known/openid-configuration{}",
        "{}/.well-known/openid-configuration",
    ] {
        check(|s| (s.server_at, s.issuers) = (Some(at), vec![TWO]), Ok(TWO)).await;
        check(|s| s.server_at = Some(at), Ok(ONE)).await;
    }
    check(|s| s.server_at = None, Err("no metadata")).await;
    // For a tenant of a host, the client must not use the metadata at the root of that host.
    let root = Some("/.well-known/oauth-authorization-server");
    check(|s| (s.server_at, s.issuers) = (root, vec![TWO]), Err("no metadata")).await;
}

#[tokio::test]
async fn an_issuer_is_equal_to_the_letter() {
    for other in ["https://one.example/", "https://ONE.example", "https://one.example:443", TWO] {
        check(|s| s.server = json!({ "issuer": other }), Err("both must be identical")).await;
    }
}

#[tokio::test]
async fn without_pkce_there_is_no_login() {
    for methods in [json!(null), json!([]), json!(["plain"]), json!(["s256"])] {
        let server = json!({ "code_challenge_methods_supported": methods });
        check(|s| s.server = server, Err("S256")).await;
    }
}

#[tokio::test]
async fn addresses_must_be_safe_for_credentials() {
    for (name, words) in [
        ("authorization_endpoint", "the authorization endpoint `http://one.example/x`"),
        ("token_endpoint", "the token endpoint `http://one.example/x`"),
        ("registration_endpoint", "the registration endpoint `http://one.example/x`"),
    ] {
        let world = World::new(|s| s.server = json!({ name: "http://one.example/x" }));
        let error = world.call(&world.oauth(), "").await.unwrap_err();
        assert!(error.message().contains(words), "{error}");
        assert_eq!((world.logins().len(), world.tokens().len()), (0, 0));
        assert!(!world.log().iter().any(|line| line.contains("http://one")));
    }
    check(|s| s.issuers = vec!["http://one.example"], Err("must be `https`")).await;
    check(|s| s.issuers = vec!["https://one.example?x"], Err("no query")).await;
    let world = World::new(|_| {});
    let oauth = mgp_client_sdk::auth::OAuth::new("http://mcp.example/mcp", world.fetcher());
    let error = world.call(&oauth, "").await.unwrap_err();
    assert!(error.message().contains("the server's URL"), "{error}");
    assert!(world.log().is_empty());
}

#[tokio::test]
async fn a_server_of_2025_03_26_is_its_own_authorization_server() {
    let old = |s: &mut Switches| s.metadata_at = None;
    check(old, Ok("https://mcp.example")).await;
    // Without any metadata, the client uses the default endpoints of that revision.
    let world = World::new(|s| (s.metadata_at, s.server_at) = (None, None));
    world.call(&world.oauth(), "").await.unwrap();
    assert_eq!(world.logins()[0]["resource"], SERVER);
    let log = world.log();
    assert!(log.contains(&"POST https://mcp.example/register".to_owned()), "{log:?}");
    assert!(log.contains(&"POST https://mcp.example/token".to_owned()), "{log:?}");
    world.check();
    let other = |s: &mut Switches| {
        s.metadata_at = None;
        s.server = json!({ "issuer": ONE });
    };
    check(other, Err("both must be identical")).await;
}

#[tokio::test]
async fn among_several_issuers_the_trusted_one_is_used() {
    check(|s| s.issuers = vec![TWO, ONE], Ok(TWO)).await;
    let world = World::new(|s| s.issuers = vec![TWO, ONE]);
    world.call(&world.oauth().issuer(ONE), "").await.unwrap();
    assert_eq!(world.logins()[0]["issuer"], ONE);
    let world = World::new(|s| s.issuers = vec![TWO]);
    let error = world.call(&world.oauth().issuer(ONE), "").await.unwrap_err();
    assert!(error.message().contains("now names `https://two.example/tenant`"), "{error}");
}

#[tokio::test]
async fn a_server_elsewhere_opens_no_page_of_this_machine() {
    let local = json!({ "authorization_endpoint": "http://127.0.0.1:8080/shutdown" });
    check(|s| s.server = local.clone(), Err("it is on this machine")).await;
    // The same must hold for a server of revision 2025-03-26, which has no metadata of its own.
    check(|s| (s.metadata_at, s.server) = (None, local), Err("it is on this machine")).await;
}

/// The page where a code is entered, and the page with the code in its address.
type ShownPages = (String, Option<String>);

/// A browser on another device, which records the pages that it shows.
#[derive(Clone, Default)]
pub(crate) struct Elsewhere(Arc<Mutex<Vec<ShownPages>>>);

#[async_trait]
impl Browser for Elsewhere {
    async fn redirect_uri(&self, _registered: Option<&str>) -> Result<String, AuthError> {
        Ok(REDIRECT.to_owned())
    }

    async fn authorize(&self, _url: &str) -> Result<String, AuthError> {
        Err(AuthError::browser("the login is elsewhere"))
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    fn show_device_code(&self, code: &DeviceCode<'_>) {
        let shown = (code.page.to_owned(), code.complete.map(str::to_owned));
        self.0.lock().unwrap().push(shown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_on_another_device_shows_no_page_of_this_machine_and_no_control_characters() {
    let (there, here) = ("https://one.example/enter", "http://localhost:8080/shutdown");
    let clears = "https://one.example/enter\u{1b}[2J";
    for (page, complete, expected) in [
        (there, there, Ok(Some(there.to_owned()))),
        (there, clears, Ok(None)),
        (there, here, Ok(None)),
        (here, there, Err("it is on this machine")),
    ] {
        let world = World::new(|s| {
            s.server = json!({ "device_authorization_endpoint": "https://one.example/device" });
            s.device = json!({
                "device_code": "d", "user_code": "A-B",
                "verification_uri": page, "verification_uri_complete": complete,
            });
        });
        let browser = Elsewhere::default();
        let outcome = world.call(&world.oauth().browser(browser.clone()), "").await;
        let shown = browser.0.lock().unwrap().clone();
        match expected {
            Ok(complete) => {
                outcome.unwrap();
                assert_eq!(shown, [(page.to_owned(), complete)]);
            }
            Err(words) => {
                let error = outcome.unwrap_err();
                assert!(error.message().contains(words), "{error}");
                assert!(shown.is_empty(), "{shown:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_on_another_device_goes_on_after_a_failure_that_passes() {
    let world = World::new(|s| {
        s.server = json!({ "device_authorization_endpoint": "https://one.example/device" });
        s.device = json!({
            "device_code": "d", "user_code": "A-B", "verification_uri": "https://one.example/enter",
        });
        s.unreachable = Some("https://one.example/token");
    });
    let oauth = world.oauth().browser(Elsewhere::default());
    let mending = async {
        sleep(Duration::from_secs(20)).await;
        world.set(|s| (s.unreachable, s.token_fault) = (None, Some((503, "busy"))));
        sleep(Duration::from_mins(1)).await;
        world.set(|s| s.token_fault = None);
    };
    let (outcome, ()) = tokio::join!(world.call(&oauth, ""), mending);
    outcome.unwrap();
    // The waits are 5, 10, 20, 40 and 60 s, and the endpoint is reached from the third poll on.
    assert_eq!(world.tokens().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_login_on_another_device_ends_when_its_code_expires() {
    let lifetimes = [
        (json!(30), "authorization_pending", "verification_uri"),
        // Some authorization servers send numbers as text, and the address of the page under its earlier name.
        (json!("30"), "authorization_pending", "verification_url"),
        (json!("600"), "expired_token", "verification_uri"),
    ];
    for (lifetime, error, page) in lifetimes {
        let world = World::new(|s| {
            s.server = json!({ "device_authorization_endpoint": "https://one.example/device" });
            s.device = json!({
                "device_code": "d", "user_code": "A-B", "expires_in": lifetime, "interval": "5",
            });
            s.device[page] = "https://one.example/enter".into();
            s.token_fault = Some((400, error));
        });
        let outcome = world.call(&world.oauth().browser(Elsewhere::default()), "").await;
        let refused = outcome.unwrap_err();
        assert!(refused.message().contains("the code has expired"), "{refused}");
    }
}

/// A browser on another device that can also complete a login by redirect.
struct Redirected(Person);

#[async_trait]
impl Browser for Redirected {
    async fn redirect_uri(&self, registered: Option<&str>) -> Result<String, AuthError> {
        self.0.redirect_uri(registered).await
    }

    async fn authorize(&self, url: &str) -> Result<String, AuthError> {
        self.0.authorize(url).await
    }

    fn is_elsewhere(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_client_that_may_not_use_device_codes_logs_in_by_redirect() {
    for error in ["unauthorized_client", "unsupported_grant_type"] {
        let world = World::new(|s| {
            s.server = json!({ "device_authorization_endpoint": "https://one.example/device" });
            s.device = json!({ "error": error });
        });
        let oauth = world.oauth().browser(Redirected(Person(Arc::clone(&world))));
        world.call(&oauth, "").await.unwrap();
        assert_eq!(world.logins().len(), 1);
        world.check();
    }
}

#[tokio::test]
async fn a_tenant_cannot_claim_to_be_its_host() {
    let tenant = |s: &mut Switches| {
        s.metadata_at = Some("/mcp/metadata.json");
        s.resource = "https://mcp.example";
    };
    check(tenant, Err("is for `https://mcp.example`, not for")).await;
    check(|s| s.resource = "https://mcp.example", Err("not for")).await;
}
