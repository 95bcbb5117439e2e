//! The command `mgp logs`: shows what the kernel logs, or what a server writes to standard error.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use mgp_types::escape_hidden;
use mgp_types::method::{KernelInfo, KernelServersLogs};
use mgp_types::mgp::{KernelInfoParams, KernelLogLine, KernelServerLogsParams};
use serde::Serialize;
use tokio::time::sleep;

use super::known_names::check_running;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{Output, Render, print, print_json_line, print_note, write_stdout};
use crate::{control, log, operator, pipe, state};

const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// The maximum number of bytes that one read returns. The first read of an existing log returns the bytes at its end,
/// at most this number.
const MAX_BYTES: u64 = 1024 * 1024;

/// `mgp logs`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A kernel that a host started logs to `kernel.log` in the state folder, and the standard error of its servers to `servers.log`; `mgp serve` logs to standard error.\n\nExample:\n  mgp logs -f\n  mgp logs files -n 20"
)]
pub(crate) struct Logs {
    /// Server whose standard error is shown, instead of the kernel's log
    server: Option<String>,
    /// Number of lines to show, counted from the end
    #[arg(long, short = 'n', alias = "tail", value_name = "N", default_value_t = 100)]
    lines: u64,
    /// Keep printing new lines; with --json one document each
    #[arg(long, short)]
    follow: bool,
}

/// Lines of a log, oldest first.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LogLines(Vec<LogLine>);

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LogLine {
    /// The time; absent where the line has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// The text of the line, without its time.
    text: String,
}

impl LogLine {
    /// Parses a line of the kernel's log, which begins with its time.
    fn parse(line: &str) -> Self {
        let is_time =
            |word: &str| word.starts_with("20") && word.contains('T') && word.ends_with('Z');
        match line.split_once(' ').filter(|(word, _)| is_time(word)) {
            Some((at, text)) => {
                Self { at: Some(at.to_owned()), text: text.trim_start().to_owned() }
            }
            None => Self { at: None, text: line.to_owned() },
        }
    }
}

impl From<KernelLogLine> for LogLine {
    fn from(line: KernelLogLine) -> Self {
        Self { at: Some(line.at.to_string()), text: line.text }
    }
}

impl Render for LogLines {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.line("no lines yet");
        }
        for LogLine { at, text } in &self.0 {
            match at {
                Some(at) => out.line(format!("{at} {text}")),
                None => out.line(text),
            }
        }
    }
}

pub(crate) async fn run(global: &Global, logs: &Logs) -> CliResult {
    match &logs.server {
        Some(server) => of_server(global, logs, server).await,
        None => of_kernel(global, logs).await,
    }
}

/// Shows what a server writes to standard error, for `mgp servers logs`.
pub(super) async fn last_of_server(global: &Global, server: &str, lines: u64) -> CliResult {
    let logs = Logs { server: Some(server.to_owned()), lines, follow: false };
    run(global, &logs).await
}

async fn of_server(global: &Global, logs: &Logs, server: &str) -> CliResult {
    let client = match control::connect(global).await {
        Err(failure) if failure.is_no_kernel() => {
            return Err(Failure::no_kernel(format!(
                "no kernel is running, and only a running one keeps the lines of its servers; `mgp doctor {server}` starts the server and shows its errors"
            )));
        }
        connected => connected?,
    };
    check_running(&client, server).await?;
    let mut params = KernelServerLogsParams::new(server);
    // To follow the log, read all lines: their comparison with the known lines shows which of them are new.
    params.lines = (!logs.follow).then_some(logs.lines);
    let mut count = usize::try_from(logs.lines).unwrap_or(usize::MAX);
    let mut known: Vec<LogLine> = Vec::new();
    loop {
        let result = client.request::<KernelServersLogs>(&params).await;
        let result = result.map_err(control::request_failure);
        let lines = control::followed(&client, result).await?.lines;
        let lines: Vec<LogLine> = lines.into_iter().map(LogLine::from).collect();
        if !logs.follow {
            return print(global, &LogLines(lines));
        }
        let new = new_lines(&known, &lines);
        print_lines(global, &new[new.len().saturating_sub(count)..])?;
        (known, count) = (lines, usize::MAX);
        sleep(FOLLOW_INTERVAL).await;
    }
}

