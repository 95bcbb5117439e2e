//! Relays lines between a host and a kernel, and moves the session to the next kernel when the kernel exits.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::lines::LineReader;
use super::session::{Forward, Session, is_leaving};
use crate::exit::{CliResult, Failure};
use crate::socket::Stream;
use crate::state_option;

/// The interval at which the relay tries to connect to another kernel after its kernel has ended.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(250);

/// The maximum interval between two attempts to connect after attempts have failed, e.g. because the kernel refuses the
/// connection. The interval grows because the kernel records each refusal.
const MAX_RECONNECT_INTERVAL: Duration = Duration::from_secs(30);

/// The maximum time that a kernel takes to answer the handshake that the relay repeats after the previous kernel has
/// ended.
const OPENING_TIMEOUT: Duration = Duration::from_secs(30);

/// The state that the two threads share. One thread reads from the host, the other from the kernel.
#[derive(Default)]
struct Relay {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct State {
    session: Session,
    /// The connection to the kernel, while there is one.
    kernel: Option<Arc<Stream>>,
    /// `true` while a line of the host waits for a kernel.
    is_wanted: bool,
    /// `true` while the thread that reads from the host waits for a kernel and has lines that are not yet recorded in
    /// `session`.
    has_unrecorded: bool,
    /// `true` if no kernel can be started. The thread that reads from the host then passes its lines to `session`
    /// immediately, so that their requests are answered with an error.
    is_refusing: bool,
    has_host_left: bool,
    /// `true` while lines of the host are being sent to the kernel.
    is_sending: bool,
}

/// Relays lines until the host disconnects.
///
/// `connect` connects to the next kernel. If its argument is `true`, it also starts a kernel if none runs.
pub(super) fn run(
    first: Stream,
    mut connect: impl FnMut(bool) -> CliResult<Option<Stream>>,
) -> CliResult {
    let (input, mut output) = standard_streams()?;
    let relay = Arc::new(Relay::default());
    relay.state().kernel = Some(Arc::new(first.try_clone()?));
    let host = Arc::clone(&relay);
    thread::Builder::new().name("mgp-host".to_owned()).stack_size(128 * 1024).spawn(move || {
        host.read_host(input);
    })?;
    let mut lines = LineReader::new(first);
    loop {
        if relay.read_kernel(&mut lines, &mut output).is_err_and(|error| is_host_gone(&error)) {
            return Ok(());
        }
        let ended = relay.end_kernel();
        let Some(ended) = ended else { return Ok(()) };
        tracing::warn!("the kernel has ended; the next one is used as soon as it serves");
        if output.write_all(&ended).is_err() {
            return Ok(());
        }
        let mut interval = RECONNECT_INTERVAL;
        loop {
            let Some(is_wanted) = relay.wait(interval) else { return Ok(()) };
            let next = connect(is_wanted);
            match next.and_then(|next| next.map_or(Ok(None), |stream| relay.open(stream))) {
                Ok(Some(next)) => {
                    lines = next;
                    break;
                }
                Ok(None) => interval = RECONNECT_INTERVAL,
                // Wait longer before the next attempt, unless the host sends a request, which causes an attempt
                // immediately.
                Err(failure) => {
                    interval = MAX_RECONNECT_INTERVAL.min(interval * 2);
                    tracing::error!(%failure, "no kernel could be started");
                    if output.write_all(&relay.refuse(&failure)).is_err() {
                        return Ok(());
                    }
                }
            }
        }
        let changes = relay.state().session.changes();
        if output.write_all(&changes).is_err() {
            return Ok(());
        }
    }
}

/// Returns the standard input and output as files, which have no buffers of their own.
fn standard_streams() -> io::Result<(File, File)> {
    #[cfg(unix)]
    let (input, output) = {
        use std::os::fd::AsFd as _;
        (io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?)
    };
    #[cfg(windows)]
    let (input, output) = {
        use std::os::windows::io::AsHandle as _;
        let (input, output) = (io::stdin(), io::stdout());
        (input.as_handle().try_clone_to_owned()?, output.as_handle().try_clone_to_owned()?)
    };
    Ok((File::from(input), File::from(output)))
}

/// Returns whether an error shows that the host no longer reads.
fn is_host_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

impl Relay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // === From the host ===

