//! Tests of the keys of an issuer: which are usable, and which are tried for a token.

use super::*;

/// Returns the public key of a signer, with its key id replaced or removed.
fn renamed(signer: &Signer, kid: impl Into<Value>) -> Value {
    let mut key = signer.public();
    key["kid"] = kid.into();
    key
}

/// Verifies a token of `ed25519` with this header, while the issuer has these keys.
async fn verify_with(keys: Vec<Value>, header: Value) -> Result<Authenticated, AuthRefused> {
    verify(&server().keys(jwks(&keys)), &ed25519().sign(&header, &good())).await
}

#[tokio::test]
async fn a_key_is_found_for_a_token_without_a_key_id() {
    let (own, other) = (ed25519().public(), renamed(&ed25519_other(), "other"));
    for header in [json!({"alg": "EdDSA"}), json!({"alg": "EdDSA", "kid": null})] {
        for keys in [
            vec![own.clone()],
            vec![own.clone(), other.clone()],
            vec![other.clone(), own.clone()],
            vec![other.clone(), renamed(&ed25519(), Value::Null)],
        ] {
            assert!(verify_with(keys, header.clone()).await.is_ok());
        }
        refused(&verify_with(vec![other.clone(), p256().public()], header).await);
    }
    // At most eight keys are tried for one token.
    for (others, is_tried) in [(7, true), (8, false)] {
        let mut keys = vec![other.clone(); others];
        keys.push(own.clone());
        let outcome = verify_with(keys, json!({"alg": "EdDSA"})).await;
        assert_eq!(outcome.is_ok(), is_tried, "{others}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_key_without_a_key_id_is_found_for_a_token_with_one() {
    let (own, nameless) = (ed25519().public(), renamed(&ed25519(), Value::Null));
    let others = vec![renamed(&ed25519_other(), Value::Null); 8];
    for keys in [
        vec![nameless.clone()],
        vec![renamed(&ed25519_other(), "other"), nameless.clone()],
        // The keys with the token's id are tried first.
        [others, vec![own.clone()]].concat(),
        vec![ed25519_other().public(), own],
    ] {
        assert!(verify_with(keys, ed25519().header()).await.is_ok());
    }
    let foreign = vec![renamed(&ed25519(), "new"), renamed(&ed25519_other(), Value::Null)];
    refused(&verify_with(foreign, ed25519().header()).await);
    refused(&verify_with(vec![ed25519_other().public()], ed25519().header()).await);
    let mut encrypting = nameless;
    encrypting["use"] = "enc".into();
    refused(&verify_with(vec![encrypting], ed25519().header()).await);
}

#[test]
fn keys_that_cannot_verify_are_ignored() {
    let with = |name: &str, value: Value| {
        let mut key = ed25519().public();
        key[name] = value;
        key
    };
    let usable = |key: Value| !jwks(&[key]).is_empty();
    assert!(usable(ed25519().public()) && usable(p256().public()) && usable(rsa().public()));
    assert!(usable(with("alg", json!("EdDSA"))) && usable(with("key_ops", json!(["verify"]))));
    for key in [
        rsa_short().public(),
        with("use", json!("enc")),
        with("key_ops", json!(["sign"])),
        with("alg", json!("RS256")),
        with("alg", json!("HS256")),
        with("alg", json!("none")),
        with("crv", json!("X25519")),
        with("x", json!("AAAA")),
        with("x", json!("not base64!")),
        with("d", json!("AAAA")),
        with("kty", json!("oct")),
        json!({"kty": "oct", "k": "AAAA", "kid": "s"}),
        json!({"kty": "EC", "crv": "P-256", "x": b64([1; 32]), "y": b64([1; 32])}),
        json!({"kty": "RSA", "n": b64([0xff; 256]), "e": b64([1])}),
        json!({"kty": "RSA", "n": b64([0xff; 256]), "e": b64([2])}),
        json!({"kty": "RSA", "n": b64([0xff; 2048]), "e": b64([1, 0, 1])}),
        json!({}),
        json!("x"),
    ] {
        assert!(!usable(key.clone()), "{key}");
    }
}

#[test]
fn documents_that_are_not_key_sets_are_refused() {
    for text in ["", "{}", "[]", r#"{"keys":{}}"#, r#"{"keys":[}"#, "null"] {
        assert!(matches!(JwkSet::parse(text), Err(BadJwks::Malformed(_))), "{text}");
    }
    let many = json!({"keys": vec![json!({}); 101]}).to_string();
    assert!(matches!(JwkSet::parse(many), Err(BadJwks::TooLarge)));
    assert!(matches!(JwkSet::parse(" ".repeat(300_000)), Err(BadJwks::TooLarge)));
}
