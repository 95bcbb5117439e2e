//! Tests that verification detects every change of a log and names the first bad record.

use mgp_types::Payload;
use mgp_types::store::MemoryStore;
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::chain::Line;
use super::*;
use crate::{AuditQuery, FileRetention, RecordFlaw};

/// Writes a log that has several files and all kinds of records.
async fn sample(folder: &Folder) {
    let config = folder.config().segment_bytes(900).digest_key(folder.dir.join("audit.key"));
    let log = AuditLog::open(config, None).await.unwrap();
    let runs = log.begin(start("long", None, None)).await.unwrap();
    for id in 0..2 {
        log.record(event(&id.to_string())).await.unwrap();
        call(&log, "rm", RiskLevel::Dangerous).await;
    }
    runs.finish(AuditOutcome::Success);
    log.close().await.unwrap();
}

/// Returns the number of the record whose line contains a byte; zero if the file contains no records.
fn record_at(path: &Path, whole: &[u8], byte: usize) -> u64 {
    if path.extension().is_none_or(|it| it != "jsonl") {
        return 0;
    }
    let first: u64 = path.to_str().unwrap().rsplit('.').nth(1).unwrap().parse().unwrap();
    first + ends(&whole[..byte])
}

/// Returns the number of complete lines in a text.
fn ends(text: &[u8]) -> u64 {
    text.split(|byte| *byte == b'\n').count() as u64 - 1
}

#[tokio::test]
async fn every_flipped_byte_is_detected_in_every_file() {
    let folder = Folder::new();
    sample(&folder).await;
    assert!(folder.segments().len() > 1, "{:?}", folder.files());
    let records = folder.verify().unwrap();
    assert_eq!(records, folder.lines().len() as u64);
    let mut flipped = 0;
    for path in folder.files() {
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let seq = record_at(&path, &whole, at);
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&path, &changed).unwrap();
            let bad = folder.verify().expect_err("a flipped byte");
            assert_eq!(bad.seq, seq, "byte {at} of {path:?}: {bad}");
            flipped += 1;
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(flipped > 2_000 && folder.verify() == Ok(records), "{flipped}");
}

#[tokio::test]
async fn every_missing_file_and_every_cut_is_detected() {
    let folder = Folder::new();
    sample(&folder).await;
    let files = folder.files();
    let is_lock = |path: &PathBuf| path.extension().is_some_and(|it| it == "lock");
    for path in files.iter().filter(|path| !is_lock(path)) {
        let whole = fs::read(path).unwrap();
        if !path.ends_with("audit.key") {
            fs::remove_file(path).unwrap();
            let bad = folder.verify().expect_err("a missing file");
            fs::write(path, &whole).unwrap();
            assert_eq!(bad.seq, record_at(path, &whole, 0), "{path:?}: {bad}");
        }
        for length in (0..whole.len()).rev().step_by(3) {
            fs::write(path, &whole[..length]).unwrap();
            let bad = folder.verify().expect_err("a file cut short");
            fs::write(path, &whole).unwrap();
            assert_eq!(bad.seq, record_at(path, &whole, length), "{length} of {path:?}: {bad}");
        }
    }
    for path in &files {
        fs::remove_file(path).unwrap();
    }
    assert_eq!(folder.verify().unwrap_err().why, RecordFlaw::NoHead);
}

#[tokio::test]
async fn a_replaced_log_is_detected_with_the_head_in_the_store() {
    let (folder, other, store) = (Folder::new(), Folder::new(), MemoryStore::new());
    for (folder, store, id) in [(&folder, &store, "a"), (&other, &MemoryStore::new(), "b")] {
        let log = AuditLog::open(folder.config(), Some(shared(store))).await.unwrap();
        log.record(event(id)).await.unwrap();
        call(&log, "rm", RiskLevel::Dangerous).await;
        log.close().await.unwrap();
    }
    let head = LogHead::in_store(&store, "audit").await.unwrap().unwrap();
    assert_eq!(verify(&folder.dir, "audit", &head).unwrap(), 3);
    fs::copy(&other.segments()[0], &folder.segments()[0]).unwrap();
    let refused = verify(&folder.dir, "audit", &head).unwrap_err().to_string();
    assert!(refused.contains("record 1: its hash does not match"), "{refused}");
    let opened = AuditLog::open(folder.config(), Some(shared(&store))).await;
    assert!(matches!(opened, Err(LogError::BadRecord(_))), "{opened:?}");
}

