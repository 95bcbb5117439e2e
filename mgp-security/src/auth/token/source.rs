//! The source of the issuer's keys: a fixed set, or a URL with a cache (RFC 7517; `OpenID` Connect Core §10.1.1).

use std::sync::Arc;
use std::time::Duration;

use mgp_types::clip;
use mgp_types::service::{FetchRequest, FetchResponse, SharedFetch};
use mgp_types::sync::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};

use super::jwks::{BadJwks, JwkSet};
use crate::auth::refused::AuthRefused;

/// The time for which fetched keys are used without a new fetch.
const FRESH_TTL: Duration = Duration::from_mins(10);
/// The time for which fetched keys are used while fetching them again fails.
const STALE_TTL: Duration = Duration::from_hours(24);
/// The minimum interval between fetches while fetched keys can be used. Without it, any client could cause fetches by
/// sending tokens with unknown keys.
const REFETCH_INTERVAL: Duration = Duration::from_mins(1);
/// The minimum interval between fetches while no keys can be used. It is short, so that a server that started before
/// its issuer recovers soon.
const FIRST_FETCH_INTERVAL: Duration = Duration::from_secs(5);
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of bytes of an issuer's name in the log.
const MAX_LOGGED_BYTES: usize = 200;
/// The maximum number of redirects that are followed for a document.
const MAX_REDIRECTS: usize = 3;

#[derive(Clone, Debug)]
pub(super) enum KeySource {
    Fixed(Arc<JwkSet>),
    Fetched(Arc<FetchedKeys>),
}

/// Keys that are fetched from a URL and cached.
///
/// A fetch runs in a separate task, so a caller that disconnects does not cancel it for the other callers.
pub(super) struct FetchedKeys {
    place: KeysPlace,
    fetcher: SharedFetch,
    cached: Mutex<CachedKeys>,
    /// A lock that a task holds while it fetches the keys of the issuer.
    fetching: Arc<AsyncMutex<()>>,
}

/// The location of an issuer's keys.
#[derive(Debug)]
enum KeysPlace {
    Url(String),
    /// At the URL that the metadata of this issuer contains.
    Issuer(String),
}

/// The members of an issuer's metadata that are used (RFC 8414).
#[derive(serde::Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

#[derive(Default)]
struct CachedKeys {
    set: Option<(Arc<JwkSet>, Instant)>,
    /// The time at which the last fetch began, or ended if it failed.
    tried: Option<Instant>,
}

/// The reason why keys could not be fetched, for the log.
#[derive(Debug, thiserror::Error)]
enum FetchKeysError {
    #[error(transparent)]
    Fetch(#[from] mgp_types::service::FetchError),
    #[error("no answer within {} s", FETCH_TIMEOUT.as_secs())]
    TooSlow,
    #[error("the answer has status {0}")]
    Status(u16),
    #[error("it is redirected too often")]
    TooManyRedirects,
    #[error(
        "it is redirected to another origin, which is not trusted; configure the URL of the keys"
    )]
    ForeignRedirect,
    #[error(transparent)]
    Bad(#[from] BadJwks),
    #[error("none of the keys can be used")]
    Empty,
    #[error("no metadata of the issuer; configure the URL of its keys")]
    NoMetadata,
    #[error("its metadata names the issuer `{0}`; configure that one if you trust it")]
    OtherIssuer(String),
    #[error(
        "its metadata names keys that would cross the network unencrypted; configure their URL if you trust it"
    )]
    NotEncrypted,
}

impl KeySource {
    pub(super) fn fetched(url: impl Into<String>, fetcher: SharedFetch) -> Self {
        Self::at(KeysPlace::Url(url.into()), fetcher)
    }

    /// Creates a source that uses the keys to which an issuer's metadata refers.
    pub(super) fn of_issuer(issuer: impl Into<String>, fetcher: SharedFetch) -> Self {
        Self::at(KeysPlace::Issuer(issuer.into()), fetcher)
    }

    fn at(place: KeysPlace, fetcher: SharedFetch) -> Self {
        let (cached, fetching) = (Mutex::default(), Arc::default());
        Self::Fetched(Arc::new(FetchedKeys { place, fetcher, cached, fetching }))
    }

