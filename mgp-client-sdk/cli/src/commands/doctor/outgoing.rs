//! Checks the addresses and headers of the collector and of the audit sinks. If one of them is invalid, no kernel
//! starts.

use std::path::{Path, PathBuf};

use mgp_discovery::{
    AuditSinkConfig, Expander, KernelConfig, Origin, SecretFile, SinkHeaders, Template,
};

use super::report::{Check, Level};
use super::server::split_remedy;

/// Reports each collector and sink whose texts cannot be expanded; `folder` is the state folder.
pub(super) async fn check(kernel: &KernelConfig, folder: &Path) -> Vec<Check> {
    let (outgoing, secrets) = (outgoing(kernel, folder), SecretFile::in_folder(folder));
    // Expand the variables on a blocking thread, because this may read files and run commands.
    let checks = tokio::task::spawn_blocking(move || {
        let expander = Expander::from_env().secrets(secrets);
        let flawed = outgoing.iter().filter_map(|Outgoing { key, folder, texts }| {
            let reason = texts.iter().find_map(|text| expand(&expander, text, folder).err())?;
            Some(failure(key, reason))
        });
        flawed.collect::<Vec<_>>()
    });
    checks.await.unwrap_or_default()
}

/// A telemetry collector or audit sink that receives data from the kernel at a URL.
struct Outgoing {
    key: String,
    /// The folder of relative paths in `${file:…}`, as in the kernel.
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

fn expand(expander: &Expander, text: &str, folder: &Path) -> Result<(), String> {
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    expander.expand(&template, Origin::User, folder).map(drop)
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
