//! An OAuth authorization server, and an MCP server that requires its tokens, on one port of 127.0.0.1; for the tests
//! of logins.
//!
//! The program prints its address. A browser that opens the login page is logged in as the user in the query parameter
//! `user`. With `/test/…` a test changes which tokens are valid. `/test/log` lists the calls and token refreshes since
//! it was last read, each with its user.

#![expect(clippy::print_stdout, reason = "the address is its output")]

mod issuer;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{HttpConfig, Server};
use mgp_types::service::{Context, Principal};

use issuer::Issuer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let origin = format!("http://{}", listener.local_addr()?);
    let issuer = Arc::new(Issuer::new(&origin));
    let whoami = Tool::new("whoami", "Returns the user of the login", |cx: Context| async move {
        cx.principal.subject().as_str().to_owned()
    });
    let mut config = HttpConfig::default();
    config.endpoint = None;
    let mcp = Server::new("protected", "1.0").tool(whoami).into_http_service(config)?;
    let protected = Router::new()
        .route_service("/mcp", mcp)
        .layer(from_fn_with_state(Arc::clone(&issuer), authenticate));
    println!("{origin}");
    axum::serve(listener, issuer::router(issuer).merge(protected)).await?;
    Ok(())
}

/// Lets requests with a valid token pass, as the user of the token; refuses others with 401, or with 403 if the token
/// lacks a scope.
async fn authenticate(
    State(issuer): State<Arc<Issuer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let challenge = issuer.challenge();
    let Some(user) = issuer.user_of(token) else {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    };
    if let Some(scope) = issuer.missing_scope(token) {
        let challenge = format!("{challenge}, error=\"insufficient_scope\", scope=\"{scope}\"");
        return (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    request.extensions_mut().insert(Principal::new("local", user.as_str()));
    next.run(request).await
}
