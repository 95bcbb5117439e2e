//! Messages as lines over byte streams: child processes, standard input and output, memory.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::{Link, MAX_MESSAGE, Received, Sent};
use crate::json::MAX_SHOWN;

/// The time to wait for a program's exit code and the rest of its standard error after it has closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest line of standard error, in bytes; a longer one counts as several lines.
const MAX_LINE: u64 = 4096;

/// The words by which a line of standard error that explains a failure is recognized.
const ERROR_WORDS: [&str; 4] = ["error", "exception", "panic", "fatal"];

/// Starts a program and connects to its standard input and output.
pub(super) fn start(command: &[String]) -> Result<Link, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("no command was given".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(input), Some(output), Some(errors)) = streams else {
        return Err(format!("`{program}` has no standard input or output"));
    };
    let (mut link, sent, received) = Link::new(false);
    link.tasks.spawn(write(input, sent));
    let (line, best_line) = oneshot::channel();
    link.tasks.spawn(async move {
        let _ = line.send(read_errors(errors).await);
    });
    // The task owns the child, so that dropping the link ends it.
    link.tasks.spawn(async move {
        if let Some(reason) = read(output, &received).await {
            let deadline = Instant::now() + EXIT_TIMEOUT;
            let status = timeout_at(deadline, child.wait()).await.ok().and_then(Result::ok);
            // Another process may keep standard error open after the program has ended.
            let line = timeout_at(deadline, best_line).await.ok().and_then(Result::ok);
            let reason = with_exit(&reason, status, &line.unwrap_or_default());
            let _ = received.send(Received::End(reason)).await;
        }
        let _ = child.wait().await;
    });
    Ok(link)
}

/// Adds how a program ended to the reason for the end of its connection.
fn with_exit(reason: &str, status: Option<ExitStatus>, line: &str) -> String {
    let status = status.map_or_else(String::new, |status| format!(" ({status})"));
    let line = if line.is_empty() { String::new() } else { format!("; it wrote: {line}") };
    format!("{reason}{status}{line}")
}

/// Reads a program's standard error to its end. Returns the last line that mentions an error, or else the last line
/// that is not blank.
async fn read_errors<R: AsyncRead + Unpin>(reader: R) -> String {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    let (mut best, mut has_error) = (String::new(), false);
    loop {
        line.clear();
        match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return best,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        let lower = text.to_lowercase();
        // A place in a trace of calls may contain such a word too.
        let is_error =
            !lower.starts_with("at ") && ERROR_WORDS.iter().any(|word| lower.contains(word));
        if is_error || (!has_error && !text.is_empty()) {
            best = mgp_types::clip(text, MAX_SHOWN);
            has_error |= is_error;
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
