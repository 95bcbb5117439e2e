//! The commands `mgp servers login` and `mgp servers logout`: OAuth logins at servers that have a URL.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use futures_util::future::join_all;
use mgp_client_sdk::Client;
use mgp_client_sdk::auth::{
    AuthError, Browser, DeviceCode, FileTokens, LoopbackBrowser, OAuth, RenewalLock, TokenEntry,
    TokenStore as _, TokenStoreError,
};
use mgp_discovery::{
    AuthGrant, Config, ExpandedTarget, Expander, LoginScope, Origin, SecretFile, ServerConfig,
    TargetConfig,
};
use mgp_kernel::{LoginServer, Logins};
use mgp_transport::http::Proxy;
use mgp_types::escape_hidden;
use mgp_types::method::KernelServersRestart;
use mgp_types::mgp::{KernelServerParams, ServerState, Transport};
use mgp_types::service::{Principal, ServerId};
use tokio::time::timeout;

use super::known_names::{check_running, no_server, registered_server};
use super::probe::{self, SentCredentials};
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, plural};
use crate::{control, state, time_args};

/// The port of [`probe::REDIRECT_URI`]; nothing listens there if the browser runs on another device.
const PORT: u16 = 8976;

/// The maximum time that a logout waits for a kernel that is renewing the tokens.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum time that the running kernel takes to reconnect to the server after a login.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of the address that a user pastes to complete a login, in bytes.
const MAX_PASTED_BYTES: u64 = 16 * 1024;

/// The maximum number of lines that are read while waiting for the pasted address.
const MAX_PASTED_LINES: u32 = 10;

/// `mgp servers login`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Login {
    #[command(flatten)]
    at: LoginArg,
    /// Log in with a browser on another device: enter the shown code there, or paste into this terminal the address that
    /// the browser shows after the login
    #[arg(long)]
    no_browser: bool,
    /// Scopes to request besides those that the server names, separated by spaces
    #[arg(long, value_name = "SCOPES")]
    scopes: Option<String>,
    /// Time limit of the login
    #[arg(long, value_name = "DURATION", value_parser = time_args::duration, default_value = "5m")]
    timeout: Duration,
}

/// The arguments that identify a login: its server and its owner.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoginArg {
    /// Server
    server: String,
    /// Agent of the login; only for a server with `login = "agent"`, i.e. one login for each agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Tenant of the agent
    #[arg(long, value_name = "NAME", requires = "agent")]
    tenant: Option<String>,
    #[command(flatten)]
    config: ConfigArg,
}

impl LoginArg {
    fn owner(&self) -> Option<Principal> {
        let agent = self.agent.as_deref()?;
        let principal = match &self.tenant {
            Some(tenant) => Principal::new(tenant.as_str(), "local"),
            None => Principal::local(),
        };
        Some(principal.agent(agent))
    }

    /// Returns the configured or registered server, and the proxy for reaching it.
    async fn server(&self, global: &Global) -> CliResult<(ServerConfig, Proxy)> {
        let config = self.config.load(global).await?.config;
        let id = &self.server;
        let server = match config.server(id).cloned() {
            None => registered_server(global, id).await?,
            found => found,
        };
        let ids = || config.servers.iter().map(|server| server.id.as_str());
        let server = server.ok_or_else(|| no_server(id, ids()))?;
        Ok((server, mgp_kernel::proxy(&config.kernel)))
    }

