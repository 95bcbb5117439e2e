//! Verification of a whole log, which finds the first record that differs from what was written.

use std::fs;
use std::path::Path;
#[cfg(feature = "sqlite")]
use std::path::PathBuf;

#[cfg(feature = "sqlite")]
use mgp_types::store::Store;

use super::chain::{Chain, Checkpoint, Line, RecordKind};
use super::digest::DigestKey;
use super::error::{BadRecord, LogError, RecordFlaw};
use super::head::LogHead;
use super::lines::Lines;
#[cfg(feature = "sqlite")]
use super::outbox::BATCH;
use super::outbox::RecentEvents;
use super::segments::LogPlace;

/// Verifies every byte of a log against its head, and counts its records, including internal ones.
///
/// Every line must hash to its own `hash`, keyed with the hash of the line before, so a changed, removed or inserted
/// record breaks the chain at that record. The head fixes the end: without it, records could be cut off at the end, or
/// the whole log could be replaced by another valid one.
///
/// With a head from a [store](LogHead::in_store), an attacker who can only change the files cannot change, remove or
/// add a record unnoticed: the head fixes the end, and later records must be hashed with the secret in the store. With
/// the head from [the log's directory](LogHead::beside), damage and careless changes are detected. An attacker with
/// write access to the directory, however, can replace the log and its head.
///
/// Records after the last synced record can be lost in a power cut; then the error is
/// [`LogError::Lost`] until the log is opened, which records the loss as an event.
///
/// Records after the head were not acknowledged; those that verify are counted. An incomplete line at the very end,
/// which a killed process leaves, is ignored. If old files were removed, verification starts at the checkpoint that
/// begins the oldest remaining file, and a later checkpoint in the chain must have announced the removal.
///
/// # Errors
/// [`LogError::BadRecord`] names the first bad record, and [`LogError::Lost`] the first of the lost ones; other errors
/// mean that the files cannot be read.
pub fn verify(dir: &Path, name: &str, head: &LogHead) -> Result<u64, LogError> {
    verify_noting(dir, name, head, &mut RecentEvents::default())
}

/// Verifies a log on a thread for blocking work. Also checks that the log's store has the changes that the events of
/// the log record. Another process may write the log meanwhile.
///
/// # Errors
/// The same errors as [`verify`], and also [`LogError::ChangesLost`].
#[cfg(feature = "sqlite")]
pub(crate) async fn verify_with_store(
    dir: PathBuf,
    name: String,
    head: LogHead,
    store: &dyn Store,
) -> Result<u64, LogError> {
    let log = name.clone();
    let verified = tokio::task::spawn_blocking(move || {
        let mut recent = RecentEvents::default();
        verify_noting(&dir, &name, &head, &mut recent).map(|count| (count, recent))
    });
    let verified = verified.await;
    let (count, recent) =
        verified.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))?;
    let Some(written) = recent.last() else { return Ok(count) };
    // Read the events before the head, because the writer removes them from the store after it has saved the head.
    let pending = store.pending_events(&log, BATCH).await?;
    let saved = LogHead::in_store(store, &log).await?.map_or(0, |head| head.outbox);
    let lost = if written > saved { recent.count_lost(saved, written, pending) } else { 0 };
    if lost > 0 { Err(LogError::ChangesLost { count: lost }) } else { Ok(count) }
}

