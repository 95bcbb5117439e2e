//! Tests of the stdio channel with every kind of descriptor (MGP §2, stdio transport).

#![cfg(unix)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use mgp_testkit::until_blocking;
use rustix::fs::{OFlags, fcntl_getfl};

use mgp_testkit::program;

/// A number of bytes that is larger than any pipe, so that both sides have to wait.
const LARGE: usize = 3 << 20;

fn cat() -> Command {
    Command::new(program("stdio_cat"))
}

/// Waits for a child that should end by itself.
fn finish(mut child: Child) -> Output {
    let mut stderr = child.stderr.take().unwrap();
    let log = thread::spawn(move || {
        let mut log = Vec::new();
        stderr.read_to_end(&mut log).unwrap();
        log
    });
    let mut status = None;
    until_blocking("the child ends by itself", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    Output { status: status.unwrap(), stdout: Vec::new(), stderr: log.join().unwrap() }
}

#[track_caller]
fn check_log(log: &[u8], kinds: &str) {
    assert_eq!(String::from_utf8_lossy(log), format!("{kinds}\nstray\n"));
}

/// Sends a line, waits for its answer, then sends a large line and closes the connection.
#[track_caller]
fn converse<W: Write + Send + 'static>(mut to: W, from: impl Read) {
    let mut from = BufReader::new(from);
    let mut line = String::new();
    to.write_all(b"hello\n").unwrap();
    to.flush().unwrap();
    from.read_line(&mut line).unwrap();
    assert_eq!(line, "HELLO\n");

    let sender = thread::spawn(move || {
        to.write_all(&vec![b'x'; LARGE]).unwrap();
        to.write_all(b"\n").unwrap();
        to
    });
    let mut large = Vec::new();
    from.read_until(b'\n', &mut large).unwrap();
    assert_eq!(large.len(), LARGE + 1);
    assert!(large[..LARGE].iter().all(|&byte| byte == b'X'));

    drop(sender.join().unwrap());
    let mut rest = Vec::new();
    from.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "the wire carries {:?}", String::from_utf8_lossy(&rest));
}

#[test]
fn pipes_from_a_rust_parent() {
    let mut child =
        cat().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    converse(child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let output = finish(child);
    assert!(output.status.success());
    check_log(&output.stderr, "stdin=Pipe stdout=Pipe");
}

#[test]
fn two_sockets_as_node_hands_them_over() {
    let (to, stdin) = UnixStream::pair().unwrap();
    let (from, stdout) = UnixStream::pair().unwrap();
    let child = cat()
        .stdin(Stdio::from(OwnedFd::from(stdin)))
        .stdout(Stdio::from(OwnedFd::from(stdout)))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    converse(to, from);
    let output = finish(child);
    assert!(output.status.success());
    check_log(&output.stderr, "stdin=Socket stdout=Socket");
}

/// A stream whose writing half is shut down on drop, for the parent's side of one socket.
struct HalfClose(UnixStream);

impl Write for HalfClose {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.write(buf)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Drop for HalfClose {
    fn drop(&mut self) {
        self.0.shutdown(std::net::Shutdown::Write).unwrap();
    }
}

#[test]
fn one_socket_for_both_directions() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let shared = theirs.try_clone().unwrap();
    let child = cat()
        .stdin(Stdio::from(OwnedFd::from(theirs.try_clone().unwrap())))
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    converse(HalfClose(ours.try_clone().unwrap()), ours);
    let output = finish(child);
    assert!(output.status.success());
    check_log(&output.stderr, "stdin=Socket stdout=Socket");
    assert!(!fcntl_getfl(&shared).unwrap().contains(OFlags::NONBLOCK), "the flag was not restored");
}

#[test]
fn a_shared_pipe_stays_blocking_for_others() {
    let (stdin, mut to) = std::io::pipe().unwrap();
    let (from, stdout) = std::io::pipe().unwrap();
    let (shared_in, shared_out) = (stdin.try_clone().unwrap(), stdout.try_clone().unwrap());
    let child = cat().stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    to.write_all(b"hello\n").unwrap();
    let mut line = String::new();
    BufReader::new(&from).read_line(&mut line).unwrap();
    assert_eq!(line, "HELLO\n");
    if cfg!(target_os = "linux") {
        assert!(!fcntl_getfl(&shared_in).unwrap().contains(OFlags::NONBLOCK));
        assert!(!fcntl_getfl(&shared_out).unwrap().contains(OFlags::NONBLOCK));
    }
    drop(to);
    assert!(finish(child).status.success());
    assert!(!fcntl_getfl(&shared_in).unwrap().contains(OFlags::NONBLOCK));
}

/// Creates an unnamed temporary file.
fn scratch(content: &[u8]) -> File {
    let folder = mgp_testkit::temp_dir();
    let mut options = File::options();
    let mut file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.path().join("scratch"))
        .unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}

#[test]
fn files_on_both_sides() {
    let mut text = vec![b'y'; LARGE];
    text.push(b'\n');
    let stdin = scratch(&text);
    let mut stdout = scratch(b"");
    let child = cat()
        .stdin(stdin)
        .stdout(stdout.try_clone().unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = finish(child);
    assert!(output.status.success());
    check_log(&output.stderr, "stdin=File stdout=File");
    let mut written = Vec::new();
    stdout.rewind().unwrap();
    stdout.read_to_end(&mut written).unwrap();
    text.make_ascii_uppercase();
    assert!(written == text, "{} of {} bytes arrived", written.len(), text.len());
}

#[test]
fn nothing_at_all() {
    let child = cat().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let output = finish(child.unwrap());
    assert!(output.status.success());
    check_log(&output.stderr, "stdin=Device stdout=Device");
}

#[test]
fn stderr_on_the_wire_gets_no_stray_print() {
    let (mut from, stdout) = std::io::pipe().unwrap();
    let status = cat()
        .stdin(scratch(b"hello\n"))
        .stdout(stdout.try_clone().unwrap())
        .stderr(stdout)
        .status()
        .unwrap();
    assert!(status.success());
    let mut wire = String::new();
    from.read_to_string(&mut wire).unwrap();
    assert_eq!(wire, "stdin=File stdout=Pipe\nHELLO\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_whose_reader_never_ends() {
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
    let child = cat()
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ours = File::from(ours);
    let mut from = BufReader::new(ours.try_clone().unwrap());
    let mut line = String::new();
    // The terminal echoes the input before the answer.
    for expected in ["hello\r\n", "HELLO\r\n"] {
        if expected == "hello\r\n" {
            ours.write_all(b"hello\n").unwrap();
        }
        line.clear();
        from.read_line(&mut line).unwrap();
        assert_eq!(line, expected);
    }
    ours.write_all(b"quit\n").unwrap();
    let output = finish(child);
    assert!(output.status.success(), "a blocked reader kept the process alive");
    check_log(&output.stderr, "stdin=Terminal stdout=Terminal");
}

#[test]
fn a_closed_stdout_is_an_error_and_not_a_signal() {
    let mut child =
        cat().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut to = child.stdin.take().unwrap();
    // Try until writing fails: a child that a concurrent test is starting holds a copy of this end of the pipe until it
    // executes its program.
    while to.write_all(b"hello\n").is_ok() {
        thread::sleep(Duration::from_millis(10));
    }
    let output = finish(child);
    assert_eq!(output.status.code(), Some(1), "{:?}", output.status);
}
