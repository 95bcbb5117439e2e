//! The servers of a kernel (DESIGN §5).
//!
//! Applies to: outbound.

mod diary;
mod ear;
mod feed;
mod first;
mod hold;
mod idle;
mod instance;
mod known;
mod manage;
mod manifest;
mod met;
mod node;
mod servers;
mod shelf;
mod target;
#[cfg(test)]
mod tests;
mod users;

pub(super) use ear::{Ear, What};
pub(super) use known::Shown;
pub(super) use manifest::all as manifests;
pub(super) use met::Met;
pub(super) use node::Node;
pub(super) use servers::{Fleet, Ground, News};
pub(super) use shelf::{Entry, Kind, List};
pub(super) use target::CreateServer;
pub(super) use users::Users;
