//! The servers of a kernel (DESIGN §5).
//!
//! Applies to: outbound.

mod feed;
mod known;
mod node;
mod reach;
mod servers;

pub(super) use known::Shown;
pub(super) use servers::{Fleet, Ground};
