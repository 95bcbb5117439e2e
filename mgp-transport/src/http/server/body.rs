//! The body of a response: empty, one piece, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::event_body::EventBody;

/// Body of a response.
pub struct HttpBody(Kind);

enum Kind {
    Whole(Bytes),
    Events(Box<EventBody>),
}

impl HttpBody {
    pub(super) fn empty() -> Self {
        Self(Kind::Whole(Bytes::new()))
    }

    pub(super) fn events(events: EventBody) -> Self {
        Self(Kind::Events(Box::new(events)))
    }
}

impl From<Bytes> for HttpBody {
    fn from(whole: Bytes) -> Self {
        Self(Kind::Whole(whole))
    }
}

impl From<Vec<u8>> for HttpBody {
    fn from(whole: Vec<u8>) -> Self {
        Self(Kind::Whole(whole.into()))
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(whole) if whole.is_empty() => Poll::Ready(None),
            Kind::Whole(whole) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(whole))))),
            Kind::Events(events) => {
                events.poll_next(task).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(whole) if whole.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

mgp_types::opaque_debug!(HttpBody);
