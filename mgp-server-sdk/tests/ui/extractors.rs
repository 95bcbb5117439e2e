//! What `#[tool]` leaves to the traits: types that are neither extractors nor results.

use mgp_server_sdk::prelude::*;

struct Plain;

/// Marks what is no extractor.
#[tool]
async fn extractor(#[extract] _plain: Plain) -> String {
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
