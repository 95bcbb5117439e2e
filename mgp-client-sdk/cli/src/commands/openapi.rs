//! The command `mgp openapi`: serves the operations that an OpenAPI document describes as tools, over standard streams.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mgp_openapi::{Api, Credentials, MAX_RESPONSE, decompressed};
use mgp_transport::http::{GuardedFetch, HttpClientError, Proxy};
use mgp_types::service::{Fetch as _, FetchError, FetchRequest, SharedFetch, shown_url};
use serde::Serialize;

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{Output, Render, print, print_stderr};
use crate::pipe::explained;
use crate::time_args;

/// The maximum size of an OpenAPI document at a URL, in bytes.
const MAX_DOCUMENT: usize = 16 << 20;

const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The prefix of the environment variables whose values are sent as headers of each request.
const HEADER: &str = "MGP_HEADER_";

/// The prefix of the environment variables whose values are sent in the query of each request.
const QUERY: &str = "MGP_QUERY_";

/// `mgp openapi`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The environment variable MGP_HEADER_X_API_KEY is the header `X-Api-Key` of each request, MGP_QUERY_key is `key` in its query.\n\nExample:\n  mgp openapi pets.yaml --list\n  mgp servers add pets -- mgp openapi ~/apis/pets.yaml --only 'GET *'"
)]
pub(crate) struct OpenApi {
    /// The document: a file or a URL, in JSON or YAML
    source: String,
    /// Address of the API; the default is the address in the document, which must then be public and `https`
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Operations to serve, by identifier, or method and path; `*` is a wildcard
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Time limit of each request
    #[arg(long, value_name = "DURATION", value_parser = time_args::duration, default_value = "60s")]
    timeout: Duration,
    /// List the tools and the operations that are left out, and serve nothing
    #[arg(long)]
    list: bool,
}

/// The tools of an API.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ApiReport {
    /// The address that receives the requests; absent if the document names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// The tools.
    tools: Vec<ApiTool>,
    /// The operations that are left out.
    left_out: Vec<ApiLeftOut>,
}

/// A tool of an API.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ApiTool {
    /// The name of the tool.
    name: String,
    /// The method and the path of the operation that the tool calls.
    operation: String,
}

/// An operation that is left out.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ApiLeftOut {
    /// The method and the path of the operation.
    operation: String,
    /// The reason why the operation is left out.
    why: String,
}

impl ApiReport {
    fn new(api: &Api, address: Option<String>) -> Self {
        let tool = |one: &mgp_openapi::Operation| ApiTool {
            name: one.tool_name().to_owned(),
            operation: format!("{} {}", one.method(), one.path()),
        };
        let left_out = |one: &mgp_openapi::LeftOut| ApiLeftOut {
            operation: one.operation.clone(),
            why: one.why.clone(),
        };
        let tools = api.operations().iter().map(tool).collect();
        Self { address, tools, left_out: api.left_out().iter().map(left_out).collect() }
    }
}

impl Render for ApiReport {
    fn render(&self, out: &mut Output) {
        if let Some(address) = &self.address {
            out.line(format!("requests go to {address}"));
        }
        let widest = self.tools.iter().map(|tool| tool.name.len()).max().unwrap_or(0);
        for tool in &self.tools {
            out.line(format!("{:widest$}  {}", tool.name, tool.operation));
        }
        for one in &self.left_out {
            out.line(format!("left out: {}: {}", one.operation, one.why));
        }
    }
}

pub(crate) async fn run(global: &Global, arguments: &OpenApi) -> CliResult {
    let source = arguments.source.as_str();
    let is_url = source.starts_with("http://") || source.starts_with("https://");
    let (text, needs_host) = if is_url { fetched(source).await? } else { (read(source)?, false) };
    let failed = |why: &dyn std::fmt::Display| Failure::failed(format!("`{source}`: {why}"));
    let mut api = Api::parse(&text).map_err(|error| failed(&error))?;
    if !arguments.only.is_empty() {
        api = api.only(&arguments.only).map_err(|error| failed(&error))?;
    }
    if let Some(url) = &arguments.base_url {
        api = api.base_url(url);
    }
    let address = api.address(is_url.then_some(source)).map_err(|error| failed(&error));
    let credentials = credentials()?;
    let is_of_document =
        |address: &str| is_url && origin(source).is_some_and(|it| Some(it) == origin(address));
    let check = |address: &str| {
        if arguments.base_url.is_some() || is_of_document(address) {
            return Ok(());
        }
        check_address(source, is_url, address, &credentials)
    };
    if arguments.list {
        // The list sends no request and needs no address, so an error in the address is only reported.
        let (address, wrong) = match address {
            Ok(address) => {
                let wrong = check(&address).err();
                (Some(address), wrong)
            }
            Err(failure) => (None, Some(failure)),
        };
        if let Some(wrong) = wrong {
            print_stderr(&format!("mgp: {wrong}"));
        }
        return print(global, &ApiReport::new(&api, address));
    }
    let address = address?;
    check(&address)?;
    // Permit only a host that the operator named to be in a private network, because others may have written the
    // document.
    let document = (needs_host && is_of_document(&address)).then_some(source);
    let named = arguments.base_url.as_ref().map(|_| address.as_str()).or(document);
    for one in api.left_out() {
        tracing::warn!(operation = one.operation, reason = one.why, "left out an operation");
    }
    let fetch = fetch(named, arguments.timeout, MAX_RESPONSE).map_err(|error| failed(&error))?;
    let fetch: SharedFetch = Arc::new(fetch);
    Ok(api.into_server(&address, credentials, &fetch).serve_stdio().await?)
}

