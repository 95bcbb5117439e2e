//! A server that serves data references at signed URLs.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use mgp_types::service::BoxFuture;
use mgp_types::sync::Mutex;
use mgp_types::{RpcError, Sealer, random_name};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tower_service::Service;

use super::PROOF;
use super::body::{ByteStream, ReferenceBody, read_file};
use super::fault::OriginFault;
use super::range::ByteRange;
use super::reader::{ReferenceError, open_remote};
use super::table::{Entry, ReferenceData, ReferenceTable};
use crate::http::{ConnectionLimits, listen};

/// The purpose for which the tokens in the URLs of references are sealed.
const SEAL_PURPOSE: &str = "data_reference";

/// The beginning of the path of all references, before the token.
const PATH: &str = "/references/";

/// Settings of a [`ReferenceServer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReferenceSettings {
    /// The address to listen on. Default: a free port of `127.0.0.1`.
    pub listen: SocketAddr,
    /// The beginning of the URLs, if clients reach the server at another address, e.g. through a proxy.
    pub url: Option<String>,
    /// The maximum number of references that exist at the same time. Default: 1,024.
    pub max_references: usize,
    /// The maximum number of bytes in memory for all references together. Default: 64 MiB.
    pub max_bytes: usize,
    /// The maximum number of open connections of clients; further clients wait. Default: 64.
    pub max_readers: usize,
}

impl Default for ReferenceSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            url: None,
            max_references: 1024,
            max_bytes: 64 << 20,
            max_readers: 64,
        }
    }
}

/// A server that serves the data of references at URLs that expire. Clones are cheap; dropping the last clone stops the
/// server.
///
/// ```
/// use std::time::Duration;
///
/// use mgp_transport::http::{ReferenceData, ReferenceServer, ReferenceSettings};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = ReferenceServer::start(ReferenceSettings::default()).await.unwrap();
/// let data = ReferenceData::Bytes("a,b\n1,2\n".into());
/// let minute = Duration::from_secs(60);
/// let id = server.insert(data, "text/csv", Some(8), minute).unwrap();
/// assert!(server.url(&id, minute).unwrap().starts_with("http://127.0.0.1:"));
/// # });
/// ```
#[derive(Clone)]
pub struct ReferenceServer {
    shared: Arc<Shared>,
    _stop: Arc<oneshot::Sender<()>>,
}

struct Shared {
    sealer: Sealer,
    /// The beginning of the URLs of all references, without a slash at its end.
    base: String,
    address: SocketAddr,
    settings: ReferenceSettings,
    table: Mutex<ReferenceTable>,
}

mgp_types::opaque_debug!(ReferenceServer);

impl ReferenceServer {
    /// Binds the address and starts to serve.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or if the operating system provides no randomness.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is served.
    pub async fn start(settings: ReferenceSettings) -> io::Result<Self> {
        let sealer = Sealer::random().map_err(io::Error::other)?;
        let listener = TcpListener::bind(settings.listen).await?;
        let address = listener.local_addr()?;
        let base = settings.url.clone().unwrap_or_else(|| format!("http://{address}"));
        let base = base.trim_end_matches('/').to_owned();
        let limits =
            ConnectionLimits { connections: settings.max_readers, ..ConnectionLimits::default() };
        let shared = Shared { sealer, base, address, settings, table: Mutex::default() };
        let shared = Arc::new(shared);
        let (stop, stopped) = oneshot::channel::<()>();
        let service = ReferenceService(Arc::clone(&shared));
        tokio::spawn(listen(listener, service, limits, async {
            // When the last handle is dropped, this wait ends with an error, and the server stops.
            let _ = stopped.await;
        }));
        Ok(Self { shared, _stop: Arc::new(stop) })
    }

    /// Adds a reference, which is served for `ttl`, and returns its id.
    ///
    /// # Errors
    /// Returns [`ReferenceError::Full`] if there are too many references or bytes, and [`ReferenceError::System`] if
    /// the system has no randomness.
    pub fn insert(
        &self,
        data: ReferenceData,
        mime_type: impl Into<String>,
        size: Option<u64>,
        ttl: Duration,
    ) -> Result<String, ReferenceError> {
        let id = random_name()?;
        let entry = Entry::new(data, mime_type.into(), size, ttl);
        let Shared { settings, table, .. } = &*self.shared;
        let (entries, bytes) = (settings.max_references, settings.max_bytes);
        table.lock().insert(id.clone(), entry, entries, bytes)?;
        Ok(id)
    }

    /// Removes a reference; its URLs are refused from now on.
    pub fn remove(&self, id: &str) {
        self.shared.table.lock().remove(id);
    }

    /// Returns a URL at which the reference, while it exists, can be read for `ttl` without credentials.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the system has no randomness.
    pub fn url(&self, id: &str, ttl: Duration) -> Result<String, RpcError> {
        let token = self.shared.sealer.seal(SEAL_PURPOSE, &[], ttl, id.as_bytes())?;
        Ok(format!("{}{PATH}{token}", self.shared.base))
    }

