//! Starts a server briefly to read its version and its tools, e.g. for `mgp doctor` and for first grants.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mgp_client_sdk::gateway::{FailsAtProbe, share_probe_failure};
use mgp_client_sdk::{Client, ClientBuilder};
use mgp_discovery::{
    Expanded, ExpandedServer, ExpandedTarget, Expander, KernelConfig, SecretFile, ServerConfig,
    TargetConfig,
};
use mgp_kernel::{LoginServer, Logins, ProbedLists};
use mgp_security::Definitions;
use mgp_transport::ChildCommand;
use mgp_types::mcp::{Era, ListParams, ServerCapabilities, Tool};
use mgp_types::method::ToolsList;
use mgp_types::mgp::Transport;
use mgp_types::service::Call;
use mgp_types::{ErrorCode, Payload};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::args::Global;
use crate::output::Progress;

mod error_text;
mod program;
mod sent_credentials;
mod stderr_tail;
mod unreadable;

pub(super) use error_text::{REDIRECT_URI, error_chain, login_error};
use program::check_program;
pub(super) use program::find_program;
pub(super) use sent_credentials::SentCredentials;
use stderr_tail::StderrTail;
pub(super) use stderr_tail::best_of;
pub(super) use unreadable::UnreadableTool;

/// The lower bound of the number of servers that start at the same time. Within its bounds, this number is twice the
/// number of processors.
const MIN_STARTING: usize = 4;

/// The upper bound of the number of servers that start at the same time.
const MAX_STARTING: usize = 16;

/// The time after which a server no longer counts as starting. So a server that hangs does not delay other servers for
/// long.
const START_DELAY: Duration = Duration::from_secs(10);

/// The time that a server gets to exit by itself after its connection was closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The maximum time for reading the lists of a server other than its tools.
const LISTS_TIMEOUT: Duration = Duration::from_secs(5);

/// The time to wait for the last lines on a failed server's standard error.
const STDERR_DELAY: Duration = Duration::from_millis(50);

/// The maximum number of pages to read of a list of tools.
const MAX_PAGES: usize = 10_000;

/// The size of a list of tools, in bytes, after which no further page is read.
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

/// The number of tools after which no further page is read. A kernel reads no more either.
const MAX_TOOLS: usize = 10_000;

/// The time after which no further page of a list of tools is read. Together with the start of the server and the
/// review of the tools, it must be shorter than the usual `start_timeout`.
const PAGES_TIMEOUT: Duration = Duration::from_secs(15);

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
    /// The entries of the list that are not readable tools.
    pub(super) unreadable: Vec<UnreadableTool>,
    /// The JSON texts of all tools as the server sent them.
    pub(super) raw: Vec<Payload>,
    /// The lists of the server for the next kernel, if [`Prober::reading_lists`] was called and the kernel can use
    /// them.
    pub(super) lists: Option<ProbedLists>,
}

/// The beginning of the reason for the failure of a server that did not answer in time.
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

/// Returns the maximum number of servers that start at the same time. If too many servers started on few processors,
/// none would answer in time.
fn max_starting() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (2 * processors).clamp(MIN_STARTING, MAX_STARTING)
}

