//! Tests of several processes that share the tokens of one person. Two clients that share only the store play the
//! processes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mgp_client_sdk::auth::{
    FileTokens, MemoryTokens, OAuth, RenewalLock, TokenEntry, TokenStore, TokenStoreError,
};
use mgp_transport::http::{CredentialRefusal, Credentials as _};
use mgp_types::ErrorCode;
use serde_json::json;

use crate::world::{ONE, SERVER, World};

/// Returns a client that has logged in and got a token that expired immediately.
async fn ended(world: &Arc<World>, store: impl TokenStore) -> OAuth {
    world.set(|s| (s.refreshes, s.expires_in) = (true, Some(0)));
    let oauth = world.oauth().store(store);
    oauth.handle_refusal(CredentialRefusal::new(401, vec![], None)).await.unwrap();
    oauth
}

/// Checks the number of used refresh tokens, each of which is valid once.
#[track_caller]
fn check_refreshes(world: &World, expected: usize) {
    let forms = world.tokens();
    let shown: Vec<_> = forms.iter().filter_map(|form| form.get("refresh_token")).collect();
    assert_eq!(shown.len(), expected);
    assert_eq!(shown.iter().collect::<BTreeSet<_>>().len(), expected, "one was shown twice");
    assert_eq!(world.logins().len(), 1, "no second login");
    world.check();
}

#[tokio::test]
async fn a_refresh_token_used_by_another_process_is_not_used_before_expiry() {
    let (world, store) = (World::new(|_| {}), Arc::new(MemoryTokens::new()));
    let one = ended(&world, Arc::clone(&store)).await;
    // Another process renews the token; the new token also expires immediately.
    let other = OAuth::new(SERVER, world.fetcher()).store(Arc::clone(&store));
    other.authorization().await.unwrap();
    other.authorization().await.unwrap();
    let before = world.tokens().len() - 1;
    world.set(|s| s.expires_in = Some(3600));
    assert!(one.authorization().await.unwrap().is_some());
    check_refreshes(&world, before + 1);
    assert!(store.latest(SERVER).await.unwrap().unwrap().tokens.is_some());
}

#[tokio::test]
async fn tokens_renewed_by_another_process_are_used_before_expiry() {
    let (world, store) = (World::new(|_| {}), Arc::new(MemoryTokens::new()));
    let one = ended(&world, Arc::clone(&store)).await;
    world.set(|s| s.expires_in = Some(3600));
    let other = OAuth::new(SERVER, world.fetcher()).store(Arc::clone(&store));
    other.authorization().await.unwrap();
    let shown = other.authorization().await.unwrap();
    assert_eq!(one.authorization().await.unwrap(), shown);
    check_refreshes(&world, 1);
}

/// Two clients renew the same tokens at the same time: first because they have expired, then after a refusal.
async fn renew_at_once<S: TokenStore>(store: impl Fn() -> S) {
    let world = World::new(|_| {});
    let one = ended(&world, store()).await;
    let other = OAuth::new(SERVER, world.fetcher()).store(store());
    world.set(|s| s.expires_in = Some(3600));
    let shown = tokio::join!(one.authorization(), other.authorization());
    let shown = (shown.0.unwrap().unwrap(), shown.1.unwrap().unwrap());
    assert_eq!(shown.0, shown.1);
    check_refreshes(&world, 1);
    world.revoke();
    let refusal = || CredentialRefusal::new(401, vec![], Some(shown.0.clone()));
    let done = tokio::join!(one.handle_refusal(refusal()), other.handle_refusal(refusal()));
    done.0.unwrap();
    done.1.unwrap();
    assert_eq!(one.authorization().await.unwrap(), other.authorization().await.unwrap());
    check_refreshes(&world, 2);
}

#[tokio::test]
async fn two_clients_renewing_at_once_use_a_refresh_token_once() {
    let store = Arc::new(MemoryTokens::new());
    renew_at_once(|| Arc::clone(&store)).await;
}

