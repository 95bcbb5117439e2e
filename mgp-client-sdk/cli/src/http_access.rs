//! The credentials, the TLS and the connections of `mgp serve --http`, from `[kernel.http]` and `keys.json`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mgp_discovery::{HttpAccessConfig, TokenConfig, TokenTenant, path_in};
use mgp_kernel::Kernel;
use mgp_security::auth::{
    ApiKeys, AuthLayer, FileKeys, JwkSet, KeyRecord, KeyStore as _, ResourceServer,
};
use mgp_server_sdk::BoundServer;
use mgp_transport::http::{ConnectionLimits, GuardedFetch, Proxy, ServerTls};
use mgp_types::service::{Principal, SharedFetch};

use crate::exit::{CliResult, Failure};

/// The lowest value to which this process's limit of open files can reduce the limit of connections.
const MIN_CONNECTIONS: usize = 64;

/// Returns the layer that admits callers with API keys, and with access tokens if they are configured.
pub(crate) async fn auth_layer(
    config: &HttpAccessConfig,
    proxy: &Proxy,
    folder: &Path,
) -> CliResult<AuthLayer> {
    let keys = ApiKeys::open(FileKeys::new(folder.join("keys.json"))).await?;
    let Some(tokens) = &config.tokens else {
        if keys.records().await?.is_empty() {
            tracing::warn!("no API keys yet: every caller is refused; run `mgp keys add`");
        }
        return Ok(AuthLayer::new().keys(keys));
    };
    let tokens = resource_server(tokens, proxy, folder)
        .map_err(|why| Failure::failed(format!("`kernel.http.tokens` cannot be used: {why}")))?;
    Ok(AuthLayer::new().keys(keys).tokens(tokens))
}

/// Returns whether a file of API keys contains the key `id`, and this key is neither revoked nor expired.
pub(crate) async fn is_live_key(file: PathBuf, id: String) -> bool {
    let Ok(records) = FileKeys::new(file).load().await else { return false };
    let now = SystemTime::now();
    let is_live = |record: &KeyRecord| {
        let is_over = record.grant().expiry().is_some_and(|end| end.is_before(now) != Some(false));
        record.id() == id && record.revoked().is_none() && !is_over
    };
    records.iter().any(is_live)
}

/// Returns the TLS settings of the HTTP listener, if the configuration has some.
pub(crate) fn tls(config: &HttpAccessConfig, folder: &Path) -> CliResult<Option<ServerTls>> {
    let Some((certificate, key)) = &config.tls else { return Ok(None) };
    ServerTls::from_files(path_in(folder, certificate), path_in(folder, key)).map(Some).map_err(
        |error| {
            let keys = "see `tls_cert` and `tls_key` under `[kernel.http]`";
            Failure::failed(format!("TLS cannot be served: {error}; {keys}"))
        },
    )
}

/// Sets the limits of connections as configured. All connections together take at most half of the file descriptors of
/// this process, because servers and the clients of the local socket need descriptors too.
pub(crate) fn limit_connections(config: &HttpAccessConfig, limits: &mut ConnectionLimits) {
    #[cfg(unix)]
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    let files = None;
    let allowed = limits.connections;
    limit_to_files(config, files, limits);
    if limits.connections < allowed {
        let (connections, per_loopback) = (limits.connections, limits.per_loopback);
        tracing::info!(
            connections,
            per_loopback,
            "HTTP connections take at most half of the files that this process may open; raise `ulimit -n`, or `LimitNOFILE=` of a service, for more"
        );
    }
}

/// Sets the limits of connections for a process that may open this many files; `None` for any number.
fn limit_to_files(config: &HttpAccessConfig, files: Option<u64>, limits: &mut ConnectionLimits) {
    if let Some(files) = files {
        let most = usize::try_from(files / 2).unwrap_or(usize::MAX).max(MIN_CONNECTIONS);
        limits.connections = limits.connections.min(most);
    }
    if let Some(max) = config.connections_per_address {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        (limits.per_address, limits.per_loopback) = (max, max);
    } else {
        // Half at most, so that one other machine cannot take up all connections.
        limits.per_address = limits.per_address.min(limits.connections / 2);
        limits.per_loopback = limits.per_loopback.min(limits.connections);
    }
}

