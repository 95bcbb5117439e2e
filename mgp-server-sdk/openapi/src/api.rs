//! A whole OpenAPI document: its operations, the address of the API, and the server that offers
//! the operations as tools.

use std::collections::HashSet;
use std::sync::Arc;

use mgp_server_sdk::{Server, ToolError};
use mgp_types::clip;
use mgp_types::service::{FetchError, SharedFetch};
use serde_json::Value;
use url::{ParseError, Url};

use crate::error::OpenApiError;
use crate::operation::{Operation, placeholders};
use crate::reference::resolve;
use crate::request::Credentials;
use crate::{response, swagger};

/// The maximum size of an OpenAPI document, in bytes.
const MAX_DOCUMENT: usize = 16 << 20;

/// The maximum number of values and keys in a document in YAML.
const MAX_NODES: usize = 1_000_000;

/// The maximum number of operations; further operations are left out.
const MAX_OPERATIONS: usize = 2_000;

/// The keys of operations within a path of the document, each with its HTTP method.
const METHODS: &[(&str, &str)] = &[
    ("get", "GET"),
    ("put", "PUT"),
    ("post", "POST"),
    ("delete", "DELETE"),
    ("options", "OPTIONS"),
    ("head", "HEAD"),
    ("patch", "PATCH"),
];

/// The keys of operations whose methods cannot be sent; they are left out. `query` is a key since OpenAPI 3.2.
const OTHER_METHODS: [&str; 2] = ["trace", "query"];

/// An API, as described by its document.
#[derive(Clone, Debug)]
pub struct Api {
    title: String,
    version: String,
    described_url: Option<String>,
    base_url: Option<String>,
    operations: Vec<Operation>,
    left_out: Vec<LeftOut>,
}

/// An operation that is not offered as a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The method and the path of the operation that is left out; only the path if all its operations are left out.
    pub operation: String,
    /// The `operationId` of the operation that is left out.
    pub id: Option<String>,
    /// The reason why the operation is left out.
    pub why: String,
}

impl Api {
    /// Reads a document, in JSON or YAML.
    ///
    /// # Errors
    /// Returns an error if the text is not a document of OpenAPI 2.0 or 3.0 to 3.2, is longer than 16 MiB, or has no
    /// operation that can be called.
    pub fn parse(text: &str) -> Result<Self, OpenApiError> {
        if text.len() > MAX_DOCUMENT {
            return Err(OpenApiError::TooLong(MAX_DOCUMENT));
        }
        let root = value(text)?;
        check_version(&root)?;
        let mut api = Self {
            title: root["info"]["title"].as_str().unwrap_or("API").to_owned(),
            version: root["info"]["version"].as_str().unwrap_or("1").to_owned(),
            described_url: described_url(&root),
            base_url: None,
            operations: Vec::new(),
            left_out: Vec::new(),
        };
        let mut names = HashSet::new();
        for (path, item) in root["paths"].as_object().into_iter().flatten() {
            api.left_out.extend(unusable(&root, path, item));
            let Some(item) = resolve(&root, item) else { continue };
            for &(key, method) in METHODS.iter().filter(|(key, _)| item[*key].is_object()) {
                let place = (path.as_str(), item);
                match api.read_operation(&root, place, (key, method), &mut names) {
                    Ok(read) => api.operations.push(read),
                    Err(why) => {
                        let operation = format!("{method} {path}");
                        let id = item[key]["operationId"].as_str().map(str::to_owned);
                        api.left_out.push(LeftOut { operation, id, why });
                    }
                }
            }
        }
        match (api.operations.is_empty(), api.left_out.is_empty()) {
            (true, true) => Err(OpenApiError::Empty),
            (true, false) => Err(OpenApiError::AllLeftOut(reasons(&api.left_out))),
            _ => Ok(api),
        }
    }

