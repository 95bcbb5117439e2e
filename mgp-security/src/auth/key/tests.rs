//! Tests of keys from creation to expiry, in memory and in a file.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mgp_testkit::{RefusingAudit, TempDir, temp_dir, until};
use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditError, Authority, MemoryAudit, Principal};
use mgp_types::{PrivateFile, PrivateFileError, to_hex};

use super::store::add;
use super::text::{KeyText, hash_from_hex};
use super::*;
use crate::auth::{AuthLayer, AuthRefused, Credential};

mod ended;

const NOT_VALID: Result<(), AuthRefused> = Err(AuthRefused::NOT_VALID);

/// The time within which a change by another process must take effect.
const IN_FORCE: Duration = Duration::from_millis(250);

fn grant() -> KeyGrant {
    KeyGrant::new("acme", "build")
}

async fn check(keys: &ApiKeys, key: &str) -> Result<(), AuthRefused> {
    keys.check(key).await.map(drop)
}

#[tokio::test]
async fn a_key_names_its_holder_and_permissions() {
    let keys = ApiKeys::new();
    let grant = grant().agent("nightly").operator().permission("memory.read");
    let key = keys.issue(grant).await.unwrap();
    let caller = keys.check(key.reveal()).await.unwrap();
    assert_eq!(*caller.principal(), Principal::new("acme", "build").agent("nightly").operator());
    assert_eq!(*caller.credential(), Credential::Key { id: key.id().to_owned() });
    assert_eq!(caller.permissions(), ["memory.read"]);
    assert_eq!(caller.expires(), None);
}

#[test]
fn grants_are_closed_unless_opened() {
    assert_eq!(grant().principal(), Principal::new("acme", "build"));
    assert_eq!(grant().principal().authority(), Authority::User);
    assert!(grant().permissions().is_empty());
}

#[tokio::test]
async fn an_issued_key_has_256_random_bits() {
    let keys = ApiKeys::new();
    let (one, other) = (keys.issue(grant()).await.unwrap(), keys.issue(grant()).await.unwrap());
    let secret = KeyText::parse(one.reveal()).unwrap().secret;
    assert!(hash_from_hex(secret).is_some(), "64 hexadecimal digits");
    assert_ne!(secret, KeyText::parse(other.reveal()).unwrap().secret);
    assert_ne!(one.id(), other.id());
}

#[tokio::test]
async fn every_invalid_key_is_refused_with_the_same_message() {
    let keys = ApiKeys::new();
    let [one, other, revoked] =
        [keys.issue(grant()).await, keys.issue(grant()).await, keys.issue(grant()).await]
            .map(Result::unwrap);
    keys.revoke(revoked.id()).await.unwrap();
    let secret = KeyText::parse(other.reveal()).unwrap().secret;
    let whole = one.reveal();
    for key in [
        format!("mgp_{}_{secret}", one.id()),
        format!("mgp_0000000000000000_{secret}"),
        revoked.reveal().to_owned(),
        format!("{whole}0"),
        format!("{whole}\n"),
        format!(" {whole}"),
        whole[..whole.len() - 1].to_owned(),
        whole.to_uppercase(),
        whole.replace('0', "\u{0660}").replace('1', "\u{0661}") + "\u{0661}",
        format!("mgp_{}_", one.id()),
        "mgp_".to_owned(),
        String::new(),
    ] {
        assert_eq!(check(&keys, &key).await, NOT_VALID, "{key}");
    }
    assert_eq!(check(&keys, whole).await, Ok(()));
}

#[tokio::test]
async fn a_key_expires_at_its_time() {
    let keys = ApiKeys::new();
    let now = SystemTime::now();
    let hour = Duration::from_hours(1);
    let (past, future) = (grant().expires(now - hour), grant().expires(now + hour));
    let (past, future) = (keys.issue(past).await.unwrap(), keys.issue(future).await.unwrap());
    assert_eq!(check(&keys, past.reveal()).await, Err(AuthRefused::Expired));
    assert_eq!(check(&keys, future.reveal()).await, Ok(()));
    assert!(keys.is_valid(future.id()).await && !keys.is_valid(past.id()).await);
    assert!(!keys.is_valid("unknown").await);
    // A caller that does not know the secret must not learn that the key has expired.
    assert_eq!(check(&keys, &format!("mgp_{}_guess", past.id())).await, NOT_VALID);
    for key in [&past, &future] {
        keys.revoke(key.id()).await.unwrap();
        assert_eq!(check(&keys, key.reveal()).await, NOT_VALID);
    }
    assert!(!keys.is_valid(future.id()).await);
}

