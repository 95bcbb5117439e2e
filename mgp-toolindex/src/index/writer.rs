//! What only one change at a time may touch (MGP §16.4).
//!
//! Applies to: inbound.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use mgp_types::mgp::ToolSecurity;

use super::numbers::Numbers;
use crate::catalog::{LabelMaker, Pool};
use crate::error::IndexError;
use crate::keyword::Keywords;

/// The writing side of an index.
#[derive(Debug)]
pub(crate) struct Writer {
    /// None before the first change: an index that nobody uses has no threads.
    pub(super) keywords: Option<Keywords>,
    pub(super) labels: LabelMaker,
    pub(super) slots: Numbers,
    pub(super) servers: Numbers,
    securities: Pool<ToolSecurity>,
    /// Segments that are being merged.
    pub(super) merging: Option<Arc<Done>>,
}

/// Work of another thread that is done or not.
#[derive(Debug, Default)]
pub(super) struct Done {
    done: Mutex<bool>,
    changed: Condvar,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            keywords: None,
            labels: LabelMaker::new(),
            slots: Numbers::default(),
            servers: Numbers::default(),
            securities: Pool::default(),
            merging: None,
        }
    }

    /// The keyword index, which is made when it is needed first.
    pub(super) fn keywords(&mut self) -> Result<&mut Keywords, IndexError> {
        match &mut self.keywords {
            Some(keywords) => Ok(keywords),
            none => Ok(none.insert(Keywords::new()?)),
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

impl Done {
    pub(super) fn set(&self) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    pub(super) fn is_set(&self) -> bool {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait(&self) {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(done, |done| !*done).unwrap_or_else(PoisonError::into_inner));
    }
}
