//! The vocabulary.
mod record;
mod wire;
pub use record::{Extras, Lenient, Number, Object, OneOrMany, RawObject};
pub use wire::{Category, ErrorCode, Id, Payload, Recovery, RetryStrategy, RpcError};
