//! A gateway in front of another server, for tests in which that server fails or is missing.

use mgp_client_sdk::{Client, ClientBuilder, Hop, ToolRouter};
use mgp_server_sdk::Server;
use mgp_transport::duplex;
use mgp_types::method::{Request, ToolsCall, ToolsList};
use mgp_types::service::{Router, Stack};
use tokio::task::AbortHandle;

/// Returns a gateway that forwards `tools/list` and calls of the tool `t` to the server of a client.
pub(crate) fn to(client: Client) -> Server {
    let hop = Hop::new("below", client);
    let board = ToolRouter::new().route("t", hop.clone());
    let lists = Stack::from_fn(move |call| hop.send(call));
    let calls =
        Router::new().route(ToolsCall::METHOD, Stack::new(board)).route(ToolsList::METHOD, lists);
    Server::new("gateway", "1").endpoints(calls)
}

/// Connects a client to a server in this process.
pub(crate) async fn client(server: Server) -> Client {
    through(Client::builder("gateway", "1"), server).await.0
}

/// Connects a client to a server in this process. Aborting the task of the returned handle ends the server.
pub(crate) async fn through(builder: ClientBuilder, server: Server) -> (Client, AbortHandle) {
    let (here, there) = duplex();
    let serving = tokio::spawn(server.serve(there.reader, there.writer));
    let client = builder.connect(here.reader, here.writer).await.unwrap();
    (client, serving.abort_handle())
}
