//! A served kernel, with the values that all connections to it share.

use std::sync::Arc;
use std::time::Duration;

use mgp_kernel::{ClientGuard, ClientTransport, Clients, Kernel};
use mgp_lifecycle::Drain;
use mgp_transport::{CloseReason, Connection};
use mgp_types::method::Kind;
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::{Call, Method, Params, Reply};
use mgp_types::service::{CredentialGrant, Principal, Stack};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::operator::OperatorGate;
use crate::socket_hello::{HOLDING, LEAVING, REPEAT};

/// The time limit for a shim's confirmation to an ending kernel. With it, the shim confirms that it keeps further
/// requests for the next kernel.
const HOLDING_TIMEOUT: Duration = Duration::from_secs(2);

/// The client at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedClient {
    /// The host that started this process.
    Host,
    /// The shim (`mgp serve --stdio`): it relays between a host and the local socket, and if this kernel exits, it
    /// continues the host's session with the next kernel.
    Shim,
    /// Any other program at the local socket.
    Program,
    /// The pages of the console, for a person at the HTTP server.
    Console,
}

impl ServedClient {
    fn transport(self) -> ClientTransport {
        match self {
            Self::Host => ClientTransport::Stdio,
            Self::Shim | Self::Program => ClientTransport::Socket,
            Self::Console => ClientTransport::Http,
        }
    }
}

/// A lock that orders two events: a client is added, and a kernel without clients begins to end.
#[derive(Clone, Default)]
pub(crate) struct Entrance(Arc<Mutex<()>>);

impl Entrance {
    fn add(
        &self,
        clients: &Clients,
        principal: Principal,
        transport: ClientTransport,
    ) -> ClientGuard {
        let _lock = self.0.lock();
        clients.add(principal, transport)
    }

    fn close_if_empty(&self, clients: &Clients, drain: &Drain, timeout: Duration) -> bool {
        let _lock = self.0.lock();
        let is_empty = clients.count() == 0;
        if is_empty {
            drain.begin(ShutdownReason::IdleTimeout, timeout);
        }
        is_empty
    }
}

/// A kernel with the service stack and the drain that all its connections share.
#[derive(Clone)]
pub(crate) struct ServedKernel {
    pub(crate) kernel: Kernel,
    pub(crate) stack: Stack,
    pub(crate) drain: Drain,
    /// `true` if hosts start this kernel and can replace it by a newer one.
    pub(crate) is_shared: bool,
    pub(crate) gate: Arc<OperatorGate>,
    pub(crate) entrance: Entrance,
}

impl ServedKernel {
    /// Adds a client, which counts as connected until the returned guard is dropped.
    pub(crate) fn add_client(&self, principal: &Principal, client: ServedClient) -> ClientGuard {
        self.entrance.add(self.kernel.clients(), principal.clone(), client.transport())
    }

    /// Begins the drain of a kernel that has no client; returns `false` if it has one.
    pub(crate) fn begin_idle_drain(&self, timeout: Duration) -> bool {
        self.entrance.close_if_empty(self.kernel.clients(), &self.drain, timeout)
    }

    /// Serves one client, with the rights in `pass`, until the client disconnects or the kernel has drained. The caller
    /// has [added](Self::add_client) the client.
    pub(crate) async fn serve_connection<R, W>(
        &self,
        reader: R,
        writer: W,
        principal: Principal,
        pass: Option<CredentialGrant>,
        client: ServedClient,
    ) -> CloseReason
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let stack = self.stack.clone();
        let stack = match pass {
            None => stack,
            Some(pass) => Stack::from_fn(move |mut call| {
                call.cx_mut().extensions.insert(pass.clone());
                stack.send(call)
            }),
        };
        let (stack, holding) = if client == ServedClient::Shim {
            let holding = Arc::new(Notify::new());
            (repeated_later(stack, self.drain.clone(), Arc::clone(&holding)), Some(holding))
        } else {
            (stack, None)
        };
        let connection = Connection::new(reader, writer, stack).principal(principal);
        let (drain, ending) = (self.drain.clone(), connection.close_handle());
        let leaving = holding.map(|holding| (holding, connection.peer(), connection.context()));
        // Wait for the drain in a separate task, so that the connection does not poll it each time a message is
        // handled.
        let drain_task = tokio::spawn(async move {
            drain.wait_begun().await;
            ending.announce();
            if let Some((holding, peer, cx)) = leaving {
                let notice = Method::from_static(LEAVING);
                let notice = Call::notification(notice, Params::none(), cx);
                let held = async { peer.send(notice).await.map(|_| holding.notified()) };
                // Until the shim confirms that it keeps further requests, continue to read and answer its requests, so
                // that none is lost.
                let _ = timeout(HOLDING_TIMEOUT, async {
                    if let Ok(held) = held.await {
                        held.await;
                    }
                })
                .await;
            }
            drain.wait_ended().await;
            ending.drain();
        });
        let closed = connection.run().await;
        drain_task.abort();
        closed
    }
}

/// Returns a stack that passes on requests until the drain begins. It does not start requests that a shim sends later:
/// it answers them with the error [`REPEAT`], and the shim repeats them with the next kernel.
fn repeated_later(stack: Stack, drain: Drain, holding: Arc<Notify>) -> Stack {
    Stack::from_fn(move |call: Call| {
        let is_request = call.kind() == Kind::Request;
        let is_holding = !is_request && call.method().as_str() == HOLDING;
        if is_holding {
            holding.notify_one();
        }
        let is_late = is_request && drain.is_draining();
        // Send the call now, not when the future is polled: a drain counts only calls that were sent before it began.
        let sent = (!is_holding && !is_late).then(|| stack.send(call));
        async move {
            match sent {
                Some(sent) => sent.await,
                None if is_holding => Ok(Reply::empty()),
                None => Err(RpcError::new(
                    ErrorCode(REPEAT),
                    "the kernel is about to end and did not start the call",
                )),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_idle_drain_does_not_begin_once_a_client_was_added() {
        let (entrance, clients, drain) =
            (Entrance::default(), Clients::default(), Drain::default());
        let client = entrance.add(&clients, Principal::local(), ClientTransport::Socket);
        assert!(!entrance.close_if_empty(&clients, &drain, Duration::ZERO));
        assert!(!drain.is_draining(), "the client has been accepted");
        drop(client);
        assert!(entrance.close_if_empty(&clients, &drain, Duration::ZERO));
        assert!(drain.is_draining());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_client_that_arrives_during_an_idle_drain_sees_it() {
        for _ in 0..1000 {
            let (entrance, clients, drain) =
                (Entrance::default(), Clients::default(), Drain::default());
            let (arriving, listed, seen) = (entrance.clone(), clients.clone(), drain.clone());
            let arrives = tokio::spawn(async move {
                let client = arriving.add(&listed, Principal::local(), ClientTransport::Socket);
                (seen.is_draining(), client)
            });
            let has_ended = entrance.close_if_empty(&clients, &drain, Duration::ZERO);
            let (is_refused, _client) = arrives.await.unwrap();
            assert_eq!(is_refused, has_ended);
        }
    }
}
