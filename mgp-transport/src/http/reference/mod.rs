//! Serves the data of data references at signed URLs, and reads such data with resumption and a checksum (extension
//! `data_references`).
//!
//! A URL contains a sealed token with an expiry time, so that reading needs no credentials, and URLs cannot be guessed.

mod body;
mod fault;
mod range;
mod reader;
mod server;
mod table;

use http::HeaderName;

pub use body::digest_file;
pub use fault::OriginFault;
pub use reader::{ReferenceError, ReferenceReader};
pub use server::{ReferenceServer, ReferenceSettings};
pub use table::{ReferenceData, RemoteReference};

/// The header that marks a response as containing the data of a data reference.
///
/// If a URL is on this machine, the response is accepted only with this header, so that a reference cannot read any
/// other service of this machine.
const PROOF: HeaderName = HeaderName::from_static("mgp-reference");