#[tokio::test]
async fn keys_of_two_tenants_with_one_subject_are_two_principals() {
    let keys = ApiKeys::new();
    let mine = keys.issue(KeyGrant::new("acme", "build")).await.unwrap();
    let theirs = keys.issue(KeyGrant::new("acme/build", "")).await.unwrap();
    let other = keys.issue(KeyGrant::new("umbrella", "build")).await.unwrap();
    let mut seen = Vec::new();
    for key in [mine, theirs, other] {
        seen.push(keys.check(key.reveal()).await.unwrap().principal().clone());
    }
    assert!(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
}

#[tokio::test]
async fn imported_keys_are_accepted_once() {
    let keys = ApiKeys::new();
    let id = keys.import("mgp_ci_0123456789abcdefghijkl", grant()).await.unwrap();
    assert_eq!(id, "ci");
    assert_eq!(check(&keys, "mgp_ci_0123456789abcdefghijkl").await, Ok(()));
    let again = keys.import("mgp_ci_other", grant()).await;
    assert!(matches!(again, Err(KeyError::Exists { id }) if id == "ci"));
    assert!(matches!(keys.import("sk-live-1", grant()).await, Err(KeyError::Malformed)));
    assert!(matches!(keys.revoke("nobody").await, Err(KeyError::Unknown { .. })));
    keys.remove("ci").await.unwrap();
    assert_eq!(check(&keys, "mgp_ci_0123456789abcdefghijkl").await, NOT_VALID);
    assert!(keys.records().await.unwrap().is_empty());
}

#[tokio::test]
async fn no_debug_output_contains_a_secret() {
    let keys = ApiKeys::new();
    let key = keys.issue(grant()).await.unwrap();
    let secret = KeyText::parse(key.reveal()).unwrap().secret;
    let hash = to_hex(&KeyText::parse(key.reveal()).unwrap().hash());
    let records = keys.records().await.unwrap();
    let caller = keys.check(key.reveal()).await.unwrap();
    let printed = format!("{key:?} {keys:?} {records:?} {caller:?}");
    assert!(!printed.contains(secret) && !printed.contains(&hash), "{printed}");
}

#[test]
fn a_store_is_bounded() {
    let record = |id: &str| KeyRecord::new(id, [0; 32], grant());
    let mut records = (0..MAX_KEYS).map(|n| (n.to_string(), record(&n.to_string()))).collect();
    assert!(matches!(add(&mut records, record("more")), Err(KeyError::Full)));
    // A full store removes a key that has ended, so that it can add a new one.
    records.get_mut("7").unwrap().revoke();
    add(&mut records, record("more")).unwrap();
    assert!(records.len() == MAX_KEYS && !records.contains_key("7"));
    assert!(matches!(add(&mut records, record("one more")), Err(KeyError::Full)));
}

/// A store that can fail without changing its stamp, and that counts the calls of `stamp` and `record_use`.
#[derive(Clone, Default)]
struct TestStore {
    keys: MemoryKeys,
    is_down: Arc<AtomicBool>,
    stamps: Arc<AtomicUsize>,
    uses: Arc<AtomicUsize>,
}

#[async_trait]
impl KeyStore for TestStore {
    async fn load(&self) -> Result<Vec<KeyRecord>, KeyStoreError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(KeyStoreError::Other("down".into()));
        }
        self.keys.load().await
    }

    async fn add(&self, record: KeyRecord) -> Result<(), KeyError> {
        self.keys.add(record).await
    }

    async fn revoke(&self, id: &str) -> Result<(), KeyError> {
        self.keys.revoke(id).await
    }

    async fn remove(&self, id: &str) -> Result<(), KeyError> {
        self.keys.remove(id).await
    }

    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::SeqCst);
        self.keys.stamp()
    }

    fn record_use(&self, _id: &str) {
        self.uses.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_failed_is_read_again() {
    let store = TestStore::default();
    let keys = ApiKeys::open(store.clone()).await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    store.is_down.store(true, Ordering::SeqCst);
    assert!(keys.issue(grant()).await.is_err());
    assert_eq!(check(&keys, key.reveal()).await, Err(AuthRefused::Unavailable));
    store.is_down.store(false, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(check(&keys, key.reveal()).await, Ok(()));
}

#[tokio::test]
async fn a_removal_is_recorded_although_the_store_cannot_be_read_again() {
    let (store, log) = (TestStore::default(), MemoryAudit::new());
    let keys = ApiKeys::open(store.clone()).await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    store.is_down.store(true, Ordering::SeqCst);
    let ann = Principal::new("acme", "ann").operator();
    let removed = keys.with_audit(ann, Arc::new(log.clone())).remove(key.id()).await;
    assert!(matches!(removed, Err(KeyError::Store(_))));
    assert_eq!(log.events()[0].event_type.as_str(), "dev.cloto.key_revoked");
}

// === Files ===

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(temp_dir())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("keys.json")
    }

    async fn open(&self) -> Result<ApiKeys, KeyStoreError> {
        ApiKeys::open(FileKeys::new(self.file())).await
    }
}