    /// Checks that the server supports logins, and, if an agent was named, that each agent has its own login there.
    fn check_owner(&self, server: &ServerConfig) -> CliResult {
        let id = &self.server;
        let TargetConfig::Url { auth, headers, .. } = &server.target else {
            let what = format!("`{id}` is a program; only servers at a `url` have logins");
            return Err(Failure::usage(what));
        };
        if headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return Err(Failure::usage(format!(
                "`{id}` has `Authorization` in its `headers`, which is used instead of a login; remove it first"
            )));
        }
        if auth.grant == AuthGrant::ClientCredentials {
            let what =
                format!("`{id}` has `client_credentials` in its `auth`, so mgp logs in itself");
            return Err(Failure::usage(what));
        }
        if self.agent.is_some() && auth.login != LoginScope::Agent {
            return Err(Failure::usage(format!(
                "all agents share the login at `{id}`; omit --agent, or set `login = \"agent\"` for the server"
            )));
        }
        Ok(())
    }

    /// Adds how to get an entry in the configuration to the failure of a login at a registered server, if the failure
    /// names a key of the entry.
    async fn add_remedy(&self, global: &Global, failure: Failure) -> Failure {
        let (id, text) = (&self.server, failure.to_string());
        let loaded = self.config.load(global).await;
        let has_entry = loaded.is_ok_and(|loaded| loaded.config.server(id).is_some());
        if has_entry || !text.contains("into `auth` of") {
            return failure;
        }
        let remedy = format!("`mgp servers rm {id}`, then `mgp servers add {id} --url URL`");
        let why = format!("`{id}` was registered and has no `auth`; to give it one, run {remedy}");
        Failure::with_code(failure.code(), format!("{text}; {why}"))
    }

    fn file(&self, global: &Global) -> CliResult<PathBuf> {
        let logins = Logins::in_folder(&state::create_folder(global)?);
        let file = logins.file(&self.server.as_str().into(), self.owner().as_ref());
        file.ok_or_else(|| Failure::failed("there is no state folder"))
    }

    fn subject(&self) -> String {
        match &self.agent {
            Some(agent) => format!("{} ({agent})", self.server),
            None => self.server.clone(),
        }
    }
}

/// Logs in and stores the tokens; then the running kernel restarts the server, so that the new tokens are used.
pub(crate) async fn log_in(global: &Global, login: &Login) -> CliResult {
    let (server, proxy) = login.at.server(global).await?;
    login.at.check_owner(&server)?;
    control::admit_change(global).await?;
    let file = login.at.file(global)?;
    let folder = state::folder(global)?;
    let oauth = match authorize(login, &server, (&proxy, folder.as_path())).await {
        Ok(oauth) => oauth,
        Err(failure) => return Err(login.at.add_remedy(global, failure).await),
    };
    let Some(entry) = oauth.entry().filter(|entry| entry.tokens.is_some()) else {
        return Err(Failure::failed(format!("`{}` did not ask for a login", server.id)));
    };
    let store = FileTokens::at(&file);
    let (former, locks) = lock_entries(&store).await;
    store.save(entry.clone()).await.map_err(Failure::failed)?;
    drop(locks);
    restart(global, &login.at.server, START_TIMEOUT).await;
    let mut notes = Vec::new();
    if login.at.agent.is_none() && is_per_agent(&server) {
        let id = &server.id;
        notes.push(format!(
            "this login reads the tool list; calls need `mgp servers login {id} --agent NAME`"
        ));
    }
    let is_replaced =
        |former: &TokenEntry| former.server == entry.server && former.issuer == entry.issuer;
    for former in former.unwrap_or_default().into_iter().filter(is_replaced) {
        notes.extend(revoke_replaced(&oauth, &former, &entry).await);
    }
    ActionReport::new(login.at.subject(), "logged in").with_notes(notes).print(global)
}

/// Revokes the tokens that a new login has replaced; returns a note if they may still be valid.
///
/// If both logins used the same client, revokes nothing: many issuers would then revoke all tokens that the user gave
/// this client, which would also end the new login. A client that registers itself does so again for each login.
async fn revoke_replaced(oauth: &OAuth, former: &TokenEntry, new: &TokenEntry) -> Option<String> {
    let client = |entry: &TokenEntry| entry.registration.as_ref().map(|own| own.client_id.clone());
    if client(former) == client(new) {
        let note = "the tokens of the former login stay valid until they expire; a logout before the login would have revoked them";
        return Some(note.to_owned());
    }
    let error = oauth.revoke(former).await.err()?;
    let issuer = &former.issuer;
    Some(format!(
        "not all tokens of the former login were revoked: the others are valid until they expire, unless you end the access at `{issuer}`; {error}"
    ))
}

