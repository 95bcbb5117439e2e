//! Tests of clients that obtain tokens without a person: with secrets, private keys or assertions.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use mgp_client_sdk::auth::{
    ClientCredentials, EnterpriseIdp, OAuth, Secret, SigningAlgorithm, SigningKey,
};
use mgp_types::service::{Fetch, FetchError, FetchRequest, FetchResponse};
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::world::{ONE, SECRET, SERVER, TWO, World};

fn machine(world: &Arc<World>, credentials: ClientCredentials) -> OAuth {
    OAuth::client_credentials(SERVER, world.fetcher(), credentials)
}

#[tokio::test]
async fn a_client_acts_on_its_own_behalf_with_a_secret() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let world = World::new(|s| (s.method, s.scopes) = (method, Some("a b")));
        world.add_client(ONE, "job:1", Some(SECRET));
        let oauth = machine(&world, ClientCredentials::secret("job:1", SECRET));
        world.call(&oauth, "a").await.unwrap();
        let form = &world.tokens()[0];
        assert_eq!((&*form["grant_type"], &*form["scope"]), ("client_credentials", "a b"));
        assert_eq!((world.logins().len(), world.registrations().len()), (0, 0));
        // This call needs a further scope, so the client must request new tokens in place of its old tokens.
        world.call(&oauth, "c").await.unwrap();
        assert_eq!(world.tokens()[1]["scope"], "a b c");
        world.revoke();
        world.call(&oauth, "c").await.unwrap();
        world.check();
    }
}

#[tokio::test]
async fn a_client_does_not_send_its_secret_to_another_issuer() {
    let world = World::new(|s| s.method = "client_secret_basic");
    world.add_client(ONE, "job", Some(SECRET));
    let oauth = machine(&world, ClientCredentials::secret("job", SECRET));
    world.call(&oauth, "").await.unwrap();
    world.set(|s| s.issuers = vec![TWO]);
    world.revoke();
    let error = world.call(&oauth, "").await.unwrap_err();
    assert!(error.message().contains("the credentials are for"), "{error}");
    assert_eq!(world.tokens().len(), 1);
    let strict = machine(&world, ClientCredentials::secret("job", SECRET)).issuer(ONE);
    assert!(world.call(&strict, "").await.is_err());
    assert_eq!(world.tokens().len(), 1);
    world.check();
}

#[tokio::test]
async fn a_refused_client_reports_the_reason() {
    let world = World::new(|s| s.method = "client_secret_basic");
    let error = world.call(&machine(&world, ClientCredentials::secret("job", "x")), "").await;
    let error = error.unwrap_err();
    assert!(error.message().contains("refused to issue a token (invalid_client)"), "{error}");
}

#[tokio::test]
async fn a_signed_assertion_is_valid_for_one_issuer_and_once() {
    let keys = [
        (
            "ES256",
            Algorithm::ES256,
            include_str!("keys/es256.pem"),
            include_str!("keys/es256.pub.pem"),
        ),
        (
            "RS256",
            Algorithm::RS256,
            include_str!("keys/rs256.pem"),
            include_str!("keys/rs256.pub.pem"),
        ),
        (
            "EdDSA",
            Algorithm::EdDSA,
            include_str!("keys/eddsa.pem"),
            include_str!("keys/eddsa.pub.pem"),
        ),
    ];
    for (name, algorithm, private, public) in keys {
        let world = World::new(|s| s.method = "private_key_jwt");
        world.add_client(ONE, "job", None);
        let key = SigningKey::from_pem(name.parse().unwrap(), private.as_bytes()).unwrap();
        let oauth = machine(&world, ClientCredentials::key("job", key.id("k1")));
        for _ in 0..2 {
            world.call(&oauth, "").await.unwrap();
            world.revoke();
        }
        let mut ids = HashSet::new();
        for form in world.tokens() {
            assert_eq!(
                form["client_assertion_type"],
                "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            );
            let assertion = &form["client_assertion"];
            assert_eq!(decode_header(assertion).unwrap().kid.as_deref(), Some("k1"));
            let public = match algorithm {
                Algorithm::ES256 => DecodingKey::from_ec_pem(public.as_bytes()),
                Algorithm::RS256 => DecodingKey::from_rsa_pem(public.as_bytes()),
                _ => DecodingKey::from_ed_pem(public.as_bytes()),
            };
            let mut rules = Validation::new(algorithm);
            rules.set_audience(&[ONE]);
            rules.set_issuer(&["job"]);
            let claims = decode::<Value>(assertion, &public.unwrap(), &rules).unwrap().claims;
            assert_eq!(claims["sub"], "job");
            assert!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap() <= 300);
            ids.insert(claims["jti"].to_string());
        }
        assert_eq!(ids.len(), 2);
        world.check();
    }
}

