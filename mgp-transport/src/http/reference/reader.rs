//! A reader of data references: it resumes after a broken connection, and checks size and checksum at the end.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use mgp_types::RpcError;
use mgp_types::service::{FetchError, FetchRequest, is_loopback_host};
use sha2::{Digest as _, Sha256};

use super::PROOF;
use super::body::{ByteStream, received};
use super::fault::OriginFault;
use super::range::content_range;
use super::table::RemoteReference;
use crate::http::GuardedFetch;

/// The number of interruptions after which a read fails, if no data arrives between them.
const MAX_ATTEMPTS: u32 = 5;

/// A reason why a reference cannot be served or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// There are too many references, or too many bytes in memory.
    #[error("too many data references are open; read some, or wait until they expire")]
    Full,
    /// The address must not be reached, or could not be reached.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The server refused the URL: it has expired, was changed, or does not belong to a reference.
    #[error("the data reference cannot be read: the server answered {0}; export the data again")]
    Refused(u16),
    /// The server of the URL passes on data of another server, and could not read them there.
    #[error("the data reference cannot be read from the server that exported the data: {0}")]
    Origin(OriginFault),
    /// The response does not come from a server of data references: it comes from another service of this machine, or
    /// it is compressed.
    #[error("the URL of the data reference does not lead to a server of data references")]
    Foreign,
    /// The connection over which the data was read broke too often, or the server could not resume.
    #[error("reading the data reference was interrupted: {0}")]
    Interrupted(String),
    /// The data of the reference has more bytes than this limit.
    #[error("the data has more than {0} bytes")]
    TooLarge(u64),
    /// The size of the data differs from the size that the reference names.
    #[error("the data has {found} bytes, and the data reference names {expected}")]
    Size {
        /// The number of bytes that were read.
        found: u64,
        /// The number of bytes that the reference names.
        expected: u64,
    },
    /// The checksum of the data differs from the checksum in the reference.
    #[error("the checksum of the data differs from that of the data reference")]
    Checksum,
    /// The operating system provides no randomness.
    #[error(transparent)]
    System(#[from] RpcError),
}

/// A reader that returns the bytes of a reference piece by piece.
///
/// If the connection breaks, the reader resumes at the position that it reached. The size and the checksum are compared
/// after the last piece, so the data must not be used before [`next`](Self::next) has returned `None`.
#[derive(Debug)]
pub struct ReferenceReader {
    remote: RemoteReference,
    size: Option<u64>,
    sha256: Option<Vec<u8>>,
    max_bytes: u64,
    hasher: Sha256,
    read: u64,
    attempts: u32,
    pieces: Pieces,
}

/// The pieces of the open response; `None` if no response is open.
struct Pieces(Option<ByteStream>);

mgp_types::opaque_debug!(Pieces);

impl ReferenceReader {
    /// Creates a reader; nothing is sent before the first piece is read.
    #[must_use]
    pub fn new(url: impl Into<String>, fetch: Arc<GuardedFetch>) -> Self {
        Self {
            remote: RemoteReference { url: url.into(), fetch },
            size: None,
            sha256: None,
            max_bytes: u64::MAX,
            hasher: Sha256::new(),
            read: 0,
            attempts: 0,
            pieces: Pieces(None),
        }
    }

    /// Sets the expected size and SHA-256 checksum, as stated in the reference.
    #[must_use]
    pub fn expect(mut self, size: Option<u64>, sha256: Option<Vec<u8>>) -> Self {
        (self.size, self.sha256) = (size, sha256);
        self
    }