/// Deletes the tokens of a login, and revokes them at their issuer as far as possible.
pub(crate) async fn log_out(global: &Global, at: &LoginArg) -> CliResult {
    control::admit_change(global).await?;
    let file = at.file(global)?;
    let (entries, locks) = lock_entries(&FileTokens::at(&file)).await;
    match std::fs::remove_file(&file) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let what = format!("there is no login at `{}`", at.subject());
            return Err(Failure::failed(what));
        }
        Err(error) => return Err(state::unusable(&file, &error)),
    }
    restart(global, &at.server, Duration::from_secs(1)).await;
    let client = revoking_client(global, at).await;
    let notes = revoke(&client, entries).await;
    drop(locks);
    ActionReport::new(at.subject(), "logged out").with_notes(notes).print(global)
}

/// Returns the entries of a login that have tokens, and locks that keep a kernel from renewing these meanwhile.
async fn lock_entries(
    store: &FileTokens,
) -> (Result<Vec<TokenEntry>, TokenStoreError>, Vec<RenewalLock>) {
    let mut locks = Vec::new();
    for entry in with_tokens(store).await.unwrap_or_default() {
        let locking = store.lock_renewal(&entry.server, &entry.issuer);
        locks.extend(timeout(LOCK_TIMEOUT, locking).await.ok().and_then(Result::ok));
    }
    // Read the entries again, because the kernel may have replaced the tokens before it released the lock.
    (with_tokens(store).await, locks)
}

async fn with_tokens(store: &FileTokens) -> Result<Vec<TokenEntry>, TokenStoreError> {
    let mut entries = store.entries().await?;
    entries.retain(|entry| entry.tokens.is_some());
    Ok(entries)
}

/// Deletes all logins at a server that was removed from the configuration, and the record of its issuer. Revokes the
/// tokens as far as possible; returns notes about that. `server` is the server's former entry and the proxy of its
/// connections, if the entry could be read.
pub(super) async fn delete_all(
    global: &Global,
    id: &ServerId,
    server: Option<(ServerConfig, Proxy)>,
) -> CliResult<Vec<String>> {
    let folder = state::folder(global)?;
    let logins = Logins::in_folder(&folder);
    let files = match logins.files(id) {
        Ok(files) => files,
        Err(error) => {
            let logins = folder.join("logins");
            let why = format!("`{}` cannot be read: {error}", logins.display());
            return Ok(vec![format!("the logins at `{id}` stay: {why}")]);
        }
    };
    let notes = delete(&folder, server, &files, std::future::ready(())).await;
    if let Err(error) = logins.unbind_issuer(id) {
        tracing::warn!(server = %id, %error, "removing the record of the issuer failed");
    }
    Ok(notes)
}

/// Deletes the logins of some agents of a tenant. Revokes the tokens as far as possible, and returns notes about that.
/// Restarts the servers in the running kernel, which has the tokens in memory. `file` is the file with the disabled
/// servers, which `config` lacks.
pub(super) async fn delete_of_agents(
    global: &Global,
    config: Option<&Config>,
    file: Option<&Path>,
    tenant: &str,
    agents: &BTreeSet<String>,
) -> CliResult<Vec<String>> {
    let folder = state::folder(global)?;
    let mut notes = Vec::new();
    for (id, files) in files_of_agents(global, tenant, agents)? {
        let server = config.and_then(|config| {
            Some((config.server(id.as_str())?.clone(), mgp_kernel::proxy(&config.kernel)))
        });
        let server = server.or_else(|| configured_in(file?, id.as_str()));
        let stopping = restart(global, id.as_str(), Duration::from_secs(1));
        let of_server = Box::pin(delete(&folder, server, &files, stopping)).await;
        notes.extend(of_server.into_iter().map(|note| format!("{id}: {note}")));
    }
    Ok(notes)
}

