//! Arrays of messages: the batches of MCP 2025-03-26, and the arrays of servers that write them in any revision.

use std::task::Context as Task;

use bytestring::ByteString;
use mgp_types::RpcError;
use mgp_types::service::WireRules;
use tokio::io::{AsyncRead, AsyncWrite};

use super::driver::Driver;
use super::running::Batch;

impl<R, W> Driver<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Dispatches the messages of an array. If `outer` is set, the array is itself an item of that batch, and is
    /// refused, because batches cannot contain batches.
    pub(super) fn dispatch_batch(
        &mut self,
        items: Vec<ByteString>,
        outer: Option<&Batch>,
        task: &mut Task<'_>,
    ) {
        let is_inner = outer.is_some();
        if !is_inner && self.connection.scope.state::<WireRules>().accepts_batches() {
            return self.dispatch_items(items, task);
        }
        if !is_inner && self.is_child() {
            return self.dispatch_array_of_child(items, task);
        }
        let error = RpcError::invalid_request(
            "batches (several messages in one array) are not part of this revision",
        );
        self.refuse(None, outer, error);
    }

    fn dispatch_items(&mut self, items: Vec<ByteString>, task: &mut Task<'_>) {
        let batch = Batch::new(&self.connection.counters);
        // The batch itself counts as one message without answer until all its messages are dispatched; otherwise a fast
        // answer would complete the batch too early.
        batch.open();
        for item in items {
            if let Some((message, size)) = self.parse_message(item, Some(&batch)) {
                self.dispatch(message, size, Some(&batch), task);
            }
        }
        self.answer_batch(&batch, &[]);
    }

    /// Dispatches the messages of an array in a revision without batches, because some servers write each answer in an
    /// array. If these answers were ignored, the calls would wait for their time limits. Values that are not objects
    /// are ignored.
    fn dispatch_array_of_child(&mut self, items: Vec<ByteString>, task: &mut Task<'_>) {
        for item in items.into_iter().filter(|item| item.starts_with('{')) {
            if let Some((message, size)) = self.parse_message(item, None) {
                self.dispatch(message, size, None, task);
            }
        }
    }
}
