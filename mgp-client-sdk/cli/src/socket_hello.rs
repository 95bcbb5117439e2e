//! The first line that each side sends on the local socket: the client's role, and the kernel's reply.
//!
//! The client writes `{"mgp":1,"as":"agent","agent":"NAME"}` or `{"mgp":1,"as":"operator"}`, the kernel replies with
//! one line, and from then on both speak MCP. A shim adds `"shim":true`, so that the kernel regards its parent process
//! as a host, and `"version"`, so that an older kernel stops and the shim starts a newer one. An operator that changes
//! something adds `"changes":true`, and `"passphrase"` if the kernel asks for it. Before a command edits a
//! configuration, it asks each kernel of the user with `"file"`; a kernel that does not use this file cannot prevent
//! the edit.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::exit::{CliResult, Failure};
use crate::{lock, version};

/// The revision of the format of the first lines that client and kernel exchange.
const REVISION: u8 = 1;

/// The time limit for the other side's first line.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum size of a client's first line, which may contain the path of a file.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024;

/// Maximum length of the reply, which lists all servers of the kernel.
pub(crate) const MAX_REPLY_BYTES: usize = 1 << 20;

/// The value of `proof` in a reply that requests the operator's passphrase.
const PASSPHRASE: &str = "passphrase";

/// The value of `started_by` in the reply of a kernel that hosts started.
pub(crate) const HOSTS: &str = "hosts";

/// The notification by which a kernel informs a shim that the kernel is about to end.
pub(crate) const LEAVING: &str = "shim/leaving";

/// The notification of a shim to an ending kernel that all further requests wait for the next kernel.
pub(crate) const HOLDING: &str = "shim/holding";

/// The code of the answer to a request that a kernel did not start because it is about to end; the shim repeats the
/// request with the next kernel.
pub(crate) const REPEAT: i32 = -32020;

const MAX_NAME_BYTES: usize = 128;

/// The agent name of a client that sends no name.
pub(crate) const DEFAULT_AGENT: &str = "default";

/// The first line that a client sends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello<'a> {
    mgp: u8,
    #[serde(rename = "as")]
    role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shim: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    changes: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passphrase: Option<Secret>,
    /// The configuration file that the client wants to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'a, str>>,
    /// The version of the shim that connects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Operator,
    Agent,
}

/// A passphrase, whose `Debug` output does not contain it.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Secret(String);

mgp_types::opaque_debug!(Secret);

/// The role that a client requests, with its parameters.
#[derive(Clone, Copy)]
pub(crate) enum HelloRole<'a> {
    Operator { changes: bool, passphrase: Option<&'a str>, file: Option<&'a str> },
    Agent { name: &'a str, is_shim: bool },
}

/// The purpose of an operator's connection: to read only, or to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    /// A change; the kernel may require a proof from the operator.
    Change,
}