#[tokio::test]
async fn a_log_with_the_head_of_another_log_keeps_its_files() {
    let (folder, other, store) = (Folder::new(), Folder::new(), MemoryStore::new());
    for (config, store, count) in
        [(folder.config().segment_bytes(300), &MemoryStore::new(), 5), (other.config(), &store, 1)]
    {
        let log = AuditLog::open(config, Some(shared(store))).await.unwrap();
        for id in 0..count {
            log.record(event(&id.to_string())).await.unwrap();
        }
        log.close().await.unwrap();
    }
    let (files, lines) = (folder.segments(), folder.lines());
    assert!(files.len() > 1);
    let opened = AuditLog::open(folder.config(), Some(shared(&store))).await;
    assert!(matches!(opened, Err(LogError::BadRecord(_))), "{opened:?}");
    assert_eq!((folder.segments(), folder.lines()), (files, lines));
}

/// Returns a forged line with the given members that continues the hash chain after the last line of a file; `PREV` in
/// the members is replaced by the hash of that last line. Forging it needs no secret, so an attacker who knows the
/// format could do the same.
fn forge(path: &Path, members: &str) -> Vec<u8> {
    let text = fs::read_to_string(path).unwrap();
    let last = Line::read(text.lines().last().unwrap().as_bytes()).unwrap();
    let prev = text.lines().last().unwrap().rsplit('"').nth(1).unwrap();
    let before = blake3::Hash::from_hex(prev).unwrap();
    let members = members.replace("PREV", prev);
    let line = format!(r#"{{"seq":{},"no":{},{members}"#, last.seq + 1, last.no + 1);
    let hash = blake3::keyed_hash(before.as_bytes(), line.as_bytes());
    format!("{line},\"hash\":\"{hash}\"}}\n").into_bytes()
}

/// Adds a forged line to a log that has two records: at the end of its only file, or as a file of its own.
fn add_forged(folder: &Folder, members: &str, as_file: bool) {
    let path = folder.segments().pop().unwrap();
    let forged = forge(&path, members);
    if as_file {
        let next = folder.dir.join("audit.0000000000000003.jsonl");
        // Copy the log's file first, so that the new file has the mode of a log file.
        fs::copy(&path, &next).unwrap();
        fs::write(&next, forged).unwrap();
    } else {
        fs::write(&path, [fs::read(&path).unwrap(), forged].concat()).unwrap();
    }
}

#[tokio::test]
async fn records_forged_after_the_head_are_not_taken_over() {
    let forged = [
        r#""event":{"event_type":"PERMISSION_GRANTED","result":"SUCCESS"}"#,
        // This line would hide that a call was interrupted.
        r#""ends":2,"event":{"event_type":"TOOL_EXECUTED","result":"SUCCESS"}"#,
        // This line would suppress events that are still in the store.
        r#""outbox":900,"event":{"event_type":"ACCESS_GRANTED","result":"SUCCESS"}"#,
        // This line would hide that a call was interrupted, and change the numbers of the next events.
        r#""checkpoint":{"at":"x","prev":"PREV","from":1,"outbox":0,"open":0,"cut":0}"#,
    ];
    for (members, as_file) in forged.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let (folder, store) = (Folder::new(), MemoryStore::new());
        let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
        log.record(event("a")).await.unwrap();
        let runs = log.begin(start("rm", Some(RiskLevel::Dangerous), None)).await.unwrap();
        log.flush().await.unwrap();
        let stopped = folder.copy();
        let head = LogHead::in_store(&store, "audit").await.unwrap().unwrap();
        assert_eq!(verify(&stopped.dir, "audit", &head).unwrap(), 2);

        add_forged(&stopped, members, as_file);
        let refused = verify(&stopped.dir, "audit", &head).unwrap_err();
        assert!(refused.to_string().contains("record 3"), "{refused}");

        // Open a copy of the log as the next process would, with a store that contains the log's head.
        let other = MemoryStore::new();
        let text = String::from_utf8(head.text()).unwrap();
        let put =
            mgp_types::store::Change::new().put("audit", "audit", Payload::parse(text).unwrap());
        other.commit(put).await.unwrap();
        let log = AuditLog::open(stopped.config(), Some(shared(&other))).await.unwrap();
        let events = log.query(AuditQuery::new()).await.unwrap().events;
        let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
        let expected = ["ACCESS_GRANTED", "TOOL_EXECUTED", "dev.cloto.records_rejected"];
        assert_eq!(types, expected, "{members}, {as_file}");
        assert_eq!(events[1].result.as_str(), "FAILURE");
        log.close().await.unwrap();
        let head = LogHead::in_store(&other, "audit").await.unwrap().unwrap();
        assert!(head.outbox < 900);
        verify(&stopped.dir, "audit", &head).unwrap();
        runs.finish(AuditOutcome::Success);
    }
}

