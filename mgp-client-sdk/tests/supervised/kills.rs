//! Tests of a real child process that is killed at any moment: it must be restarted, and no process or resource may
//! remain.
//!
//! `KILLS` in the environment sets the number of kills. Default: 40.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mgp_client_sdk::{Client, StateReport, SupervisedClient, ToolResult};
use mgp_testkit::{Random, example, process_memory};
use mgp_transport::ChildCommand;
use mgp_types::mgp::{RestartPolicy, ServerState, ShutdownReason};
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, sleep, timeout};

use crate::world::{WAIT_TIMEOUT, quick, stat};

const KILLS: u32 = 40;

/// The environment variable that is set in the process that kills servers. This process runs no other test, so all its
/// children and descriptors count.
const ROLE: &str = "MGP_SUPERVISED_KILLS";

/// The environment variable that marks the child and every process that it starts, so that the test finds all of them.
const MARK: &str = "MGP_SUPERVISED_MARK";

/// The maximum growth of memory over all kills, not counting the first kills.
const GROWTH: u64 = 8 << 20;

#[test]
fn a_child_killed_at_any_moment_is_restarted_and_leaves_nothing_behind() {
    let runner = std::env::current_exe().unwrap();
    let outcome = Command::new(runner)
        .args(["--exact", "kills::the_killing", "--nocapture", "--test-threads=1"])
        .env(ROLE, "1")
        .status()
        .unwrap();
    assert!(outcome.success());
}

/// Does nothing unless the test above runs it in a process of its own.
#[test]
fn the_killing() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let kills = std::env::var("KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(kill_and_look(kills));
}

#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The server is killed as soon as its process exists.
    Start,
    /// The server is killed during the handshake, or a little later.
    Handshake,
    /// The server is killed while calls run.
    Call,
    /// The server is killed while it is idle.
    Idle,
}

impl Moment {
    fn of(kill: u32) -> Self {
        [Self::Start, Self::Handshake, Self::Call, Self::Idle][kill as usize % 4]
    }
}