/// Returns the lines after the known lines. If `lines` does not continue `known`, returns all of `lines`.
fn new_lines<'a>(known: &[LogLine], lines: &'a [LogLine]) -> &'a [LogLine] {
    let is_after = |end: &usize| {
        let before = &lines[..*end];
        let count = before.len().min(known.len());
        count > 0 && before[before.len() - count..] == known[known.len() - count..]
    };
    let from = (1..=lines.len()).rev().find(is_after).unwrap_or(0);
    &lines[from..]
}

/// Checks that this process is allowed to read as an operator. Returns whether a kernel runs that serves over HTTP;
/// such a kernel does not log to the file.
async fn admit_reader(global: &Global) -> CliResult<bool> {
    match control::connect(global).await {
        Ok(client) => {
            let info = client.request::<KernelInfo>(&KernelInfoParams::new()).await;
            client.close().await;
            Ok(info?.http.is_some())
        }
        Err(failure) if failure.is_no_kernel() => operator::check_place().map(|()| false),
        Err(failure) => Err(failure),
    }
}

async fn of_kernel(global: &Global, logs: &Logs) -> CliResult {
    let is_of_http = admit_reader(global).await?;
    let path = log::file(&state::folder(global)?);
    if is_of_http && path.exists() {
        let note = "mgp: the running kernel logs to standard error (of a service, see e.g. `journalctl --user -u mgp`); these lines are from an earlier kernel";
        print_note(global, note);
    }
    let count = usize::try_from(logs.lines).unwrap_or(usize::MAX);
    let (mut tail, text) = open_end(&path, count).map_err(|error| missing(&path, &error))?;
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    let parsed = |lines: &[&str]| lines.iter().map(|line| LogLine::parse(line)).collect();
    if !logs.follow {
        return print(global, &LogLines(parsed(last)));
    }
    let first: Vec<LogLine> = parsed(last);
    print_lines(global, &first)?;
    loop {
        sleep(FOLLOW_INTERVAL).await;
        let text = tail.follow(&path).map_err(|error| missing(&path, &error))?;
        let lines: Vec<LogLine> = text.lines().map(LogLine::parse).collect();
        print_lines(global, &lines)?;
    }
}

/// Opens the kernel's log, and returns the text at its end. If the kernel has just begun a new file that has fewer than
/// `lines` lines, puts the end of the previous file before this text.
fn open_end(path: &Path, lines: usize) -> io::Result<(Tail, String)> {
    let mut tail = Tail::open(path)?;
    let is_whole = tail.read == 0;
    let mut text = tail.read()?;
    if is_whole
        && text.lines().count() < lines
        && let Ok(mut previous) = Tail::open(&path.with_extension("log.old"))
    {
        text.insert_str(0, &previous.read()?);
    }
    Ok((tail, text))
}

fn missing(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => Failure::failed(format!(
            "no kernel has logged to `{path}` yet; `mgp serve --http` and `--standalone` log to standard error"
        )),
        _ => Failure::failed(format!("`{path}`: {error}")),
    }
}

fn print_lines(global: &Global, lines: &[LogLine]) -> CliResult {
    for line in lines {
        if global.json {
            print_json_line(line)?;
        } else {
            let at = line.at.as_ref().map(|at| format!("{at} ")).unwrap_or_default();
            write_stdout(&format!("{at}{}\n", escape_hidden(&line.text)))?;
        }
    }
    Ok(())
}

/// A reader of a growing file, with the number of bytes that it has already read.
struct Tail {
    file: File,
    read: u64,
}

