//! The guides, compiled with the other examples.

#[doc = include_str!("../../docs/picking-layers.md")]
mod picking_layers {}
