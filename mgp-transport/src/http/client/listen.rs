//! The stream of no request: what a legacy server says of its own.
//!
//! Applies to: inbound, legacy.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::core::{Core, is_gone};
use super::request::Stream;
use super::sse::SseReader;

/// Reads the stream, and takes it up again, until the server says there is none or is gone for too long.
pub(super) async fn listen(core: Arc<Core>, opened: oneshot::Sender<()>) {
    let mut opened = Some(opened);
    let mut reader = SseReader::new(core.wire.config.event_bytes);
    let mut attempts = 0;
    let lease = core.session.lease();
    let mut has_lived = false;
    loop {
        let (news, begun) = (reader.news(), Instant::now());
        let last = reader.last_id().cloned();
        let stream = core.open_stream(lease, last.as_ref()).await;
        // Nobody may wait for it any more.
        let _ = opened.take().map(|opened| opened.send(()));
        match stream {
            Ok(Stream::Open(body)) => {
                if let Err(error) = core.listen_to(body, &mut reader, lease).await {
                    tracing::debug!(%error, "the stream of the session failed");
                }
                // A stream that lived was worth opening, even if nothing came.
                if reader.news() > news || begun.elapsed() > core.wire.config.retry {
                    attempts = 0;
                    has_lived = true;
                }
            }
            // What was read before is not missing: the session is, and nobody else may notice for long.
            Ok(Stream::Refused(status, error)) if has_lived && is_gone(status, lease) => {
                tracing::debug!(%error, "the session was lost while nothing was asked in it");
                match core.renew(lease).await {
                    // Another one listens in the new session.
                    Ok(()) => return,
                    Err(error) => tracing::debug!(%error, "no other session could be opened"),
                }
            }
            Ok(Stream::Refused(status, error)) => {
                let is_passing = status.is_server_error()
                    || matches!(status, StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS);
                if !is_passing || status == StatusCode::NOT_IMPLEMENTED {
                    // 405 is the word for it; whatever a server says of its own does not reach us.
                    tracing::debug!(%status, %error, "the server has no stream of its own");
                    return;
                }
            }
            // Whoever opened the new session listens to it anew.
            Ok(Stream::Over) => return,
            Err(error) => tracing::debug!(%error, "the stream of the session could not be opened"),
        }
        if attempts >= core.wire.config.reconnects {
            tracing::warn!(
                server = %core.wire.endpoint, attempts,
                "the server's own stream is gone: its notifications do not arrive any more"
            );
            return;
        }
        attempts += 1;
        sleep(core.pause(&reader)).await;
        reader.reconnect();
    }
}
