//! Built-in example servers, for the demo and for trying things out.

mod notes;
mod unruly;

use crate::exit::{CliResult, Failure};

/// The names of the example servers.
const NAMES: &str = "notes, unruly";

/// Serves an example over stdio until its host disconnects.
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
