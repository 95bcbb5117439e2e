//! The maximum total size of the chunks of one call (MGP §12.4; §14.3, code 3001, resource exhausted).

use std::sync::Arc;

use super::Context;
use crate::sync::Mutex;

/// The maximum total size of the chunks of one call, in bytes of JSON.
///
/// The layer that sends the chunks of a call to its caller stores this value in the extensions of the call, and checks
/// it for each chunk. Inner layers and tools can lower the limit.
///
/// ```
/// use mgp_types::service::StreamLimit;
///
/// let limit = StreamLimit::default();
/// assert_eq!(limit.bytes(), 16 << 20);
/// // The first restriction replaces the default; afterwards the lowest counts.
/// limit.restrict(64 << 20, Some("`limits.max_stream_bytes`"));
/// limit.restrict(1 << 20, None);
/// limit.restrict(2 << 20, None);
/// assert_eq!((limit.bytes(), limit.setting()), (1 << 20, None));
/// ```
#[derive(Debug)]
pub struct StreamLimit(Mutex<Current>);

#[derive(Debug)]
struct Current {
    bytes: u64,
    is_default: bool,
    setting: Option<Arc<str>>,
}

impl StreamLimit {
    /// The maximum that applies if no layer or tool sets another maximum.
    pub const DEFAULT_BYTES: u64 = 16 << 20;

    /// Creates a limit; the first call of [`restrict`](Self::restrict) replaces it.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Mutex::new(Current { bytes, is_default: true, setting: None }))
    }

    /// Returns the limit of a call; `None` if its caller wants no chunks.
    #[must_use]
    pub fn of(cx: &Context) -> Option<&Self> {
        cx.extensions.get()
    }

    /// Replaces the default, or lowers a maximum that was set before; a higher maximum has no effect. `setting` is the
    /// configuration key of the new maximum, in backticks, because refusals quote it unchanged.
    pub fn restrict(&self, bytes: u64, setting: Option<&str>) {
        let mut current = self.0.lock();
        if current.is_default || bytes < current.bytes {
            *current = Current { bytes, is_default: false, setting: setting.map(Into::into) };
        }
    }

    /// Returns the maximum size, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }

    /// Returns the key of the configuration that sets the maximum size, if any.
    #[must_use]
    pub fn setting(&self) -> Option<Arc<str>> {
        self.0.lock().setting.clone()
    }
}

impl Default for StreamLimit {
    fn default() -> Self {
        Self::new(Self::DEFAULT_BYTES)
    }
}
