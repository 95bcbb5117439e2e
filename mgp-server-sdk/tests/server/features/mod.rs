//! Tests of the features of a server other than tools, as its peers see them over a connection, in both eras.

mod asking;
mod changes;
mod completion;
mod logging;
mod offer;
mod prompts;
mod request_meta;
mod resources;
mod structured;
mod tasks;
mod visiting;
pub(crate) mod wire;
