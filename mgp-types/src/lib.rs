//! The vocabulary.
mod wire;
pub use wire::{Category, ErrorCode, Id, Payload, Recovery, RetryStrategy, RpcError};
