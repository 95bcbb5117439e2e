//! The registry of known servers (MGP §15.2).

mod fleet;
mod list;
#[cfg(test)]
mod tests;

pub use fleet::{KnownServer, ServerCatalog};
pub use list::list_router;
pub(crate) use list::shown;
