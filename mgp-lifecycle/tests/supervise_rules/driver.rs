//! Tests of the task that executes the supervisor's decisions, with servers that misbehave.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_lifecycle::{ReadyLayer, StateHandle, StateReport, SuperviseConfig, Supervised, supervise};
use mgp_types::ErrorCode;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
use tokio::time::{Instant, sleep, timeout};

use super::world::{config, ms, secs};

const OPERATOR: ShutdownReason = ShutdownReason::OperatorRequest;

#[derive(Clone, Copy, Debug)]
enum Behavior {
    /// The server crashes after this time.
    Crashes(Duration),
    /// The server ends with code 0 after this time.
    Ends(Duration),
    /// The server runs until it is stopped.
    Runs,
    /// The server is ready after this time, and then runs.
    Slow(Duration),
    /// The start takes this time. Until it is over, no process can be stopped.
    Late(Duration),
    /// The server is never ready.
    Mute,
    /// The server cannot be started.
    Absent,
    /// The server never finishes starting or stopping.
    Stuck,
    /// The server closes the connection during the handshake, and ends shortly afterwards.
    Hasty,
    /// The server refuses the handshake for a lasting reason, so another start would fail too. It has ended by then.
    Refuses,
    /// The server panics in every method.
    Panics,
}

/// A record of what happened to all servers.
#[derive(Debug, Default)]
struct ServerRecord {
    started: AtomicU64,
    alive: AtomicUsize,
    /// The maximum number of servers that were alive at the same time.
    peak: AtomicUsize,
    killed: AtomicUsize,
    stopped: Mutex<Vec<Option<ShutdownReason>>>,
}

impl ServerRecord {
    fn started(&self) -> u64 {
        self.started.load(Ordering::SeqCst)
    }

    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    fn killed(&self) -> usize {
        self.killed.load(Ordering::SeqCst)
    }
}

struct FakeSpawn {
    behavior: Behavior,
    record: Arc<ServerRecord>,
}

struct Child {
    behavior: Behavior,
    number: u64,
    alive: Arc<AtomicBool>,
    record: Arc<ServerRecord>,
}

impl Spawn for FakeSpawn {
    type Server = Child;

    fn start(&self) -> BoxFuture<'static, Result<Child, SpawnError>> {
        let (behavior, record) = (self.behavior, Arc::clone(&self.record));
        Box::pin(async move {
            let number = record.started.fetch_add(1, Ordering::SeqCst) + 1;
            match behavior {
                Behavior::Absent => return Err(SpawnError::new("no such program")),
                Behavior::Panics if number == 1 => panic!("in start"),
                Behavior::Late(time) => sleep(time).await,
                _ => {}
            }
            let alive = record.alive.fetch_add(1, Ordering::SeqCst) + 1;
            record.peak.fetch_max(alive, Ordering::SeqCst);
            Ok(Child { behavior, number, alive: Arc::new(AtomicBool::new(true)), record })
        })
    }
}

impl Child {
    fn die(alive: &AtomicBool, record: &ServerRecord) -> bool {
        let was = alive.swap(false, Ordering::SeqCst);
        if was {
            record.alive.fetch_sub(1, Ordering::SeqCst);
        }
        was
    }
}

impl Spawned for Child {
    type Client = u64;

    fn ready(&self) -> BoxFuture<'static, Result<u64, SpawnError>> {
        let (behavior, number) = (self.behavior, self.number);
        Box::pin(async move {
            match behavior {
                Behavior::Slow(time) => sleep(time).await,
                Behavior::Mute | Behavior::Stuck => pending().await,
                Behavior::Hasty => return Err(SpawnError::new("the connection was closed")),
                Behavior::Refuses => return Err(SpawnError::new("log in first").permanent()),
                Behavior::Panics if number == 2 => panic!("in ready"),
                _ => {}
            }
            Ok(number)
        })
    }

    fn wait(&self) -> BoxFuture<'static, Exit> {
        let (behavior, number) = (self.behavior, self.number);
        let (alive, record) = (Arc::clone(&self.alive), Arc::clone(&self.record));
        Box::pin(async move {
            let exit = match behavior {
                Behavior::Crashes(time) => {
                    sleep(time).await;
                    Exit::failure("exited with code 1")
                }
                Behavior::Ends(time) => {
                    sleep(time).await;
                    Exit::success("exited with code 0")
                }
                Behavior::Hasty => {
                    sleep(ms(50)).await;
                    Exit::failure("exited with code 3")
                }
                Behavior::Refuses => Exit::failure("exited with code 3"),
                Behavior::Panics if number == 3 => {
                    sleep(secs(1)).await;
                    panic!("in ended");
                }
                Behavior::Panics => {
                    sleep(secs(1)).await;
                    Exit::failure("exited with code 1")
                }
                _ => pending().await,
            };
            Self::die(&alive, &record);
            exit
        })
    }

    fn stop(&self, reason: Option<&ShutdownReason>) -> BoxFuture<'static, ()> {
        self.record.stopped.lock().expect("not poisoned").push(reason.cloned());
        let (behavior, number) = (self.behavior, self.number);
        let (alive, record) = (Arc::clone(&self.alive), Arc::clone(&self.record));
        Box::pin(async move {
            if matches!(behavior, Behavior::Stuck) {
                pending::<()>().await;
            }
            assert!(!matches!(behavior, Behavior::Panics) || number != 4, "in stop");
            sleep(ms(10)).await;
            Self::die(&alive, &record);
        })
    }

    fn kill(&self) {
        if Self::die(&self.alive, &self.record) {
            self.record.killed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        Self::die(&self.alive, &self.record);
    }
}

