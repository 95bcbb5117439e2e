//! Starts a server briefly to read its version and its tools, e.g. for `mgp doctor` and for first grants.

use std::collections::{BTreeMap, HashSet};
use std::error::Error as _;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mgp_client_sdk::Client;
use mgp_client_sdk::auth::AuthError;
use mgp_client_sdk::gateway::AuthorizationFailed;
use mgp_discovery::{
    Expanded, ExpandedServer, ExpandedTarget, Expander, KernelConfig, SecretFile, ServerConfig,
    TargetConfig,
};
use mgp_kernel::{LoginServer, Logins};
use mgp_security::Definitions;
use mgp_transport::{ChildCommand, SkippedFolder, is_program};
use mgp_types::Payload;
use mgp_types::mcp::{Era, ListParams, Tool};
use mgp_types::method::ToolsList;
use mgp_types::mgp::Transport;
use mgp_types::service::{Call, HttpFailure, ServerId};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::args::Global;
use crate::output::Progress;

mod sent_credentials;
mod stderr_tail;
mod unreadable;

pub(super) use sent_credentials::SentCredentials;
use stderr_tail::StderrTail;
pub(super) use stderr_tail::best_of;
pub(super) use unreadable::UnreadableTool;

/// The bounds of the number of servers that start at the same time. Between these bounds, the number is twice that of
/// the processors.
const STARTING: (usize, usize) = (4, 16);

/// The maximum time after which a server no longer counts as starting, so that servers that hang do not delay the
/// others for long.
const START_DELAY: Duration = Duration::from_secs(10);

/// The time that a server gets to exit by itself after its connection was closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The time to wait for the last lines on a failed server's standard error.
const STDERR_DELAY: Duration = Duration::from_millis(50);

/// The maximum number of pages that are read of a list of tools.
const MAX_PAGES: usize = 10_000;

/// The number of bytes of a list of tools after which no further page is read.
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

/// The redirect URI of a client that was registered by hand, and of logins whose browser runs on another device.
pub(super) const REDIRECT_URI: &str = "http://127.0.0.1:8976/callback";

/// A server that was started and has listed its tools.
#[derive(Debug)]
pub(super) struct ProbedServer {
    pub(super) era: &'static str,
    pub(super) revision: String,
    /// `true` if the probed server speaks MGP.
    pub(super) mgp: bool,
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    /// The tools of the probed server that can be called.
    pub(super) tools: Vec<Tool>,
    /// The names of all tools that the probed server lists.
    pub(super) listed: Vec<String>,
    /// The entries of the list from which no tool can be read.
    pub(super) unreadable: Vec<UnreadableTool>,
    /// The JSON texts of all tools as the server sent them.
    pub(super) raw: Vec<Payload>,
}

/// The beginning of the reason that is given if a server did not answer in time.
const NO_ANSWER: &str = "it did not answer";

