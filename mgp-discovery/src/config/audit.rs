//! `[kernel.audit]`: the audit log and its sinks.

use std::collections::BTreeMap;
use std::fmt;

use super::addresses;
use super::parse::valid_id;
use super::table_reader::Reader;

/// The maximum number of sinks in `[kernel.audit]`.
pub(super) const MAX_SINKS: usize = 16;

/// The table `[kernel.audit]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditLogConfig {
    /// The folder of the audit log; `None` for `audit` in the state directory.
    pub dir: Option<String>,
    /// Determines when the log is flushed to the disk.
    pub fsync: AuditFsync,
    /// The number of log files that are kept; `None` if all are kept.
    pub keep: Option<u32>,
    /// The part of the arguments that is recorded.
    pub arguments: RecordedArguments,
    /// If set, the intent that a caller states is recorded.
    pub intent: bool,
    /// The sinks that get a copy of each event, by name.
    pub sinks: BTreeMap<String, AuditSinkConfig>,
}

impl Default for AuditLogConfig {
    fn default() -> Self {
        Self {
            dir: None,
            fsync: AuditFsync::OnCheckpoint,
            keep: None,
            arguments: RecordedArguments::Redacted,
            intent: true,
            sinks: BTreeMap::new(),
        }
    }
}

/// The times when the audit log is flushed to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditFsync {
    /// The log is flushed before an event is acknowledged.
    Always,
    /// The log is flushed at each checkpoint.
    OnCheckpoint,
    /// The log is never flushed explicitly; the operating system decides.
    Never,
}

/// The part of a call's arguments that is written to the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordedArguments {
    /// The audit log records a digest and the size of the arguments.
    Redacted,
    /// The audit log also records the names of the arguments.
    Names,
    /// The audit log also records the values of the arguments.
    Full,
}

/// `[kernel.audit.sinks.NAME]`: a target that gets a copy of each audit event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditSinkConfig {
    /// The path of a file; each event is appended as a line.
    File(String),
    /// A URL that gets each event in a POST request.
    Url {
        /// The URL; `${…}` in it is not yet expanded.
        url: String,
        /// HTTP headers; `${…}` in them is not yet expanded, and their values may be secret.
        headers: SinkHeaders,
    },
    /// A syslog receiver (RFC 5424): `udp://HOST:PORT`, `tcp://HOST:PORT`, or the path of a socket.
    Syslog(String),
}

/// HTTP headers, whose values may be secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SinkHeaders(pub BTreeMap<String, String>);

/// Omits the values, which may be secret.
impl fmt::Debug for SinkHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Reads the table `[kernel.audit]`.
pub(super) fn audit_log(below: &mut Reader<'_, '_, '_>) -> AuditLogConfig {
    AuditLogConfig {
        dir: below.text("dir"),
        fsync: match below.text("fsync").as_deref() {
            Some("always") => AuditFsync::Always,
            Some("never") => AuditFsync::Never,
            _ => AuditFsync::OnCheckpoint,
        },
        keep: below.small_number("keep").filter(|keep| *keep > 0),
        intent: below.switch("intent").unwrap_or(true),
        arguments: match below.text("arguments").as_deref() {
            Some("names") => RecordedArguments::Names,
            Some("full") => RecordedArguments::Full,
            _ => RecordedArguments::Redacted,
        },
        sinks: sinks(below),
    }
}

/// Reads the tables `[kernel.audit.sinks.NAME]`.
fn sinks(above: &mut Reader<'_, '_, '_>) -> BTreeMap<String, AuditSinkConfig> {
    let Some(item) = above.item("sinks") else { return BTreeMap::new() };
    let table = item.as_table_like().filter(|table| table.len() <= MAX_SINKS);
    let Some(table) = table else {
        let remedy = format!("write `[kernel.audit.sinks.NAME]` above each, {MAX_SINKS} at most");
        above.error("sinks", "is not a table of sinks", Some(remedy));
        return BTreeMap::new();
    };
    let mut sinks = BTreeMap::new();
    for (name, item) in table.iter() {
        let Some(keys) = item.as_table_like().filter(|_| valid_id(name)) else {
            let remedy = "write `[kernel.audit.sinks.NAME]`; the name begins with a letter or digit, and has only letters, digits, `.`, `_` and `-`";
            above.error("sinks", "has an entry that is not a sink", Some(remedy.to_owned()));
            continue;
        };
        let mut reader = Reader::of_entry(above.report, "kernel.audit.sinks.*", name, keys);
        let headers = SinkHeaders(reader.headers());
        let targets = [
            reader.text("file").map(AuditSinkConfig::File),
            reader.url("url").map(|url| AuditSinkConfig::Url { url, headers }),
            reader.text("syslog").map(AuditSinkConfig::Syslog),
        ];
        let mut named = targets.into_iter().flatten();
        match (named.next(), named.next()) {
            (Some(AuditSinkConfig::Syslog(address)), None) if !is_syslog(&address) => {
                let remedy = "write `udp://HOST:PORT`, `tcp://HOST:PORT`, or the path of a socket, e.g. `/dev/log`";
                let remedy = addresses::url_remedy(&address, remedy);
                reader.error("syslog", "is not a syslog receiver", Some(remedy));
            }
            (Some(sink), None) => {
                sinks.insert(name.to_owned(), sink);
            }
            _ => {
                let remedy = "write one of `file`, `url` and `syslog`".to_owned();
                reader.error("file", "must name the only target of its sink", Some(remedy));
            }
        }
    }
    sinks
}

/// Returns whether a text names a syslog receiver.
fn is_syslog(address: &str) -> bool {
    address.starts_with('/') || addresses::is_syslog_url(address)
}
