//! Paths in the generated code. All begin with the name of the SDK crate, so that crates that use the macros need no
//! other dependency.

use proc_macro2::TokenStream;
use quote::quote;

pub(crate) fn sdk() -> TokenStream {
    quote!(::mgp_server_sdk)
}

pub(crate) fn mcp() -> TokenStream {
    quote!(::mgp_server_sdk::reexports::mgp_types::mcp)
}

pub(crate) fn mgp() -> TokenStream {
    quote!(::mgp_server_sdk::reexports::mgp_types::mgp)
}