/// Returns the files with the logins of some agents of a tenant, for each server, including servers that are not in the
/// configuration.
pub(super) fn files_of_agents(
    global: &Global,
    tenant: &str,
    agents: &BTreeSet<String>,
) -> CliResult<Vec<(ServerId, Vec<PathBuf>)>> {
    let folder = state::folder(global)?;
    let logins = Logins::in_folder(&folder);
    let mut found = Vec::new();
    for id in servers_of_agents(&folder.join("logins"))? {
        let owners = agents.iter().map(|agent| Principal::new(tenant, "local").agent(&**agent));
        let files = owners.filter_map(|owner| logins.file(&id, Some(&owner)));
        let files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
        if !files.is_empty() {
            found.push((id, files));
        }
    }
    Ok(found)
}

/// Returns the servers at which an agent has a login of its own. The file of such a login is named after the server,
/// `~`, and a hash of the agent.
fn servers_of_agents(logins: &Path) -> CliResult<BTreeSet<ServerId>> {
    let failed = |error: io::Error| state::unusable(logins, &error);
    let entries = match std::fs::read_dir(logins) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.map_err(failed)?,
    };
    let mut servers = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let id = name.to_str().and_then(|name| name.split_once('~'));
        servers.extend(id.map(|(id, _)| ServerId::from(id)));
    }
    Ok(servers)
}

/// Deletes the files of logins at a server, and revokes their tokens as far as possible; returns notes about that.
/// Between the two steps, waits for `stopping`: after that, the running kernel no longer uses the tokens.
async fn delete(
    folder: &Path,
    server: Option<(ServerConfig, Proxy)>,
    files: &[PathBuf],
    stopping: impl Future<Output = ()>,
) -> Vec<String> {
    if files.is_empty() {
        return Vec::new();
    }
    let (mut notes, mut former, mut locks) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        let (entries, held) = lock_entries(&FileTokens::at(file)).await;
        former.push(entries);
        locks.extend(held);
        if let Err(error) = std::fs::remove_file(file) {
            notes.push(format!("the file of a login, {}, stays: {error}", file.display()));
        }
    }
    if notes.is_empty() {
        notes.push(format!("removed with it: {}", plural(files.len(), "login")));
    }
    stopping.await;
    let client = match server {
        Some((server, proxy)) => oauth(server, &proxy, folder).await,
        None => Err(Failure::failed("its entry in the configuration could not be read")),
    };
    let revoked = join_all(former.into_iter().map(|entries| revoke(&client, entries))).await;
    notes.extend(revoked.into_iter().flatten());
    notes
}

/// Revokes deleted tokens at their issuers; returns notes about tokens that could not be revoked.
async fn revoke(
    client: &CliResult<OAuth>,
    entries: Result<Vec<TokenEntry>, TokenStoreError>,
) -> Vec<String> {
    const EFFECT: &str = "the tokens are deleted, but not all were revoked: the others are valid until they expire, unless you end the access at";
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => return vec![format!("{EFFECT} the issuer; {error}")],
    };
    let mut notes = Vec::new();
    for entry in entries {
        let error = match client {
            Ok(client) => client.revoke(&entry).await.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        notes.extend(error.map(|error| format!("{EFFECT} `{}`; {error}", entry.issuer)));
    }
    notes
}

/// Returns the OAuth client of a server, for revoking tokens. After the client's last logout, also removes the record
/// of the issuer to which the client is bound, unless the record protects a secret of the client.
async fn revoking_client(global: &Global, at: &LoginArg) -> CliResult<OAuth> {
    let (server, proxy) = match at.server(global).await {
        Ok(found) => found,
        // Read the configuration file, which also has the entry of a disabled server.
        Err(failure) => {
            let file = at.config.file_to_edit()?;
            configured_in(&file, &at.server).ok_or(failure)?
        }
    };
    let folder = state::folder(global)?;
    if let TargetConfig::Url { auth, .. } = &server.target
        && auth.client_secret.is_none()
        && let Err(error) = Logins::in_folder(&folder).unbind_issuer(&server.id)
    {
        tracing::warn!(server = %server.id, %error, "removing the record of the issuer failed");
    }
    oauth(server, &proxy, &folder).await
}

