//! The options of `#[tool(…)]` and the builder calls they expand to.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::meta::{self, ParseNestedMeta};
use syn::parse::Parser;
use syn::{LitBool, LitStr, Token, Type};

use crate::path;
use crate::security;

/// The parsed options of `#[tool(…)]`.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) inline: Option<Span>,
    pub(crate) blocking: Option<Span>,
    pub(crate) json: bool,
    pub(crate) deny_unknown_fields: bool,
    title: Option<LitStr>,
    hints: Vec<(&'static str, bool)>,
    timeout: Option<TokenStream>,
    task: Option<TokenStream>,
    output: Option<Type>,
    security: Option<TokenStream>,
}

const KNOWN: &str = "name, title, description, read_only, destructive, idempotent, open_world, inline, blocking, timeout, task, json, output, deny_unknown_fields, security";

/// The option for each hint of MCP, with the name of the field of `ToolAnnotations`.
const HINTS: [(&str, &str); 4] = [
    ("read_only", "read_only_hint"),
    ("destructive", "destructive_hint"),
    ("idempotent", "idempotent_hint"),
    ("open_world", "open_world_hint"),
];

impl Options {
    /// Parses the tokens in the parentheses of `#[tool(…)]`.
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let mut options = Self::default();
        meta::parser(|meta| options.read(&meta)).parse2(tokens)?;
        if let (Some(_), Some(blocking)) = (options.inline, options.blocking) {
            let message = "`inline` and `blocking` exclude each other; remove one";
            return Err(syn::Error::new(blocking, message));
        }
        Ok(options)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        if let Some((_, field)) = HINTS.iter().find(|(known, _)| *known == word) {
            self.hints.push((field, flag(meta)?));
            return Ok(());
        }
        let span = meta.path.get_ident().map_or_else(Span::call_site, syn::Ident::span);
        match &*word {
            "name" => self.name = Some(meta.value()?.parse()?),
            "title" => self.title = Some(meta.value()?.parse()?),
            "description" => self.description = Some(meta.value()?.parse()?),
            "inline" => self.inline = Some(span),
            "blocking" => self.blocking = Some(span),
            "json" => self.json = true,
            "deny_unknown_fields" => self.deny_unknown_fields = true,
            "timeout" => self.timeout = Some(duration(&meta.value()?.parse()?)?),
            "task" => self.task = Some(task(&meta.value()?.parse()?)?),
            "output" => self.output = Some(meta.value()?.parse()?),
            "security" => self.security = Some(security::parse(meta)?),
            _ => return Err(meta.error(format!("unknown option; known: {KNOWN}"))),
        }
        Ok(())
    }

    /// Returns the calls of the tool's builder to which the options expand, except for `inline` and `blocking`.
    pub(crate) fn builder_calls(&self) -> TokenStream {
        let mut calls = TokenStream::new();
        if let Some(title) = &self.title {
            calls.extend(quote!(.title(#title)));
        }
        if !self.hints.is_empty() {
            let mcp = path::mcp();
            let hints = format_ident!("hints", span = Span::mixed_site());
            let fields = self.hints.iter().map(|(field, value)| {
                let field = format_ident!("{field}");
                quote!(#hints.#field = ::std::option::Option::Some(#value);)
            });
            calls.extend(quote! {
                .annotations({
                    let mut #hints = #mcp::ToolAnnotations::new();
                    #(#fields)*
                    #hints
                })
            });
        }
        if let Some(timeout) = &self.timeout {
            calls.extend(quote!(.timeout(#timeout)));
        }
        if let Some(task) = &self.task {
            calls.extend(quote!(.task(#task)));
        }
        if let Some(output) = &self.output {
            calls.extend(quote!(.output::<#output>()));
        }
        calls.extend(self.security.clone());
        calls
    }
}

/// Parses the value of a flag, which is written as `word` or `word = true|false`.
pub(crate) fn flag(meta: &ParseNestedMeta<'_>) -> syn::Result<bool> {
    if meta.input.peek(Token![=]) {
        return meta.value()?.parse::<LitBool>().map(|value| value.value);
    }
    Ok(true)
}

fn task(word: &LitStr) -> syn::Result<TokenStream> {
    let variant = match &*word.value() {
        "forbidden" => "Forbidden",
        "optional" => "Optional",
        "required" => "Required",
        other => {
            let message =
                format!("unknown task support `{other}`; known: forbidden, optional, required");
            return Err(syn::Error::new(word.span(), message));
        }
    };
    let (mcp, variant) = (path::mcp(), format_ident!("{variant}"));
    Ok(quote!(#mcp::TaskSupport::#variant))
}

/// Returns the Rust expression of the `Duration` that a literal such as `"500ms"` or `"2m"` means.
fn duration(text: &LitStr) -> syn::Result<TokenStream> {
    let value = text.value();
    let wrong = || {
        let message = format!(
            "`{value}` is not a valid duration; use a number and a unit: 500ms, 5s, 2m, 1h"
        );
        syn::Error::new(text.span(), message)
    };
    let digits = value.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = value[..digits].parse().map_err(|_| wrong())?;
    let seconds = |unit: u64| number.checked_mul(unit).filter(|all| *all > 0).ok_or_else(wrong);
    match &value[digits..] {
        "ms" if number > 0 => Ok(quote!(::std::time::Duration::from_millis(#number))),
        "s" => seconds(1).map(|n| quote!(::std::time::Duration::from_secs(#n))),
        "m" => seconds(60).map(|n| quote!(::std::time::Duration::from_secs(#n))),
        "h" => seconds(3600).map(|n| quote!(::std::time::Duration::from_secs(#n))),
        _ => Err(wrong()),
    }
}
