//! Reads the GET stream of a session. A legacy server sends requests and notifications outside of calls on it.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::core::{Core, is_session_lost};
use super::request::{MIN_RETRY_DELAY, StreamResponse};
use super::session::SessionRef;
use super::sse::SseReader;

/// Reads the session's GET stream, and resumes it, until the server refuses it, the session is replaced, or
/// the login has failed too often.
pub(super) async fn listen(core: Arc<Core>, opened: oneshot::Sender<()>) {
    let mut opened = Some(opened);
    let mut reader = SseReader::new(core.sender.config.event_bytes);
    let mut attempts = 0_u32;
    let session_ref = core.session.session_ref();
    let mut has_lived = false;
    loop {
        let (progress, begun) = (reader.progress(), Instant::now());
        let last = reader.last_id().cloned();
        let stream = core.open_stream(session_ref, last.as_ref()).await;
        core.record_session_stream(&stream, session_ref);
        // Ignore an error: sending fails only if the caller has stopped waiting.
        let _ = opened.take().map(|opened| opened.send(()));
        match stream {
            Ok(StreamResponse::Open(body)) => {
                if let Err(error) = core.read_session_stream(body, &mut reader, session_ref).await {
                    tracing::debug!(%error, "session stream failed");
                }
                // A stream that brought an event, or stayed open for some time, counts as a success.
                if reader.progress() > progress || begun.elapsed() > core.sender.config.retry {
                    attempts = 0;
                    has_lived = true;
                }
            }
            // The stream worked before, so 404 means that the session is lost. Replace it before a call needs it.
            Ok(StreamResponse::Refused(status, error))
                if has_lived && is_session_lost(status, &error, session_ref) =>
            {
                tracing::debug!(%error, "session lost while idle");
                // The task that opened the new session also started a new reader, so this reader ends.
                if open_new_session(&core, session_ref).await {
                    return;
                }
            }
            // Status 405 is expected here: a server need not offer this stream. If the request named an event, the
            // server may only have forgotten that event, so the stream is requested once more without it.
            Ok(StreamResponse::Refused(status, error)) if !can_pass(status) => {
                tracing::debug!(%status, %error, "the server has no session stream");
                if last.is_none() {
                    return;
                }
                reader = SseReader::new(core.sender.config.event_bytes);
            }
            Ok(StreamResponse::Refused(..)) => {}
            // The session was replaced; the new session has its own reader, so this reader ends.
            Ok(StreamResponse::Replaced) => return,
            // Give up after too many failed logins, because each further attempt would ask a person to log in again.
            Err(error) if attempts >= core.sender.config.max_reconnects && needs_login(&error) => {
                tracing::warn!(%error, "session stream lost: the login failed");
                return;
            }
            Err(error) => tracing::debug!(%error, "opening the session stream failed"),
        }
        sleep(delay_before_attempt(&core, &reader, attempts)).await;
        attempts = attempts.saturating_add(1);
        reader.reconnect();
    }
}

impl Core {
    /// Records that the session has an event stream, if it was opened.
    fn record_session_stream(
        &self,
        stream: &Result<StreamResponse, RpcError>,
        session_ref: SessionRef,
    ) {
        if matches!(stream, Ok(StreamResponse::Open(_))) {
            self.counters.back_channel.record_session_stream(session_ref.has_id);
        }
    }
}

/// Replaces a lost session by a new session; returns whether that succeeded.
async fn open_new_session(core: &Arc<Core>, lost: SessionRef) -> bool {
    // No caller limits the time of this handshake. Without a limit, a handshake that gets no answer would also block
    // every later request, because they all wait for the same new session.
    match timeout(core.sender.config.message_timeout, core.renew(lost)).await {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => tracing::debug!(%error, "reopening the session failed"),
        Err(_) => tracing::debug!("timeout: reopening the session got no answer"),
    }
    false
}

fn needs_login(error: &RpcError) -> bool {
    matches!(error.code(), ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED)
}

/// Returns whether a server that answers with this error status may have a stream later.
fn can_pass(status: StatusCode) -> bool {
    let is_passing = status.is_server_error()
        || matches!(status, StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS);
    is_passing && status != StatusCode::NOT_IMPLEMENTED
}

/// Returns the wait before the next attempt to open the stream; `failed` is the number of failed attempts in a row.
/// From `max_reconnects` failures on, the wait is `max_retry`; the function logs a warning when that number is reached.
fn delay_before_attempt(core: &Core, reader: &SseReader, failed: u32) -> Duration {
    let config = &core.sender.config;
    if failed < config.max_reconnects {
        return core.retry_delay(reader);
    }
    if failed == config.max_reconnects {
        tracing::warn!(
            server = %core.sender.endpoint, attempts = failed,
            "session stream lost: until it is open again, notifications of the server are not received"
        );
    }
    config.max_retry.max(MIN_RETRY_DELAY)
}

#[cfg(test)]
mod tests {
    use mgp_testkit::{http_response, serve_http};
    use mgp_types::service::{Principal, Router, Stack};
    use tokio::sync::mpsc;

    use super::*;
    use crate::connection::Limits;
    use crate::http::client::sender::HttpSender;
    use crate::http::{Endpoint, HttpClientConfig};

    /// Regression test: after the server had forgotten the last event, its notifications were not received any more.
    #[tokio::test]
    async fn a_stream_whose_last_event_is_forgotten_begins_again() {
        let (received, mut requests) = mpsc::unbounded_channel();
        let url = serve_http(move |request| {
            let resumes = request.head.contains("last-event-id");
            let _ = received.send(resumes);
            if resumes {
                return http_response(400, "", "no such event");
            }
            let events = "content-type: text/event-stream\r\n";
            http_response(200, events, "id: 7\nretry: 10\ndata:\n\n")
        });
        let endpoint = Endpoint::parse(&url).unwrap();
        let sender = HttpSender::new(endpoint, HttpClientConfig::default()).unwrap();
        let stack = Stack::new(Router::new());
        let (core, _jobs) = Core::new(sender, stack, Principal::local(), Limits::default());
        let listening = tokio::spawn(listen(core, oneshot::channel().0));
        for resumes in [false, true, false] {
            let request = timeout(Duration::from_secs(10), requests.recv()).await.unwrap();
            assert_eq!(request, Some(resumes));
        }
        listening.abort();
    }
}
