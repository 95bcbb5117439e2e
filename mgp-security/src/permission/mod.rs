//! Permissions: what a server may do, and who said so (MGP §3).
//!
//! Applies to: both.

mod endpoints;
mod grants;
mod scope;

pub use grants::{Grants, Standing};
