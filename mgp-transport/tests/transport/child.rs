//! Tests with well-behaved and misbehaving child processes (MGP §11).
//!
//! The tests look for living processes in `/proc`.

#![cfg(target_os = "linux")]

use std::io::{self, BufRead, BufReader as StdBufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mgp_testkit::{RecordedLog, until, until_blocking};
use mgp_transport::{Child, ChildCommand, ChildError, ChildReader, ChildWriter, StderrLimits};
use mgp_transport::{StdioReader, StdioWriter};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout};
use tracing::Level;

use mgp_testkit::program;

const TIMEOUT: Duration = Duration::from_secs(10);
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

fn zoo(mode: &str) -> ChildCommand {
    ChildCommand::new(program("child_zoo")).arg(mode)
}

fn hurried(mode: &str) -> ChildCommand {
    let grace = Duration::from_millis(300);
    zoo(mode).close_timeout(grace).term_timeout(grace)
}

/// Starts a child and takes its pipes, with a buffered reader.
fn start(command: &ChildCommand) -> (Child, BufReader<ChildReader>, ChildWriter) {
    let mut child = command.spawn().unwrap();
    let (reader, writer) = child.take_io().unwrap();
    assert!(child.take_io().is_none());
    (child, BufReader::new(reader), writer)
}

async fn line(reader: &mut BufReader<ChildReader>) -> String {
    let mut line = String::new();
    timeout(TIMEOUT, reader.read_line(&mut line)).await.unwrap().unwrap();
    line.trim_end().to_owned()
}