/// Returns the URL at which a kernel serves over HTTP.
pub(crate) fn url(kernel: &Kernel, bound: &BoundServer) -> String {
    let scheme = if kernel.http_access().tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/mcp", bound.local_addr())
}

/// Returns the URL at which a kernel serves the console; `None` if it listens at all addresses of this machine.
pub(crate) fn console_url(kernel: &Kernel, bound: &BoundServer) -> Option<String> {
    if bound.local_addr().ip().is_unspecified() {
        return None;
    }
    url(kernel, bound)
        .strip_suffix("/mcp")
        .map(|begin| format!("{begin}{}", crate::console::SERVED_PATH))
}

fn resource_server(
    config: &TokenConfig,
    proxy: &Proxy,
    folder: &Path,
) -> Result<ResourceServer, String> {
    let server = ResourceServer::new(&config.resource, &config.issuer)
        .map_err(|error| format!("`resource`: {error}"))?;
    let mut server = match config.keys.as_deref() {
        None => server.keys_from_issuer(fetcher(&config.issuer, proxy)?),
        Some(url) if url.contains("://") => server.keys_from(url, fetcher(url, proxy)?),
        Some(file) => {
            let path = path_in(folder, file);
            let text = std::fs::read(&path)
                .map_err(|error| format!("`keys`: `{}`: {error}", path.display()))?;
            server.keys(JwkSet::parse(text).map_err(|error| format!("`keys`: {error}"))?)
        }
    };
    server = match &config.tenant {
        TokenTenant::Named(tenant) => server.tenant(tenant),
        TokenTenant::Claim(claim) => server.tenant_claim(claim),
        _ => server.tenant(Principal::local().tenant().as_str()),
    };
    for audience in &config.audience {
        server = server.audience(audience);
    }
    for scope in &config.scopes {
        server = server.require_scope(scope);
    }
    if let Some(scope) = &config.operator_scope {
        server = server.operator_scope(scope);
    }
    if let Some(claim) = &config.agent_claim {
        server = server.agent_claim(claim);
    }
    Ok(server)
}

/// Returns a fetcher that is allowed to reach the host of a configured URL, even in a private network.
fn fetcher(url: &str, proxy: &Proxy) -> Result<SharedFetch, String> {
    let uri = url.parse::<http::Uri>().map_err(|error| format!("`{url}`: {error}"))?;
    let host = uri.host().ok_or_else(|| format!("`{url}` is not an absolute URL"))?;
    let fetch = GuardedFetch::new()
        .and_then(|fetch| fetch.proxy(proxy.clone()))
        .and_then(|fetch| fetch.allow_host(host));
    fetch.map(|fetch| Arc::new(fetch) as SharedFetch).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(per_address: Option<u32>, files: Option<u64>, expected: [usize; 3]) {
        let mut config = HttpAccessConfig::default();
        config.connections_per_address = per_address;
        let mut limits = ConnectionLimits::default();
        limit_to_files(&config, files, &mut limits);
        assert_eq!([limits.connections, limits.per_address, limits.per_loopback], expected);
    }

    #[test]
    fn connections_leave_files_for_servers_and_addresses_have_their_key() {
        check(None, None, [32_768, 256, 16_384]);
        check(None, Some(1 << 20), [32_768, 256, 16_384]);
        check(None, Some(1024), [512, 256, 512]);
        check(None, Some(256), [128, 64, 128]);
        check(None, Some(16), [64, 32, 64]);
        check(Some(1000), None, [32_768, 1000, 1000]);
        check(Some(1000), Some(1024), [512, 1000, 1000]);
    }
}
