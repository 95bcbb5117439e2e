//! Extractors for parts of the call's context.

use mgp_types::RpcError;
use mgp_types::service::{Context, Deadline, Outlet, Peer, Principal};

use super::{FromCall, ToolRequest};

impl FromCall for Context {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.clone())
    }
}

impl FromCall for Outlet {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.outlet.clone())
    }
}

impl FromCall for Principal {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.principal.clone())
    }
}

impl FromCall for Peer {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.peer.clone())
    }
}

impl FromCall for Deadline {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(request.cx.deadline)
    }
}
