//! Standard descriptors on Unix: chosen by type, moved away, replaced.
//!
//! MGP §2 over stdio. Everything that can fail comes before the descriptors are replaced, and the
//! threads start after it, so a failed attempt changes nothing.
//!
//! *Applies to: inbound.*

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::thread::{ThreadReader, ThreadWriter};
use super::{Input, Output, StdioError, StdioKind, StdioReader, StdioWriter};

/// The lowest number a moved descriptor may have: above the three standard ones.
const ABOVE_STDIO: i32 = 3;

/// Takes `O_NONBLOCK` back from shared descriptions, when the last owner is dropped.
pub(super) type Flags = Option<Arc<Restore>>;

pub(super) fn take() -> Result<(StdioReader, StdioWriter), StdioError> {
    let input = Found::look(stdin()).map_err(StdioError::Stdin)?;
    let output = Found::look(stdout()).map_err(StdioError::Stdout)?;

    let (input_end, input_flags) = input.open(OFlags::RDONLY, None).map_err(StdioError::Stdin)?;
    // One socket on both descriptors is one description: the flag goes with the later half.
    let shared = if input.same_file(&output) { input_flags.clone() } else { None };
    let (output_end, output_flags) =
        output.open(OFlags::WRONLY, shared).map_err(StdioError::Stdout)?;
    let source = input_end.into_source().map_err(StdioError::Stdin)?;
    let target = output_end.into_target().map_err(StdioError::Stdout)?;

    redirect(&output).map_err(StdioError::Redirect)?;

    let input_stream = match source {
        Source::Pipe(pipe) => Input::Pipe(pipe),
        Source::Socket(socket) => Input::Socket(socket),
        Source::Blocking(file) => {
            Input::Thread(ThreadReader::start(file).map_err(StdioError::Thread)?)
        }
    };
    let output_stream = match target {
        Target::Pipe(pipe) => Output::Pipe(pipe),
        Target::Socket(socket) => Output::Socket(socket),
        Target::Blocking(file) => {
            Output::Thread(ThreadWriter::start(file).map_err(StdioError::Thread)?)
        }
    };
    Ok((
        StdioReader { input: input_stream, kind: input.kind, _flags: input_flags },
        StdioWriter { output: output_stream, kind: output.kind, flags: output_flags },
    ))
}

/// A standard descriptor and what `fstat` says about it.
struct Found {
    fd: BorrowedFd<'static>,
    stat: Stat,
    kind: StdioKind,
}

/// A descriptor of our own, ready for its kind of transport.
struct End {
    fd: OwnedFd,
    kind: StdioKind,
}

enum Source {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    Blocking(Patient),
}

enum Target {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    Blocking(Patient),
}

/// Clears `O_NONBLOCK` on drop.
pub(super) struct Restore {
    fd: OwnedFd,
}

/// A file that waits even if somebody who shares it made it non-blocking.
///
/// Node does that to the terminal it shares with the programs it starts.
struct Patient(File);

// === impl Found ===

impl Found {
    fn look(fd: BorrowedFd<'static>) -> io::Result<Self> {
        let stat = fstat(fd)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => StdioKind::Pipe,
            FileType::Socket => StdioKind::Socket,
            FileType::RegularFile => StdioKind::File,
            FileType::CharacterDevice if rustix::termios::isatty(fd) => StdioKind::Terminal,
            _ => StdioKind::Device,
        };
        Ok(Self { fd, stat, kind })
    }

    fn same_file(&self, other: &Self) -> bool {
        (self.stat.st_dev, self.stat.st_ino) == (other.stat.st_dev, other.stat.st_ino)
    }

    /// Opens or duplicates the descriptor; `shared` owns its flag already if there is one.
    fn open(&self, access: OFlags, shared: Flags) -> io::Result<(End, Flags)> {
        if self.kind == StdioKind::Pipe
            && let Some(fd) = reopen(self.fd, access)
        {
            return Ok((End { fd, kind: self.kind }, None));
        }
        let fd = fcntl_dupfd_cloexec(self.fd, ABOVE_STDIO)?;
        let flags = match self.kind {
            StdioKind::Pipe | StdioKind::Socket => match shared {
                Some(flags) => Some(flags),
                None => Restore::unblock(&fd)?,
            },
            _ => None,
        };
        Ok((End { fd, kind: self.kind }, flags))
    }
}

// === impl End ===

impl End {
    fn into_source(self) -> io::Result<Source> {
        Ok(match self.kind {
            StdioKind::Pipe => Source::Pipe(pipe::Receiver::from_owned_fd(self.fd)?),
            StdioKind::Socket => Source::Socket(socket(self.fd)?),
            _ => Source::Blocking(Patient(self.fd.into())),
        })
    }

    fn into_target(self) -> io::Result<Target> {
        Ok(match self.kind {
            StdioKind::Pipe => Target::Pipe(pipe::Sender::from_owned_fd(self.fd)?),
            StdioKind::Socket => Target::Socket(socket(self.fd)?),
            _ => Target::Blocking(Patient(self.fd.into())),
        })
    }
}

// === impl Restore ===

impl Restore {
    /// Makes a description non-blocking; none when it already was and so stays.
    fn unblock(fd: &OwnedFd) -> io::Result<Flags> {
        let flags = fcntl_getfl(fd)?;
        if flags.contains(OFlags::NONBLOCK) {
            return Ok(None);
        }
        let guard = Self { fd: fcntl_dupfd_cloexec(fd, ABOVE_STDIO)? };
        fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
        Ok(Some(Arc::new(guard)))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        // Nobody is left to tell if this fails.
        if let Ok(flags) = fcntl_getfl(&self.fd) {
            let _ = fcntl_setfl(&self.fd, flags - OFlags::NONBLOCK);
        }
    }
}

// === impl Patient ===

impl Patient {
    fn wait(&self, interest: PollFlags) -> io::Result<()> {
        match poll(&mut [PollFd::new(&self.0, interest)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for Patient {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN)?;
                }
                done => return done,
            }
        }
    }
}

impl Write for Patient {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT)?;
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

/// Opens an anonymous pipe once more, as a description of our own.
///
/// None when that is impossible: another system, no `/proc`, a pipe made by another user. Named
/// pipes are left alone, because a new reader does not learn that all writers have left.
fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        const PIPEFS: rustix::fs::FsWord = 0x5049_5045;
        if rustix::fs::fstatfs(fd).ok()?.f_type != PIPEFS {
            return None;
        }
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let own = open(path, flags, Mode::empty()).ok()?;
        let (theirs, ours) = (fstat(fd).ok()?, fstat(&own).ok()?);
        if (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino) {
            return None;
        }
        above_stdio(own).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (fd, access);
        None
    }
}

/// Moves a descriptor that filled a gap among the standard ones.
fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= ABOVE_STDIO {
        return Ok(fd);
    }
    Ok(fcntl_dupfd_cloexec(fd, ABOVE_STDIO)?)
}

/// Points descriptor 0 at nothing and descriptor 1 at stderr.
fn redirect(output: &Found) -> io::Result<()> {
    let nothing = above_stdio(open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)?;
    // `2>&1` makes stderr the wire itself; then a stray print goes nowhere.
    let log = match Found::look(stderr()) {
        Ok(log) if log.kind == StdioKind::Terminal || !log.same_file(output) => log.fd,
        _ => nothing.as_fd(),
    };
    dup2_stdin(&nothing)?;
    dup2_stdout(log)?;
    Ok(())
}