#[tokio::test]
async fn a_file_keeps_keys_without_their_secrets() {
    let folder = Folder::new();
    let expires = SystemTime::now() + Duration::from_mins(1);
    let wide = grant().agent("a").operator().permission("p").expires(expires);
    let keys = folder.open().await.unwrap();
    let (key, gone) = (keys.issue(wide).await.unwrap(), keys.issue(grant()).await.unwrap());
    keys.revoke(gone.id()).await.unwrap();
    let before = keys.records().await.unwrap();

    let written = fs::read_to_string(folder.file()).unwrap();
    assert!(!written.contains(KeyText::parse(key.reveal()).unwrap().secret));
    let keys = folder.open().await.unwrap();
    assert_eq!(keys.records().await.unwrap(), before);
    assert_eq!(check(&keys, key.reveal()).await, Ok(()));
    assert_eq!(check(&keys, gone.reveal()).await, NOT_VALID);
}

#[tokio::test(start_paused = true)]
async fn what_another_process_revokes_is_refused_within_250_ms() {
    let folder = Folder::new();
    let keys = folder.open().await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    let elsewhere = folder.open().await.unwrap();
    elsewhere.revoke(key.id()).await.unwrap();
    tokio::time::advance(IN_FORCE).await;
    assert_eq!(check(&keys, key.reveal()).await, NOT_VALID);

    let added = elsewhere.issue(grant()).await.unwrap();
    tokio::time::advance(IN_FORCE).await;
    assert_eq!(check(&keys, added.reveal()).await, Ok(()));
    fs::remove_file(folder.file()).unwrap();
    tokio::time::advance(IN_FORCE).await;
    assert_eq!(check(&keys, added.reveal()).await, NOT_VALID);
}

