//! A future of one of two types, e.g. a layer's own answer or the answer of the inner service.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// One of two futures with the same output.
    #[project = EitherProj]
    #[derive(Debug)]
    #[expect(missing_docs, reason = "the macro takes no attributes on the fields of a variant")]
    pub enum Either<A, B> {
        /// The first future.
        Left { #[pin] future: A },
        /// The second future.
        Right { #[pin] future: B },
    }
}

impl<A, B> Future for Either<A, B>
where
    A: Future,
    B: Future<Output = A::Output>,
{
    type Output = A::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<A::Output> {
        match self.project() {
            EitherProj::Left { future } => future.poll(task),
            EitherProj::Right { future } => future.poll(task),
        }
    }
}
