//! Asks at the terminal of this process (MGP §3.4, §4.4).
//!
//! Never on stdin or stdout: those may be the protocol.
//!
//! Applies to: both.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::GrantDecision;
use mgp_types::service::{BoxFuture, Context};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::{Mutex, mpsc};

use super::shown::{asker, in_words};
use super::{Approver, Decision, Question};

/// The longest line that is read; a longer one counts as empty.
const LINE_MAX: u64 = 256;

/// How many lines wait to be looked at; the next one is thrown away.
const LINES: usize = 16;

/// Asks whoever sits at the terminal of this process, one question at a time.
///
/// Only `yes` with the code of the question approves, such as `yes 4f`: an answer that comes late is for no other one.
/// A permission is approved for an hour.
/// From its first question on it reads every line that is typed at that terminal,
/// so it is for processes that read nothing else from there.
/// Where the process has no terminal nobody can be asked.
#[derive(Clone)]
#[must_use]
pub struct Terminal {
    opened: Arc<Mutex<Option<Opened>>>,
    by: Arc<str>,
}

/// The terminal, once it was opened.
struct Opened {
    screen: Box<dyn Write + Send>,
    lines: mpsc::Receiver<String>,
    /// How many questions were asked.
    asked: u8,
}

/// A question on the screen; unless it is answered, dropping it says that it is withdrawn.
struct Shown<'a> {
    screen: &'a mut (dyn Write + Send),
    answered: Answered,
}

/// Whether somebody has answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    No,
    Yes,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if self.answered == Answered::No {
            // Whoever cannot be told cannot answer either.
            let _ = write!(self.screen, "\r\nThis question is withdrawn.\r\n");
            let _ = self.screen.flush();
        }
    }
}

impl Terminal {
    /// The terminal that controls this process; it is opened with the first question.
    pub fn new() -> Self {
        Self { opened: Arc::default(), by: "terminal".into() }
    }

    /// Names the person who sits there, for the record. `terminal`.
    pub fn by(mut self, person: &str) -> Self {
        self.by = person.into();
        self
    }

    #[cfg(test)]
    pub(super) fn over(
        keyboard: impl Read + Send + 'static,
        screen: impl Write + Send + 'static,
    ) -> Self {
        let opened = Opened::over(keyboard, Box::new(screen)).ok();
        Self { opened: Arc::new(Mutex::new(opened)), ..Self::new() }
    }
}

impl Default for Terminal {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Terminal")
    }
}

impl Approver for Terminal {
    fn decide(
        &self,
        _cx: &Context,
        question: Question,
    ) -> BoxFuture<'static, Result<Decision, RpcError>> {
        let terminal = self.clone();
        Box::pin(async move {
            // Whoever waits here has no question on the screen yet.
            let mut opened = terminal.opened.lock().await;
            let said = match &mut *opened {
                Some(opened) => opened.ask(&question).await,
                none => match Opened::new() {
                    Ok(opened) => none.insert(opened).ask(&question).await,
                    Err(error) => Err(error),
                },
            };
            match said {
                Ok(answer) => Ok(decision(answer, &terminal.by)),
                Err(error) => {
                    *opened = None;
                    Err(RpcError::new(
                        ErrorCode::PERMISSION_DENIED,
                        "nobody can be asked: this process has no terminal",
                    )
                    .because(error))
                }
            }
        })
    }
}

impl Opened {
    fn new() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let screen = file.try_clone()?;
        Self::over(file, Box::new(screen))
    }

    /// Reads lines on a thread of its own, because reading from a terminal cannot be given up.
    fn over(
        keyboard: impl Read + Send + 'static,
        screen: Box<dyn Write + Send>,
    ) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(LINES);
        let mut keyboard = BufReader::new(keyboard);
        let read = move || {
            while let Some(line) = line(&mut keyboard) {
                if let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(line) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("terminal".to_owned()).spawn(read)?;
        Ok(Self { screen, lines, asked: 0 })
    }

    async fn ask(&mut self, question: &Question) -> io::Result<GrantDecision> {
        // What was typed before the question is no answer to it.
        while self.lines.try_recv().is_ok() {}
        self.asked = self.asked.wrapping_add(1);
        // Another one for each of 256 questions in a row; an odd factor mixes them.
        let code = format!("{:02x}", self.asked.wrapping_mul(167));
        let mut shown = Shown { screen: &mut *self.screen, answered: Answered::No };
        let words = in_words(question).replace('\n', "\r\n");
        let who = asker(question);
        write!(shown.screen, "\r\n{words}\r\nFor: {who}\r\nType yes {code} or no: ")?;
        shown.screen.flush()?;
        loop {
            let Some(line) = self.lines.recv().await else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            if let Some(answer) = read(&line, &code) {
                shown.answered = Answered::Yes;
                return Ok(answer);
            }
            write!(shown.screen, "That answers another question. Type yes {code} or no: ")?;
            shown.screen.flush()?;
        }
    }
}

/// One line, none after the last; of a line that is too long nothing is left, and nothing is no.
fn line(keyboard: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let mut whole = true;
    loop {
        let read = keyboard.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).ok()?;
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

/// What a line decides: `yes` and the code of the question approve, and without a code nothing else does.
///
/// A line with the code of another question is no answer.
fn read(line: &str, code: &str) -> Option<GrantDecision> {
    let mut words = line.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("yes"), Some(own), None) if own == code => Some(GrantDecision::Approved),
        (Some("yes" | "no"), Some(other), None) if other != code => None,
        // A yes without a code may have been for another one, too.
        (Some("yes"), None, _) => None,
        _ => Some(GrantDecision::Denied),
    }
}

fn decision(answer: GrantDecision, by: &str) -> Decision {
    let mut decision = Decision::new(answer, by);
    decision.expires_at =
        std::time::SystemTime::now().checked_add(Duration::from_hours(1)).map(Into::into);
    decision
}
