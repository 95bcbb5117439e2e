//! Functions with `json` whose results are not data, and extractors that are not taken by value.

use std::io;

use mgp_server_sdk::prelude::*;

struct NoData;

/// Returns a value without a schema.
#[tool(json)]
async fn no_data() -> NoData {
    NoData
}

/// Returns an error that is not one of a tool.
#[tool(json)]
async fn foreign_error() -> io::Result<Vec<String>> {
    Ok(Vec::new())
}

struct Folder;

#[tools]
impl Folder {
    /// Is fine.
    #[tool(json)]
    async fn fine(&self) -> Result<Vec<String>, ToolError> {
        Ok(Vec::new())
    }

    /// Returns an error that is not one of a tool.
    #[tool(json)]
    async fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

struct Generic<T>(T);

#[tools]
impl<T: Send + Sync + 'static> Generic<T> {
    /// Is fine.
    #[tool]
    async fn fine(&self) -> String {
        String::new()
    }

    /// Returns an error that is not one of a tool.
    #[tool]
    async fn read(&self) -> io::Result<String> {
        Ok(String::new())
    }
}

/// Borrows an extractor.
#[tool]
async fn borrowed(outlet: &Outlet) -> String {
    format!("{outlet:?}")
}

/// Takes an extractor that may be absent.
#[tool]
async fn optional(cx: Option<Context>) -> String {
    format!("{cx:?}")
}

/// Takes an argument whose default has another type.
#[tool]
async fn default(#[arg(default = "long")] style: Option<String>) -> String {
    style.unwrap_or_default()
}

fn main() {}
