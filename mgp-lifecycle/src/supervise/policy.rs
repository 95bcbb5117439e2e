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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_and_reasons() {
        use RestartPolicy::{Always, Never, OnFailure};
        use ShutdownReason::{
            ConfigurationChange, IdleTimeout, KernelShutdown, OperatorRequest, ResourceLimit,
        };
        let other = RestartPolicy::from("sometimes");
        for policy in [&Never, &OnFailure, &Always, &other] {
            let again = |is_success, reason: Option<ShutdownReason>| {
                restarts_after(policy, is_success, reason.as_ref())
            };
            let (on_failure, always) = (*policy == OnFailure, *policy == Always);
            assert_eq!(again(false, None), on_failure || always, "{policy} after a failure");
            assert_eq!(again(true, None), always, "{policy} after an exit 0");
            for reason in [OperatorRequest, IdleTimeout, KernelShutdown, "whim".into()] {
                assert!(!again(false, Some(reason.clone())), "{policy} after {reason}");
                assert!(!again(true, Some(reason.clone())), "{policy} after {reason}");
            }
            for reason in [ConfigurationChange, ResourceLimit] {
                assert_eq!(
                    again(true, Some(reason.clone())),
                    on_failure || always,
                    "{policy} after {reason}"
                );
            }
        }
    }
}
