//! Recognizes the refusals of this kernel among the errors of calls.

use std::error::Error as _;

use mgp_security::Refusal;
use mgp_types::RpcError;

/// Returns whether an error is a refusal of this kernel. Servers can answer with the same codes, but their errors have
/// no `Refusal` as their source.
pub(crate) fn is_refusal(error: &RpcError) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<Refusal>() {
            return true;
        }
        source = error.source();
    }
    false
}
