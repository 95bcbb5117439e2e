//! Converts an OpenAPI document (2.0, or 3.0 to 3.2) to a server: each operation becomes a tool, and a call of the tool
//! sends a request to the API.
//!
//! ```
//! use mgp_openapi::Api;
//!
//! let api = Api::parse(r#"{
//!     "openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "servers": [{"url": "https://pets.example/v1"}],
//!     "paths": {"/pets/{id}": {"get": {"operationId": "getPet", "summary": "Returns a pet", "parameters": [
//!         {"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}
//!     ]}}}
//! }"#).unwrap();
//! let pet = &api.operations()[0];
//! assert_eq!((pet.tool_name(), pet.method(), pet.path()), ("getPet", "GET", "/pets/{id}"));
//! ```
//!
//! [`Api::into_server`] builds the server. The given [`Fetch`](mgp_types::service::Fetch) sends the requests, and
//! decides which addresses may be reached.

mod api;
mod error;
mod name;
mod operation;
mod reference;
mod request;
mod response;
mod schema;
mod swagger;

pub use api::{Api, LeftOut};
pub use error::OpenApiError;
pub use operation::Operation;
pub use request::Credentials;
pub use response::{MAX_RESPONSE, decompressed};
