//! Several processes with the tokens of one person: two clients that know of each other by the store alone.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::auth::{
    FileTokens, MemoryTokens, OAuth, StoreError, Stored, TokenStore, TokenTurn,
};
use mgp_transport::http::{Credentials as _, Refused};

use crate::world::{ONE, SERVER, World};

/// A person logged in, and the token has ended at once.
async fn ended(world: &Arc<World>, store: impl TokenStore) -> OAuth {
    world.turn(|s| (s.refreshes, s.expires_in) = (true, Some(0)));
    let oauth = world.oauth().store(store);
    oauth.refused(Refused::new(401, vec![], None)).await.unwrap();
    oauth
}

/// The refresh tokens that were shown, each of which is good for one time.
#[track_caller]
fn check_refreshes(world: &World, expected: usize) {
    let forms = world.tokens();
    let shown: Vec<_> = forms.iter().filter_map(|form| form.get("refresh_token")).collect();
    assert_eq!(shown.len(), expected);
    assert_eq!(shown.iter().collect::<BTreeSet<_>>().len(), expected, "one was shown twice");
    assert_eq!(world.logins().len(), 1, "nobody is asked again");
    world.check();
}

#[tokio::test]
async fn a_refresh_token_that_another_process_used_is_not_shown_before_the_end() {
    let (world, store) = (World::new(|_| {}), Arc::new(MemoryTokens::new()));
    let one = ended(&world, Arc::clone(&store)).await;
    // Another process renews the token, which has ended again.
    let other = OAuth::new(SERVER, world.fetcher()).store(Arc::clone(&store));
    other.authorization().await.unwrap();
    other.authorization().await.unwrap();
    let before = world.tokens().len() - 1;
    world.turn(|s| s.expires_in = Some(3600));
    assert!(one.authorization().await.unwrap().is_some());
    check_refreshes(&world, before + 1);
    assert!(store.latest(SERVER).await.unwrap().unwrap().tokens.is_some());
}

#[tokio::test]
async fn what_another_process_renewed_is_taken_before_the_end() {
    let (world, store) = (World::new(|_| {}), Arc::new(MemoryTokens::new()));
    let one = ended(&world, Arc::clone(&store)).await;
    world.turn(|s| s.expires_in = Some(3600));
    let other = OAuth::new(SERVER, world.fetcher()).store(Arc::clone(&store));
    other.authorization().await.unwrap();
    let shown = other.authorization().await.unwrap();
    assert_eq!(one.authorization().await.unwrap(), shown);
    check_refreshes(&world, 1);
}

/// Two clients renew at one time, first before the end and then after a refusal.
async fn renew_at_once<S: TokenStore>(store: impl Fn() -> S) {
    let world = World::new(|_| {});
    let one = ended(&world, store()).await;
    let other = OAuth::new(SERVER, world.fetcher()).store(store());
    world.turn(|s| s.expires_in = Some(3600));
    let shown = tokio::join!(one.authorization(), other.authorization());
    let shown = (shown.0.unwrap().unwrap(), shown.1.unwrap().unwrap());
    assert_eq!(shown.0, shown.1);
    check_refreshes(&world, 1);
    world.revoke();
    let refusal = || Refused::new(401, vec![], Some(shown.0.clone()));
    let done = tokio::join!(one.refused(refusal()), other.refused(refusal()));
    (done.0.unwrap(), done.1.unwrap());
    assert_eq!(one.authorization().await.unwrap(), other.authorization().await.unwrap());
    check_refreshes(&world, 2);
}

#[tokio::test]
async fn two_clients_that_renew_at_once_show_a_refresh_token_once() {
    let store = Arc::new(MemoryTokens::new());
    renew_at_once(|| Arc::clone(&store)).await;
}

#[tokio::test]
async fn two_processes_that_renew_at_once_show_a_refresh_token_once() {
    let folder: PathBuf =
        std::env::temp_dir().join(format!("mgp-tokens-at-once-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    renew_at_once(|| FileTokens::at(folder.join("tokens.json"))).await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_hangs_while_it_renews_is_not_waited_for_for_ever() {
    let (world, store) = (World::new(|_| {}), Arc::new(MemoryTokens::new()));
    let one = ended(&world, Arc::clone(&store)).await;
    let hangs = store.turn(SERVER, ONE).await.unwrap();
    let error = one.authorization().await.unwrap_err();
    assert!(error.message().contains("look for one that hangs"), "{error}");
    drop(hangs);
    world.turn(|s| s.expires_in = Some(3600));
    assert!(one.authorization().await.unwrap().is_some());
    check_refreshes(&world, 1);
}

/// A store that another process, which knows no turns, writes after it was read.
struct Overtaken {
    tokens: MemoryTokens,
    later: Mutex<Option<Stored>>,
}

impl TokenStore for Overtaken {
    async fn load(&self, server: &str, issuer: &str) -> Result<Option<Stored>, StoreError> {
        let found = self.tokens.load(server, issuer).await;
        let later = self.later.lock().unwrap().take();
        if let Some(later) = later {
            self.tokens.save(later).await?;
        }
        found
    }

    async fn latest(&self, server: &str) -> Result<Option<Stored>, StoreError> {
        self.tokens.latest(server).await
    }

    async fn save(&self, entry: Stored) -> Result<(), StoreError> {
        self.tokens.save(entry).await
    }

    async fn turn(&self, _: &str, _: &str) -> Result<TokenTurn, StoreError> {
        Err(StoreError::Other("there are none".to_owned()))
    }
}

#[tokio::test]
async fn good_tokens_of_another_process_are_not_replaced_by_nothing() {
    let world = World::new(|_| {});
    let store = Arc::new(Overtaken { tokens: MemoryTokens::new(), later: Mutex::default() });
    for lives in [Duration::ZERO, Duration::from_secs(3600)] {
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
