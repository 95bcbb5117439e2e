//! The notifications and requests of a server, i.e. the messages that answer no request. They are kept within a size
//! limit, so that rules can check them.

use std::ops::Deref;

use serde_json::Value;

/// The maximum size of the messages that are kept, in bytes of JSON with [`OVERHEAD`] for each message.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The approximate memory of a message in addition to its text. With it, a flood of short messages is limited too.
const OVERHEAD: usize = 256;

/// Notifications and requests of the server, in order. Once their size reaches a limit, further messages are dropped.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    kept: Vec<Value>,
    bytes: usize,
    has_dropped: bool,
}

/// Returns the approximate memory of a message, in bytes.
pub(crate) fn size(message: &Value) -> usize {
    message.to_string().len() + OVERHEAD
}

impl Notices {
    /// Keeps a message, or drops it if too many are kept.
    pub(crate) fn push(&mut self, message: Value) {
        let bytes = size(&message);
        if self.has_dropped || bytes > MAX_BYTES - self.bytes {
            self.has_dropped = true;
            return;
        }
        self.bytes += bytes;
        self.kept.push(message);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns whether a message was dropped, so that rules about complete sequences cannot be checked.
    pub(crate) fn has_dropped(&self) -> bool {
        self.has_dropped
    }
}

impl Deref for Notices {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.kept
    }
}

impl From<Vec<Value>> for Notices {
    /// Contains the messages of a recording. No message is dropped here, because the recording has its own size limit.
    fn from(kept: Vec<Value>) -> Self {
        Self { kept, ..Self::default() }
    }
}
