//! Decodes params. The error of params that cannot be decoded names the member that is wrong.

use serde::de::DeserializeOwned;

use crate::wire::RpcError;

/// Decodes the JSON text of params as `T`.
///
/// # Errors
/// Returns −32602 (invalid params) with the reason and the path of the member, e.g. `filter.extensions`.
pub(super) fn decode<T: DeserializeOwned>(text: &str) -> Result<T, RpcError> {
    serde_json::from_str(text).map_err(|error| refuse::<T>(text, error))
}

/// Returns error −32602 (invalid params), with the path of the member that cannot be decoded. The path is determined
/// only here, by decoding the text again, so that valid params need no time for it.
#[cold]
fn refuse<T: DeserializeOwned>(text: &str, error: serde_json::Error) -> RpcError {
    let mut json = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Err(found) if found.path().iter().next().is_some() => {
            RpcError::invalid_member(&found.path().to_string(), found.into_inner())
        }
        _ => RpcError::invalid_members(error),
    }
}

#[cfg(test)]
mod tests {
    use crate::mgp::{DiscoverToolsParams, KernelAuditParams, KernelExplainParams};
    use crate::service::Params;
    use crate::{ErrorCode, RpcError};

    fn error<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> RpcError {
        Params::split("x", text.into()).unwrap().get::<T>().unwrap_err()
    }

    #[test]
    fn a_member_of_the_wrong_type_is_named_with_its_path() {
        let of_audit = error::<KernelAuditParams>;
        for (error, expected) in [
            (of_audit(r#"{"limit":"x"}"#), "`limit`: expected an integer of at least 0, found "),
            (of_audit(r#"{"_meta":{},"x":[1],"tool":7}"#), "`tool`: expected a string, found "),
            (of_audit("[7]"), "params must be an object"),
            (error::<KernelExplainParams>("{}"), "the member `agent_id` is missing"),
            (
                error::<KernelExplainParams>(r#"{"agent_id":"a","tool_name":"t","arguments":[]}"#),
                "`arguments`: expected an object",
            ),
            (
                error::<DiscoverToolsParams>(r#"{"filter":{"categories":["a",7]}}"#),
                "`filter.categories[1]`: expected a string, found ",
            ),
        ] {
            assert_eq!(error.code(), ErrorCode::INVALID_PARAMS, "{error}");
            let reason = error.message().strip_prefix("invalid params: ").unwrap();
            assert!(reason.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_long_path_is_cut() {
        type Numbers = std::collections::BTreeMap<String, u64>;
        let error = error::<Numbers>(&format!(r#"{{"{}":"x"}}"#, "a".repeat(1_000)));
        assert!(error.message().len() < 300 && error.message().contains("a…`"), "{error}");
    }
}
