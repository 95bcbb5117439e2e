//! Streamable HTTP, both eras on one endpoint (MCP transports; MGP §1.4).

mod body_buffer;
mod client;
mod credentials;
mod guard;
mod server;

pub use client::{Bearer, Endpoint, EraCache, HttpClientConfig, HttpClientError, HttpConnection};
pub use credentials::{Credentials, Refused, Shown, Target};
pub use guard::{Forbidden, GuardedFetch, check_address};
pub use server::{
    Answers, ConnectionLimits, Cors, CorsLayer, HttpBody, HttpConfig, HttpService, OpenConnections,
    listen,
};
