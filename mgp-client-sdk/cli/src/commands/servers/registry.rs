//! The MCP registry (protocol v0.1), or a file with the same entries, and the copy of its list in the state folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mgp_discovery::import::{PublishedBundle, PublishedServer};
use mgp_kernel::{PublishedPlace, PublishedServers};
use mgp_types::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::print_note;
use crate::replace_file::replace_file;
use crate::{pipe, state};

/// The number of servers that are requested with each page of a registry's list.
const PAGE: usize = 100;
/// The maximum number of pages to read of a registry's list.
const MAX_PAGES: usize = 300;
/// The maximum number of servers that the local copy of a registry's list has.
const MAX_SERVERS: usize = 20_000;
/// The maximum time to read all pages of a registry's list.
const LIST_TIME: Duration = Duration::from_mins(2);

/// The maximum size of the file with the local copy of a registry's list, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The age from which a local copy of a registry's list is updated before it is used.
const FRESH: Duration = Duration::from_hours(12);

/// The time before the last update whose changes the next update requests again: if the clock of this machine was ahead
/// of the registry's, the last update missed some of them.
const OVERLAP: Duration = Duration::from_hours(24);

/// A registry of published servers, and the path of the local copy of its list.
pub(super) struct Registry {
    servers: PublishedServers,
    copy: PathBuf,
}

/// The copy of a registry's list: the latest version of each server.
#[derive(Default, Serialize, Deserialize)]
struct ListCopy {
    url: String,
    /// The time of the last successful update. The next update requests only the changes since a day before this time.
    at: Option<Timestamp>,
    is_complete: bool,
    servers: BTreeMap<String, Value>,
}

impl Registry {
    /// Opens the registry that the person named, else the configured registry.
    pub(super) async fn open(
        global: &Global,
        config: &ConfigArg,
        named: Option<&str>,
    ) -> CliResult<Self> {
        let kernel = config.load(global).await?.config.kernel;
        let servers = PublishedServers::open(&kernel, named).map_err(Failure::usage)?;
        let copy = state::create_folder(global)?.join("registry.json");
        Ok(Self { servers, copy })
    }

    /// Returns the latest version of each server, without withdrawn versions.
    pub(super) async fn list(
        &self,
        global: &Global,
        refresh: bool,
    ) -> CliResult<Vec<PublishedServer>> {
        match self.servers.place() {
            PublishedPlace::File(_) => self.known(),
            PublishedPlace::Url(url) => {
                Ok(latest(self.updated_copy(global, url, refresh).await?.servers.into_values()))
            }
        }
    }

    /// Returns the servers that are known without asking the registry.
    pub(super) fn known(&self) -> CliResult<Vec<PublishedServer>> {
        Ok(match self.servers.place() {
            PublishedPlace::File(file) => {
                latest(PublishedServers::read_file(file).map_err(Failure::failed)?.into_iter())
            }
            PublishedPlace::Url(url) => latest(self.read_copy(url).servers.into_values()),
        })
    }

