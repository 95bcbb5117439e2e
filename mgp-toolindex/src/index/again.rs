//! Asks remembered queries again, for a history to learn how much it should be heard (MGP §16.4).
//!
//! Applies to: inbound.

use std::sync::{Arc, Weak};

use super::shared::Shared;
use crate::learn::{Again, Choice, OF_CANDIDATE, Remembered};
use crate::search::{self, View};

/// An index that may be gone: a history must not keep it.
struct Asked(Weak<Shared>);

impl Again for Asked {
    fn ask(&self, remembered: &Remembered) -> Option<Choice<OF_CANDIDATE>> {
        let shared = self.0.upgrade()?;
        let now = shared.snapshot();
        search::ask_again(&View::of(&now, &shared)?, remembered).ok()?
    }
}

impl Shared {
    /// Lets the history ask this index.
    pub(super) fn answer_history(self: &Arc<Self>) {
        if let Some(history) = &self.history {
            history.ask_again(Arc::new(Asked(Arc::downgrade(self))));
        }
    }

    /// Tells the history that there are other tools.
    pub(super) fn tell_history(&self) {
        if let Some(history) = &self.history {
            history.look_again();
        }
    }
}