impl Tail {
    fn open(path: &Path) -> io::Result<Self> {
        pipe::refuse(path)?;
        let file = File::open(path)?;
        let read = file.metadata()?.len().saturating_sub(MAX_BYTES);
        let mut tail = Self { file, read };
        if read > 0 {
            // Begin to read at the start of a whole line.
            let bytes = tail.unread()?;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            tail.read = read + end.map_or(0, |at| at as u64 + 1);
        }
        Ok(tail)
    }

    /// Returns the whole lines that were not read yet.
    fn read(&mut self) -> io::Result<String> {
        let mut bytes = self.unread()?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(end);
        self.read += end as u64;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the bytes that were not read yet, up to the limit.
    fn unread(&mut self) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        (&mut self.file).take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the whole lines that were not read yet. If the kernel has begun a new file at this path, returns the
    /// lines of both files.
    fn follow(&mut self, path: &Path) -> io::Result<String> {
        if !self.is_replaced(path) {
            return self.read();
        }
        let rest = self.read()?;
        *self = Self::open(path)?;
        Ok(rest + &self.read()?)
    }

    /// Returns whether the kernel has begun a new file at this path, because the previous file had become too long.
    fn is_replaced(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|new| new.len() < self.read)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn only_new_lines_of_a_server_are_printed() {
        let lines = |texts: &[&str]| -> Vec<LogLine> {
            texts.iter().map(|text| LogLine { at: None, text: (*text).to_owned() }).collect()
        };
        let check = |known: &[&str], now: &[&str], expected: &[&str]| {
            assert_eq!(new_lines(&lines(known), &lines(now)), lines(expected), "{known:?} {now:?}");
        };
        check(&[], &["a", "b"], &["a", "b"]);
        check(&["a", "b"], &["a", "b"], &[]);
        check(&["a", "b"], &["a", "b", "a"], &["a"]);
        check(&["a", "a"], &["a", "a", "a"], &[]);
        check(&["a", "b"], &["b", "c"], &["c"]);
        check(&["a"], &["x", "y"], &["x", "y"]);
    }

    #[test]
    fn the_end_of_a_file_is_read_line_by_line() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("kernel.log");
        fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut tail = Tail::open(&path).unwrap();
        assert_eq!(tail.read().unwrap(), "one\ntwo\n");
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"ee\n").unwrap();
        assert_eq!(tail.read().unwrap(), "three\n");
        assert!(!tail.is_replaced(&path));
        fs::write(&path, "new\n").unwrap();
        assert!(tail.is_replaced(&path));
    }

    #[test]
    fn a_long_log_is_read_from_the_beginning_of_a_line() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("kernel.log");
        // The limit for reading falls inside a letter of two bytes.
        let long = "é".repeat(usize::try_from(MAX_BYTES).unwrap());
        fs::write(&path, format!("{long}\none\n")).unwrap();
        assert_eq!(Tail::open(&path).unwrap().read().unwrap(), "one\n");
    }

    #[test]
    fn no_line_is_lost_when_the_kernel_begins_a_new_file() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("kernel.log");
        fs::write(&path, "one\ntwo\n").unwrap();
        let (mut tail, _) = open_end(&path, 9).unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"three\n").unwrap();
        fs::rename(&path, folder.path().join("kernel.log.old")).unwrap();
        fs::write(&path, "four\n").unwrap();
        assert_eq!(tail.follow(&path).unwrap(), "three\nfour\n");
        assert_eq!(open_end(&path, 2).unwrap().1, "one\ntwo\nthree\nfour\n");
        assert_eq!(open_end(&path, 1).unwrap().1, "four\n", "there are enough lines");
    }

    #[test]
    fn a_line_of_the_kernel_begins_with_its_time() {
        let line = LogLine::parse("2026-11-24T01:02:03.000004Z  INFO mgp: the kernel serves");
        assert!(line.at.is_some());
        assert_eq!(line.text, "INFO mgp: the kernel serves");
        assert_eq!(LogLine::parse("thread panicked").at, None);
    }
}
