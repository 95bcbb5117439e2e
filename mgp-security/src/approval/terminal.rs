//! An approver that asks at the terminal of this process (MGP §3.4, §4.4).
//!
//! The approver never uses stdin or stdout, because these can carry the protocol.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::mgp::GrantDecision;
use mgp_types::service::Context;
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::{Mutex, mpsc};

use super::describe::{caller, describe};
use super::{AnswerPlace, Approver, Decision, Question};

/// The size limit for a typed line, in bytes; a longer line counts as empty.
const MAX_LINE: u64 = 256;

/// The maximum number of typed lines in the queue; further lines are dropped.
const MAX_QUEUED_LINES: usize = 16;

/// An approver that asks the person at the terminal of this process, one question at a time.
///
/// Only `yes` with the code of the question approves, e.g. `yes 4f`, so a late answer does not approve another
/// question. A permission is approved for an hour. From the first question on, the approver reads every line typed at
/// the terminal, so other parts of the process must not read from it. Without a terminal, the approver is unavailable.
#[derive(Clone)]
#[must_use]
pub struct TerminalApprover {
    opened: Arc<Mutex<Option<OpenTerminal>>>,
    by: Arc<str>,
}

/// The terminal of this process, once it is open.
struct OpenTerminal {
    screen: Box<dyn Write + Send>,
    lines: mpsc::Receiver<String>,
    /// The count of the questions so far; it starts again at zero after 255.
    question_count: u8,
}

/// A question shown on the screen. If it is dropped without an answer, the screen shows that it was withdrawn.
struct ScreenQuestion<'a> {
    screen: &'a mut (dyn Write + Send),
    answered: AnswerState,
}

/// The state of a question shown on the screen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    Pending,
    Given,
}

impl Drop for ScreenQuestion<'_> {
    fn drop(&mut self) {
        if self.answered == AnswerState::Pending {
            // Ignore the error: the terminal might be closed.
            let _ = write!(self.screen, "\r\nThis question is withdrawn.\r\n");
            let _ = self.screen.flush();
        }
    }
}

impl TerminalApprover {
    /// Creates an approver for the controlling terminal, which is opened for the first question.
    pub fn new() -> Self {
        Self { opened: Arc::default(), by: "terminal".into() }
    }

    /// Sets the name of the person at the terminal, for the audit log. Default: `terminal`.
    pub fn by(mut self, person: &str) -> Self {
        self.by = person.into();
        self
    }

    #[cfg(test)]
    pub(super) fn over(
        keyboard: impl Read + Send + 'static,
        screen: impl Write + Send + 'static,
    ) -> Self {
        let opened = OpenTerminal::over(keyboard, Box::new(screen)).ok();
        Self { opened: Arc::new(Mutex::new(opened)), ..Self::new() }
    }
}

impl Default for TerminalApprover {
    fn default() -> Self {
        Self::new()
    }
}

mgp_types::opaque_debug!(TerminalApprover);

#[async_trait]
impl Approver for TerminalApprover {
    async fn decide(&self, _cx: &Context, question: Question) -> Result<Decision, RpcError> {
        // Show only one question at a time: the other questions wait here for the lock.
        let mut opened = self.opened.lock().await;
        let outcome = match &mut *opened {
            Some(opened) => opened.ask(&question).await,
            none => match OpenTerminal::new() {
                Ok(opened) => none.insert(opened).ask(&question).await,
                Err(error) => Err(error),
            },
        };
        match outcome {
            Ok(answer) => Ok(decision(answer, &self.by)),
            Err(error) => {
                *opened = None;
                Err(RpcError::new(
                    ErrorCode::PERMISSION_DENIED,
                    "no approver is available: this process has no terminal",
                )
                .because(error))
            }
        }
    }
}

impl OpenTerminal {
    fn new() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let screen = file.try_clone()?;
        Self::over(file, Box::new(screen))
    }

    /// Starts to read lines on a separate thread, because reading from a terminal cannot be cancelled.
    fn over(
        keyboard: impl Read + Send + 'static,
        screen: Box<dyn Write + Send>,
    ) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(MAX_QUEUED_LINES);
        let mut keyboard = BufReader::new(keyboard);
        let read = move || {
            while let Some(line) = line(&mut keyboard) {
                if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(line) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("terminal".to_owned()).spawn(read)?;
        Ok(Self { screen, lines, question_count: 0 })
    }

    async fn ask(&mut self, question: &Question) -> io::Result<GrantDecision> {
        // Discard lines that were typed before the question appeared.
        while self.lines.try_recv().is_ok() {}
        self.question_count = self.question_count.wrapping_add(1);
        // The codes of 256 successive questions differ; the odd factor makes them look random.
        let code = format!("{:02x}", self.question_count.wrapping_mul(167));
        let mut shown =
            ScreenQuestion { screen: &mut *self.screen, answered: AnswerState::Pending };
        let words = describe(question).replace('\n', "\r\n");
        let who = caller(question);
        write!(shown.screen, "\r\n{words}\r\nFor: {who}\r\nType yes {code} or no: ")?;
        shown.screen.flush()?;
        loop {
            let Some(line) = self.lines.recv().await else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            if let Some(answer) = read(&line, &code) {
                shown.answered = AnswerState::Given;
                return Ok(answer);
            }
            write!(shown.screen, "That answers another question. Type yes {code} or no: ")?;
            shown.screen.flush()?;
        }
    }
}

/// Returns the next line, or `None` at the end of the input. A line that is too long is returned as an empty line,
/// which denies the question.
fn line(keyboard: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let mut whole = true;
    loop {
        let read = keyboard.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
        if line.last() == Some(&b'\n') {
            let line = String::from_utf8_lossy(&line);
            return Some(if whole { line.trim().to_owned() } else { String::new() });
        }
        if read == 0 {
            return None;
        }
        whole = false;
        line.clear();
    }
}

/// Returns the decision that a line expresses: only `yes` with the code of the question approves; most other lines
/// deny.
///
/// Returns `None` for a line that might be the answer to another question.
fn read(line: &str, code: &str) -> Option<GrantDecision> {
    let mut words = line.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("yes"), Some(own), None) if own == code => Some(GrantDecision::Approved),
        (Some("yes" | "no"), Some(other), None) if other != code => None,
        // A `yes` without a code might be the answer to an earlier question, so ignore it.
        (Some("yes"), None, _) => None,
        _ => Some(GrantDecision::Denied),
    }
}

fn decision(answer: GrantDecision, by: &str) -> Decision {
    let mut decision = Decision::new(answer, by);
    decision.via = Some(AnswerPlace::Terminal);
    decision.expires_at =
        std::time::SystemTime::now().checked_add(Duration::from_hours(1)).map(Into::into);
    decision
}
