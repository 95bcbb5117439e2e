//! A connection to the kernel, whatever it comes over.
//!
//! Applies to: inbound.

use mgp_kernel::{Carrier, Kernel};
use mgp_lifecycle::Drain;
use mgp_transport::{Closed, Connection};
use mgp_types::service::{Principal, Stack};
use tokio::io::{AsyncRead, AsyncWrite};

/// What connections share: one stack, and one end.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) kernel: Kernel,
    pub(crate) stack: Stack,
    pub(crate) drain: Drain,
}

impl House {
    /// Serves one peer until it leaves, or the kernel has drained.
    pub(crate) async fn attach<R, W>(
        &self,
        reader: R,
        writer: W,
        principal: Principal,
        carrier: Carrier,
    ) -> Closed
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let _present = self.kernel.clients().enter(principal.clone(), carrier);
        let connection = Connection::new(reader, writer, self.stack.clone()).principal(principal);
        let (drain, ending) = (self.drain.clone(), connection.ending());
        // A task of its own: the connection is not to look at it with each message.
        let leaving = tokio::spawn(async move {
            drain.begun().await;
            ending.announce();
            drain.ended().await;
            ending.begin();
        });
        let closed = connection.run().await;
        leaving.abort();
        closed
    }
}
