//! The parameters of a function: each is an argument of the tool or an extractor.

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Expr, ExprLit, GenericArgument, Ident, Lit, LitStr, Pat, PatType, PathArguments,
    PathSegment, Token, Type, TypePath, parse_quote,
};

use crate::describe;

/// The types that are extractors, by the last segment of their paths.
#[rustfmt::skip]
const EXTRACTORS: [&str; 13] = [
    "CallerState", "Cancelled", "Context", "Deadline", "Grants", "Logger", "Outlet", "Peer",
    "Principal", "RequestMeta", "ResultStream", "SessionInfo", "Trace",
];

/// The extractors whose types have type parameters, by the last segment of their paths.
const GENERIC_EXTRACTORS: [&str; 4] = ["Args", "FromCaller", "Resume", "State"];

pub(crate) enum Parameter {
    /// An argument of the tool, which becomes a field of the generated struct.
    Argument(Box<Field>),
    /// A value extracted from the call.
    Extractor { ty: Box<Type>, is_args: bool },
}

/// A field of the struct that the macro generates for the tool's arguments.
pub(crate) struct Field {
    name: Ident,
    pub(crate) ty: Type,
    /// `true` if the parameter has no attributes of serde or schemars. With such attributes, its type need not
    /// implement `Deserialize` and `JsonSchema`.
    pub(crate) is_plain: bool,
    /// `true` if the function takes a reference, so that the generated code must keep the owned value until the
    /// function has returned.
    pub(crate) is_borrowed: bool,
    attributes: Vec<TokenStream>,
    default: Option<Expr>,
}

/// The contents of the attributes `#[arg]` and `#[extract]` of a parameter.
#[derive(Default)]
struct ParameterAttributes {
    is_arg: bool,
    is_extract: bool,
    description: Option<LitStr>,
    rename: Option<LitStr>,
    default: Option<Fallback>,
    /// The `#[serde(…)]` and `#[schemars(…)]` attributes, which move to the field.
    field_attributes: Vec<Attribute>,
}

/// The value that the function receives for an argument that is absent.
enum Fallback {
    /// The default value of the argument's type.
    OfType,
    /// The value of the expression in `default = EXPR`.
    Value(Expr),
}

