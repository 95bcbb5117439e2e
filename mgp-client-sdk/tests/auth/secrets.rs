//! Tests that secrets are never printed.

use std::fmt::Debug;
use std::sync::Arc;

use mgp_client_sdk::auth::{
    ClientCredentials, EnterpriseIdp, FileTokens, LoopbackBrowser, MemoryTokens, OAuth, Secret,
    SigningAlgorithm, SigningKey, TokenStore as _,
};

use crate::world::{ONE, Person, SECRET, SERVER, Switches, World};

#[derive(Default)]
struct Printed(Vec<String>);

impl Printed {
    fn debug(&mut self, what: &dyn Debug) {
        self.0.push(format!("{what:?} {what:#?}"));
    }

    fn error(&mut self, what: &impl std::error::Error) {
        self.0.push(format!("{what} {what:?} {what:#?}"));
        let mut source = what.source();
        while let Some(error) = source {
            self.0.push(format!("{error} {error:?}"));
            source = error.source();
        }
    }
}

#[tokio::test]
async fn printed_values_contain_no_secret() {
    let mut printed = Printed::default();
    let store = Arc::new(MemoryTokens::new());
    let world = World::new(|s| (s.method, s.refreshes) = ("client_secret_basic", true));
    let oauth = world.oauth().store(Arc::clone(&store));
    let token = world.call(&oauth, "").await.unwrap();
    let kept = store.latest(SERVER).await.unwrap().unwrap();
    let refresh = kept.tokens.as_ref().unwrap().refresh.clone().unwrap();
    assert!(token.contains("s3cret") && refresh.expose().contains("s3cret"));
    printed.debug(&oauth);
    printed.debug(&store);
    printed.debug(&kept);
    printed.debug(&FileTokens::at("tokens.json"));
    printed.debug(&LoopbackBrowser::new(|_| ()));
    printed.debug(&Secret::from(SECRET));
    let credentials = ClientCredentials::secret("id", SECRET);
    printed.debug(&credentials);
    let pem = include_str!("keys/es256.pem");
    let key = SigningKey::from_pem(SigningAlgorithm::Es256, pem.as_bytes()).unwrap();
    printed.debug(&key);
    printed.debug(&ClientCredentials::key("id", key));
    printed.debug(&EnterpriseIdp::new(world.fetcher(), "i", "e", &credentials, SECRET));

    // Print the errors that can occur while the client holds secrets.
    world.revoke();
    for fault in [(400, "invalid_grant"), (401, "invalid_client"), (500, "x")] {
        world.set(|s| s.token_fault = Some(fault));
        printed.error(&world.call(&oauth, "").await.unwrap_err());
    }
    world.set(|s| (s.token_fault, s.withheld) = (None, "admin"));
    printed.error(&world.call(&oauth, "admin").await.unwrap_err());
    let other = world.oauth().preregistered("given", SECRET);
    printed.debug(&other);
    printed.error(&world.call(&other, "").await.unwrap_err());

    let printed = printed.0.join("\n");
    let form = world.tokens()[0].clone();
    let login = world.logins()[0].clone();
    let verifier = &form["code_verifier"];
    let forbidden = [&token, refresh.expose(), SECRET, "s3cret", verifier, &login["state"]];
    for secret in forbidden.into_iter().chain(pem.lines().filter(|line| line.len() > 40)) {
        assert!(!printed.contains(secret), "{secret} in {printed}");
    }
    for form in world.tokens() {
        for name in ["code_verifier", "refresh_token"] {
            let is_printed = form.get(name).is_some_and(|secret| printed.contains(secret));
            assert!(!is_printed, "{name} of {form:?} in {printed}");
        }
    }
    assert!(printed.contains(ONE), "something was printed");
}

#[tokio::test]
async fn a_key_in_the_server_url_is_sent_to_the_server_only() {
    let mut printed = Printed::default();
    for set in [
        |_: &mut Switches| {},
        |s: &mut Switches| (s.metadata_at, s.server_at, s.issuers) = (None, None, vec![]),
        |s: &mut Switches| s.issuers = vec![],
        |s: &mut Switches| s.resource = "https://mcp.example/other",
        |s: &mut Switches| {
            s.broken = Some((503, "https://mcp.example/.well-known/oauth-protected-resource/mcp"));
        },
    ] {
        let world = World::new(set);
        let store = Arc::new(MemoryTokens::new());
        let oauth = OAuth::new(format!("{SERVER}?key=s3cret"), world.fetcher());
        let oauth = oauth.browser(Person(Arc::clone(&world))).store(Arc::clone(&store));
        printed.debug(&oauth);
        if let Err(error) = world.call(&oauth, "").await {
            printed.error(&error);
        } else {
            assert!(store.latest(SERVER).await.unwrap().is_some());
            world.check();
        }
        printed.debug(&store);
        printed.debug(&(world.log(), world.logins(), world.tokens(), world.registrations()));
    }
    let world = World::new(|_| {});
    for url in ["http://mcp.example/?key=s3cret", "https://me:s3cret@mcp.example/"] {
        let oauth = OAuth::new(url, world.fetcher());
        printed.debug(&oauth);
        printed.error(&world.call(&oauth, "").await.unwrap_err());
    }
    let printed = printed.0.join("\n");
    assert!(!printed.contains("s3cret@") && !printed.contains("key="), "{printed}");
    assert!(printed.contains("mcp.example"), "something was printed");
}
