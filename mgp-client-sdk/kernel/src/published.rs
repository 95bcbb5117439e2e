//! Registries of published servers: their entries, and the bundles that entries name.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_client_sdk::GuardedFetch;
use mgp_discovery::KernelConfig;
use mgp_discovery::import::PublishedServer;
use mgp_types::service::{Fetch as _, FetchRequest};
use mgp_types::{clip, to_hex};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The maximum size of an answer of a registry, in bytes.
const ANSWER_BYTES: usize = 8 << 20;
/// The maximum time for an answer of a registry.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of a bundle (a packaged server) that a registry lists, in bytes.
const BUNDLE_BYTES: usize = 512 << 20;
/// The maximum time for downloading a bundle.
const BUNDLE_TIMEOUT: Duration = Duration::from_mins(10);

/// The maximum size of a file with the entries of a registry, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A registry of published servers: a URL that speaks the registry protocol v0.1, or a file with the same entries.
#[derive(Debug)]
pub struct PublishedServers {
    place: PublishedPlace,
    fetch: GuardedFetch,
}

/// The place of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishedPlace {
    /// A file with a list of entries, or with one entry per line.
    File(PathBuf),
    /// The URL of the registry, without the part for the version of the protocol.
    Url(String),
}

impl PublishedServers {
    /// Opens a registry: the URL or the file in `named`, or else the configured registry.
    ///
    /// # Errors
    /// Returns the reason why this URL or path cannot be a registry.
    pub fn open(config: &KernelConfig, named: Option<&str>) -> Result<Self, String> {
        let place = match (named, &config.registry) {
            (Some(url), _) if url.contains("://") => PublishedPlace::Url(url.to_owned()),
            (Some(file), _) => PublishedPlace::File(PathBuf::from(file)),
            (None, Some(file)) => PublishedPlace::File(file.clone()),
            (None, None) => PublishedPlace::Url(config.registry_url.clone()),
        };
        let mut fetch = GuardedFetch::new().map_err(|error| error.to_string())?;
        let place = match place {
            PublishedPlace::Url(url) => {
                let base = url.trim_end_matches('/').trim_end_matches("/v0.1").to_owned();
                let uri = base.parse::<http::Uri>().ok();
                let Some(host) = uri.and_then(|uri| uri.host().map(str::to_owned)) else {
                    return Err(format!("`{}` is not the URL of a registry", clip(&base, 60)));
                };
                // Permit any address of this host, even in a private network, because the user chose the host.
                fetch = fetch.allow_host(host).map_err(|error| error.to_string())?;
                PublishedPlace::Url(base)
            }
            file @ PublishedPlace::File(_) => file,
        };
        let fetch = fetch.proxy(crate::logins::proxy(config)).map_err(|error| error.to_string())?;
        Ok(Self { place, fetch: fetch.with_limits(ANSWER_TIMEOUT, ANSWER_BYTES) })
    }

    /// Returns the URL or the file of the registry.
    #[must_use]
    pub fn place(&self) -> &PublishedPlace {
        &self.place
    }

    /// Returns one version of a server, or its latest; `None` if the registry has no such server.
    ///
    /// # Errors
    /// Returns the reason why the registry cannot be read.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time, because it only reads.
    pub async fn server(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<PublishedServer>, String> {
        match &self.place {
            PublishedPlace::Url(url) => {
                let (name, version) = (encoded(name), encoded(version.unwrap_or("latest")));
                let url = format!("{url}/v0.1/servers/{name}/versions/{version}");
                self.get(&url).await?.map(PublishedServer::new).transpose()
            }
            PublishedPlace::File(file) => {
                // Read the file on the blocking pool, because reading a large file takes long.
                let file = file.clone();
                let read = tokio::task::spawn_blocking(move || Self::read_file(&file)).await;
                let entries = read.map_err(|error| error.to_string())??.into_iter();
                let mut named = entries
                    .filter_map(|entry| PublishedServer::new(entry).ok())
                    .filter(|server| server.name == name)
                    .filter(|server| version.is_none() || server.version.as_deref() == version);
                Ok(named.next_back())
            }
        }
    }

    /// Fetches a JSON document of the registry; `None` if the registry has no document at the URL.
    ///
    /// # Errors
    /// Returns the reason why the registry did not answer, or why its answer is not a JSON document.
    ///
    /// # Cancel safety
    /// The future can be dropped at any time, because it only reads.
    pub async fn get(&self, url: &str) -> Result<Option<Value>, String> {
        let mut request = FetchRequest::get(url);
        request.headers.push(("accept".into(), "application/json".to_owned()));
        let answer = self.fetch.fetch(request).await.map_err(|error| error.to_string())?;
        match answer.status {
            200 => {}
            404 => return Ok(None),
            status => return Err(format!("{url} answered {status}")),
        }
        let parsed = serde_json::from_slice(&answer.body);
        parsed.map(Some).map_err(|error| format!("{url} did not answer with JSON: {error}"))
    }

    /// Downloads a bundle into a new file. Removes the file again if the download fails, or if the bytes do not have
    /// this SHA-256.
    ///
    /// # Errors
    /// Returns the reason why the bundle was not downloaded. An existing file is never changed or replaced.
    ///
    /// # Cancel safety
    /// If the future is dropped, an incomplete file may remain.
    pub async fn download(&self, url: &str, sha256: &str, file: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("`{}`: {error}", file.display());
        let mut out = fs::File::create_new(file).map_err(failed)?;
        let fetch = self.fetch.clone().with_limits(BUNDLE_TIMEOUT, BUNDLE_BYTES);
        let mut hash = Sha256::new();
        let received = fetch.download(url, |part| {
            hash.update(part);
            out.write_all(part)
        });
        let received = received.await.map_err(|error| error.to_string()).and_then(|()| {
            let found = to_hex(&hash.finalize());
            if found.eq_ignore_ascii_case(sha256) {
                return Ok(());
            }
            Err(format!(
                "the file at {url} is not the one that the registry names: it has the SHA-256 {found} instead of {}",
                clip(sha256, 64)
            ))
        });
        if received.is_err() {
            let _ = fs::remove_file(file);
        }
        received
    }

    /// Reads a file of entries: a list, a stored answer of a registry, or one entry per line.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be read.
    pub fn read_file(file: &Path) -> Result<Vec<Value>, String> {
        let failed = |why: &str| format!("`{}` cannot be read: {why}", file.display());
        let metadata = fs::metadata(file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => failed("there is no such file"),
            _ => failed(&error.to_string()),
        })?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(failed(&format!("it is longer than {MAX_FILE_BYTES} bytes")));
        }
        let text = fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
        entries(&text).ok_or_else(|| {
            let file = file.display();
            format!(
                "`{file}` has no `server.json` entries; write them as a list, as an object with `servers`, or one per line"
            )
        })
    }
}

fn entries(text: &str) -> Option<Vec<Value>> {
    match serde_json::from_str::<Value>(text) {
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
    }
}

/// Encodes a text as one part of a path or query.
fn encoded(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}
