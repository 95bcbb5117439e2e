//! Streamable HTTP, client and server; one endpoint serves both protocol [eras](mgp_types::mcp::Era) (MCP transports;
//! MGP §1.4).

mod body_buffer;
mod caller_share;
mod client;
mod credentials;
mod guard;
mod reference;
mod server;

pub(crate) use client::SeenBackChannel;
pub use client::{
    BackChannel, Bearer, Endpoint, EraCache, HttpClientConfig, HttpClientError, HttpConnection,
    HttpSseError, Proxy, connect_http_sse,
};
pub use credentials::{CredentialRefusal, Credentials, RequestCredentials, RequestTarget};
pub use guard::{ForbiddenAddress, GuardedFetch, check_address};
pub use reference::{
    OriginFault, ReferenceData, ReferenceError, ReferenceReader, ReferenceServer,
    ReferenceSettings, RemoteReference, digest_file,
};
pub use server::{
    AcceptFailures, AnswerMode, ConnectionLimits, Cors, CorsLayer, HttpBody, HttpConfig,
    HttpService, Listener, OpenConnections, listen,
};
#[cfg(feature = "tls")]
pub use server::{ServerTls, ServerTlsError};
