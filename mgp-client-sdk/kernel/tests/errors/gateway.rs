//! A gateway: what a server behind it, or the want of one, makes its callers hear.

use mgp_client_sdk::{Client, ClientBuilder, Hop, Switchboard};
use mgp_server_sdk::Server;
use mgp_transport::duplex;
use mgp_types::method::{Request, ToolsCall, ToolsList};
use mgp_types::service::{Router, Stack};
use tokio::task::AbortHandle;

/// A server that passes calls of the tool `t` on, and asks for the list.
pub(crate) fn to(client: Client) -> Server {
    let hop = Hop::new("below", client);
    let board = Switchboard::new().route("t", hop.clone());
    let lists = Stack::from_fn(move |call| hop.send(call));
    let calls =
        Router::new().route(ToolsCall::METHOD, Stack::new(board)).route(ToolsList::METHOD, lists);
    Server::new("gateway", "1").endpoints(calls)
}

/// A client of a server that runs in this process.
pub(crate) async fn client(server: Server) -> Client {
    through(Client::builder("gateway", "1"), server).await.0
}

/// A client of one's own, and the server, which is gone once its task is aborted.
pub(crate) async fn through(builder: ClientBuilder, server: Server) -> (Client, AbortHandle) {
    let (here, there) = duplex();
    let serving = tokio::spawn(server.serve(there.reader, there.writer));
    let client = builder.connect(here.reader, here.writer).await.unwrap();
    (client, serving.abort_handle())
}
