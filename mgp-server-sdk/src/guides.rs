//! The guides, compiled as doctests.

#[doc = include_str!("../../docs/first-server.md")]
mod first_server {}

#[doc = include_str!("../../docs/picking-layers.md")]
mod picking_layers {}
