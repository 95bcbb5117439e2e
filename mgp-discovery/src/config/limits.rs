//! The maximum sizes of a configuration file and its values; a value above its maximum is an error that names the
//! maximum (MGP §15.2).
//!
//! The limits of calls, which a configuration file sets, are in `bounds.rs`.

/// The maximum size of a configuration file, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
/// The maximum number of servers in a configuration file.
pub const MAX_SERVERS: usize = 1000;
/// The maximum number of agents in a configuration file.
pub const MAX_AGENTS: usize = 256;
/// The maximum number of entries in a list, or in a table of strings.
pub const MAX_ENTRIES: usize = 256;
/// The maximum size of a string value, in bytes.
pub const MAX_TEXT_BYTES: usize = 32 * 1024;
/// The maximum size of a server's id or an agent's name, in bytes.
pub const MAX_ID_BYTES: usize = 128;
/// The maximum number of warnings, and of errors, that are reported for a file. Further errors are not reported, but
/// still disable their server or the file.
pub const MAX_FINDINGS: usize = 200;
/// The maximum depth of nested defaults such as `${A:-${B:-…}}`.
pub const MAX_DEPTH: usize = 8;
/// The maximum size of a value after expansion, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;
