//! The echo tool with checked arguments and a typed result, written with the macro; `sdk.first-server` measures it.

use mgp_server_sdk::prelude::*;

#[derive(Serialize, JsonSchema)]
struct Echoed {
    message: String,
}

/// Echoes the message.
#[tool(inline)]
async fn echo(
    /// Text to echo.
    message: String,
) -> Json<Echoed> {
    Json(Echoed { message })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ServeError> {
    Server::new("echo", "1.0").tool(echo()).serve_stdio().await
}