/// Returns the entry of a server in a configuration file of the user, and the proxy of its connections. The server may
/// be disabled. Returns `None` if the file has no such entry, or cannot be read.
pub(super) fn configured_in(file: &Path, id: &str) -> Option<(ServerConfig, Proxy)> {
    let config = Config::parse(file, &std::fs::read_to_string(file).ok()?).ok()?.config;
    let mut server = config.server(id)?.clone();
    // The file belongs to the user, so a `${…}` in it is allowed to name any variable, file or command.
    server.origin = Origin::Named;
    Some((server, mgp_kernel::proxy(&config.kernel)))
}

async fn oauth(server: ServerConfig, proxy: &Proxy, state: &Path) -> CliResult<OAuth> {
    let ExpandedTarget::Url { url, auth, .. } = expand(&server, state).await? else {
        return Err(Failure::failed(format!("`{}` is no longer at a `url`", server.id)));
    };
    let (url, only_public) = (url.as_str().to_owned(), server.only_public);
    let target = LoginServer { id: server.id, url, auth: *auth, only_public };
    target.oauth(proxy).map_err(Failure::failed)
}

fn is_per_agent(server: &ServerConfig) -> bool {
    matches!(&server.target, TargetConfig::Url { auth, .. } if auth.login == LoginScope::Agent)
}

/// Connects to the server, logs in there, and returns the OAuth client that holds the tokens.
async fn authorize(
    login: &Login,
    server: &ServerConfig,
    (proxy, state): (&Proxy, &Path),
) -> CliResult<OAuth> {
    let target = expand(server, state).await?;
    let ExpandedTarget::Url { url, headers, mut auth, transport } = target else {
        return Err(Failure::failed("only servers at a `url` have logins"));
    };
    auth.scopes.extend(login.scopes.clone());
    let url = url.as_str().to_owned();
    let is_registered = auth.client_id.is_some();
    let (id, only_public) = (server.id.clone(), server.only_public);
    let target = LoginServer { id, url: url.clone(), auth: *auth, only_public };
    let oauth = target.oauth(proxy).map_err(Failure::failed)?.login_timeout(login.timeout);
    let oauth =
        if is_registered { Logins::in_folder(state).bind_issuer(&server.id, oauth) } else { oauth };
    let oauth = if login.no_browser {
        oauth.browser(OtherDevice)
    } else {
        oauth.browser(browser_here(is_registered))
    };
    let headers = probe::headers(&headers).map_err(Failure::failed)?;
    let sent = SentCredentials::new(&headers, true);
    let builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"))
        .init_timeout(login.timeout.saturating_mul(2))
        .era(server.era.into())
        .http(|config| {
            config.headers.extend(headers);
            config.message_timeout = login.timeout;
            config.proxy = proxy.clone();
            config.only_public = only_public;
        })
        .credentials(oauth.clone());
    let client = match transport {
        Transport::Sse => builder.connect_http_sse(&url).await,
        _ => builder.connect_url(&url).await,
    };
    match client {
        // Log in explicitly, because a server may accept the connection without a login and require one only for calls.
        Ok(client) => {
            client.close().await;
            let failed = |error: Arc<AuthError>| probe::login_error(&error, &server.id);
            oauth.log_in().await.map_err(failed).map_err(Failure::failed)?;
        }
        Err(error) => return Err(Failure::failed(probe::error_chain(&error, &server.id, sent))),
    }
    Ok(oauth)
}

async fn expand(server: &ServerConfig, state: &Path) -> CliResult<ExpandedTarget> {
    let expander = Expander::from_env().secrets(SecretFile::in_folder(state));
    let own = server.clone();
    let expanded = tokio::task::spawn_blocking(move || expander.server(&own)).await;
    Ok(expanded.map_err(Failure::failed)?.map_err(Failure::failed)?.target)
}

