//! The first line of each side of the local socket: who connects, and whether it is let in.
//!
//! Whoever connects writes `{"mgp":1,"as":"agent","agent":"NAME"}` or `{"mgp":1,"as":"operator"}`; the kernel answers
//! with a line of its own, and from then on both speak MCP.
//!
//! Applies to: both.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use mgp_types::service::Principal;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::exit::Failure;

/// The revision of these lines.
const REVISION: u8 = 1;

/// The longest line; a longer one is refused.
pub(crate) const LINE_BYTES: usize = 4096;

/// The longest name of an agent.
const NAME_BYTES: usize = 128;

/// The agent that whoever gives no name counts as.
pub(crate) const NAMELESS: &str = "default";

/// Who connects.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Preface<'a> {
    mgp: u8,
    #[serde(rename = "as")]
    role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<Cow<'a, str>>,
}

/// In which role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Operator,
    Agent,
}

/// What the kernel answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) mgp: u8,
    pub(crate) ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) pid: u32,
    /// The files it was started with, where they are there.
    #[serde(default)]
    pub(crate) config: Vec<PathBuf>,
    /// Where it serves HTTP.
    #[serde(default)]
    pub(crate) http: Option<String>,
    /// The ids of its servers.
    #[serde(default)]
    pub(crate) servers: Vec<String>,
}

// === impl Preface ===

impl<'a> Preface<'a> {
    pub(crate) fn operator() -> Self {
        Self { mgp: REVISION, role: Role::Operator, agent: None }
    }

    pub(crate) fn agent(name: &'a str) -> Self {
        Self { mgp: REVISION, role: Role::Agent, agent: Some(Cow::Borrowed(name)) }
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        line(self)
    }

    /// Reads a line, or says what is wrong with it.
    pub(crate) fn principal(line: &[u8]) -> Result<Principal, String> {
        let hint = r#"write one line as `{"mgp":1,"as":"agent","agent":"NAME"}` first"#;
        let read: Preface<'_> = serde_json::from_slice(line)
            .map_err(|_| format!("the first line is not understood; {hint}"))?;
        if read.mgp != REVISION {
            return Err(format!(
                "this kernel understands revision {REVISION} of the first line; {hint}"
            ));
        }
        match (read.role, read.agent.as_deref()) {
            (Role::Operator, _) => Ok(Principal::local().operator()),
            (Role::Agent, name) => Ok(Principal::local().agent(named(name.unwrap_or(NAMELESS))?)),
        }
    }
}

/// The name of an agent, if it can be one.
pub(crate) fn named(name: &str) -> Result<&str, String> {
    let is_name =
        !name.is_empty() && name.len() <= NAME_BYTES && !name.chars().any(char::is_control);
    let wrong =
        || format!("the name of an agent has 1 to {NAME_BYTES} bytes and no control characters");
    is_name.then_some(name).ok_or_else(wrong)
}

// === impl Greeting ===

impl Greeting {
    /// Lets somebody in.
    pub(crate) fn welcome() -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { mgp: REVISION, ok: true, version, pid: std::process::id(), ..Self::default() }
    }

    /// Lets nobody in.
    pub(crate) fn refusal(error: impl Into<String>) -> Self {
        Self { ok: false, error: Some(error.into()), ..Self::welcome() }
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        line(self)
    }

    /// Reads that of a kernel which understands the same first line.
    pub(crate) fn read(line: &[u8]) -> io::Result<Self> {
        let read: Self = serde_json::from_slice(line)?;
        if read.mgp == REVISION { Ok(read) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

fn line(words: &impl Serialize) -> Vec<u8> {
    // Nothing in them can fail to be written.
    let mut line = serde_json::to_vec(words).unwrap_or_default();
    line.push(b'\n');
    line
}

/// What answers at the socket does not answer as a kernel of this version does.
pub(crate) fn stranger(socket: &Path) -> Failure {
    Failure::failed(format!(
        "what answers at `{}` is no kernel of this version; end it with the `mgp` it came with, or name another folder with --state DIR",
        socket.display()
    ))
}

/// Reads a line of at most [`LINE_BYTES`], and what came behind it.
pub(crate) async fn read_line(
    reader: &mut (impl AsyncRead + Unpin),
    longest: usize,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut read = Vec::with_capacity(512);
    loop {
        let before = read.len();
        if reader.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(end) = read[before..].iter().position(|byte| *byte == b'\n') {
            let behind = read.split_off(before + end + 1);
            return Ok((read, behind));
        }
        if read.len() >= longest {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the first line is too long"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<&str, &str>) {
        let read = Preface::principal(line.as_bytes()).map(|principal| format!("{principal:?}"));
        match (read, expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{line}"),
            (Err(read), Err(expected)) => assert!(read.contains(expected), "{line}: {read}"),
            (read, expected) => panic!("{line}: {read:?}, not {expected:?}"),
        }
    }

    #[test]
    fn who_connects_is_read_from_the_first_line() {
        check(r#"{"mgp":1,"as":"operator"}"#, Ok("local/local (operator)"));
        check(r#"{"mgp":1,"as":"agent","agent":"ada"}"#, Ok("local/local/ada"));
        check(r#"{"mgp":1,"as":"agent","later":[]}"#, Ok("local/local/default"));
        check(r#"{"mgp":2,"as":"operator"}"#, Err("revision 1"));
        check(r#"{"mgp":1,"as":"king"}"#, Err("not understood"));
        check(r#"{"mgp":1,"as":"agent","agent":""}"#, Err("1 to 128 bytes"));
        check(r#"{"mgp":1,"as":"agent","agent":"a\nb"}"#, Err("1 to 128 bytes"));
        check("GET / HTTP/1.1", Err("not understood"));
        check("", Err("not understood"));
    }

    #[tokio::test]
    async fn what_comes_behind_the_line_is_kept_and_a_long_line_is_not() {
        let (line, behind) = read_line(&mut &b"one\ntwo"[..], LINE_BYTES).await.unwrap();
        assert_eq!((&line[..], &behind[..]), (&b"one\n"[..], &b"two"[..]));
        let cut = read_line(&mut &b"one"[..], LINE_BYTES).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        let long = vec![b'x'; LINE_BYTES * 2];
        let refused = read_line(&mut &long[..], LINE_BYTES).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }
}
