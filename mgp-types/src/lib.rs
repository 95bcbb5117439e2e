//! The vocabulary.
pub mod mcp;
pub mod method;
pub mod mgp;
mod record;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "schema")]
pub mod spec;
mod timestamp;
mod wire;
pub use record::{Extras, Lenient, List, Maybe, Number, Object, OneOrMany, RawObject};
pub use timestamp::Timestamp;
pub use wire::{Category, ErrorCode, Id, Payload, Recovery, RetryStrategy, RpcError};
