//! The vocabulary of the Model General Protocol: wire types, specification types and the service type.
//!
//! - [`mcp`] and [`mgp`] contain the messages, [`method`] their names and types, [`proposal`] the extensions beyond MGP.
//! - [`service`] contains the types that layers use: `Call`, `Reply`, `Peer`, `Context`, `Router`.
//! - [`dialect`] contains the shapes of other tool protocols.
//! - [`store`] contains state that outlives a call, [`sync`] locks without poisoning.
//! - The crate root contains all other types and functions: ids, payloads, errors, canonical JSON, sealing.
//!
//! Features: `service` (default), `seal` (sealed state), `private-file` (files that contain keys and tokens), `sqlite`
//! (`store::Db`: state in an SQLite file that several processes share; SQLite is compiled in, which requires a C
//! compiler), `schema` (JSON Schemas of the messages, the generated page of methods, and the check of example
//! messages), `skills` (the frontmatter of skills), `interleave` (locks whose order a test chooses).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backoff;
mod canonical;
mod clip;
pub mod dialect;
mod duration;
#[cfg(feature = "skills")]
mod frontmatter;
mod hex;
mod hidden;
mod letter_case;
mod local_host;
mod macros;
pub mod mcp;
pub mod method;
pub mod mgp;
mod percent;
#[cfg(feature = "private-file")]
mod private_file;
pub mod proposal;
mod record;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "seal")]
mod seal;
#[cfg(feature = "service")]
pub mod service;
#[cfg(feature = "schema")]
pub mod spec;
#[cfg(feature = "service")]
pub mod store;
pub mod sync;
mod timestamp;
mod unique_json;
mod wire;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use backoff::{Backoff, millis};
pub use canonical::{Sha256Hash, canonical, canonical_hash, is_canonical};
pub use clip::clip;
pub use duration::duration_words;
#[cfg(feature = "skills")]
pub use frontmatter::{FrontmatterError, frontmatter};
pub use hex::{from_hex, push_hex, to_hex};
pub use hidden::{escape_hidden, is_hidden};
pub use letter_case::differs_only_in_case;
pub use local_host::{LocalHost, LocalHostError};
pub use percent::percent_decode;
#[cfg(feature = "private-file")]
pub use private_file::{
    FileLock, PrivateFile, PrivateFileError, backup_paths, copy_access, create_own_folder,
    is_other_file, is_same_file,
};
#[cfg(feature = "service")]
pub use record::Members;
pub use record::{Extras, Lenient, List, Nullable, Number, Object, OneOrMany, RawObject};
#[cfg(feature = "seal")]
pub use seal::{Sealer, UnsealError, random_name};
pub use timestamp::Timestamp;
pub use unique_json::UniqueJson;
pub use wire::{Category, ErrorCode, Id, Payload, Recovery, RetryStrategy, RpcError};
