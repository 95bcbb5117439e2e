//! A parameter with an extractor's type but without `#[extract]`: it counts as an argument, so it does not compile.

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{FromCall, ToolRequest};

struct Tenant(String);

impl FromCall for Tenant {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self(request.cx().principal.tenant().to_string()))
    }
}

/// Is fine.
#[tool]
async fn unmarked(tenant: Tenant) -> String {
    tenant.0
}

fn main() {}