    /// Reads an operation of a path.
    ///
    /// # Errors
    /// Returns the reason why the operation is left out.
    fn read_operation(
        &self,
        root: &Value,
        (path, item): (&str, &Value),
        (key, method): (&str, &'static str),
        names: &mut HashSet<String>,
    ) -> Result<Operation, String> {
        if self.operations.len() >= MAX_OPERATIONS {
            return Err(format!("{MAX_OPERATIONS} operations are possible"));
        }
        // A document without `servers` has the address `/` (OpenAPI 3.1 §4.8.1). The operator can set another address
        // later, so an operation with an address of its own is left out only if the document has `servers`.
        let document = self.described_url.as_deref();
        let own_url = other_url(document.unwrap_or("/"), &item[key]["servers"], &item["servers"]);
        if let (Some(url), true) = (&own_url, document.is_some()) {
            return Err(format!("it has another address, `{}`", clip(url, 200)));
        }
        if !path.starts_with('/') {
            return Err("its path does not begin with `/`".to_owned());
        }
        let is_swagger = root["openapi"].is_null();
        let converted = is_swagger.then(|| swagger::item(root, item, key));
        let item = converted.as_ref().unwrap_or(item);
        let mut operation = Operation::read(root, path, item, method, names)?;
        operation.own_url = own_url;
        Ok(operation)
    }

    /// Removes all operations except those that match a pattern. In a pattern, `*` is a wildcard. Each pattern is
    /// compared with the identifier of an operation, the name of its tool, and its method and path, e.g. `GET /pets*`.
    /// [`left_out`](Self::left_out) then names only operations that match too.
    ///
    /// # Errors
    /// Returns an error if no operation is left.
    pub fn only(mut self, patterns: &[impl AsRef<str>]) -> Result<Self, OpenApiError> {
        let fits_any = |names: &[Option<&str>]| {
            let mut names = names.iter().flatten();
            names.any(|name| patterns.iter().any(|pattern| fits(pattern.as_ref(), name)))
        };
        self.operations.retain(|operation| {
            let place = format!("{} {}", operation.method, operation.path);
            fits_any(&[operation.id.as_deref(), Some(&*operation.tool), Some(&*place)])
        });
        self.left_out.retain(|one| fits_any(&[one.id.as_deref(), Some(&*one.operation)]));
        if self.operations.is_empty() {
            return Err(OpenApiError::NoMatch(reasons(&self.left_out)));
        }
        Ok(self)
    }

    /// Sets the address of the API, e.g. `https://api.example/v1`; it replaces the address in the document.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Returns the operations, in the order of the document.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns the operations that are not offered as tools, with the reasons.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Returns the title of the API.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the address to which requests are sent. If the address in the document is relative, it is resolved
    /// against the URL of the document.
    ///
    /// # Errors
    /// Returns an error if the document contains no address, only addresses of single operations, or an address that is
    /// not an `http` or `https` URL, or that contains a user name.
    pub fn address(&self, document_url: Option<&str>) -> Result<String, OpenApiError> {
        let bad = |why: &str| OpenApiError::BaseUrl(why.to_owned());
        let own_url = self.operations.iter().find_map(|one| one.own_url.as_deref());
        if let (None, Some(url)) = (&self.base_url, own_url) {
            return Err(OpenApiError::BaseUrl(format!(
                "the document names addresses of single operations only, e.g. `{}`; set the address with `--base-url`",
                clip(url, 200)
            )));
        }
        let described = self.base_url.as_ref().or(self.described_url.as_ref());
        let described = described.filter(|url| !url.is_empty()).map_or("/", String::as_str);
        let is_complete = placeholders(described).next().is_none();
        let url = match Url::parse(described) {
            Err(ParseError::RelativeUrlWithoutBase) if is_complete => {
                let document = document_url.ok_or_else(|| {
                    bad("the document names no address of the API; set it with `--base-url`")
                })?;
                Url::parse(document).and_then(|document| document.join(described))
            }
            parsed => parsed,
        };
        let url = url.ok().filter(|url| is_complete && ["http", "https"].contains(&url.scheme()));
        let Some(mut url) = url else {
            let url = clip(described, 200);
            return Err(OpenApiError::BaseUrl(format!("`{url}` is not an address of an API")));
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("the address of the API has a user name; send keys as headers"));
        }
        url.set_query(None);
        url.set_fragment(None);
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }

    /// Builds the server. Its tools use `fetch` to send requests to `address`, each with the credentials. Parameters
    /// that the credentials fill are not arguments of the tools.
    pub fn into_server(
        self,
        address: &str,
        credentials: Credentials,
        fetch: &SharedFetch,
    ) -> Server {
        let credentials = Arc::new(credentials);
        let address: Arc<str> = address.into();
        let mut server = Server::new(clip(&self.title, 100), clip(&self.version, 40));
        for operation in self.operations {
            let operation = Arc::new(operation.without(&credentials));
            let (address, credentials) = (Arc::clone(&address), Arc::clone(&credentials));
            let (own, fetch) = (Arc::clone(&operation), Arc::clone(fetch));
            server = server.tool(operation.tool(move |arguments| {
                let request = own.request(&address, &credentials, &arguments);
                let (fetch, credentials) = (Arc::clone(&fetch), Arc::clone(&credentials));
                async move {
                    let answer = fetch.fetch(request.map_err(ToolError)?).await;
                    response::result(&answer.map_err(|error| failure(&error))?, &credentials)
                }
            }));
        }
        server
    }
}

/// Returns a text that names the first operations that are left out, with the reasons; errors append it to their
/// messages.
fn reasons(left_out: &[LeftOut]) -> String {
    let shown = |one: &LeftOut| format!("; `{}` is left out: {}", one.operation, one.why);
    left_out.iter().take(4).map(shown).collect()
}

/// Returns the error for a request that got no usable response; the API may nevertheless have received the request. The
/// error does not contain the URL, because its query may contain a key.
fn failure(error: &FetchError) -> ToolError {
    let why = match error {
        FetchError::Forbidden { why, .. } | FetchError::Failed { why, .. } => why.as_str(),
        _ => "for an unknown reason",
    };
    ToolError(format!("no usable response of the API: {why}"))
}

