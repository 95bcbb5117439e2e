//! A peer that writes and reads lines without an SDK, over a connection in memory.

use mgp_server_sdk::Server;
use mgp_testkit::RawPeer;
use mgp_transport::duplex;

/// Connects to a server without a handshake.
pub(crate) fn connect(server: Server) -> RawPeer {
    let (here, there) = duplex();
    tokio::spawn(server.serve(there.reader, there.writer));
    RawPeer::new(here.reader, here.writer).with_line_timeout(None)
}
