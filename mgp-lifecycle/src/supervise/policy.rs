//! The restart policies, which determine whether a server is started again, depending on how it ended (MGP §11.4,
//! §11.5).

use mgp_types::mgp::{RestartPolicy, ShutdownReason};

/// Returns whether the policy restarts a server that ended in this way.
pub(super) fn restarts_after(
    policy: &RestartPolicy,
    is_success: bool,
    reason: Option<&ShutdownReason>,
) -> bool {
    let restarts_on_failure = match reason {
        Some(reason) if is_final(reason) => return false,
        Some(ShutdownReason::ConfigurationChange | ShutdownReason::ResourceLimit) => true,
        _ => !is_success,
    };
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => restarts_on_failure,
        _ => false,
    }
}

/// Returns whether a server that was stopped for this reason stays stopped; `true` for unknown reasons.
pub(super) fn is_final(reason: &ShutdownReason) -> bool {
    !matches!(reason, ShutdownReason::ConfigurationChange | ShutdownReason::ResourceLimit)
}
