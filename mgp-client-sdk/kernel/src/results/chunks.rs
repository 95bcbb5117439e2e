//! Applies the limits of a call's result to its streamed chunks: the chunks may contain as much data as the result.

use std::sync::Arc;

use mgp_types::Payload;
use mgp_types::mcp::ContentBlock;
use mgp_types::service::{BoxFuture, Call, Chunk, ConsumerGone, OutletItem, OutletItemKind, Sink};
use mgp_types::sync::Mutex;

use super::part::{Limits, Part, first_part};
use crate::server_answer::is_too_deep;

/// A sink that passes chunks on to another sink until the limits of a result are reached.
struct CappedChunks {
    inner: Arc<dyn Sink>,
    /// The data that further chunks may contain; `None` once a chunk did not fit.
    room: Mutex<Option<Limits>>,
}

/// Makes a call pass chunks on only until these limits are reached.
pub(super) fn cap(call: &mut Call, limits: Limits) {
    let outlet = std::mem::take(&mut call.cx_mut().outlet);
    let room = Mutex::new(Some(limits));
    call.cx_mut().outlet = outlet.wrap(|inner| Arc::new(CappedChunks { inner, room }));
}

impl CappedChunks {
    /// Shortens a chunk to the remaining limits. Returns `None` for a chunk that hosts cannot read or that does not
    /// fit.
    fn fitting(&self, chunk: &Chunk) -> Option<Chunk> {
        if is_too_deep(&chunk.content) {
            return None;
        }
        let mut room = self.room.lock();
        let limits = room.as_mut()?;
        let block = chunk.content.get::<ContentBlock>().ok()?;
        let Part { shown, rest } = first_part(vec![block], limits);
        if rest.is_empty() {
            limits.charge(&shown);
            return Some(chunk.clone());
        }
        *room = None;
        let beginning = shown.first().filter(|block| block.as_text().is_some())?;
        Some(Chunk::new(Payload::of(beginning).ok()?))
    }
}

impl Sink for CappedChunks {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        match item {
            OutletItem::Chunk(chunk) => match self.fitting(&chunk) {
                Some(chunk) => self.inner.send(OutletItem::Chunk(chunk)),
                // Drop a chunk beyond the limit instead of refusing it, so that the tool continues to run. The caller
                // can read the complete result of the call in parts.
                None => Box::pin(std::future::ready(Ok(()))),
            },
            item => self.inner.send(item),
        }
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.inner.wants(kind)
    }
}
