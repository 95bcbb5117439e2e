//! Connects commands to the running kernel over its local socket.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use mgp_client_sdk::{Client, Error};
use mgp_discovery::Sources;
use mgp_types::ErrorCode;
use mgp_types::method::KernelReload;
use mgp_types::mgp::KernelReloadParams;
use mgp_types::sync::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::print_note;
use crate::socket_hello::{self, HELLO_TIMEOUT, Hello, HelloReply, Intent, MAX_REPLY_BYTES};
use crate::{lock, operator, prompt, socket, state};

/// The time the client waits beyond the timeout in its request, so that the kernel's own timeout error arrives first.
const REQUEST_MARGIN: Duration = Duration::from_mins(1);

/// The maximum time after a failed request until the client notices that the connection has ended.
const CLOSE_DELAY: Duration = Duration::from_millis(100);

/// The kernel to which this process connected last; `None` if it has connected to no kernel.
static CONNECTED: Mutex<Option<ConnectedKernel>> = Mutex::new(None);

/// A kernel to which this process has connected.
#[derive(Clone, Copy, Debug)]
struct ConnectedKernel {
    pid: u32,
    /// `true` if this process has opened a connection over which it may change something.
    may_change: bool,
}

/// Connects as an operator who only reads.
pub(crate) async fn connect(global: &Global) -> CliResult<Client> {
    open(global, Hello::operator(Intent::Read), None).await
}

/// Connects as an operator who makes changes; asks the user for the passphrase if the kernel requires one.
pub(crate) async fn connect_to_change(global: &Global) -> CliResult<Client> {
    open(global, Hello::operator(Intent::Change), None).await
}

/// Connects like [`connect_to_change`], for requests whose answer can take as long as `timeout`.
pub(crate) async fn connect_with_timeout(global: &Global, timeout: Duration) -> CliResult<Client> {
    open(global, Hello::operator(Intent::Change), Some(timeout)).await
}

/// Checks that this process is allowed to read as an operator: asks the running kernel. If no kernel runs, refuses a
/// process that a server started.
pub(crate) async fn admit_reader(global: &Global) -> CliResult {
    match connect(global).await {
        Ok(client) => {
            client.close().await;
            Ok(())
        }
        Err(failure) if failure.is_no_kernel() => operator::check_place(),
        Err(failure) => Err(failure),
    }
}

/// Checks that this process is allowed to change the state folder: asks the running kernel. If no kernel runs, requires
/// the configured proof.
pub(crate) async fn admit_change(global: &Global) -> CliResult {
    if let Some(client) = admit_and_connect(global).await? {
        client.close().await;
    }
    Ok(())
}

