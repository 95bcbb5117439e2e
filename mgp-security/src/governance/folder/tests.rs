//! Tests of the governance of a folder.

use mgp_testkit::temp_dir;
use mgp_types::Payload;
use mgp_types::mgp::AccessGrantParams;
use mgp_types::service::Principal;
use mgp_types::store::{Change, sql};

use super::*;
use crate::audit::AuditQuery;

/// Returns the builder of a governance with its log in a directory.
fn at(dir: &str) -> GovernanceBuilder {
    let dir = PathBuf::from(dir);
    Governance::builder().logging(move |mut log| {
        log.dir = dir;
        log
    })
}

fn allows(governance: &Governance) -> bool {
    let ada = Principal::new("local", "ada");
    let now = std::time::SystemTime::now();
    governance.access().decide(&ada, Some(&"disk".into()), Some("wipe"), now).is_allowed()
}

async fn grant(governance: &Governance) {
    let ann = Principal::new("local", "ann").operator();
    governance.access().grant(&ann, AccessGrantParams::allow("ada", "disk")).await.unwrap();
}

#[tokio::test]
async fn a_record_that_was_changed_is_found() {
    let temp = temp_dir();
    let folder = temp.path().join("state");
    let governance = Governance::in_folder(&folder).await.unwrap();
    grant(&governance).await;
    let log = governance.log().unwrap().clone();
    drop(governance);
    log.close().await.unwrap();
    let file = folder.join("audit/audit.0000000000000001.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replacen(r#""ada""#, r#""bob""#, 1);
    assert_ne!(changed, text);
    fs::write(&file, &changed).unwrap();
    let error = Governance::verify(&folder).await.unwrap_err();
    assert!(matches!(error, FolderError::Log(LogError::BadRecord(_))), "{error}");
    // The folder continues with a log in another directory. The changed log can still be read and verified.
    close(at("audit-2").in_folder(&folder).await.unwrap()).await;
    assert!(Governance::verify(&folder).await.is_ok());
    let error = Governance::verify_in(&folder, "audit").await.unwrap_err();
    assert!(matches!(error, FolderError::Log(LogError::BadRecord(_))), "{error}");
    let files = Governance::log_files_in(&folder, "audit").await.unwrap();
    assert_eq!(files.query(AuditQuery::new()).await.unwrap().events.len(), 1);
    fs::create_dir(folder.join("empty")).unwrap();
    let error = Governance::log_files_in(&folder, "empty").await.unwrap_err();
    assert!(matches!(error, FolderError::NoLog(_)), "{error}");
}

#[tokio::test]
async fn changes_of_the_state_are_synced_if_each_record_is() {
    let temp = temp_dir();
    let folder = temp.path().join("state");
    let synchronous = async |builder: GovernanceBuilder| {
        let opened = builder.in_folder_beside(&folder, std::future::ready).await;
        let (governance, db) = opened.unwrap();
        close(governance).await;
        let read = |conn: &sql::Connection| {
            Ok(conn.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))?)
        };
        db.write(read).await.unwrap()
    };
    assert_eq!(synchronous(Governance::builder()).await, 1, "normal");
    let always = Governance::builder().logging(|log| log.fsync(Fsync::Always));
    assert_eq!(synchronous(always).await, 2, "full");
    assert_eq!(synchronous(Governance::builder()).await, 2, "the folder remembers it");
}

#[tokio::test]
async fn a_folder_that_was_moved_has_its_own_log() {
    for has_absolute_place in [false, true] {
        let temp = temp_dir();
        let (folder, moved) = (temp.path().join("state"), temp.path().join("moved"));
        let opened = at("logs").in_folder_beside(&folder, std::future::ready).await;
        let (governance, db) = opened.unwrap();
        grant(&governance).await;
        let name = governance.log().unwrap().location().1.to_owned();
        close(governance).await;
        if has_absolute_place {
            // Store the place with an absolute directory.
            let place = serde_json::json!({ "dir": folder.join("logs"), "name": name });
            let change = Change::new().put("audit_place", LOG, Payload::of(&place).unwrap());
            db.commit(change).await.unwrap();
        }
        db.close().await;
        fs::rename(&folder, &moved).unwrap();
        assert!(Governance::verify(&moved).await.unwrap() >= 1);
        let governance = at("logs").in_folder(&moved).await.unwrap();
        grant(&governance).await;
        assert_eq!(governance.log().unwrap().location(), (&*moved.join("logs"), &*name));
        close(governance).await;
        let files = Governance::log_files(&moved).await.unwrap();
        let granted = files.query(AuditQuery::new().event_type("ACCESS_GRANTED")).await;
        assert_eq!(granted.unwrap().events.len(), 2, "{has_absolute_place}");
    }
}