    /// Returns the beginning of all URLs.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.shared.base
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.address
    }
}

#[derive(Clone)]
struct ReferenceService(Arc<Shared>);

impl Service<Request<Incoming>> for ReferenceService {
    type Response = Response<ReferenceBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(
            async move { Ok(shared.answer(&request).await.unwrap_or_else(Refusal::into_response)) },
        )
    }
}

/// The response that refuses a request for the data of a reference.
struct Refusal {
    status: StatusCode,
    fault: Option<OriginFault>,
}

impl From<StatusCode> for Refusal {
    fn from(status: StatusCode) -> Self {
        Self { status, fault: None }
    }
}

impl From<OriginFault> for Refusal {
    fn from(fault: OriginFault) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, fault: Some(fault) }
    }
}

impl Refusal {
    fn into_response(self) -> Response<ReferenceBody> {
        let text = self.fault.map(|fault| ReferenceError::Origin(fault).to_string());
        let text = Bytes::from(text.unwrap_or_default());
        let length = Some(text.len() as u64);
        let body = ReferenceBody::new(Box::pin(stream::iter([Ok(text)])), length);
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        if let Some(fault) = self.fault {
            fault.write(response.headers_mut());
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, text);
        }
        response
    }
}

impl Shared {
    async fn answer(
        &self,
        request: &Request<Incoming>,
    ) -> Result<Response<ReferenceBody>, Refusal> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Err(StatusCode::METHOD_NOT_ALLOWED.into());
        }
        let token = request.uri().path().rsplit_once(PATH).map(|(_, token)| token);
        let id = token.and_then(|token| self.sealer.open(SEAL_PURPOSE, &[], token).ok());
        let id = id.and_then(|id| String::from_utf8(id).ok()).ok_or(StatusCode::FORBIDDEN)?;
        let entry = self.table.lock().get(&id).ok_or(StatusCode::GONE)?;
        let range = ByteRange::of(request.headers());
        let from = range.map_or(0, |range| range.from);
        if range.is_some() && entry.size.is_some_and(|size| from >= size) {
            return Err(StatusCode::RANGE_NOT_SATISFIABLE.into());
        }
        let (pieces, size) = if request.method() == Method::HEAD {
            (Box::pin(stream::empty()) as ByteStream, entry.size)
        } else {
            open(&entry, from).await?
        };
        let length = range.map_or(size, |range| range.length(size));
        let body = ReferenceBody::new(pieces, length);
        let mut response = Response::new(body);
        if range.is_some() {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        write_headers(&mut response, &entry, from, length, size);
        if request.method() == Method::HEAD {
            *response.body_mut() = ReferenceBody::empty();
        }
        Ok(response)
    }
}

/// Opens the data of a reference at a position; also returns the total size of the data, if it is known.
async fn open(entry: &Entry, from: u64) -> Result<(ByteStream, Option<u64>), Refusal> {
    match &entry.data {
        ReferenceData::Bytes(bytes) => {
            let from = usize::try_from(from).unwrap_or(usize::MAX).min(bytes.len());
            let rest = bytes.slice(from..);
            Ok((Box::pin(stream::iter([Ok(rest)])), entry.size))
        }
        ReferenceData::File(path) => {
            let pieces = read_file(path, from).await;
            let pieces = pieces.inspect_err(|error| tracing::warn!(%error, path = %path.display(), "a referenced file cannot be read"));
            Ok((pieces.map_err(|_| StatusCode::GONE)?, entry.size))
        }
        ReferenceData::Remote(remote) => {
            let opened = open_remote(remote, from).await.map_err(|error| {
                if matches!(error, ReferenceError::Refused(416)) {
                    return Refusal::from(StatusCode::RANGE_NOT_SATISFIABLE);
                }
                tracing::warn!(%error, "a reference cannot be read from its server");
                OriginFault::of(&error).into()
            })?;
            // If the reference names a smaller size than the data have, the response would end early without an error.
            // So a wrong size is refused here.
            if let (Some(named), Some(found)) = (entry.size, opened.size)
                && named != found
            {
                tracing::warn!(named, found, "a reference has another size than its server named");
                return Err(OriginFault::Size.into());
            }
            Ok((opened.pieces, entry.size.or(opened.size)))
        }
    }
}

fn write_headers(
    response: &mut Response<ReferenceBody>,
    entry: &Entry,
    from: u64,
    length: Option<u64>,
    size: Option<u64>,
) {
    let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
    let headers = response.headers_mut();
    let mime_type = HeaderValue::from_str(&entry.mime_type);
    let unknown = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, mime_type.unwrap_or(unknown));
    // A browser must not execute data that a server exported, so forbid it to guess the media type.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(PROOF, HeaderValue::from_static("1"));
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if let (true, Some(length)) = (is_part, length.filter(|length| *length > 0)) {
        let size = size.map_or_else(|| "*".to_owned(), |size| size.to_string());
        let range = format!("bytes {from}-{}/{size}", from + (length - 1));
        if let Ok(range) = HeaderValue::from_str(&range) {
            headers.insert(CONTENT_RANGE, range);
        }
    }
}
