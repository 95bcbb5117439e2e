//! Helpers shared by the tests of the workspace; a dev-dependency that is never published.
//!
//! The package depends on `mgp-types` only, so that the tests of every other crate can use it. The unit tests of
//! `mgp-types` can use only helpers whose signatures have no types of `mgp-types`.

mod alive;
mod audit;
mod child_test;
mod folder;
mod http_stub;
mod killed_child;
mod memory;
mod net;
mod program;
mod random;
mod raw_peer;
mod recorded_log;
mod stopwatch;
mod store;
mod until;

pub use alive::{Alive, Life};
pub use audit::RefusingAudit;
pub use child_test::{ChildTest, child_role, report};
pub use folder::temp_dir;
pub use http_stub::{HttpRequest, http_response, serve_http};
pub use killed_child::KilledChild;
pub use memory::process_memory;
pub use net::{cutting_proxy, http_exchange, unused_address};
pub use program::{example, program};
pub use random::Random;
pub use raw_peer::{RawPeer, hello, modern_meta};
pub use recorded_log::RecordedLog;
pub use stopwatch::Stopwatch;
pub use store::{FaultyStore, StoreAnswer, store_busy};
pub use tempfile::TempDir;
pub use until::{sleep_in_parts, until, until_blocking, until_shown};
