//! The evidence for whether a legacy server can send requests, e.g. forms, to its client while it answers a call.
//!
//! To send requests, a server needs a session, because the client sends the answer to its request as another POST. The
//! server must also answer the call with an event stream, because an answer in JSON is a single message.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::response::ContentKind;

/// The ability of a legacy server to send requests to this client while it answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackChannel {
    /// The server can send requests: it has answered with an event stream in a session, or the connection is a byte
    /// stream.
    Present,
    /// The server has not answered a request of a legacy session yet. This is always so in the modern era.
    Unknown,
    /// So far, the server cannot send requests: it answers in JSON, or it has assigned no id to the session.
    Missing,
}

/// The back channel that the answers of a server have shown so far.
#[derive(Debug)]
pub(crate) struct SeenBackChannel {
    channel: AtomicU8,
    has_session_stream: AtomicBool,
}

impl Default for SeenBackChannel {
    /// Returns the back channel of a byte stream, which is always present.
    fn default() -> Self {
        let channel = AtomicU8::new(BackChannel::Present as u8);
        Self { channel, has_session_stream: AtomicBool::new(false) }
    }
}

impl SeenBackChannel {
    /// Records that the connection uses HTTP. From then on, only the server's answers show whether it can send
    /// requests.
    pub(super) fn set_unknown(&self) {
        self.channel.store(BackChannel::Unknown as u8, Ordering::Relaxed);
    }

    /// Records the kind of an answer to a request in a legacy session. Once a stream was seen, an answer in JSON
    /// changes nothing, because some servers open a stream only if a call needs one.
    pub(super) fn record(&self, has_session_id: bool, kind: ContentKind) {
        if has_session_id && kind == ContentKind::Events {
            return self.channel.store(BackChannel::Present as u8, Ordering::Relaxed);
        }
        // Replace only `Unknown`: another task may record at the same time that the server can send requests.
        let (unknown, missing) = (BackChannel::Unknown as u8, BackChannel::Missing as u8);
        let _ =
            self.channel.compare_exchange(unknown, missing, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Records that the server has opened the GET stream of a legacy session.
    pub(super) fn record_session_stream(&self, has_session_id: bool) {
        self.has_session_stream.fetch_or(has_session_id, Ordering::Relaxed);
    }

    pub(crate) fn has_session_stream(&self) -> bool {
        self.has_session_stream.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> BackChannel {
        let seen = self.channel.load(Ordering::Relaxed);
        [BackChannel::Present, BackChannel::Unknown]
            .into_iter()
            .find(|known| *known as u8 == seen)
            .unwrap_or(BackChannel::Missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_event_stream_in_a_session_with_an_id_is_a_back_channel() {
        use ContentKind::{Events, Json};
        assert_eq!(SeenBackChannel::default().get(), BackChannel::Present, "a byte stream");
        let seen = SeenBackChannel::default();
        seen.set_unknown();
        assert_eq!(seen.get(), BackChannel::Unknown);
        for (has_session_id, kind) in [(false, Json), (true, Json), (false, Events)] {
            seen.record(has_session_id, kind);
            assert_eq!(seen.get(), BackChannel::Missing, "{has_session_id}");
        }
        for kind in [Events, Json] {
            seen.record(true, kind);
            assert_eq!(seen.get(), BackChannel::Present, "a stream was seen");
        }
        for (has_session_id, expected) in [(false, false), (true, true), (false, true)] {
            seen.record_session_stream(has_session_id);
            assert_eq!(seen.has_session_stream(), expected, "{has_session_id}");
        }
    }
}
