//! The thread that starts and reaps every child of this process.
//!
//! MGP §11. One thread, because the parent death signal is tied to the thread that forks; our own,
//! because it must outlive every runtime. It sleeps in `poll` on a bell (rung for each request)
//! and on the children's pidfds; where there are none it looks at its children every 50 ms. It
//! never reads, writes or logs for a child, so none can hold it up; an exec from a file system that
//! hangs does.
//!
//! *Applies to: outbound.*

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
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use super::now;
use super::process::{Kept, Process, Step};
#[cfg(target_os = "linux")]
use crate::child::Keeper;
use crate::child::{ChildError, Started};

/// How often children without a pidfd are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How long a keeper may take to tell how the start went; it takes a few milliseconds.
#[cfg(target_os = "linux")]
const TELLS: Duration = Duration::from_secs(10);

/// The first and the longest pause between two looks at a group that is being emptied.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

static SPAWNER: Mutex<Option<Spawner>> = Mutex::new(None);

/// Starts a child on the spawner thread, and that thread if it is not there yet.
pub(in crate::child) fn start(
    command: Command,
    term_grace: Duration,
) -> Result<Started, ChildError> {
    let program = command.get_program().to_owned();
    let (reply, answer) = mpsc::sync_channel(1);
    let gone = || ChildError::Spawner(io::ErrorKind::BrokenPipe.into());
    {
        let mut slot = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        let spawner = match &mut *slot {
            Some(spawner) => spawner,
            slot => slot.insert(Spawner::launch().map_err(ChildError::Spawner)?),
        };
        spawner.requests.send(Request { command, term_grace, reply }).map_err(|_| gone())?;
        spawner.bell.ring();
    }
    let started = answer.recv().map_err(|_| gone())?;
    started.map_err(|source| ChildError::Start { program, source })
}

struct Spawner {
    requests: mpsc::Sender<Request>,
    bell: Arc<Bell>,
}

struct Request {
    command: Command,
    term_grace: Duration,
    reply: mpsc::SyncSender<io::Result<Started>>,
}

/// Wakes the thread from `poll`; at most one byte is on its way.
struct Bell {
    rung: AtomicBool,
    sound: PipeWriter,
}

/// A child under watch.
struct Watch {
    process: Arc<Process>,
    /// Becomes readable when the child ends; none where the system has no such thing.
    pidfd: Option<OwnedFd>,
    /// When to look again, if not at the child's end.
    again: Option<Instant>,
    pause: Duration,
}

// === impl Spawner ===

impl Spawner {
    fn launch() -> io::Result<Self> {
        let (heard, sound) = io::pipe()?;
        let bell = Arc::new(Bell { rung: AtomicBool::new(false), sound });
        let (requests, inbox) = mpsc::channel();
        let theirs = Arc::clone(&bell);
        thread::Builder::new()
            .name("mgp-spawner".to_owned())
            .spawn(move || run(&inbox, &theirs, heard))?;
        Ok(Self { requests, bell })
    }
}

// === impl Bell ===

impl Bell {
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // The pipe is as good as empty, and its reader lives as long as the thread.
            let _ = (&self.sound).write(&[1]);
        }
    }

    /// Silences the bell; requests sent before are visible afterwards.
    fn silence(&self, heard: &mut PipeReader) {
        let _ = heard.read(&mut [0; 8]);
        self.rung.store(false, Ordering::Release);
    }
}

// === impl Watch ===

impl Watch {
    fn new(process: Arc<Process>) -> Self {
        let pidfd = pidfd(process.raw_pid());
        let again = pidfd.is_none().then(|| now() + LOOK);
        Self { process, pidfd, again, pause: PAUSES.0 }
    }

    /// Looks at the child; false when it is over.
    fn look(&mut self) -> bool {
        match self.process.step() {
            Step::Over => return false,
            Step::Runs => self.again = self.pidfd.is_none().then(|| now() + LOOK),
            Step::Settles => {
                self.again = Some(now() + self.pause);
                self.pause = (self.pause * 2).min(PAUSES.1);
            }
        }
        true
    }

