//! A server where a stack is asked for: in tests, behind another transport.

use mgp_types::RpcError;
use mgp_types::service::Stack;

use crate::server::Server;

impl TryFrom<Server> for Stack {
    type Error = RpcError;

    fn try_from(server: Server) -> Result<Self, RpcError> {
        server.into_stack()
    }
}