    /// Sets the maximum number of bytes that are read.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Returns the next piece. After the last piece, checks the size and the checksum, and returns `None` if both are
    /// correct.
    ///
    /// # Errors
    /// Returns [`ReferenceError`]; the reader must not be used again.
    ///
    /// # Cancel safety
    /// If the future is dropped, no byte is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ReferenceError> {
        if self.size.is_some_and(|size| size > self.max_bytes) {
            return Err(ReferenceError::TooLarge(self.max_bytes));
        }
        loop {
            let Some(pieces) = &mut self.pieces.0 else {
                let opened = open_remote(&self.remote, self.read).await?;
                self.size = self.size.or(opened.size);
                self.pieces = Pieces(Some(opened.pieces));
                continue;
            };
            let broken = match pieces.next().await {
                Some(Ok(piece)) => return self.take(piece).map(Some),
                None if self.size.is_none_or(|size| self.read >= size) => {
                    return self.check_whole().map(|()| None);
                }
                None => "the response ended early".to_owned(),
                Some(Err(error)) => error.to_string(),
            };
            self.pieces = Pieces(None);
            self.attempts += 1;
            if self.attempts >= MAX_ATTEMPTS {
                let why = format!("{broken}; gave up after {MAX_ATTEMPTS} interruptions in a row");
                return Err(ReferenceError::Interrupted(why));
            }
            tracing::debug!(read = self.read, broken, "resuming a data reference");
        }
    }

    /// Returns all bytes of the reference.
    ///
    /// # Errors
    /// Returns [`ReferenceError`] if the data cannot be read or checked.
    ///
    /// # Cancel safety
    /// If the future is dropped, the bytes that were read are lost.
    pub async fn read_to_end(mut self) -> Result<Vec<u8>, ReferenceError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    fn take(&mut self, piece: Bytes) -> Result<Bytes, ReferenceError> {
        self.read += piece.len() as u64;
        self.attempts = 0;
        if self.read > self.max_bytes {
            return Err(ReferenceError::TooLarge(self.max_bytes));
        }
        if let Some(expected) = self.size.filter(|size| self.read > *size) {
            return Err(ReferenceError::Size { found: self.read, expected });
        }
        self.hasher.update(&piece);
        Ok(piece)
    }

    fn check_whole(&mut self) -> Result<(), ReferenceError> {
        let found = std::mem::take(&mut self.hasher).finalize();
        match &self.sha256 {
            Some(expected) if found[..] != expected[..] => Err(ReferenceError::Checksum),
            _ => Ok(()),
        }
    }
}

/// A response with the data of another server's reference.
pub(super) struct Opened {
    pub(super) pieces: ByteStream,
    /// The total size of the data, if the response names it.
    pub(super) size: Option<u64>,
}

/// Requests the data of another server's reference, beginning at a position.
pub(super) async fn open_remote(
    remote: &RemoteReference,
    from: u64,
) -> Result<Opened, ReferenceError> {
    let mut request = FetchRequest::get(&*remote.url);
    if from > 0 {
        request = request.header("range", format!("bytes={from}-"));
    }
    let response = remote.fetch.open(request).await?;
    let headers = response.headers();
    let is_here = remote.url.parse::<http::Uri>().ok();
    let is_here = is_here.is_some_and(|url| url.host().is_some_and(is_loopback_host));
    if is_here && !headers.contains_key(PROOF) && response.status().is_success() {
        return Err(ReferenceError::Foreign);
    }
    let is_encoded = headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
    let size = match (response.status(), content_range(headers)) {
        _ if is_encoded => return Err(ReferenceError::Foreign),
        (StatusCode::OK, _) if from == 0 => {
            let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
            length.and_then(|length| length.parse().ok())
        }
        (StatusCode::PARTIAL_CONTENT, Some((start, size))) if start == from => size,
        (StatusCode::OK | StatusCode::PARTIAL_CONTENT, _) => {
            return Err(ReferenceError::Interrupted("the server cannot resume".to_owned()));
        }
        (status, _) => {
            let refused = ReferenceError::Refused(status.as_u16());
            return Err(OriginFault::read(headers).map_or(refused, ReferenceError::Origin));
        }
    };
    Ok(Opened { pieces: received(response.into_body()), size })
}
