//! Built-in example servers, which `mgp demo` and tests start as child processes.

mod notes;
mod unruly;

use crate::exit::{CliResult, Failure};

/// The names of all example servers, for the error message.
const NAMES: &str = "notes, unruly";

/// Serves an example server over stdio until its client disconnects.
pub(crate) async fn run(name: &str) -> CliResult {
    let server = match name {
        "notes" => notes::server(),
        "unruly" => unruly::server(),
        _ => {
            return Err(Failure::usage(format!("there is no example `{name}`; known: {NAMES}")));
        }
    };
    Ok(server.serve_stdio().await?)
}