/// The kernel's reply to the first line of a client.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HelloReply {
    pub(crate) mgp: u8,
    pub(crate) ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The kind of proof that the kernel requests from a refused operator: `passphrase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proof: Option<Cow<'static, str>>,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) pid: u32,
    /// The configuration files that existed when the kernel started.
    #[serde(default)]
    pub(crate) config: Vec<PathBuf>,
    /// The URL of the kernel's MCP server over HTTP, if it has one.
    #[serde(default)]
    pub(crate) http: Option<String>,
    /// The ids of the kernel's servers.
    #[serde(default)]
    pub(crate) servers: Vec<String>,
    /// [`HOSTS`] if hosts started the kernel, so that it gives way to a kernel that a person or a service starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_by: Option<Cow<'static, str>>,
    /// `true` if the operator has given no proof, and so may only read over this connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) reads_only: bool,
    /// `true` if the kernel does not use the configuration file that the client wants to change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unrelated: bool,
}

impl<'a> Hello<'a> {
    pub(crate) fn operator(intent: Intent) -> Self {
        Self { changes: intent == Intent::Change, ..Self::new(Role::Operator) }
    }

    /// Creates the line that asks whether this process may change a configuration file.
    pub(crate) fn change_of(file: &'a Path) -> Self {
        Self { file: Some(file.to_string_lossy()), ..Self::operator(Intent::Change) }
    }

    pub(crate) fn agent(name: &'a str) -> Self {
        Self { agent: Some(Cow::Borrowed(name)), ..Self::new(Role::Agent) }
    }

    /// Creates the first line of a shim for an agent; the kernel then regards the shim's parent process as a host.
    pub(crate) fn shim(name: &'a str) -> Self {
        Self { shim: true, version: Some(Cow::Borrowed(version::own())), ..Self::agent(name) }
    }

    pub(crate) fn is_shim(&self) -> bool {
        self.shim
    }

    /// Returns whether the line is from an operator who only reads.
    pub(crate) fn is_reader(&self) -> bool {
        self.role == Role::Operator && !self.changes
    }

    /// Returns whether the line is from a shim of a newer version than this program.
    pub(crate) fn is_newer(&self) -> bool {
        let version = self.version.as_deref().unwrap_or_default();
        self.shim && version::is_newer(version, version::own())
    }

    pub(crate) fn set_passphrase(&mut self, passphrase: String) {
        self.passphrase = Some(Secret(passphrase));
    }

    fn new(role: Role) -> Self {
        Self {
            mgp: REVISION,
            role,
            agent: None,
            shim: false,
            changes: false,
            passphrase: None,
            file: None,
            version: None,
        }
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        to_line(self)
    }

    /// Parses the first line of a client; returns the reason if the line is refused.
    pub(crate) fn read(line: &'a [u8]) -> Result<Self, String> {
        let hint = r#"write one line first: `{"mgp":1,"as":"agent","agent":"NAME"}`"#;
        let hello: Self = serde_json::from_slice(line)
            .map_err(|_| format!("the first line is not a hello; {hint}"))?;
        if hello.mgp != REVISION {
            return Err(format!(
                "this kernel supports revision {REVISION} of the first line; {hint}"
            ));
        }
        if hello.role == Role::Agent {
            check_agent_name(hello.agent.as_deref().unwrap_or(DEFAULT_AGENT))?;
        }
        Ok(hello)
    }

    pub(crate) fn role(&self) -> HelloRole<'_> {
        match self.role {
            Role::Operator => HelloRole::Operator {
                changes: self.changes,
                passphrase: self.passphrase.as_ref().map(|Secret(passphrase)| passphrase.as_str()),
                file: self.file.as_deref(),
            },
            Role::Agent => HelloRole::Agent {
                name: self.agent.as_deref().unwrap_or(DEFAULT_AGENT),
                is_shim: self.shim,
            },
        }
    }
}

/// Returns the name if it is a valid agent name. In access entries, `*` means everyone and `group:NAME` a group.
pub(crate) fn check_agent_name(name: &str) -> Result<&str, String> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(format!(
            "the name of an agent has 1 to {MAX_NAME_BYTES} bytes and no control characters"
        ));
    }
    if name == "*" || name.starts_with("group:") {
        return Err("the name of an agent is not `*` and does not begin with `group:`".to_owned());
    }
    Ok(name)
}

impl HelloReply {
    pub(crate) fn accepted() -> Self {
        let version = version::own().to_owned();
        Self { mgp: REVISION, ok: true, version, pid: std::process::id(), ..Self::default() }
    }

    /// Returns the reply for an operator who has given no proof, and so may only read.
    pub(crate) fn reading_only(self) -> Self {
        Self { reads_only: true, ..self }
    }

    pub(crate) fn refused(error: impl Into<String>) -> Self {
        Self { ok: false, error: Some(error.into()), ..Self::accepted() }
    }

    /// Creates the reply that requests the passphrase from an operator.
    pub(crate) fn wants_passphrase() -> Self {
        let error = "the passphrase of the operator is needed; run it where it can be asked for";
        Self { proof: Some(PASSPHRASE.into()), ..Self::refused(error) }
    }

    /// Creates the reply of a kernel that does not use the file that the client wants to change.
    pub(crate) fn unrelated() -> Self {
        Self { unrelated: true, ..Self::refused("this kernel does not follow that file") }
    }

    /// Returns whether a reply reports that the kernel does not use the file that the client wants to change.
    pub(crate) fn is_unrelated(line: &[u8]) -> bool {
        serde_json::from_slice::<Self>(line).is_ok_and(|reply| reply.unrelated)
    }

    /// Returns whether a reply asks for the operator's passphrase.
    pub(crate) fn is_passphrase_question(line: &[u8]) -> bool {
        let reply: Option<Self> = serde_json::from_slice(line).ok();
        reply.is_some_and(|reply| !reply.ok && reply.proof.as_deref() == Some(PASSPHRASE))
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        to_line(self)
    }

    /// Parses the reply of a kernel; fails if the kernel has refused the connection.
    pub(crate) fn read(line: &[u8], socket: &Path) -> CliResult<Self> {
        match serde_json::from_slice::<Self>(line) {
            Ok(reply) if reply.mgp == REVISION && reply.ok => Ok(reply),
            Ok(reply) if reply.mgp == REVISION => {
                let error = reply.error;
                let error = error.unwrap_or_else(|| "the kernel refused the connection".to_owned());
                Err(Failure::failed(error))
            }
            _ => Err(Failure::failed(format!(
                "the program at `{}` is not a kernel of this version; stop it with its own `mgp`, or name another folder with --state DIR",
                socket.display()
            ))),
        }
    }
}

/// Creates the error for a connection without a reply from the kernel.
pub(crate) fn no_answer(socket: &Path) -> Failure {
    let process = socket.parent().and_then(lock::kernel_process);
    let process = process.map_or_else(|| "its process".to_owned(), |pid| format!("process {pid}"));
    let socket = socket.display();
    Failure::no_answer(format!("the kernel at `{socket}` does not answer; check or end {process}"))
}

/// Returns a path as a first line contains it, with U+FFFD in place of bytes that are not UTF-8: JSON cannot have them.
pub(crate) fn lossy(path: &Path) -> PathBuf {
    path.to_string_lossy().into_owned().into()
}

fn to_line(value: &impl Serialize) -> Vec<u8> {
    // The default is never used, because both types of lines can always be written as JSON.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads a line of at most `max_bytes`; returns the line and the bytes already received after it.
pub(crate) async fn read_line(
    reader: &mut (impl AsyncRead + Unpin),
    max_bytes: usize,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut line = Vec::with_capacity(512);
    loop {
        let before = line.len();
        if reader.read_buf(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(end) = line[before..].iter().position(|byte| *byte == b'\n') {
            let rest = line.split_off(before + end + 1);
            return Ok((line, rest));
        }
        if line.len() >= max_bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the first line is too long"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<&str, &str>) {
        let read = Hello::read(line.as_bytes()).map(|hello| match hello.role() {
            HelloRole::Operator { changes, passphrase, file } => {
                format!("operator {changes} {}{}", passphrase.unwrap_or("-"), file.unwrap_or(""))
            }
            HelloRole::Agent { name, is_shim } => format!("agent {name} {is_shim}"),
        });
        match (read, expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{line}"),
            (Err(read), Err(expected)) => assert!(read.contains(expected), "{line}: {read}"),
            (read, expected) => panic!("{line}: {read:?}, not {expected:?}"),
        }
    }

    #[test]
    fn the_role_and_agent_of_a_peer_are_read_from_its_first_line() {
        check(r#"{"mgp":1,"as":"operator"}"#, Ok("operator false -"));
        check(
            r#"{"mgp":1,"as":"operator","changes":true,"passphrase":"p"}"#,
            Ok("operator true p"),
        );
        check(r#"{"mgp":1,"as":"operator","file":"/c.toml"}"#, Ok("operator false -/c.toml"));
        check(r#"{"mgp":1,"as":"agent","agent":"ada","shim":true}"#, Ok("agent ada true"));
        check(r#"{"mgp":1,"as":"agent","agent":"ada"}"#, Ok("agent ada false"));
        check(r#"{"mgp":1,"as":"agent","later":[]}"#, Ok("agent default false"));
        check(r#"{"mgp":2,"as":"operator"}"#, Err("revision 1"));
        check(r#"{"mgp":1,"as":"king"}"#, Err("is not a hello"));
        check(r#"{"mgp":1,"as":"agent","agent":""}"#, Err("1 to 128 bytes"));
        check(r#"{"mgp":1,"as":"agent","agent":"a\nb"}"#, Err("1 to 128 bytes"));
        check(r#"{"mgp":1,"as":"agent","agent":"*"}"#, Err("is not `*`"));
        check(r#"{"mgp":1,"as":"agent","agent":"group:admins"}"#, Err("begin with `group:`"));
        check("GET / HTTP/1.1", Err("is not a hello"));
        check("", Err("is not a hello"));
    }

    #[test]
    fn a_passphrase_is_not_logged() {
        let mut hello = Hello::operator(Intent::Change);
        hello.set_passphrase("open sesame".to_owned());
        assert!(!format!("{hello:?}").contains("sesame"));
        assert!(String::from_utf8(hello.line()).unwrap().contains("open sesame"));
        assert!(HelloReply::is_passphrase_question(&HelloReply::wants_passphrase().line()));
        assert!(!HelloReply::is_passphrase_question(&HelloReply::accepted().line()));
    }

    #[test]
    fn the_error_about_a_kernel_that_does_not_answer_names_its_process() {
        let folder = mgp_testkit::temp_dir();
        let socket = folder.path().join("mgp.sock");
        assert!(no_answer(&socket).to_string().ends_with("check or end its process"));
        std::fs::write(folder.path().join("kernel.lock"), "4242\n").unwrap();
        assert!(no_answer(&socket).to_string().ends_with("check or end process 4242"));
    }

    #[tokio::test]
    async fn bytes_behind_the_line_are_returned_and_a_long_line_is_refused() {
        let (line, rest) = read_line(&mut &b"one\ntwo"[..], MAX_LINE_BYTES).await.unwrap();
        assert_eq!((&line[..], &rest[..]), (&b"one\n"[..], &b"two"[..]));
        let cut = read_line(&mut &b"one"[..], MAX_LINE_BYTES).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        let long = vec![b'x'; MAX_LINE_BYTES * 2];
        let refused = read_line(&mut &long[..], MAX_LINE_BYTES).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
