//! The limit of files that this process may open.
//!
//! A process with many servers needs several descriptors for each server, but its limit is often low: macOS gives 256
//! to applications and to the programs that they start. So this module raises the limit.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that [`raise_open_files`] sets, if the system permits it. macOS refuses a higher limit.
const OPEN_FILES: u64 = 10_240;

/// The limit before [`raise_open_files`] raised it.
static EARLIER: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit of files that this process may open as far as the system permits, at most to 10,240.
///
/// On Linux, programs that [`ChildCommand`](crate::ChildCommand) starts keep the earlier limit.
pub fn raise_open_files() {
    let earlier = getrlimit(Resource::Nofile);
    let Some(soft) = earlier.current else { return };
    let current = earlier.maximum.map_or(OPEN_FILES, |hard| hard.min(OPEN_FILES));
    let raised = Rlimit { current: Some(current), ..earlier };
    // A failure is ignored: this process works as before, but can have fewer servers.
    if current > soft && setrlimit(Resource::Nofile, raised).is_ok() {
        let _ = EARLIER.set(earlier);
    }
}

/// Returns the limit before [`raise_open_files`] raised it; `None` if the limit was not raised.
#[cfg(target_os = "linux")]
pub(super) fn earlier_limit() -> Option<Rlimit> {
    EARLIER.get().copied()
}
