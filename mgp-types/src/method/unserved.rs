//! The methods that this workspace neither serves nor sends yet.

/// Methods that no server and no kernel of this workspace serves or sends yet; [`methods`](super::methods) lists
/// them too.
///
/// Tests check this list against the answers of a server and of a kernel.
pub const UNSERVED: &[&str] = &[];