/// Creates the browser for a login on this machine. A client that was registered by hand always has the same redirect
/// URI, because the authorization server might accept only the registered port.
fn browser_here(is_registered: bool) -> LoopbackBrowser {
    let is_repeated = AtomicBool::new(false);
    let browser = LoopbackBrowser::new(move |url| {
        if is_repeated.swap(true, Ordering::Relaxed) {
            show("That login did not suffice, e.g. because the server needs other scopes.");
        }
        show(&format!("To log in, open this address in a browser of this machine:\n\n  {url}\n"));
    });
    if is_registered { browser.port(PORT) } else { browser }
}

/// Restarts the server in the running kernel, so that the kernel uses the new credentials, or none after a logout. A
/// server that has stopped, e.g. because an operator stopped it, is left alone: its next start reads the credentials.
async fn restart(global: &Global, server: &str, timeout: Duration) {
    let Ok(client) = control::connect_to_change(global).await else { return };
    let found = check_running(&client, server).await;
    let has_stopped = found.is_ok_and(|found| {
        found.status == ServerState::Disconnected && found.instances.unwrap_or(0) == 0
    });
    if !has_stopped {
        let mut params = KernelServerParams::new(server);
        params.timeout_ms = Some(mgp_types::millis(timeout));
        let restarted = client.request::<KernelServersRestart>(&params).await;
        if let Err(error) = restarted {
            tracing::debug!(%error, "server not restarted");
        }
    }
    client.close().await;
}

/// Shows a text to the person on standard error; standard output is reserved for the result.
fn show(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Reads the address that the browser shows after the login. For any other line, e.g. an empty one, asks again.
fn read_pasted(mut input: impl io::BufRead) -> io::Result<String> {
    const BEGIN: &str = probe::REDIRECT_URI;
    for _ in 0..MAX_PASTED_LINES {
        let mut line = String::new();
        if io::Read::take(&mut input, MAX_PASTED_BYTES).read_line(&mut line)? == 0 {
            break;
        }
        let address = line.trim();
        if address.starts_with(BEGIN) {
            return Ok(address.to_owned());
        }
        show(&format!("The address of that page begins with {BEGIN}; paste it:"));
    }
    Err(io::Error::other(format!("no address that begins with {BEGIN} was pasted")))
}

/// A browser on another device. The person pastes the address that the browser shows after the login, or enters a code
/// in the browser.
struct OtherDevice;

#[async_trait]
impl Browser for OtherDevice {
    async fn redirect_uri(&self, _: Option<&str>) -> Result<String, AuthError> {
        Ok(probe::REDIRECT_URI.to_owned())
    }

    async fn authorize(&self, url: &str) -> Result<String, AuthError> {
        show(&format!(
            "To log in, open this address in any browser:\n\n  {url}\n\nIt then shows a page that cannot be reached. Paste the address of that page:"
        ));
        let pasted = tokio::task::spawn_blocking(|| read_pasted(io::stdin().lock()));
        let read = pasted.await.map_err(|error| AuthError::browser(error.to_string()))?;
        read.map_err(|error| AuthError::browser(error.to_string()))
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    fn show_device_code(&self, code: &DeviceCode<'_>) {
        use std::fmt::Write as _;
        let user_code = escape_hidden(code.user_code);
        let mut text =
            format!("To log in, open {} in any browser and enter {user_code}", code.page);
        if let Some(complete) = code.complete {
            let _ = write!(text, ", or open\n\n  {complete}\n");
        }
        show(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_the_address_of_the_login_is_asked_for_again() {
        let address = format!("{}?code=c&state=s", probe::REDIRECT_URI);
        let pasted = format!("\nc\n  {address}  \n");
        assert_eq!(read_pasted(pasted.as_bytes()).unwrap(), address);
    }

    #[test]
    fn input_without_the_address_of_the_login_ends_with_the_reason() {
        for pasted in ["", "c\n", &"c\n".repeat(1_000)] {
            let error = read_pasted(pasted.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("begins with http://127.0.0.1:8976/callback"), "{error}");
        }
    }
}