/// The settings for starting servers, and the limit on how many start at the same time.
#[derive(Debug)]
pub(super) struct Prober {
    expander: Expander,
    logins: Logins,
    timeout: Option<Duration>,
    kernel: KernelConfig,
    starts: Semaphore,
    reads_lists: bool,
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
            reads_lists: false,
        }
    }

    /// Also reads the lists that the next kernel needs, so that it need not start the servers for them.
    pub(super) fn reading_lists(mut self) -> Self {
        self.reads_lists = true;
        self
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
        // Put the future in a box, because it is large.
        let mut probe = Box::pin(timeout(limit, self.run(server, definitions, stderr)));
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
        let (begun, fails_at_probe) = (Instant::now(), FailsAtProbe::default());
        let client = self.connect(server, &fails_at_probe, stderr).await?;
        let raw = match list(&client).await {
            Ok(raw) => definitions
                .observe(&server.id, &raw)
                .await
                .map(|()| raw)
                .map_err(|error| error.to_string()),
            Err(reason) => Err(reason),
        };
        let lists = match &raw {
            Ok(raw) if self.reads_lists => {
                let read = ProbedLists::read(server, &client, raw, &fails_at_probe);
                // Leave time for the exit, so that slow lists do not make a started server fail.
                let left = self.limit(server).saturating_sub(begun.elapsed() + EXIT_TIMEOUT);
                timeout(LISTS_TIMEOUT.min(left / 2), read).await.ok().flatten()
            }
            _ => None,
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
                lists,
            }
        });
        // If the server does not exit in time, dropping the client kills it.
        let _ = timeout(EXIT_TIMEOUT, client.close()).await;
        probed
    }

    /// Returns a builder of a client that offers to the server what a kernel offers to it.
    fn builder(&self, server: &ServerConfig, fails_at_probe: &FailsAtProbe) -> ClientBuilder {
        let builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"))
            .init_timeout(self.limit(server))
            .config(|config| mgp_kernel::offer_callers(config, false))
            .era(server.era.into());
        let builder = mgp_kernel::offer_extensions(builder, &self.kernel, server);
        share_probe_failure(builder, fails_at_probe.clone())
    }

    async fn expand(&self, server: &ServerConfig) -> Result<ExpandedServer, String> {
        let (expander, own) = (self.expander.clone(), server.clone());
        // Expand the variables on a blocking thread, because this may read files and run commands.
        let expanded = tokio::task::spawn_blocking(move || expander.server(&own)).await;
        expanded.map_err(|why| why.to_string())?.map_err(|why| why.summary())
    }

    async fn connect(
        &self,
        server: &ServerConfig,
        fails_at_probe: &FailsAtProbe,
        stderr: &StderrTail,
    ) -> Result<Client, String> {
        let expanded = self.expand(server).await?;
        stderr.hide_secrets(&expanded);
        let builder = self.builder(server, fails_at_probe);
        let ExpandedServer { id, target: reach, rights, .. } = expanded;
        let mut sent = SentCredentials::None;
        let connected = match reach {
            ExpandedTarget::Program { command, args, cwd, env } => {
                let path = mgp_kernel::program_path(&env);
                let written = match &server.target {
                    TargetConfig::Program { command: written, .. } => written.as_str(),
                    _ => command.as_str(),
                };
                let program = ChildCommand::new(command.as_str())
                    .args(args.iter().map(Expanded::as_str))
                    .inherit_env(self.kernel.pass_env.iter().chain(&server.pass_env));
                let program = mgp_kernel::confine(program, rights, command.as_str(), &path)?;
                check_program(written, command.as_str(), &cwd, Some(path.as_os_str()))?;
                let (stderr, stray) = (stderr.clone(), stderr.clone());
                let program = program
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
                    let (url, only_public) = (url.clone(), server.only_public);
                    self.logins.credentials(LoginServer { id, url, auth: *auth, only_public }, None)
                });
                sent = SentCredentials::new(&headers, matches!(login, Some(Some(_))));
                let builder = builder.http(|config| {
                    config.headers.extend(headers);
                    config.credentials = login.flatten();
                    config.proxy = self.logins.proxy().clone();
                    config.only_public = server.only_public;
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

/// Returns the tools from all pages of the list. If the list is too long or takes too long, returns only the tools of
/// the first pages; a kernel also uses only the first pages.
async fn list(client: &Client) -> Result<Vec<Payload>, String> {
    let capabilities = client.capabilities();
    let describes_nothing = *capabilities == ServerCapabilities::default();
    if capabilities.tools.is_none() && !describes_nothing {
        return Ok(Vec::new());
    }
    let (mut tools, mut params) = (Vec::<Payload>::new(), ListParams::new());
    let (mut bytes, mut cursors) = (0_usize, HashSet::new());
    let until = Instant::now() + PAGES_TIMEOUT;
    for _ in 0..MAX_PAGES {
        let failed = |error| format!("its tools cannot be listed: {error}");
        let call = Call::ask::<ToolsList>(&params, client.context()).map_err(failed)?;
        let answer = client.stack().send(call);
        let answer = if params.cursor.is_none() {
            answer.await
        } else if let Ok(answer) = timeout_at(until, answer).await {
            answer
        } else {
            break;
        };
        let reply = match answer {
            // For a server that has described no capability, only the answer shows whether it has tools.
            Err(error) if describes_nothing && error.code() == ErrorCode::METHOD_NOT_FOUND => break,
            reply => reply.map_err(failed)?,
        };
        let page: ToolsPage = reply.get().map_err(failed)?;
        let (more, next) = (page.tools.unwrap_or_default(), client.server().next_page(page.next));
        bytes += more.iter().map(|tool| tool.as_str().len()).sum::<usize>();
        bytes += next.as_ref().map_or(0, String::len);
        tools.extend(more);
        let is_full = bytes >= MAX_LIST_BYTES || tools.len() >= MAX_TOOLS;
        let Some(next) = next.filter(|_| !is_full) else { break };
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

#[cfg(test)]
mod tests {
    use mgp_client_sdk::TestClient;
    use mgp_server_sdk::Server;
    use mgp_types::RpcError;
    use mgp_types::method::{Initialize, Kind};
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

    /// Regression test: a server whose list of tools does not end counted as one that does not answer, although a
    /// kernel uses its first tools.
    #[tokio::test(start_paused = true)]
    async fn of_a_list_without_an_end_the_tools_of_the_first_pages_are_returned() {
        let pages = around(|call: Call, inner: Stack| async move {
            if !call.is::<ToolsList>() {
                return inner.send(call).await;
            }
            sleep(Duration::from_secs(1)).await;
            let cursor = call.params().get::<ListParams>()?.cursor;
            let page: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let tool = json!({ "name": format!("t{page}"), "inputSchema": { "type": "object" } });
            Reply::of(&json!({ "tools": [tool], "nextCursor": (page + 1).to_string() }))
        });
        let tool = mgp_server_sdk::Tool::new("t0", "Adds.", || async { "0" });
        let client = TestClient::new(Server::new("pages", "1").tool(tool).layer(pages)).await;
        let begun = Instant::now();
        let listed = list(&client).await.unwrap().len();
        assert!((10..20).contains(&listed), "{listed} after {:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_server_that_describes_no_capability_is_asked_for_its_tools() {
        for has_tools in [true, false] {
            let server = Stack::from_fn(move |call: Call| async move {
                if call.is::<Initialize>() {
                    return Reply::of(&json!({
                        "protocolVersion": "2025-06-18", "capabilities": {},
                        "serverInfo": { "name": "bare", "version": "1" },
                    }));
                }
                if call.is::<ToolsList>() && has_tools {
                    let tool = json!({ "name": "add", "inputSchema": { "type": "object" } });
                    return Reply::of(&json!({ "tools": [tool] }));
                }
                if call.kind() == Kind::Request {
                    return Err(RpcError::method_not_found("another"));
                }
                Ok(Reply::empty())
            });
            let client = TestClient::legacy(server).await;
            assert_eq!(list(&client).await.unwrap().len(), usize::from(has_tools));
        }
    }
}
