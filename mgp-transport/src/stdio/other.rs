//! Standard input and output on systems without descriptors, e.g. Windows: a thread reads, and another one writes
//! (MGP §2).
//!
//! The process keeps its standard handles, so the text of a stray `println!` gets into the protocol stream.

use std::io::{self, IsTerminal};

use super::thread::{ThreadReader, ThreadWriter};
use super::{Input, Output, StdioError, StdioKind, StdioReader, StdioWriter};

pub(super) fn take() -> Result<(StdioReader, StdioWriter), StdioError> {
    let kinds = (kind(&io::stdin()), kind(&io::stdout()));
    let reader = ThreadReader::start(io::stdin()).map_err(StdioError::Thread)?;
    let writer = ThreadWriter::start(io::stdout()).map_err(StdioError::Thread)?;
    Ok((
        StdioReader { input: Input::Thread(reader), kind: kinds.0 },
        StdioWriter { output: Output::Thread(writer), kind: kinds.1 },
    ))
}

/// Returns the kind of a handle: a terminal, or else a pipe.
fn kind(handle: &impl IsTerminal) -> StdioKind {
    if handle.is_terminal() { StdioKind::Terminal } else { StdioKind::Pipe }
}
