//! Tests of the features of a server other than tools, as its peers see them over a connection, in both eras.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod changes;
mod completion;
mod logging;
mod offer;
mod prompts;
mod resources;
mod structured;
mod tasks;
mod visiting;
mod wire;
