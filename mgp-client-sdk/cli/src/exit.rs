//! Results of commands and their exit codes: 0 success, 1 refused or failed, 2 invalid usage, 3 no kernel serves.

use std::borrow::Cow;
use std::path::Path;
use std::process::ExitCode;
use std::{fmt, io};

use clap::error::ErrorKind;
use mgp_types::ErrorCode;
use tracing::Level;

use crate::args::Global;
use crate::output::{print_json_error, print_stderr};
use crate::{log, state_option};

/// The result of a command of `mgp`.
pub(crate) type CliResult<T = ()> = Result<T, Failure>;

/// A failed command: its exit code, and one line with the reason and the remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    cause: Cause,
}

/// The causes of failures that some commands handle themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Other,
    StateInUse,
    LogChanged,
    NoAnswer,
    NoServers,
    /// A request failed with this code.
    Request(ErrorCode),
}

impl Failure {
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::with_code(1, message)
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::with_code(2, message)
    }

    pub(crate) fn no_kernel(message: impl fmt::Display) -> Self {
        Self::with_code(3, message)
    }

    /// Creates the failure of a command that needs the state folder while a kernel serves from it.
    pub(crate) fn state_in_use(message: impl fmt::Display) -> Self {
        Self { cause: Cause::StateInUse, ..Self::failed(message) }
    }

    /// Creates the failure of a command that needs the state folder, or its kernel, while the process that has locked
    /// the folder does not serve.
    pub(crate) fn unserved(message: impl fmt::Display) -> Self {
        Self { cause: Cause::StateInUse, ..Self::no_kernel(message) }
    }

    /// Creates the failure of a command that needs the audit log, whose records do not verify.
    pub(crate) fn log_changed(message: impl fmt::Display) -> Self {
        Self { cause: Cause::LogChanged, ..Self::failed(message) }
    }

    /// Creates the failure of a command that waited in vain for the reply of a kernel.
    pub(crate) fn no_answer(message: impl fmt::Display) -> Self {
        Self { cause: Cause::NoAnswer, ..Self::failed(message) }
    }

    /// Creates the failure of a command that read the file of a host and found no member with servers in it.
    pub(crate) fn no_servers(message: impl fmt::Display) -> Self {
        Self { cause: Cause::NoServers, ..Self::failed(message) }
    }

    pub(crate) fn unwritable(file: &Path, error: &io::Error) -> Self {
        let fix = match error.kind() {
            io::ErrorKind::ResourceBusy => "; if it is mounted by itself, mount its folder instead",
            _ => "",
        };
        Self::failed(format!("`{}` cannot be written: {error}{fix}", file.display()))
    }

    /// Creates the failure for a symbolic link to a file that does not exist. A command that writes the file would
    /// replace the link with a regular file.
    pub(crate) fn dangling(link: &Path) -> Self {
        let link = link.display();
        Self::failed(format!(
            "`{link}` is a link to a file that does not exist; create that file, or remove the link"
        ))
    }

    pub(crate) fn with_code(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), cause: Cause::Other }
    }

    /// Creates the result of a command that ends silently and with success, because the reader of its output, e.g.
    /// `head`, no longer reads.
    pub(crate) fn output_closed() -> Self {
        Self::with_code(0, "standard output is closed")
    }

    /// Creates the result of a command that cannot write its output.
    pub(crate) fn unwritten_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::output_closed(),
            // Replace the system's text: it is that of a process that cannot be started, see `NOT_STARTED`.
            io::ErrorKind::WouldBlock => Self::failed(
                "standard output is full and does not block; write it to a file, or add `| cat`",
            ),
            _ => Self::failed(format!("standard output cannot be written: {error}")),
        }
    }

    /// Adds what the command has done before it failed. Removes the cause, so that no caller replaces this text.
    pub(crate) fn after(self, done: impl fmt::Display) -> Self {
        Self::with_code(self.code, format!("{done}: {}", self.message))
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn is_state_in_use(&self) -> bool {
        self.cause == Cause::StateInUse
    }

    pub(crate) fn is_log_changed(&self) -> bool {
        self.cause == Cause::LogChanged
    }

    pub(crate) fn is_no_answer(&self) -> bool {
        self.cause == Cause::NoAnswer
    }

    pub(crate) fn is_no_servers(&self) -> bool {
        self.cause == Cause::NoServers
    }

    pub(crate) fn is_no_kernel(&self) -> bool {
        self.code == 3
    }

    /// Returns the error code of the request that failed; `None` if the cause is not a failed request.
    pub(crate) fn request_code(&self) -> Option<ErrorCode> {
        match self.cause {
            Cause::Request(code) => Some(code),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&explained(&self.message))
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &(dyn std::error::Error + 'static) = &error;
        let request = any.downcast_ref::<mgp_client_sdk::Error>();
        let cause = request.map_or(Cause::Other, |error| Cause::Request(error.code()));
        let text = text_with_cause(&error);
        // Leave out the JSON-RPC code of invalid params and its name, which do not help a person.
        let plain = text.strip_suffix(" (-32602)");
        let plain = plain.map(|text| text.strip_prefix("invalid params: ").unwrap_or(text));
        Self { cause, ..Self::failed(plain.unwrap_or(&text)) }
    }
}

/// The ends of error messages that leave out their cause because agents may read them. In the messages of commands,
/// which operators read, the cause replaces these ends.
const WITHOUT_CAUSE: [&str; 2] =
    ["; the operator must check it", "; see the log of the program that writes it"];

/// Returns the text of an error, with its cause if the text leaves it out and this process knows it.
fn text_with_cause(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let Some((what, _)) = WITHOUT_CAUSE.iter().find_map(|end| text.split_once(end)) else {
        return text;
    };
    let sources = std::iter::successors(error.source(), |source| source.source());
    let is_complete = |cause: &String| !WITHOUT_CAUSE.iter().any(|end| cause.contains(end));
    match sources.map(ToString::to_string).find(is_complete) {
        Some(cause) if cause.starts_with(what) => cause,
        Some(cause) => format!("{what}: {cause}"),
        None => text,
    }
}

/// The error of a command line without a command.
const NO_COMMAND: &str = "no command was given; see --help";

/// Prints help, the version or an error of the command line; returns the exit code. With `--json`, an error is also
/// printed as JSON.
pub(crate) fn print_usage(error: &clap::Error) -> ExitCode {
    let mut options = std::env::args_os().take_while(|argument| argument != "--");
    if error.use_stderr() && options.any(|argument| argument == "--json") {
        let text = error.to_string();
        // Leave out the usage and all lines after it, because they are for people.
        let lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
        let lines = lines.map(str::trim).filter(|line| !line.is_empty());
        let line = lines.collect::<Vec<_>>().join(" ");
        let line = match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                NO_COMMAND
            }
            _ => line.strip_prefix("error: ").unwrap_or(&line),
        };
        print_json_error(2, line);
    }
    if error.kind() == ErrorKind::MissingSubcommand {
        // Do not print the text of clap, because it also lists hidden commands.
        print_stderr(&format!("error: {NO_COMMAND}"));
        return ExitCode::from(2);
    }
    // Ignore an error: printing fails only if the reader of the output no longer reads.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// The system's text if it refuses to start a thread or a process.
