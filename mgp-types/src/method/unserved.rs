//! The methods without a part that serves or sends them.

/// Methods that no server and no kernel of this workspace serves yet; [`methods`](super::methods) has them all.
///
/// Tests compare it with the answers of a server and of a kernel.
pub const UNSERVED: &[&str] = &[
    "mgp/events/subscribe",
    "mgp/events/unsubscribe",
    "mgp/callback/respond",
    "notifications/mgp.event",
    "notifications/mgp.callback.request",
    "notifications/mgp.stream.pace",
    "notifications/mgp.stream.gap",
    "notifications/mgp.stream.gap_unrecoverable",
];
