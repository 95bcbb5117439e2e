//! The restart policies, which determine whether a server is started again, depending on how it ended (MGP §11.4,
//! §11.5).

use mgp_types::mgp::{RestartPolicy, ShutdownReason};

use crate::error::restart_follows;

/// Returns whether the policy restarts a server that ended in this way.
pub(super) fn restarts_after(
    policy: &RestartPolicy,
    is_success: bool,
    reason: Option<&ShutdownReason>,
) -> bool {
    let restarts_on_failure = match reason {
        Some(reason) if !restart_follows(reason) => return false,
        Some(_) => true,
        None => !is_success,
    };
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => restarts_on_failure,
        _ => false,
    }
}
