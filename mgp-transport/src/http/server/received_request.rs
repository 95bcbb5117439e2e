//! A received request: its session, its caller, and the form of its answer.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Response, StatusCode};
use mgp_types::service::{CredentialGrant, Principal};

use super::ServerState;
use super::body::HttpBody;
use super::config::AnswerMode;
use super::event_body::{EventBody, StreamReader};
use super::headers::RequestHeaders;
use super::legacy::Session;
use super::refusal::{Refusal, clip_text, empty, events};
use super::stream::{EventId, Stream};

/// An HTTP request that passed the checks of `Host` and `Origin`.
pub(super) struct ReceivedRequest<'a> {
    pub(super) state: &'a Arc<ServerState>,
    pub(super) parts: &'a Parts,
    pub(super) headers: RequestHeaders<'a>,
}

impl ReceivedRequest<'_> {
    /// Opens the session's GET stream, or resumes an interrupted stream.
    pub(super) fn open_stream(&self) -> Result<Response<HttpBody>, Refusal> {
        let session = self.required_session()?;
        if !self.headers.takes_events() {
            return Err(Refusal::Accept);
        }
        let (stream, after) = match self.headers.last_event {
            None => (session.standalone(), None),
            Some(last) => {
                let unknown = || Refusal::UnknownEvent(clip_text(last));
                let event = EventId::parse(last).ok_or_else(unknown)?;
                (session.stream_of(event).ok_or_else(unknown)?, Some(event.number))
            }
        };
        let body = EventBody::new(
            StreamReader::new(&stream, after),
            self.state.config.keep_alive_interval,
        )
        .with_grant(self.grant());
        Ok(events(HttpBody::events(body)))
    }

    pub(super) fn end_session(&self) -> Result<Response<HttpBody>, Refusal> {
        let session = self.required_session()?;
        self.state.sessions.close(&session);
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// Returns the session that a legacy request names; fails if the session or the revision is unknown.
    pub(super) fn session(&self, principal: &Principal) -> Result<Arc<Session>, Refusal> {
        let id = self.headers.session.ok_or(Refusal::NoSession)?;
        let found = self.state.sessions.find(id, principal);
        let session = found.ok_or(Refusal::UnknownSession)?;
        self.headers.check_legacy_revision()?;
        Ok(session)
    }

    /// Returns whether an answer without earlier messages is sent as JSON, and not as an event stream.
    pub(super) fn answers_in_json(&self) -> bool {
        let is_preferred = self.state.config.answer_mode == AnswerMode::AsNeeded;
        self.headers.takes_json() && (is_preferred || !self.headers.takes_events())
    }

    /// Attaches the reader of a call's stream. If the client accepts no event stream, it gets only the answer.
    pub(super) fn attach_reader(&self, stream: &Arc<Stream>) -> StreamReader {
        if !self.headers.takes_events() {
            stream.send_answer_only();
        }
        StreamReader::new(stream, None)
    }

    /// Returns the time after which a running call is answered with an event stream. A client that accepts JSON only
    /// waits for the answer, however long that takes.
    pub(super) fn stream_delay(&self) -> Duration {
        if self.headers.takes_events() { self.state.config.stream_delay } else { Duration::MAX }
    }

    pub(super) fn principal(&self) -> Result<Principal, Refusal> {
        let known = self.parts.extensions.get::<Principal>();
        known.or(self.state.config.anonymous.as_ref()).cloned().ok_or(Refusal::NoPrincipal)
    }

    /// Returns an error if the credentials of a single call became invalid before its JSON answer is sent. Only clients
    /// that accept no event stream are checked. Any other client gets a stream if the call takes long, and that stream
    /// ends by itself when the credentials become invalid.
    pub(super) fn check_credentials_of_call(&self) -> Result<(), Refusal> {
        if self.headers.takes_events() { Ok(()) } else { self.check_credentials() }
    }

    /// Fails if the credentials of the request are no longer valid.
    pub(super) fn check_credentials(&self) -> Result<(), Refusal> {
        let grant = self.parts.extensions.get::<CredentialGrant>();
        if grant.is_none_or(CredentialGrant::is_valid) {
            return Ok(());
        }
        Err(Refusal::CredentialsEnded)
    }

    /// Returns the credentials of the request, if they can expire.
    pub(super) fn grant(&self) -> Option<CredentialGrant> {
        self.parts.extensions.get::<CredentialGrant>().cloned()
    }

    /// Returns the session of a request; fails for a modern request, which has no session.
    fn required_session(&self) -> Result<Arc<Session>, Refusal> {
        if self.headers.is_modern() {
            return Err(Refusal::Stateless);
        }
        self.session(&self.principal()?)
    }
}
