//! The conversations (cells) over HTTP: foreign clients with our server, our client with foreign servers, and the
//! Inspector.

mod clients;
mod inspector;
mod servers;
mod tap;

use super::{
    Cell,
    servers::{LEGACY, MODERN},
};

pub(super) use inspector::inspect;
pub(super) use tap::Tap;

/// The prefix of the names of the cells over HTTP.
pub(super) const PREFIX: &str = "http/";

/// Returns every cell over HTTP.
pub(super) fn cells() -> Vec<Cell> {
    let mut cells = clients::cells();
    cells.extend(inspector::cells());
    cells.extend(servers::cells());
    cells
}
