//! Connections that transport messages in both directions without checking them.

mod http;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use mgp_transport::Child;
use mgp_types::service::shown_url;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// The maximum number of messages that wait to be read. A peer that sends more has to wait.
const MAX_WAITING: usize = 256;

/// The maximum length of a message, in bytes. A longer message ends the connection.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// A message of a peer, or the end of its connection.
#[derive(Debug)]
pub(crate) enum Received {
    Message(Value),
    /// A line or body that is not JSON.
    Garbage(String),
    /// The status of the HTTP response to a notification, if the response contains no message.
    Status(u16),
    /// The id of a request whose HTTP response contains no answer, and a text about that response.
    Unanswered(Value, String),
    /// The end of the connection, with its reason.
    End(String),
}

/// A message to a peer.
#[derive(Debug)]
pub(crate) enum Sent {
    Message(Value),
    /// A text that is sent unchanged, even if it is not JSON.
    Raw(String),
}

impl Sent {
    /// Returns the id if this message is a request.
    fn id(&self) -> Option<&Value> {
        match self {
            Self::Message(message) if message.get("method").is_some() => message.get("id"),
            _ => None,
        }
    }

    /// Returns whether this message ends the handshake of a legacy session.
    fn is_initialized(&self) -> bool {
        matches!(self, Self::Message(message) if message["method"] == "notifications/initialized")
    }
}

/// A connection to a peer. Dropping it ends the connection and the processes that were started for it, but not the
/// session of a server at a URL.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) output: Option<mpsc::Sender<Sent>>,
    pub(crate) input: mpsc::Receiver<Received>,
    /// `true` if the peer is reached over HTTP.
    pub(crate) is_http: bool,
    tasks: tokio::task::JoinSet<()>,
    server: Option<LinkedServer>,
}

/// The server at the other end of a connection, if it has to be notified of the end.
enum LinkedServer {
    Child(Arc<Child>),
    Url(Box<http::Endpoint>),
}

mgp_types::opaque_debug!(LinkedServer);

/// The peer to judge.
#[derive(Clone, Debug)]
pub struct Target(TargetKind);

#[derive(Clone, Debug)]
enum TargetKind {
    Command(Vec<String>),
    Url(String, Vec<(String, String)>),
    Memory(Opener),
}

/// A function that opens a connection to a server in this process.
#[derive(Clone)]
struct Opener(Arc<dyn Fn() -> MemoryEnd + Send + Sync>);

mgp_types::opaque_debug!(Opener);

/// The two directions of a connection in memory, as the judge uses them.
type MemoryEnd = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

impl Target {
    /// Describes a server that is started as a program and exchanges messages over its standard input and output.
    pub fn command<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Self {
        Self(TargetKind::Command(command.into_iter().map(Into::into).collect()))
    }

    /// Describes a server at a URL.
    pub fn url(url: impl Into<String>) -> Self {
        Self(TargetKind::Url(url.into(), Vec::new()))
    }

    /// Adds a header to each request to a server at a URL.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let TargetKind::Url(_, headers) = &mut self.0 {
            headers.push((name.into(), value.into()));
        }
        self
    }

    /// Describes a server in this process. For each connection, `open` returns a reader of the server's output and a
    /// writer to its input.
    pub fn memory<R, W>(open: impl Fn() -> (R, W) + Send + Sync + 'static) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let boxed = move || -> MemoryEnd {
            let (reader, writer) = open();
            (Box::new(reader), Box::new(writer))
        };
        Self(TargetKind::Memory(Opener(Arc::new(boxed))))
    }

    /// Returns the name of the target in reports: its command or URL, without possible secrets.
    pub(crate) fn name(&self) -> String {
        match &self.0 {
            TargetKind::Command(command) => shown_command(command),
            TargetKind::Url(url, _) => shown_url(url),
            TargetKind::Memory(_) => "a server in memory".to_owned(),
        }
    }

    /// Opens a connection. `timeout` limits each message to a server at a URL and its answer. Without a limit, the
    /// connection relays the messages of a client, and a request that fails does not end it.
    pub(crate) fn open(&self, timeout: Option<Duration>) -> Result<Link, String> {
        match &self.0 {
            TargetKind::Command(command) => stream::start(command),
            TargetKind::Url(url, headers) => http::open(url, headers, timeout),
            TargetKind::Memory(Opener(open)) => {
                let (reader, writer) = open();
                Ok(stream::over(reader, writer))
            }
        }
    }
}

