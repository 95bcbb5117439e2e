//! Checks the addresses and headers of the collector and of the audit sinks; without these, no kernel starts. Also
//! checks the addresses and secrets of webhooks and of places for notifications.

use std::path::{Path, PathBuf};

use mgp_discovery::{
    AuditSinkConfig, Expanded, Expander, KernelConfig, NotifyWay, Origin, SecretFile, SinkHeaders,
    Template,
};
use mgp_transport::http::GuardedFetch;

use super::kernel::KernelState;
use super::report::{Check, Level};
use super::server::split_remedy;
use crate::redaction::without_paths;

/// The remedy if a webhook's URL is not permitted.
const URL_FIX: &str = "only `https` at public addresses is permitted, this machine with \
                       `allow_loopback = true`, and a private network with `allow_private = true`";

/// Reports each collector and sink with a URL or header that cannot be expanded; `folder` is the state folder. If no
/// kernel runs, also reports each webhook that could not be sent to; otherwise the kernel reports the failures of its
/// webhooks.
pub(super) async fn check(
    kernel: &KernelConfig,
    folder: &Path,
    running: &KernelState,
) -> Vec<Check> {
    let (outgoing, secrets) = (outgoing(kernel, folder), SecretFile::in_folder(folder));
    let deliveries = if running.is_absent { deliveries(kernel) } else { Vec::new() };
    // Expand the variables on a blocking thread, because this may read files and run commands.
    let checks = tokio::task::spawn_blocking(move || {
        let expander = Expander::from_env().secrets(secrets);
        let flawed = outgoing.iter().filter_map(|Outgoing { key, folder, texts }| {
            let reason = texts.iter().find_map(|text| expand(&expander, text, folder).err())?;
            Some(failure(key, reason))
        });
        flawed.chain(deliveries.iter().filter_map(|one| one.check(&expander))).collect::<Vec<_>>()
    });
    checks.await.unwrap_or_default()
}

/// A telemetry collector or audit sink that receives data from the kernel at a URL.
struct Outgoing {
    key: String,
    /// The folder from which relative paths in `${file:…}` are resolved, as in the kernel.
    folder: PathBuf,
    /// The URL and the values of the headers.
    texts: Vec<String>,
}

fn outgoing(kernel: &KernelConfig, folder: &Path) -> Vec<Outgoing> {
    let texts = |url: &String, headers: &SinkHeaders| -> Vec<String> {
        headers.0.values().chain([url]).cloned().collect()
    };
    let mut outgoing = Vec::new();
    if let Some(url) = &kernel.telemetry.otlp {
        let (key, texts) = ("kernel.telemetry".to_owned(), texts(url, &kernel.telemetry.headers));
        outgoing.push(Outgoing { key, folder: PathBuf::new(), texts });
    }
    for (name, sink) in &kernel.audit.sinks {
        if let AuditSinkConfig::Url { url, headers } = sink {
            let (key, texts) = (format!("kernel.audit.sinks.{name}"), texts(url, headers));
            outgoing.push(Outgoing { key, folder: folder.to_owned(), texts });
        }
    }
    outgoing
}

/// A webhook or a place for notifications. A kernel starts even if it cannot send to it, so a fault is only a warning.
struct Delivery {
    key: String,
    /// The address; `None` if the place is not a URL.
    url: Option<String>,
    secret: Option<String>,
    allow_loopback: bool,
    allow_private: bool,
}

fn deliveries(kernel: &KernelConfig) -> Vec<Delivery> {
    let webhooks = kernel.webhooks.iter().map(|(name, one)| Delivery {
        key: format!("kernel.webhooks.{name}"),
        url: Some(one.url.clone()),
        secret: one.secret.clone(),
        allow_loopback: one.allow_loopback,
        allow_private: one.allow_private,
    });
    let places = kernel.notify.iter().map(|(name, one)| Delivery {
        key: format!("kernel.notify.{name}"),
        url: match &one.way {
            NotifyWay::Ntfy(url) | NotifyWay::Webhook(url) => Some(url.clone()),
            _ => None,
        },
        secret: one.secret.clone(),
        allow_loopback: one.allow_loopback,
        allow_private: one.allow_private,
    });
    webhooks.chain(places).collect()
}

impl Delivery {
    /// Returns a warning if the secret or the address cannot be used. Sends nothing.
    fn check(&self, expander: &Expander) -> Option<Check> {
        let warn = |reason: String| {
            let what = format!("`{}` would get nothing: {}", self.key, without_paths(&reason));
            Check::new("config", Level::Warn, what)
        };
        let expanded = |text: &String| expand(expander, text, Path::new("."));
        let secret = self.secret.as_ref().map(expanded).transpose();
        let url = secret.and_then(|_| self.url.as_ref().map(expanded).transpose());
        let url = match url {
            Ok(url) => url?,
            Err(reason) => {
                let (what, fix) = split_remedy(&reason).unzip();
                let mut check = warn(what.unwrap_or(reason));
                check.fix = fix;
                return Some(check);
            }
        };
        let url = url.as_str();
        let fetch = if self.allow_private {
            GuardedFetch::for_chosen(url)
        } else if self.allow_loopback {
            GuardedFetch::for_server(url)
        } else {
            GuardedFetch::new()
        };
        let judged = fetch.map_err(|error| error.to_string()).and_then(|fetch| {
            fetch.check_url(url).map_err(|error| error.hiding_path().to_string())
        });
        judged.err().map(|reason| warn(reason).with_fix(URL_FIX))
    }
}

fn expand(expander: &Expander, text: &str, folder: &Path) -> Result<Expanded, String> {
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    expander.expand(&template, Origin::User, folder)
}

fn failure(key: &str, reason: String) -> Check {
    let (what, fix) = match split_remedy(&reason) {
        Some((what, fix)) => (what, Some(fix)),
        None => (reason, None),
    };
    let what = format!("no kernel starts from this shell: `{key}`: {what}");
    let mut check = Check::new("config", Level::Fail, what);
    check.fix = fix;
    check
}
