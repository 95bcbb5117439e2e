//! Reads a whole log and finds the first record that is not what was written.
//!
//! Applies to: both.

use std::fs;
use std::path::Path;

use super::chain::{Chain, Checkpoint, Kind, Line};
use super::digest::DigestKey;
use super::error::{Bad, Flaw, LogError};
use super::head::Head;
use super::lines::Lines;
use super::segments::Place;

/// Checks every byte of a log against its head, and counts its records, internal ones included.
///
/// With a head from a [store](Head::in_store), nobody who can only change the files can change, drop or add anything
/// up to the head unnoticed.
/// With the head [beside the log](Head::beside), damage and careless changes are found;
/// who may write there can write a new log and its head.
///
/// Records after the head were not acknowledged; they count if they fit, and half a line at the very end, which a
/// killed process leaves, is passed over.
/// Where old files were removed, what is left is proved: the removal was announced by a record that is part of it.
///
/// # Errors
/// [`LogError::Bad`] names the first bad record; else the files cannot be read.
pub fn verify(dir: &Path, name: &str, head: &Head) -> Result<u64, LogError> {
    let place = Place::new(dir, name)?;
    beside(&place)?;
    let segments = place.segments().map_err(LogError::io(dir, "read"))?;
    let mut chain = Chain::genesis(name);
    if head.seq == 0 && head.hash != chain.hash {
        return Err(Bad::new(0, Flaw::Head).into());
    }
    let first = segments.first().map_or(1, |segment| segment.first);
    // Without a checkpoint that says otherwise, everything is kept.
    let mut from = 1;
    let mut count = 0;
    let mut pending: Option<Bad> = None;
    for segment in &segments {
        if let Some(bad) = pending.take() {
            // Only the newest file may end in half a line.
            return Err(bad.into());
        }
        let io = |error| LogError::io(&segment.path, "read")(error);
        if count > 0 && segment.first != chain.seq + 1 {
            return Err(Bad::new(chain.seq + 1, Flaw::Missing).into());
        }
        let mut lines = Lines::open(&segment.path, 0).map_err(io)?;
        while let Some((_, line)) = lines.next().map_err(io)? {
            if count == 0 && first > 1 {
                chain = Line::read(line)
                    .filter(|line| line.seq == first)
                    .and_then(|line| Chain::before(&line))
                    .ok_or_else(|| Bad::new(first, Flaw::Form))?;
                if chain.seq > head.seq {
                    return Err(Bad::new(chain.seq, Flaw::StaleHead).into());
                }
                if chain.seq == head.seq && chain.hash != head.hash {
                    return Err(Bad::new(head.seq, Flaw::Head).into());
                }
            }
            let before = chain;
            let read = chain.follow(line).map_err(|why| Bad::new(before.seq + 1, why))?;
            if read.kind == Kind::Checkpoint {
                let said = Checkpoint::read(&read).filter(|said| said.prev == before.hash);
                from = said.ok_or_else(|| Bad::new(read.seq, Flaw::Form))?.from;
            }
            if chain.seq == head.seq && chain.hash != head.hash {
                return Err(Bad::new(head.seq, Flaw::Head).into());
            }
            count += 1;
        }
        pending = lines.is_torn().then(|| Bad::new(chain.seq + 1, Flaw::Torn));
    }
    if let Some(bad) = pending.filter(|bad| bad.seq <= head.seq) {
        return Err(bad.into());
    }
    if first > from {
        return Err(Bad::new(from, Flaw::Missing).into());
    }
    if chain.seq < head.seq {
        return Err(Bad::new(chain.seq + 1, Flaw::Missing).into());
    }
    Ok(count)
}

/// The files beside the log are small and as we write them.
fn beside(place: &Place) -> Result<(), LogError> {
    let lock = place.beside("lock");
    if fs::metadata(&lock).is_ok_and(|metadata| metadata.len() > 0) {
        return Err(Bad::new(0, Flaw::Beside(lock)).into());
    }
    Head::beside(&place.dir, &place.name)?;
    let key = place.beside("key");
    if key.exists() && DigestKey::read(&key)?.is_none() {
        return Err(Bad::new(0, Flaw::Beside(key)).into());
    }
    Ok(())
}
