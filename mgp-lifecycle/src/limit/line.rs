//! Those who wait, in turns: each caller that waits has one place in the round, however much it waits for.
//!
//! Applies to: both.

use std::collections::{BTreeMap, HashMap};

use super::caller::Caller;

/// Waiting places by caller; whose turn it was stands last.
#[derive(Debug)]
pub(super) struct Line<T> {
    lanes: HashMap<Caller, Lane<T>, ahash::RandomState>,
    /// Each caller that waits, in the order of its turn.
    round: BTreeMap<u64, Caller>,
    /// Counts places and turns; it never comes round.
    next: u64,
    len: usize,
}

/// The places of one caller, oldest first; never empty.
#[derive(Debug)]
struct Lane<T> {
    turn: u64,
    places: BTreeMap<u64, T>,
}

/// Names a place in the line.
pub(super) type Number = u64;

impl<T> Line<T> {
    pub(super) fn new() -> Self {
        Self { lanes: HashMap::default(), round: BTreeMap::new(), next: 0, len: 0 }
    }

    /// Places in all.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Places of one caller.
    pub(super) fn len_of(&self, caller: &Caller) -> usize {
        self.lanes.get(caller).map_or(0, |lane| lane.places.len())
    }

    /// Whether a place is one of those.
    pub(super) fn any(&self, is_one: impl Fn(&Caller, &T) -> bool) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.any(|(caller, lane)| lane.places.values().any(|place| is_one(caller, place)))
    }

    /// Puts a caller at the end of its own lane; one that did not wait gets the last turn.
    pub(super) fn push(&mut self, caller: &Caller, place: T) -> Number {
        self.next += 1;
        let number = self.next;
        if let Some(lane) = self.lanes.get_mut(caller) {
            lane.places.insert(number, place);
        } else {
            self.round.insert(number, caller.clone());
            let places = BTreeMap::from([(number, place)]);
            self.lanes.insert(caller.clone(), Lane { turn: number, places });
        }
        self.len += 1;
        number
    }

    /// Takes a place out, wherever it stands.
    pub(super) fn remove(&mut self, caller: &Caller, number: Number) -> Option<T> {
        let lane = self.lanes.get_mut(caller)?;
        let place = lane.places.remove(&number)?;
        self.len -= 1;
        if lane.places.is_empty() {
            self.round.remove(&lane.turn);
            self.lanes.remove(caller);
        }
        Some(place)
    }

    /// Takes out whoever is next among those that may go: the oldest place of the caller whose turn it is.
    pub(super) fn take(&mut self, may_go: impl Fn(&Caller, &T) -> bool) -> Option<(Caller, T)> {
        let (turn, number) = self.round.iter().find_map(|(turn, caller)| {
            let places = &self.lanes.get(caller)?.places;
            let found = places.iter().find(|(_, place)| may_go(caller, place));
            found.map(|(number, _)| (*turn, *number))
        })?;
        let caller = self.round.remove(&turn)?;
        let lane = self.lanes.get_mut(&caller)?;
        let place = lane.places.remove(&number)?;
        self.len -= 1;
        if lane.places.is_empty() {
            self.lanes.remove(&caller);
        } else {
            self.next += 1;
            lane.turn = self.next;
            self.round.insert(self.next, caller.clone());
        }
        Some((caller, place))
    }

    /// Takes the newest place from the caller with the most, if that brings the two closer together.
    pub(super) fn make_room(&mut self, caller: &Caller) -> Option<T> {
        let (most, lane) = self.lanes.iter().max_by_key(|(_, lane)| lane.places.len())?;
        if lane.places.len() <= self.len_of(caller) + 1 {
            return None;
        }
        let (number, _) = lane.places.last_key_value()?;
        let (most, number) = (most.clone(), *number);
        self.remove(&most, number)
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
        Take,
        /// Takes only places of even value.
        TakeEven,
        Remove(usize),
        MakeRoom(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0_u8..4).prop_map(Step::Push),
            3 => Just(Step::Take),
            1 => Just(Step::TakeEven),
            1 => (0_usize..64).prop_map(Step::Remove),
            1 => (0_u8..4).prop_map(Step::MakeRoom),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// Nobody is passed over: between two turns of one who waits, nobody else has more than one.
        #[test]
        fn turns_go_round(steps in steps()) {
            let mut line = Line::new();
            // Number, caller, value, turns of each other since its caller had one.
            let mut waits: Vec<(Number, u8, usize, [usize; 4])> = Vec::new();
            for (value, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(name) => {
                        let number = line.push(&caller(name), (name, value));
                        waits.push((number, name, value, [0; 4]));
                    }
                    Step::Take => {
                        let taken = line.take(|_, _| true);
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
                    Step::TakeEven => {
                        let taken = line.take(|_, (_, value)| value % 2 == 0);
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
                        let (number, name, value, ..) = waits.remove(index % waits.len());
                        prop_assert_eq!(line.remove(&caller(name), number), Some((name, value)));
                        prop_assert_eq!(line.remove(&caller(name), number), None);
                        reset(&mut waits);
                    }
                    Step::MakeRoom(name) => {
                        let count = |name| waits.iter().filter(|wait| wait.1 == name).count();
                        let most = (0..4).map(count).max().unwrap_or(0);
                        let room = line.make_room(&caller(name));
                        prop_assert_eq!(room.is_some(), most > count(name) + 1);
                        if let Some((loser, value)) = room {
                            prop_assert_eq!(count(loser), most);
                            let newest = waits.iter().rposition(|wait| wait.1 == loser).unwrap();
                            prop_assert_eq!(waits.remove(newest).2, value, "its newest");
                            reset(&mut waits);
                        }
                    }
                }
                prop_assert_eq!(line.len(), waits.len());
                prop_assert_eq!(line.round.len(), line.lanes.len());
                for name in 0..4 {
                    let count = waits.iter().filter(|wait| wait.1 == name).count();
                    prop_assert_eq!(line.len_of(&caller(name)), count);
                }
            }
        }
    }

    /// What was counted before somebody left says nothing about the round afterwards.
    fn reset(waits: &mut [(Number, u8, usize, [usize; 4])]) {
        for wait in waits {
            wait.3 = [0; 4];
        }
    }

    #[test]
    fn one_that_waits_for_one_thing_goes_before_the_second_of_a_thousand() {
        let mut line = Line::new();
        for value in 0..1_000 {
            line.push(&caller(0), value);
        }
        line.push(&caller(1), 7_777);
        assert_eq!(line.take(|_, _| true).unwrap().1, 0);
        assert_eq!(line.take(|_, _| true).unwrap().1, 7_777);
        assert_eq!(line.take(|_, _| true).unwrap().1, 1);
    }
}