    pub(super) async fn current(&self) -> Result<Arc<JwkSet>, AuthRefused> {
        match self {
            Self::Fixed(set) => Ok(Arc::clone(set)),
            Self::Fetched(keys) => keys.current().await,
        }
    }

    /// Returns a set of keys that is newer than `known`, or `None` if there is none. Call this if `known` lacks the key
    /// of a token.
    pub(super) async fn newer(&self, known: &Arc<JwkSet>) -> Option<Arc<JwkSet>> {
        match self {
            Self::Fixed(_) => None,
            Self::Fetched(keys) => keys.newer(known).await,
        }
    }
}

impl FetchedKeys {
    async fn current(self: &Arc<Self>) -> Result<Arc<JwkSet>, AuthRefused> {
        if let Some(set) = self.cached.lock().younger_than(FRESH_TTL) {
            return Ok(set);
        }
        let old = self.cached.lock().younger_than(STALE_TTL);
        let turn = match &old {
            // Use the old keys while another task fetches new keys.
            Some(_) => Arc::clone(&self.fetching).try_lock_owned().ok(),
            None => Some(Arc::clone(&self.fetching).lock_owned().await),
        };
        let Some(turn) = turn else { return old.ok_or(AuthRefused::Unavailable) };
        if self.cached.lock().younger_than(FRESH_TTL).is_none() {
            self.fetch(turn).await;
        }
        self.cached.lock().younger_than(STALE_TTL).ok_or(AuthRefused::Unavailable)
    }

    async fn newer(self: &Arc<Self>, known: &Arc<JwkSet>) -> Option<Arc<JwkSet>> {
        let is_newer = |set: &Arc<JwkSet>| !Arc::ptr_eq(set, known);
        let turn = Arc::clone(&self.fetching).lock_owned().await;
        // Another task may have fetched keys while this task waited for the lock, so look at the cached keys again.
        if let Some(set) = self.cached.lock().younger_than(STALE_TTL).filter(is_newer) {
            return Some(set);
        }
        self.fetch(turn).await;
        self.cached.lock().younger_than(STALE_TTL).filter(is_newer)
    }

    /// Fetches keys, unless the last attempt was too recent.
    async fn fetch(self: &Arc<Self>, turn: tokio::sync::OwnedMutexGuard<()>) {
        if !self.cached.lock().may_try() {
            return;
        }
        let this = Arc::clone(self);
        let fetch = tokio::spawn(async move {
            let _turn = turn;
            match this.download().await {
                Ok(set) => this.cached.lock().set = Some((Arc::new(set), Instant::now())),
                Err(error) => {
                    // Callers that waited for this fetch must not fetch again, one after the other.
                    this.cached.lock().tried = Some(Instant::now());
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        url = mgp_types::service::shown_url(this.place.as_str()),
                        "failed to fetch the keys of the issuer"
                    );
                }
            }
        });
        // Ignore a panic of the fetch: it counts as a failed fetch.
        let _ = fetch.await;
    }

    async fn download(&self) -> Result<JwkSet, FetchKeysError> {
        let body = match &self.place {
            KeysPlace::Url(url) => self.get(url).await?,
            KeysPlace::Issuer(issuer) => self.get(&self.keys_url(issuer).await?).await?,
        };
        let set = JwkSet::parse(&body)?;
        if set.is_empty() { Err(FetchKeysError::Empty) } else { Ok(set) }
    }

    /// Reads the URL of the keys from the metadata of the issuer.
    async fn keys_url(&self, issuer: &str) -> Result<String, FetchKeysError> {
        let is_https =
            |url: &str| url.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("https:"));
        let mut reason = FetchKeysError::NoMetadata;
        for url in metadata_urls(issuer) {
            let body = match self.get(&url).await {
                Ok(body) => body,
                Err(error) if error.is_answer() => continue,
                Err(error) => return Err(error),
            };
            match serde_json::from_slice::<IssuerMetadata>(&body) {
                Ok(metadata) if metadata.issuer == issuer => {
                    // RFC 8414 §2 requires `https`, because others could otherwise replace the keys.
                    let is_refused = is_https(issuer) && !is_https(&metadata.jwks_uri);
                    let url = (!is_refused).then_some(metadata.jwks_uri);
                    return url.ok_or(FetchKeysError::NotEncrypted);
                }
                // A document of another issuer must not be used (RFC 8414 §3.3).
                Ok(metadata) => {
                    reason = FetchKeysError::OtherIssuer(clip(&metadata.issuer, MAX_LOGGED_BYTES));
                }
                Err(_) => {}
            }
        }
        Err(reason)
    }

    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchKeysError> {
        timeout(FETCH_TIMEOUT, self.follow(url)).await.map_err(|_| FetchKeysError::TooSlow)?
    }

    /// Fetches a document, and follows redirects within the origin of its URL. The keys decide which tokens are valid,
    /// so a redirect must not let another origin provide them.
    async fn follow(&self, url: &str) -> Result<Vec<u8>, FetchKeysError> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let request = FetchRequest::get(url.as_str()).header("accept", "application/json");
            let answer = self.fetcher.fetch(request).await?;
            if answer.status == 200 {
                return Ok(answer.body);
            }
            let target = redirect_target(&answer).ok_or(FetchKeysError::Status(answer.status))?;
            url = in_origin(&url, target).ok_or(FetchKeysError::ForeignRedirect)?;
        }
        Err(FetchKeysError::TooManyRedirects)
    }
}

