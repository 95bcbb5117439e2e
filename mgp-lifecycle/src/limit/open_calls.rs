//! The calls that asked their callers questions and wait for their next round. All rounds of a call count once.

use std::cmp::Reverse;
use std::collections::HashMap;

use bytestring::ByteString;

use super::caller::Caller;

/// The maximum number of calls that are remembered until their next round. At this limit the oldest call of the caller
/// with the most calls is forgotten, and its next round counts as a new call.
const MAX_OPEN_CALLS: usize = 1024;

/// The maximum number of rounds after the first round that do not count. By default, a call cannot have more rounds
/// anyway; the limit is for a caller that sends a refused round again and again.
const MAX_ROUNDS: u32 = 16;

/// The calls that wait for their next round, by their logical id, which all rounds of a call share. Each entry has a
/// sequence number, the caller and how much of the limit the call has used so far.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: HashMap<ByteString, (u64, Caller, RoundUse)>,
    next: u64,
}

/// The part of a limit that the rounds (requests) of one call have used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RoundUse {
    /// The number of rounds after the first round.
    pub(super) rounds: u32,
    /// The units of a quota that tools charged in these rounds.
    pub(super) units: u64,
}

impl OpenCalls {
    /// Records that a call will continue in another round, unless it has had too many rounds already.
    pub(super) fn insert(&mut self, logical: ByteString, caller: Caller, used: RoundUse) {
        let used = RoundUse { rounds: used.rounds.saturating_add(1), ..used };
        if used.rounds > MAX_ROUNDS {
            return;
        }
        self.next += 1;
        self.calls.insert(logical, (self.next, caller, used));
        if self.calls.len() > MAX_OPEN_CALLS
            && let Some(oldest) = self.oldest_of_most()
        {
            self.calls.remove(&oldest);
        }
    }

    /// Removes a call that waits for its next round, and returns how much of the limit it has used. If a caller sends
    /// the same round twice, the second round therefore counts as a new call.
    pub(super) fn resume(&mut self, logical: &ByteString, caller: &Caller) -> Option<RoundUse> {
        let (_, owner, used) = self.calls.get(logical)?;
        if owner != caller {
            return None;
        }
        let used = *used;
        self.calls.remove(logical);
        Some(used)
    }

    /// Returns the logical id of the oldest waiting call of the caller that has the most waiting calls.
    fn oldest_of_most(&self) -> Option<ByteString> {
        let mut counts = HashMap::<&Caller, usize>::new();
        for (_, caller, _) in self.calls.values() {
            *counts.entry(caller).or_default() += 1;
        }
        let order = |(_, (age, caller, _)): &(&ByteString, &(u64, Caller, RoundUse))| {
            (Reverse(counts.get(caller).copied()), *age)
        };
        self.calls.iter().min_by_key(order).map(|(logical, _)| logical.clone())
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::Principal;

    use super::*;

    fn caller(name: &str) -> Caller {
        Caller::of(&Principal::new("t", name))
    }

    #[test]
    fn open_calls_are_bounded_and_belong_to_their_caller() {
        let mut open = OpenCalls::default();
        open.insert("bob".into(), caller("bob"), RoundUse::default());
        for number in 0..MAX_OPEN_CALLS as u64 {
            let used = RoundUse { rounds: 0, units: number };
            open.insert(number.to_string().into(), caller("ann"), used);
        }
        assert_eq!(open.calls.len(), MAX_OPEN_CALLS);
        assert_eq!(open.resume(&"0".into(), &caller("ann")), None, "the oldest was dropped");
        assert!(open.resume(&"bob".into(), &caller("bob")).is_some(), "others keep their calls");
        assert_eq!(open.resume(&"7".into(), &caller("bob")), None);
        let used = RoundUse { rounds: 1, units: 7 };
        assert_eq!(open.resume(&"7".into(), &caller("ann")), Some(used));
        assert_eq!(open.resume(&"7".into(), &caller("ann")), None, "each round once");
    }

    #[test]
    fn a_round_that_is_sent_again_and_again_counts_after_a_while() {
        let (mut open, ann) = (OpenCalls::default(), caller("ann"));
        let mut used = Some(RoundUse::default());
        let mut free = 0;
        while let Some(last) = used {
            open.insert("one".into(), ann.clone(), last);
            used = open.resume(&"one".into(), &ann);
            free += u32::from(used.is_some());
        }
        assert_eq!(free, MAX_ROUNDS);
    }
}
