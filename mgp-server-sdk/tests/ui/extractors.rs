//! What `#[tool]` leaves to the traits: types that are no arguments, no extractors, no results.

use mgp_server_sdk::prelude::*;

struct Plain;

/// Takes an argument without a schema.
#[tool]
async fn argument(plain: Plain) -> String {
    String::new()
}

/// Marks what is no extractor.
#[tool]
async fn extractor(#[extract] plain: Plain) -> String {
    String::new()
}

/// Returns what is no result.
#[tool]
async fn result() -> Plain {
    Plain
}

/// Is fine.
#[tool]
async fn fine() -> String {
    String::new()
}

fn main() {
    let _ = Server::new("t", "1").tool(fine);
}