#[tokio::test(start_paused = true)]
async fn the_stamp_of_a_store_is_read_four_times_a_second_at_any_load() {
    let store = TestStore::default();
    let keys = ApiKeys::open(store.clone()).await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    let before = store.stamps.load(Ordering::SeqCst);
    for _ in 0..1000 {
        assert_eq!(check(&keys, key.reveal()).await, Ok(()));
        assert!(keys.is_live(key.id()));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let asked = store.stamps.load(Ordering::SeqCst) - before;
    assert!((3..=4).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn the_use_of_a_key_is_recorded_once_a_minute_at_any_load() {
    let store = TestStore::default();
    let keys = ApiKeys::open(store.clone()).await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    for (times, uses) in [(599, 1), (600, 2)] {
        for _ in 0..times {
            assert_eq!(check(&keys, key.reveal()).await, Ok(()));
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert_eq!(store.uses.load(Ordering::SeqCst), uses);
        assert_eq!(check(&keys, &format!("mgp_{}_guess", key.id())).await, NOT_VALID);
    }
}

#[tokio::test]
async fn the_last_use_of_a_key_is_forgotten_with_the_key() {
    let folder = Folder::new();
    let keys = folder.open().await.unwrap();
    let (one, other) = (keys.issue(grant()).await.unwrap(), keys.issue(grant()).await.unwrap());
    assert_eq!(keys.last_use(one.id()), None);
    for key in [&one, &other] {
        assert_eq!(check(&keys, key.reveal()).await, Ok(()));
        until("the use is recorded", async || keys.last_use(key.id()).is_some()).await;
    }
    let marker = |key: &NewKey| folder.0.path().join("keys.used").join(key.id());
    keys.revoke(one.id()).await.unwrap();
    assert!(!marker(&one).exists() && marker(&other).exists());
    // Another process, which does not know the revocation yet, records a use.
    fs::write(marker(&one), "").unwrap();
    assert_eq!(keys.last_use(one.id()), None);
    keys.remove(other.id()).await.unwrap();
    assert!(!marker(&one).exists() && !marker(&other).exists());
}

#[tokio::test(start_paused = true)]
async fn a_stream_or_a_waiting_call_ends_with_its_key_although_no_request_arrives() {
    let store = TestStore::default();
    let keys = ApiKeys::open(store.clone()).await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    let layer = AuthLayer::new().keys(keys);
    let (_, used) = layer.check(key.reveal()).await.unwrap();
    store.revoke(key.id()).await.unwrap();
    tokio::time::sleep(IN_FORCE * 2).await;
    assert!(!used.is_valid(), "it goes on after its key was revoked");

    drop(used);
    tokio::time::sleep(IN_FORCE * 2).await;
    let before = store.stamps.load(Ordering::SeqCst);
    tokio::time::sleep(IN_FORCE * 10).await;
    assert_eq!(store.stamps.load(Ordering::SeqCst), before, "the store of unused keys is read");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_waits_for_another_process_blocks_no_request() {
    let folder = Folder::new();
    let keys = folder.open().await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    let held = PrivateFile::new(folder.file(), 0).lock(Duration::ZERO).unwrap();
    let issuing = tokio::spawn({
        let keys = keys.clone();
        async move { keys.issue(grant()).await }
    });
    tokio::task::yield_now().await;
    // Write the file again, so that it counts as changed and the next request must read it.
    let same = fs::read(folder.file()).unwrap();
    fs::write(folder.file(), same).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(matches!(keys.lookup(key.reveal()), Lookup::Outdated));
    assert_eq!(check(&keys, key.reveal()).await, Ok(()));
    assert!(!issuing.is_finished());
    drop(held);
    let issued = issuing.await.unwrap().unwrap();
    assert_eq!(check(&keys, issued.reveal()).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn while_a_file_cannot_be_read_every_key_is_refused() {
    let folder = Folder::new();
    let keys = folder.open().await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    let good = fs::read(folder.file()).unwrap();
    fs::write(folder.file(), b"{").unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(check(&keys, key.reveal()).await, Err(AuthRefused::Unavailable));
    assert_eq!(check(&keys, key.reveal()).await, Err(AuthRefused::Unavailable));
    fs::write(folder.file(), good).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(check(&keys, key.reveal()).await, Ok(()));
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let keys = folder.open().await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    let mode = |mode| fs::set_permissions(folder.file(), fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(fs::metadata(folder.file()).unwrap().permissions().mode() & 0o777, 0o600);
    for open in [0o644, 0o640, 0o604, 0o620, 0o601] {
        mode(open);
        let refused = folder.open().await.unwrap_err();
        assert!(matches!(
            refused,
            KeyStoreError::File(PrivateFileError::Exposed { mode, .. }) if mode == open
        ));
        assert!(keys.issue(grant()).await.is_err());
    }
    // A server that has already read the file also detects the change.
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(check(&keys, key.reveal()).await, Err(AuthRefused::Unavailable));
    mode(0o400);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(check(&keys, key.reveal()).await, Ok(()));
}

#[tokio::test]
async fn a_file_of_another_format_is_refused() {
    let folder = Folder::new();
    let hash = "0".repeat(64);
    let record = |rest: &str| {
        format!(
            r#"{{"id":"a","sha256":"{hash}","grant":{{"tenant":"t","subject":"s"{rest}}},"created":"2026-01-01T00:00:00Z"}}"#
        )
    };
    let file = |keys: &str| format!(r#"{{"version":1,"keys":[{keys}]}}"#);
    for (text, is_good) in [
        (file(&record("")), true),
        (file(&record(r#","expires":"2030-01-01T00:00:00Z""#)), true),
        (file(&record(r#","expires":"soon""#)), false),
        (file(&record(r#","expiry":"2030-01-01T00:00:00Z""#)), false),
        (file(&record("").replace(&hash, "00")), false),
        (file(&format!("{},{}", record(""), record(""))), false),
        (file(&record("")).replace("\"version\":1", "\"version\":2"), false),
        (String::new(), false),
        ("[]".to_owned(), false),
    ] {
        replace(&folder, text.as_bytes());
        assert_eq!(folder.open().await.is_ok(), is_good, "{text}");
    }
}

fn replace(folder: &Folder, text: &[u8]) {
    let file = PrivateFile::new(folder.file(), 0);
    file.replace(&file.lock(Duration::ZERO).unwrap(), text).unwrap();
}

#[tokio::test]
async fn two_processes_that_change_a_file_lose_nothing() {
    let folder = Folder::new();
    let (one, other) = (folder.open().await.unwrap(), folder.open().await.unwrap());
    let (first, second) = tokio::join!(
        async {
            for _ in 0..10 {
                one.issue(grant()).await.unwrap();
            }
        },
        async {
            for _ in 0..10 {
                other.issue(grant()).await.unwrap();
            }
        }
    );
    let ((), ()) = (first, second);
    assert_eq!(one.records().await.unwrap().len(), 20);
}

#[tokio::test]
async fn a_change_is_recorded_and_a_key_that_cannot_be_recorded_is_not_created() {
    let (keys, log) = (ApiKeys::new(), MemoryAudit::new());
    let ann = Principal::new("acme", "ann").operator();
    let recorded = keys.with_audit(ann.clone(), Arc::new(log.clone()));
    let grant = KeyGrant::new("acme", "build").operator().permission("admin.read");
    let kept = recorded.issue(grant).await.unwrap();
    let gone = recorded.issue(KeyGrant::new("acme", "build")).await.unwrap();
    recorded.revoke(kept.id()).await.unwrap();
    recorded.remove(gone.id()).await.unwrap();
    assert!(recorded.revoke("nothing").await.is_err());
    let events = log.events();
    let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
    let (added, revoked) = ("dev.cloto.key_added", "dev.cloto.key_revoked");
    assert_eq!(types, [added, added, revoked, revoked]);
    let text = serde_json::to_string(&events).unwrap();
    assert!(text.contains(kept.id()) && !text.contains(kept.reveal()));
    let rights = |of: &AuditEvent| {
        let details = of.details.as_ref().unwrap();
        let permissions: Option<Vec<String>> = details.decode("permissions").unwrap();
        (details.decode::<bool>("operator").unwrap(), permissions)
    };
    assert_eq!(rights(&events[0]), (Some(true), Some(vec!["admin.read".to_owned()])));
    assert_eq!(rights(&events[1]), (None, None));

    let unrecorded = keys.with_audit(ann, Arc::new(RefusingAudit(AuditError::Full)));
    let refused = unrecorded.issue(KeyGrant::new("acme", "build")).await.unwrap_err();
    assert!(matches!(refused, KeyError::Unaudited(_)));
    assert_eq!(keys.records().await.unwrap().len(), 1);
    let live = keys.issue(KeyGrant::new("acme", "build")).await.unwrap();
    assert!(unrecorded.revoke(live.id()).await.is_err());
    assert!(keys.check(live.reveal()).await.is_err(), "what was revoked stays so");
}

#[tokio::test]
async fn a_key_that_another_process_just_created_is_recorded_when_revoked() {
    let (folder, log) = (Folder::new(), MemoryAudit::new());
    let (one, other) = (folder.open().await.unwrap(), folder.open().await.unwrap());
    let made = other.issue(KeyGrant::new("acme", "build")).await.unwrap();
    let ann = Principal::new("acme", "ann").operator();
    one.with_audit(ann, Arc::new(log.clone())).revoke(made.id()).await.unwrap();
    let events = log.events();
    assert_eq!(events.len(), 1);
    let details = serde_json::to_string(&events[0].details).unwrap();
    assert!(details.contains(made.id()) && details.contains("build"), "{details}");
}
