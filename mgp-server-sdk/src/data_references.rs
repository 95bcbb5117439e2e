//! Data references: a tool exports data that a tool of another server imports (extension `data_references`).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_transport::http::{
    GuardedFetch, ReferenceData, ReferenceError, ReferenceReader, ReferenceServer,
    ReferenceSettings, digest_file,
};
use mgp_types::mcp::CallToolResult;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Checksum, DataReference};
use mgp_types::service::Context;
use mgp_types::{Payload, RpcError, Sha256Hash, Timestamp, random_name};
use serde::Serialize;
use tokio::sync::OnceCell;

use crate::extension::ServerExtension;
use crate::server::Server;

/// The environment variable by which a kernel passes its address for data references to the servers that it starts.
const KERNEL: &str = "MGP_REFERENCES";

/// The default time for which exported data can be read.
const TTL: Duration = Duration::from_hours(1);

/// The extension `data_references` of a server: tools export and import data by reference, so that the data passes
/// through neither the client nor a model. Cheap to clone.
///
/// Exported data is served over HTTP at URLs that expire. The server begins to listen at the first export.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{DataReferences, FromCaller};
/// use mgp_server_sdk::types::proposal::DataReference;
///
/// let references = DataReferences::new("analytics");
/// let export = Tool::new(
///     "export",
///     "Exports the analysis",
///     |references: State<DataReferences>, cx: Context| async move {
///         let reference = references.0.export_bytes("text/csv", "a,b\n1,2\n").await?;
///         references.0.answer(&cx, &reference)
///     },
/// );
/// let import = Tool::new(
///     "import_from_ref",
///     "Imports exported data",
///     |references: State<DataReferences>, data: FromCaller<DataReference>| async move {
///         let mut bytes = 0;
///         let mut reader = references.0.reader(data.0.as_ref())?;
///         while let Some(piece) = reader.next().await.map_err(RpcError::invalid_params)? {
///             bytes += piece.len();
///         }
///         Ok::<_, RpcError>(format!("imported {bytes} bytes"))
///     },
/// );
/// let server = Server::new("analytics", "1.0").tool(export).tool(import).extension(references);
/// # drop(server);
/// ```
#[derive(Clone)]
pub struct DataReferences(Arc<State>);

#[derive(Clone)]
struct State {
    origin: String,
    settings: ReferenceSettings,
    ttl: Duration,
    allowed_hosts: Vec<String>,
    server: OnceCell<ReferenceServer>,
}

mgp_types::opaque_debug!(DataReferences);

impl DataReferences {
    /// Creates the data references of a server; `origin` is the server's name, which becomes the `origin_server` of its
    /// references.
    #[must_use]
    pub fn new(origin: impl Into<String>) -> Self {
        Self(Arc::new(State {
            origin: origin.into(),
            settings: ReferenceSettings::default(),
            ttl: TTL,
            allowed_hosts: Vec::new(),
            server: OnceCell::new(),
        }))
    }

    /// Sets the address at which other servers read the data. Default: a free port of `127.0.0.1`.
    #[must_use]
    pub fn listen(self, address: SocketAddr) -> Self {
        self.changed(|state| state.settings.listen = address)
    }

    /// Sets the beginning of the URLs of exported data, if other servers reach this server by another address.
    #[must_use]
    pub fn url(self, base: impl Into<String>) -> Self {
        self.changed(|state| state.settings.url = Some(base.into()))
    }

