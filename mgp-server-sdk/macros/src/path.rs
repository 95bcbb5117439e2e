//! The paths that expansions name: all of them through the SDK, so that a user needs no other crate.
//!
//! Applies to: inbound.

use proc_macro2::TokenStream;
use quote::quote;

/// The SDK.
pub(crate) fn sdk() -> TokenStream {
    quote!(::mgp_server_sdk)
}

/// MCP's vocabulary.
pub(crate) fn mcp() -> TokenStream {
    quote!(::mgp_server_sdk::reexports::mgp_types::mcp)
}

/// MGP's vocabulary.
pub(crate) fn mgp() -> TokenStream {
    quote!(::mgp_server_sdk::reexports::mgp_types::mgp)
}
