//! Several messages in one array and their answers in one (MCP 2025-03-26 only).
//!
//! Applies to: inbound.

use std::sync::{Arc, Mutex, PoisonError};

/// Collects the answers of one array.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch(Arc<Mutex<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    open: usize,
    text: Vec<u8>,
}

impl Batch {
    /// Counts one more message whose answer is waited for.
    pub(super) fn open(&self) {
        self.with(|answers| answers.open += 1);
    }

    /// Adds the answer of one message, which may be empty; gives the array once it is whole.
    pub(super) fn close(&self, answer: &[u8]) -> Option<Vec<u8>> {
        self.with(|answers| {
            answers.open -= 1;
            if !answer.is_empty() {
                answers.text.push(if answers.text.is_empty() { b'[' } else { b',' });
                answers.text.extend_from_slice(answer);
            }
            if answers.open > 0 || answers.text.is_empty() {
                return None;
            }
            answers.text.push(b']');
            Some(std::mem::take(&mut answers.text))
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Answers) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