async fn kill_and_look(kills: u32) {
    let mark = format!("{}", std::process::id());
    // In every second run another process shares the server's pipes and group.
    let text = "if [ $(( $$ % 2 )) = 0 ]; then sleep 300 & fi; exec \"$0\"";
    let command = ChildCommand::new("sh")
        .args(["-c", text])
        .arg(example("mgp-server-sdk", "echo"))
        .env(MARK, &mark)
        .term_timeout(Duration::from_millis(500));
    let mut config = quick(10_000);
    config.policy = RestartPolicy::OnFailure;
    // Use a long window, so that all restarts are in one window of the restart limit and their count is exact.
    config.window = Duration::from_hours(1);
    (config.backoff_base, config.backoff_max) = (Duration::ZERO, Duration::from_millis(1));
    let server = Client::builder("test", "1").supervise(command, config).unwrap();
    let mut reports = server.reports();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id()));

    // Run the server once before measuring, so that permanent resources, such as the thread that starts children, exist
    // already.
    server.start().await;
    server.ready().await.unwrap();
    server.stop(ShutdownReason::OperatorRequest).await;
    settle(&mark).await;
    let (descriptors, begun) = (open_descriptors(), Instant::now());
    let (mut settled_memory, mut calls, mut broken) = (memory(), 0, 0);

    server.start().await;
    connecting(&mut reports).await;
    let mut restarts = connecting(&mut reports).await;
    for kill in 0..kills {
        if kill == kills.min(100) {
            settled_memory = memory();
        }
        match Moment::of(kill) {
            Moment::Start => {}
            Moment::Handshake => sleep(Duration::from_micros(random.below(20_000))).await,
            Moment::Idle => {
                ready(&server).await;
                sleep(Duration::from_micros(random.below(3_000))).await;
            }
            Moment::Call => {
                let client = ready(&server).await;
                let calling = tokio::spawn(async move {
                    let mut outcomes = (0, 0);
                    loop {
                        match client.call("echo").arg("message", "hi").await {
                            Ok(result) => assert_eq!(result.to_text(), "hi"),
                            // A call may fail if the server has ended and the next server has not started yet.
                            Err(error) => {
                                assert!([2000, 2002].contains(&error.code().0), "{error}");
                                outcomes.1 += 1;
                                return outcomes;
                            }
                        }
                        outcomes.0 += 1;
                    }
                });
                sleep(Duration::from_micros(random.below(3_000))).await;
                murder(&mark).await;
                let (answered, failed) = timeout(WAIT_TIMEOUT, calling).await.unwrap().unwrap();
                calls += answered;
                broken += failed;
            }
        }
        if !matches!(Moment::of(kill), Moment::Call) {
            murder(&mark).await;
        }
        restarts = connecting(&mut reports).await;
        assert_eq!(restarts, u64::from(kill) + 1, "{:?}", Moment::of(kill));
    }
    let client = ready(&server).await;
    assert_eq!(client.call("echo").arg("message", "hi").await.unwrap().to_text(), "hi");
    drop(client);
    assert_eq!((server.restarts(), restarts), (u64::from(kills), u64::from(kills)));
    server.stop(ShutdownReason::OperatorRequest).await;
    settle(&mark).await;
    let (left, now) = (marked(&mark).len() + zombies(), open_descriptors());
    let growth = memory().saturating_sub(settled_memory);
    println!(
        "{kills} kills in {:.1?}: {} restarts, {left} processes left, descriptors {descriptors} -> {now}, \
         {} KiB more, {calls} calls answered, {broken} broken",
        begun.elapsed(),
        server.restarts(),
        growth >> 10,
    );
    assert!(left == 0 && now <= descriptors, "{left} {now}");
    assert!(growth < GROWTH, "{growth}");
}

async fn ready(server: &SupervisedClient) -> Client {
    timeout(WAIT_TIMEOUT, server.ready()).await.unwrap().unwrap()
}

/// Waits for the next start; returns the number of restarts.
async fn connecting(reports: &mut Receiver<StateReport>) -> u64 {
    let waiting = async {
        loop {
            let report = reports.recv().await.unwrap();
            if report.to == ServerState::Connecting {
                return report.restarts;
            }
        }
    };
    timeout(WAIT_TIMEOUT, waiting).await.unwrap()
}

/// Kills the server as soon as it exists, i.e. the marked process that is a child of this process.
async fn murder(mark: &str) {
    let until = Instant::now() + WAIT_TIMEOUT;
    loop {
        let us = std::process::id();
        let found = marked(mark).into_iter().find(|pid| {
            stat(Path::new(&format!("/proc/{pid}")))
                .is_some_and(|(state, parent)| parent == us && state != 'Z')
        });
        if let Some(pid) = found {
            let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
            assert!(killed.success());
            return;
        }
        assert!(Instant::now() < until, "there is no child to kill");
        tokio::task::yield_now().await;
    }
}

/// Returns the processes with our mark, wherever they are.
fn marked(mark: &str) -> Vec<u32> {
    let mark = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    numbers.filter(is_marked).collect()
}

/// Returns our children that were not reaped.
fn zombies() -> usize {
    let us = std::process::id();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let ours = processes.filter_map(|entry| stat(&entry.path()));
    ours.filter(|(state, parent)| *parent == us && *state == 'Z').count()
}

/// Waits a while for processes that are exiting.
async fn settle(mark: &str) {
    for _ in 0..3000 {
        if marked(mark).is_empty() && zombies() == 0 {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    // Pipes are closed when the tasks that read them end, so give these tasks some time.
    mgp_testkit::sleep_in_parts(Duration::from_millis(500)).await;
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn memory() -> u64 {
    process_memory(std::process::id(), "VmRSS").unwrap()
}
