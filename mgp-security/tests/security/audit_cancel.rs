//! Tests that a dangerous call that is cancelled or dies with its process leaves exactly one final record on disk (MGP
//! §6).

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use mgp_security::{
    Approver, AuditLayer, AuditLog, AuditQuery, Decision, Governance, LogConfig, LogHead, Policies,
    Question, ServerPolicy, verify,
};
use mgp_testkit::{ChildTest, TempDir, child_role, report, temp_dir};
use mgp_types::mgp::{
    ApprovalPolicy, AuditEvent, DefaultPolicy, GrantDecision, RiskLevel, Validator,
};
use mgp_types::service::{BoxFuture, Call, CallRecord, Context, Reply, Stack, mock};
use mgp_types::{Payload, RpcError};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tower_layer::Layer as _;

const TOOLS: [&str; 3] = ["wipe", "hang", "wait"];

/// A time that is longer than any step of these tests, but shorter than the time that a log waits for room.
const A_WHILE: Duration = Duration::from_millis(20);

/// A log on disk, and the tools to which the layers pass calls.
struct World {
    folder: TempDir,
    log: AuditLog,
    tools: Tools,
}

#[derive(Clone, Default)]
struct Tools {
    /// The number of calls that reached a tool.
    ran: Arc<AtomicUsize>,
    /// The signal that ends a call of the tool `wait`.
    gate: Arc<Notify>,
}

impl Tools {
    fn stack(&self) -> Stack {
        let tools = self.clone();
        Stack::from_fn(move |call| tools.clone().answer(call))
    }