    /// Returns one version of a server, or its latest version; `None` if the registry has no such server.
    pub(super) async fn server(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> CliResult<Option<PublishedServer>> {
        let found = self.servers.server(name, version).await;
        found.map_err(|error| match self.servers.place() {
            PublishedPlace::Url(_) => no_registry(&error),
            PublishedPlace::File(_) => Failure::failed(error),
        })
    }

    /// Downloads a bundle into a new file, and checks its content.
    pub(super) async fn download(&self, bundle: &PublishedBundle, file: &Path) -> CliResult {
        let PublishedBundle { url, sha256, .. } = bundle;
        self.servers.download(url, sha256, file).await.map_err(Failure::failed)
    }

    /// Returns the copy of the list. If the copy is old, updates it first; if the registry does not answer, returns the
    /// old copy.
    async fn updated_copy(&self, global: &Global, url: &str, refresh: bool) -> CliResult<ListCopy> {
        let mut copy = self.read_copy(url);
        // Use the time in the copy and not that of its file, because a failed update writes the file too.
        let at = copy.at.as_ref().and_then(Timestamp::to_system_time);
        let age = at.and_then(|at| SystemTime::now().duration_since(at).ok());
        let is_fresh = copy.is_complete && age.is_some_and(|age| age < FRESH);
        if is_fresh && !refresh {
            return Ok(copy);
        }
        let asked = Timestamp::now();
        // Request the whole list if the time of the last update is in the future: a clock was wrong, so it is not known
        // which changes are new.
        let since = at.filter(|_| copy.is_complete && !refresh && age.is_some());
        let since = since.and_then(|at| at.checked_sub(OVERLAP)).map(Timestamp::from);
        let outcome = self.update(&mut copy, url, since.as_ref()).await;
        match outcome {
            Ok(()) => {
                copy.at = Some(asked);
                copy.is_complete = true;
            }
            Err(failure) if copy.servers.is_empty() => {
                return Err(no_registry(&failure));
            }
            Err(failure) => print_note(
                global,
                &format!("mgp: the list of servers may be old or incomplete: {failure}"),
            ),
        }
        let text = serde_json::to_string(&copy)?;
        if text.len() as u64 <= MAX_FILE_BYTES
            && let Err(error) = replace_file(&self.copy, &text)
        {
            // Search in the list nevertheless, e.g. while the disk is full.
            let failure = Failure::unwritable(&self.copy, &error);
            print_note(global, &format!("mgp: {failure}; the next search requests the list again"));
        }
        Ok(copy)
    }

    fn read_copy(&self, url: &str) -> ListCopy {
        let length = fs::metadata(&self.copy).map_or(0, |metadata| metadata.len());
        let text = pipe::read_to_string(&self.copy).ok().filter(|_| length <= MAX_FILE_BYTES);
        let copy = text.and_then(|text| serde_json::from_str::<ListCopy>(&text).ok());
        copy.filter(|copy| copy.url == url)
            .unwrap_or_else(|| ListCopy { url: url.to_owned(), ..ListCopy::default() })
    }

    /// Reads all pages of the registry's list, or only the entries that changed since a time. Fails if the list has
    /// more than [`MAX_PAGES`] pages, or if reading it takes longer than [`LIST_TIME`].
    async fn update(&self, copy: &mut ListCopy, url: &str, since: Option<&Timestamp>) -> CliResult {
        let since = since.map(|since| format!("&updated_since={}", encoded(since.as_str())));
        let since = since.unwrap_or_default();
        let end = Instant::now() + LIST_TIME;
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            if Instant::now() > end {
                let limit = mgp_types::duration_words(LIST_TIME);
                return Err(Failure::failed(format!("{url} took longer than {limit}")));
            }
            let page = format!("{url}/v0.1/servers?version=latest&limit={PAGE}{since}{cursor}");
            let page =
                self.servers.get(&page).await.map_err(Failure::failed)?.ok_or_else(|| {
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
}

/// Returns the failure of a command that needs the answer of a registry, with the remedy.
fn no_registry(error: &impl std::fmt::Display) -> Failure {
    Failure::failed(format!(
        "{error}; without a connection, `--registry FILE` uses a file of `server.json` entries"
    ))
}

/// Returns the last entry of each name among the first [`MAX_SERVERS`] entries; withdrawn entries are left out.
fn latest(entries: impl Iterator<Item = Value>) -> Vec<PublishedServer> {
    let servers = entries.take(MAX_SERVERS).filter_map(|entry| PublishedServer::new(entry).ok());
    let named: BTreeMap<String, PublishedServer> =
        servers.map(|server| (server.name.clone(), server)).collect();
    named.into_values().filter(|server| !server.is_withdrawn).collect()
}

/// Encodes a text as one part of a path or query.
fn encoded(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}