#[test]
fn a_key_that_cannot_sign_is_refused_at_once() {
    let pem = include_str!("keys/es256.pem").as_bytes();
    assert!(SigningKey::from_pem(SigningAlgorithm::Rs256, pem).is_err());
    assert!(SigningKey::from_pem(SigningAlgorithm::Es256, b"no key").is_err());
    assert!("none".parse::<SigningAlgorithm>().is_err());
    assert!("HS256".parse::<SigningAlgorithm>().is_err());
}

#[tokio::test]
async fn a_workload_presents_the_assertion_of_its_platform_once() {
    let world = World::new(|_| {});
    world.add_client(ONE, "workload", None);
    let who = ClientCredentials::public("workload");
    let oauth = OAuth::assertions(SERVER, world.fetcher(), who.clone(), Secret::from("signed"));
    world.call(&oauth, "").await.unwrap();
    let form = &world.tokens()[0];
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!((&*form["assertion"], &*form["client_id"]), ("signed", "workload"));
    world.check();
    let world = World::new(|s| s.token_fault = Some((400, "invalid_grant")));
    let oauth = OAuth::assertions(SERVER, world.fetcher(), who, Secret::from("expired"));
    let error = world.call(&oauth, "").await.unwrap_err();
    assert!(error.message().contains("invalid_grant"), "{error}");
    assert_eq!(world.tokens().len(), 1, "neither again nor otherwise");
}

/// An identity provider that exchanges ID tokens.
#[derive(Default)]
struct Idp {
    answer: Value,
    asked: Mutex<Vec<(String, String)>>,
}

#[async_trait]
impl Fetch for Idp {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        assert_eq!(request.url, "https://idp.example/token");
        let form = form_urlencoded::parse(&request.body).into_owned();
        self.asked.lock().unwrap().extend(form);
        Ok(FetchResponse::new(200, self.answer.to_string()))
    }
}

#[tokio::test]
async fn an_enterprise_decides_for_its_people() {
    const JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
    for (kind, works) in [(JAG, true), ("urn:ietf:params:oauth:token-type:access_token", false)] {
        let world = World::new(|s| (s.method, s.scopes) = ("client_secret_basic", Some("a")));
        world.add_client(ONE, "client", Some(SECRET));
        let idp = Arc::new(Idp {
            answer: json!({"access_token": "jag", "issued_token_type": kind, "token_type": "N_A"}),
            ..Idp::default()
        });
        let at_idp = ClientCredentials::public("at-idp");
        let endpoint = "https://idp.example/token";
        let enterprise =
            EnterpriseIdp::new(idp.clone(), "https://idp.example", endpoint, &at_idp, "id-token");
        let who = ClientCredentials::secret("client", SECRET);
        let oauth = OAuth::assertions(SERVER, world.fetcher(), who, enterprise);
        let called = world.call(&oauth, "a").await;
        assert_eq!(called.is_ok(), works, "{called:?}");
        let asked = idp.asked.lock().unwrap().clone();
        for (name, expected) in [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", JAG),
            ("audience", ONE),
            ("resource", SERVER),
            ("subject_token", "id-token"),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
            ("client_id", "at-idp"),
            ("scope", "a"),
        ] {
            let found = asked.iter().find(|(known, _)| known == name);
            assert_eq!(found.map(|(_, value)| &**value), Some(expected), "{name}");
        }
        if works {
            assert_eq!(world.tokens()[0]["assertion"], "jag");
            world.check();
        } else {
            assert!(world.tokens().is_empty());
        }
    }
}
