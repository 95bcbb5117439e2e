//! The kernel and the values that all its connections share.

#[cfg(unix)]
use std::sync::Arc;

use mgp_kernel::{ClientTransport, Kernel};
use mgp_lifecycle::Drain;
use mgp_transport::{CloseReason, Connection};
use mgp_types::service::{CredentialGrant, Principal, Stack};
use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(unix)]
use crate::operator::OperatorGate;

/// A kernel with the service stack and the drain that all its connections share.
#[derive(Clone)]
pub(crate) struct ServedKernel {
    pub(crate) kernel: Kernel,
    pub(crate) stack: Stack,
    pub(crate) drain: Drain,
    #[cfg(unix)]
    pub(crate) gate: Arc<OperatorGate>,
}

impl ServedKernel {
    /// Serves one client, with the rights in `pass`, until the client disconnects or the kernel has drained.
    pub(crate) async fn serve_connection<R, W>(
        &self,
        reader: R,
        writer: W,
        principal: Principal,
        pass: Option<CredentialGrant>,
        carrier: ClientTransport,
    ) -> CloseReason
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let _presence = self.kernel.clients().add(principal.clone(), carrier);
        let stack = self.stack.clone();
        let stack = match pass {
            None => stack,
            Some(pass) => Stack::from_fn(move |mut call| {
                call.cx_mut().extensions.insert(pass.clone());
                stack.send(call)
            }),
        };
        let connection = Connection::new(reader, writer, stack).principal(principal);
        let (drain, ending) = (self.drain.clone(), connection.close_handle());
        // A separate task, so that the connection does not poll the drain each time it handles a message.
        let drain_task = tokio::spawn(async move {
            drain.wait_begun().await;
            ending.announce();
            drain.wait_ended().await;
            ending.drain();
        });
        let closed = connection.run().await;
        drain_task.abort();
        closed
    }
}