    async fn answer(self, call: Call) -> Result<Reply, RpcError> {
        let Some(tool) = call.tool().map(|tool| tool.name.to_owned()) else {
            let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#);
            let tools = TOOLS.map(tool).join(",");
            yield_now().await;
            return Ok(Reply::raw(Payload::from_trusted(format!(r#"{{"tools":[{tools}]}}"#))));
        };
        CallRecord::mark_executed(call.cx());
        self.ran.fetch_add(1, Ordering::Relaxed);
        match &*tool {
            "hang" => std::future::pending().await,
            "wait" => self.gate.notified().await,
            _ => {
                for _ in 0..3 {
                    yield_now().await;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        Ok(Reply::empty())
    }
}

/// An approver that confirms after it was polled a few times, or never.
#[derive(Clone, Copy, PartialEq)]
enum Person {
    Slow,
    Asleep,
}

#[async_trait]
impl Approver for Person {
    async fn decide(&self, _: &Context, _: Question) -> Result<Decision, RpcError> {
        let person = *self;
        if person == Self::Asleep {
            std::future::pending::<()>().await;
        }
        for _ in 0..3 {
            yield_now().await;
        }
        Ok(Decision::new(GrantDecision::Approved, "ann"))
    }
}

impl World {
    async fn new(queue: usize) -> Self {
        let folder = temp_dir();
        let log = AuditLog::open(config(folder.path()).queue(queue), None).await.unwrap();
        Self { folder, log, tools: Tools::default() }
    }

    fn governed(&self, approver: impl Approver + 'static) -> Stack {
        governed(&self.log, &self.tools.stack(), approver)
    }

    /// Returns a stack with only the audit layer around the tools.
    fn alone(&self) -> Stack {
        Stack::new(AuditLayer::new(Arc::new(self.log.clone())).layer(self.tools.stack()))
    }

    fn ran(&self) -> usize {
        self.tools.ran.load(Ordering::Relaxed)
    }

    /// Polls a call until its tool has begun.
    async fn polled_until_it_runs(&self, call: &mut (impl Future + Unpin)) {
        let before = self.ran();
        while self.ran() == before {
            assert!(polled(&mut *call, 1).await.is_none());
            yield_now().await;
        }
        assert_eq!(self.ran(), before + 1);
    }

    /// Returns the final record of a call.
    async fn last(&self, trace: &str) -> AuditEvent {
        self.log.flush().await.unwrap();
        last(&self.log, trace).await
    }

    /// Checks that a call has exactly one final record, which records a cancellation.
    async fn is_cancelled(&self, trace: &str) {
        let event = self.last(trace).await;
        assert_eq!(shown(&event), "TOOL_EXECUTED FAILURE cancelled", "{trace}");
    }

    fn end(self) {
        drop(self.log);
        sound(self.folder.path());
    }
}

fn config(folder: &Path) -> LogConfig {
    LogConfig::new(folder.join("log"))
}

/// Returns a stack with all layers around dangerous tools that need only a confirmation.
fn governed(log: &AuditLog, tools: &Stack, approver: impl Approver + 'static) -> Stack {
    let mut policy = ServerPolicy::default();
    policy.default_policy = DefaultPolicy::OptOut;
    policy.permission_policy = ApprovalPolicy::AutoApprove;
    for tool in TOOLS {
        policy.risk.insert(tool.to_owned(), RiskLevel::Dangerous);
        policy.validators.insert(tool.to_owned(), Validator::None);
    }
    let governance = Governance::builder()
        .audit(Arc::new(log.clone()))
        .policies(Policies::with_default(policy))
        .approver(approver)
        .build();
    Stack::new(governance.layer("disk").layer(tools.clone()))
}

fn call(stack: &Stack, tool: &str, trace: &str) -> BoxFuture<'static, Result<Reply, RpcError>> {
    let mut client = mock::client(stack.clone());
    client.cx.trace = Some(trace.to_owned().into());
    client.call("tools/call", &format!(r#"{{"name":"{tool}"}}"#))
}

/// Polls a future a given number of times and drops it; returns its output if it has completed.
async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = times;
    let polled = poll_fn(|task| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(task) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    polled.await
}

/// Returns the final records of all matching calls.
async fn finals(log: &AuditLog, mut query: AuditQuery) -> Vec<AuditEvent> {
    let mut events = Vec::new();
    loop {
        let page = log.query(query.clone()).await.unwrap();
        events.extend(page.events);
        match page.next {
            Some(next) => query = query.after(next),
            None => break,
        }
    }
    events.retain(|event| matches!(event.event_type.as_str(), "TOOL_EXECUTED" | "TOOL_BLOCKED"));
    events
}

async fn last(log: &AuditLog, trace: &str) -> AuditEvent {
    let mut events = finals(log, AuditQuery::new().trace(trace)).await;
    assert_eq!(events.len(), 1, "final records of {trace}: {events:?}");
    events.remove(0)
}

/// Describes a record: its type, its result, and how the call was interrupted.
fn shown(event: &AuditEvent) -> String {
    let details = event.details.as_ref().unwrap();
    let words = ["cancelled", "interrupted"].into_iter().filter(|word| details.get(word).is_some());
    let words: Vec<_> =
        [event.event_type.as_str(), event.result.as_str()].into_iter().chain(words).collect();
    words.join(" ")
}

fn sound(folder: &Path) {
    let dir = folder.join("log");
    verify(&dir, "audit", &LogHead::beside(&dir, "audit").unwrap().unwrap()).unwrap();
}

/// Drops a call after one poll, then another call after two polls, and so on until a call completes. Returns the number
/// of polls of the completed call.
async fn at_every_poll(world: &World, name: &str, stack: impl Fn() -> Stack) -> usize {
    for polls in 0.. {
        let (trace, ran) = (format!("{name}-{polls}"), world.ran());
        if polled(call(&stack(), "wipe", &trace), polls).await.is_some() {
            assert_eq!(shown(&world.last(&trace).await), "TOOL_EXECUTED SUCCESS");
            return polls;
        }
        let cancelled = shown(&world.last(&trace).await);
        // A call that the test dropped before the layers had decided about it did not run.
        let is_held = cancelled == "TOOL_BLOCKED BLOCKED cancelled" && world.ran() == ran;
        assert!(is_held || cancelled == "TOOL_EXECUTED FAILURE cancelled", "{trace}: {cancelled}");
    }
    unreachable!("it completes")
}

#[tokio::test]
async fn a_call_dropped_after_any_number_of_polls_is_recorded() {
    let world = World::new(64).await;
    // In the first run the tools are unknown, so each call also lists them.
    let cold = at_every_poll(&world, "cold", || world.governed(Person::Slow)).await;
    let stack = world.governed(Person::Slow);
    let warm = at_every_poll(&world, "warm", || stack.clone()).await;
    let alone = at_every_poll(&world, "alone", || world.alone()).await;
    // The tool yields four times and the approver three times; the log may accept the call at the first poll.
    assert!(cold >= 8 && warm >= 8 && alone >= 5, "{cold} {warm} {alone}");
    world.end();
}

#[tokio::test]
async fn a_call_dropped_while_the_log_is_full_is_recorded() {
    let world = World::new(2).await;
    for (name, stack) in [("governed", world.governed(Person::Slow)), ("alone", world.alone())] {
        let before = world.ran();
        let mut holds = call(&stack, "wait", &format!("{name}-holds"));
        while world.ran() == before {
            assert!(polled(&mut holds, 1).await.is_none());
            yield_now().await;
        }
        for polls in 0..2 {
            let trace = format!("{name}-waits-{polls}");
            assert!(polled(call(&stack, "wipe", &trace), polls).await.is_none());
            world.is_cancelled(&trace).await;
        }
        let trace = format!("{name}-waits-long");
        let waits = call(&stack, "wipe", &trace);
        assert!(tokio::time::timeout(A_WHILE, waits).await.is_err());
        world.is_cancelled(&trace).await;

        // Drop a call at the moment when room in the log becomes free for it.
        let mut waits = call(&stack, "wipe", &format!("{name}-gets-room"));
        assert!(polled(&mut waits, 1).await.is_none());
        world.tools.gate.notify_one();
        holds.await.unwrap();
        tokio::time::sleep(A_WHILE).await;
        drop(waits);
        world.is_cancelled(&format!("{name}-gets-room")).await;
        assert_eq!(world.ran(), before + 1, "none of those that waited came to its tool");
        assert_eq!(shown(&world.last(&format!("{name}-holds")).await), "TOOL_EXECUTED SUCCESS");
    }
    world.end();
}

#[tokio::test]
async fn a_call_dropped_while_an_approver_is_asked_is_recorded() {
    let world = World::new(64).await;
    let stack = world.governed(Person::Asleep);
    assert!(tokio::time::timeout(A_WHILE, call(&stack, "wipe", "asked")).await.is_err());
    let event = world.last("asked").await;
    assert_eq!(shown(&event), "TOOL_BLOCKED BLOCKED cancelled");
    assert_eq!(world.ran(), 0);
    world.end();
}

#[tokio::test]
async fn a_call_dropped_while_its_tool_runs_or_its_answer_is_ready_is_recorded() {
    let world = World::new(64).await;
    for (name, stack) in [("governed", world.governed(Person::Slow)), ("alone", world.alone())] {
        let trace = format!("{name}-runs");
        let mut runs = call(&stack, "hang", &trace);
        world.polled_until_it_runs(&mut runs).await;
        drop(runs);
        world.is_cancelled(&trace).await;

        let trace = format!("{name}-ready");
        let mut waits = call(&stack, "wait", &trace);
        world.polled_until_it_runs(&mut waits).await;
        world.tools.gate.notify_one();
        drop(waits);
        world.is_cancelled(&trace).await;
        // When the call was dropped, its signal went to the next waiter, so it can be received here.
        world.tools.gate.notified().await;

        // A call whose answer was returned counts as executed, even if nothing reads the answer.
        let trace = format!("{name}-answered");
        drop(call(&stack, "wipe", &trace).await.unwrap());
        assert_eq!(shown(&world.last(&trace).await), "TOOL_EXECUTED SUCCESS");
    }
    world.end();
}

// === processes that die ===

/// An approver that reports its question to the parent process, and never answers.
struct Asked;

#[async_trait]
impl Approver for Asked {
    async fn decide(&self, _: &Context, _: Question) -> Result<Decision, RpcError> {
        report("asked", 0);
        std::future::pending().await
    }
}

/// Runs in the child process that the tests below start. In an ordinary test run, it does nothing.
#[tokio::test]
async fn child() {
    let Some((role, folder)) = child_role() else { return };
    let log = AuditLog::open(config(&folder), None).await.unwrap();
    let tools = Tools::default();
    // Reports the number of each call that reached its tool.
    let reporting = Stack::from_fn(move |call| {
        let number = call.tool().and(call.cx().trace.as_deref()).map(str::to_owned);
        let answer = tools.clone().answer(call);
        async move {
            if let Some(number) = number {
                report("runs", number.parse().unwrap());
            }
            answer.await
        }
    });
    match &*role {
        "asks" => {
            call(&governed(&log, &reporting, Asked), "wipe", "0").await.unwrap();
        }
        "runs" => {
            call(&governed(&log, &reporting, Person::Slow), "hang", "0").await.unwrap();
        }
        from => {
            let stack = governed(&log, &reporting, Person::Slow);
            for number in from.parse::<u64>().unwrap().. {
                call(&stack, "wipe", &number.to_string()).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_call_whose_process_is_killed_is_recorded_when_the_log_is_opened() {
    for (role, word) in [("asks", "asked"), ("runs", "runs")] {
        let folder = temp_dir();
        let mut child = ChildTest::start("audit_cancel::child", role, folder.path());
        child.wait_for(word);
        child.kill();
        // The log is opened twice: the second opening must not record the call again.
        for _ in 0..2 {
            let log = AuditLog::open(config(folder.path()), None).await.unwrap();
            let event = last(&log, "0").await;
            assert_eq!(shown(&event), "TOOL_EXECUTED FAILURE cancelled interrupted", "{role}");
            log.close().await.unwrap();
            sound(folder.path());
        }
    }
}

#[tokio::test]
async fn calls_of_a_process_killed_at_any_time_are_recorded() {
    let folder = temp_dir();
    let (mut next, mut cut) = (0, 0);
    for _ in 0..20 {
        let mut child = ChildTest::start("audit_cancel::child", &next.to_string(), folder.path());
        let first = child.wait_for("runs");
        std::thread::sleep(Duration::from_micros(fastrand::u64(..8_000)));
        let [newest] = child.kill_and_read(["runs"]);
        let newest = newest.unwrap_or(first);
        let log = AuditLog::open(config(folder.path()), None).await.unwrap();
        for number in next..=newest {
            let shown = shown(&last(&log, &number.to_string()).await);
            // After the last call that the child reported, another call may have started. All calls before it are
            // complete.
            let was_cut = shown == "TOOL_EXECUTED FAILURE cancelled interrupted";
            assert!(was_cut || shown == "TOOL_EXECUTED SUCCESS", "{number}: {shown}");
            cut += usize::from(was_cut);
        }
        log.close().await.unwrap();
        sound(folder.path());
        next = newest + 2;
    }
    assert!(cut > 0, "no call was cut short");
}