/// Verifies a log, and remembers in `recent` the events from the store that are newer than the head.
fn verify_noting(
    dir: &Path,
    name: &str,
    head: &LogHead,
    recent: &mut RecentEvents,
) -> Result<u64, LogError> {
    let place = LogPlace::new(dir, name)?;
    beside(&place)?;
    let segments = place.segments().map_err(LogError::io(dir, "read"))?;
    let mut chain = Chain::genesis(name, head.key);
    if head.seq == 0 && head.hash != chain.hash {
        return Err(BadRecord::new(0, RecordFlaw::Head).into());
    }
    let first = segments.first().map_or(1, |segment| segment.first);
    // All records from the first one on must be retained, unless a checkpoint announces their removal.
    let (mut from, mut count, mut pending) = (1, 0, None::<BadRecord>);
    for segment in &segments {
        let is_newest = segments.last() == Some(segment);
        if let Some(bad) = pending.take() {
            // Only the newest file is allowed to end with an incomplete line.
            return Err(bad.into());
        }
        let io = |error| LogError::io(&segment.path, "read")(error);
        if count > 0 && segment.first != chain.seq + 1 {
            return Err(BadRecord::new(chain.seq + 1, RecordFlaw::Missing).into());
        }
        let mut lines = Lines::open(&segment.path, 0).map_err(io)?;
        while let Some((_, line)) = lines.next().map_err(io)? {
            if count == 0 && first > 1 {
                chain = resume(line, first, head)?;
            }
            let before = chain;
            let read = match chain.verify_next(line) {
                Ok(read) => read,
                // A power cut can leave broken lines in place of records that were not synced. Such a line is the end
                // of the log, and not an error.
                Err(_) if is_newest && (head.synced..head.seq).contains(&before.seq) => break,
                Err(why) => return Err(BadRecord::new(before.seq + 1, why).into()),
            };
            if read.kind == RecordKind::Checkpoint {
                let checkpoint =
                    Checkpoint::read(&read).filter(|checkpoint| checkpoint.prev == before.hash);
                from = checkpoint.ok_or_else(|| BadRecord::new(read.seq, RecordFlaw::Form))?.from;
            }
            if head.is_replaced(&chain) {
                return Err(BadRecord::new(head.seq, RecordFlaw::Head).into());
            }
            recent.note_after(head, &read);
            count += 1;
        }
        pending = lines.is_torn().then(|| BadRecord::new(chain.seq + 1, RecordFlaw::Torn));
    }
    if let Some(bad) = pending.filter(|bad| bad.seq <= head.synced) {
        return Err(bad.into());
    }
    if first > from {
        return Err(BadRecord::new(from, RecordFlaw::Missing).into());
    }
    check_end(&chain, head).map(|()| count)
}

/// Checks that a log contains the records up to its head.
fn check_end(chain: &Chain, head: &LogHead) -> Result<(), LogError> {
    if chain.seq < head.synced {
        return Err(BadRecord::new(chain.seq + 1, RecordFlaw::Missing).into());
    }
    let lost = head.lost + head.seq.saturating_sub(chain.seq);
    if lost > 0 {
        return Err(LogError::Lost { seq: chain.seq + 1, count: lost });
    }
    Ok(())
}

/// Returns the state of the chain before the first remaining line of a log whose older files were removed.
fn resume(line: &[u8], first: u64, head: &LogHead) -> Result<Chain, BadRecord> {
    let chain = Line::read(line)
        .filter(|line| line.seq == first)
        .and_then(|line| Chain::before(&line, head.key))
        .ok_or_else(|| BadRecord::new(first, RecordFlaw::Form))?;
    if chain.seq > head.seq {
        return Err(BadRecord::new(chain.seq, RecordFlaw::StaleHead));
    }
    if head.is_replaced(&chain) {
        return Err(BadRecord::new(head.seq, RecordFlaw::Head));
    }
    Ok(chain)
}

/// Checks that the other files in the directory of the log are undamaged.
fn beside(place: &LogPlace) -> Result<(), LogError> {
    let lock = place.beside("lock");
    if fs::metadata(&lock).is_ok_and(|metadata| metadata.len() > 0) {
        return Err(BadRecord::new(0, RecordFlaw::Beside(lock)).into());
    }
    LogHead::beside(&place.dir, &place.name)?;
    let key = place.beside("key");
    if key.exists() && DigestKey::read(&key)?.is_none() {
        return Err(BadRecord::new(0, RecordFlaw::Beside(key)).into());
    }
    Ok(())
}