    /// The descriptor to poll: none once the child has ended, for it stays readable then.
    fn polled(&self) -> Option<&OwnedFd> {
        self.pidfd.as_ref().filter(|_| self.again.is_none())
    }
}

fn run(inbox: &mpsc::Receiver<Request>, bell: &Bell, mut heard: PipeReader) {
    let mut watched: Vec<Watch> = Vec::new();
    loop {
        let ready = wait(&heard, &watched);
        let present = now();
        let mut index = 0;
        watched.retain_mut(|watch| {
            index += 1;
            let ended = ready.get(index).copied().unwrap_or(false);
            let due = watch.again.is_some_and(|again| again <= present);
            if ended || due { watch.look() } else { true }
        });
        if ready.first().copied().unwrap_or(false) {
            bell.silence(&mut heard);
            while let Ok(request) = inbox.try_recv() {
                watched.extend(serve(request).map(Watch::new));
            }
        }
    }
}

/// Sleeps until something happens: the bell first, then a place for each child.
fn wait(heard: &PipeReader, watched: &[Watch]) -> Vec<bool> {
    let mut polled = vec![PollFd::new(heard, PollFlags::IN)];
    let mut places = vec![0];
    for (place, watch) in watched.iter().enumerate() {
        if let Some(pidfd) = watch.polled() {
            polled.push(PollFd::new(pidfd, PollFlags::IN));
            places.push(place + 1);
        }
    }
    let next = watched.iter().filter_map(|watch| watch.again).min();
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
        // Out of memory in the kernel: look at everybody, but not too often.
        Err(_) => {
            thread::sleep(LOOK);
            ready[1..].fill(true);
        }
    }
    ready
}

/// Starts one child and returns what is to be watched.
fn serve(request: Request) -> Option<Arc<Process>> {
    let Request { command, term_grace, reply } = request;
    let (mut child, kept) = match spawn(command, term_grace) {
        Ok(spawned) => spawned,
        Err(error) => {
            let _ = reply.send(Err(error));
            return None;
        }
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw)?;
    let (kept, failed) = match kept.transpose() {
        Ok(kept) => (kept, None),
        Err(error) => (None, Some(error)),
    };
    let process = Arc::new(Process::new(pid, kept, term_grace));
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

/// A process, and what its keeper said of the program if it is one.
type Spawned = (Child, Option<io::Result<Kept>>);

fn spawn(mut command: Command, grace: Duration) -> io::Result<Spawned> {
    #[cfg(target_os = "linux")]
    if let Some(keeper) = Keeper::installed() {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = under(keeper, &command, &theirs, grace);
        command.process_group(0);
        super::pre_exec::prepare(&mut command, Some(&theirs));
        let child = command.spawn()?;
        drop(theirs);
        return Ok((child, Some(hear(ours))));
    }
    let _ = grace;
    command.process_group(0);
    #[cfg(target_os = "linux")]
    super::pre_exec::prepare(&mut command, None);
    Ok((command.spawn()?, None))
}

/// The same command under a keeper; its environment was chosen for the child and is the keeper's as well.
#[cfg(target_os = "linux")]
fn under(keeper: &Keeper, command: &Command, wire: &UnixStream, grace: Duration) -> Command {
    let (program, word) = keeper.program();
    let mut kept = Command::new(program);
    kept.arg(word).arg(wire.as_raw_fd().to_string()).arg(grace.as_millis().to_string());
    kept.arg(command.get_program()).args(command.get_args()).env_clear();
    kept.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        kept.current_dir(folder);
    }
    kept.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    kept
}

/// Hears of a keeper how the start went.
#[cfg(target_os = "linux")]
fn hear(mut wire: UnixStream) -> io::Result<Kept> {
    wire.set_read_timeout(Some(TELLS))?;
    let mut told = [[0; 4]; 2];
    wire.read_exact(told.as_flattened_mut())?;
    match told.map(i32::from_ne_bytes) {
        [0, error] => Err(io::Error::from_raw_os_error(error)),
        [program, _] => {
            let program = Pid::from_raw(program).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Kept::new(wire, program))
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
