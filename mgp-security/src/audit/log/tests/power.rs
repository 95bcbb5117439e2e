//! Tests of logs after a power cut, which loses records that were not synced to the disk.

use mgp_testkit::until;
use mgp_types::Payload;
use mgp_types::store::{Change, MemoryStore};

use super::super::chain::{Chain, ChainKey, Checkpoint, RecordKind};
use super::*;
use crate::audit::EventSource as _;
use crate::audit::forward::POSITIONS;
use crate::{AuditQuery, RecordFlaw};

/// A log with three records, of which the first one was synced, and the store with its head and the position of a sink.
struct PowerCut {
    folder: Folder,
    store: MemoryStore,
    /// The content of the log before the power cut.
    whole: Vec<u8>,
}

impl PowerCut {
    async fn new() -> Self {
        let (folder, store) = (Folder::new(), MemoryStore::new());
        let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
        log.record(event("a")).await.unwrap();
        until("the first record is synced", async || head(&store).await.synced == 1).await;
        for id in ["b", "c"] {
            log.record(event(id)).await.unwrap();
        }
        let at = Change::new().put(POSITIONS, "sink", Payload::from_trusted("3"));
        store.commit(at).await.unwrap();
        let (folder, copy) = (folder.copy(), MemoryStore::new());
        for space in ["audit", POSITIONS] {
            let record = store.load(space).await.unwrap().records.remove(0);
            copy.commit(Change::new().put(space, record.key, record.value.unwrap())).await.unwrap();
        }
        let whole = fs::read(&folder.segments()[0]).unwrap();
        Self { folder, store: copy, whole }
    }

    async fn open(&self) -> Result<AuditLog, LogError> {
        AuditLog::open(self.folder.config(), Some(shared(&self.store))).await
    }

    async fn verify(&self) -> Result<u64, LogError> {
        verify(&self.folder.dir, "audit", &head(&self.store).await)
    }

    /// Puts a head into the store, in place of the head that is there.
    async fn put_head(&self, head: &LogHead) {
        let text = Payload::parse(String::from_utf8(head.text()).unwrap()).unwrap();
        self.store.commit(Change::new().put("audit", "audit", text)).await.unwrap();
    }

    /// Returns the number of bytes of the first lines.
    fn length_of(&self, lines: usize) -> usize {
        self.whole.split_inclusive(|byte| *byte == b'\n').take(lines).map(<[u8]>::len).sum()
    }
}

async fn head(store: &MemoryStore) -> LogHead {
    LogHead::in_store(store, "audit").await.unwrap().unwrap()
}

/// Returns the counts of lost records in the events of a log.
async fn losses(log: &AuditLog) -> Vec<u64> {
    counts(log, "dev.cloto.records_lost").await
}

/// Returns the counts in the events of this type.
async fn counts(log: &AuditLog, kind: &str) -> Vec<u64> {
    let query = AuditQuery::new().event_type(kind);
    let events = log.query(query).await.unwrap().events;
    let count = |event: &AuditEvent| event.details.as_ref().unwrap().decode("count").unwrap();
    events.iter().filter_map(count).collect()
}

#[tokio::test]
async fn records_lost_in_a_power_cut_are_recorded_and_the_log_continues() {
    let torn = &b"{\"seq\":3,"[..];
    let rests = [(1, &b""[..]), (2, &b""[..]), (1, &[0; 99][..]), (2, torn), (1, &b"\0\n\0"[..])];
    for (lines, rest) in rests {
        let cut = PowerCut::new().await;
        let lost = 3 - lines as u64;
        let text = [&cut.whole[..cut.length_of(lines)], rest].concat();
        fs::write(&cut.folder.segments()[0], text).unwrap();
        let error = cut.verify().await.unwrap_err();
        assert!(matches!(error, LogError::Lost { count, .. } if count == lost), "{error}");
        let log = cut.open().await.unwrap();
        assert_eq!(losses(&log).await, [lost]);
        log.record(event("later")).await.unwrap();
        log.close().await.unwrap();
        cut.verify().await.unwrap();
        let log = cut.open().await.unwrap();
        assert_eq!(losses(&log).await, [lost], "it is recorded once");
        let at = cut.store.load(POSITIONS).await.unwrap().records.remove(0).value.unwrap();
        assert_eq!(at.get::<u64>().unwrap(), lines as u64, "the event of the loss is forwarded");
    }
}

#[tokio::test]
async fn a_second_power_cut_that_brings_the_earlier_head_back_does_not_make_the_log_a_changed_one()
{
    for later in [1, 5] {
        let cut = PowerCut::new().await;
        let earlier = head(&cut.store).await;
        fs::write(&cut.folder.segments()[0], &cut.whole[..cut.length_of(1)]).unwrap();
        let log = cut.open().await.unwrap();
        for id in 0..later {
            log.record(event(&id.to_string())).await.unwrap();
        }
        log.close().await.unwrap();
        // A second power cut can bring the earlier head back, although another record has the number of that head's
        // record by now. The loss must not be recorded again.
        cut.put_head(&earlier).await;
        assert_eq!(cut.verify().await.unwrap(), 2 + later);
        let log = cut.open().await.unwrap();
        assert_eq!(losses(&log).await, [2], "the loss is recorded once");
        log.close().await.unwrap();
        assert_eq!(cut.verify().await.unwrap(), 2 + later);

        // If the head states that its record was synced, no other record may have the number of that record. Otherwise
        // the log counts as changed.
        cut.put_head(&LogHead { synced: earlier.seq, ..earlier }).await;
        for refused in [cut.verify().await.map(drop), cut.open().await.map(drop)] {
            let head = RecordFlaw::Head;
            assert!(matches!(&refused, Err(LogError::BadRecord(bad)) if bad.why == head));
        }
    }
}