/// Makes the same check as [`admit_change`]; returns the connection to the running kernel, or `None` if no kernel runs.
pub(crate) async fn admit_and_connect(global: &Global) -> CliResult<Option<Client>> {
    match connect_to_change(global).await {
        Ok(client) => Ok(Some(client)),
        Err(failure) if failure.is_no_kernel() => {
            operator::admit_offline(global, [Sources::from_env()]).await?;
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

pub(crate) async fn connect_as(global: &Global, agent: &str) -> CliResult<Client> {
    open(global, Hello::agent(agent), None).await
}

/// Connects like [`connect`]; if no kernel runs, starts one, which ends when nothing has used it for a while.
pub(crate) async fn connect_or_start(global: &Global) -> CliResult<Client> {
    or_start(global, async || connect(global).await).await
}

/// Connects like [`connect_to_change`]; starts a kernel like [`connect_or_start`].
pub(crate) async fn connect_or_start_to_change(global: &Global) -> CliResult<Client> {
    or_start(global, async || connect_to_change(global).await).await
}

/// Connects like [`connect_as`]; starts a kernel like [`connect_or_start`].
pub(crate) async fn connect_or_start_as(global: &Global, agent: &str) -> CliResult<Client> {
    or_start(global, async || connect_as(global, agent).await).await
}

async fn or_start(
    global: &Global,
    connect: impl AsyncFn() -> CliResult<Client>,
) -> CliResult<Client> {
    match connect().await {
        Err(failure) if failure.is_no_kernel() => start_kernel(global).await?,
        connected => return connected,
    }
    connect().await
}

/// Starts a kernel, which ends some time after the last command or host has left.
pub(crate) async fn start_kernel(global: &Global) -> CliResult {
    print_note(
        global,
        "no kernel is running: starting a kernel, which ends when it is no longer used",
    );
    let global = global.clone();
    let started = tokio::task::spawn_blocking(move || crate::shim::start_kernel(&global)).await;
    started.map_err(|error| Failure::failed(error.to_string()))?
}

/// Asks a running kernel to reload its configuration now, instead of at its next check within a second.
pub(crate) async fn reload(global: &Global) {
    // Connect as for a change, because a reload requires the same proof. The person gave it before the command changed
    // the file.
    if let Ok(client) = connect_to_change(global).await {
        reload_over(&client).await;
        client.close().await;
    }
}

/// Sends the reload request of [`reload`] over an open connection.
pub(crate) async fn reload_over(client: &Client) {
    if let Err(error) = client.request::<KernelReload>(&KernelReloadParams::new()).await {
        tracing::debug!(%error, "reload failed");
    }
}

/// Returns `result`, the result of a request that a command repeats for as long as the kernel runs. If the request
/// failed because the kernel has stopped, returns the failure "no kernel is running" instead.
pub(crate) async fn followed<T>(client: &Client, result: CliResult<T>) -> CliResult<T> {
    match result {
        Ok(done) => Ok(done),
        Err(failure) => {
            let has_stopped = tokio::time::timeout(CLOSE_DELAY, client.closed()).await.is_ok();
            Err(if has_stopped { Failure::no_kernel("the kernel has stopped") } else { failure })
        }
    }
}

/// Converts the error of a request into a failure of the command. A kernel that is draining, i.e. finishes its running
/// calls before it stops, refuses requests; it counts as a kernel that does not run.
pub(crate) fn request_failure(error: Error) -> Failure {
    match error.code() {
        ErrorCode::SERVER_DRAINING => Failure::no_kernel("the kernel is stopping"),
        _ => Failure::from(error),
    }
}

/// Returns the failure of a command; if its request failed because the kernel stops or has stopped, the failure reports
/// that, and whether a change was made.
pub(crate) fn explain_stop(global: &Global, failure: Failure) -> Failure {
    let connected = *CONNECTED.lock();
    match (connected, state::folder(global)) {
        (Some(kernel), Ok(folder)) => kernel.explain_stop(&folder, failure),
        _ => failure,
    }
}

impl ConnectedKernel {
    /// Returns the failure of a request to this kernel, which has the lock of `folder` while it runs. If the request
    /// failed because the kernel stops or has stopped, the failure reports that.
    fn explain_stop(self, folder: &Path, failure: Failure) -> Failure {
        let Some(code) = failure.request_code() else { return failure };
        let is_stopping = lock::is_stopping(folder);
        // Another command, or the next kernel, can hold the lock as soon as this kernel has released it.
        let holder = lock::kernel_process(folder).filter(|holder| *holder != self.pid);
        if !is_stopping && holder.is_none() && lock::is_held(folder) {
            return failure;
        }
        let (refused, lost) = if self.may_change {
            ("; the change was not made, try again", ", so a change may or may not have been made")
        } else {
            ("", "")
        };
        match code {
            ErrorCode::SERVER_DRAINING if is_stopping => lock::unserved(folder),
            ErrorCode::SERVER_DRAINING => {
                Failure::no_kernel(format!("the kernel has stopped{refused}"))
            }
            // The client reports the end of the connection with the first code. The kernel answers with the second one
            // if the time for running calls has passed. Keep the text, because other errors can have these codes too.
            ErrorCode::SERVER_NOT_READY | ErrorCode::TIMEOUT => Failure::no_kernel(format!(
                "the kernel stopped before the request ended{lost}: {failure}"
            )),
            _ => failure,
        }
    }
}

/// The first line of a kernel's answer, the bytes that were read after it, and the connection.
pub(crate) struct Greeting {
    pub(crate) line: Vec<u8>,
    rest: Vec<u8>,
    stream: socket::AsyncStream,
}

/// Sends the first line to the user's kernel at a socket; sends the result of `passphrase` if the kernel needs it.
/// Returns `None` if the socket, or the program there, belongs to another user.
pub(crate) async fn greet(
    path: &Path,
    mut hello: Hello<'_>,
    passphrase: impl Fn() -> CliResult<String>,
) -> CliResult<Option<Greeting>> {
    let no_kernel = |error: io::Error| match error.kind() {
        // Report that no answer came. A program has accepted the connection, so "no kernel is running" might be false.
        ErrorKind::TimedOut | ErrorKind::WouldBlock => socket_hello::no_answer(path),
        _ => no_kernel(path.parent().unwrap_or(path)),
    };
    let mut is_asked = false;
    loop {
        let stream = socket::connect_to_own(path).await.map_err(no_kernel)?;
        let Some(mut stream) = stream else { return Ok(None) };
        // Ignore an error: a kernel that refuses the connection does not read, and its reply has the reason.
        let _ = stream.write_all(&hello.line()).await;
        let reply = socket_hello::read_line(&mut stream, MAX_REPLY_BYTES);
        let reply = tokio::time::timeout(HELLO_TIMEOUT, reply).await;
        let reply = reply.map_err(|_| socket_hello::no_answer(path))?;
        let (line, rest) = reply.map_err(no_kernel)?;
        if !HelloReply::is_passphrase_question(&line) || is_asked {
            return Ok(Some(Greeting { line, rest, stream }));
        }
        hello.set_passphrase(passphrase()?);
        is_asked = true;
    }
}

async fn open(global: &Global, hello: Hello<'_>, timeout: Option<Duration>) -> CliResult<Client> {
    let path = socket::path_in(&state::folder(global)?);
    let is_reader = hello.is_reader();
    let greeting = greet(&path, hello, prompt::operator_passphrase).await?;
    let Some(Greeting { line, rest, stream }) = greeting else {
        return Err(Failure::failed(format!(
            "the kernel at `{}` belongs to another user; run mgp as that user, or name another folder with --state DIR",
            path.display()
        )));
    };
    let pid = HelloReply::read(&line, &path)?.pid;
    let (reader, writer) = stream.into_split();
    let reader = std::io::Cursor::new(rest).chain(reader);
    let mut builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"));
    if let Some(timeout) = timeout {
        let timeout = timeout.saturating_add(REQUEST_MARGIN);
        builder = builder.timeout(timeout).max_timeout(timeout);
    }
    let client = builder.connect(reader, writer).await.map_err(|error| match error.code() {
        // Report that no kernel runs: this kernel has ended the connection, because it is stopping.
        ErrorCode::SERVER_NOT_READY | ErrorCode::SERVER_DRAINING => {
            no_kernel(path.parent().unwrap_or(&path))
        }
        _ => Failure::from(error),
    })?;
    let mut connected = CONNECTED.lock();
    let may_change = !is_reader || connected.is_some_and(|kernel| kernel.may_change);
    *connected = Some(ConnectedKernel { pid, may_change });
    Ok(client)
}

fn no_kernel(folder: &Path) -> Failure {
    let listed = std::fs::read_dir(folder);
    if listed.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        return Failure::failed(format!(
            "this user may not read `{}`; name another folder with --state DIR",
            folder.display()
        ));
    }
    if lock::is_held(folder) {
        return lock::unserved(folder);
    }
    Failure::no_kernel(format!(
        "no kernel is running for `{}`; a connected host starts one when it needs it, and `mgp serve --http 127.0.0.1:8900` serves callers over HTTP",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use mgp_types::RpcError;

    use super::*;

    #[test]
    fn a_kernel_that_drains_counts_as_one_that_does_not_run() {
        let failure = |code| request_failure(RpcError::new(code, "refused").into());
        assert!(failure(ErrorCode::SERVER_DRAINING).is_no_kernel());
        assert!(!failure(ErrorCode::INTERNAL_ERROR).is_no_kernel());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_kernel_that_ends_before_the_handshake_counts_as_one_that_does_not_run() {
        let folder = mgp_testkit::temp_dir();
        let listener = tokio::net::UnixListener::bind(socket::path_in(folder.path())).unwrap();
        let kernel = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            socket_hello::read_line(&mut stream, MAX_REPLY_BYTES).await.unwrap();
            stream.write_all(&HelloReply::accepted().line()).await.unwrap();
        };
        let global = Global { state: Some(folder.path().to_owned()), json: false, verbose: 0 };
        let (connected, ()) = tokio::join!(connect(&global), kernel);
        let failure = connected.unwrap_err();
        assert!(failure.is_no_kernel(), "{failure}");
    }
}
