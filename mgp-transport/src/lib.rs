//! Bytes to calls.

mod child;
mod stdio;

pub use child::{Child, ChildCommand, ChildError, ChildReader, ChildWriter, ExitReport, StderrCap};
pub use stdio::{StdioError, StdioKind, StdioReader, StdioWriter, take as take_stdio};
