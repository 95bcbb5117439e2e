//! The servers of a kernel (DESIGN §5).
//!
//! Applies to: outbound.

mod ear;
mod feed;
mod instance;
mod known;
mod manifest;
mod node;
mod reach;
mod servers;
mod shelf;

pub(super) use ear::{Ear, What};
pub(super) use known::Shown;
pub(super) use manifest::all as manifests;
pub(super) use node::Node;
pub(super) use servers::{Fleet, Ground, News};
pub(super) use shelf::{Entry, Kind, List};
