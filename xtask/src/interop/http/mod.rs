//! The same conversations over HTTP: foreign clients of our server, our client with foreign servers, the Inspector.

mod clients;
mod inspector;
mod servers;
mod tap;

use super::Cell;

pub(super) use tap::Tap;

/// The beginning of the names of these cells.
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
