//! The limit of the size of a list that a server sends in pages.

use mgp_types::service::Reply;

/// The maximum size of all pages of a list, in bytes of JSON.
pub(crate) const MAX_LIST_BYTES: usize = 64 * 1024 * 1024;

pub(crate) fn page_bytes(page: &Reply) -> usize {
    page.as_body().map_or(0, |body| body.as_raw().as_str().len())
}
