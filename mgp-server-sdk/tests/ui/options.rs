//! Unknown options and values.

use mgp_server_sdk::prelude::*;

/// Is fine.
#[tool(readonly)]
async fn option() -> String {
    String::new()
}

/// Is fine.
#[tool(security(risk = "harmless"))]
async fn risk() -> String {
    String::new()
}

/// Is fine.
#[tool(security(risk = "safe", permissions("shel")))]
async fn permission() -> String {
    String::new()
}

/// Is fine.
#[tool(security(permissions("shell")))]
async fn no_risk() -> String {
    String::new()
}

/// Is fine.
#[tool(timeout = "5 minutes")]
async fn duration() -> String {
    String::new()
}

/// Is fine.
#[tool(inline, blocking)]
async fn two_places() -> String {
    String::new()
}

/// Is fine.
#[tool(name = "mgp_find")]
async fn reserved() -> String {
    String::new()
}

fn main() {}
