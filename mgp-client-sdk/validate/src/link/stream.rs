//! Messages as lines over byte streams: child processes, standard input and output, memory.

use std::sync::Arc;
use std::time::Duration;

use mgp_transport::{ChildCommand, ChildError, ExitReport, StderrLimits};
use mgp_types::sync::Mutex;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::{Link, LinkedServer, MAX_MESSAGE, Received, Sent};
use crate::json::MAX_SHOWN;

/// The time to wait for a program's exit code and for the last lines of its standard error, after the program has
/// closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The time in which a program must end after the end of its input, and then the time in which its processes must end
/// after SIGTERM.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The maximum length of a line of standard error, in bytes; the end of a longer line is left out.
const MAX_LINE: usize = 4096;

/// The words that mark a line of standard error as the explanation of a failure.
const ERROR_WORDS: [&str; 4] = ["error", "exception", "panic", "fatal"];

/// Starts a program and connects to its standard input and output.
pub(super) fn start(command: &[String]) -> Result<Link, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("no command was given".to_owned());
    };
    let explanation = Arc::new(Mutex::new(Explanation::default()));
    let noted = Arc::clone(&explanation);
    // `is_over` completes at the end of standard error: the callback owns `open`, and is dropped then.
    let (open, is_over) = oneshot::channel::<()>();
    let limits = StderrLimits::default().line_bytes(MAX_LINE);
    let command = ChildCommand::new(program)
        .args(arguments)
        .inherit_env(["*"])
        .close_timeout(CLOSE_TIMEOUT)
        .term_timeout(CLOSE_TIMEOUT)
        .stderr_cap(limits.rate(u64::MAX, u64::MAX, EXIT_TIMEOUT))
        .on_stderr(move |line| {
            if !open.is_closed() {
                noted.lock().note(line);
            }
        });
    let mut child = command.spawn().map_err(|error| cannot_start(program, &error))?;
    // The command owns the callback too, so drop it; otherwise `is_over` would not complete.
    drop(command);
    let Some((output, input)) = child.take_io() else {
        return Err(format!("`{program}` has no standard input or output"));
    };
    let child = Arc::new(child);
    let (mut link, sent, received) = Link::new(false);
    link.server = Some(LinkedServer::Child(Arc::clone(&child)));
    link.tasks.spawn(write(input, sent));
    link.tasks.spawn(async move {
        if let Some(reason) = read(output, &received).await {
            let deadline = Instant::now() + EXIT_TIMEOUT;
            let status = timeout_at(deadline, child.wait()).await.ok();
            // Wait only until a deadline, because another process may keep standard error open after the program has
            // ended.
            let _ = timeout_at(deadline, is_over).await;
            let line = explanation.lock().line.clone();
            let _ = received.send(Received::End(with_exit(&reason, status, &line))).await;
        }
        child.wait().await;
    });
    Ok(link)
}

fn cannot_start(program: &str, error: &ChildError) -> String {
    match error {
        ChildError::Start { source, .. } => format!("`{program}` cannot be started: {source}"),
        error => format!("`{program}` cannot be started: {error}"),
    }
}

/// Adds how a program ended to the reason for the end of its connection.
fn with_exit(reason: &str, status: Option<ExitReport>, line: &str) -> String {
    let status = status.map_or_else(String::new, |status| format!(" ({status})"));
    let line = if line.is_empty() { String::new() } else { format!("; it wrote: {line}") };
    format!("{reason}{status}{line}")
}

/// The last line of a program's standard error that mentions an error, or else the last line that is not blank. A
/// description of the program's usage that follows an error does not count.
#[derive(Debug, Default)]
struct Explanation {
    line: String,
    has_error: bool,
    is_over: bool,
}

impl Explanation {
    fn note(&mut self, line: &str) {
        let text = line.trim();
        let lower = text.to_lowercase();
        // Stop at the usage, which many programs in Go and Rust print after the error, because options in it may also
        // mention errors.
        self.is_over |= self.has_error && lower.starts_with("usage:");
        if self.is_over {
            return;
        }
        // Skip lines of a stack trace (`at …`): they may contain such a word too, but do not explain the failure.
        let is_error =
            !lower.starts_with("at ") && ERROR_WORDS.iter().any(|word| lower.contains(word));
        if is_error || (!self.has_error && !text.is_empty()) {
            self.line = mgp_types::clip(text, MAX_SHOWN);
            self.has_error |= is_error;
        }
    }
}

/// Connects over two byte streams.
pub(super) fn over<R, W>(reader: R, writer: W) -> Link
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (mut link, sent, received) = Link::new(false);
    link.tasks.spawn(write(writer, sent));
    link.tasks.spawn(async move {
        if let Some(reason) = read(reader, &received).await {
            let _ = received.send(Received::End(reason)).await;
        }
    });
    link
}

async fn write<W: AsyncWrite + Unpin>(mut writer: W, mut sent: mpsc::Receiver<Sent>) {
    while let Some(message) = sent.recv().await {
        let mut line = match message {
            Sent::Message(value) => value.to_string(),
            Sent::Raw(text) => text,
        };
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

/// Passes on the messages of a peer until its end, and returns the reason for the end; `None` if the receiver was
/// dropped before.
async fn read<R: AsyncRead + Unpin>(
    reader: R,
    received: &mpsc::Sender<Received>,
) -> Option<String> {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_MESSAGE as u64 + 1;
        let outcome = (&mut reader).take(limit).read_until(b'\n', &mut line).await;
        let end = match outcome {
            Ok(0) => Some("the peer closed its output".to_owned()),
            Ok(length) if length > MAX_MESSAGE => {
                Some("a message is longer than 16 MiB".to_owned())
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if end.is_some() {
            return end;
        }
        let text = String::from_utf8_lossy(&line);
        let item = match serde_json::from_slice(&line) {
            Ok(value) => Received::Message(value),
            Err(_) if text.trim().is_empty() => continue,
            Err(_) => Received::Garbage(text.into_owned()),
        };
        if received.send(item).await.is_err() {
            return None;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_usage_behind_an_error_is_not_quoted() {
        let mut explanation = Explanation::default();
        for line in ["Error: no context", "Usage:", "  --log FILE  logs errors to FILE"] {
            explanation.note(line);
        }
        assert_eq!(explanation.line, "Error: no context");
        let mut explanation = Explanation::default();
        for line in ["usage: x [-h] FILE", "x: error: no FILE"] {
            explanation.note(line);
        }
        assert_eq!(explanation.line, "x: error: no FILE");
    }

    /// Returns whether a process runs. A process that only waits until its parent reads its exit code does not count as
    /// running.
    fn is_running(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    }

    #[tokio::test]
    async fn processes_that_a_shell_started_end_with_the_connection() {
        for is_closed in [true, false] {
            let script = "sleep 600 & echo $!; wait";
            let mut link = start(&["sh", "-c", script].map(str::to_owned)).unwrap();
            let received = link.input.recv().await;
            let Some(Received::Message(pid)) = received else { panic!("{received:?}") };
            let pid = pid.to_string();
            assert!(is_running(&pid));
            if is_closed {
                link.close().await;
            } else {
                drop(link);
            }
            let deadline = Instant::now() + Duration::from_secs(10);
            while is_running(&pid) {
                assert!(Instant::now() < deadline, "{pid} still runs");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}