/// The reason why a server could not be started or its tools could not be listed.
#[derive(Debug)]
pub(super) struct ProbeError {
    pub(super) reason: String,
    /// The line of the server's standard error that explains the failure best.
    pub(super) stderr: Option<String>,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stderr {
            Some(line) => write!(f, "{}; it wrote: “{line}”", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// Returns the maximum number of servers that start at the same time. With more of them on few processors, none would
/// answer in time.
fn max_starting() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (2 * processors).clamp(STARTING.0, STARTING.1)
}

/// The settings with which servers are started, and the limit on how many start at the same time.
#[derive(Debug)]
pub(super) struct Prober {
    expander: Expander,
    logins: Logins,
    timeout: Option<Duration>,
    kernel: KernelConfig,
    starts: Semaphore,
}

impl Prober {
    /// Creates a prober; a `timeout` replaces each server's own `start_timeout`.
    pub(super) fn new(timeout: Option<Duration>, kernel: &KernelConfig, state: &Path) -> Self {
        Self {
            expander: Expander::from_env().secrets(SecretFile::in_folder(state)),
            logins: Logins::in_folder(state).with_proxy(mgp_kernel::proxy(kernel)),
            timeout,
            kernel: kernel.clone(),
            starts: Semaphore::new(max_starting()),
        }
    }

    /// Starts servers, several at a time, shows the progress, and returns their results in order.
    pub(super) async fn probe_all(
        &self,
        global: &Global,
        servers: &[&ServerConfig],
        definitions: &Definitions,
    ) -> Vec<Option<Result<ProbedServer, ProbeError>>> {
        let probes = servers.iter().enumerate();
        let probes =
            probes.map(|(at, server)| async move { (at, self.probe(server, definitions).await) });
        let mut probes: FuturesUnordered<_> = probes.collect();
        let mut progress = Progress::new(global, "checking servers", servers.len());
        let mut results: Vec<_> = servers.iter().map(|_| None).collect();
        while let Some((at, result)) = probes.next().await {
            progress.step();
            results[at] = Some(result);
        }
        results
    }

    /// Starts a server, lists its tools, and records their definitions in `definitions`.
    pub(super) async fn probe(
        &self,
        server: &ServerConfig,
        definitions: &Definitions,
    ) -> Result<ProbedServer, ProbeError> {
        let stderr = StderrTail::default();
        match self.start(server, definitions, &stderr).await {
            Ok(probed) => Ok(probed),
            Err(reason) => {
                if matches!(server.target, TargetConfig::Program { .. }) {
                    sleep(STDERR_DELAY).await;
                }
                let reason = stderr.explain(&stderr.redact(&reason));
                Err(ProbeError { reason, stderr: stderr.best_line() })
            }
        }
    }

    async fn start(
        &self,
        server: &ServerConfig,
        definitions: &Definitions,
        stderr: &StderrTail,
    ) -> Result<ProbedServer, String> {
        let Ok(permit) = self.starts.acquire().await else { return Err("it was cancelled".into()) };
        let limit = self.limit(server);
        let mut probe = pin!(timeout(limit, self.run(server, definitions, stderr)));
        let early = tokio::select! {
            probed = &mut probe => Some(probed),
            () = sleep(START_DELAY.min(limit / 4)) => None,
        };
        drop(permit);
        let probed = match early {
            Some(probed) => probed,
            None => probe.await,
        };
        probed.unwrap_or_else(|_| {
            Err(format!(
                "{NO_ANSWER} within {} s; run `mgp doctor {} --timeout 5m`, and set `start_timeout` if it then works",
                limit.as_secs(),
                server.id
            ))
        })
    }

    fn limit(&self, server: &ServerConfig) -> Duration {
        self.timeout.unwrap_or_else(|| server.start_timeout())
    }

    async fn run(
        &self,
        server: &ServerConfig,
        definitions: &Definitions,
        stderr: &StderrTail,
    ) -> Result<ProbedServer, String> {
        let client = self.connect(server, stderr).await?;
        let raw = match client.capabilities().tools {
            Some(_) => list(&client).await,
            None => Ok(Vec::new()),
        };
        let raw = match raw {
            Ok(raw) => definitions
                .observe(&server.id, &raw)
                .await
                .map(|()| raw)
                .map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        let facts = client.server();
        let info = client.server_info();
        let probed = raw.map(|raw| {
            let (mut listed, mut unreadable) = (Vec::<Tool>::new(), Vec::new());
            for (at, tool) in raw.iter().enumerate() {
                match serde_json::from_str(tool.as_str()) {
                    Ok(tool) => listed.push(tool),
                    Err(_) => unreadable.push(UnreadableTool::new(at, tool)),
                }
            }
            let names = listed.iter().map(|tool| tool.name.clone()).collect();
            let state = |tool: &Tool| definitions.state(Some(&server.id), &tool.name);
            ProbedServer {
                era: match facts.era {
                    Era::Modern => "modern",
                    Era::Legacy => "legacy",
                },
                revision: facts.revision.to_string(),
                mgp: facts.mgp.is_some(),
                name: info.as_ref().map(|info| info.name.clone()),
                version: info.map(|info| info.version),
                tools: listed.into_iter().filter(|tool| state(tool).is_callable()).collect(),
                listed: names,
                unreadable,
                raw,
            }
        });
        // If the server does not exit in time, dropping the client kills it.
        let _ = timeout(EXIT_TIMEOUT, client.close()).await;
        probed
    }

    async fn connect(&self, server: &ServerConfig, stderr: &StderrTail) -> Result<Client, String> {
        let (expander, own) = (self.expander.clone(), server.clone());
        // Expand the variables on a blocking thread, because this may read files and run commands.
        let expanded = tokio::task::spawn_blocking(move || expander.server(&own)).await;
        let expanded = expanded.map_err(|error| error.to_string())?;
        let expanded = expanded.map_err(|error| error.summary())?;
        stderr.hide_secrets(&expanded);
        let builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"))
            .init_timeout(self.limit(server))
            .config(|config| mgp_kernel::offer_callers(config, false))
            .era(server.era.into());
        let builder = mgp_kernel::offer_extensions(builder, &self.kernel, server);
        let ExpandedServer { id, target: reach, .. } = expanded;
        let mut sent = SentCredentials::None;
        let connected = match reach {
            ExpandedTarget::Program { command, args, cwd, env } => {
                let path = mgp_kernel::program_path(&env);
                let written = match &server.target {
                    TargetConfig::Program { command: written, .. } => written.as_str(),
                    _ => command.as_str(),
                };
                check_program(written, command.as_str(), &cwd, Some(path.as_os_str()))?;
                let (stderr, stray) = (stderr.clone(), stderr.clone());
                let program = ChildCommand::new(command.as_str())
                    .args(args.iter().map(Expanded::as_str))
                    .inherit_env(self.kernel.pass_env.iter().chain(&server.pass_env))
                    .env("PATH", path)
                    .envs(env.iter().map(|(name, value)| (name, value.as_str())))
                    .server(id.as_str())
                    .cwd(cwd)
                    .on_stderr(move |line| stderr.push(line))
                    .on_stray_stdout(move |line| stray.push_stray(line))
                    .close_timeout(EXIT_TIMEOUT)
                    .term_timeout(EXIT_TIMEOUT);
                builder.spawn(program).await
            }
            ExpandedTarget::Url { url, headers, auth, transport } => {
                let headers = self::headers(&headers)?;
                let url = url.as_str().to_owned();
                let login = (!headers.contains_key(AUTHORIZATION)).then(|| {
                    // Read the list of tools with the shared login, even if each agent has its own login.
                    self.logins.credentials(LoginServer { id, url: url.clone(), auth: *auth }, None)
                });
                let login = login.flatten();
                sent = SentCredentials::new(&headers, login.is_some());
                let builder = builder.http(|config| {
                    config.headers.extend(headers);
                    config.credentials = login;
                    config.proxy = self.logins.proxy().clone();
                });
                match transport {
                    Transport::Sse => builder.connect_http_sse(url).await,
                    _ => builder.connect_url(url).await,
                }
            }
            _ => return Err("its transport is not supported by this program".into()),
        };
        connected.map_err(|error| error_chain(&error, &server.id, sent))
    }
}

/// Parses the configured HTTP headers.
pub(super) fn headers(headers: &BTreeMap<String, Expanded>) -> Result<HeaderMap, String> {
    headers.iter().map(header).collect()
}

/// Parses one header; errors do not contain the value, which may be a secret.
fn header((name, value): (&String, &Expanded)) -> Result<(HeaderName, HeaderValue), String> {
    let invalid = |what: &str| format!("`headers.{name}`: {what}");
    let header =
        HeaderName::try_from(name.as_str()).map_err(|_| invalid("not a valid header name"))?;
    let mut value =
        HeaderValue::try_from(value.as_str()).map_err(|_| invalid("not a valid header value"))?;
    value.set_sensitive(true);
    Ok((header, value))
}

/// A page of a tool list; the tools stay raw text, because their fingerprints cover the exact text.
#[derive(Deserialize)]
struct ToolsPage {
    tools: Option<Vec<Payload>>,
    #[serde(rename = "nextCursor")]
    next: Option<String>,
}

/// Returns the tools from all pages of the list. If the list is too long, returns only the tools of the first pages; a
/// kernel uses the same tools.
async fn list(client: &Client) -> Result<Vec<Payload>, String> {
    let (mut tools, mut params) = (Vec::<Payload>::new(), ListParams::new());
    let (mut bytes, mut cursors) = (0_usize, HashSet::new());
    for _ in 0..MAX_PAGES {
        let failed = |error| format!("its tools cannot be listed: {error}");
        let call = Call::ask::<ToolsList>(&params, client.context()).map_err(failed)?;
        let page: ToolsPage =
            client.stack().send(call).await.map_err(failed)?.get().map_err(failed)?;
        let (more, next) = (page.tools.unwrap_or_default(), client.server().next_page(page.next));
        bytes += more.iter().map(|tool| tool.as_str().len()).sum::<usize>();
        bytes += next.as_ref().map_or(0, String::len);
        tools.extend(more);
        let Some(next) = next.filter(|_| bytes < MAX_LIST_BYTES) else { break };
        if !cursors.insert(next.clone()) {
            // Remove repeated tools, because a server that ignores cursors lists its first tools again.
            let mut texts = HashSet::new();
            tools.retain(|tool| texts.insert(tool.as_str().to_owned()));
            break;
        }
        params.cursor = Some(next);
    }
    Ok(tools)
}

/// Checks that the program of a server exists. `written` is the command in the configuration.
fn check_program(
    written: &str,
    command: &str,
    cwd: &Path,
    path: Option<&OsStr>,
) -> Result<(), String> {
    let Err(error) = find_program(command, cwd, path) else { return Ok(()) };
    // If one of its arguments contains a `/`, the whole command counts as a path, and was completed with the folder of
    // the configuration file.
    let fix = arguments_fix(written, cwd, path).filter(|_| written != command);
    Err(fix.map_or(error, |fix| format!("the program `{written}` does not exist; {fix}")))
}

/// Finds a program like the operating system does; errors name the remedy.
pub(super) fn find_program(
    command: &str,
    cwd: &Path,
    path: Option<&OsStr>,
) -> Result<PathBuf, String> {
    if !cwd.is_dir() {
        let (exists, cwd) = (cwd.exists(), cwd.display());
        return Err(if exists {
            format!("its folder `{cwd}` is a file; correct `cwd`")
        } else {
            format!("its folder `{cwd}` does not exist; create it, or correct `cwd`")
        });
    }
    if command.contains(std::path::is_separator) {
        let file = cwd.join(command);
        return match (file.is_file(), is_program(&file)) {
            (true, true) => Ok(file),
            (true, false) => Err(format!("`{command}` is not executable; run `chmod +x` on it")),
            _ if file.is_dir() => {
                Err(format!("`{command}` is a folder; name the program in it as `command`"))
            }
            _ => {
                let fix = arguments_fix(command, cwd, path);
                let fix = fix.unwrap_or_else(|| "correct `command`".to_owned());
                Err(format!("the program `{command}` does not exist; {fix}"))
            }
        };
    }
    let folders = path.map_or_else(mgp_transport::search_path, OsStr::to_owned);
    let files = std::env::split_paths(&folders).map(|folder| cwd.join(folder).join(command));
    let files = files.flat_map(|file| {
        let windows = ["exe", "cmd", "bat"].map(|end| file.with_extension(end));
        std::iter::once(file).chain(windows.into_iter().filter(|_| cfg!(windows)))
    });
    files.into_iter().find(|file| is_program(file)).ok_or_else(|| {
        let fix = arguments_fix(command, cwd, path);
        if let Some(skipped) = SkippedFolder::with_program(command).filter(|_| fix.is_none()) {
            let remedy = skipped.remedy();
            return format!(
                "the program `{command}` is not on the PATH, but in a folder that is left out: {skipped}; {remedy}"
            );
        }
        let fix = fix.unwrap_or_else(|| "install it, or use its full path".to_owned());
        format!(
            "the program `{command}` is not on the PATH, nor in the usual folders of this user; {fix}"
        )
    })
}

/// Returns the remedy for a command that has arguments behind the program, as in a shell; `None` for any other command.
fn arguments_fix(command: &str, cwd: &Path, path: Option<&OsStr>) -> Option<String> {
    let (program, _) = command.split_once(' ')?;
    find_program(program, cwd, path).ok()?;
    Some(format!("write only `{program}` as `command`, and the words after it as `args`"))
}

/// Returns the text of an error and of its sources, without repeated sentences.
pub(super) fn error_chain(
    error: &mgp_client_sdk::Error,
    id: &ServerId,
    sent: SentCredentials,
) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(failed) = error.downcast_ref::<AuthorizationFailed>() {
            return failed.to_string();
        }
        if let Some(error) = error.downcast_ref::<Arc<AuthError>>()
            && matches!(
                **error,
                AuthError::NoClient { .. }
                    | AuthError::Registration { .. }
                    | AuthError::ForeignIssuer { .. }
                    | AuthError::IssuerMismatch { .. }
            )
        {
            return login_error(error, id);
        }
        // Replace the SDK's text, which names functions of the SDK that users of the program do not know.
        let status = error.downcast_ref::<HttpFailure>();
        if let Some(HttpFailure::Status(401) | HttpFailure::StatusWithError(401)) = status {
            return sent.refused_by(id);
        }
        let sentence = error.to_string();
        if !text.contains(&sentence) {
            text = format!("{text}: {sentence}");
        }
        source = error.source();
    }
    text
}

/// Returns the text of an error of a login, with the remedy for users of this program instead of that for users of the
/// SDK.
pub(super) fn login_error(error: &AuthError, id: &ServerId) -> String {
    match error {
        AuthError::NoClient { issuer } => format!(
            "`{issuer}` accepts no registrations: register `mgp` there by hand with the redirect URI {REDIRECT_URI}, and write its `client_id` into `auth` of `{id}`"
        ),
        // A registration can be repeated after a failure of the endpoint.
        AuthError::Registration { error: status, .. } if !status.starts_with("status 5") => {
            format!(
                "{error}; register `mgp` there by hand with the redirect URI {REDIRECT_URI}, and write its `client_id` into `auth` of `{id}`"
            )
        }
        AuthError::IssuerMismatch { asked, found }
            if asked.strip_suffix('/') == Some(found.as_str())
                && found.matches('/').count() == 2 =>
        {
            format!("{error}; write `issuer = \"{found}\"` into `auth` of `{id}`")
        }
        AuthError::ForeignIssuer { expected, found } => format!(
            "the client of `{id}` is registered at `{expected}`, but the server now names {found}; if you trust the change, write the new one as `issuer` into its `auth`"
        ),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use mgp_client_sdk::TestClient;
    use mgp_server_sdk::Server;
    use mgp_types::service::{Reply, Stack, around};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_list_of_more_than_a_hundred_pages_is_read_and_one_without_an_end_in_part() {
        for (is_endless, expected) in [(false, 150), (true, 1)] {
            let next = move |page: usize| {
                if is_endless { Some(0) } else { (page < 149).then_some(page + 1) }
            };
            let pages = around(move |call: Call, inner: Stack| async move {
                if !call.is::<ToolsList>() {
                    return inner.send(call).await;
                }
                let cursor = call.params().get::<ListParams>()?.cursor;
                let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
                let schema = json!({ "type": "object" });
                let tool = json!({ "name": format!("t{page}"), "inputSchema": schema });
                let mut list = json!({ "tools": [tool] });
                if let Some(next) = next(page) {
                    list["nextCursor"] = json!(next.to_string());
                }
                Reply::of(&list)
            });
            let tool = mgp_server_sdk::Tool::new("t0", "Adds.", || async { "0" });
            let client = TestClient::new(Server::new("pages", "1").tool(tool).layer(pages)).await;
            assert_eq!(list(&client).await.unwrap().len(), expected);
        }
    }

    #[test]
    fn a_refused_registration_names_the_key_for_a_client_and_a_failed_one_does_not() {
        for (error, is_refused) in [("invalid_client_metadata", true), ("status 503", false)] {
            let (issuer, error) = ("https://one.example".to_owned(), error.to_owned());
            let error = AuthError::Registration { issuer, error, description: String::new() };
            let text = login_error(&error, &"tracker".into());
            assert!(text.contains("refused to register"), "{text}");
            assert_eq!(text.contains("into `auth` of `tracker`"), is_refused, "{text}");
        }
    }

    #[test]
    fn an_issuer_that_differs_by_the_slash_after_its_host_is_an_error_with_the_remedy() {
        for (asked, found, has_remedy) in [
            ("https://one.example/", "https://one.example", true),
            ("https://one.example/t/", "https://one.example/t", false),
            ("https://one.example", "https://one.example/", false),
        ] {
            let (asked, found) = (asked.to_owned(), found.to_owned());
            let text = login_error(&AuthError::IssuerMismatch { asked, found }, &"tracker".into());
            assert!(text.contains("must be identical"), "{text}");
            assert_eq!(text.contains("`issuer = \"https://one.example\"`"), has_remedy, "{text}");
        }
    }

    #[test]
    fn a_program_that_is_not_found_is_an_error_with_the_remedy() {
        let here = Path::new("/");
        assert!(find_program("sh", here, None).is_ok());
        assert!(
            find_program("no-such-program", here, None).unwrap_err().contains("not on the PATH")
        );
        assert!(find_program("sh", here, Some(OsStr::new("/nowhere"))).is_err());
        assert!(
            find_program("./no-such-program", here, None).unwrap_err().contains("does not exist")
        );
        assert!(find_program("sh", Path::new("/nowhere"), None).unwrap_err().contains("folder"));
        for line in ["sh -c true", "sh -c ./no-such-program"] {
            assert!(find_program(line, here, None).unwrap_err().ends_with("after it as `args`"));
        }
        let (line, path) = ("sh -c ./no-such-program", "/etc/sh -c ./no-such-program");
        let error = check_program(line, path, here, None).unwrap_err();
        assert!(error.contains("`sh -c ./") && error.ends_with("after it as `args`"), "{error}");
        assert!(find_program("./", here, None).unwrap_err().contains("is a folder"));
        let file = std::env::current_exe().unwrap();
        assert!(find_program("sh", &file, None).unwrap_err().contains("is a file"));
    }
}
