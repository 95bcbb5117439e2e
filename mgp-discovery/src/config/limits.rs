//! How much a configuration may hold; what is beyond is refused by name (MGP §15.2).
//!
//! Applies to: both.

/// The longest file.
pub const FILE_BYTES: u64 = 1 << 20;
/// The most servers of one file.
pub const SERVERS: usize = 1000;
/// The most agents of one file.
pub const AGENTS: usize = 256;
/// The most entries of a list or of a table of texts.
pub const ENTRIES: usize = 256;
/// The longest text.
pub const TEXT_BYTES: usize = 32 * 1024;
/// The longest id of a server or name of an agent.
pub const ID_BYTES: usize = 128;
/// The most warnings, and the most errors, that are told of one file; what is beyond still stops its server or file.
pub const FINDINGS: usize = 200;
/// How deep `${A:-${B:-…}}` may go.
pub const DEPTH: usize = 8;
/// The longest value that `${…}` may become.
pub const VALUE_BYTES: usize = 64 * 1024;
