//! The MCP registry (protocol v0.1), or a file with the same entries, and the copy of its list in the state folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_discovery::import::PublishedServer;
use mgp_discovery::{KernelConfig, Trust};
use mgp_transport::http::GuardedFetch;
use mgp_types::Timestamp;
use mgp_types::service::{Fetch as _, FetchRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::{first_line, print_note};
use crate::replace_file::replace_file;
use crate::state;

/// Limits of one answer of a registry, and of the whole list.
const ANSWER_BYTES: usize = 8 << 20;
const ANSWER_TIME: Duration = Duration::from_secs(20);
const PAGE: usize = 100;
const MAX_PAGES: usize = 300;
const MAX_SERVERS: usize = 20_000;
const LIST_TIME: Duration = Duration::from_mins(2);

/// The largest file of entries, which is also the largest copy of a list.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The age at which the copy of the list is brought up to date.
const FRESH: Duration = Duration::from_hours(12);

/// A place that lists published servers.
pub(super) struct Registry {
    place: Place,
    fetch: Option<GuardedFetch>,
    copy: PathBuf,
}

enum Place {
    File(PathBuf),
    Url(String),
}

/// The copy of a registry's list: the latest version of each server.
#[derive(Default, Serialize, Deserialize)]
struct Copy {
    url: String,
    /// The time at which the registry was asked, which is also the beginning of the next question for changes.
    at: Option<Timestamp>,
    is_complete: bool,
    servers: BTreeMap<String, Value>,
}

impl Registry {
    /// Opens the registry that the person named, else the configured one.
    pub(super) async fn open(
        global: &Global,
        config: &ConfigArg,
        named: Option<&str>,
    ) -> CliResult<Self> {
        let trust = Trust::new(Arc::new(state::db(global).await?));
        let kernel = config.sources().load(&trust).await?.config.kernel;
        let place = match named {
            Some(url) if url.contains("://") => Place::Url(url.to_owned()),
            Some(file) => Place::File(PathBuf::from(file)),
            None => match &kernel.registry {
                Some(file) => Place::File(file.clone()),
                None => Place::Url(kernel.registry_url.clone()),
            },
        };
        let copy = state::create_folder(global)?.join("registry.json");
        let (place, fetch) = match place {
            Place::Url(url) => {
                let base = url.trim_end_matches('/').trim_end_matches("/v0.1").to_owned();
                let fetch = fetcher(&base, &kernel)?;
                (Place::Url(base), Some(fetch))
            }
            file @ Place::File(_) => (file, None),
        };
        Ok(Self { place, fetch, copy })
    }

    /// Returns the latest version of each server; withdrawn ones are left out.
    pub(super) async fn list(
        &self,
        global: &Global,
        refresh: bool,
    ) -> CliResult<Vec<PublishedServer>> {
        match &self.place {
            Place::File(_) => self.known(),
            Place::Url(url) => {
                Ok(latest(self.copy_of(global, url, refresh).await?.servers.into_values()))
            }
        }
    }

    /// Returns the servers that are known without asking the registry.
    pub(super) fn known(&self) -> CliResult<Vec<PublishedServer>> {
        Ok(match &self.place {
            Place::File(file) => latest(read_entries(file)?.into_iter()),
            Place::Url(url) => latest(self.read_copy(url).servers.into_values()),
        })
    }

    /// Returns one version of a server, or its latest; `None` if the registry has no such server.
    pub(super) async fn server(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> CliResult<Option<PublishedServer>> {
        let url = match &self.place {
            Place::Url(url) => url,
            Place::File(file) => {
                let entries = read_entries(file)?.into_iter();
                let mut named = entries
                    .filter_map(|entry| PublishedServer::new(entry).ok())
                    .filter(|server| server.name == name)
                    .filter(|server| version.is_none() || server.version.as_deref() == version);
                return Ok(named.next_back());
            }
        };
        let (name, version) = (encoded(name), encoded(version.unwrap_or("latest")));
        let url = format!("{url}/v0.1/servers/{name}/versions/{version}");
        match self.get(&url).await? {
            Some(entry) => Ok(Some(PublishedServer::new(entry).map_err(Failure::failed)?)),
            None => Ok(None),
        }
    }

    /// Returns the copy of the list, brought up to date if it is old; without the registry, the old one.
    async fn copy_of(&self, global: &Global, url: &str, refresh: bool) -> CliResult<Copy> {
        let mut copy = self.read_copy(url);
        let age = fs::metadata(&self.copy)
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        let is_fresh = copy.is_complete && age.is_some_and(|age| age < FRESH);
        if is_fresh && !refresh {
            return Ok(copy);
        }
        let asked = Timestamp::now();
        let outcome = self.update(&mut copy, url).await;
        match outcome {
            Ok(()) => {
                copy.at = Some(asked);
                copy.is_complete = true;
            }
            Err(failure) if copy.servers.is_empty() => return Err(failure),
            Err(failure) => print_note(
                global,
                &format!("mgp: the list of servers may be old or incomplete: {failure}"),
            ),
        }
        let text = serde_json::to_string(&copy)?;
        if text.len() as u64 <= MAX_FILE_BYTES {
            replace_file(&self.copy, &text)?;
        }
        Ok(copy)
    }

    fn read_copy(&self, url: &str) -> Copy {
        let text = read_bounded(&self.copy).ok();
        let copy = text.and_then(|text| serde_json::from_str::<Copy>(&text).ok());
        copy.filter(|copy| copy.url == url)
            .unwrap_or_else(|| Copy { url: url.to_owned(), ..Copy::default() })
    }

    /// Reads all pages of the list, or those of what changed since the last time.
    async fn update(&self, copy: &mut Copy, url: &str) -> CliResult {
        let since = match &copy.at {
            Some(at) if copy.is_complete => format!("&updated_since={}", encoded(at.as_str())),
            _ => String::new(),
        };
        let end = Instant::now() + LIST_TIME;
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            if Instant::now() > end {
                return Err(Failure::failed(format!("{url} took longer than {LIST_TIME:?}")));
            }
            let page = format!("{url}/v0.1/servers?version=latest&limit={PAGE}{since}{cursor}");
            let page = self.get(&page).await?.ok_or_else(|| {
                Failure::failed(format!(
                    "{url} has no `/v0.1/servers`, so it is not an MCP registry"
                ))
            })?;
            let next = page["metadata"]["nextCursor"].as_str().unwrap_or_default();
            let next = format!("&cursor={}", encoded(next));
            let Value::Array(entries) = page["servers"].clone() else {
                return Err(Failure::failed(format!("{url} answered without `servers`")));
            };
            let is_empty = entries.is_empty();
            for entry in entries {
                if let Ok(server) = PublishedServer::new(entry.clone())
                    && (copy.servers.len() < MAX_SERVERS || copy.servers.contains_key(&server.name))
                {
                    copy.servers.insert(server.name, entry);
                }
            }
            if is_empty || next == "&cursor=" || next == cursor {
                return Ok(());
            }
            cursor = next;
        }
        Err(Failure::failed(format!("{url} has more than {MAX_PAGES} pages")))
    }

    /// Fetches a document; `None` if there is none.
    async fn get(&self, url: &str) -> CliResult<Option<Value>> {
        let Some(fetch) = &self.fetch else { return Ok(None) };
        let mut request = FetchRequest::get(url);
        request.headers.push(("accept".into(), "application/json".to_owned()));
        let answer = fetch.fetch(request).await?;
        match answer.status {
            200 => {}
            404 => return Ok(None),
            status => return Err(Failure::failed(format!("{url} answered {status}"))),
        }
        let parsed = serde_json::from_slice(&answer.body);
        parsed
            .map(Some)
            .map_err(|error| Failure::failed(format!("{url} did not answer JSON: {error}")))
    }
}

/// Returns the last entry of each name, without those that are withdrawn.
fn latest(entries: impl Iterator<Item = Value>) -> Vec<PublishedServer> {
    let servers = entries.take(MAX_SERVERS).filter_map(|entry| PublishedServer::new(entry).ok());
    let named: BTreeMap<String, PublishedServer> =
        servers.map(|server| (server.name.clone(), server)).collect();
    named.into_values().filter(|server| !server.is_withdrawn).collect()
}

/// Creates the fetcher, which may reach the host that the person chose at any address, and no other host.
fn fetcher(base: &str, kernel: &KernelConfig) -> CliResult<GuardedFetch> {
    let host = base.parse::<http::Uri>().ok().and_then(|url| url.host().map(str::to_owned));
    let Some(host) = host else {
        let shown = first_line(base, 60);
        return Err(Failure::usage(format!("`{shown}` is not the URL of a registry")));
    };
    let fetch = GuardedFetch::new()?.allow_host(host)?.proxy(mgp_kernel::proxy(kernel))?;
    Ok(fetch.with_limits(ANSWER_TIME, ANSWER_BYTES))
}

fn read_bounded(file: &Path) -> CliResult<String> {
    let failed =
        |why: String| Failure::failed(format!("`{}` cannot be read: {why}", file.display()));
    let length = fs::metadata(file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed("there is no such file".to_owned()),
        _ => failed(error.to_string()),
    })?;
    if length.len() > MAX_FILE_BYTES {
        return Err(failed(format!("it is longer than {MAX_FILE_BYTES} bytes")));
    }
    fs::read_to_string(file).map_err(|error| failed(error.to_string()))
}

/// Reads a file of entries: a list, an answer of a registry, or an entry a line.
fn read_entries(file: &Path) -> CliResult<Vec<Value>> {
    let text = read_bounded(file)?;
    let entries = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Array(entries)) => Some(entries),
        Ok(Value::Object(mut page)) if page.get("servers").is_some_and(Value::is_array) => {
            match page.remove("servers") {
                Some(Value::Array(entries)) => Some(entries),
                _ => None,
            }
        }
        Ok(one @ Value::Object(_)) => Some(vec![one]),
        Ok(_) => None,
        Err(_) => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| serde_json::from_str(line).ok())
            .collect(),
    };
    entries.ok_or_else(|| {
        let file = file.display();
        Failure::failed(format!(
            "`{file}` has no `server.json` entries: a list, an object with `servers`, or one a line"
        ))
    })
}

/// Encodes a text as one part of a path or query.
fn encoded(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}