#[tokio::test]
async fn two_processes_renewing_at_once_use_a_refresh_token_once() {
    let folder = mgp_testkit::temp_dir();
    renew_at_once(|| FileTokens::at(folder.path().join("tokens.json"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_renewal_of_another_process_times_out() {
    let (world, store) = (World::new(|_| {}), Arc::new(MemoryTokens::new()));
    let one = ended(&world, Arc::clone(&store)).await;
    let hangs = store.lock_renewal(SERVER, ONE).await.unwrap();
    let error = one.authorization().await.unwrap_err();
    assert!(error.message().contains("check whether it hangs"), "{error}");
    drop(hangs);
    world.set(|s| s.expires_in = Some(3600));
    assert!(one.authorization().await.unwrap().is_some());
    check_refreshes(&world, 1);
}

/// A store that another process changes, without a lock, after the client has read it.
struct Overtaken {
    tokens: MemoryTokens,
    later: Mutex<Option<TokenEntry>>,
}

#[async_trait]
impl TokenStore for Overtaken {
    async fn load(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<Option<TokenEntry>, TokenStoreError> {
        let found = self.tokens.load(server, issuer).await;
        let later = self.later.lock().unwrap().take();
        if let Some(later) = later {
            self.tokens.save(later).await?;
        }
        found
    }

    async fn latest(&self, server: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
        self.tokens.latest(server).await
    }

    async fn save(&self, entry: TokenEntry) -> Result<(), TokenStoreError> {
        self.tokens.save(entry).await
    }

    async fn lock_renewal(&self, _: &str, _: &str) -> Result<RenewalLock, TokenStoreError> {
        Err(TokenStoreError::Other("there are none".to_owned()))
    }
}

#[tokio::test]
async fn valid_tokens_of_another_process_are_not_removed() {
    let world = World::new(|_| {});
    let store = Arc::new(Overtaken { tokens: MemoryTokens::new(), later: Mutex::default() });
    for lives in [Duration::ZERO, Duration::from_hours(1)] {
        let one = ended(&world, Arc::clone(&store)).await;
        let mut later = store.latest(SERVER).await.unwrap().unwrap();
        let tokens = later.tokens.as_mut().unwrap();
        tokens.access = format!("theirs-{}", lives.as_secs()).into();
        tokens.expires_at = Some(tokens.issued_at + lives.as_secs());
        *store.later.lock().unwrap() = Some(later.clone());
        world.revoke_refresh();
        let shown = one.authorization().await.unwrap();
        assert_eq!(shown.is_some(), !lives.is_zero());
        assert_eq!(store.latest(SERVER).await.unwrap(), Some(later));
    }
}

/// A store in which another process deletes or replaces the entry while the token endpoint answers.
struct ChangedDuringRenewal {
    tokens: MemoryTokens,
    /// The number of reads of the entry until the change, and the entry then; `None` if it is deleted.
    change: Mutex<Option<(u32, Option<TokenEntry>)>>,
    is_deleted: AtomicBool,
}

#[async_trait]
impl TokenStore for ChangedDuringRenewal {
    async fn load(
        &self,
        server: &str,
        issuer: &str,
    ) -> Result<Option<TokenEntry>, TokenStoreError> {
        let mut due = None;
        if let Some((left, entry)) = &mut *self.change.lock().unwrap() {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => due = Some(entry.take()),
            }
        }
        if let Some(entry) = due {
            *self.change.lock().unwrap() = None;
            match entry {
                Some(entry) => self.tokens.save(entry).await?,
                None => self.is_deleted.store(true, Ordering::Relaxed),
            }
        }
        if self.is_deleted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.tokens.load(server, issuer).await
    }

    async fn latest(&self, server: &str) -> Result<Option<TokenEntry>, TokenStoreError> {
        self.tokens.latest(server).await
    }

    async fn save(&self, entry: TokenEntry) -> Result<(), TokenStoreError> {
        self.is_deleted.store(false, Ordering::Relaxed);
        self.tokens.save(entry).await
    }
}

impl ChangedDuringRenewal {
    fn new() -> Arc<Self> {
        let (tokens, change) = (MemoryTokens::new(), Mutex::default());
        Arc::new(Self { tokens, change, is_deleted: AtomicBool::new(false) })
    }

    /// Changes the entry in the store after it was read once more, i.e. before the renewed tokens are stored.
    fn change_in_renewal(&self, to: Option<TokenEntry>) {
        *self.change.lock().unwrap() = Some((1, to));
    }
}

/// Regression test: a renewal that a logout did not wait for stored its tokens again.
#[tokio::test]
async fn a_logout_during_a_renewal_is_not_undone() {
    let (world, store) = (World::new(|_| {}), ChangedDuringRenewal::new());
    let revocation = "https://one.example/revoke";
    world.set(|s| s.server = json!({ "revocation_endpoint": revocation }));
    let one = ended(&world, Arc::clone(&store)).await;
    world.set(|s| s.expires_in = Some(3600));
    store.change_in_renewal(None);
    let error = one.authorization().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AUTH_EXPIRED, "{error}");
    assert!(store.is_deleted.load(Ordering::Relaxed), "nothing was saved after the logout");
    assert_eq!(one.authorization().await.unwrap(), None);
    let revoked = world.log().into_iter().filter(|line| line.ends_with(revocation)).count();
    assert_eq!(revoked, 2, "the renewed tokens");
    check_refreshes(&world, 1);
}

/// Regression test: a renewal replaced the tokens of a login that another process had stored meanwhile.
#[tokio::test]
async fn a_login_during_a_renewal_is_not_replaced() {
    let (world, store) = (World::new(|_| {}), ChangedDuringRenewal::new());
    let one = ended(&world, Arc::clone(&store)).await;
    world.set(|s| s.expires_in = Some(3600));
    let mut login = store.latest(SERVER).await.unwrap().unwrap();
    let tokens = login.tokens.as_mut().unwrap();
    (tokens.access, tokens.expires_at) = ("theirs".into(), None);
    store.change_in_renewal(Some(login.clone()));
    let shown = one.authorization().await.unwrap();
    assert_eq!(shown.as_deref(), Some("Bearer theirs"));
    assert_eq!(store.latest(SERVER).await.unwrap(), Some(login));
}
