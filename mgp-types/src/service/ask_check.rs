//! A check of a call that layers make before a person is asked about the call.

use super::Call;
use crate::wire::RpcError;

/// A check that the gates (the layers that admit or refuse calls) make before they ask a person about a call; stored in
/// the extensions of the call's context.
///
/// Layers inside the gates can refuse a call after a person has approved it, e.g. for its idempotency key. With this
/// check, such a call is refused before anyone is asked. Those layers must still check the call themselves, because
/// their state can change until the person answers.
///
/// ```
/// use mgp_types::RpcError;
/// use mgp_types::service::{AskCheck, Call, Method, Params, Reply, Stack, mock};
///
/// let mut cx = mock::client(Stack::from_fn(|_| async { Ok(Reply::empty()) })).cx;
/// cx.extensions.insert(AskCheck::new(|_| Err(RpcError::invalid_params("the key was used before"))));
/// let params = Params::split("tools/call", r#"{"name":"pay"}"#.into()).unwrap();
/// let call = Call::request(Method::of("tools/call"), params, cx);
/// assert!(AskCheck::run(&call).is_err());
/// ```
pub struct AskCheck(Box<Check>);

type Check = dyn Fn(&Call) -> Result<(), RpcError> + Send + Sync;

crate::opaque_debug!(AskCheck);

impl AskCheck {
    /// Creates a check from a function, which must not block.
    #[must_use]
    pub fn new(check: impl Fn(&Call) -> Result<(), RpcError> + Send + Sync + 'static) -> Self {
        Self(Box::new(check))
    }

    /// Runs the check of a call, if it has one.
    ///
    /// # Errors
    /// Returns the error with which the layer must refuse the call.
    pub fn run(call: &Call) -> Result<(), RpcError> {
        call.cx().extensions.get::<Self>().map_or(Ok(()), |check| (check.0)(call))
    }
}
