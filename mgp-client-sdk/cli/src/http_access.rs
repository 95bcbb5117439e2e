//! The credentials and the TLS of `mgp serve --http`, from `[kernel.http]` and `keys.json`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mgp_discovery::{HttpAccessConfig, TokenConfig, TokenTenant, path_in};
use mgp_kernel::Kernel;
use mgp_security::auth::{
    ApiKeys, AuthLayer, FileKeys, JwkSet, KeyRecord, KeyStore as _, ResourceServer,
};
use mgp_server_sdk::BoundServer;
use mgp_transport::http::{GuardedFetch, Proxy, ServerTls};
use mgp_types::service::{Principal, SharedFetch};

use crate::exit::{CliResult, Failure};

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
