//! The credentials, the TLS and the connections of `mgp serve --http`, from `[kernel.http]` and `keys.json`.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use mgp_discovery::{HttpAccessConfig, TokenConfig, TokenTenant, path_in};
use mgp_kernel::Kernel;
use mgp_security::auth::{
    ApiKeys, AuthLayer, FileKeys, JwkSet, KeyRecord, KeyStore as _, ResourceServer,
};
use mgp_server_sdk::BoundServer;
use mgp_transport::http::{ConnectionLimits, GuardedFetch, Proxy, ServerTls};
use mgp_types::service::{
    Fetch, FetchError, FetchRequest, FetchResponse, Principal, SharedFetch, is_loopback_host,
    shown_url,
};

use crate::exit::{CliResult, Failure};

/// The smallest limit of connections that a low limit of open files can cause.
const MIN_CONNECTIONS: usize = 64;

/// Fails unless a text is an address of the option `--http`. Does not look up the host.
pub(crate) fn check_address(address: &str) -> CliResult {
    let is_host = |host: &str| {
        let is_special = |c: char| c.is_whitespace() || ":/@[]".contains(c);
        // Leave out the interface in a link-local address, e.g. `%eth0` in `fe80::1%eth0`.
        let ip = host.split_once('%').map_or(host, |(ip, _)| ip);
        !host.is_empty() && !host.contains(is_special) || ip.parse::<Ipv6Addr>().is_ok()
    };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let has_both = |(host, port): (&str, &str)| is_host(host) && is_port(port);
    if address.parse::<SocketAddr>().is_ok() || address.rsplit_once(':').is_some_and(has_both) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{address}` is not a valid address; use HOST:PORT, e.g. 127.0.0.1:8900"
    )))
}

/// Returns the layer that admits callers with API keys, and with access tokens if they are configured.
pub(crate) async fn auth_layer(
    config: &HttpAccessConfig,
    kernel: &Kernel,
    folder: &Path,
) -> CliResult<AuthLayer> {
    let (governance, proxy) = (kernel.governance(), kernel.proxy());
    let file = FileKeys::new(folder.join("keys.json"));
    let keys = ApiKeys::open(file.remember_revoked(Arc::clone(governance.store()))).await?;
    let keys = keys.with_audit(Principal::local(), Arc::clone(governance.audit()));
    keys.end_expired();
    let Some(tokens) = &config.tokens else {
        if keys.records().await?.is_empty() {
            tracing::warn!("no API keys yet: every caller is refused; run `mgp keys add AGENT`");
        }
        return Ok(AuthLayer::new().keys(keys));
    };
    let tokens = resource_server(tokens, &proxy, folder)
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

/// Sets the limits of connections as configured. All connections together take at most half of this process's file
/// descriptors, because servers and the clients of the local socket also need some; [`MIN_CONNECTIONS`] are always
/// allowed.
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

/// Sets the limits of connections as configured, and lowers them so that connections use at most half of the `files`
/// that this process may open, but not below [`MIN_CONNECTIONS`]. With `None`, the number of files is not limited.
fn limit_to_files(config: &HttpAccessConfig, files: Option<u64>, limits: &mut ConnectionLimits) {
    if let Some(files) = files {
        let most = usize::try_from(files / 2).unwrap_or(usize::MAX).max(MIN_CONNECTIONS);
        limits.connections = limits.connections.min(most);
    }
    if let Some(max) = config.connections_per_address {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        (limits.per_address, limits.per_loopback) = (max, max);
    } else {
        // Permit one address at most half of the connections, so that one other machine cannot take up all of them.
        limits.per_address = limits.per_address.min(limits.connections / 2);
        limits.per_loopback = limits.per_loopback.min(limits.connections);
    }
}

/// Returns the URL of a kernel that serves over HTTP.
pub(crate) fn url(kernel: &Kernel, bound: &BoundServer) -> String {
    let scheme = if kernel.http_access().tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/mcp", bound.local_addr())
}

/// Returns the URL of the console of a kernel; `None` if it listens at all addresses of this machine.
pub(crate) fn console_url(kernel: &Kernel, bound: &BoundServer) -> Option<String> {
    if bound.local_addr().ip().is_unspecified() {
        return None;
    }
    url(kernel, bound)
        .strip_suffix("/mcp")
        .map(|begin| format!("{begin}{}", crate::console::SERVED_PATH))
}

/// Returns the warnings about an address that other machines can reach, for the operator.
pub(crate) fn exposure_warnings(
    address: SocketAddr,
    has_tls: bool,
    allows_hosts: bool,
) -> impl Iterator<Item = &'static str> {
    let ip = address.ip();
    let tls = "no TLS: keys and tokens cross the network unencrypted; set `tls_cert` and `tls_key` under `[kernel.http]`, or use a TLS proxy";
    let hosts =
        "only local requests are served; give the host names of this machine with --allow-host";
    let warnings =
        [(!ip.is_loopback() && !has_tls, tls), (ip.is_unspecified() && !allows_hosts, hosts)];
    warnings.into_iter().filter_map(|(applies, warning)| applies.then_some(warning))
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
            JwkSet::parse(text).map_err(|error| format!("`keys`: {error}"))?;
            server.keys_from(path.display().to_string(), Arc::new(KeysFile(path)))
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
    // Name the scopes in the metadata too, because some clients do not read the scopes in a challenge.
    server = server.scopes_supported(&config.scopes);
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

/// The file with an issuer's keys. Like a document at a URL, it is read again, so a changed key applies without a
/// restart of the kernel.
struct KeysFile(PathBuf);

#[async_trait]
impl Fetch for KeysFile {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        match std::fs::read(&self.0) {
            Ok(text) => Ok(FetchResponse::new(200, text)),
            Err(error) => Err(FetchError::Failed { url: request.url, why: error.to_string() }),
        }
    }
}

/// Returns a fetcher that is allowed to reach the host of a configured URL, even in a private network.
fn fetcher(url: &str, proxy: &Proxy) -> Result<SharedFetch, String> {
    let uri = url.parse::<http::Uri>().map_err(|error| format!("`{url}`: {error}"))?;
    // Require a scheme, because a single word would otherwise count as a host.
    let host = uri.host().filter(|_| uri.scheme().is_some());
    let host = host.ok_or_else(|| format!("`{url}` is not an absolute URL"))?;
    if uri.scheme_str() == Some("http") && !is_loopback_host(host) {
        tracing::warn!(
            url = shown_url(url),
            "the keys of access tokens cross the network unencrypted, so that others could replace them; use `https`"
        );
    }
    let fetch = GuardedFetch::new()
        .and_then(|fetch| fetch.proxy(proxy.clone()))
        .and_then(|fetch| fetch.allow_host(host));
    fetch.map(|fetch| Arc::new(fetch) as SharedFetch).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use mgp_types::Timestamp;

    use super::*;

    #[test]
    fn addresses_without_a_host_or_a_possible_port_are_refused() {
        let wrong = ["here", "1.2.3.4:99999", "a:", ":80", "a:+80", "a b:80", "http://a:80", "::1"];
        for address in wrong {
            assert!(check_address(address).is_err(), "{address}");
        }
        let right =
            ["127.0.0.1:0", "localhost:8900", "a_b:80", "[::1]:80", "::1:80", "fe80::1%lo:80"];
        for address in right {
            assert!(check_address(address).is_ok(), "{address}");
        }
    }

    #[test]
    fn an_issuer_without_a_scheme_is_refused_at_the_start() {
        for (url, is_usable) in
            [("login", false), ("login.example/x", false), ("https://login.example", true)]
        {
            assert_eq!(fetcher(url, &Proxy::none()).is_ok(), is_usable, "{url}");
        }
    }

    #[test]
    fn keys_that_cross_the_network_unencrypted_cause_a_warning() {
        for (url, is_warned) in [
            ("http://login.example", true),
            ("https://login.example", false),
            ("http://127.0.0.1:1", false),
        ] {
            let log = mgp_testkit::RecordedLog::of(tracing::Level::WARN);
            let made = || fetcher(url, &Proxy::none()).is_ok();
            assert!(tracing::subscriber::with_default(log.clone(), made), "{url}");
            assert_eq!(log.lines().join("\n").contains("unencrypted"), is_warned, "{url}");
        }
    }

    #[test]
    fn warnings_about_an_address_name_the_options_of_the_program() {
        let of = |address: &str, has_tls, allows_hosts| {
            let warnings = exposure_warnings(address.parse().unwrap(), has_tls, allows_hosts);
            warnings.collect::<Vec<_>>().join("\n")
        };
        let all = of("0.0.0.0:80", false, false);
        assert!(all.contains("`tls_cert` and `tls_key`") && all.contains("--allow-host"), "{all}");
        assert!(!of("[::]:80", true, false).contains("TLS"));
        assert!(!of("10.0.0.1:80", false, false).contains("--allow-host"));
        assert_eq!(of("0.0.0.0:80", true, true) + &of("127.0.0.1:80", false, false), "");
    }

    #[test]
    fn a_certificate_that_is_not_valid_or_expires_soon_and_an_open_key_cause_warnings() {
        let folder = mgp_testkit::temp_dir();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        write("cert.pem", include_str!("../tests/refusals/access/first.pem"));
        let key = write("key.pem", include_str!("../tests/refusals/access/first.key.pem"));
        let mut config = HttpAccessConfig::default();
        config.tls = Some(("cert.pem".to_owned(), "key.pem".to_owned()));
        let tls = tls(&config, folder.path()).unwrap().unwrap();
        let set_mode = |mode| {
            #[cfg(unix)]
            std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap();
            #[cfg(not(unix))]
            let _: (&PathBuf, u32) = (&key, mode);
        };
        set_mode(0o600);
        let warnings = |day: &str| {
            let time = Timestamp::from(format!("{day}T12:00:00Z").as_str());
            tls.warnings(time.to_system_time().unwrap()).join("\n")
        };
        assert!(warnings("2023-12-31").contains("cert.pem` is not valid before 2024-01-01; "));
        assert_eq!(warnings("2098-12-01"), "");
        assert!(warnings("2098-12-25").contains("cert.pem` expires on 2099-01-01; renew it"));
        assert!(warnings("2099-01-02").contains("cert.pem` expired on 2099-01-01; renew it"));
        set_mode(0o640);
        #[cfg(unix)]
        assert!(warnings("2098-12-01").contains("key.pem` (mode 640); run `chmod 600` on it"));
    }

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
