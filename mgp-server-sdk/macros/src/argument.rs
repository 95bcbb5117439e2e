//! The parameters of a function: arguments of the tool, or extractors.
//!
//! Applies to: inbound.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, GenericArgument, Ident, LitStr, Pat, PatType, PathArguments, Token, Type,
};

use crate::describe;

/// Types that are taken from the call by their last name.
const EXTRACTORS: [&str; 9] = [
    "Cancelled",
    "Context",
    "Deadline",
    "Grants",
    "Outlet",
    "Peer",
    "Principal",
    "SessionInfo",
    "Trace",
];

/// The same for types with a parameter.
const GENERIC_EXTRACTORS: [&str; 2] = ["Args", "State"];

/// One parameter of a function.
pub(crate) enum Parameter {
    /// An argument of the tool, as a field of the arguments type.
    Argument(Box<Field>),
    /// Something taken from the call.
    Extractor { ty: Type, is_args: bool },
}

/// A field of the arguments type.
pub(crate) struct Field {
    pub(crate) name: Ident,
    ty: Type,
    attributes: Vec<TokenStream>,
    default: Option<Expr>,
}

/// What `#[arg]` and `#[extract]` say.
#[derive(Default)]
struct Marks {
    is_arg: bool,
    is_extract: bool,
    description: Option<LitStr>,
    rename: Option<LitStr>,
    /// `default` alone, or with a value.
    default: Option<Option<Expr>>,
    /// `#[serde(…)]` and `#[schemars(…)]`, for the field.
    passed_on: Vec<Attribute>,
}

impl Parameter {
    /// Reads a parameter, and leaves in it what a function may have.
    pub(crate) fn take(parameter: &mut PatType) -> syn::Result<Self> {
        let description = describe::text(&parameter.attrs);
        let marks = Marks::take(&mut parameter.attrs)?;
        let extractor = extractor(&parameter.ty);
        if marks.is_extract || (extractor.is_some() && !marks.is_arg) {
            let is_args = extractor.as_deref() == Some("Args");
            return Ok(Self::Extractor { ty: (*parameter.ty).clone(), is_args });
        }
        let name = name(&parameter.pat)?;
        check_type(&parameter.ty)?;
        let description = marks.description.as_ref().map(LitStr::value).or(description);
        let mut attributes: Vec<_> =
            description.iter().map(|text| quote!(#[doc = #text])).collect();
        if let Some(rename) = &marks.rename {
            attributes.push(quote!(#[serde(rename = #rename)]));
        }
        attributes.extend(marks.passed_on.iter().map(|attribute| quote!(#attribute)));
        let default = match marks.default {
            Some(Some(value)) => {
                let function = default_name(&name).to_string();
                attributes.push(quote!(#[serde(default = #function)]));
                Some(value)
            }
            Some(None) => {
                attributes.push(quote!(#[serde(default)]));
                None
            }
            None => None,
        };
        let ty = (*parameter.ty).clone();
        Ok(Self::Argument(Box::new(Field { name, ty, attributes, default })))
    }
}

impl Field {
    /// The field as it stands in the arguments type.
    pub(crate) fn declaration(&self) -> TokenStream {
        let Self { name, ty, attributes, .. } = self;
        quote!(#(#attributes)* #name: #ty)
    }

    /// The function that makes its default.
    pub(crate) fn default_function(&self) -> Option<TokenStream> {
        let (value, ty, function) = (self.default.as_ref()?, &self.ty, default_name(&self.name));
        Some(quote! {
            fn #function() -> #ty {
                #value
            }
        })
    }
}

fn default_name(field: &Ident) -> Ident {
    format_ident!("__default_{}", syn::ext::IdentExt::unraw(field))
}

impl Marks {
    fn take(attributes: &mut Vec<Attribute>) -> syn::Result<Self> {
        let mut marks = Self::default();
        let mut kept = Vec::new();
        for attribute in attributes.drain(..) {
            let path = attribute.path();
            if path.is_ident("arg") {
                marks.is_arg = true;
                marks.read(&attribute)?;
            } else if path.is_ident("extract") {
                marks.is_extract = true;
            } else if path.is_ident("serde") || path.is_ident("schemars") {
                marks.passed_on.push(attribute);
            } else if !describe::is_doc(&attribute) {
                kept.push(attribute);
            }
        }
        *attributes = kept;
        Ok(marks)
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
                self.default = Some(if has_value { Some(meta.value()?.parse()?) } else { None });
            } else {
                return Err(
                    meta.error("unknown member of `arg`; known: description, default, rename")
                );
            }
            Ok(())
        })
    }
}

/// The name of an extractor, where the type is one.
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

/// The name of an argument.
fn name(pattern: &Pat) -> syn::Result<Ident> {
    match pattern {
        Pat::Ident(plain) if plain.subpat.is_none() && plain.by_ref.is_none() => {
            Ok(plain.ident.clone())
        }
        other => Err(syn::Error::new(
            other.span(),
            "an argument needs a plain name, which is its name on the wire; if it is an extractor, mark it `#[extract]`",
        )),
    }
}

/// Arguments are read from the call, so they cannot borrow and must have a name.
fn check_type(ty: &Type) -> syn::Result<()> {
    match ty {
        Type::Reference(reference) => {
            let text = matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str"));
            let fix = if text { "write `String`" } else { "take it by value" };
            Err(syn::Error::new(ty.span(), format!("an argument cannot borrow; {fix}")))
        }
        Type::ImplTrait(_) => Err(syn::Error::new(
            ty.span(),
            "an argument needs a named type, because its schema comes from the type",
        )),
        _ => Ok(()),
    }
}
