//! The thread that starts and reaps every child of this process.
//!
//! See MGP §11. There is only one such thread, because the parent death signal is tied to the thread that forks. It
//! does not belong to a runtime, because it must outlive every runtime. It sleeps in `poll` on a wake-up pipe, to which
//! each request writes, and on the children's pidfds; without pidfds it checks its children every 50 ms. It does not
//! read, write or log for a running child, so such a child cannot block it. It waits only for the start of a program,
//! e.g. from a file system that does not respond.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
#[cfg(target_os = "linux")]
use std::process::Stdio;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mgp_types::Backoff;
#[cfg(target_os = "linux")]
use mgp_types::millis;
use mgp_types::sync::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use super::now;
use super::process::{KeeperHandle, Process, Step};
#[cfg(target_os = "linux")]
use crate::child::Keeper;
use crate::child::{ChildError, Started};

/// The interval at which children without a pidfd are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The time within which a keeper must report the start of its program; usually it takes a few milliseconds.
#[cfg(target_os = "linux")]
const KEEPER_START_TIMEOUT: Duration = Duration::from_secs(10);

const POLL_DELAYS: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));

static SPAWNER: Mutex<Option<Spawner>> = Mutex::new(None);

/// Starts a child on the spawner thread; starts that thread if it is not running.
pub(in crate::child) fn start(
    command: Command,
    term_grace: Duration,
) -> Result<Started, ChildError> {
    let program = command.get_program().to_owned();
    let (reply, answer) = mpsc::sync_channel(1);
    let gone = || ChildError::Spawner(io::ErrorKind::BrokenPipe.into());
    {
        let mut slot = SPAWNER.lock();
        let spawner = match &mut *slot {
            Some(spawner) => spawner,
            slot => slot.insert(Spawner::launch().map_err(ChildError::Spawner)?),
        };
        spawner.requests.send(Request { command, term_grace, reply }).map_err(|_| gone())?;
        spawner.waker.wake();
    }
    let started = answer.recv().map_err(|_| gone())?;
    started.map_err(|source| ChildError::Start { program, source })
}

struct Spawner {
    requests: mpsc::Sender<Request>,
    waker: Arc<Waker>,
}

struct Request {
    command: Command,
    term_grace: Duration,
    reply: mpsc::SyncSender<io::Result<Started>>,
}

/// A pipe that wakes the thread from `poll`; it contains at most one byte.
struct Waker {
    is_woken: AtomicBool,
    writer: PipeWriter,
}

struct Watch {
    process: Arc<Process>,
    /// A descriptor that becomes readable when the child ends; `None` on systems without pidfds.
    pidfd: Option<OwnedFd>,
    /// The time of the next check; `None` while the thread waits for the pidfd instead.
    next_check: Option<Instant>,
    delays: Backoff,
}

impl Spawner {
    fn launch() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let waker = Arc::new(Waker { is_woken: AtomicBool::new(false), writer });
        let (requests, inbox) = mpsc::channel();
        let thread_waker = Arc::clone(&waker);
        thread::Builder::new()
            .name("mgp-spawner".to_owned())
            .spawn(move || run(&inbox, &thread_waker, reader))?;
        Ok(Self { requests, waker })
    }
}

impl Waker {
    fn wake(&self) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // The write cannot block or fail: the pipe contains at most one byte, and its reader lives as long as the
            // thread.
            let _ = (&self.writer).write(&[1]);
        }
    }

    /// Empties the pipe. The thread then sees all requests that were sent before.
    fn reset(&self, reader: &mut PipeReader) {
        let _ = reader.read(&mut [0; 8]);
        self.is_woken.store(false, Ordering::Release);
    }
}

impl Watch {
    fn new(process: Arc<Process>) -> Self {
        let pidfd = pidfd(process.raw_pid());
        let next_check = pidfd.is_none().then(|| now() + POLL_INTERVAL);
        Self { process, pidfd, next_check, delays: POLL_DELAYS }
    }

    /// Checks the child; returns `false` once it has been reaped.
    fn check(&mut self) -> bool {
        match self.process.step() {
            Step::Ended => return false,
            Step::Running => self.next_check = self.pidfd.is_none().then(|| now() + POLL_INTERVAL),
            Step::Emptying => {
                self.next_check = Some(now() + self.delays.next_delay());
            }
        }
        true
    }

    /// Returns the descriptor to poll; `None` after the child has ended, because the descriptor then stays readable.
    fn polled(&self) -> Option<&OwnedFd> {
        self.pidfd.as_ref().filter(|_| self.next_check.is_none())
    }
}

