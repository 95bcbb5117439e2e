//! The answers that this side sends: to finished calls, to messages that are refused, and to batches.

use std::sync::atomic::Ordering;

use mgp_types::service::{Reply, WireRules, write_answer};
use mgp_types::{Id, RpcError};

use super::Connection;
use super::running::{Batch, MAX_SHORT_ANSWER, RunningRequest};
use crate::too_long::batch_too_long;

impl<R, W> Connection<R, W> {
    /// Queues the answer of a call that has finished, and counts the call as ended.
    pub(super) fn answer(&self, request: RunningRequest, outcome: &Result<Reply, RpcError>) {
        let RunningRequest { id, batch, counted } = request;
        // Frees the bytes of the request first, which can make room for its answer.
        drop(counted);
        self.queue_answer(Some(&id), batch.as_ref(), outcome);
    }

    /// Answers a message with an error, without starting a call.
    pub(super) fn refuse(&self, id: Option<&Id>, batch: Option<&Batch>, error: RpcError) {
        tracing::debug!(?id, %error, "refused a message");
        // A child can print lines that are not messages. If it also prints what it reads, each answer to such a line
        // would cause the next line, so no answer is sent.
        if id.is_none() && self.is_child() {
            return;
        }
        // Count the message among those that the batch waits for, because a refused message was not counted when it was
        // read.
        if let Some(batch) = batch {
            batch.open();
        }
        self.queue_answer(id, batch, &Err(self.for_peer(error)));
    }

    /// Removes the recovery hints from an error of this connection, unless the peer accepts such hints.
    fn for_peer(&self, error: RpcError) -> RpcError {
        let takes_recovery = self.scope.state::<WireRules>().allows_recovery();
        if takes_recovery { error } else { error.without_recovery() }
    }

    /// Queues an answer, or adds it to the answers of its batch.
    fn queue_answer(
        &self,
        id: Option<&Id>,
        batch: Option<&Batch>,
        outcome: &Result<Reply, RpcError>,
    ) {
        match batch {
            None => self.send_half.outbox.push_without_wake(|out| write_answer(out, id, outcome)),
            Some(batch) => {
                let mut answer = Vec::new();
                write_answer(&mut answer, id, outcome);
                if !self.has_room(batch, answer.len()) {
                    let error = Err(self.for_peer(batch_too_long(self.limits.line_bytes)));
                    answer.clear();
                    write_answer(&mut answer, id, &error);
                    // If the error has no room together with the id of the request, send it without the id.
                    if !self.has_room(batch, answer.len()) {
                        answer.clear();
                        write_answer(&mut answer, None, &error);
                    }
                }
                self.answer_batch(batch, &answer);
            }
        }
    }

    /// Returns whether an answer of this size can wait for the other answers of its batch. The array must not become
    /// too long for the peer, and its answers count toward the limit `held_bytes`.
    fn has_room(&self, batch: &Batch, size: usize) -> bool {
        let limits = &self.limits;
        let held = self.counters.held.load(Ordering::Relaxed);
        // Reserve 1/64 of the maximum line length for short answers, which are always accepted.
        let room = limits.line_bytes - limits.line_bytes / 64;
        size <= MAX_SHORT_ANSWER
            || batch.size() + size <= room && held.saturating_add(size) <= limits.held_bytes
    }

    /// Adds an answer to the answers of its batch; queues the array once it is complete.
    pub(super) fn answer_batch(&self, batch: &Batch, answer: &[u8]) {
        if let Some(array) = batch.close(answer) {
            self.send_half.outbox.push_without_wake(|out| out.extend_from_slice(&array));
        }
    }
}
