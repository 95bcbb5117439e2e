//! Data references (extension `data_references`): the kernel moves data from one server to another, without sending it
//! to a client or a model.
//!
//! A server exports data and returns a reference with the URL of the data. The kernel does not pass this URL on. If the
//! caller passes the reference to a tool of another server, this server gets a URL of the kernel; the kernel forwards
//! the bytes while the server reads them. A server that does not support references gets the data, or such a URL, in an
//! argument.

mod inline;
mod table;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_discovery::{KernelConfig, ServerConfig, TargetConfig};
use mgp_security::{Delegation, Governance};
use mgp_toolindex::IndexedTool;
use mgp_transport::http::{
    Endpoint, GuardedFetch, ReferenceData, ReferenceError, ReferenceReader, ReferenceServer,
    ReferenceSettings, RemoteReference,
};
use mgp_types::mcp::{CallToolResult, ContentBlock, Meta};
use mgp_types::mgp::{Extension, ExtensionSet, Permission, TrustLevel};
use mgp_types::proposal::{CallMembers, Checksum, DataReference, Member as _};
use mgp_types::service::{Call, Context, Principal, ServerId, TenantId, Visibility as _};
use mgp_types::{RpcError, Sha256Hash, Timestamp};
use serde::Deserialize;
use tokio::time::Instant;

use self::table::{KnownReference, KnownReferences, MAX_BYTES, MAX_CALLER_BYTES, MAX_REFERENCES};
use crate::caller_view::CallerView;
use crate::error::KernelError;
use crate::logins;
use crate::results::put_note;

/// The environment variable in which programs that the kernel starts find its address for references.
pub(crate) const VARIABLE: &str = "MGP_REFERENCES";

/// The maximum size of a reference that a server returns, in bytes; a longer one is dropped.
const MAX_REFERENCE_BYTES: usize = 16 * 1024;

/// The references of all callers. This handle is cheap to clone; it contains nothing unless the configuration enables
/// references.
#[derive(Clone, Default)]
pub(crate) struct References(Option<Arc<Broker>>);

struct Broker {
    server: ReferenceServer,
    known: KnownReferences,
    /// The beginning of all URLs at the kernel's own `server` for references.
    own_url: String,
    /// The fetcher of data from the kernel's own `server`.
    own: Arc<GuardedFetch>,
    /// The fetcher of data from other servers on this machine.
    local: Arc<GuardedFetch>,
    /// The fetcher of data from servers on other machines.
    public: Arc<GuardedFetch>,
    keep: Duration,
    max_inline: u64,
}

mgp_types::opaque_debug!(References);

/// The part of a call that names a reference.
#[derive(Debug, Deserialize)]
struct NamedReference {
    ref_id: String,
    #[serde(default)]
    origin_server: Option<String>,
}

impl References {
    /// Starts to serve references if the configuration enables them.
    ///
    /// # Errors
    /// [`KernelError::References`] if the kernel cannot listen on the configured address.
    pub(crate) async fn start(config: &KernelConfig) -> Result<Self, KernelError> {
        Self::bind(config).await.map_err(KernelError::References)
    }

    async fn bind(config: &KernelConfig) -> io::Result<Self> {
        let Some(listen) = config.references.listen else { return Ok(Self::default()) };
        let mut settings = ReferenceSettings::default();
        (settings.listen, settings.url) = (listen, config.references.url.clone());
        (settings.max_references, settings.max_bytes) = (MAX_REFERENCES, MAX_BYTES);
        let server = ReferenceServer::start(settings).await?;
        let address = reachable(server.local_addr());
        let own = GuardedFetch::new().and_then(|own| own.allow_host(address.ip().to_string()));
        let local = GuardedFetch::for_server("http://127.0.0.1/").map_err(io::Error::other)?;
        let public = GuardedFetch::new().and_then(|fetch| fetch.proxy(logins::proxy(config)));
        let broker = Broker {
            server,
            known: KnownReferences::default(),
            own_url: format!("http://{address}"),
            own: Arc::new(own.map_err(io::Error::other)?),
            local: Arc::new(local),
            public: Arc::new(public.map_err(io::Error::other)?),
            keep: config.references.keep,
            max_inline: config.references.max_inline,
        };
        Ok(Self(Some(Arc::new(broker))))
    }

