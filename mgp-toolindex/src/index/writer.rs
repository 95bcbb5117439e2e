//! What only one change at a time may touch (MGP §16.4).
//!
//! Applies to: inbound.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mgp_types::mgp::ToolSecurity;

use super::numbers::Numbers;
use crate::catalog::{LabelMaker, Pool};
use crate::keyword::{Keywords, Merged};

/// The writing side of an index.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) keywords: Keywords,
    pub(super) labels: LabelMaker,
    pub(super) slots: Numbers,
    pub(super) servers: Numbers,
    securities: Pool<ToolSecurity>,
    /// How many documents came and went since the words were kept.
    #[cfg(feature = "sqlite")]
    pub(super) unkept: usize,
    /// Parts of the keyword index that are being made one.
    pub(super) merging: Option<Arc<Merging>>,
}

/// What another thread makes of some parts.
#[derive(Debug, Default)]
pub(super) struct Merging {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    #[default]
    Running,
    /// Nothing where it failed, and where somebody has it already.
    Done(Option<Box<Merged>>),
}

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            keywords: Keywords::new(),
            labels: LabelMaker::new(),
            slots: Numbers::default(),
            servers: Numbers::default(),
            securities: Pool::default(),
            #[cfg(feature = "sqlite")]
            unkept: 0,
            merging: None,
        }
    }

    /// The same object for the same metadata: most tools say one of a few things.
    pub(super) fn security(&mut self, security: ToolSecurity) -> Arc<ToolSecurity> {
        match serde_json::to_string(&security) {
            Ok(key) => self.securities.get(&key, || Arc::new(security)),
            Err(_) => Arc::new(security),
        }
    }
}

impl Merging {
    pub(super) fn end(&self, merged: Option<Merged>) {
        *self.lock() = State::Done(merged.map(Box::new));
        self.changed.notify_all();
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(*self.lock(), State::Done(_))
    }

    /// What became of it, once; waits for that.
    pub(super) fn take(&self) -> Option<Merged> {
        let is_running = |state: &mut State| matches!(state, State::Running);
        let state = self.changed.wait_while(self.lock(), is_running);
        match &mut *state.unwrap_or_else(PoisonError::into_inner) {
            State::Running => None,
            State::Done(merged) => merged.take().map(|merged| *merged),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Running => "Running",
            Self::Done(_) => "Done",
        })
    }
}
