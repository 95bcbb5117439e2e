//! The context in which a command runs.

use super::argv::Refusal;
use crate::network::NetworkRules;

/// The maximum depth of commands that run other commands.
const MAX_DEPTH: usize = 8;

/// The context of a command: its nesting depth, which counts the commands around it, e.g. `env` and `sh` around `ls` in
/// `env sh -c ls`; its standard input; its working folder; and the rules for its targets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frame<'a> {
    depth: usize,
    pub(super) stdin: Stdin<'a>,
    /// The working folder that the call names.
    pub(super) folder: Option<&'a str>,
    /// The rules for URLs and hosts.
    pub(super) network: NetworkRules<'a>,
}

/// The standard input of a command.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Stdin<'a> {
    /// The call has no argument for the standard input, and a script redirects nothing to it.
    #[default]
    Unnamed,
    Text(&'a str),
    /// A file that a script redirects to the standard input, or that `cat` prints to it.
    File,
    /// The numbers of processes, which `pgrep` or a similar program prints.
    Processes,
    /// The input is unknown, e.g. because its argument is not text, or because it comes from a pipe or a descriptor.
    Unreadable,
}

impl<'a> Frame<'a> {
    pub(super) fn new(network: NetworkRules<'a>) -> Self {
        Self { network, ..Self::default() }
    }

    /// Sets the standard input.
    pub(super) fn with_input(self, stdin: Stdin<'a>) -> Self {
        Self { stdin, ..self }
    }

    /// Sets the working folder.
    pub(super) fn within(self, folder: Option<&'a str>) -> Self {
        Self { folder, ..self }
    }

    /// Returns the context for a command that is run by the command of this context.
    ///
    /// # Errors
    /// A description of the reason if the commands are nested too deeply.
    pub(super) fn inner(self) -> Result<Self, Refusal> {
        self.inner_of(1)
    }

    /// Returns the context for each of `count` candidates. The command of this context runs one of them, but it is
    /// unknown which. Each counts as a nested command, which limits the number of commands that are checked.
    ///
    /// # Errors
    /// A description of the reason if the commands are nested too deeply.
    pub(super) fn inner_of(self, count: usize) -> Result<Self, Refusal> {
        let depth = self.depth + count;
        if depth > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} commands run one another"));
        }
        Ok(Self { depth, ..self })
    }

    /// Returns the context without the standard input, for a command that is run by e.g. `xargs`, which reads the input
    /// itself.
    pub(super) fn without_input(self) -> Self {
        Self { stdin: Stdin::Unnamed, ..self }
    }
}
