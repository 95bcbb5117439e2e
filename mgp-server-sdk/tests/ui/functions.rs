//! Functions that cannot be tools.

use mgp_server_sdk::prelude::*;

#[tool]
async fn undescribed() -> String {
    String::new()
}

/// Is fine.
#[tool]
async fn borrows(name: Option<&str>) -> String {
    name.unwrap_or_default().to_owned()
}

/// Is fine.
#[tool]
async fn generic<T: ToString>(value: T) -> String {
    value.to_string()
}

/// Is fine.
#[tool]
async fn pattern((a, b): (u8, u8)) -> String {
    (a + b).to_string()
}

/// Arguments of a tool.
struct More {
    more: String,
}

/// Is fine.
#[tool]
async fn both(Args(more): Args<More>, name: String) -> String {
    more.more + &name
}

/// Is fine.
#[tool]
struct Weather;

struct Method;

impl Method {
    /// Is fine.
    #[tool]
    async fn method(&self) -> String {
        String::new()
    }
}

/// Is fine.
#[tool]
async fn lends(name: &str) -> Result<&str, ToolError> {
    Ok(name)
}

fn main() {}
