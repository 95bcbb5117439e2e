//! The task: it does what the supervisor decides, with servers that behave badly.
//!
//! Applies to: outbound.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_lifecycle::{Report, State, SuperviseConfig, Supervised, supervise};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
use tokio::time::{Instant, sleep, timeout};

use super::world::{config, ms, secs};

const OPERATOR: ShutdownReason = ShutdownReason::OperatorRequest;

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Crashes after some time.
    Crashes(Duration),
    /// Ends with code 0 after some time.
    Ends(Duration),
    /// Runs until it is stopped.
    Runs,
    /// Needs some time to be ready, then runs.
    Slow(Duration),
    /// Needs some time until there is something to stop.
    Late(Duration),
    /// Is never ready.
    Mute,
    /// Cannot be started.
    Absent,
    /// Takes for ever to start, and to stop.
    Stuck,
    /// Closes the connection in the handshake, and ends a moment later.
    Hasty,
    /// Panics wherever it can.
    Panics,
}

/// What became of all servers.
#[derive(Debug, Default)]
struct Book {
    started: AtomicU64,
    alive: AtomicUsize,
    /// The most that were alive at once.
    peak: AtomicUsize,
    killed: AtomicUsize,
    stopped: Mutex<Vec<Option<ShutdownReason>>>,
}

impl Book {
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

struct Fake {
    manner: Manner,
    book: Arc<Book>,
}

struct Child {
    manner: Manner,
    number: u64,
    alive: Arc<AtomicBool>,
    book: Arc<Book>,
}

impl Spawn for Fake {
    type Server = Child;

    fn start(&self) -> BoxFuture<'static, Result<Child, SpawnError>> {
        let (manner, book) = (self.manner, Arc::clone(&self.book));
        Box::pin(async move {
            let number = book.started.fetch_add(1, Ordering::SeqCst) + 1;
            match manner {
                Manner::Absent => return Err(SpawnError::new("no such program")),
                Manner::Panics if number == 1 => panic!("in start"),
                Manner::Late(time) => sleep(time).await,
                _ => {}
            }
            let alive = book.alive.fetch_add(1, Ordering::SeqCst) + 1;
            book.peak.fetch_max(alive, Ordering::SeqCst);
            Ok(Child { manner, number, alive: Arc::new(AtomicBool::new(true)), book })
        })
    }
}

impl Child {
    fn die(alive: &AtomicBool, book: &Book) -> bool {
        let was = alive.swap(false, Ordering::SeqCst);
        if was {
            book.alive.fetch_sub(1, Ordering::SeqCst);
        }
        was
    }
}

impl Spawned for Child {
    type Client = u64;

    fn ready(&self) -> BoxFuture<'static, Result<u64, SpawnError>> {
        let (manner, number) = (self.manner, self.number);
        Box::pin(async move {
            match manner {
                Manner::Slow(time) => sleep(time).await,
                Manner::Mute | Manner::Stuck => pending().await,
                Manner::Hasty => return Err(SpawnError::new("the connection was closed")),
                Manner::Panics if number == 2 => panic!("in ready"),
                _ => {}
            }
            Ok(number)
        })
    }

    fn ended(&self) -> BoxFuture<'static, Exit> {
        let (manner, number) = (self.manner, self.number);
        let (alive, book) = (Arc::clone(&self.alive), Arc::clone(&self.book));
        Box::pin(async move {
            let exit = match manner {
                Manner::Crashes(time) => {
                    sleep(time).await;
                    Exit::failure("exited with code 1")
                }
                Manner::Ends(time) => {
                    sleep(time).await;
                    Exit::success("exited with code 0")
                }
                Manner::Hasty => {
                    sleep(ms(50)).await;
                    Exit::failure("exited with code 3")
                }
                Manner::Panics if number == 3 => {
                    sleep(secs(1)).await;
                    panic!("in ended");
                }
                Manner::Panics => {
                    sleep(secs(1)).await;
                    Exit::failure("exited with code 1")
                }
                _ => pending().await,
            };
            Self::die(&alive, &book);
            exit
        })
    }

    fn stop(&self, reason: Option<&ShutdownReason>) -> BoxFuture<'static, ()> {
        self.book.stopped.lock().expect("nobody panics with it").push(reason.cloned());
        let (manner, number) = (self.manner, self.number);
        let (alive, book) = (Arc::clone(&self.alive), Arc::clone(&self.book));
        Box::pin(async move {
            if matches!(manner, Manner::Stuck) {
                pending::<()>().await;
            }
            assert!(!matches!(manner, Manner::Panics) || number != 4, "in stop");
            sleep(ms(10)).await;
            Self::die(&alive, &book);
        })
    }

    fn kill(&self) {
        if Self::die(&self.alive, &self.book) {
            self.book.killed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        Self::die(&self.alive, &self.book);
    }
}

