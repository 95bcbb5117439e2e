//! Tests of attacks on the resource server, which must refuse every token that is not valid in all respects.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use mgp_types::service::Principal;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::claims::Claims;
use super::jws::Jws;
use super::*;
use crate::auth::layer::AuthLayer;

mod fetching;
mod keys;

const RESOURCE: &str = "https://mcp.example/mcp";
const ISSUER: &str = "https://issuer.example";
const NOW: u64 = 1_800_000_000;

/// A key pair of the issuer, or of an attacker.
pub(super) struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    kid: &'static str,
}

fn ed25519() -> Signer {
    let pem = include_bytes!("../../../tests/keys/ed25519.pem");
    Signer { key: EncodingKey::from_ed_pem(pem).unwrap(), algorithm: Algorithm::EdDSA, kid: "ed" }
}

fn ed25519_other() -> Signer {
    let pem = include_bytes!("../../../tests/keys/ed25519_other.pem");
    Signer { key: EncodingKey::from_ed_pem(pem).unwrap(), algorithm: Algorithm::EdDSA, kid: "ed" }
}

fn p256() -> Signer {
    let pem = include_bytes!("../../../tests/keys/p256.pem");
    Signer { key: EncodingKey::from_ec_pem(pem).unwrap(), algorithm: Algorithm::ES256, kid: "ec" }
}

fn rsa() -> Signer {
    let pem = include_bytes!("../../../tests/keys/rsa.pem");
    Signer { key: EncodingKey::from_rsa_pem(pem).unwrap(), algorithm: Algorithm::RS256, kid: "rsa" }
}

fn rsa_short() -> Signer {
    let pem = include_bytes!("../../../tests/keys/rsa_short.pem");
    Signer { key: EncodingKey::from_rsa_pem(pem).unwrap(), algorithm: Algorithm::RS256, kid: "old" }
}