/// Checks an address that only the document names and that is not at the document's own host, because others can change
/// the document at any time. Refuses an address that is not `https`. If there are credentials and the document was
/// fetched, refuses every address, because its host would get them.
fn check_address(
    source: &str,
    is_url: bool,
    address: &str,
    credentials: &Credentials,
) -> CliResult {
    let has_credentials = !credentials.headers.is_empty() || !credentials.query.is_empty();
    let why = if is_url && has_credentials {
        "would get the credentials, although the document is elsewhere"
    } else if !address.starts_with("https://") {
        "is not https"
    } else {
        return Ok(());
    };
    Err(Failure::failed(format!(
        "`{source}` names the address `{address}`, which {why}; if it is right, give it with --base-url"
    )))
}

/// Returns the scheme, the host and the port of a URL.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let url: http::Uri = url.parse().ok()?;
    let scheme = url.scheme_str()?.to_ascii_lowercase();
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some((scheme, url.host()?.to_ascii_lowercase(), port))
}

fn read(file: &str) -> CliResult<String> {
    let failed = |error| Failure::failed(format!("`{file}` cannot be read: {error}"));
    let size = std::fs::metadata(file).map_err(failed)?.len();
    if size > MAX_DOCUMENT as u64 {
        return Err(Failure::failed(format!("`{file}` has more than {MAX_DOCUMENT} bytes")));
    }
    std::fs::read_to_string(file).map_err(|error| failed(explained(error)))
}

/// Fetches a document. Also returns whether its host is not public; such a host is reached only because the operator
/// named it.
async fn fetched(url: &str) -> CliResult<(String, bool)> {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(error.to_string());
    let get = async |named| {
        let fetch = fetch(named, DOCUMENT_TIMEOUT, MAX_DOCUMENT).map_err(|error| failed(&error))?;
        // Send a user agent, because some servers refuse requests without one.
        let agent = concat!("mgp/", env!("CARGO_PKG_VERSION"));
        let request = FetchRequest::get(url).header("user-agent", agent);
        CliResult::Ok(fetch.fetch(request.header("accept-encoding", "gzip, deflate")).await)
    };
    let public = get(None).await?;
    let is_forbidden = matches!(public, Err(FetchError::Forbidden { .. }));
    let answer = if is_forbidden { get(Some(url)).await? } else { public };
    let answer = answer.map_err(|error| failed(&error))?;
    if answer.status != 200 {
        let to = answer.header("location").map_or_else(String::new, |to| {
            format!(", a redirect to `{}`; if that is the document, name its URL", shown_url(to))
        });
        return Err(Failure::failed(format!("`{url}` answered with HTTP {}{to}", answer.status)));
    }
    let text = decompressed(&answer, MAX_DOCUMENT);
    let text = text.map_err(|why| Failure::failed(format!("`{url}`: {why}")))?;
    let text = String::from_utf8(text.into_owned());
    let text = text.map_err(|_| Failure::failed(format!("`{url}` is not a text")))?;
    Ok((text, is_forbidden))
}

/// Returns a fetcher that can reach public servers over `https`. If the operator named a URL, the fetcher can also
/// reach the host of this URL.
fn fetch(
    named: Option<&str>,
    timeout: Duration,
    bytes: usize,
) -> Result<GuardedFetch, HttpClientError> {
    let fetch = GuardedFetch::new()?.proxy(Proxy::from_env())?.with_limits(timeout, bytes);
    let host = named.and_then(|url| url.parse::<http::Uri>().ok()?.host().map(str::to_owned));
    match host {
        Some(host) => fetch.allow_host(host),
        None => Ok(fetch),
    }
}

/// Returns the credentials from environment variables, which other users cannot read, unlike arguments.
///
/// # Errors
/// Returns an error if a variable cannot be sent as a header, e.g. because its value ends with a line break.
fn credentials() -> CliResult<Credentials> {
    let mut credentials = Credentials::default();
    for (name, value) in std::env::vars_os() {
        // Skip a variable that is not valid UTF-8, because it cannot be sent in a header or a query.
        let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else { continue };
        if let Some(header) = name.strip_prefix(HEADER) {
            let header = header.to_ascii_lowercase().replace('_', "-");
            let is_own = ["host", "content-length", "transfer-encoding"].contains(&&*header);
            let is_name = http::HeaderName::from_bytes(header.as_bytes()).is_ok();
            if is_own || !is_name || http::HeaderValue::from_bytes(value.as_bytes()).is_err() {
                return Err(Failure::failed(format!(
                    "the variable `{name}` cannot be sent as a header: its name is not allowed, or its value contains \
                     a line break or another control character"
                )));
            }
            credentials.headers.push((header, value));
        } else if let Some(member) = name.strip_prefix(QUERY) {
            credentials.query.push((member.to_owned(), value));
        }
    }
    Ok(credentials)
}