const NOT_STARTED: &str = "Resource temporarily unavailable";

/// Texts of the system for a limit that is reached, with the usual cause or the remedy.
const LIMITS: [(&str, &str); 3] = [
    (
        NOT_STARTED,
        "probably the limit of processes and threads is reached: raise it (`ulimit -u`, or that of the container), or end other processes",
    ),
    ("Too many open files", "raise the limit of open files (`ulimit -n`)"),
    ("No space left on device", "free some space on its disk"),
];

/// Adds the usual cause or the remedy to a message with the system's text for a limit that is reached.
fn explained(message: &str) -> Cow<'_, str> {
    let reached = LIMITS.iter().find(|(limit, _)| message.contains(limit));
    // The error of a server that does not start names the limit with `ulimit` already.
    let is_explained = |why: &str| message.contains(why) || message.contains("ulimit");
    match reached {
        Some((_, why)) if !is_explained(why) => format!("{message}; {why}").into(),
        _ => message.into(),
    }
}

/// Replaces the report of a panic by one line if the log is JSON, and if the system refused to start a thread, because
/// libraries panic then.
pub(crate) fn explain_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| match panic.payload_as_str() {
        Some(text) if text.contains(NOT_STARTED) => {
            print_stderr(&format!("mgp: {}", explained(text)));
        }
        text if log::is_json() => {
            let text = text.unwrap_or("the payload is not a text");
            let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
            log::print_json(Level::ERROR, &format!("panic{place}: {text}"));
        }
        _ => usual(panic),
    }));
}

/// Prints a failure, with `--json` also as JSON, and returns the exit code of the command.
pub(crate) fn finish(global: &Global, result: CliResult) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    if failure.code > 0 {
        let message = explained(&failure.message);
        if global.json {
            print_json_error(failure.code, &message);
        }
        if log::is_json() {
            log::print_json(Level::ERROR, &message);
        } else {
            print_stderr(&state_option::add_to(&format!("mgp: {message}")));
        }
    }
    ExitCode::from(failure.code)
}

#[cfg(test)]
mod tests {
    use mgp_types::RpcError;
    use mgp_types::service::AuditError;
    use mgp_types::store::StoreError;

    use super::*;

    #[test]
    fn a_thread_that_the_system_refuses_to_start_is_explained_by_the_limit() {
        let refused =
            "OS can't spawn worker thread: Resource temporarily unavailable (os error 11)";
        assert!(
            explained(refused).starts_with(refused) && explained(refused).contains("ulimit -u")
        );
        assert_eq!(explained("no servers"), "no servers");
    }

    #[test]
    fn a_failure_explains_a_limit_once_also_if_another_process_reports_it_further() {
        let failure = Failure::failed("the file: Too many open files (os error 24)");
        let text = failure.to_string();
        assert!(text.ends_with("(os error 24); raise the limit of open files (`ulimit -n`)"));
        assert_eq!(Failure::failed(&text).to_string(), text);
        let of_server = format!("`x` did not start: {NOT_STARTED}; raise it (`ulimit -u`)");
        assert_eq!(Failure::failed(&of_server).to_string(), of_server);
    }

    #[test]
    fn an_operator_reads_the_cause_that_callers_do_not_get() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let unstored = RpcError::from(StoreError::failed(full()));
        assert!(unstored.message().ends_with("the operator must check it"), "{unstored}");
        let cause = StoreError::failed(full()).to_string();
        let text = Failure::from(unstored).to_string();
        assert_eq!(text, format!("the store cannot be used: {cause}"));
        let text = Failure::from(AuditError::failed(full())).to_string();
        assert_eq!(text, format!("the audit log cannot be written: {}", full()));
        // The error of a kernel has no source.
        let of_kernel = RpcError::internal("x; the operator must check it");
        assert!(Failure::from(of_kernel).to_string().contains("the operator must check it"));
    }
}