    /// Returns the common beginning of the URLs from which servers read data; `None` if references are not enabled.
    pub(crate) fn base_url(&self) -> Option<&str> {
        self.0.as_ref().map(|broker| broker.server.base_url())
    }

    /// Removes the references of a removed tenant, with their data.
    pub(crate) fn forget_tenant(&self, tenant: &TenantId) {
        let Some(broker) = &self.0 else { return };
        for id in broker.known.remove_tenant(tenant) {
            broker.server.remove(&id);
        }
    }

    /// Returns whether calls of a caller can contain references.
    pub(crate) fn apply_to(&self, cx: &Context) -> bool {
        self.0.is_some() && cx.caller.has(Extension::DataReferences)
    }

    /// Stores the reference that a server added to a result. The caller receives the reference without its URL.
    ///
    /// Drops a reference of a server on this machine if its URL leads to another machine, or if the server is sandboxed
    /// without the permission `network.listen`. Otherwise a program without access to the network could put data into
    /// the URL, and the kernel would send these data to another machine when it reads the URL.
    ///
    /// # Errors
    /// −32603 (internal error) if the reference cannot be written as JSON.
    pub(crate) fn receive(
        &self,
        cx: &Context,
        governance: &Governance,
        server: &ServerConfig,
        tool: &str,
        meta: &mut Meta,
    ) -> Result<(), RpcError> {
        let Some(broker) = self.0.as_ref().filter(|_| meta.get(DataReference::NAME).is_some())
        else {
            return Ok(());
        };
        let bytes = meta.get(DataReference::NAME).map_or(0, |text| text.as_str().len());
        let read = DataReference::read(Some(meta)).ok().flatten();
        let read = read.filter(|_| bytes <= MAX_REFERENCE_BYTES);
        let kept = read.and_then(|mut reference| {
            let url = reference.access_url.take()?;
            if let Some(why) = why_dropped(cx, governance, server, tool, &url) {
                tracing::warn!(server = %server.id, tool, why, "data reference dropped");
                return None;
            }
            server.id.as_str().clone_into(&mut reference.origin_server);
            let fetch = if is_local(server) { &broker.local } else { &broker.public };
            let data = ReferenceData::Remote(RemoteReference { url, fetch: Arc::clone(fetch) });
            broker.keep(cx, &server.id, tool, data, reference)
        });
        if let Some(kept) = kept {
            return meta.encode(DataReference::NAME, &kept);
        }
        meta.remove(DataReference::NAME);
        Ok(())
    }

    /// If the caller receives only a part of a result, stores the complete result. Then adds to the part a reference to
    /// the complete result.
    ///
    /// # Errors
    /// −32603 (internal error) if the reference cannot be written as JSON.
    pub(crate) fn keep_whole(
        &self,
        cx: &Context,
        (server, tool): (&ServerId, &str),
        whole: &CallToolResult,
        part: &mut CallToolResult,
    ) -> Result<(), RpcError> {
        let Some(broker) = &self.0 else { return Ok(()) };
        let (mime_type, text) = if let Some(structured) = &whole.structured_content {
            ("application/json", structured.as_str().to_owned())
        } else {
            let texts = whole.content.iter().filter_map(ContentBlock::as_text);
            ("text/plain; charset=utf-8", texts.collect::<Vec<_>>().join("\n"))
        };
        let id = mgp_types::random_name()?;
        let mut reference =
            DataReference::new(id, server.as_str().to_owned(), mime_type.to_owned());
        reference.size_bytes = Some(text.len() as u64);
        reference.checksum = Some(Checksum::sha256(Sha256Hash::digest(text.as_bytes()).as_bytes()));
        let data = ReferenceData::Bytes(text.into());
        if let Some(kept) = broker.keep(cx, server, tool, data, reference) {
            let note = format!(
                "[mgp: another tool gets the whole result if an argument is {{\"data_reference\":{{\"ref_id\":\"{}\"}}}}]",
                kept.ref_id
            );
            put_note(&mut part.content, note);
            part.meta.get_or_insert_with(Meta::new).encode(DataReference::NAME, &kept)?;
        }
        Ok(())
    }

