//! Tests of keys that stay ended: expired ones if the clock is set back, and revoked ones if their file is replaced.

use mgp_testkit::{FaultyStore, store_busy};
use mgp_types::store::{Change, MemoryStore, Store as _};
use mgp_types::{Payload, Timestamp};

use super::*;

#[tokio::test(start_paused = true)]
async fn an_expired_key_stays_refused_if_the_clock_is_set_back() {
    let (folder, log) = (Folder::new(), MemoryAudit::new());
    let hour = Duration::from_hours(1);
    let end = SystemTime::now() - hour;
    let keys = folder.open().await.unwrap();
    let keys = keys.with_audit(Principal::local(), Arc::new(log.clone()));
    let key = keys.issue(grant().expires(end)).await.unwrap();
    assert_eq!(check(&keys, key.reveal()).await, Err(AuthRefused::Expired));
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(log.events().len(), 2);
    let details = log.events()[1].details.clone().unwrap();
    assert_eq!(details.decode::<String>("cause").unwrap().as_deref(), Some("expired"));
    assert_eq!(details.decode::<String>("key_id").unwrap().as_deref(), Some(key.id()));
    // Move the times in the file, as if the clock were set back to before the expiry.
    let (end, later) = (Timestamp::from(end), Timestamp::from(SystemTime::now() + hour));
    let text = fs::read_to_string(folder.file()).unwrap().replace(end.as_str(), later.as_str());
    assert!(text.contains(later.as_str()), "{text}");
    replace(&folder, text.as_bytes());
    let keys = folder.open().await.unwrap();
    assert_eq!(check(&keys, key.reveal()).await, Err(AuthRefused::Expired));
    assert!(!keys.is_valid(key.id()).await);
}

#[tokio::test]
async fn a_revoked_key_stays_revoked_if_an_older_copy_replaces_the_file() {
    let (folder, store) = (Folder::new(), Arc::new(MemoryStore::new()));
    let open = async || {
        let file = FileKeys::new(folder.file()).remember_revoked(store.clone());
        ApiKeys::open(file).await.unwrap()
    };
    let keys = open().await;
    let (gone, kept) = (keys.issue(grant()).await.unwrap(), keys.issue(grant()).await.unwrap());
    let older = fs::read(folder.file()).unwrap();
    keys.revoke(gone.id()).await.unwrap();
    replace(&folder, &older);
    // The file is corrected as well, so programs that read only the file refuse the key too.
    for keys in [open().await, folder.open().await.unwrap()] {
        assert_eq!(check(&keys, gone.reveal()).await, NOT_VALID);
        assert_eq!(check(&keys, kept.reveal()).await, Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_for_a_short_time_ends_no_key() {
    let (now, hour) = (SystemTime::now(), Duration::from_hours(1));
    let keys = ApiKeys::new().with_audit(Principal::local(), Arc::new(MemoryAudit::new()));
    let key = keys.issue(grant().expires(now + hour)).await.unwrap();
    // The clock is ahead when the key is found expired, and right a minute later.
    keys.end_expired_at(now + 2 * hour);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(check(&keys, key.reveal()).await, Ok(()));
    assert_eq!(keys.records().await.unwrap()[0].revoked(), None);
}

#[tokio::test]
async fn all_expired_keys_are_ended_by_one_change_that_keeps_their_last_uses() {
    let (folder, now, hour) = (Folder::new(), SystemTime::now(), Duration::from_hours(1));
    let (keys, file) = (folder.open().await.unwrap(), FileKeys::new(folder.file()));
    for end in [hour, hour, 3 * hour] {
        let key = keys.issue(grant().expires(now + end)).await.unwrap();
        assert_eq!(check(&keys, key.reveal()).await, Ok(()));
        until("the use is recorded", async || keys.last_use(key.id()).is_some()).await;
    }
    let ended = file.end_expired(now + 2 * hour).await.unwrap();
    assert_eq!(ended.len(), 2);
    assert!(file.end_expired(now + 2 * hour).await.unwrap().is_empty());
    let keys = folder.open().await.unwrap();
    for record in keys.records().await.unwrap() {
        assert_eq!(record.is_expired(), ended.contains(&record));
        assert!(keys.last_use(record.id()).is_some());
    }
    // An operator can revoke an ended key as well.
    file.revoke(ended[0].id()).await.unwrap();
    let records = file.load().await.unwrap();
    assert_eq!(records.iter().filter(|record| record.is_expired()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_the_state_cannot_be_read_a_changed_file_of_keys_admits_no_caller() {
    let folder = Folder::new();
    let store = FaultyStore::default()
        .on_read(|store, _, read| if store.is_failing() { store_busy("it fails") } else { read });
    let file = FileKeys::new(folder.file()).remember_revoked(Arc::new(store.clone()));
    let keys = ApiKeys::open(file).await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    store.set_failing(true);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(check(&keys, key.reveal()).await, Ok(()));
    let other = folder.open().await.unwrap().issue(grant()).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(check(&keys, key.reveal()).await, Err(AuthRefused::Unavailable));
    store.set_failing(false);
    tokio::time::advance(Duration::from_secs(1)).await;
    for key in [&key, &other] {
        assert_eq!(check(&keys, key.reveal()).await, Ok(()));
    }
}

#[tokio::test]
async fn a_key_that_is_imported_again_after_its_removal_is_valid() {
    let folder = Folder::new();
    let file = FileKeys::new(folder.file()).remember_revoked(Arc::new(MemoryStore::new()));
    let keys = ApiKeys::open(file).await.unwrap();
    let key = keys.issue(grant()).await.unwrap();
    keys.revoke(key.id()).await.unwrap();
    keys.remove(key.id()).await.unwrap();
    keys.import(key.reveal(), grant()).await.unwrap();
    assert_eq!(check(&keys, key.reveal()).await, Ok(()));
}

#[tokio::test]
async fn the_oldest_revoked_keys_that_the_file_does_not_have_are_forgotten() {
    let (folder, store, space) = (Folder::new(), MemoryStore::new(), "revoked_keys");
    let oldest = Change::new().put(space, "oldest", Payload::empty_object());
    store.commit(oldest).await.unwrap();
    let mut others = Change::new();
    for number in 0..2 * MAX_KEYS {
        others = others.put(space, number.to_string(), Payload::empty_object());
    }
    store.commit(others).await.unwrap();
    let file = FileKeys::new(folder.file()).remember_revoked(Arc::new(store.clone()));
    ApiKeys::open(file).await.unwrap();
    let known = store.load(space).await.unwrap().records;
    assert_eq!(known.len(), 2 * MAX_KEYS);
    assert!(known.iter().all(|record| record.key != "oldest"));
}
