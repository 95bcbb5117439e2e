//! Transports of the Model General Protocol, which convert bytes to calls: framing, connections, HTTP, stdio and child
//! processes (MGP §1.4).
//!
//! Features: `http` (streamable HTTP, server and client), `http2` (HTTP/2 for the server), `tls` (TLS for both).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod child;
mod connection;
mod duplex;
mod frame;
#[cfg(feature = "http")]
pub mod http;
mod scoped;
mod stdio;
mod too_long;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(unix)]
pub use child::raise_open_files;
pub use child::{
    Child, ChildCommand, ChildError, ChildReader, ChildWriter, Confinement, ExitReport, Keeper,
    PROGRAM_EXTENSIONS, Ports, SkippedFolder, StderrLimits, find_program, inherited_env,
    is_program, search_path,
};
pub use connection::{CloseHandle, CloseReason, Connection, ConnectionMonitor, Limits};
pub use duplex::{DuplexEnd, duplex};
pub use scoped::{ScopedTask, spawn_scoped};
pub use stdio::{StdioError, StdioKind, StdioReader, StdioWriter, take as take_stdio};