fn run(inbox: &mpsc::Receiver<Request>, waker: &Waker, mut reader: PipeReader) {
    let mut watched: Vec<Watch> = Vec::new();
    loop {
        let ready = wait(&reader, &watched);
        let time = now();
        let mut index = 0;
        watched.retain_mut(|watch| {
            index += 1;
            let ended = ready.get(index).copied().unwrap_or(false);
            let due = watch.next_check.is_some_and(|next_check| next_check <= time);
            if ended || due { watch.check() } else { true }
        });
        if ready.first().copied().unwrap_or(false) {
            waker.reset(&mut reader);
            while let Ok(request) = inbox.try_recv() {
                watched.extend(serve(request).map(Watch::new));
            }
        }
    }
}

/// Sleeps until a source is ready, or the next check is due. Returns which sources are ready: first the wake-up pipe,
/// then each child in order.
fn wait(reader: &PipeReader, watched: &[Watch]) -> Vec<bool> {
    let mut polled = vec![PollFd::new(reader, PollFlags::IN)];
    let mut places = vec![0];
    for (place, watch) in watched.iter().enumerate() {
        if let Some(pidfd) = watch.polled() {
            polled.push(PollFd::new(pidfd, PollFlags::IN));
            places.push(place + 1);
        }
    }
    let next = watched.iter().filter_map(|watch| watch.next_check).min();
    let timeout = next.map(|next| next.saturating_duration_since(now()));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());

    let mut ready = vec![false; watched.len() + 1];
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) => {
            for (poll, place) in polled.iter().zip(places) {
                ready[place] = !poll.revents().is_empty();
            }
        }
        Err(rustix::io::Errno::INTR) => {}
        // `poll` fails if the operating system has no memory left. Check all children then, but pause first.
        Err(_) => {
            thread::sleep(POLL_INTERVAL);
            ready[1..].fill(true);
        }
    }
    ready
}

/// Starts one child, and returns the process that the thread must watch.
fn serve(request: Request) -> Option<Arc<Process>> {
    let Request { command, term_grace, reply } = request;
    let (mut child, keeper) = match spawn(command, term_grace) {
        Ok(spawned) => spawned,
        Err(error) => {
            let _ = reply.send(Err(error));
            return None;
        }
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw)?;
    let (keeper, failed) = match keeper.transpose() {
        Ok(keeper) => (keeper, None),
        Err(error) => (None, Some(error)),
    };
    let process = Arc::new(Process::new(pid, keeper, term_grace));
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let started = match (failed, pipes) {
        (Some(error), _) => Err(error),
        (None, (Some(stdin), Some(stdout), Some(stderr))) => {
            Ok(Started { process: Arc::clone(&process), stdin, stdout, stderr })
        }
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    };
    let usable = started.is_ok();
    if reply.send(started).is_err() || !usable {
        process.kill();
    }
    Some(process)
}

/// A started process and, if it is a keeper, its report about the start of its program.
type Spawned = (Child, Option<io::Result<KeeperHandle>>);

fn spawn(mut command: Command, grace: Duration) -> io::Result<Spawned> {
    #[cfg(target_os = "linux")]
    if let Some(keeper) = Keeper::installed() {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = kept_command(keeper, &command, &theirs, grace);
        command.process_group(0);
        super::pre_exec::prepare(&mut command, Some(&theirs));
        let child = command.spawn()?;
        drop(theirs);
        return Ok((child, Some(read_report(ours))));
    }
    let _ = grace;
    command.process_group(0);
    #[cfg(target_os = "linux")]
    super::pre_exec::prepare(&mut command, None);
    Ok((command.spawn()?, None))
}

/// Returns a command that runs `command` under a keeper. The keeper gets the environment that was built for the child.
#[cfg(target_os = "linux")]
fn kept_command(
    keeper: &Keeper,
    command: &Command,
    socket: &UnixStream,
    grace: Duration,
) -> Command {
    let (program, marker) = keeper.program();
    let mut kept = Command::new(program);
    kept.arg(marker).arg(socket.as_raw_fd().to_string()).arg(millis(grace).to_string());
    kept.arg(command.get_program()).args(command.get_args()).env_clear();
    kept.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        kept.current_dir(folder);
    }
    kept.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    kept
}

/// Reads a keeper's report about the start of its program.
#[cfg(target_os = "linux")]
fn read_report(mut socket: UnixStream) -> io::Result<KeeperHandle> {
    socket.set_read_timeout(Some(KEEPER_START_TIMEOUT))?;
    let mut report = [[0; 4]; 2];
    socket.read_exact(report.as_flattened_mut())?;
    match report.map(i32::from_ne_bytes) {
        [0, error] => Err(io::Error::from_raw_os_error(error)),
        [program, _] => {
            let program = Pid::from_raw(program).ok_or(io::ErrorKind::InvalidData)?;
            Ok(KeeperHandle::new(socket, program))
        }
    }
}

#[cfg(target_os = "linux")]
fn pidfd(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn pidfd(_pid: Pid) -> Option<OwnedFd> {
    None
}
