//! Servers that are built in, from the examples of the server SDK: for the demonstration, and to try things with.
//!
//! Applies to: inbound.

use crate::exit::{Ended, Failure};

#[expect(dead_code, reason = "it is a program of its own too")]
#[path = "../../../../mgp-server-sdk/examples/stateful.rs"]
mod notes;
#[expect(dead_code, reason = "it is a program of its own too")]
#[path = "../../../../mgp-server-sdk/examples/unruly.rs"]
mod unruly;

/// Their names.
const NAMES: &str = "notes, unruly";

/// Runs one of them until its host leaves.
pub(crate) async fn run(name: &str) -> Ended {
    let server = match name {
        "notes" => notes::server(),
        "unruly" => unruly::server(),
        _ => {
            return Err(Failure::usage(format!("there is no example `{name}`; there are {NAMES}")));
        }
    };
    Ok(server.serve_stdio().await?)
}
