//! The conversations (cells) over HTTP: foreign clients with our server, our client with foreign servers, and the
//! Inspector.

mod clients;
mod inspector;
mod servers;
mod tap;

use super::Cell;

pub(super) use inspector::inspect;
pub(super) use tap::Tap;

/// The prefix of the names of the cells over HTTP.
pub(super) const PREFIX: &str = "http/";

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Returns every cell over HTTP.
pub(super) fn cells() -> Vec<Cell> {
    let mut cells = clients::cells();
    cells.extend(inspector::cells());
    cells.extend(servers::cells());
    cells
}
