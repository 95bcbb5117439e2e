//! The attribute `#[tool]` on a function.
//!
//! `function.rs` generates the code of the tool, for `#[tools]` (`tools.rs`) too.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, FnArg, ItemFn};

use crate::describe::is_doc;
use crate::function::Function;
use crate::options::Options;
use crate::path;

/// Expands a function with `#[tool]` to a function that returns the tool.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(_) => return syn::Error::new_spanned(item, NOT_A_FUNCTION).into_compile_error(),
    };
    let (vis, ident, sdk) = (function.vis.clone(), function.sig.ident.clone(), path::sdk());
    write(options, function).unwrap_or_else(|error| {
        // Define a function of this name even after an error; otherwise each use of the name would cause a second
        // error.
        let error = error.into_compile_error();
        quote! {
            #error
            #vis fn #ident() -> #sdk::Tool {
                ::std::unreachable!()
            }
        }
    })
}

const NOT_A_FUNCTION: &str =
    "`#[tool]` belongs on a function with a body; on an impl block use `#[tools]`";

fn write(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() {
        let message = "a method needs `#[tools]` on its impl block to become a tool";
        return Err(syn::Error::new_spanned(receiver, message));
    }
    let options = Options::parse(options)?;
    let tool = Function::take(options, &function.attrs, &mut function.sig)?;
    let (arguments, checks, expression) = (tool.arguments_type(), tool.checks(), tool.expression());
    let sdk = path::sdk();
    let (outside, inside): (Vec<_>, Vec<_>) =
        function.attrs.iter().partition(|one| is_outside(one));
    let (vis, ident) = (&function.vis, &function.sig.ident);
    let (signature, block) = (&function.sig, &function.block);
    Ok(quote! {
        #(#outside)*
        #vis fn #ident() -> #sdk::Tool {
            #arguments
            #checks
            #(#inside)*
            #signature #block
            #expression
        }
    })
}

/// Returns whether an attribute must move to the generated function: docs, `cfg` and `deprecated` do, and all others
/// stay on the original function.
fn is_outside(attribute: &Attribute) -> bool {
    is_doc(attribute) || attribute.path().is_ident("cfg") || attribute.path().is_ident("deprecated")
}
