//! Types that are neither extractors nor results.

use mgp_server_sdk::prelude::*;

struct Plain;

/// Marks a type that is not an extractor.
#[tool]
async fn extractor(#[extract] _plain: Plain) -> String {
    String::new()
}

/// Returns a type that is not a result.
#[tool]
async fn result() -> Plain {
    Plain
}

/// Holds a guard while it waits.
#[tool]
async fn guarded(State(count): State<std::sync::Mutex<u32>>) -> String {
    let count = count.lock().unwrap();
    std::future::ready(()).await;
    count.to_string()
}

/// Is fine.
#[tool]
async fn fine() -> String {
    String::new()
}

fn main() {
    let _ = Server::new("t", "1").tool(fine);
}