#[tokio::test]
async fn a_truncated_or_changed_log_is_not_continued() {
    let folder = Folder::new();
    {
        let log = folder.open().await;
        for id in ["a", "b", "c"] {
            log.record(event(id)).await.unwrap();
        }
        log.close().await.unwrap();
    }
    let path = folder.segments().remove(0);
    let whole = fs::read_to_string(&path).unwrap();
    let two = whole.match_indices('\n').nth(1).unwrap().0 + 1;
    let changed = whole.replacen("\"id\":\"b\"", "\"id\":\"x\"", 1);
    for (text, seq) in [(&whole[..two], 3), (&whole[..two + 9], 3), ("", 1), (changed.as_str(), 2)]
    {
        fs::write(&path, text).unwrap();
        match AuditLog::open(folder.config(), None).await {
            Err(LogError::BadRecord(bad)) => assert_eq!(bad.seq, seq, "{bad}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "the evidence stays");
    }
}

#[tokio::test]
async fn old_files_are_removed_after_a_checkpoint_and_the_rest_verifies() {
    let folder = Folder::new();
    let config = || folder.config().segment_bytes(2000).retention(FileRetention::Newest(3));
    let log = AuditLog::open(config(), None).await.unwrap();
    let runs = log.begin(start("long", None, None)).await.unwrap();
    for id in 0..60 {
        log.record(event(&id.to_string())).await.unwrap();
    }
    let segments = folder.segments();
    assert_eq!(segments.len(), 3);
    let records = folder.verify().unwrap();
    assert_eq!(records, folder.lines().len() as u64);
    assert!(folder.lines()[0].contains(r#""checkpoint":{"at":"#));
    let newest = log.query(AuditQuery::new().newest_first()).await.unwrap().events;
    let seqs: Vec<_> =
        newest.iter().map(|event| event.mgp.as_ref().unwrap().seq.unwrap()).collect();
    assert_eq!(seqs[0], 60);
    assert!(seqs.windows(2).all(|pair| pair[0] == pair[1] + 1));
    drop(log);
    // Leak the ticket, as if the process had been killed. The file that contains the beginning of the call was removed
    // long before.
    let _runs = std::mem::ManuallyDrop::new(runs);
    let again = folder.copy();
    let log = again.open().await;
    assert_eq!(tools(&log).await.last().unwrap(), &("long".to_owned(), "FAILURE".to_owned()));
    log.close().await.unwrap();
    fs::remove_file(&again.segments()[0]).unwrap();
    let bad = again.verify().unwrap_err();
    assert_eq!((bad.why, again.segments().len()), (RecordFlaw::Missing, 2));
}

/// A modification of a log by an attacker.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Drop(Index),
    Double(Index),
    Swap(Index, Index),
    Cut(Index),
    Insert(Index, u8),
    Remove(Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), 1..=255u8).prop_map(|(at, bits)| Change::Flip(at, bits)),
        any::<Index>().prop_map(Change::Drop),
        any::<Index>().prop_map(Change::Double),
        (any::<Index>(), any::<Index>()).prop_map(|(one, two)| Change::Swap(one, two)),
        any::<Index>().prop_map(Change::Cut),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        any::<Index>().prop_map(Change::Remove),
    ]
}

/// Returns the modified log and the number of the first bad record, or `None` if the modification had no effect.
fn apply(whole: &[u8], change: &Change) -> Option<(Vec<u8>, u64)> {
    let mut text = whole.to_vec();
    let mut lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let line_of = |at: usize| 1 + ends(&whole[..at]);
    match change {
        Change::Flip(at, bits) => {
            let at = at.index(whole.len());
            text[at] ^= bits;
            Some((text, line_of(at)))
        }
        Change::Cut(at) => {
            let at = at.index(whole.len());
            text.truncate(at);
            Some((text, line_of(at)))
        }
        Change::Remove(at) => {
            let at = at.index(whole.len());
            let removed = text.remove(at);
            // Removing either of two equal adjacent bytes yields the same text.
            Some((text, line_of(at))).filter(|_| whole.get(at + 1) != Some(&removed))
        }
        Change::Insert(at, byte) => {
            let at = at.index(whole.len());
            text.insert(at, *byte);
            Some((text, line_of(at))).filter(|_| whole[at] != *byte)
        }
        Change::Drop(at) => {
            let at = at.index(lines.len());
            lines.remove(at);
            Some((lines.concat(), at as u64 + 1))
        }
        Change::Double(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
            Some((lines.concat(), at as u64 + 2))
        }
        Change::Swap(one, two) => {
            let (one, two) = (one.index(lines.len()), two.index(lines.len()));
            lines.swap(one, two);
            Some((lines.concat(), one.min(two) as u64 + 1)).filter(|_| one != two)
        }
    }
}

#[test]
fn every_change_of_a_log_is_detected() {
    let folder = Folder::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let log = folder.open().await;
        for id in 0..40 {
            log.record(event(&id.to_string())).await.unwrap();
        }
        log.close().await.unwrap();
    });
    let path = folder.segments().remove(0);
    let whole = fs::read(&path).unwrap();
    proptest!(ProptestConfig::with_cases(1000), |(change in change())| {
        if let Some((changed, seq)) = apply(&whole, &change) {
            fs::write(&path, changed).unwrap();
            let bad = folder.verify();
            prop_assert!(bad.as_ref().is_err_and(|bad| bad.seq == seq), "{seq}: {bad:?}");
        }
    });
    fs::write(&path, &whole).unwrap();
    assert_eq!(folder.verify(), Ok(40));
}

#[cfg(unix)]
#[tokio::test]
async fn an_open_log_whose_newest_file_is_removed_is_reported() {
    let folder = Folder::new();
    let log = AuditLog::open(folder.config().segment_bytes(900), None).await.unwrap();
    for id in 0..9 {
        log.record(event(&id.to_string())).await.unwrap();
    }
    assert!(folder.segments().len() > 1, "{:?}", folder.files());
    assert!(!log.is_removed());
    fs::remove_file(folder.segments().last().unwrap()).unwrap();
    assert!(log.is_removed());
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_in_place_of_a_file_of_the_log_is_refused_without_waiting() {
    for name in ["audit.0000000000000001.jsonl", "audit.lock"] {
        let folder = Folder::new();
        folder.open().await.close().await.unwrap();
        let path = folder.dir.join(name);
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let refused = AuditLog::open(folder.config(), None).await.unwrap_err();
        assert!(refused.to_string().contains("is not a plain file"), "{refused}");
    }
}
