//! Bytes to calls.

mod stdio;

pub use stdio::{StdioError, StdioKind, StdioReader, StdioWriter, take as take_stdio};
