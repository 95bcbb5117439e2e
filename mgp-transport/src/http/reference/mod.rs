//! The bytes behind data references: served at signed URLs, and read with resumption and a checksum (proposal 9).
//!
//! A URL contains a sealed token with its expiry, so that no credentials are needed and none can be guessed.

mod body;
mod range;
mod reader;
mod server;
mod table;

use http::HeaderName;

pub use body::digest_file;
pub use reader::{ReferenceError, ReferenceReader};
pub use server::{ReferenceServer, ReferenceSettings};
pub use table::{ReferenceData, RemoteReference};

/// The header by which a server shows that its response is the content of a data reference.
///
/// A URL on this machine is read only from such a server, so that a reference cannot name any other service here.
const PROOF: HeaderName = HeaderName::from_static("mgp-reference");
