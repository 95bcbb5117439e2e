//! The programs of the README and the guides, compiled here because this crate's tests can use both SDKs.
#![doc = include_str!("../../README.md")]

#[doc = include_str!("../README.md")]
mod package {}

#[doc = include_str!("../../docs/contracts.md")]
mod contracts {}

#[doc = include_str!("../../docs/over-http.md")]
mod over_http {}

#[doc = include_str!("../../docs/governance.md")]
mod governance {}

#[doc = include_str!("../../docs/lifecycle.md")]
mod lifecycle {}

#[doc = include_str!("../../docs/events.md")]
mod events {}

#[doc = include_str!("../../docs/streaming.md")]
mod streaming {}
