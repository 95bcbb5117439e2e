//! Messages as lines over byte streams: child processes, standard input and output, memory.

use std::process::Stdio;

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::process::Command;
use tokio::sync::mpsc;

use super::{Link, MAX_MESSAGE, Received, Sent};

/// Starts a program and connects to its standard input and output.
pub(super) fn start(command: &[String]) -> Result<Link, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("no command was given".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("`{program}` cannot be started: {error}"))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(format!("`{program}` has no standard input or output"));
    };
    let mut link = over(output, input);
    // The task owns the child, so that dropping the link ends it.
    link.tasks.spawn(async move {
        let _ = child.wait().await;
    });
    Ok(link)
}

/// Connects over two byte streams.
pub(super) fn over<R, W>(reader: R, writer: W) -> Link
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (mut link, sent, received) = Link::new(false);
    link.tasks.spawn(write(writer, sent));
    link.tasks.spawn(read(reader, received));
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

async fn read<R: AsyncRead + Unpin>(reader: R, received: mpsc::Sender<Received>) {
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
        if let Some(reason) = end {
            let _ = received.send(Received::End(reason)).await;
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let item = match serde_json::from_slice(&line) {
            Ok(value) => Received::Message(value),
            Err(_) if text.trim().is_empty() => continue,
            Err(_) => Received::Garbage(text.into_owned()),
        };
        if received.send(item).await.is_err() {
            return;
        }
    }
}
