//! The guides and READMEs, compiled as doctests.

#[doc = include_str!("../README.md")]
mod package {}

#[doc = include_str!("../macros/README.md")]
mod macros {}

#[doc = include_str!("../../docs/first-server.md")]
mod first_server {}

#[doc = include_str!("../../docs/callbacks.md")]
mod callbacks {}

#[doc = include_str!("../../docs/picking-layers.md")]
mod picking_layers {}
