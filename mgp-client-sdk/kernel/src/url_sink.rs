//! A configured URL to which the kernel sends copies of events or metrics as JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mgp_discovery::{Expander, Origin, Template};
use mgp_transport::http::{GuardedFetch, Proxy};
use mgp_types::service::{Fetch as _, FetchRequest};

/// The maximum size of a response in bytes. The kernel does not use the content of responses.
const MAX_RESPONSE: usize = 64 * 1024;

/// A URL that receives JSON in POST requests.
pub(crate) struct UrlSink {
    url: String,
    headers: Vec<(String, String)>,
    fetch: GuardedFetch,
}

impl UrlSink {
    /// Creates the sink. Expands the variables in the URL and the headers, because these come from the user's own
    /// configuration file.
    pub(crate) fn new(
        url: &str,
        headers: &BTreeMap<String, String>,
        expander: &Expander,
        proxy: &Proxy,
        folder: &Path,
        timeout: Duration,
    ) -> Result<Self, String> {
        let expand = |text: &str| {
            let template = Template::parse(text).map_err(|bad| bad.to_string())?;
            let value = expander.expand(&template, Origin::User, folder)?;
            Ok::<_, String>(value.as_str().to_owned())
        };
        let url = expand(url)?;
        let headers = headers.iter().map(|(name, value)| Ok((name.clone(), expand(value)?)));
        let headers = headers.collect::<Result<_, String>>()?;
        let host = url.parse::<http::Uri>().ok().and_then(|uri| Some(uri.host()?.to_owned()));
        let host = host.ok_or_else(|| "its URL is not an absolute one".to_owned())?;
        // Permit this host even in a private network, because the operator named it.
        let fetch = GuardedFetch::new()
            .and_then(|fetch| fetch.proxy(proxy.clone()))
            .and_then(|fetch| fetch.allow_host(host))
            .map_err(|error| error.to_string())?;
        Ok(Self { url, headers, fetch: fetch.with_limits(timeout, MAX_RESPONSE) })
    }

    /// Sends a JSON text to a path below the URL. Any status from 200 to 299 counts as success.
    pub(crate) async fn post(&self, path: &str, json: &str) -> Result<(), String> {
        let url = if path.is_empty() {
            self.url.clone()
        } else {
            format!("{}{path}", self.url.trim_end_matches('/'))
        };
        let request = FetchRequest::post(&url, json).header("content-type", "application/json");
        let request = self.headers.iter().fold(request, |request, (name, value)| {
            request.header(name.to_ascii_lowercase(), value)
        });
        let answer = self.fetch.fetch(request).await;
        let answer = answer.map_err(|error| error.hiding_path().to_string())?;
        match answer.status {
            200..300 => Ok(()),
            status => Err(format!("the receiver answered with status {status}")),
        }
    }
}