async fn text(reader: &mut BufReader<ChildReader>) -> String {
    let mut text = String::new();
    timeout(TIMEOUT, reader.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

/// Returns whether a process exists and is not a zombie.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

async fn until_gone(pid: u32) {
    until("the process is gone", async || !lives(pid)).await;
}

#[tokio::test]
async fn a_child_answers_and_ends_when_its_stdin_closes() {
    let (child, mut reader, mut writer) = start(&zoo("echo"));
    writer.write_all(b"hello\n").await.unwrap();
    assert_eq!(line(&mut reader).await, "hello");
    assert_eq!(child.exit_report(), None);
    writer.shutdown().await.unwrap();
    let report = timeout(TIMEOUT, child.wait()).await.unwrap();
    assert_eq!((report.code, report.signal), (Some(0), None));
    assert_eq!(child.exit_report(), Some(report));
    assert_eq!(text(&mut reader).await, "");
    let error = writer.write_all(b"more").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn shutdown_closes_stdin_under_the_writer() {
    let (child, _reader, mut writer) = start(&zoo("echo"));
    let report = child.shutdown().await;
    assert_eq!(report.code, Some(0), "{report}");
    assert!(writer.write_all(b"more").await.is_err());
    // A second call has no effect.
    assert_eq!(child.shutdown().await, report);
    child.kill();
}

#[tokio::test]
async fn exit_codes_are_reported() {
    for code in [0, 1, 3, 255] {
        let (child, ..) = start(&zoo("exit").arg(code.to_string()));
        let report = timeout(TIMEOUT, child.wait()).await.unwrap();
        assert_eq!((report.code, report.signal), (Some(code), None));
        assert_eq!(report.is_success(), code == 0);
    }
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_an_error() {
    let error = ChildCommand::new("/nowhere/to/be/found").spawn().unwrap_err();
    assert!(matches!(&error, ChildError::Start { source, .. }
        if source.kind() == io::ErrorKind::NotFound));
    assert_eq!(error.to_string(), "program \"/nowhere/to/be/found\" did not start");
    let error = zoo("echo").cwd("/nowhere").spawn().unwrap_err();
    assert!(
        matches!(&error, ChildError::NoDirectory(directory) if directory == Path::new("/nowhere"))
    );
}

#[test]
fn outside_a_runtime_is_an_error() {
    assert!(matches!(zoo("echo").spawn(), Err(ChildError::NoRuntime)));
}

#[tokio::test]
async fn a_child_that_hangs_is_killed_within_the_graces() {
    let (child, mut reader, _writer) = start(&hurried("hang"));
    assert_eq!(line(&mut reader).await, "ready");
    let started = Instant::now();
    let report = child.shutdown().await;
    assert_eq!((report.code, report.signal), (None, Some(SIGKILL)));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(600) && took < TIMEOUT, "{took:?}");
    assert!(!lives(child.pid()));
}

#[tokio::test]
async fn a_child_that_never_reads_blocks_its_writer_only() {
    let command = hurried("never-read").term_timeout(Duration::from_secs(5));
    let (child, _reader, mut writer) = start(&command);
    let other = start(&zoo("echo"));
    let block = vec![b'x'; 1 << 20];
    let stuck = tokio::spawn(async move { writer.write_all(&block).await });
    // A child that does not read must not block the other child.
    let (other, mut reader, mut other_writer) = other;
    other_writer.write_all(b"hello\n").await.unwrap();
    assert_eq!(line(&mut reader).await, "hello");
    assert!(!stuck.is_finished());
    let report = child.shutdown().await;
    assert_eq!(report.signal, Some(SIGTERM), "{report}");
    // The write fails instead of waiting forever.
    let written = timeout(TIMEOUT, stuck).await.unwrap().unwrap();
    assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    other.shutdown().await;
}

#[tokio::test]
async fn the_whole_group_is_ended() {
    // The leader ends when its stdin is closed; the processes that remain in its group get SIGTERM.
    let (child, mut reader, _writer) = start(&zoo("fork"));
    let grandchild: u32 = line(&mut reader).await.parse().unwrap();
    assert!(lives(grandchild));
    let report = child.shutdown().await;
    assert_eq!(report.code, Some(0), "{report}");
    assert!(!lives(grandchild), "the grandchild lives");

    // Killing and dropping the child also end the group.
    let (child, mut reader, _writer) = start(&zoo("fork"));
    let grandchild: u32 = line(&mut reader).await.parse().unwrap();
    child.kill();
    let report = timeout(TIMEOUT, child.wait()).await.unwrap();
    assert_eq!(report.signal, Some(SIGKILL));
    assert!(!lives(grandchild), "the grandchild lives");

    let (child, mut reader, _writer) = start(&zoo("fork"));
    let grandchild: u32 = line(&mut reader).await.parse().unwrap();
    let pid = child.pid();
    drop(child);
    until_gone(pid).await;
    until_gone(grandchild).await;
}

#[tokio::test]
async fn processes_that_a_dead_leader_leaves_are_ended() {
    let (child, mut reader, writer) = start(&zoo("fork"));
    let grandchild: u32 = line(&mut reader).await.parse().unwrap();
    drop(writer);
    let report = timeout(TIMEOUT, child.wait()).await.unwrap();
    assert_eq!(report.code, Some(0));
    assert!(!lives(grandchild));
}

#[test]
fn a_child_outlives_its_runtime_and_not_its_handle() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let child = first.block_on(async { zoo("hang").spawn().unwrap() });
    drop(first);
    assert!(lives(child.pid()));
    let waited = second.block_on(async { timeout(Duration::from_millis(50), child.wait()).await });
    assert!(waited.is_err());
    child.kill();
    let report = second.block_on(async { timeout(TIMEOUT, child.wait()).await.unwrap() });
    assert_eq!(report.signal, Some(SIGKILL));

    let child = second.block_on(async { zoo("hang").spawn().unwrap() });
    let pid = child.pid();
    drop(second);
    drop(child);
    runtime().block_on(until_gone(pid));
}

#[tokio::test]
async fn environment_and_descriptors_are_clean() {
    // The child must not inherit this variable, which cargo sets for tests. Also, it must not inherit the duplicated
    // descriptor, which is like a descriptor that a library left inheritable.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let forgotten = rustix::io::dup(io::stderr()).unwrap();
    let command = zoo("env").env("GIVEN", "yes").cwd("/");
    let (_child, mut reader, _writer) = start(&command);
    let all = text(&mut reader).await;
    drop(forgotten);
    assert!(all.contains("\nGIVEN=yes\n") || all.starts_with("GIVEN=yes\n"), "{all}");
    assert!(all.contains("PATH="), "{all}");
    assert!(all.contains("cwd=/\n"), "{all}");
    assert!(!all.contains("CARGO_"), "{all}");
    assert!(all.ends_with("cwd=/\nfd=0\nfd=1\nfd=2\n"), "{all}");

    let (_child, mut reader, _writer) = start(&command.inherit_env(["CARGO_MANIFEST_DIR"]));
    assert!(text(&mut reader).await.contains("CARGO_MANIFEST_DIR="));
}

#[test]
fn debug_output_shows_no_secret() {
    let command = ChildCommand::new("x").arg("--token=hush").env("TOKEN", "hush");
    let shown = format!("{command:?}");
    assert!(shown.contains("TOKEN") && !shown.contains("hush"), "{shown}");
}

#[tokio::test]
async fn stderr_becomes_capped_events() {
    let log = RecordedLog::of(Level::TRACE);
    let _guard = tracing::subscriber::set_default(log.clone());
    let cap = StderrLimits::default().rate(3, 1 << 20, Duration::from_hours(1));
    let (child, _reader, writer) =
        start(&zoo("flood-stderr").arg("1000").server("noisy").stderr_cap(cap));
    drop(writer);
    child.wait().await;
    until("four events are logged", async || log.lines_of("mgp::child").len() >= 4).await;
    let events = log.lines_of("mgp::child");
    assert_eq!(events.len(), 4, "{events:?}");
    let pid = format!("pid={}", child.pid());
    for event in &events[..3] {
        assert!(event.starts_with("INFO mgp::child"), "{event}");
        assert!(event.contains(&"!".repeat(99)) && event.contains(&pid), "{event}");
        assert!(event.contains("server=\"noisy\""), "{event}");
    }
    assert!(events[3].starts_with("WARN mgp::child"), "{events:?}");
    assert!(events[3].contains("lines=7") && events[3].contains("bytes=693"), "{events:?}");
}

#[test]
fn a_flood_of_stderr_costs_no_memory() {
    let probe = Command::new(program("child_probe"))
        .args(["stderr_flood", &(100 << 20).to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8(probe.stdout).unwrap();
    assert!(output.starts_with(r#"{"ok":true,"rss_growth":"#), "{output}");
}

#[test]
fn a_second_answer_is_ignored() {
    let probe = Command::new(program("child_probe"))
        .arg("reply_twice")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8(probe.stdout).unwrap();
    assert!(output.starts_with(r#"{"ok":true,"#), "{output}");
}

#[test]
fn a_killed_parent_leaves_no_child() {
    let mut parent = Command::new(program("child_zoo"))
        .arg("parent")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    StdBufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let child: u32 = line.trim().parse().unwrap();
    assert!(lives(child));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until_blocking("the child ends with its parent", || !lives(child));
}

#[test]
fn two_hundred_children_leave_nothing() {
    let storm = Command::new(program("child_zoo"))
        .args(["storm", "200"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8(storm.stdout).unwrap();
    let (children, descriptors) = output.trim().split_once(' ').unwrap();
    assert_eq!(children, "children=0");
    let (before, after) =
        descriptors.strip_prefix("descriptors=").unwrap().split_once("->").unwrap();
    // The first count may include the pidfd of the first child, so the second count may be lower.
    let (before, after): (u32, u32) = (before.parse().unwrap(), after.parse().unwrap());
    assert!(after <= before, "{output}");
}

#[test]
fn handles_and_futures_move_between_threads() {
    fn moves<T: Send>(_: &T) {}
    fn shared<T: Send + Sync + Unpin + 'static>() {}
    shared::<Child>();
    shared::<ChildCommand>();
    shared::<ChildReader>();
    shared::<ChildWriter>();
    shared::<StdioReader>();
    shared::<StdioWriter>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let child = runtime.block_on(async { zoo("echo").spawn().unwrap() });
    moves(&child.wait());
    moves(&child.shutdown());
}
