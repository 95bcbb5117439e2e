//! Tests that the server refuses a token that is valid, but for another audience.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use mgp_security::auth::{AuthLayer, JwkSet, ResourceServer};
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use super::caller::Caller;
use super::world::World;

const RESOURCE: &str = "http://127.0.0.1/mcp";
const ISSUER: &str = "https://issuer.example";

fn key() -> EncodingKey {
    let pem = include_bytes!("../../../mgp-security/tests/keys/ed25519.pem");
    EncodingKey::from_ed_pem(pem).unwrap()
}

fn token(audience: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut header = Header::new(Algorithm::EdDSA);
    header.kid = Some("ed".to_owned());
    header.typ = Some("at+jwt".to_owned());
    let claims = json!({
        "iss": ISSUER, "aud": audience, "sub": "ann", "client_id": "host",
        "iat": now, "exp": now + 300, "jti": "1",
    });
    format!("Bearer {}", encode(&header, &claims, &key()).unwrap())
}

#[tokio::test]
async fn token_of_another_audience_is_refused() {
    let mut jwk =
        serde_json::to_value(Jwk::from_encoding_key(&key(), Algorithm::EdDSA).unwrap()).unwrap();
    jwk["kid"] = "ed".into();
    let jwks = JwkSet::parse(json!({ "keys": [jwk] }).to_string()).unwrap();
    let tokens = ResourceServer::new(RESOURCE, ISSUER).unwrap().keys(jwks);
    let world = World::open(|server| server.auth(AuthLayer::new().tokens(tokens))).await;
    for (audience, status) in [
        (json!(RESOURCE), 200),
        (json!([RESOURCE, "https://other.example/mcp"]), 200),
        (json!("https://other.example/mcp"), 401),
        (json!("http://127.0.0.1/mcp/other"), 401),
        (json!("http://127.0.0.1"), 401),
        (json!([]), 401),
        (Value::Null, 401),
    ] {
        let token = token(&audience);
        for era in [Era::Modern, Era::Legacy] {
            let caller = Caller::new(&world, era, json!({}), Some(&token));
            let hello = mgp_testkit::hello("2025-11-25", &json!({}));
            let answer = match era {
                Era::Modern => caller.call(1, "now", json!({})).await,
                Era::Legacy => caller.request(1, "initialize", hello).await,
            };
            assert_eq!(answer.status, status, "{audience} {era:?}");
            if status == 401 {
                let challenge = answer.header("www-authenticate").unwrap();
                assert!(challenge.contains("invalid_token"), "{challenge}");
            }
        }
    }
    assert_eq!((world.service.running(), world.service.sessions()), (0, 2));
}