impl Signer {
    /// Returns the public key in the form in which an issuer publishes it.
    fn public(&self) -> Value {
        let mut jwk =
            serde_json::to_value(Jwk::from_encoding_key(&self.key, self.algorithm).unwrap())
                .unwrap();
        jwk["kid"] = self.kid.into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// Signs a header and claims exactly as they are given.
    fn sign_text(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", b64(header), b64(claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.key, self.algorithm);
        format!("{message}.{}", signature.unwrap())
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        self.sign_text(&header.to_string(), &claims.to_string())
    }

    fn header(&self) -> Value {
        json!({"typ": "at+jwt", "alg": format!("{:?}", self.algorithm), "kid": self.kid})
    }
}

fn b64(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

fn jwks(keys: &[Value]) -> JwkSet {
    JwkSet::parse(json!({"keys": keys}).to_string()).unwrap()
}

fn server() -> ResourceServer {
    let keys = jwks(&[ed25519().public(), p256().public()]);
    ResourceServer::new(RESOURCE, ISSUER).unwrap().keys(keys)
}

/// Returns the claims of a valid token.
fn good() -> Value {
    json!({
        "iss": ISSUER, "aud": RESOURCE, "sub": "user-1", "client_id": "host", "scope": "tools files",
        "iat": NOW, "exp": NOW + 300,
    })
}

/// Returns valid claims with one member replaced; `null` removes the member.
fn but(name: &str, value: Value) -> Value {
    let mut claims = good();
    let members = claims.as_object_mut().unwrap();
    members.remove(name);
    if !value.is_null() {
        members.insert(name.to_owned(), value);
    }
    claims
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

async fn verify(server: &ResourceServer, token: &str) -> Result<Authenticated, AuthRefused> {
    server.check(token, now()).await
}

async fn claims(claims: Value) -> Result<Authenticated, AuthRefused> {
    verify(&server(), &ed25519().sign(&ed25519().header(), &claims)).await
}

async fn header(header: Value) -> Result<Authenticated, AuthRefused> {
    verify(&server(), &ed25519().sign(&header, &good())).await
}

#[track_caller]
fn refused(outcome: &Result<Authenticated, AuthRefused>) {
    assert!(matches!(outcome, Err(AuthRefused::Invalid(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_good_token_names_its_holder() {
    let caller = claims(good()).await.unwrap();
    assert_eq!(*caller.principal(), Principal::new(ISSUER, "user-1").agent("host"));
    assert_eq!(caller.permissions(), ["tools", "files"]);
    assert_eq!(caller.expires(), Some(now() + Duration::from_mins(5 + 1)));
    let token = p256().sign(&p256().header(), &good());
    assert!(verify(&server(), &token).await.is_ok());
}

#[tokio::test]
async fn a_token_signed_with_rsa_is_good() {
    let server = server().keys(jwks(&[rsa().public()]));
    let token = rsa().sign(&rsa().header(), &good());
    assert!(verify(&server, &token).await.is_ok());
    // A key can be used with several algorithms of its family, but only with allowed algorithms.
    let strict = server.clone().algorithms([SignatureAlgorithm::Ps256]);
    refused(&verify(&strict, &token).await);
    let header = json!({"alg": "PS256", "kid": "rsa"});
    refused(&verify(&server, &rsa().sign(&header, &good())).await);
}

#[tokio::test]
async fn a_public_key_is_not_accepted_as_a_secret() {
    let pem = include_bytes!("../../../tests/keys/rsa_public.pem");
    let public = rsa().public();
    let modulus = URL_SAFE_NO_PAD.decode(public["n"].as_str().unwrap()).unwrap();
    let server = server()
        .keys(jwks(std::slice::from_ref(&public)))
        .algorithms([SignatureAlgorithm::Rs256, SignatureAlgorithm::Ps256]);
    for secret in
        [pem.to_vec(), pem.trim_ascii().to_vec(), modulus, public.to_string().into_bytes()]
    {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let forged = Signer { key: EncodingKey::from_secret(&secret), algorithm, kid: "rsa" };
            refused(&verify(&server, &forged.sign(&forged.header(), &good())).await);
            // The header names the issuer's algorithm, although the signature was created with another algorithm.
            let header = json!({"alg": "RS256", "kid": "rsa"});
            refused(&verify(&server, &forged.sign(&header, &good())).await);
        }
    }
}

#[tokio::test]
async fn an_unsigned_token_is_refused() {
    let token = ed25519().sign(&ed25519().header(), &good());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let payload = message.split_once('.').unwrap().1;
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let head = b64(json!({"alg": name, "kid": "ed"}).to_string());
        for end in ["", "x", signature] {
            refused(&verify(&server(), &format!("{head}.{payload}.{end}")).await);
        }
    }
    refused(&header(json!({"kid": "ed"})).await);
    refused(&header(json!({"alg": null, "kid": "ed"})).await);
    refused(&header(json!({"alg": ["EdDSA"], "kid": "ed"})).await);
}

#[tokio::test]
async fn the_key_must_fit_the_algorithm_and_the_id() {
    refused(&header(json!({"alg": "ES256", "kid": "ed"})).await);
    refused(&header(json!({"alg": "EdDSA", "kid": "ec"})).await);
    refused(&header(json!({"alg": "eddsa", "kid": "ed"})).await);
    for kid in
        ["", "nobody", "../../../dev/null", "ed\0", "' OR 1=1 --", "ED", "https://evil.example/k"]
    {
        refused(&header(json!({"alg": "EdDSA", "kid": kid})).await);
    }
    refused(&header(json!({"alg": "EdDSA", "kid": "k".repeat(300)})).await);
    refused(&header(json!({"alg": "EdDSA", "kid": 1})).await);
    assert!(header(json!({"alg": "Ed25519", "kid": "ed"})).await.is_ok());
    refused(&verify(&server(), &ed25519_other().sign(&ed25519().header(), &good())).await);
}

#[tokio::test]
async fn the_refusal_of_a_signature_names_its_flaw() {
    let why = |outcome: Result<Authenticated, AuthRefused>| outcome.unwrap_err().to_string();
    let other = ed25519_other().sign(&ed25519().header(), &good());
    for (outcome, expected) in [
        (header(json!({"alg": "RS512", "kid": "ed"})).await, "algorithm of the token's signature"),
        (header(json!({"alg": "EdDSA", "kid": "new"})).await, "no known key of the issuer"),
        (verify(&server(), &other).await, "not signed by the key it names"),
    ] {
        let why = why(outcome);
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test]
async fn a_header_cannot_contain_keys_or_conditions() {
    let own = ed25519_other().public();
    let with = |name: &str, value: Value| {
        let mut header = ed25519().header();
        header[name] = value;
        header
    };
    for (name, value) in [
        ("jwk", own.clone()),
        ("crit", json!(["exp"])),
        ("crit", json!([])),
        ("b64", json!(false)),
        ("zip", json!("DEF")),
        ("enc", json!("A256GCM")),
    ] {
        refused(&header(with(name, value)).await);
    }
    // Members with a key's location are ignored: the token is checked with the issuer's own key.
    for name in ["jku", "x5u"] {
        let evil = with(name, json!("https://evil.example/jwks.json"));
        assert!(header(evil.clone()).await.is_ok());
        refused(&verify(&server(), &ed25519_other().sign(&evil, &good())).await);
    }
}

#[tokio::test]
async fn only_access_tokens_are_accepted() {
    for kind in ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt"] {
        assert!(header(json!({"alg": "EdDSA", "kid": "ed", "typ": kind})).await.is_ok(), "{kind}");
    }
    assert!(header(json!({"alg": "EdDSA", "kid": "ed"})).await.is_ok());
    for kind in ["dpop+jwt", "logout+jwt", "secevent+jwt", "id+jwt", ""] {
        refused(&header(json!({"alg": "EdDSA", "kid": "ed", "typ": kind})).await);
    }
}

#[tokio::test]
async fn the_audience_must_hold_this_resource() {
    for audience in [json!(RESOURCE), json!([RESOURCE]), json!(["https://other.example", RESOURCE])]
    {
        assert!(claims(but("aud", audience)).await.is_ok());
    }
    for audience in [
        Value::Null,
        json!("https://other.example/mcp"),
        json!("https://mcp.example/mcp/"),
        json!("https://mcp.example"),
        json!("https://mcp.example/mcp2"),
        json!("HTTPS://MCP.EXAMPLE/mcp"),
        json!("https://mcp.example/mcp "),
        json!(""),
        json!([]),
        json!([[RESOURCE]]),
        json!([RESOURCE, 1]),
        json!({"0": RESOURCE}),
        json!("*"),
    ] {
        refused(&claims(but("aud", audience)).await);
    }
    let named = server().audience("api://mcp");
    let token = ed25519().sign(&ed25519().header(), &but("aud", json!("api://mcp")));
    assert!(verify(&named, &token).await.is_ok());
}

#[tokio::test]
async fn the_issuer_must_be_the_configured_one() {
    for issuer in [
        Value::Null,
        json!("https://issuer.example/"),
        json!("https://evil.example"),
        json!("HTTPS://issuer.example"),
        json!([ISSUER]),
        json!(""),
    ] {
        refused(&claims(but("iss", issuer)).await);
    }
}

#[tokio::test]
async fn times_are_checked_with_a_minute_of_leeway() {
    assert!(claims(but("exp", json!(NOW - 59))).await.is_ok());
    assert!(claims(but("exp", json!(1_800_000_000.5))).await.is_ok());
    assert!(claims(but("nbf", json!(NOW + 60))).await.is_ok());
    assert!(claims(but("iat", json!(NOW + 60))).await.is_ok());
    assert!(claims(but("iat", Value::Null)).await.is_ok());
    for expired in [json!(NOW - 60), json!(NOW - 100_000), json!(0)] {
        assert_eq!(claims(but("exp", expired)).await, Err(AuthRefused::Expired));
    }
    for (name, value) in [
        ("exp", Value::Null),
        ("exp", json!("2030")),
        ("exp", json!((NOW + 300).to_string())),
        ("exp", json!(-1)),
        ("exp", json!(1e300)),
        ("exp", json!([NOW + 300])),
        ("nbf", json!(NOW + 61)),
        ("nbf", json!("x")),
        ("iat", json!(NOW + 61)),
        ("iat", json!(-5)),
    ] {
        refused(&claims(but(name, value)).await);
    }
}

#[tokio::test]
async fn a_token_that_is_accepted_in_the_leeway_has_not_expired() {
    let caller = claims(but("exp", json!(NOW - 30))).await.unwrap();
    assert!(!caller.has_expired(now()));
    assert!(!caller.has_expired(now() + Duration::from_secs(29)));
    assert!(caller.has_expired(now() + Duration::from_secs(30)));
}

#[tokio::test]
async fn the_grant_of_a_token_that_is_accepted_in_the_leeway_is_valid() {
    let expired = SystemTime::now() - Duration::from_secs(30);
    let expired = expired.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = but("exp", json!(expired));
    claims["iat"] = json!(expired);
    let token = ed25519().sign(&ed25519().header(), &claims);
    let (_, grant) = AuthLayer::new().tokens(server()).check(&token).await.unwrap();
    assert!(grant.is_valid());
}

#[tokio::test]
async fn a_token_needs_a_subject_and_must_not_be_bound_to_a_key() {
    refused(&claims(but("sub", Value::Null)).await);
    refused(&claims(but("sub", json!(""))).await);
    refused(&claims(but("sub", json!(7))).await);
    refused(&claims(but("sub", json!("a\nb"))).await);
    refused(&claims(but("cnf", json!({"jkt": "x"}))).await);
}

#[tokio::test]
async fn scopes_are_read_in_each_form() {
    let scopes = async |name: &str, value: Value| {
        let mut claims = but("scope", Value::Null);
        claims[name] = value;
        let token = ed25519().sign(&ed25519().header(), &claims);
        verify(&server(), &token).await.map(|caller| caller.permissions().to_vec())
    };
    assert_eq!(scopes("scope", json!("a  b")).await.unwrap(), ["a", "b"]);
    assert_eq!(scopes("scp", json!("a b")).await.unwrap(), ["a", "b"]);
    assert_eq!(scopes("scp", json!(["a", "b"])).await.unwrap(), ["a", "b"]);
    assert!(scopes("other", json!("a")).await.unwrap().is_empty());
    assert!(scopes("scope", json!({"a": true})).await.is_err());
}

#[tokio::test]
async fn a_claim_that_is_null_counts_as_missing() {
    let mut with_nulls = but("scp", json!(["files"]));
    for name in ["nbf", "iat", "scope", "client_id", "azp", "cnf"] {
        with_nulls[name] = Value::Null;
    }
    let caller = claims(with_nulls).await.unwrap();
    assert_eq!(caller.permissions(), ["files"]);
    assert!(caller.principal().as_agent().is_none());
    for name in ["iss", "aud", "sub", "exp"] {
        let mut lacking = good();
        lacking[name] = Value::Null;
        refused(&claims(lacking).await);
    }
    let mut typed = ed25519().header();
    typed["typ"] = Value::Null;
    assert!(header(typed).await.is_ok());
    refused(&header(json!({"alg": "EdDSA", "kid": "ed", "crit": null})).await);
}

#[tokio::test]
async fn a_subject_or_client_that_is_not_a_name_is_refused_with_that_reason() {
    for (name, value) in [("sub", json!(7)), ("sub", json!("a\nb")), ("client_id", json!(""))] {
        let error = claims(but(name, value)).await.unwrap_err();
        assert!(error.to_string().contains("is not a text, is empty"), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_missing_scope_is_named() {
    let server = server().require_scope("tools").require_scope("admin").operator_scope("admin");
    let token = |scope: &str| ed25519().sign(&ed25519().header(), &but("scope", json!(scope)));
    let needed = "tools admin".to_owned();
    for lacking in ["tools", "toolsadmin", "tools adminx", "Tools Admin", ""] {
        let outcome = verify(&server, &token(lacking)).await;
        assert_eq!(outcome, Err(AuthRefused::InsufficientScope { needed: needed.clone() }));
    }
    let caller = verify(&server, &token("x admin tools")).await.unwrap();
    assert_eq!(caller.principal().authority(), mgp_types::service::Authority::TenantOperator);
}

#[tokio::test]
async fn the_tenant_is_the_issuer_unless_configured() {
    let token = ed25519().sign(&ed25519().header(), &but("org", json!("acme")));
    let tenant = async |server: ResourceServer| {
        verify(&server, &token).await.map(|caller| caller.principal().tenant().to_string())
    };
    assert_eq!(tenant(server()).await.unwrap(), ISSUER);
    assert_eq!(tenant(server().tenant("house")).await.unwrap(), "house");
    assert_eq!(tenant(server().tenant_claim("org")).await.unwrap(), "acme");
    assert!(tenant(server().tenant_claim("other")).await.is_err());
}

#[tokio::test]
async fn a_claim_cannot_name_the_local_tenant() {
    let token = ed25519().sign(&ed25519().header(), &but("org", json!("local")));
    let refusal = verify(&server().tenant_claim("org"), &token).await.unwrap_err();
    assert_eq!(refusal.status(), http::StatusCode::UNAUTHORIZED);
    assert!(refusal.to_string().contains("`local`"), "{refusal}");
    verify(&server().tenant("local"), &token).await.unwrap();
}

#[tokio::test]
async fn the_agent_is_the_client_unless_a_claim_is_configured() {
    let token = ed25519().sign(&ed25519().header(), &but("agent", json!("nightly")));
    let agent = async |server: ResourceServer| {
        let caller = verify(&server, &token).await;
        caller.map(|caller| caller.principal().as_agent().map(ToString::to_string))
    };
    assert_eq!(agent(server()).await.unwrap().unwrap(), "host");
    assert_eq!(agent(server().agent_claim("agent")).await.unwrap().unwrap(), "nightly");
    assert!(agent(server().agent_claim("other")).await.is_err());
}

#[tokio::test]
async fn no_agent_has_a_name_that_entries_use_for_several() {
    for name in ["*", "group:admins", "group:"] {
        refused(&claims(but("client_id", json!(name))).await);
        assert!(claims(but("sub", json!(name))).await.is_ok(), "its agent has another name");
        let mut alone = but("client_id", Value::Null);
        alone["sub"] = json!(name);
        refused(&claims(alone).await);
    }
}

#[tokio::test]
async fn a_duplicate_member_is_refused() {
    let signer = ed25519();
    let (header, claims) = (signer.header().to_string(), good().to_string());
    let twice = |text: &str, member: &str| format!("{{{member},{}", &text[1..]);
    for (header, claims) in [
        (twice(&header, r#""alg":"EdDSA""#), claims.clone()),
        (twice(&header, r#""kid":"ed""#), claims.clone()),
        (header.clone(), twice(&claims, r#""aud":"https://mcp.example/mcp""#)),
        (header.clone(), twice(&claims, r#""exp":9999999999"#)),
        (header.clone(), twice(&claims, r#""s\u0075b":"admin""#)),
        (header.clone(), "[]".to_owned()),
        (header.clone(), format!("{claims} x")),
        (format!("{header}{header}"), claims.clone()),
    ] {
        refused(&verify(&server(), &signer.sign_text(&header, &claims)).await);
    }
    assert!(verify(&server(), &signer.sign_text(&header, &claims)).await.is_ok());
}

#[tokio::test]
async fn the_claims_of_a_cached_token_are_checked_again() {
    let server = server();
    let token = ed25519().sign(&ed25519().header(), &good());
    assert!(verify(&server, &token).await.is_ok());
    assert!(verify(&server, &token).await.is_ok());
    let later = now() + Duration::from_hours(1);
    assert_eq!(server.check(&token, later).await, Err(AuthRefused::Expired));
    let stricter = server.clone().require_scope("admin");
    let outcome = verify(&stricter, &token).await;
    assert!(matches!(outcome, Err(AuthRefused::InsufficientScope { .. })));
    refused(&verify(&server.clone().algorithms([SignatureAlgorithm::Es256]), &token).await);
    refused(&verify(&server.clone().keys(jwks(&[p256().public()])), &token).await);
    // The same claims with a different signature are a different token for the cache.
    let forged = ed25519_other().sign(&ed25519().header(), &good());
    refused(&verify(&server, &forged).await);
}

#[tokio::test]
async fn a_token_that_is_not_a_signed_jwt_is_refused_with_that_reason() {
    let header = json!({"typ": "at+jwt", "alg": "HS256"});
    for token in ["opaque", "a.b.c.d.e", ed25519().sign(&header, &good()).as_str()] {
        let refusal = verify(&server(), token).await.unwrap_err();
        assert!(refusal.to_string().contains("a JWT that is signed with RSA"), "{refusal}");
    }
}

#[tokio::test]
async fn an_incomplete_token_is_refused() {
    let token = ed25519().sign(&ed25519().header(), &good());
    for end in 0..token.len() {
        refused(&verify(&server(), &token[..end]).await);
    }
    let parts: Vec<&str> = token.split('.').collect();
    for broken in [
        format!("{token}."),
        format!(".{token}"),
        format!("{token}.x"),
        format!("{token}="),
        format!(" {token}"),
        format!("{token}\n"),
        token.replace('.', ".."),
        format!("{}.{}", parts[0], parts[2]),
        format!("{}..{}", parts[0], parts[2]),
        format!("{}.{}.{}", parts[0], parts[1], parts[1]),
        format!("{}.{}.{}", parts[1], parts[0], parts[2]),
        "a".repeat(1 << 20),
        format!("{token}{}", "a".repeat(16 * 1024)),
        format!("{}.{}.{}", "{".repeat(4000), parts[1], parts[2]),
    ] {
        refused(&verify(&server(), &broken).await);
    }
}

#[tokio::test]
async fn a_signed_token_that_is_huge_is_refused() {
    let token = ed25519().sign(&ed25519().header(), &but("padding", json!("x".repeat(20_000))));
    refused(&verify(&server(), &token).await);
}

#[tokio::test]
async fn a_server_without_keys_accepts_no_token() {
    let server = ResourceServer::new(RESOURCE, ISSUER).unwrap();
    refused(&verify(&server, &ed25519().sign(&ed25519().header(), &good())).await);
}

// === Generated input ===

proptest! {
    #[test]
    fn any_token_text_is_parsed_or_refused(text in "[a-zA-Z0-9._-]{0,200}") {
        let _ = Jws::parse(&text).is_some();
    }

    #[test]
    fn any_header_and_claims_are_read_or_refused(header in ".{0,80}", claims in ".{0,120}", end in "[a-zA-Z0-9]{1,9}") {
        let token = format!("{}.{}.{end}", b64(&header), b64(&claims));
        if let Some(token) = Jws::parse(&token) {
            prop_assert!(!token.payload.contains('.'));
        }
        if let Ok(read) = Claims::parse(&b64(&claims)) {
            let _ = (read.is_for(&[]), read.scopes(), read.expires(now(), Duration::ZERO), read.text("sub"));
        }
    }

    #[test]
    fn any_document_is_parsed_or_refused(text in r#"\{"keys":\[(\{("(kty|crv|x|y|n|e|alg)":"(RSA|EC|OKP|P-256|Ed25519|AQAB|[a-zA-Z0-9_-]{0,50})",?){0,5}\},?){0,3}\]\}"#) {
        let _ = JwkSet::parse(&text).is_ok();
    }

    #[test]
    fn a_token_with_a_changed_letter_is_refused(at in 0usize..400, letter in "[a-zA-Z0-9_-]") {
        let token = ed25519().sign(&ed25519().header(), &good());
        let at = at % token.len();
        let mut changed = token.clone();
        changed.replace_range(at..=at, &letter);
        let outcome = tokio::runtime::Builder::new_current_thread().build().unwrap()
            .block_on(verify(&server(), &changed));
        prop_assert_eq!(outcome.is_ok(), changed == token);
    }
}

/// Returns the document of a key set, as the issuers of the tests in `fetching` publish it.
fn shared(keys: &[Value]) -> Arc<Vec<u8>> {
    Arc::new(json!({"keys": keys}).to_string().into_bytes())
}
