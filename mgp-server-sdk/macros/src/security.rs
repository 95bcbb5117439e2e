//! Expands `security(…)`, the security metadata, to builder calls (MGP §4, §7.3).

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{LitInt, LitStr, Token, parenthesized};

use crate::options::flag;
use crate::path;
use crate::variants::{self, CODE_SAFETY, RISK, SIDE_EFFECT, VALIDATOR};

const KNOWN: &str =
    "risk, permissions, side_effects, validator, code_safety, confirmation, reversible";

/// Parses `security(…)` into calls of the builder.
pub(crate) fn parse(meta: &ParseNestedMeta<'_>) -> syn::Result<TokenStream> {
    let (mut risk, mut calls) = (None, TokenStream::new());
    meta.parse_nested_meta(|meta| {
        let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match &*word {
            "risk" => risk = Some(RISK.variant(&meta.value()?.parse()?)?),
            "permissions" => {
                let all = each(&meta, variants::permission)?;
                calls.extend(quote!(.permissions([#(#all),*])));
            }
            "side_effects" => {
                let all = each(&meta, |word| SIDE_EFFECT.variant(word))?;
                calls.extend(quote!(.side_effects([#(#all),*])));
            }
            "validator" => {
                let validator = VALIDATOR.variant(&meta.value()?.parse()?)?;
                calls.extend(quote!(.validator(#validator)));
            }
            "code_safety" => {
                let rules = code_safety(&meta)?;
                calls.extend(quote!(.code_safety(#rules)));
            }
            "confirmation" => {
                if flag(&meta)? {
                    calls.extend(quote!(.confirmation()));
                }
            }
            "reversible" => {
                let call =
                    if flag(&meta)? { quote!(.reversible()) } else { quote!(.irreversible()) };
                calls.extend(call);
            }
            _ => return Err(meta.error(format!("unknown member of `security`; known: {KNOWN}"))),
        }
        Ok(())
    })?;
    match risk {
        Some(risk) => Ok(quote!(.risk(#risk) #calls)),
        None => Err(meta.error(
            "`security` needs the risk of the tool: `risk = \"safe\"`, `\"moderate\"` or `\"dangerous\"`",
        )),
    }
}

/// Parses `code_safety(…)` into an expression that creates the rules for code.
fn code_safety(meta: &ParseNestedMeta<'_>) -> syn::Result<TokenStream> {
    let rules = format_ident!("rules", span = Span::mixed_site());
    let (mut level, mut fields) = (None, TokenStream::new());
    meta.parse_nested_meta(|meta| {
        let word = meta.path.get_ident().cloned();
        match word.as_ref().map(ToString::to_string).as_deref() {
            Some("level") => level = Some(CODE_SAFETY.variant(&meta.value()?.parse()?)?),
            Some("language") => {
                let language: LitStr = meta.value()?.parse()?;
                fields.extend(quote! {
                    #rules.language = ::std::option::Option::Some(::std::string::String::from(#language));
                });
            }
            Some("max_code_size_bytes") => {
                let bytes: LitInt = meta.value()?.parse()?;
                let bytes: u64 = bytes.base10_parse()?;
                fields.extend(quote! {
                    #rules.max_code_size_bytes = ::std::option::Option::Some(#bytes);
                });
            }
            Some("blocked_imports" | "blocked_patterns" | "allowed_imports") => {
                let all = list(&meta)?;
                fields.extend(quote! {
                    #rules.#word = ::std::vec![#(::std::string::String::from(#all)),*].into();
                });
            }
            _ => {
                return Err(meta.error(
                    "unknown member of `code_safety`; known: level, language, max_code_size_bytes, blocked_imports, blocked_patterns, allowed_imports",
                ));
            }
        }
        Ok(())
    })?;
    let mgp = path::mgp();
    match level {
        Some(level) => Ok(quote!({
            let mut #rules = #mgp::CodeSafety::new(#level);
            #fields
            #rules
        })),
        None => Err(meta.error(
            "`code_safety` needs a level: `level = \"standard\"`, `\"strict\"`, `\"readonly\"` or `\"unrestricted\"`",
        )),
    }
}

/// Parses a list of string literals in parentheses, such as `("a", "b")`.
fn list(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<LitStr>> {
    let inside;
    parenthesized!(inside in meta.input);
    let all = Punctuated::<LitStr, Token![,]>::parse_terminated(&inside)?;
    Ok(all.into_iter().collect())
}

fn each(
    meta: &ParseNestedMeta<'_>,
    word: impl Fn(&LitStr) -> syn::Result<TokenStream>,
) -> syn::Result<Vec<TokenStream>> {
    list(meta)?.iter().map(word).collect()
}