impl Link {
    fn new(is_http: bool) -> (Self, mpsc::Receiver<Sent>, mpsc::Sender<Received>) {
        let (output, sent) = mpsc::channel(MAX_WAITING);
        let (received, input) = mpsc::channel(MAX_WAITING);
        let tasks = tokio::task::JoinSet::new();
        (Self { output: Some(output), input, is_http, tasks, server: None }, sent, received)
    }

    /// Ends the connection once all messages to the peer were written and the peer has closed its output, or after a
    /// time limit.
    pub(crate) async fn finish(mut self, wait: Duration) {
        self.output = None;
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(wait, all).await;
    }

    /// Ends the connection. A program has a short time to end before its processes are killed; a server at a URL is
    /// asked to end the session.
    pub(crate) async fn close(mut self) {
        self.output = None;
        match self.server.take() {
            Some(LinkedServer::Child(child)) => {
                child.shutdown().await;
            }
            Some(LinkedServer::Url(endpoint)) => endpoint.end_session().await,
            None => {}
        }
    }

    /// Returns a connection that has ended.
    pub(crate) fn closed() -> Self {
        Self::new(false).0
    }
}

/// Returns a command without possible secrets: the value of a flag or variable whose name looks like a secret's is
/// replaced by `…`, and URLs are shortened.
fn shown_command(command: &[String]) -> String {
    let mut hides_next = false;
    let words = command.iter().map(|word| {
        let is_hidden = std::mem::take(&mut hides_next);
        let mut separators = word.match_indices(['=', ':']).map(|(at, _)| at);
        let named = separators.find(|at| names_secret(&word[..*at])).map(|at| &word[..=at]);
        hides_next = named.is_none() && word.starts_with('-') && names_secret(word);
        match named {
            _ if is_hidden => "…".to_owned(),
            Some(name) => format!("{name}…"),
            None if word.contains("://") => shown_url(word),
            None => word.clone(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn names_secret(name: &str) -> bool {
    const WORDS: [&str; 8] =
        ["token", "secret", "passw", "api_key", "apikey", "api-key", "credential", "authorization"];
    let name = name.to_ascii_lowercase();
    name.trim_start_matches('-') == "key" || WORDS.iter().any(|word| name.contains(word))
}

/// Connects to the client on standard input and output of this process.
///
/// # Errors
/// If standard input or output cannot be used, or was taken before.
pub(crate) fn of_this_process() -> Result<Link, String> {
    let (reader, writer) = mgp_transport::take_stdio().map_err(|error| error.to_string())?;
    Ok(stream::over(reader, writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_target_has_no_secrets() {
        let url = Target::url("https://me:s3cret@example.com/mcp?api_key=s3cret");
        assert_eq!(url.name(), "https://example.com/mcp");
        let words = [
            "npx",
            "-y",
            "notes",
            "--api-key",
            "s3cret",
            "--token=s3cret",
            "DB_PASSWORD=s3cret",
            "--env=API_KEY=s3cret",
            "--header=Authorization: Bearer s3cret",
            "postgres://me:s3cret@db/notes",
            "--port",
            "80",
        ];
        let shown = "npx -y notes --api-key … --token=… DB_PASSWORD=… --env=API_KEY=… \
            --header=Authorization:… postgres://db/notes --port 80";
        assert_eq!(Target::command(words).name(), shown);
    }
}
