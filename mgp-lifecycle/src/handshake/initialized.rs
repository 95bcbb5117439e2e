//! The notification that ends a legacy client's handshake.

use mgp_types::mcp::EmptyParams;
use mgp_types::method::Initialized;
use mgp_types::service::{Call, Context, HttpFailure, MgpService};
use mgp_types::{RpcError, clip, escape_hidden};

use super::era::is_refused;

/// The maximum length, in bytes, of a server's refusal in the log; a longer text is clipped.
const MAX_LOGGED_BYTES: usize = 300;

/// Sends `notifications/initialized`. A refusal by HTTP status is only logged, because some servers without sessions
/// refuse every notification but answer requests.
pub(super) async fn notify<S: MgpService>(stack: &S, cx: &Context) -> Result<(), RpcError> {
    let call = Call::tell::<Initialized>(&EmptyParams::new(), cx.clone())?;
    match stack.clone().call(call).await {
        Err(error) if is_refused(&error) && has_status(&error) => {
            let error = escape_hidden(&clip(error.message(), MAX_LOGGED_BYTES));
            tracing::warn!(%error, "`notifications/initialized` refused; the handshake continues");
            Ok(())
        }
        sent => sent.map(drop),
    }
}

fn has_status(error: &RpcError) -> bool {
    HttpFailure::from_error(error).is_some_and(|failure| failure.status().is_some())
}

#[cfg(test)]
mod tests {
    use mgp_types::ErrorCode;
    use mgp_types::service::{Peer, Principal, Scope, ScopeKind, Stack};

    use super::*;

    #[tokio::test]
    async fn only_a_refusal_by_a_status_that_cannot_pass_is_tolerated() {
        for (failure, is_tolerated) in [
            (Some(HttpFailure::Status(400)), true),
            (Some(HttpFailure::StatusWithError(404)), true),
            (Some(HttpFailure::Status(401)), false),
            (Some(HttpFailure::Status(503)), false),
            (Some(HttpFailure::ConnectionLost), false),
            (None, false),
        ] {
            let server = Stack::from_fn(move |_| {
                let error = RpcError::new(ErrorCode::INVALID_REQUEST, "no");
                let error = match failure {
                    Some(failure) => error.because(failure),
                    None => error,
                };
                std::future::ready(Err(error))
            });
            let scope = Scope::new(ScopeKind::Connection);
            let cx = Context::new(Peer::none(), scope, Principal::local());
            assert_eq!(notify(&server, &cx).await.is_ok(), is_tolerated, "{failure:?}");
        }
    }
}
