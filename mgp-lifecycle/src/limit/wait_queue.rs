//! A round-robin queue of waiting calls: each caller has one turn per round, however many of its calls wait.

use std::collections::{BTreeMap, HashMap};

use super::caller::Caller;

/// The waiting entries of each caller. After an entry of a caller was taken, the caller moves to the end of the round.
#[derive(Debug)]
pub(super) struct WaitQueue<T> {
    callers: HashMap<Caller, CallerQueue<T>, ahash::RandomState>,
    /// The waiting callers in the order of their turns.
    round: BTreeMap<u64, Caller>,
    /// The sequence number of the latest entry or turn; it has 64 bits, so it never overflows.
    next: u64,
    len: usize,
}

/// The entries of one caller, oldest first; never empty.
#[derive(Debug)]
struct CallerQueue<T> {
    turn: u64,
    entries: BTreeMap<u64, T>,
}

pub(super) type EntryId = u64;

impl<T> WaitQueue<T> {
    pub(super) fn new() -> Self {
        Self { callers: HashMap::default(), round: BTreeMap::new(), next: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn len_of(&self, caller: &Caller) -> usize {
        self.callers.get(caller).map_or(0, |queue| queue.entries.len())
    }

    pub(super) fn any(&self, matches: impl Fn(&Caller, &T) -> bool) -> bool {
        let mut callers = self.callers.iter();
        callers.any(|(caller, queue)| queue.entries.values().any(|entry| matches(caller, entry)))
    }

    /// Adds an entry at the end of its caller's queue; a caller without entries gets the last turn.
    pub(super) fn push(&mut self, caller: &Caller, entry: T) -> EntryId {
        self.next += 1;
        let id = self.next;
        if let Some(queue) = self.callers.get_mut(caller) {
            queue.entries.insert(id, entry);
        } else {
            self.round.insert(id, caller.clone());
            let entries = BTreeMap::from([(id, entry)]);
            self.callers.insert(caller.clone(), CallerQueue { turn: id, entries });
        }
        self.len += 1;
        id
    }

    /// Removes an entry from any position in the queue.
    pub(super) fn remove(&mut self, caller: &Caller, id: EntryId) -> Option<T> {
        let queue = self.callers.get_mut(caller)?;
        let entry = queue.entries.remove(&id)?;
        self.len -= 1;
        if queue.entries.is_empty() {
            self.round.remove(&queue.turn);
            self.callers.remove(caller);
        }
        Some(entry)
    }

    /// Removes and returns the next entry that can run. This is the oldest such entry of the first caller in the round
    /// that has one.
    pub(super) fn pop(&mut self, may_run: impl Fn(&Caller, &T) -> bool) -> Option<(Caller, T)> {
        let (turn, id) = self.round.iter().find_map(|(turn, caller)| {
            let entries = &self.callers.get(caller)?.entries;
            let entry = entries.iter().find(|(_, entry)| may_run(caller, entry));
            entry.map(|(id, _)| (*turn, *id))
        })?;
        let caller = self.round.remove(&turn)?;
        let queue = self.callers.get_mut(&caller)?;
        let entry = queue.entries.remove(&id)?;
        self.len -= 1;
        if queue.entries.is_empty() {
            self.callers.remove(&caller);
        } else {
            self.next += 1;
            queue.turn = self.next;
            self.round.insert(self.next, caller.clone());
        }
        Some((caller, entry))
    }

    /// Makes room for another entry of `caller`: removes the newest entry of the caller with the most entries, if that
    /// caller has at least two entries more than `caller`.
    pub(super) fn evict_for(&mut self, caller: &Caller) -> Option<T> {
        let (most, queue) = self.callers.iter().max_by_key(|(_, queue)| queue.entries.len())?;
        if queue.entries.len() <= self.len_of(caller) + 1 {
            return None;
        }
        let (id, _) = queue.entries.last_key_value()?;
        let (most, id) = (most.clone(), *id);
        self.remove(&most, id)
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::Principal;
    use proptest::prelude::*;

    use super::*;

    fn caller(name: u8) -> Caller {
        Caller::of(&Principal::new("t", format!("caller-{name}")))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u8),
        Pop,
        /// Removes the next entry with an even value; entries with odd values cannot run.
        PopEven,
        Remove(usize),
        Evict(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0_u8..4).prop_map(Step::Push),
            3 => Just(Step::Pop),
            1 => Just(Step::PopEven),
            1 => (0_usize..64).prop_map(Step::Remove),
            1 => (0_u8..4).prop_map(Step::Evict),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// Between two turns of a waiting caller, every other caller has at most one turn.
        #[test]
        fn callers_are_served_round_robin(steps in steps()) {
            let mut queue = WaitQueue::new();
            // For each entry: id, caller, value, and the number of turns of each other caller since its caller's last
            // turn.
            let mut waits: Vec<(EntryId, u8, usize, [usize; 4])> = Vec::new();
            for (value, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(name) => {
                        let id = queue.push(&caller(name), (name, value));
                        waits.push((id, name, value, [0; 4]));
                    }
                    Step::Pop => {
                        let taken = queue.pop(|_, _| true);
                        prop_assert_eq!(taken.is_none(), waits.is_empty());
                        let Some((_, (name, value))) = taken else { continue };
                        let oldest = waits.iter().position(|wait| wait.1 == name).unwrap();
                        prop_assert_eq!(waits.remove(oldest).2, value, "its oldest first");
                        for wait in &mut waits {
                            if wait.1 == name {
                                wait.3 = [0; 4];
                            } else {
                                wait.3[usize::from(name)] += 1;
                                prop_assert!(wait.3[usize::from(name)] <= 1, "{:?}", wait);
                            }
                        }
                    }
                    Step::PopEven => {
                        let taken = queue.pop(|_, (_, value)| value % 2 == 0);
                        prop_assert_eq!(taken.is_none(), waits.iter().all(|wait| wait.2 % 2 == 1));
                        if let Some((_, (_, value))) = taken {
                            waits.retain(|wait| wait.2 != value);
                            reset(&mut waits);
                        }
                    }
                    Step::Remove(index) => {
                        if waits.is_empty() {
                            continue;
                        }
                        let (id, name, value, ..) = waits.remove(index % waits.len());
                        prop_assert_eq!(queue.remove(&caller(name), id), Some((name, value)));
                        prop_assert_eq!(queue.remove(&caller(name), id), None);
                        reset(&mut waits);
                    }
                    Step::Evict(name) => {
                        let count = |name| waits.iter().filter(|wait| wait.1 == name).count();
                        let most = (0..4).map(count).max().unwrap_or(0);
                        let evicted = queue.evict_for(&caller(name));
                        prop_assert_eq!(evicted.is_some(), most > count(name) + 1);
                        if let Some((loser, value)) = evicted {
                            prop_assert_eq!(count(loser), most);
                            let newest = waits.iter().rposition(|wait| wait.1 == loser).unwrap();
                            prop_assert_eq!(waits.remove(newest).2, value, "its newest");
                            reset(&mut waits);
                        }
                    }
                }
                prop_assert_eq!(queue.len(), waits.len());
                prop_assert_eq!(queue.round.len(), queue.callers.len());
                for name in 0..4 {
                    let count = waits.iter().filter(|wait| wait.1 == name).count();
                    prop_assert_eq!(queue.len_of(&caller(name)), count);
                }
            }
        }
    }

    /// Resets the counts of turns. After an entry was removed out of turn, the counts so far no longer describe the
    /// round.
    fn reset(waits: &mut [(EntryId, u8, usize, [usize; 4])]) {
        for wait in waits {
            wait.3 = [0; 4];
        }
    }
}
