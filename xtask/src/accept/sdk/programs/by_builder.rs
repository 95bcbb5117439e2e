//! The echo tool with checked arguments and a typed result, written with the builder; `sdk.first-server` measures it.

use mgp_server_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Text to echo.
    message: String,
}

#[derive(Serialize, JsonSchema)]
struct Echoed {
    message: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ServeError> {
    let echo = Tool::new("echo", "Echoes the message.", |Args(Arguments { message }): Args<Arguments>| async move {
        Json(Echoed { message })
    });
    Server::new("echo", "1.0").tool(echo.inline()).serve_stdio().await
}