fn value(text: &str) -> Result<Value, OpenApiError> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(value);
    }
    // Read only `true` and `false` as booleans; in YAML 1.1, `y`, `no` and `on` were booleans too. Permit large
    // documents, and documents in which many operations refer to one anchor. The parser's other limits stay in force,
    // e.g. the limit for the values that aliases repeat.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES,
            enforce_alias_anchor_ratio: false,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.to_string();
        // Cut off the rest of the message, which advises programmers how to configure the parser.
        let first = error.lines().next().and_then(|line| line.split(", set ").next());
        OpenApiError::Syntax(clip(first.unwrap_or_default(), 200))
    })
}

fn check_version(root: &Value) -> Result<(), OpenApiError> {
    let bad = |why: String| Err(OpenApiError::Version(why));
    // In YAML, a version without quotation marks such as `3.1` is a number, so numbers are accepted too.
    let version = |member: &str| match &root[member] {
        Value::String(version) => Some(clip(version, 20)),
        Value::Number(version) => Some(version.to_string()),
        _ => None,
    };
    match (version("openapi"), version("swagger")) {
        (Some(version), _) if version.starts_with("3.") => Ok(()),
        (Some(version), _) => bad(format!("OpenAPI {version} is not supported; use 3.0 to 3.2")),
        (None, Some(version)) if version.starts_with("2.") => Ok(()),
        (None, Some(version)) => {
            bad(format!("it is a document of Swagger {version}; convert it to OpenAPI 3.0 first"))
        }
        (None, None) => bad("it is not an OpenAPI document: it has no `openapi`".to_owned()),
    }
}

/// Returns the address of the API: the address in the first entry of `servers`, or the address that a document of
/// Swagger 2.0 has in other members.
fn described_url(root: &Value) -> Option<String> {
    if root["openapi"].is_null() {
        return Some(swagger::address(root));
    }
    url_of(root["servers"].get(0)?)
}

/// Returns the operations of a path that cannot be offered as tools. If the path is a reference without a target in the
/// document, these are all its operations; otherwise, they are those whose methods cannot be sent.
fn unusable(root: &Value, path: &str, item: &Value) -> Vec<LeftOut> {
    let Some(item) = resolve(root, item) else {
        let to = clip(item["$ref"].as_str().unwrap_or_default(), 200);
        let why = format!("it refers to `{to}`, which is not in the document");
        return vec![LeftOut { operation: path.to_owned(), id: None, why }];
    };
    let named = OTHER_METHODS.iter().map(|key| (*key, &item[*key]));
    let more = item["additionalOperations"].as_object().into_iter().flatten();
    let all = named.chain(more.map(|(method, operation)| (method.as_str(), operation)));
    all.filter(|(_, operation)| operation.is_object())
        .map(|(method, operation)| LeftOut {
            operation: format!("{} {path}", clip(&method.to_ascii_uppercase(), 40)),
            id: operation["operationId"].as_str().map(str::to_owned),
            why: "its method cannot be sent".to_owned(),
        })
        .collect()
}

/// Returns the address of an operation if it differs from that of the document. It is the first entry of the
/// operation's own `servers`, or else of those of its path. Returns `None` if neither list has an entry, or if one of
/// the entries is the address of the document.
fn other_url(document_url: &str, own: &Value, of_path: &Value) -> Option<String> {
    let mut servers = [own, of_path].into_iter().filter_map(Value::as_array);
    let servers = servers.find(|servers| !servers.is_empty())?;
    let mut urls = servers.iter().filter_map(url_of);
    let first = urls.next()?;
    // If the address of the document has no scheme, as in `//x.org`, schemes are not compared.
    let plain = |url: &str| {
        let rest = ["https:", "http:"].iter().find_map(|scheme| url.strip_prefix(*scheme));
        let url = rest.filter(|_| document_url.starts_with("//")).unwrap_or(url);
        url.trim_end_matches('/').to_owned()
    };
    let same = |url: &str| plain(url) == plain(document_url);
    (!same(&first) && !urls.any(|url| same(&url))).then_some(first)
}

/// Returns the address of an entry of `servers`, with its variables replaced by their default values.
fn url_of(server: &Value) -> Option<String> {
    let mut url = server["url"].as_str()?.to_owned();
    for (name, variable) in server["variables"].as_object().into_iter().flatten() {
        // In YAML, a value without quotation marks, e.g. a port, is a number, so accept numbers too.
        let default = match &variable["default"] {
            Value::String(default) => default.clone(),
            Value::Number(default) => default.to_string(),
            _ => continue,
        };
        url = url.replace(&format!("{{{name}}}"), &default);
    }
    Some(url)
}

/// Returns whether a text matches a pattern, in which `*` matches any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    let mut left = text;
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(end) = parts.pop() else { return true };
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}