impl FetchKeysError {
    /// Returns whether the server answered at all. If so, another URL of the same server may have the document.
    fn is_answer(&self) -> bool {
        matches!(self, Self::Status(_) | Self::TooManyRedirects | Self::ForeignRedirect)
    }
}

/// Returns the target of a redirect, as the response contains it; `None` for any other response.
fn redirect_target(answer: &FetchResponse) -> Option<&str> {
    let is_redirect = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
    answer.header("location").filter(|_| is_redirect)
}

/// Returns the URL of a redirect's target if it has the origin of the redirected URL. The target is a whole URL or an
/// absolute path; other relative targets count as foreign.
fn in_origin(url: &str, target: &str) -> Option<String> {
    let host = url.find("://")? + 3;
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    let origin = &url[..end];
    let path = match target.get(..end).filter(|begin| begin.eq_ignore_ascii_case(origin)) {
        Some(_) => &target[end..],
        None => target,
    };
    // Two slashes begin the name of a host, and some clients take a backslash for a slash. So a target with either of
    // them is not a path.
    let is_path = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    is_path.then(|| format!("{origin}{path}"))
}

impl KeysPlace {
    fn as_str(&self) -> &str {
        match self {
            Self::Url(url) | Self::Issuer(url) => url,
        }
    }
}

/// Returns the URLs at which an issuer can serve its metadata (RFC 8414 §3; `OpenID` Connect Discovery §4).
pub(super) fn metadata_urls(issuer: &str) -> Vec<String> {
    let issuer = issuer.trim_end_matches('/');
    let (origin, path) = issuer
        .find("://")
        .and_then(|scheme| {
            issuer[scheme + 3..].find('/').map(|at| issuer.split_at(scheme + 3 + at))
        })
        .unwrap_or((issuer, ""));
    let mut urls = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{issuer}/.well-known/openid-configuration"),
    ];
    if !path.is_empty() {
        urls.push(format!("{origin}/.well-known/openid-configuration{path}"));
    }
    urls
}

mgp_types::opaque_debug!(FetchedKeys { place });

impl CachedKeys {
    fn younger_than(&self, age: Duration) -> Option<Arc<JwkSet>> {
        let (set, since) = self.set.as_ref()?;
        (since.elapsed() < age).then(|| Arc::clone(set))
    }

    /// Returns whether a fetch can start, i.e. the last attempt was long enough ago. If so, notes the attempt.
    fn may_try(&mut self) -> bool {
        let has_keys = self.younger_than(STALE_TTL).is_some();
        let pause = if has_keys { REFETCH_INTERVAL } else { FIRST_FETCH_INTERVAL };
        if self.tried.is_some_and(|tried| tried.elapsed() < pause) {
            return false;
        }
        self.tried = Some(Instant::now());
        true
    }
}