    /// Gives the called server a URL for reading the data to which a call refers, or puts the data into the arguments.
    ///
    /// # Errors
    /// −32602 (invalid params) if the reference is unknown or cannot be used by this tool, or if the data cannot be
    /// read.
    pub(crate) async fn attach(
        &self,
        call: &mut Call,
        view: &CallerView,
        extensions: ExtensionSet,
        tool: &IndexedTool,
    ) -> Result<(), RpcError> {
        let Some(broker) = &self.0 else { return Ok(()) };
        if !extensions.contains(Extension::DataReferences) {
            return inline::put_into_arguments(broker, call, view, tool).await;
        }
        let Some(named) = named(call)? else { return Ok(()) };
        let known = broker.find(call.cx(), view, &named)?;
        let mut members = call.cx().extensions.get::<CallMembers>().cloned().unwrap_or_default();
        let mut reference = known.reference;
        reference.access_url = Some(known.url);
        members.set(&reference)?;
        call.cx_mut().extensions.insert(members);
        tracing::info!(from = %known.origin, to = tool.server_id(), "data reference passed on");
        Ok(())
    }
}

impl Broker {
    /// Stores a reference for a caller, and returns it in the form for the caller; `None` if it cannot be stored. Drops
    /// old references if there are too many.
    fn keep(
        &self,
        cx: &Context,
        origin: &ServerId,
        tool: &str,
        data: ReferenceData,
        mut reference: DataReference,
    ) -> Option<DataReference> {
        let named = reference.expires_at.as_ref().and_then(Timestamp::to_system_time);
        let left = named.map(|time| time.duration_since(SystemTime::now()).unwrap_or_default());
        let ttl = left.map_or(self.keep, |left| left.min(self.keep));
        reference.expires_at = Some(Timestamp::from(SystemTime::now() + ttl));
        let bytes = if let ReferenceData::Bytes(bytes) = &data { bytes.len() } else { 0 };
        if bytes > MAX_CALLER_BYTES {
            tracing::warn!(bytes, server = %origin, "data reference not kept: the data are too long");
            return None;
        }
        let mut known = KnownReference {
            owner: cx.principal.clone(),
            origin: origin.clone(),
            tool: tool.to_owned(),
            reference: reference.clone(),
            bytes,
            id: String::new(),
            url: String::new(),
            expires_at: Instant::now() + ttl,
        };
        for dropped in self.known.make_room(&known) {
            self.server.remove(&dropped);
        }
        let inserted = self.server.insert(data, &*reference.mime_type, reference.size_bytes, ttl);
        known.id = inserted
            .inspect_err(
                |error| tracing::warn!(%error, server = %origin, "data reference not kept"),
            )
            .ok()?;
        known.url = self.server.url(&known.id, ttl).ok()?;
        for dropped in self.known.insert(known) {
            self.server.remove(&dropped);
        }
        Some(reference)
    }

