//! Tests with processes that are killed while they write a log.
//!
//! The environment variable `KILLS` sets the number of kills; 30 by default.

#![expect(clippy::print_stdout, reason = "a test that prints its measurement")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read as _, Write as _};
use std::time::Duration;

use mgp_testkit::{ChildTest, Stopwatch, child_role};

use super::super::chain::{Chain, ChainKey, Line};
use super::*;

/// The number of kills of writers to the same log; several, because recovery must also work on a recovered log.
const KILLS: u64 = 30;

/// The maximum time to open a log after a kill, which is checked if `KILLS` is set.
const MAX_OPEN_TIME: Duration = Duration::from_millis(100);

/// Runs in the process that is killed: begins calls that never end, and reports events after they were acknowledged.
#[tokio::test]
async fn a_process_that_can_be_killed() {
    let Some((_, dir)) = child_role() else { return };
    let config = LogConfig::new(dir).segment_bytes(20_000).checkpoint_every(50);
    let log = AuditLog::open(config, None).await.unwrap();
    let mut out = std::io::stdout();
    let mut running = Vec::new();
    for id in 0.. {
        let appended: Vec<_> =
            (0..8).map(|_| log.append(&event(&id.to_string())).into_future()).collect();
        running.push(log.begin(start("rm", None, None)).await.unwrap());
        writeln!(out, "begun {}", running.len()).unwrap();
        if running.len() > 5 {
            running.remove(0).finish(AuditOutcome::Success);
            writeln!(out, "ended").unwrap();
        }
        call(&log, "safe", RiskLevel::Safe).await;
        for appended in appended {
            writeln!(out, "ack {}", appended.await.unwrap()).unwrap();
        }
        out.flush().unwrap();
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_killed_process() {
    let logs =
        std::env::var("KILLS").map_or(1, |kills| kills.parse::<u64>().unwrap().div_ceil(KILLS));
    let (mut acknowledged, mut slowest) = (0, Duration::ZERO);
    for _ in 0..logs {
        let (events, opened) = kill_writers_of_one_log().await;
        acknowledged += events;
        slowest = slowest.max(opened);
    }
    let kills = logs * KILLS;
    println!(
        "{kills} kills of a writer: {acknowledged} events kept, opened in {slowest:?} at worst"
    );
    assert!(logs == 1 || slowest < MAX_OPEN_TIME, "opening took {slowest:?}");
}

/// Kills one writer to a log after another; returns the number of acknowledged events, and the longest time until the
/// log was open again.
async fn kill_writers_of_one_log() -> (usize, Duration) {
    let folder = Folder::new();
    let (mut begun, mut acknowledged, mut slowest) = (0, BTreeSet::new(), Duration::ZERO);
    for round in 0..KILLS {
        let test = "audit::log::tests::crash::a_process_that_can_be_killed";
        let mut child = ChildTest::start(test, "writer", &folder.dir);
        let mut first = String::new();
        while !first.contains("begun") {
            first.clear();
            assert!(child.lines.read_line(&mut first).unwrap() > 0, "the process ended by itself");
        }
        tokio::time::sleep(Duration::from_millis(round % 7)).await;
        child.kill();
        let mut rest = first;
        child.lines.read_to_string(&mut rest).unwrap();
        let lines = folder.lines();
        // The process may have been killed while it reported the last line, so ignore the text after the last newline.
        let (whole, _) = rest.rsplit_once('\n').unwrap();
        for line in whole.lines() {
            if let Some(seq) = line.strip_prefix("ack ") {
                assert!(
                    lines.iter().any(|line| line.starts_with(&format!(r#"{{"seq":{seq},"#))),
                    "{seq} was lost"
                );
                acknowledged.insert(seq.parse::<u64>().unwrap());
            }
        }
        begun += whole.lines().filter(|line| line.starts_with("begun")).count();
        let began = Stopwatch::start();
        let log = folder.open().await;
        slowest = slowest.max(began.elapsed());
        assert!(slowest < Duration::from_secs(1), "opening took {slowest:?}");
        log.close().await.unwrap();
        folder.verify().unwrap();
    }
    let (acknowledged_count, kills) = (acknowledged.len(), usize::try_from(KILLS).unwrap());
    assert!(acknowledged_count > kills * 8, "{acknowledged_count}");
    let lines = folder.lines();
    // A recovery must not remove what was acknowledged before, either.
    for line in &lines {
        let seq = line.strip_prefix(r#"{"seq":"#).and_then(|rest| rest.split_once(','));
        acknowledged.remove(&seq.unwrap().0.parse::<u64>().unwrap());
    }
    assert!(acknowledged.is_empty(), "{acknowledged:?} were lost");
    let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    let intents =
        lines.iter().filter(|line| line.contains(r#","intent":{"#) && !line.contains(r#""of":"#));
    let ended = count(r#""ends":"#);
    assert_eq!(ended, intents.count(), "every call that began has an end");
    assert!(ended >= begun);
    assert!(count(r#""interrupted":true"#) >= kills);
    (acknowledged_count, slowest)
}

#[tokio::test]
async fn a_torn_line_is_cut_off_and_the_cut_is_recorded() {
    let (folder, log) = Folder::with_log().await;
    log.record(event("one")).await.unwrap();
    log.close().await.unwrap();
    let path = folder.segments().remove(0);
    let whole = fs::read(&path).unwrap();
    let head = folder.head().file();
    for torn in [&b"{"[..], br#"{"seq":2,"no":2,"event":{"#, b"\0\0\0\0", b"{\"seq\":2}\n"] {
        fs::write(&path, [&whole, torn].concat()).unwrap();
        fs::write(folder.dir.join("audit.head"), &head).unwrap();
        folder.open().await.close().await.unwrap();
        let lines = folder.lines();
        let cut = format!(r#""cut":{}}}"#, torn.len());
        // A crash leaves a part of a line. A complete line that does not verify has another cause, so it is recorded.
        let records = if torn.ends_with(b"\n") { 3 } else { 2 };
        assert!(lines.len() == records && lines[1].contains(&cut), "{lines:?}");
        assert_eq!(folder.verify(), Ok(records as u64));
    }
}

#[tokio::test]
async fn records_after_the_head_are_kept_if_they_fit() {
    let (folder, log) = Folder::with_log().await;
    log.record(event("one")).await.unwrap();
    let head = fs::read(folder.dir.join("audit.head")).unwrap();
    log.record(event("two")).await.unwrap();
    log.close().await.unwrap();
    fs::write(folder.dir.join("audit.head"), head).unwrap();
    assert_eq!(folder.verify(), Ok(2));
    folder.open().await.close().await.unwrap();
    assert_eq!((folder.head().seq, folder.verify()), (2, Ok(2)));
}

#[tokio::test]
async fn a_file_without_records_is_created_again() {
    let folder = Folder::new();
    let log = AuditLog::open(folder.config().segment_bytes(200), None).await.unwrap();
    log.record(event("one")).await.unwrap();
    let runs = log.begin(start("rm", None, None)).await.unwrap();
    drop(log);
    let _runs = std::mem::ManuallyDrop::new(runs);
    let copy = folder.copy();
    let newest = copy.segments().pop().unwrap();
    assert_eq!(copy.segments().len(), 2);
    let text = fs::read_to_string(&newest).unwrap();
    let checkpoint = Line::read(text.lines().next().unwrap().as_bytes()).unwrap();
    // Set up the state after a process died when it had written half of the checkpoint that begins a new file.
    let head = LogHead::of(&Chain::before(&checkpoint, ChainKey::NONE).unwrap(), 0);
    for begun in ["", &text[..40]] {
        let copy = folder.copy();
        let newest = copy.segments().pop().unwrap();
        fs::write(&newest, begun).unwrap();
        fs::write(copy.dir.join("audit.head"), head.file()).unwrap();
        AuditLog::open(copy.config(), None).await.unwrap().close().await.unwrap();
        assert_eq!(copy.segments().len(), 1);
        assert!(copy.verify().is_ok());
    }
}

impl Folder {
    /// Copies the files in the state in which a killed process leaves them.
    pub(super) fn copy(&self) -> Self {
        let copy = Self::new();
        let mut made = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut made, 0o700);
        made.create(&copy.dir).unwrap();
        for file in self.files() {
            fs::copy(&file, copy.dir.join(file.file_name().unwrap())).unwrap();
        }
        copy
    }
}

#[tokio::test]
async fn a_call_that_waited_for_an_approval_is_recorded_as_one_that_did_not_run() {
    let agent = Principal::local().agent("agent.one");
    let server = "files".into();
    let requested = |id: &str, tool: &str| {
        let event = crate::Event::approval_requested(&agent, id, None).server(Some(&server));
        event.tool(Some(tool)).trace(Some("trace-1")).build()
    };
    let decided = |id: &str| crate::Event::approval_decided(&agent, id, "approve").build();
    let (folder, log) = Folder::with_log().await;
    let mut running = Vec::new();
    for tool in ["rm", "mv", "cp", "dd", "dd", "ln", "ln"] {
        running.push(log.begin(start(tool, None, None)).await.unwrap());
    }
    // `dd` and `ln` are called twice each, and one call of each waits for an approval. The log does not show which of
    // the two calls waits, even after one call of `ln` has ended.
    for (id, tool) in [("a1", "rm"), ("a2", "mv"), ("a4", "dd"), ("a5", "ln")] {
        log.record(requested(id, tool)).await.unwrap();
    }
    log.record(decided("a2")).await.unwrap();
    running.pop().unwrap().finish(AuditOutcome::Success);
    log.flush().await.unwrap();
    let copy = folder.copy();
    let log = copy.open().await;
    let events = log.query(crate::AuditQuery::new()).await.unwrap().events;
    let is_interrupted = |event: &&AuditEvent| {
        event.details.as_ref().is_some_and(|details| details.get("interrupted").is_some())
    };
    let interrupted: Vec<_> = events.iter().filter(is_interrupted).collect();
    assert_eq!(interrupted.len(), 6, "{events:?}");
    for event in interrupted {
        let tool = event.target.as_ref().unwrap().tool_name.as_deref().unwrap();
        let outcome = (event.event_type.as_str(), event.result.as_str());
        let details = event.details.as_ref().unwrap();
        if tool == "rm" {
            assert_eq!(outcome, ("TOOL_BLOCKED", "BLOCKED"));
            assert_eq!(details.get("approval_id").unwrap().as_str(), "\"a1\"");
            let reason = details.get("reason").unwrap().as_str();
            assert!(reason.contains("the call did not run"), "{reason}");
        } else {
            assert_eq!(outcome, ("TOOL_EXECUTED", "FAILURE"), "{tool}");
        }
    }
}

#[tokio::test]
async fn a_call_whose_process_died_is_recorded_as_interrupted() {
    let (folder, log) = Folder::with_log().await;
    let runs = log.begin(start("rm", Some(RiskLevel::Dangerous), None)).await.unwrap();
    let suspended = log.begin(start("ask", None, Some("a"))).await.unwrap();
    suspended.suspend();
    let copy = folder.copy();
    runs.finish(AuditOutcome::Success);
    let log = copy.open().await;
    let events = log.query(crate::AuditQuery::new()).await.unwrap().events;
    assert_eq!(events.len(), 2);
    let event = &events[0];
    assert_eq!((event.event_type.as_str(), event.result.as_str()), ("TOOL_EXECUTED", "FAILURE"));
    assert_eq!((event.actor.kind.as_str(), event.actor.id.as_str()), ("agent", "agent.one"));
    assert_eq!(event.trace_id.as_deref(), Some("trace-1"));
    let target = event.target.as_ref().unwrap();
    assert_eq!(
        (target.server_id.as_deref(), target.tool_name.as_deref()),
        (Some("files"), Some("rm"))
    );
    let details = event.details.as_ref().unwrap();
    for (name, value) in
        [("risk_level", r#""dangerous""#), ("cancelled", "true"), ("interrupted", "true")]
    {
        assert_eq!(details.get(name).unwrap().as_str(), value);
    }
    assert!(details.get("began_at").is_some());
    log.close().await.unwrap();
    assert_eq!(tools(&copy.open().await).await.len(), 2, "it is recorded once");
}