impl Parameter {
    /// Parses a parameter, and removes the attributes that Rust does not allow on parameters.
    pub(crate) fn take(parameter: &mut PatType) -> syn::Result<Self> {
        let description = describe::text(&parameter.attrs);
        let parsed = ParameterAttributes::take(&mut parameter.attrs)?;
        let extractor = extractor(&parameter.ty);
        if parsed.is_extract || (extractor.is_some() && !parsed.is_arg) {
            let is_args = extractor.as_deref() == Some("Args");
            return Ok(Self::Extractor { ty: parameter.ty.clone(), is_args });
        }
        if !parsed.is_arg {
            refuse_wrapped_extractor(&parameter.ty)?;
        }
        let name = name(&parameter.pat)?;
        let (ty, is_borrowed) = owned(&parameter.ty)?;
        let description = parsed.description.as_ref().map(LitStr::value).or(description);
        let mut attributes: Vec<_> =
            description.iter().map(|text| quote!(#[doc = #text])).collect();
        if let Some(rename) = &parsed.rename {
            attributes.push(quote!(#[serde(rename = #rename)]));
        }
        let is_plain = parsed.field_attributes.is_empty();
        attributes.extend(parsed.field_attributes.iter().map(|attribute| quote!(#attribute)));
        let default = match parsed.default {
            Some(Fallback::Value(value)) => {
                let function = default_name(&name).to_string();
                attributes.push(quote!(#[serde(default = #function)]));
                Some(value)
            }
            Some(Fallback::OfType) => {
                attributes.push(quote!(#[serde(default)]));
                None
            }
            None => None,
        };
        Ok(Self::Argument(Box::new(Field { name, ty, is_plain, is_borrowed, attributes, default })))
    }
}

impl Field {
    /// Returns the declaration of the field in the generated struct.
    pub(crate) fn declaration(&self) -> TokenStream {
        let Self { name, ty, attributes, .. } = self;
        quote!(#(#attributes)* #name: #ty)
    }

    /// Returns the expression that passes the argument to the function.
    pub(crate) fn expression(&self, arguments: &Ident) -> TokenStream {
        let (name, and) = (&self.name, self.is_borrowed.then(|| quote!(&)));
        quote!(#and #arguments.#name)
    }

    /// Returns the function that computes the default, or `None` if the argument has no default expression.
    pub(crate) fn default_function(&self) -> Option<TokenStream> {
        let (value, ty, function) = (self.default.as_ref()?, &self.ty, default_name(&self.name));
        // A string literal is converted with `into`, so that it can also be the default of e.g. a `String`.
        let is_text = matches!(value, Expr::Lit(ExprLit { lit: Lit::Str(_), .. }));
        let into = is_text.then(|| quote_spanned!(value.span()=> .into()));
        Some(quote! {
            fn #function() -> #ty {
                #value #into
            }
        })
    }
}

fn default_name(field: &Ident) -> Ident {
    format_ident!("__default_{}", syn::ext::IdentExt::unraw(field))
}

impl ParameterAttributes {
    fn take(attributes: &mut Vec<Attribute>) -> syn::Result<Self> {
        let mut parsed = Self::default();
        let mut remaining = Vec::new();
        for attribute in attributes.drain(..) {
            let path = attribute.path();
            if path.is_ident("arg") {
                parsed.is_arg = true;
                parsed.read(&attribute)?;
            } else if path.is_ident("extract") {
                parsed.is_extract = true;
            } else if path.is_ident("serde") || path.is_ident("schemars") {
                parsed.field_attributes.push(attribute);
            } else if !describe::is_doc(&attribute) {
                remaining.push(attribute);
            }
        }
        *attributes = remaining;
        Ok(parsed)
    }

    fn read(&mut self, attribute: &Attribute) -> syn::Result<()> {
        if matches!(attribute.meta, syn::Meta::Path(_)) {
            return Ok(());
        }
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("description") {
                self.description = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("rename") {
                self.rename = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("default") {
                let has_value = meta.input.peek(Token![=]);
                self.default = Some(if has_value {
                    Fallback::Value(meta.value()?.parse()?)
                } else {
                    Fallback::OfType
                });
            } else {
                return Err(
                    meta.error("unknown member of `arg`; known: description, default, rename")
                );
            }
            Ok(())
        })
    }
}

/// Returns the name of a type if the type is an extractor; `None` for any other type.
fn extractor(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let name = last.ident.to_string();
    let is_generic = match &last.arguments {
        PathArguments::AngleBracketed(inside) => {
            inside.args.iter().any(|one| matches!(one, GenericArgument::Type(_)))
        }
        _ => false,
    };
    let known = if is_generic { &GENERIC_EXTRACTORS[..] } else { &EXTRACTORS[..] };
    known.contains(&&*name).then_some(name)
}

fn name(pattern: &Pat) -> syn::Result<Ident> {
    match pattern {
        Pat::Ident(plain) if plain.subpat.is_none() && plain.by_ref.is_none() => {
            Ok(plain.ident.clone())
        }
        other => Err(syn::Error::new_spanned(
            other,
            "an argument needs a plain name, which is its name on the wire; mark an extractor with `#[extract]`",
        )),
    }
}

/// Refuses an extractor that is borrowed or optional: it would be an argument, and the errors of the derives would not
/// name the remedy.
fn refuse_wrapped_extractor(ty: &Type) -> syn::Result<()> {
    let inner = match ty {
        Type::Reference(reference) => Some(&*reference.elem),
        Type::Path(path) => path.path.segments.last().and_then(optional),
        _ => None,
    };
    let Some(name) = inner.and_then(extractor) else { return Ok(()) };
    let message = format!(
        "take the extractor `{name}` by value; mark an argument whose type has this name with `#[arg]`"
    );
    Err(syn::Error::new_spanned(ty, message))
}

/// Returns the `T` of `Option<T>`; `None` for any other type.
fn optional(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(inside) = &segment.arguments else { return None };
    match inside.args.first() {
        Some(GenericArgument::Type(ty)) if segment.ident == "Option" => Some(ty),
        _ => None,
    }
}

/// Returns whether a type is named `Path`, like that of the standard library.
fn is_path(ty: &TypePath) -> bool {
    let last = ty.path.segments.last();
    last.is_some_and(|last| last.ident == "Path" && last.arguments.is_empty())
}

/// Returns the owned type of an argument's field (e.g. `String` for `&str`), and whether the function borrows it.
fn owned(ty: &Type) -> syn::Result<(Type, bool)> {
    let (owned, is_borrowed) = match ty {
        Type::Reference(reference) if reference.mutability.is_none() => {
            let owned = match &*reference.elem {
                Type::Path(path) if path.path.is_ident("str") => {
                    parse_quote!(::std::string::String)
                }
                Type::Slice(slice) => {
                    let element = &slice.elem;
                    parse_quote!(::std::vec::Vec<#element>)
                }
                // A type of this name may also be a type of the program, which is its own owned type.
                Type::Path(path) if is_path(path) => {
                    parse_quote!(<#path as ::std::borrow::ToOwned>::Owned)
                }
                other => other.clone(),
            };
            (owned, true)
        }
        other => (other.clone(), false),
    };
    if matches!(owned, Type::ImplTrait(_)) {
        let message = "an argument needs a named type, because its schema comes from the type";
        return Err(syn::Error::new_spanned(ty, message));
    }
    let borrows = quote!(#owned).into_iter().any(borrows);
    if borrows {
        let message = "an argument may be borrowed as a whole (`&str`, `&T`), but not in parts; use the owned type, e.g. `Option<String>`";
        return Err(syn::Error::new_spanned(ty, message));
    }
    Ok((owned, is_borrowed))
}

/// Returns whether a token is `&`, or is a group that contains `&`.
fn borrows(token: TokenTree) -> bool {
    match token {
        TokenTree::Punct(punct) => punct.as_char() == '&',
        TokenTree::Group(group) => group.stream().into_iter().any(borrows),
        _ => false,
    }
}