async fn close(governance: Governance) {
    let log = governance.log().unwrap().clone();
    drop(governance);
    log.close().await.unwrap();
}

#[tokio::test]
async fn a_log_that_is_kept_elsewhere_from_now_on_begins_anew_and_is_found() {
    let temp = temp_dir();
    let folder = temp.path().join("state");
    let governance = Governance::in_folder(&folder).await.unwrap();
    grant(&governance).await;
    close(governance).await;
    let governance = at("logs").in_folder(&folder).await.unwrap();
    assert_eq!(governance.log().unwrap().location().0, folder.join("logs"));
    assert!(allows(&governance));
    assert!(Governance::verify(&folder).await.is_ok(), "while it is written");
    close(governance).await;
    // A process without this configuration uses the stored place.
    let governance = Governance::in_folder(&folder).await.unwrap();
    assert_eq!(governance.log().unwrap().location().0, folder.join("logs"));
    let ann = Principal::new("local", "ann").operator();
    governance.access().grant(&ann, AccessGrantParams::allow("bob", "disk")).await.unwrap();
    close(governance).await;
    let granted = async || {
        let files = Governance::log_files(&folder).await.unwrap();
        let page = files.query(AuditQuery::new().event_type("ACCESS_GRANTED")).await.unwrap();
        page.events.len()
    };
    assert_eq!(granted().await, 1);
    assert!(Governance::verify(&folder).await.unwrap() >= 1);
    // If the first directory is configured again, the log continues its old chain there.
    let governance = at("audit").in_folder(&folder).await.unwrap();
    grant(&governance).await;
    close(governance).await;
    assert_eq!(granted().await, 2);
    assert!(Governance::verify(&folder).await.unwrap() >= 2);
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_is_told_however_long_the_rest_takes() {
    let temp = temp_dir();
    let folder = temp.path().join("state");
    let (_governance, records) = Governance::builder()
        .in_folder_beside(&folder, |db| async move { db.load("audit").await })
        .await
        .unwrap();
    assert!(records.is_ok());
    let again =
        Governance::builder().in_folder_beside(&folder, |_| std::future::pending::<()>()).await;
    assert!(matches!(again, Err(FolderError::Log(LogError::InUse { .. }))));
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_whose_state_was_lost_or_whose_log_is_exposed_is_not_used_or_verified() {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = temp_dir();
    let folder = temp.path().join("state");
    let opened = Governance::builder().in_folder_beside(&folder, std::future::ready).await;
    let (governance, db) = opened.unwrap();
    close(governance).await;
    db.close().await;
    let log = folder.join("audit/audit.0000000000000001.jsonl");
    for (mode, is_refused) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&log, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(Governance::verify(&folder).await.is_err(), is_refused);
    }
    let key = fs::read(folder.join(KEY)).unwrap();
    fs::write(folder.join(KEY), &key[..9]).unwrap();
    let error = Governance::verify(&folder).await.unwrap_err();
    assert!(matches!(error, FolderError::Log(LogError::Key(_))), "{error}");
    fs::write(folder.join(KEY), key).unwrap();
    fs::rename(folder.join(STATE), temp.path().join("away")).unwrap();
    let error = Governance::in_folder(&folder).await.err().unwrap();
    assert!(matches!(error, FolderError::StateMissing(_)), "{error}");
    let error = Governance::verify(&folder).await.unwrap_err();
    assert!(matches!(error, FolderError::StateMissing(_)), "{error}");
    Db::open(folder.join(STATE)).await.unwrap().close().await;
    for _ in 0..2 {
        let error = Governance::in_folder(&folder).await.err().unwrap();
        assert!(matches!(error, FolderError::StateLost { .. }), "{error}");
        let error = Governance::verify(&folder).await.unwrap_err();
        assert!(matches!(error, FolderError::StateLost { .. }), "{error}");
    }
}

#[tokio::test]
async fn nothing_is_made_where_nothing_is_to_be_verified() {
    let temp = temp_dir();
    let folder = temp.path().join("state");
    fs::create_dir(&folder).unwrap();
    let error = Governance::verify(&folder).await.unwrap_err();
    assert!(matches!(error, FolderError::Empty(_)), "{error}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
