//! The body of a response: empty, a single piece, an event stream, or the body of another service.

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
    Foreign(Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>),
}

impl HttpBody {
    /// Wraps the body of another service's response. If that body fails, the wrapper ends as if the body were complete.
    pub fn foreign<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        Self(Kind::Foreign(Box::pin(EndAtError(Some(Box::pin(body))))))
    }

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
            Kind::Foreign(body) => body.as_mut().poll_frame(task),
            Kind::Events(events) => {
                events.poll_next(task).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(whole) => whole.is_empty(),
            Kind::Foreign(body) => body.is_end_stream(),
            Kind::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            Kind::Foreign(body) => body.size_hint(),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

/// A body that ends without an error when the inner body fails.
struct EndAtError<B>(Option<Pin<Box<B>>>);

impl<B: Body<Data = Bytes>> Body for EndAtError<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        match body.as_mut().poll_frame(task) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
            Poll::Ready(_) => {
                self.0 = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

mgp_types::opaque_debug!(HttpBody);