    /// Sets the time for which exported data can be read; it must suffice for the transfer. Default: 1 hour.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.changed(|state| state.ttl = ttl)
    }

    /// Allows imports from a host at any address, e.g. on this machine or in the local network.
    ///
    /// By default, data is imported only over `https` from public addresses, and from the kernel
    /// that started this server.
    #[must_use]
    pub fn allow_host(self, host: impl Into<String>) -> Self {
        self.changed(|state| state.allowed_hosts.push(host.into()))
    }

    fn changed(self, change: impl FnOnce(&mut State)) -> Self {
        let mut state = State::clone(&self.0);
        change(&mut state);
        Self(Arc::new(state))
    }

    /// Exports bytes in memory.
    ///
    /// # Errors
    /// Returns an error if too much data is exported at the same time, or if the address cannot be opened.
    ///
    /// # Cancel safety
    /// If the future is dropped, the data might stay exported until it expires.
    pub async fn export_bytes(
        &self,
        mime_type: &str,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<DataReference, RpcError> {
        let bytes: Vec<u8> = bytes.into();
        let (size, digest) = (bytes.len() as u64, *Sha256Hash::digest(&bytes).as_bytes());
        self.export(mime_type, ReferenceData::Bytes(bytes.into()), size, &digest).await
    }

    /// Exports a file, which must not change as long as the reference is valid.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or for the reasons of [`export_bytes`](Self::export_bytes).
    ///
    /// # Cancel safety
    /// If the future is dropped, the file might stay exported until the reference expires.
    pub async fn export_file(
        &self,
        mime_type: &str,
        path: impl AsRef<Path>,
    ) -> Result<DataReference, RpcError> {
        let path = path.as_ref();
        let (size, digest) = digest_file(path).await.map_err(|error| {
            RpcError::internal(format!("{} cannot be read", path.display())).because(error)
        })?;
        self.export(mime_type, ReferenceData::File(path.to_owned()), size, &digest).await
    }

    async fn export(
        &self,
        mime_type: &str,
        data: ReferenceData,
        size: u64,
        digest: &[u8; 32],
    ) -> Result<DataReference, RpcError> {
        let State { origin, settings, ttl, server, .. } = &*self.0;
        let start = || ReferenceServer::start(settings.clone());
        let server = server.get_or_try_init(start).await.map_err(|error| {
            let message = format!("the address {} of data references", settings.listen);
            RpcError::internal(format!("{message} cannot be opened")).because(error)
        })?;
        let id = server.insert(data, mime_type, Some(size), *ttl);
        let id = id.map_err(|error| RpcError::internal(error.to_string()).because(error))?;
        let mut reference =
            DataReference::new(random_name()?, origin.clone(), mime_type.to_owned());
        reference.size_bytes = Some(size);
        reference.expires_at = SystemTime::now().checked_add(*ttl).map(Timestamp::from);
        reference.access_url = Some(server.url(&id, *ttl)?);
        reference.checksum = Some(Checksum::sha256(digest));
        Ok(reference)
    }

    /// Returns a tool result that contains the reference. The URL of the data is only in `_meta`, which models do
    /// not see, and only if the caller negotiated the extension.
    ///
    /// # Errors
    /// −32603 (internal error) if the reference cannot be written as JSON.
    pub fn answer(
        &self,
        cx: &Context,
        reference: &DataReference,
    ) -> Result<CallToolResult, RpcError> {
        #[derive(Serialize)]
        struct Exported {
            data_reference: DataReference,
        }
        cx.add_to_result(reference)?;
        let shown = Payload::of(&Exported { data_reference: reference.without_url() })?;
        let mut result = CallToolResult::text(shown.as_str());
        result.structured_content = Some(shown);
        Ok(result)
    }

    /// Returns a reader for the data to which a caller refers. A tool function receives the reference as a parameter of
    /// type [`FromCaller<DataReference>`](crate::FromCaller).
    ///
    /// # Errors
    /// −32602 (invalid params) if the caller sent no reference, or a reference without a URL or with a checksum other
    /// than SHA-256, or if the HTTP client cannot be created.
    pub fn reader(&self, reference: Option<&DataReference>) -> Result<ReferenceReader, RpcError> {
        let reference = reference.ok_or_else(|| {
            RpcError::invalid_params("there is no `_meta.data_reference`: export the data first")
        })?;
        let url = reference.access_url.as_deref().ok_or_else(|| {
            RpcError::invalid_params("the data reference has no `access_url` to read from")
        })?;
        let sha256 = reference.checksum.as_ref().map(Checksum::to_sha256).transpose()?;
        let fetch = self.fetch(url).map_err(RpcError::invalid_params)?;
        Ok(ReferenceReader::new(url, Arc::new(fetch)).expect(reference.size_bytes, sha256))
    }

    /// Returns an HTTP client for the data at a URL. It can reach public addresses and the hosts that the author
    /// allowed. If the URL is one of the kernel that started this server, the client can reach the kernel too.
    fn fetch(&self, url: &str) -> Result<GuardedFetch, ReferenceError> {
        let kernel = std::env::var(KERNEL).unwrap_or_default();
        let is_of_kernel = !kernel.is_empty()
            && url.strip_prefix(&kernel).is_some_and(|rest| rest.starts_with('/'));
        let failed = |error| RpcError::internal("the HTTP client cannot be created").because(error);
        let mut fetch = if is_of_kernel {
            GuardedFetch::for_server(&kernel).map_err(failed)?
        } else {
            GuardedFetch::new().map_err(failed)?
        };
        for host in &self.0.allowed_hosts {
            fetch = fetch.allow_host(host).map_err(failed)?;
        }
        Ok(fetch)
    }
}

impl ServerExtension for DataReferences {
    fn extension(&self) -> Extension {
        Extension::DataReferences
    }

    fn install(self, server: Server) -> Server {
        server.state(self)
    }
}
