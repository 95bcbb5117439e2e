//! What stands between the client and the connection: THE two stacks, patience, and news of the server's end.
//!
//! Applies to: both.

mod inbound;
mod life;
mod mirror;
mod outbound;
mod patience;
mod suits;
mod visits;

pub(crate) use inbound::{FindCaller, Inbound, inbound, not_offered};
#[cfg(feature = "http")]
pub(crate) use life::attend;
pub(crate) use life::{Driver, Life, Lively, Watched, drive, is_answer};
pub(crate) use mirror::MirrorLayer;
pub(crate) use outbound::{Road, spanned};
pub(crate) use patience::{Allowance, PatienceLayer, ProgressHook};
pub(crate) use suits::suits;
