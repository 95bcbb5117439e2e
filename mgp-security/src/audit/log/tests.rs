//! Tests of logs: writing, reading, damage, killed processes and refusals.

mod crash;
mod faults;
mod lines;
mod power;
mod reading;
mod tamper;
mod whole;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_testkit::{TempDir, temp_dir};
use mgp_types::Timestamp;
use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType, RiskLevel};
use mgp_types::service::{
    AuditOutcome, AuditSink as _, Call, CallRecord, Context, Method, Params, Peer, Principal,
    Scope, ScopeKind,
};
use mgp_types::store::Store;

use super::{AuditLog, BadRecord, LogConfig, LogError, LogHead, verify};

/// A directory for the log of one test.
struct Folder {
    dir: PathBuf,
    _guard: TempDir,
}

impl Folder {
    fn new() -> Self {
        let guard = temp_dir();
        Self { dir: guard.path().join("log"), _guard: guard }
    }

    fn config(&self) -> LogConfig {
        LogConfig::new(&self.dir)
    }

    async fn open(&self) -> AuditLog {
        AuditLog::open(self.config(), None).await.unwrap()
    }

    async fn with_log() -> (Self, AuditLog) {
        let folder = Self::new();
        let log = folder.open().await;
        (folder, log)
    }

    fn head(&self) -> LogHead {
        LogHead::beside(&self.dir, "audit").unwrap().unwrap()
    }

    fn verify(&self) -> Result<u64, BadRecord> {
        verify_dir(&self.dir)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn segments(&self) -> Vec<PathBuf> {
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|it| it == "jsonl");
        self.files().into_iter().filter(is_segment).collect()
    }

    /// Returns the lines of all files.
    fn lines(&self) -> Vec<String> {
        let texts = self.segments().into_iter().map(|path| fs::read_to_string(path).unwrap());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

fn verify_dir(dir: &Path) -> Result<u64, BadRecord> {
    let checked = LogHead::beside(dir, "audit")
        .and_then(|head| verify(dir, "audit", &head.ok_or_else(BadRecord::no_head)?));
    checked.map_err(|error| match error {
        LogError::BadRecord(bad) => bad,
        other => panic!("{other}"),
    })
}

fn start(tool: &str, risk: Option<RiskLevel>, logical: Option<&str>) -> CallRecord {
    let principal = Principal::new("acme", "ada").agent("agent.one");
    let mut cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), principal);
    cx.logical = logical.map(Into::into);
    cx.trace = Some("trace-1".into());
    cx.server = Some("files".into());
    let params = format!(r#"{{"name":"{tool}"}}"#);
    let params = Params::split("tools/call", params.into()).unwrap();
    let mut start =
        CallRecord::from_call(&Call::request(Method::of("tools/call"), params, cx)).unwrap();
    start.risk = risk;
    start
}

fn event(id: &str) -> AuditEvent {
    AuditEvent::new(
        Timestamp::from("2026-03-04T05:06:07.089Z"),
        EventType::AccessGranted,
        Actor::new("user", id),
        AuditResult::Success,
    )
}

async fn call(log: &AuditLog, tool: &str, risk: RiskLevel) {
    log.begin(start(tool, Some(risk), None)).await.unwrap().finish(AuditOutcome::Success);
}

async fn tools(log: &AuditLog) -> Vec<(String, String)> {
    let events = log.query(super::AuditQuery::new()).await.unwrap().events;
    let outcome = |event: AuditEvent| {
        let tool = event.target.and_then(|target| target.tool_name).unwrap_or_default();
        (tool, event.result.to_string())
    };
    events.into_iter().map(outcome).collect()
}

fn shared(store: &(impl Store + Clone + 'static)) -> Arc<dyn Store> {
    Arc::new(store.clone())
}