    fn read_host(&self, input: File) {
        let mut lines = LineReader::new(input);
        while let Ok(Some(received)) = lines.next() {
            let Some((kernel, out)) = self.take_from_host(received) else { continue };
            // Ignore an error: if the kernel has ended, the thread that reads from it notices this too.
            let _ = (&*kernel).write_all(out.as_deref().unwrap_or(received));
            self.state().is_sending = false;
            self.changed.notify_all();
        }
        let mut state = self.state();
        state.has_host_left = true;
        self.changed.notify_all();
        if let Some(kernel) = &state.kernel {
            // Close only the sending direction: after the host has closed its side, the kernel still answers open
            // requests.
            let _ = kernel.shutdown(Shutdown::Write);
        }
    }

    /// Waits until a kernel is connected, and records the host's lines for it.
    ///
    /// Returns the kernel. If lines must be rewritten, also returns the lines to send in place of the received lines.
    /// Returns `None` if no kernel can be started.
    fn take_from_host(&self, received: &[u8]) -> Option<(Arc<Stream>, Option<Vec<u8>>)> {
        let mut state = self.state();
        loop {
            if let Some(kernel) = state.kernel.clone() {
                (state.is_sending, state.has_unrecorded) = (true, false);
                return Some((kernel, rewrite(received, |line| state.session.note_host(line))));
            }
            if mem::take(&mut state.is_refusing) {
                let _ = rewrite(received, |line| state.session.note_host(line));
                state.has_unrecorded = false;
                self.changed.notify_all();
                return None;
            }
            (state.is_wanted, state.has_unrecorded) = (true, true);
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    // === From the kernel ===

    fn read_kernel(&self, lines: &mut LineReader<Stream>, output: &mut File) -> io::Result<()> {
        // Treat a broken connection like one that the kernel has closed.
        while let Ok(Some(received)) = lines.next() {
            let out = rewrite(received, |line| self.note_kernel(line));
            output.write_all(out.as_deref().unwrap_or(received))?;
        }
        Ok(())
    }

    /// Records a line of the kernel. If the kernel announces its end, confirms to it that no request follows.
    fn note_kernel(&self, line: &[u8]) -> Forward {
        let mut state = self.state();
        let forward = state.session.note_kernel(line);
        if forward == Forward::Nothing && is_leaving(line) {
            let confirmed = state.session.hold();
            let is_sending = |state: &mut State| state.is_sending;
            let waited = self.changed.wait_while(state, is_sending);
            let state = waited.unwrap_or_else(PoisonError::into_inner);
            if let Some(kernel) = &state.kernel {
                // Ignore an error: if the kernel has ended, the caller notices this.
                let _ = (&**kernel).write_all(&confirmed);
            }
        }
        forward
    }

    /// Records the end of a kernel; returns the messages for the host, or `None` if the host has disconnected.
    fn end_kernel(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        state.kernel = None;
        let lines = (!state.has_host_left).then(|| state.session.end_kernel());
        state.is_wanted |= state.session.has_held();
        lines
    }

    // === Another kernel ===

    /// Waits until a message needs a kernel, at most for `interval`; returns whether a message does, or `None` if the
    /// host has disconnected.
    fn wait(&self, interval: Duration) -> Option<bool> {
        let state = self.state();
        let is_idle = |state: &mut State| !state.is_wanted && !state.has_host_left;
        let waited = self.changed.wait_timeout_while(state, interval, is_idle);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!state.has_host_left).then_some(state.is_wanted)
    }

    /// Returns an error response to each request that waits for a kernel, because no kernel can be started.
    fn refuse(&self, failure: &Failure) -> Vec<u8> {
        let mut state = self.state();
        if state.has_unrecorded {
            state.is_refusing = true;
            self.changed.notify_all();
            let waited = self.changed.wait_while(state, |state| state.is_refusing);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        // If the next line of the host already waits, a kernel is still needed.
        state.is_wanted = state.has_unrecorded;
        state.session.refuse(&state_option::add_to(&format!(
            "mgp does not start: {failure}; correct that and call again; `mgp doctor` checks it"
        )))
    }

    /// Repeats the host's handshake and settings with the next kernel. Returns `None` if that kernel reports during the
    /// handshake that it is about to end. In this case, only the handshake was sent to it.
    fn open(&self, stream: Stream) -> CliResult<Option<LineReader<Stream>>> {
        let mut lines = LineReader::new(stream.try_clone()?);
        let opening = self.state().session.opening();
        if let Some(opening) = opening {
            stream.set_read_timeout(Some(OPENING_TIMEOUT))?;
            (&stream).write_all(&opening)?;
            while self.state().session.is_opening() {
                let Some(received) = lines.next()? else {
                    return Err(Failure::failed("the next kernel ended during the handshake"));
                };
                if received.split_inclusive(|byte| *byte == b'\n').any(is_leaving) {
                    return Ok(None);
                }
                // During the handshake the kernel sends only its response, which the host must not receive a second
                // time.
                let _ = rewrite(received, |line| self.state().session.note_kernel(line));
            }
            stream.set_read_timeout(None)?;
        }
        let settings = self.state().session.settings();
        (&stream).write_all(&settings)?;
        let mut state = self.state();
        (state.kernel, state.is_wanted) = (Some(Arc::new(stream)), false);
        if state.has_host_left
            && let Some(kernel) = &state.kernel
        {
            let _ = kernel.shutdown(Shutdown::Write);
        }
        self.changed.notify_all();
        Ok(Some(lines))
    }
}

/// Returns the lines for the other side, or `None` if all lines are passed on unchanged.
fn rewrite(received: &[u8], mut note: impl FnMut(&[u8]) -> Forward) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let mut done = 0;
    for line in received.split_inclusive(|byte| *byte == b'\n') {
        let before = &received[..done];
        done += line.len();
        match note(line) {
            Forward::AsReceived => {
                if let Some(out) = &mut out {
                    out.extend_from_slice(line);
                }
            }
            Forward::Rewritten(line) => {
                out.get_or_insert_with(|| before.to_vec()).extend(line);
            }
            Forward::Nothing => {
                out.get_or_insert_with(|| before.to_vec());
            }
        }
    }
    out
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;

    use mgp_types::method::{Initialize, Initialized, Notification as _, Request as _, ToolsCall};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_kernel_that_ends_during_the_handshake_leaves_the_requests_to_the_next_one() {
        let relay = Relay::default();
        let note_host = |line: Value| {
            let _ = relay.state().session.note_host(format!("{line}\n").as_bytes());
        };
        note_host(json!({"jsonrpc": "2.0", "id": 1, "method": Initialize::METHOD, "params": {}}));
        note_host(json!({"jsonrpc": "2.0", "method": Initialized::METHOD}));
        let _ = relay.state().session.hold();
        let params = json!({"name": "t"});
        note_host(
            json!({"jsonrpc": "2.0", "id": 2, "method": ToolsCall::METHOD, "params": params}),
        );
        assert!(relay.end_kernel().is_some());

        let (mut kernel, stream) = Stream::pair().unwrap();
        kernel.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"shim/leaving\"}\n").unwrap();
        assert!(relay.open(stream).unwrap().is_none());
        let mut received = String::new();
        kernel.read_to_string(&mut received).unwrap();
        let has = |method: &str| received.contains(method);
        assert!(has(Initialize::METHOD) && !has(ToolsCall::METHOD), "{received}");
        assert!(relay.state().session.has_held());
        assert_eq!(
            relay.wait(RECONNECT_INTERVAL),
            Some(true),
            "a kernel is started for the request"
        );
    }
}
