//! Identifies the process at the other end of the local socket: its program, its ancestors, and the hosts among them.
//!
//! On Linux the ancestors are read from `/proc` when the connection is accepted; elsewhere only the user is checked.

#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod stat;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
pub(crate) use self::linux::{Hosts, Peer, own_place};
#[cfg(not(target_os = "linux"))]
pub(crate) use self::other::{Hosts, Peer};

/// Returns the place of this process. On this system it is unknown, so the process counts as outside of hosts and
/// servers, and without a terminal.
#[cfg(not(target_os = "linux"))]
pub(crate) fn own_place() -> Place {
    Place::Outside { is_at_terminal: false }
}

/// The place of a process in the process tree: outside of all hosts and servers, below a host, or below a server. The
/// place decides whether the process may act as an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only Linux shows the ancestors of a process")
)]
pub(crate) enum Place {
    /// No server and no host started the process. `is_at_terminal` is `true` if it runs in the foreground of a
    /// terminal.
    Outside { is_at_terminal: bool },
    /// A host started the process, or might have started it, or the process is outside the kernel's container. A
    /// passphrase can still admit it. The value is the reason.
    Inside(String),
    /// A server started the process, or its ancestors cannot be checked; it is always refused. The value is the reason.
    Barred(String),
}