fn begin(behavior: Behavior, config: SuperviseConfig) -> (Supervised<u64>, Arc<ServerRecord>) {
    let record = Arc::new(ServerRecord::default());
    let spawn = FakeSpawn { behavior, record: Arc::clone(&record) };
    (supervise(spawn, config, StateHandle::new(ServerState::Registered)), record)
}

/// Sleeps for a moment, so that all spawned tasks run until they wait.
async fn run_tasks() {
    sleep(ms(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_ends_after_five_restarts_with_exact_counts() {
    let (server, record) = begin(Behavior::Crashes(secs(2)), SuperviseConfig::default());
    let mut reports = server.reports();
    let mut changes = server.state().changes();
    let begun = Instant::now();
    server.start().await;
    let rest = server.ended().await;
    assert_eq!((rest.state.clone(), rest.restarts, record.started()), (ServerState::Error, 5, 6));
    // Six runs of 2 s each, and waits of 1 to 16 s, each shortened by at most a quarter.
    let took = begun.elapsed();
    assert!((secs(35)..secs(44)).contains(&took), "{took:?}");
    assert_eq!((record.alive(), record.peak.load(Ordering::SeqCst), record.killed()), (0, 1, 0));

    let (mut words, mut last): (Vec<_>, Option<StateReport>) = (Vec::new(), None);
    while let Ok(report) = reports.try_recv() {
        let change = changes.try_recv().unwrap();
        assert_eq!((&change.from, &change.to, &change.at), (&report.from, &report.to, &report.at));
        // A restart is counted when the start begins, so count the changes to `connecting`.
        let starts = words.iter().filter(|word| *word == "connecting").count();
        let starts = starts + usize::from(report.to == ServerState::Connecting);
        assert_eq!(usize::try_from(report.restarts).unwrap() + 1, starts);
        words.push(report.to.to_string());
        assert_eq!(report.limit.is_some(), report.reason.starts_with("restart_limit_exceeded"));
        last = Some(report);
    }
    let cycle = ["connecting", "connected", "error", "restarting"];
    let path: Vec<_> = (0..6).flat_map(|_| cycle).take(23).collect();
    assert_eq!(words, path);
    let last = last.unwrap();
    assert_eq!((last.restarts, last.limit, last.reason), (5, rest.limit, rest.reason));
    // The server rests only when the last stop is complete, 10 ms after the last report.
    assert!(last.elapsed.abs_diff(took) < ms(100), "{:?} of {took:?}", last.elapsed);
}

#[tokio::test(start_paused = true)]
async fn the_client_is_available_before_the_state_is_connected() {
    let (server, _book) = begin(Behavior::Crashes(secs(100)), SuperviseConfig::default());
    let mut state = server.state().watch();
    let watched = server.clone();
    let watcher = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.len() < 3 {
            state.wait_for(|state| *state == ServerState::Connected).await.unwrap();
            seen.push(watched.client().expect("connected, so there is a client"));
            state.wait_for(|state| *state != ServerState::Connected).await.unwrap();
            run_tasks().await;
            assert_eq!(watched.client(), None);
        }
        seen
    });
    server.start().await;
    assert_eq!(watcher.await.unwrap(), [1, 2, 3]);
    assert_eq!(server.ready().await.unwrap(), 4);
    assert_eq!(server.current().borrow().as_ref().map(|live| live.run), Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_until_all_processes_have_ended() {
    let (server, record) = begin(Behavior::Runs, config("always"));
    server.start().await;
    server.ready().await.unwrap();
    server.stop(OPERATOR).await;
    assert_eq!((record.alive(), server.state().get()), (0, ServerState::Disconnected));
    assert_eq!(*record.stopped.lock().unwrap(), [Some(OPERATOR)]);
    let rest = server.ended().await;
    assert_eq!((&*rest.reason, rest.limit), ("operator_request", None));
    assert_eq!(server.ready().await.unwrap_err(), rest);
    // A stopped server can be started again.
    server.start().await;
    assert_eq!(server.ready().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_hangs_times_out_and_kills() {
    let mut short = SuperviseConfig::default();
    short.stop_timeout = secs(5);
    let (server, record) = begin(Behavior::Stuck, short);
    server.start().await;
    run_tasks().await;
    assert_eq!(record.alive(), 1);
    let begun = Instant::now();
    server.stop(OPERATOR).await;
    assert!((secs(5)..secs(6)).contains(&begun.elapsed()));
    assert_eq!((record.alive(), record.killed()), (0, 1));
    assert_eq!(server.ended().await.state, ServerState::Disconnected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_never_ready_is_stopped_each_time() {
    let (server, record) = begin(Behavior::Mute, SuperviseConfig::default());
    server.start().await;
    let rest = server.ready().await.unwrap_err();
    assert_eq!((rest.state, record.started(), record.alive()), (ServerState::Error, 6, 0));
    assert!(rest.reason.ends_with("not ready within 120 s"), "{}", rest.reason);
    assert_eq!(record.stopped.lock().unwrap().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_there_is_anything_to_stop_ends_the_start() {
    let (server, record) = begin(Behavior::Late(secs(3)), SuperviseConfig::default());
    server.start().await;
    sleep(secs(1)).await;
    server.stop(OPERATOR).await;
    assert_eq!(server.ended().await.state, ServerState::Disconnected);
    sleep(secs(10)).await;
    assert_eq!((record.started(), record.alive(), record.peak.load(Ordering::SeqCst)), (1, 0, 0));
    server.start().await;
    assert_eq!(server.ready().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_gets_its_time() {
    let (server, record) = begin(Behavior::Slow(secs(29)), SuperviseConfig::default());
    server.start().await;
    assert_eq!(server.state().get(), ServerState::Connecting);
    assert_eq!(server.ready().await.unwrap(), 1);
    sleep(secs(1000)).await;
    assert_eq!((server.state().get(), record.started()), (ServerState::Connected, 1));
}

#[tokio::test(start_paused = true)]
async fn a_missing_program_ends_in_error() {
    let (server, record) = begin(Behavior::Absent, config("never"));
    server.start().await;
    let rest = server.ended().await;
    assert_eq!(&*rest.reason, "the server did not start: no such program");
    assert_eq!((rest.state, record.started()), (ServerState::Error, 1));
}

#[tokio::test(start_paused = true)]
async fn an_exit_is_reported_instead_of_a_broken_handshake() {
    let (server, _book) = begin(Behavior::Hasty, config("never"));
    server.start().await;
    assert_eq!(&*server.ended().await.reason, "exited with code 3 before it was ready");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_a_restart_cannot_correct_is_reported_instead_of_the_exit() {
    let (server, record) = begin(Behavior::Refuses, config("on_failure"));
    server.start().await;
    let rest = server.ended().await;
    assert_eq!(&*rest.reason, "the server did not start: log in first");
    assert_eq!((rest.state, record.started()), (ServerState::Error, 1));
}

#[tokio::test(start_paused = true)]
async fn the_policy_always_restarts_a_server_that_succeeded() {
    let (server, record) = begin(Behavior::Ends(secs(400)), config("always"));
    server.start().await;
    sleep(secs(4500)).await;
    assert_eq!((record.started(), server.restarts()), (12, 11));
    let (server, record) = begin(Behavior::Ends(secs(1)), config("on_failure"));
    server.start().await;
    assert_eq!(server.ended().await.state, ServerState::Disconnected);
    assert_eq!(record.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_requested_restart_happens_once_and_never_two_servers_run_at_once() {
    let (server, record) = begin(Behavior::Slow(secs(3)), SuperviseConfig::default());
    server.start().await;
    server.restart().await;
    server.restart().await;
    server.restart().await;
    assert_eq!(server.ready().await.unwrap(), 2);
    for number in 3..20 {
        server.restart().await;
        assert_eq!(server.ready().await.unwrap(), number);
    }
    assert_eq!(record.peak.load(Ordering::SeqCst), 1);
    assert_eq!(server.restarts(), 18);
}

#[tokio::test(start_paused = true)]
async fn a_health_report_affects_only_its_incarnation() {
    let (server, record) = begin(Behavior::Runs, SuperviseConfig::default());
    server.start().await;
    server.ready().await.unwrap();
    server.unhealthy(1, "three pings unanswered").await;
    assert_eq!(server.state().get(), ServerState::Restarting);
    assert_eq!(server.ready().await.unwrap(), 2);
    server.unhealthy(1, "three pings unanswered").await;
    server.reported_unhealthy(1, "no database").await;
    sleep(secs(100)).await;
    assert_eq!((server.state().get(), record.started()), (ServerState::Connected, 2));
    server.reported_unhealthy(2, "no database").await;
    assert!(server.state().get() == ServerState::Draining && server.is_restart_decided());
    assert_eq!(server.ready().await.unwrap(), 3);
    server.stop(OPERATOR).await;
    let stopped = [None, Some(ShutdownReason::ResourceLimit), Some(OPERATOR)];
    assert_eq!(*record.stopped.lock().unwrap(), stopped);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_while_draining_is_retryable_only_if_the_policy_starts_the_server_again() {
    for (policy, is_retryable) in [("never", false), ("on_failure", true), ("always", true)] {
        let (server, _record) = begin(Behavior::Runs, config(policy));
        server.start().await;
        server.ready().await.unwrap();
        server.reported_unhealthy(1, "unhealthy: no database").await;
        let error = ReadyLayer::new(server.state().clone()).check().unwrap_err();
        assert_eq!(error.code(), ErrorCode::SERVER_DRAINING, "{policy}");
        assert_eq!(error.as_recovery().unwrap().is_retryable(), is_retryable, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_handles_is_stopped() {
    let (server, record) = begin(Behavior::Runs, config("always"));
    let mut reports = server.reports();
    let other = server.clone();
    server.start().await;
    server.ready().await.unwrap();
    drop(server);
    sleep(secs(10)).await;
    assert_eq!(record.alive(), 1, "there is another handle");
    drop(other);
    let mut last = None;
    while let Ok(report) = reports.recv().await {
        last = Some(report.to);
    }
    assert_eq!(last, Some(ServerState::Disconnected));
    assert_eq!((record.alive(), record.killed()), (0, 0));
    assert_eq!(*record.stopped.lock().unwrap(), [Some(ShutdownReason::KernelShutdown)]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_without_handles_ends() {
    let (server, record) = begin(Behavior::Crashes(secs(1)), config("always"));
    let mut reports = server.reports();
    server.start().await;
    sleep(ms(1100)).await;
    assert_eq!(server.state().get(), ServerState::Restarting);
    drop(server);
    while reports.recv().await.is_ok() {}
    sleep(secs(100)).await;
    assert_eq!((record.started(), record.alive()), (1, 0));
}

#[test]
fn a_runtime_that_stops_takes_the_server_with_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, record) = runtime.block_on(async {
        let (server, record) = begin(Behavior::Runs, SuperviseConfig::default());
        server.start().await;
        server.ready().await.unwrap();
        (server, record)
    });
    assert_eq!(record.alive(), 1);
    drop(runtime);
    assert_eq!((record.alive(), record.killed()), (0, 1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rest = runtime.block_on(async {
        server.start().await;
        server.stop(OPERATOR).await;
        assert!(server.ready().await.is_err());
        server.ended().await
    });
    assert_eq!(&*rest.reason, "its runtime was shut down");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_panics_has_failed() {
    let (server, record) = begin(Behavior::Panics, SuperviseConfig::default());
    let mut reports = server.reports();
    server.start().await;
    let rest = server.ended().await;
    assert_eq!((rest.state, record.started(), record.alive()), (ServerState::Error, 6, 0));
    let mut failures = Vec::new();
    while let Ok(report) = reports.try_recv() {
        if report.to == ServerState::Error {
            failures.push(report.reason.to_string());
        }
    }
    assert_eq!(failures[0], "the server did not start: starting it panicked");
    assert_eq!(failures[1], "the server did not start: the handshake panicked");
    assert_eq!(failures[2], "waiting for its end panicked");
    assert_eq!(failures[3], "exited with code 1");
}

#[tokio::test(start_paused = true)]
async fn a_running_state_of_an_earlier_supervisor_is_brought_to_rest() {
    for (before, rests) in [
        (ServerState::Connected, ServerState::Disconnected),
        (ServerState::Restarting, ServerState::Error),
        (ServerState::Error, ServerState::Error),
    ] {
        let spawn = FakeSpawn { behavior: Behavior::Runs, record: Arc::default() };
        let server = supervise(spawn, SuperviseConfig::default(), StateHandle::new(before));
        assert_eq!(server.state().get(), rests);
        server.start().await;
        assert_eq!(server.ready().await.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_has_no_effect() {
    let (server, record) = begin(Behavior::Slow(secs(3)), SuperviseConfig::default());
    drop(server.start());
    assert_eq!(record.started(), 0);
    server.start().await;
    assert!(timeout(secs(1), server.ready()).await.is_err());
    assert_eq!(server.ready().await.unwrap(), 1);
    assert!(timeout(ms(1), server.stop(OPERATOR)).await.is_err());
    assert_eq!(server.ended().await.state, ServerState::Disconnected);
}
