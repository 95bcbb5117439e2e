//! Standard descriptors on Unix: this module determines their kind, moves them to other numbers, and replaces them.
//!
//! See MGP §2. All checks are done before the descriptors are replaced, so that an attempt that fails because of an
//! unusable descriptor changes nothing. The threads are started afterwards.

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

/// The lowest number for a moved descriptor, above the three standard descriptors.
const ABOVE_STDIO: i32 = 3;

/// Guard that removes `O_NONBLOCK` from a shared description when its last owner is dropped.
pub(super) type NonblockGuard = Option<Arc<RestoreBlocking>>;

pub(super) fn take() -> Result<(StdioReader, StdioWriter), StdioError> {
    let input = StdDescriptor::inspect(stdin()).map_err(StdioError::Stdin)?;
    let output = StdDescriptor::inspect(stdout()).map_err(StdioError::Stdout)?;

    let (moved_input, input_nonblock) =
        input.open(OFlags::RDONLY, None).map_err(StdioError::Stdin)?;
    // If both descriptors are the same socket, they share one description; the half that is
    // dropped last removes the flag.
    let shared = if input.same_file(&output) { input_nonblock.clone() } else { None };
    let (moved_output, output_nonblock) =
        output.open(OFlags::WRONLY, shared).map_err(StdioError::Stdout)?;
    let source = moved_input.into_source().map_err(StdioError::Stdin)?;
    let target = moved_output.into_target().map_err(StdioError::Stdout)?;

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
        StdioReader { input: input_stream, kind: input.kind, _nonblock: input_nonblock },
        StdioWriter { output: output_stream, kind: output.kind, nonblock: output_nonblock },
    ))
}

/// A standard descriptor and its `fstat` result.
struct StdDescriptor {
    fd: BorrowedFd<'static>,
    stat: Stat,
    kind: StdioKind,
}

/// A moved descriptor, ready for its kind of transport.
struct MovedDescriptor {
    fd: OwnedFd,
    kind: StdioKind,
}

enum Source {
    Pipe(pipe::Receiver),
    Socket(UnixStream),
    Blocking(BlockingFile),
}

enum Target {
    Pipe(pipe::Sender),
    Socket(UnixStream),
    Blocking(BlockingFile),
}

pub(super) struct RestoreBlocking {
    fd: OwnedFd,
}

/// A file whose reads and writes block even if another process made it non-blocking.
///
/// Node makes its terminal non-blocking, and shares it with the programs that it starts.
struct BlockingFile(File);

impl StdDescriptor {
    fn inspect(fd: BorrowedFd<'static>) -> io::Result<Self> {
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

    /// Opens the descriptor again, or duplicates it. If `shared` is given, the other half has already set the
    /// non-blocking flag, and `shared` removes the flag later.
    fn open(
        &self,
        access: OFlags,
        shared: NonblockGuard,
    ) -> io::Result<(MovedDescriptor, NonblockGuard)> {
        if self.kind == StdioKind::Pipe
            && let Some(fd) = reopen(self.fd, access)
        {
            return Ok((MovedDescriptor { fd, kind: self.kind }, None));
        }
        let fd = fcntl_dupfd_cloexec(self.fd, ABOVE_STDIO)?;
        let flags = match self.kind {
            StdioKind::Pipe | StdioKind::Socket => match shared {
                Some(flags) => Some(flags),
                None => RestoreBlocking::unblock(&fd)?,
            },
            _ => None,
        };
        Ok((MovedDescriptor { fd, kind: self.kind }, flags))
    }
}

impl MovedDescriptor {
    fn into_source(self) -> io::Result<Source> {
        Ok(match self.kind {
            StdioKind::Pipe => Source::Pipe(pipe::Receiver::from_owned_fd(self.fd)?),
            StdioKind::Socket => Source::Socket(socket(self.fd)?),
            _ => Source::Blocking(BlockingFile(self.fd.into())),
        })
    }

    fn into_target(self) -> io::Result<Target> {
        Ok(match self.kind {
            StdioKind::Pipe => Target::Pipe(pipe::Sender::from_owned_fd(self.fd)?),
            StdioKind::Socket => Target::Socket(socket(self.fd)?),
            _ => Target::Blocking(BlockingFile(self.fd.into())),
        })
    }
}

impl RestoreBlocking {
    /// Makes an open file description non-blocking; returns a guard that reverts this. Returns `None` if the
    /// description was non-blocking before, because it then stays so.
    fn unblock(fd: &OwnedFd) -> io::Result<NonblockGuard> {
        let flags = fcntl_getfl(fd)?;
        if flags.contains(OFlags::NONBLOCK) {
            return Ok(None);
        }
        let guard = Self { fd: fcntl_dupfd_cloexec(fd, ABOVE_STDIO)? };
        fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
        Ok(Some(Arc::new(guard)))
    }
}

impl Drop for RestoreBlocking {
    fn drop(&mut self) {
        // Ignore a failure, because no caller could receive the error.
        if let Ok(flags) = fcntl_getfl(&self.fd) {
            let _ = fcntl_setfl(&self.fd, flags - OFlags::NONBLOCK);
        }
    }
}

impl BlockingFile {
    fn wait(&self, interest: PollFlags) -> io::Result<()> {
        match poll(&mut [PollFd::new(&self.0, interest)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for BlockingFile {
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

impl Write for BlockingFile {
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

/// Opens an anonymous pipe again, which creates a separate file description.
///
/// Returns `None` if that is impossible: on other systems, without `/proc`, or for a pipe that another user created.
/// Named pipes are not opened again, because a new reader would not be notified when all writers have closed the pipe.
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

/// Moves a descriptor to a number above 2 if it has the number of a standard descriptor.
fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= ABOVE_STDIO {
        return Ok(fd);
    }
    Ok(fcntl_dupfd_cloexec(fd, ABOVE_STDIO)?)
}

/// Replaces descriptor 0 by `/dev/null`, and descriptor 1 by stderr.
fn redirect(output: &StdDescriptor) -> io::Result<()> {
    let nothing = above_stdio(open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)?;
    // If the process was started with `2>&1`, stderr is the protocol stream itself, so stray prints are discarded.
    let log = match StdDescriptor::inspect(stderr()) {
        Ok(log) if log.kind == StdioKind::Terminal || !log.same_file(output) => log.fd,
        _ => nothing.as_fd(),
    };
    dup2_stdin(&nothing)?;
    dup2_stdout(log)?;
    Ok(())
}