#[tokio::test]
async fn changes_that_the_store_lost_and_the_log_has_are_recorded_once() {
    let (folder, store) = (Folder::new(), MemoryStore::new());
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    let kept = Change::new().event("audit", event("kept"));
    store.commit(kept.clone()).await.unwrap();
    log.flush().await.unwrap();
    let earlier = String::from_utf8(head(&store).await.text()).unwrap();
    let later = Change::new().event("audit", event("revoked")).event("audit", event("granted"));
    store.commit(later.clone()).await.unwrap();
    log.close().await.unwrap();
    for (has_changes, expected) in [(true, &[][..]), (false, &[2_u64][..])] {
        // Set up the state of the files after a process was killed before it saved the head, or after a power cut.
        let (folder, store) = (folder.copy(), MemoryStore::new());
        store.commit(kept.clone()).await.unwrap();
        store.acknowledge("audit", 1).await.unwrap();
        if has_changes {
            store.commit(later.clone()).await.unwrap();
        }
        let earlier = Payload::parse(earlier.clone()).unwrap();
        store.commit(Change::new().put("audit", "audit", earlier)).await.unwrap();
        for _ in 0..2 {
            let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
            log.flush().await.unwrap();
            assert_eq!(counts(&log, "dev.cloto.changes_lost").await, expected);
            assert_eq!(log.after(0, 9).await.unwrap().len(), 3 + expected.len());
            log.close().await.unwrap();
        }
    }
}

/// Returns the line of a checkpoint that was forged without the secret of a log.
fn forged_checkpoint(seq: u64) -> Vec<u8> {
    let (mut line, prev) = (Vec::new(), [7; 32]);
    let mut chain = Chain { seq: seq - 1, no: seq - 1, hash: prev, key: ChainKey::NONE };
    chain.write(&mut line, RecordKind::Checkpoint, |out| {
        let checkpoint = Checkpoint { prev, from: 1, outbox: 0, open: 0, cut: 0 };
        checkpoint.write(out, "2026-03-04T05:06:07.089Z");
    });
    line
}

#[tokio::test]
async fn a_forged_checkpoint_does_not_hide_the_records_before_it() {
    for seq in [2, 3, 4] {
        let cut = PowerCut::new().await;
        let before = String::from_utf8(cut.whole[..cut.length_of(seq - 1)].to_vec()).unwrap();
        let changed = before.replacen(r#""id":"a""#, r#""id":"x""#, 1).into_bytes();
        let text = [changed, forged_checkpoint(seq as u64)].concat();
        fs::write(&cut.folder.segments()[0], &text).unwrap();
        match cut.open().await {
            Err(LogError::BadRecord(bad)) => assert_eq!(bad.seq, 1, "{bad}"),
            other => panic!("{seq}: {other:?}"),
        }
        assert_eq!(fs::read(&cut.folder.segments()[0]).unwrap(), text, "the evidence stays");
    }
}

#[tokio::test]
async fn a_log_in_use_is_synced_within_seconds() {
    let (folder, store) = (Folder::new(), MemoryStore::new());
    let log = AuditLog::open(folder.config(), Some(shared(&store))).await.unwrap();
    for seq in [1, 2] {
        log.record(event("a")).await.unwrap();
        until("the record is synced", async || head(&store).await.synced == seq).await;
    }
    drop(log);
}

#[tokio::test]
async fn a_synced_record_cannot_be_lost_in_a_power_cut() {
    let cut = PowerCut::new().await;
    let path = &cut.folder.segments()[0];
    for length in [0, cut.length_of(1) - 1] {
        fs::write(path, &cut.whole[..length]).unwrap();
        for refused in [cut.verify().await.map(drop), cut.open().await.map(drop)] {
            match refused {
                Err(LogError::BadRecord(bad)) => assert_eq!(bad.seq, 1, "{bad}"),
                other => panic!("{other:?}"),
            }
        }
    }
    fs::remove_file(path).unwrap();
    assert!(matches!(cut.open().await, Err(LogError::BadRecord(_))));
}

#[tokio::test]
async fn after_a_clean_end_every_record_is_synced() {
    let cut = PowerCut::new().await;
    cut.open().await.unwrap().close().await.unwrap();
    assert_eq!(head(&cut.store).await.synced, 3);
    fs::write(&cut.folder.segments()[0], &cut.whole[..cut.length_of(2)]).unwrap();
    assert!(matches!(cut.open().await, Err(LogError::BadRecord(_))));
}

#[tokio::test]
async fn a_loss_is_recorded_even_if_the_next_process_is_killed_before() {
    let cut = PowerCut::new().await;
    // Set up the state after a process was killed right before or after it wrote the event of the loss.
    cut.put_head(&LogHead { lost: 2, ..head(&cut.store).await }).await;
    assert!(matches!(cut.verify().await, Err(LogError::Lost { count: 2, .. })));
    let log = cut.open().await.unwrap();
    assert_eq!(losses(&log).await, [2]);
    log.close().await.unwrap();
    assert_eq!((head(&cut.store).await.lost, cut.verify().await.unwrap()), (0, 4));
}