fn begin(manner: Manner, config: SuperviseConfig) -> (Supervised<u64>, Arc<Book>) {
    let book = Arc::new(Book::default());
    let spawn = Fake { manner, book: Arc::clone(&book) };
    (supervise(spawn, config, State::new(ServerState::Registered)), book)
}

/// Lets everything happen that takes no time.
async fn settle() {
    sleep(ms(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_ends_after_five_restarts_with_exact_counts() {
    let (server, book) = begin(Manner::Crashes(secs(2)), SuperviseConfig::default());
    let mut reports = server.reports();
    let mut changes = server.state().changes();
    let begun = Instant::now();
    server.start().await;
    let rest = server.ended().await;
    assert_eq!((rest.state.clone(), rest.restarts, book.started()), (ServerState::Error, 5, 6));
    // Six lives of 2 s and waits of 1 to 16 s, a quarter off at most.
    let took = begun.elapsed();
    assert!((secs(35)..secs(44)).contains(&took), "{took:?}");
    assert_eq!((book.alive(), book.peak.load(Ordering::SeqCst), book.killed()), (0, 1, 0));

    let (mut words, mut last): (Vec<_>, Option<Report>) = (Vec::new(), None);
    while let Ok(report) = reports.try_recv() {
        let change = changes.try_recv().unwrap();
        assert_eq!((&change.from, &change.to, &change.at), (&report.from, &report.to, &report.at));
        // Counted once it starts.
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
    // It rests once the last stop is done, 10 ms later.
    assert!(last.elapsed.abs_diff(took) < ms(100), "{:?} of {took:?}", last.elapsed);
}

#[tokio::test(start_paused = true)]
async fn the_client_is_there_before_the_state_says_so() {
    let (server, _book) = begin(Manner::Crashes(secs(100)), SuperviseConfig::default());
    let mut state = server.state().watch();
    let watched = server.clone();
    let watcher = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.len() < 3 {
            state.wait_for(|state| *state == ServerState::Connected).await.unwrap();
            seen.push(watched.client().expect("connected, so there is a client"));
            state.wait_for(|state| *state != ServerState::Connected).await.unwrap();
            settle().await;
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
async fn a_stop_waits_until_all_is_gone() {
    let (server, book) = begin(Manner::Runs, config("always"));
    server.start().await;
    server.ready().await.unwrap();
    server.stop(OPERATOR).await;
    assert_eq!((book.alive(), server.state().now()), (0, ServerState::Disconnected));
    assert_eq!(*book.stopped.lock().unwrap(), [Some(OPERATOR)]);
    let rest = server.ended().await;
    assert_eq!((&*rest.reason, rest.limit), ("operator_request", None));
    assert_eq!(server.ready().await.unwrap_err(), rest);
    // Who was stopped can be started again.
    server.start().await;
    assert_eq!(server.ready().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_hangs_is_bounded_and_ends_by_force() {
    let mut short = SuperviseConfig::default();
    short.stop_timeout = secs(5);
    let (server, book) = begin(Manner::Stuck, short);
    server.start().await;
    settle().await;
    assert_eq!(book.alive(), 1);
    let begun = Instant::now();
    server.stop(OPERATOR).await;
    assert!((secs(5)..secs(6)).contains(&begun.elapsed()));
    assert_eq!((book.alive(), book.killed()), (0, 1));
    assert_eq!(server.ended().await.state, ServerState::Disconnected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_never_ready_is_stopped_each_time() {
    let (server, book) = begin(Manner::Mute, SuperviseConfig::default());
    server.start().await;
    let rest = server.ready().await.unwrap_err();
    assert_eq!((rest.state, book.started(), book.alive()), (ServerState::Error, 6, 0));
    assert!(rest.reason.ends_with("not ready within 30s"), "{}", rest.reason);
    assert_eq!(book.stopped.lock().unwrap().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_there_is_anything_to_stop_ends_the_start() {
    let (server, book) = begin(Manner::Late(secs(3)), SuperviseConfig::default());
    server.start().await;
    sleep(secs(1)).await;
    server.stop(OPERATOR).await;
    assert_eq!(server.ended().await.state, ServerState::Disconnected);
    sleep(secs(10)).await;
    assert_eq!((book.started(), book.alive(), book.peak.load(Ordering::SeqCst)), (1, 0, 0));
    server.start().await;
    assert_eq!(server.ready().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_gets_its_time() {
    let (server, book) = begin(Manner::Slow(secs(29)), SuperviseConfig::default());
    server.start().await;
    assert_eq!(server.state().now(), ServerState::Connecting);
    assert_eq!(server.ready().await.unwrap(), 1);
    sleep(secs(1000)).await;
    assert_eq!((server.state().now(), book.started()), (ServerState::Connected, 1));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_not_there_ends_in_error() {
    let (server, book) = begin(Manner::Absent, config("never"));
    server.start().await;
    let rest = server.ended().await;
    assert_eq!(&*rest.reason, "the server did not start: no such program");
    assert_eq!((rest.state, book.started()), (ServerState::Error, 1));
}

#[tokio::test(start_paused = true)]
async fn an_exit_says_more_than_a_broken_handshake() {
    let (server, _book) = begin(Manner::Hasty, config("never"));
    server.start().await;
    assert_eq!(&*server.ended().await.reason, "exited with code 3 before it was ready");
}

#[tokio::test(start_paused = true)]
async fn always_starts_a_server_again_that_ended_well() {
    let (server, book) = begin(Manner::Ends(secs(400)), config("always"));
    server.start().await;
    sleep(secs(4500)).await;
    assert_eq!((book.started(), server.restarts()), (12, 11));
    let (server, book) = begin(Manner::Ends(secs(1)), config("on_failure"));
    server.start().await;
    assert_eq!(server.ended().await.state, ServerState::Disconnected);
    assert_eq!(book.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn restarts_of_people_come_once_each_and_never_two_servers_at_once() {
    let (server, book) = begin(Manner::Slow(secs(3)), SuperviseConfig::default());
    server.start().await;
    server.restart().await;
    server.restart().await;
    server.restart().await;
    assert_eq!(server.ready().await.unwrap(), 2);
    for number in 3..20 {
        server.restart().await;
        assert_eq!(server.ready().await.unwrap(), number);
    }
    assert_eq!(book.peak.load(Ordering::SeqCst), 1);
    assert_eq!(server.restarts(), 18);
}

#[tokio::test(start_paused = true)]
async fn only_the_incarnation_that_is_unhealthy_is_given_up() {
    let (server, book) = begin(Manner::Runs, SuperviseConfig::default());
    server.start().await;
    server.ready().await.unwrap();
    server.unhealthy(1, "three pings unanswered").await;
    assert_eq!(server.state().now(), ServerState::Restarting);
    assert_eq!(server.ready().await.unwrap(), 2);
    server.unhealthy(1, "three pings unanswered").await;
    sleep(secs(100)).await;
    assert_eq!((server.state().now(), book.started()), (ServerState::Connected, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_handles_is_stopped() {
    let (server, book) = begin(Manner::Runs, config("always"));
    let mut reports = server.reports();
    let other = server.clone();
    server.start().await;
    server.ready().await.unwrap();
    drop(server);
    sleep(secs(10)).await;
    assert_eq!(book.alive(), 1, "there is another handle");
    drop(other);
    let mut last = None;
    while let Ok(report) = reports.recv().await {
        last = Some(report.to);
    }
    assert_eq!(last, Some(ServerState::Disconnected));
    assert_eq!((book.alive(), book.killed()), (0, 0));
    assert_eq!(*book.stopped.lock().unwrap(), [Some(ShutdownReason::KernelShutdown)]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_crash_loops_without_handles_starts_no_more() {
    let (server, book) = begin(Manner::Crashes(secs(1)), config("always"));
    let mut reports = server.reports();
    server.start().await;
    sleep(ms(1100)).await;
    assert_eq!(server.state().now(), ServerState::Restarting);
    drop(server);
    while reports.recv().await.is_ok() {}
    sleep(secs(100)).await;
    assert_eq!((book.started(), book.alive()), (1, 0));
}

#[test]
fn a_runtime_that_goes_takes_the_server_with_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, book) = runtime.block_on(async {
        let (server, book) = begin(Manner::Runs, SuperviseConfig::default());
        server.start().await;
        server.ready().await.unwrap();
        (server, book)
    });
    assert_eq!(book.alive(), 1);
    drop(runtime);
    assert_eq!((book.alive(), book.killed()), (0, 1));
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
async fn a_server_that_panics_is_a_server_that_failed() {
    let (server, book) = begin(Manner::Panics, SuperviseConfig::default());
    let mut reports = server.reports();
    server.start().await;
    let rest = server.ended().await;
    assert_eq!((rest.state, book.started(), book.alive()), (ServerState::Error, 6, 0));
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
async fn a_state_of_before_is_brought_to_rest() {
    for (before, rests) in [
        (ServerState::Connected, ServerState::Disconnected),
        (ServerState::Restarting, ServerState::Error),
        (ServerState::Error, ServerState::Error),
    ] {
        let spawn = Fake { manner: Manner::Runs, book: Arc::default() };
        let server = supervise(spawn, SuperviseConfig::default(), State::new(before));
        assert_eq!(server.state().now(), rests);
        server.start().await;
        assert_eq!(server.ready().await.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn who_leaves_while_waiting_harms_nobody() {
    let (server, book) = begin(Manner::Slow(secs(3)), SuperviseConfig::default());
    drop(server.start());
    assert_eq!(book.started(), 0);
    server.start().await;
    assert!(timeout(secs(1), server.ready()).await.is_err());
    assert_eq!(server.ready().await.unwrap(), 1);
    assert!(timeout(ms(1), server.stop(OPERATOR)).await.is_err());
    assert_eq!(server.ended().await.state, ServerState::Disconnected);
}
