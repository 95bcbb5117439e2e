//! Nothing that is printed holds a secret.

use std::fmt::Debug;
use std::sync::Arc;

use mgp_client_sdk::auth::{
    ClientCredentials, EnterpriseIdp, FileTokens, LoopbackBrowser, MemoryTokens, Secret,
    SigningAlgorithm, SigningKey, TokenStore as _,
};

use crate::world::{ONE, SECRET, SERVER, World};

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
async fn nothing_that_is_printed_holds_a_secret() {
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

    // Every way to fail while secrets are about.
    world.revoke();
    for fault in [(400, "invalid_grant"), (401, "invalid_client"), (500, "x")] {
        world.turn(|s| s.token_fault = Some(fault));
        printed.error(&world.call(&oauth, "").await.unwrap_err());
    }
    world.turn(|s| (s.token_fault, s.withheld) = (None, "admin"));
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
    assert!(printed.contains(ONE), "something was printed");
}
