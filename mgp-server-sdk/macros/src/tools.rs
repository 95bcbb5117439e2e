//! The attribute `#[tools]` on an impl block.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::{Attribute, Ident, ImplItem, ImplItemFn, ItemImpl, LitStr, Meta, meta};

use crate::function::{Function, ReceiverKind};
use crate::options::Options;
use crate::path;

/// The options of `#[tools(…)]`.
#[derive(Default)]
struct BlockOptions {
    /// The prefix of the tools' names.
    prefix: Option<LitStr>,
    /// The method that returns the tools, in place of the implementations of `IntoTools` and `SharedTools`.
    list: Option<Ident>,
}

impl BlockOptions {
    fn parse(&mut self, tokens: TokenStream) -> syn::Result<()> {
        let parser = meta::parser(|meta| {
            if meta.path.is_ident("prefix") {
                self.prefix = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("list") {
                self.list = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error("unknown option; known: prefix, list"));
            }
            Ok(())
        });
        parser.parse2(tokens)
    }
}

/// Returns the impl block and the implementations of `IntoTools` and `SharedTools` for its type.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(_) => return syn::Error::new_spanned(item, NOT_A_BLOCK).into_compile_error(),
    };
    let mut parsed = BlockOptions::default();
    let errors = parsed.parse(options).err();
    match read_all(errors, &parsed, &mut block) {
        Ok(found) => {
            let tools = into_tools(&block, &parsed, &found);
            quote!(#block #tools)
        }
        Err(error) => {
            let error = error.into_compile_error();
            let tools = into_tools(&block, &parsed, &[]);
            quote!(#error #block #tools)
        }
    }
}

const NOT_A_BLOCK: &str = "`#[tools]` belongs on an impl block; on a function use `#[tool]`";

/// Parses all functions of the block that are tools.
fn read_all(
    mut errors: Option<syn::Error>,
    options: &BlockOptions,
    block: &mut ItemImpl,
) -> syn::Result<Vec<Function>> {
    let mut found = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        match read(method, options.prefix.as_ref()) {
            Ok(tool) => found.extend(tool),
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    if let Some((path, _)) = &block.trait_ {
        let message = "`#[tools]` belongs on the type's own impl block, not on that of a trait";
        return Err(syn::Error::new_spanned(path, message));
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    if found.is_empty() {
        let message = "no function in this block is a tool; mark tools with `#[tool]`";
        return Err(syn::Error::new_spanned(&block.self_ty, message));
    }
    Ok(found)
}

/// Parses a function of the block that has the attribute `#[tool]`, and removes this attribute; returns `None` for
/// functions without it.
fn read(method: &mut ImplItemFn, prefix: Option<&LitStr>) -> syn::Result<Option<Function>> {
    let Some(at) = method.attrs.iter().position(is_tool) else { return Ok(None) };
    let attribute = method.attrs.remove(at);
    let options = match attribute.meta {
        Meta::Path(_) => Options::default(),
        Meta::List(list) => Options::parse(list.tokens)?,
        Meta::NameValue(value) => {
            return Err(syn::Error::new_spanned(value, "expected `#[tool]` or `#[tool(…)]`"));
        }
    };
    let mut tool = Function::take(options, &method.attrs, &mut method.sig)?;
    if let Some(prefix) = prefix {
        tool.prefix(prefix)?;
    }
    tool.is_associated = true;
    Ok(Some(tool))
}

/// Returns whether an attribute is `#[tool]`, with or without a path before the name.
fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

/// Returns the code that adds a tool to the variable `list`.
fn push_tool(block: &ItemImpl, tool: &Function, list: &Ident) -> TokenStream {
    // This macro runs before the compiler evaluates the `cfg` attributes in the block, so the code for a tool
    // repeats them.
    let conditions = &tool.conditions;
    let (arguments, expression) = (tool.arguments_type(), tool.expression());
    // The checks are items, and items cannot use the generic parameters of the block. So a block with such
    // parameters gets no checks.
    let checks = block.generics.params.is_empty().then(|| tool.checks());
    quote! {
        #(#conditions)*
        let #list = {
            #arguments
            #checks
            let mut #list = #list;
            #list.push(#expression);
            #list
        };
    }
}

fn into_tools(block: &ItemImpl, options: &BlockOptions, tools: &[Function]) -> TokenStream {
    let (generics, _, condition) = block.generics.split_for_impl();
    let (ty, sdk) = (&block.self_ty, path::sdk());
    let this = format_ident!("this", span = Span::mixed_site());
    let list = format_ident!("list", span = Span::mixed_site());
    let uses_self = tools.iter().any(|tool| !matches!(tool.own, ReceiverKind::Nothing));
    // Use the variable once outside of all tools: if `cfg` excludes every tool that uses `self`, the variable would
    // otherwise be unused, which is a warning.
    let shared = uses_self.then(|| {
        quote! {
            let #this = self;
            let _ = &#this;
        }
    });
    let each = tools.iter().map(|tool| push_tool(block, tool, &list));
    let body = quote! {
        #shared
        let #list = ::std::vec::Vec::<#sdk::Tool>::new();
        #(#each)*
        #list
    };
    if let Some(name) = &options.list {
        return quote! {
            impl #generics #ty #condition {
                /// Returns the tools of this block.
                pub fn #name(self: ::std::sync::Arc<Self>) -> ::std::vec::Vec<#sdk::Tool> {
                    #body
                }
            }
        };
    }
    quote! {
        impl #generics #sdk::IntoTools for #ty #condition {
            fn into_tools(self) -> ::std::vec::Vec<#sdk::Tool> {
                #sdk::SharedTools::shared_tools(::std::sync::Arc::new(self))
            }
        }

        impl #generics #sdk::SharedTools for #ty #condition {
            fn shared_tools(self: ::std::sync::Arc<Self>) -> ::std::vec::Vec<#sdk::Tool> {
                #body
            }
        }
    }
}
