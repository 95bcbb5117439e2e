//! The same conversations over HTTP: foreign clients under our server, ours under foreign servers, the Inspector.

mod clients;
mod inspector;
mod servers;
mod tap;

use super::Cell;

pub(super) use tap::Tap;

/// What the names of these cells begin with.
pub(super) const PREFIX: &str = "http/";

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Every cell over HTTP.
pub(super) fn cells() -> Vec<Cell> {
    let mut cells = clients::cells();
    cells.extend(inspector::cells());
    cells.extend(servers::cells());
    cells
}
