//! The example servers that are built in: for the demonstration, and to try things with.

mod notes;
mod unruly;

use crate::exit::{Ended, Failure};

/// The names of the example servers.
const NAMES: &str = "notes, unruly";

/// Serves an example over stdio until its host disconnects.
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
