//! The methods of tool search: discovery, requests and sessions (MGP §16.5–§16.7).
//!
//! The methods form a [`Router`](mgp_types::service::Router) over the index. A server can also expose them as tools,
//! with the same results.

mod bounds;
mod caller;
mod counting;
mod discover;
mod endpoints;
mod hooks;
mod render;
mod request;
#[cfg(test)]
mod tests;

pub use self::caller::Caller;
pub use self::endpoints::Endpoints;
pub use self::hooks::{
    Availability, AvailabilityCheck, CreationOutcome, CreationRequest, ToolCreator,
};
pub use self::render::render_results;
