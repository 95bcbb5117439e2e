//! The process at the other end of the local socket: its program, its ancestors, and the hosts among them.
//!
//! On Linux the ancestors are read from `/proc` when the connection is accepted; elsewhere only the user is checked.

#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, not(target_os = "linux")))]
mod other;
#[cfg(target_os = "linux")]
mod stat;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
pub(crate) use self::linux::{Hosts, Peer, own_place};
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) use self::other::{Hosts, Peer};

/// Returns the place of this process, which is not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn own_place() -> Place {
    Place::Outside { is_at_terminal: false }
}

/// The place of a process, as far as it decides about an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Neither below a server nor below a host; in the foreground of a terminal or not.
    Outside { is_at_terminal: bool },
    /// Below a host, or of unknown ancestors, for this reason; a passphrase may still open the door.
    Inside(String),
    /// Below a server, or of ancestors that cannot be checked, for this reason.
    Barred(String),
}
