//! The JSON-RPC layer: ids, payloads, errors (MGP §1.5, §14).

mod code;
mod error;
mod id;
mod invalid_json;
mod payload;
mod recovery;

pub use code::{Category, ErrorCode};
pub use error::RpcError;
pub use id::Id;
pub use payload::Payload;
pub use recovery::{Recovery, RetryStrategy};
