//! The circumstances in which a command runs.

use super::argv::Refusal;

/// The maximum number of commands that run one another.
const MAX_DEPTH: usize = 8;

/// The number of commands around a command, and its standard input.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frame<'a> {
    depth: usize,
    pub(super) stdin: Stdin<'a>,
}

/// The standard input of a command.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Stdin<'a> {
    /// No argument of the call is the standard input.
    #[default]
    Unnamed,
    Text(&'a str),
    /// The input is given, but it is not text.
    Unreadable,
}

impl<'a> Frame<'a> {
    pub(super) fn new(stdin: Stdin<'a>) -> Self {
        Self { depth: 0, stdin }
    }

    /// Returns the frame of a command that is run by the command of this frame.
    ///
    /// # Errors
    /// A reason if too many commands run one another.
    pub(super) fn inner(self) -> Result<Self, Refusal> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} commands run one another"));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// Returns the frame without the standard input, which the outer command reads.
    pub(super) fn without_input(self) -> Self {
        Self { stdin: Stdin::Unnamed, ..self }
    }
}
