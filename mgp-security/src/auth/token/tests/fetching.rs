//! Tests of fetched keys: when and how often they are fetched, and which keys are used while fetching fails.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use mgp_types::service::{Fetch, FetchError, FetchRequest, FetchResponse};
use tokio::time::{advance, sleep};

use super::*;

/// An issuer that publishes what the test sets, and counts the requests.
#[derive(Default)]
struct Issuer {
    document: Mutex<Option<Arc<Vec<u8>>>>,
    asked: AtomicUsize,
    delay: Duration,
}

impl Issuer {
    fn new(keys: &[Value]) -> Arc<Self> {
        Self::slow(keys, Duration::ZERO)
    }

    fn slow(keys: &[Value], delay: Duration) -> Arc<Self> {
        Arc::new(Self { document: Mutex::new(Some(shared(keys))), delay, ..Self::default() })
    }

    fn publish(&self, keys: Option<&[Value]>) {
        *self.document.lock().unwrap() = keys.map(shared);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Fetch for Issuer {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        assert_eq!(request.url, "https://issuer.example/jwks.json");
        self.asked.fetch_add(1, Ordering::SeqCst);
        sleep(self.delay).await;
        let document = self.document.lock().unwrap().clone();
        Ok(document
            .map_or(FetchResponse::new(500, ""), |text| FetchResponse::new(200, text.to_vec())))
    }
}

fn remote(issuer: &Arc<Issuer>) -> ResourceServer {
    let fetcher: Arc<dyn Fetch> = Arc::<Issuer>::clone(issuer);
    server().keys_from("https://issuer.example/jwks.json", fetcher)
}

fn token(signer: &Signer) -> String {
    signer.sign(&signer.header(), &good())
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_once_and_cached() {
    let issuer = Issuer::new(&[ed25519().public()]);
    let server = remote(&issuer);
    assert_eq!(issuer.asked(), 0);
    for _ in 0..5 {
        assert!(verify(&server, &token(&ed25519())).await.is_ok());
    }
    assert_eq!(issuer.asked(), 1);
    advance(Duration::from_mins(10)).await;
    assert!(verify(&server, &token(&ed25519())).await.is_ok());
    assert_eq!(issuer.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_causes_one_fetch_a_minute() {
    let issuer = Issuer::new(&[ed25519().public()]);
    let server = remote(&issuer);
    assert!(verify(&server, &token(&ed25519())).await.is_ok());
    advance(Duration::from_mins(1)).await;
    for _ in 0..20 {
        refused(&verify(&server, &token(&p256())).await);
    }
    assert_eq!(issuer.asked(), 2);
    issuer.publish(Some(&[ed25519().public(), p256().public()]));
    refused(&verify(&server, &token(&p256())).await);
    advance(Duration::from_mins(1)).await;
    assert!(verify(&server, &token(&p256())).await.is_ok());
    assert_eq!(issuer.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_new_key_without_a_key_id_is_fetched() {
    let nameless = |signer: Signer| {
        let mut key = signer.public();
        key["kid"] = Value::Null;
        key
    };
    let issuer = Issuer::new(&[nameless(ed25519_other())]);
    let server = remote(&issuer);
    let token = ed25519().sign(&json!({"alg": "EdDSA"}), &good());
    refused(&verify(&server, &token).await);
    issuer.publish(Some(&[nameless(ed25519())]));
    advance(Duration::from_mins(1)).await;
    assert!(verify(&server, &token).await.is_ok());
    assert_eq!(issuer.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_withdrawn_ends_with_the_next_fetch() {
    let issuer = Issuer::new(&[ed25519().public(), p256().public()]);
    let server = remote(&issuer);
    assert!(verify(&server, &token(&p256())).await.is_ok());
    issuer.publish(Some(&[ed25519().public()]));
    advance(Duration::from_mins(10)).await;
    refused(&verify(&server, &token(&p256())).await);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_cause_one_fetch() {
    let issuer = Issuer::slow(&[ed25519().public()], Duration::from_secs(2));
    let server = remote(&issuer);
    let token = token(&ed25519());
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (server, token) = (server.clone(), token.clone());
        waiting.spawn(async move { verify(&server, &token).await });
    }
    assert!(waiting.join_all().await.iter().all(Result::is_ok));
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_outlive_their_issuer_for_a_day() {
    let issuer = Issuer::new(&[ed25519().public()]);
    let server = remote(&issuer);
    assert!(verify(&server, &token(&ed25519())).await.is_ok());
    for broken in [None, Some(&[][..])] {
        issuer.publish(broken);
        advance(Duration::from_hours(11)).await;
        assert!(verify(&server, &token(&ed25519())).await.is_ok());
    }
    assert_eq!(issuer.asked(), 3);
    advance(Duration::from_hours(3)).await;
    let outcome = verify(&server, &token(&ed25519())).await;
    assert_eq!(outcome, Err(AuthRefused::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_starts_late_is_queried_again_soon() {
    let issuer = Issuer::new(&[]);
    issuer.publish(None);
    let server = remote(&issuer);
    for _ in 0..10 {
        let outcome = verify(&server, &token(&ed25519())).await;
        assert_eq!(outcome, Err(AuthRefused::Unavailable));
    }
    assert_eq!(issuer.asked(), 1);
    issuer.publish(Some(&[ed25519().public()]));
    advance(Duration::from_secs(5)).await;
    assert!(verify(&server, &token(&ed25519())).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_fetch_from_an_issuer_that_hangs_times_out() {
    let issuer = Issuer::slow(&[ed25519().public()], Duration::from_hours(1));
    let server = remote(&issuer);
    let outcome = verify(&server, &token(&ed25519())).await;
    assert_eq!(outcome, Err(AuthRefused::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_an_issuer_that_hangs_end_with_the_first_fetch() {
    let issuer = Issuer::slow(&[ed25519().public()], Duration::from_hours(1));
    let server = remote(&issuer);
    let token = token(&ed25519());
    let start = tokio::time::Instant::now();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (server, token) = (server.clone(), token.clone());
        waiting.spawn(async move { verify(&server, &token).await });
    }
    let outcomes = waiting.join_all().await;
    assert!(outcomes.iter().all(|outcome| *outcome == Err(AuthRefused::Unavailable)));
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_delay_the_fetch_of_a_new_key() {
    let issuer = Issuer::slow(&[ed25519().public()], Duration::from_secs(8));
    let server = remote(&issuer);
    assert!(verify(&server, &token(&ed25519())).await.is_ok());
    issuer.publish(Some(&[p256().public()]));
    // A minute after the begin of the first fetch, which is less than a minute after its end.
    advance(Duration::from_secs(55)).await;
    assert!(verify(&server, &token(&p256())).await.is_ok());
    assert_eq!(issuer.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_disconnects_does_not_stop_the_fetch() {
    let issuer = Issuer::slow(&[ed25519().public()], Duration::from_secs(2));
    let server = remote(&issuer);
    let text = token(&ed25519());
    tokio::select! {
        biased;
        _ = verify(&server, &text) => panic!("the fetch takes two seconds"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    assert!(verify(&server, &text).await.is_ok());
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn old_keys_are_used_while_new_ones_are_fetched() {
    let issuer = Issuer::slow(&[ed25519().public()], Duration::from_secs(2));
    let server = remote(&issuer);
    let text = token(&ed25519());
    assert!(verify(&server, &text).await.is_ok());
    advance(Duration::from_mins(10)).await;
    let mut first = Box::pin(verify(&server, &text));
    tokio::select! {
        biased;
        _ = &mut first => panic!("the fetch takes two seconds"),
        () = sleep(Duration::from_secs(1)) => {}
    }
    let start = tokio::time::Instant::now();
    assert!(verify(&server, &text).await.is_ok());
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(first.await.is_ok());
}

/// An issuer that serves its metadata at one of the URLs of RFC 8414 and `OpenID` Connect Discovery.
struct Documented {
    place: &'static str,
    issuer: &'static str,
    keys: &'static str,
}

const KEYS: &str = "https://keys.example/all";

#[async_trait]
impl Fetch for Documented {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let metadata = json!({"issuer": self.issuer, "jwks_uri": self.keys});
        Ok(match request.url.as_str() {
            url if url == self.place => FetchResponse::new(200, metadata.to_string()),
            url if url == self.keys => {
                FetchResponse::new(200, shared(&[ed25519().public()]).to_vec())
            }
            _ => FetchResponse::new(404, ""),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_metadata_of_the_issuer_names_the_keys() {
    for (place, issuer, is_used) in [
        ("https://issuer.example/.well-known/oauth-authorization-server", ISSUER, true),
        ("https://issuer.example/.well-known/openid-configuration", ISSUER, true),
        ("https://issuer.example/.well-known/openid-configuration", "https://other.example", false),
        ("https://issuer.example/jwks.json", ISSUER, false),
    ] {
        let server = server().keys_from_issuer(Arc::new(Documented { place, issuer, keys: KEYS }));
        let outcome = verify(&server, &token(&ed25519())).await;
        assert_eq!(outcome.is_ok(), is_used, "{place}: {outcome:?}");
        if !is_used {
            assert!(matches!(outcome, Err(AuthRefused::Unavailable)), "{outcome:?}");
        }
    }
    let below = super::super::source::metadata_urls("https://issuer.example/realms/a/");
    assert_eq!(below[0], "https://issuer.example/.well-known/oauth-authorization-server/realms/a");
    assert_eq!(below[1], "https://issuer.example/realms/a/.well-known/openid-configuration");
}

#[tokio::test(start_paused = true)]
async fn an_issuer_at_https_cannot_name_keys_that_cross_the_network_unencrypted() {
    let (place, issuer) = ("https://issuer.example/.well-known/openid-configuration", ISSUER);
    for (keys, is_used) in
        [("HTTPS://issuer.example/keys", true), ("http://issuer.example/keys", false)]
    {
        let server = server().keys_from_issuer(Arc::new(Documented { place, issuer, keys }));
        let outcome = verify(&server, &token(&ed25519())).await;
        assert_eq!(outcome.is_ok(), is_used, "{keys}: {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_of_another_issuer_is_logged_with_the_name_of_that_issuer() {
    let log = mgp_testkit::RecordedLog::of(tracing::Level::ERROR);
    let _guard = tracing::subscriber::set_default(log.clone());
    let place = "https://issuer.example/.well-known/openid-configuration";
    let issuer = "https://issuer.example/";
    let server = server().keys_from_issuer(Arc::new(Documented { place, issuer, keys: KEYS }));
    assert!(verify(&server, &token(&ed25519())).await.is_err());
    let lines = log.lines().join("\n");
    assert!(lines.contains("names the issuer `https://issuer.example/`"), "{lines}");
}

/// Servers that publish the keys of the issuer at every URL but one, which redirects.
struct Redirecting {
    target: &'static str,
}

#[async_trait]
impl Fetch for Redirecting {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        if request.url != "https://issuer.example/jwks.json" {
            return Ok(FetchResponse::new(200, shared(&[ed25519().public()]).to_vec()));
        }
        let mut answer = FetchResponse::new(302, "");
        answer.headers.push(("location".to_owned(), self.target.to_owned()));
        Ok(answer)
    }
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_within_the_origin_of_the_issuer_only() {
    for (target, is_followed) in [
        ("/moved", true),
        ("https://issuer.example/moved", true),
        ("https://ISSUER.example/moved", true),
        ("https://other.example/moved", false),
        ("http://issuer.example/moved", false),
        ("https://issuer.example.evil.example/moved", false),
        ("https://issuer.example@evil.example/moved", false),
        ("https://issuer.example:8443/moved", false),
        ("//other.example/moved", false),
        ("/\\other.example/moved", false),
        ("moved", false),
        ("/jwks.json", false),
    ] {
        let url = "https://issuer.example/jwks.json";
        let server = server().keys_from(url, Arc::new(Redirecting { target }));
        let outcome = verify(&server, &token(&ed25519())).await;
        assert_eq!(outcome.is_ok(), is_followed, "{target}: {outcome:?}");
    }
}