    /// Finds a reference that this caller has received. Returns an error if the caller, or an agent on whose behalf it
    /// calls, has no access to the tool that exported the data.
    fn find(
        &self,
        cx: &Context,
        view: &CallerView,
        named: &NamedReference,
    ) -> Result<KnownReference, RpcError> {
        let known = self.known.get(&cx.principal, &named.ref_id, named.origin_server.as_deref());
        let delegation = cx.extensions.get::<Delegation>();
        let agents = delegation.map(Delegation::principals).unwrap_or_default();
        let has_grant = |known: &KnownReference| {
            let sees = |cx: &Context| view.sees(cx, Some(&known.origin), &known.tool).is_ok();
            let agent_sees = |agent: &Principal| {
                let mut cx = cx.clone();
                cx.principal = agent.clone();
                sees(&cx)
            };
            sees(cx) && agents.iter().all(agent_sees)
        };
        known.filter(has_grant).ok_or_else(|| {
            let agent = cx.principal.as_agent().map(ToString::to_string).unwrap_or_default();
            tracing::warn!(agent, "denied: the data reference is unknown to the caller");
            RpcError::invalid_params(format!(
                "the data reference `{}` is unknown: it has expired, or was returned to another agent; export the \
                 data again",
                named.ref_id
            ))
        })
    }

    /// Returns a reader of the data that verifies their size and checksum.
    fn reader(&self, known: &KnownReference) -> Result<ReferenceReader, RpcError> {
        let sha256 = known.reference.checksum.as_ref().map(Checksum::to_sha256).transpose()?;
        // Read from the kernel's own address: the URL for servers can lead through a proxy, or to a host name that only
        // the servers can resolve.
        let path = known.url.strip_prefix(self.server.base_url()).unwrap_or_default();
        let reader = ReferenceReader::new(format!("{}{path}", self.own_url), Arc::clone(&self.own));
        Ok(reader.expect(known.reference.size_bytes, sha256))
    }
}

/// Returns the address at which this process reaches a listener of its own: a loopback address if the listener is bound
/// to all addresses of this machine.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

/// Returns the reference that a call contains, in `_meta` or in the arguments of a tool that imports references.
fn named(call: &Call) -> Result<Option<NamedReference>, RpcError> {
    if let Some(DataReference { ref_id, origin_server, .. }) = call.cx().member()? {
        return Ok(Some(NamedReference { ref_id, origin_server: Some(origin_server) }));
    }
    let arguments = call.tool_arguments();
    let is_import =
        ["\"ref_id\"", "\"origin_server\""].iter().all(|name| arguments.as_str().contains(name));
    Ok(arguments.get().ok().filter(|_| is_import))
}

/// Returns the reason why the kernel must not read data from the URL that a server returned; `None` if the kernel may
/// read them.
fn why_dropped(
    cx: &Context,
    governance: &Governance,
    server: &ServerConfig,
    tool: &str,
    url: &str,
) -> Option<&'static str> {
    if !is_local(server) {
        return None;
    }
    if !Endpoint::parse(url).is_ok_and(|endpoint| endpoint.is_loopback()) {
        return Some("the server runs on this machine, and the URL leads away from it");
    }
    let is_sandboxed = governance.policies().get(Some(&server.id)).trust == TrustLevel::Sandboxed;
    let lacks_listen = || {
        let (permissions, needed) = (governance.permissions(), [Permission::NetworkListen]);
        let (id, now) = (Some(&server.id), SystemTime::now());
        !permissions.missing(&cx.principal, id, tool, &needed, None, now).is_empty()
    };
    (is_sandboxed && lacks_listen()).then_some("the server is sandboxed without `network.listen`")
}

fn is_local(server: &ServerConfig) -> bool {
    match &server.target {
        TargetConfig::Url { url, .. } => {
            Endpoint::parse(url).is_ok_and(|endpoint| endpoint.is_loopback())
        }
        _ => true,
    }
}

/// Returns the error for the caller when the data of a reference cannot be read.
fn unreadable(error: &ReferenceError) -> RpcError {
    RpcError::invalid_params(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_at_a_loopback_address() {
        for (listener, expected) in [
            ("0.0.0.0:7070", "127.0.0.1:7070"),
            ("[::]:7070", "[::1]:7070"),
            ("192.168.1.5:7070", "192.168.1.5:7070"),
        ] {
            assert_eq!(reachable(listener.parse().unwrap()).to_string(), expected);
        }
    }
}
