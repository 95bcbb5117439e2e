//! Questions to the person at the terminal, e.g. confirmations and the passphrase.

#[cfg(unix)]
use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::escape_hidden;
use mgp_types::sync::Mutex;

use crate::args::Global;
use crate::exit::{CliResult, Failure};

/// The minimum length, in bytes, of a typed line that counts as cut off. A terminal drops what exceeds its maximum line
/// length: 4,095 bytes on Linux, 1,023 on macOS.
#[cfg(unix)]
const MAX_LINE_BYTES: usize = if cfg!(target_os = "linux") { 4095 } else { 1023 };

/// The character that a terminal sends for Ctrl-C.
#[cfg(unix)]
const INTERRUPT: u8 = 3;

/// The operator's passphrase after the first prompt. A command can connect several times, but should ask only once.
static PASSPHRASE: Mutex<Option<String>> = Mutex::new(None);

/// `true` if this command must not ask for a passphrase.
static NO_PASSPHRASES: AtomicBool = AtomicBool::new(false);

/// Makes this command return an error instead of asking for a passphrase.
pub(crate) fn refuse_passphrases() {
    NO_PASSPHRASES.store(true, Ordering::Relaxed);
}

/// Asks a yes-or-no question whose default is no; returns `None` without a terminal.
///
/// Also returns `None` with `--json`, because a JSON run does not show the text to which the question refers.
pub(crate) fn confirm(global: &Global, question: &str) -> CliResult<Option<bool>> {
    ask(global, question, None)
}

/// Asks like [`confirm`] how the person wants something done that is already confirmed; the end of the input means the
/// default, no.
pub(crate) fn prefer(global: &Global, question: &str) -> CliResult<Option<bool>> {
    ask(global, question, Some(false))
}

/// Asks a yes-or-no question. `at_end` is the answer if the input ends; with `None`, its end is an error.
fn ask(global: &Global, question: &str, at_end: Option<bool>) -> CliResult<Option<bool>> {
    if global.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    write!(io::stderr(), "{} [y/N] ", escape_hidden(question))?;
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        // Begin a new line at the end of the input, e.g. Ctrl-D, because the terminal does not.
        writeln!(io::stderr())?;
        let no_answer = || Failure::failed("nothing was changed: the input ended before an answer");
        return at_end.map(Some).ok_or_else(no_answer);
    }
    let answer = answer.trim().to_ascii_lowercase();
    Ok(Some(matches!(answer.as_str(), "y" | "yes")))
}

/// Asks like [`confirm`], and fails unless the answer is yes: with the message `declined` if the answer is no, and with
/// the usage error `no_terminal` if no person can be asked.
pub(crate) fn require(
    global: &Global,
    question: &str,
    declined: &str,
    no_terminal: &str,
) -> CliResult {
    match confirm(global, question)? {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::failed(declined)),
        None => Err(Failure::usage(no_terminal)),
    }
}

/// Returns whether a person at a terminal can read the output and answer questions.
pub(crate) fn is_interactive(global: &Global) -> bool {
    !global.json
        && io::stdin().is_terminal()
        && io::stderr().is_terminal()
        && io::stdout().is_terminal()
}

/// Discards what the person has typed so far, so that it does not answer a question that is shown only now.
#[cfg(unix)]
pub(crate) fn discard_typed() {
    use rustix::termios::{QueueSelector, tcflush};

    // Ignore an error: this fails only without a terminal, where no person types.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// Discards nothing: on this system, what was typed before stays.
#[cfg(not(unix))]
pub(crate) fn discard_typed() {}

/// Asks a question, and returns the line that the person types, trimmed.
pub(crate) fn line(question: &str) -> CliResult<String> {
    write!(io::stderr(), "{}", escape_hidden(question))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}

/// Returns whether this command has asked for the operator's passphrase.
pub(crate) fn has_passphrase() -> bool {
    PASSPHRASE.lock().is_some()
}

/// Asks for the operator's passphrase, at most once per command.
pub(crate) fn operator_passphrase() -> CliResult<String> {
    operator_passphrase_for("Passphrase of the operator: ")
}

/// Asks like [`operator_passphrase`], with a question that names the kernel.
pub(crate) fn operator_passphrase_for(question: &str) -> CliResult<String> {
    if NO_PASSPHRASES.load(Ordering::Relaxed) {
        return Err(Failure::failed("this command asks for no passphrase"));
    }
    let mut known = PASSPHRASE.lock();
    match &*known {
        Some(passphrase) => Ok(passphrase.clone()),
        None => Ok(known.insert(passphrase(question)?).clone()),
    }
}

/// Asks for a passphrase on the controlling terminal without echo, even if the standard streams are redirected.
#[cfg(unix)]
pub(crate) fn passphrase(question: &str) -> CliResult<String> {
    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

    let no_terminal = |_| {
        Failure::failed(
            "the passphrase of the operator is asked for on a terminal, and there is none; run it in a terminal",
        )
    };
    let mut terminal =
        File::options().read(true).write(true).open("/dev/tty").map_err(no_terminal)?;
    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    // Ctrl-C ends the line instead of the process, so that the echo is turned on again before the process ends.
    hidden.local_modes -= LocalModes::ECHO | LocalModes::ISIG;
    hidden.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let asked = terminal.write_all(question.as_bytes()).and_then(|()| read_secret(&terminal));
    tcsetattr(&terminal, OptionalActions::Now, &shown)?;
    let _ = terminal.write_all(b"\n");
    let Some(mut answer) = asked? else {
        use rustix::process::{Signal, getpid, kill_process};
        kill_process(getpid(), Signal::INT)?;
        return Err(Failure::failed("interrupted"));
    };
    if answer.len() >= MAX_LINE_BYTES {
        return Err(Failure::failed(
            "the text is too long for a terminal; pipe a secret to `mgp secrets set NAME`",
        ));
    }
    // Remove Ctrl-Z and Ctrl-\, which have no effect here and are not a part of the secret.
    answer.retain(|c| !['\u{1a}', '\u{1c}'].contains(&c));
    if answer.is_empty() {
        return Err(Failure::failed("nothing was typed"));
    }
    Ok(answer)
}

#[cfg(not(unix))]
pub(crate) fn passphrase(_: &str) -> CliResult<String> {
    Err(Failure::failed("a passphrase can be asked for on Unix only"))
}

/// Reads a line; returns `None` if it ends with [`INTERRUPT`].
#[cfg(unix)]
fn read_secret(terminal: &File) -> io::Result<Option<String>> {
    use std::io::Read as _;

    let mut line = Vec::new();
    for byte in io::BufReader::new(terminal).take(MAX_LINE_BYTES as u64 + 2).bytes() {
        match byte? {
            INTERRUPT => return Ok(None),
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    let line = String::from_utf8(line)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some(line.trim_end_matches('\r').to_owned()))
}
