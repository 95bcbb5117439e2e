//! The runs of confirmed calls. They are remembered so that a replayed request with the same answers does not run the
//! call again (MGP §4.4).

use std::collections::HashMap;

use std::time::Duration;

use bytestring::ByteString;
use mgp_types::Sha256Hash;
use mgp_types::sync::Mutex;
use tokio::time::Instant;

/// The time for which a run is remembered if the end of its confirmation's validity cannot be represented.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);

/// The number of runs of each confirmed call. The key is the logical call, i.e. all requests (rounds) that belong to
/// one call, and the hash of what was confirmed.
///
/// An entry is kept as long as its confirmation is valid and could be replayed.
#[derive(Debug)]
pub(super) struct Used {
    runs: Mutex<HashMap<(ByteString, Sha256Hash), Entry>>,
    most: usize,
}

#[derive(Debug)]
struct Entry {
    runs: u32,
    until: Instant,
}

/// The reason why a confirmation cannot be used for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotUsable {
    /// The confirmation was already used for this run.
    Used,
    /// The table is full, so the use cannot be remembered and the confirmation must not be used.
    Full,
}

impl Used {
    pub(super) fn new(most: usize) -> Self {
        Self { runs: Mutex::default(), most }
    }

    /// Claims the next run of a confirmed call; `runs` is the number of earlier runs. Each run can be claimed only
    /// once.
    ///
    /// Each request (round) of a call contains the number of earlier runs. A replayed request therefore contains an
    /// outdated number, and is refused.
    pub(super) fn claim(
        &self,
        logical: &ByteString,
        binding: Sha256Hash,
        runs: u32,
        lives: Duration,
    ) -> Result<u32, NotUsable> {
        let now = Instant::now();
        let mut known = self.runs.lock();
        if known.len() >= self.most {
            known.retain(|_, entry| entry.until > now);
        }
        // Copy the id for the key: otherwise the key would keep the buffer of the whole request in memory.
        let key = (ByteString::from(logical.to_string()), binding);
        let full = known.len() >= self.most && !known.contains_key(&key);
        if full {
            return Err(NotUsable::Full);
        }
        // If the end of the validity cannot be represented, use a time in a hundred years.
        let until = now.checked_add(lives).unwrap_or_else(|| now + LONGEST);
        let entry = known.entry(key).or_insert(Entry { runs: 0, until });
        if entry.runs != runs {
            return Err(NotUsable::Used);
        }
        entry.runs = runs.saturating_add(1);
        entry.until = entry.until.max(until);
        Ok(entry.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES: Duration = Duration::from_mins(5);

    #[tokio::test(start_paused = true)]
    async fn a_confirmation_that_is_good_for_ever_is_used_once_too() {
        let used = Used::new(8);
        let (call, binding) = (ByteString::from("call"), Sha256Hash::digest(b"x"));
        assert_eq!(used.claim(&call, binding, 0, Duration::MAX), Ok(1));
        assert_eq!(used.claim(&call, binding, 0, Duration::MAX), Err(NotUsable::Used));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_table_takes_no_more_until_something_expires() {
        let used = Used::new(2);
        let binding = Sha256Hash::digest(b"x");
        assert_eq!(used.claim(&"a".into(), binding, 0, LIVES), Ok(1));
        assert_eq!(used.claim(&"b".into(), binding, 0, LIVES), Ok(1));
        assert_eq!(used.claim(&"c".into(), binding, 0, LIVES), Err(NotUsable::Full));
        assert_eq!(used.claim(&"a".into(), binding, 1, LIVES), Ok(2), "a known call goes on");
        tokio::time::advance(LIVES).await;
        assert_eq!(used.claim(&"c".into(), binding, 0, LIVES), Ok(1));
    }
}
