//! Expands a function to a builder expression that creates its tool.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, Ident, LitStr, Receiver, ReturnType, Signature, Type};

use crate::argument::{Field, Parameter};
use crate::describe;
use crate::options::Options;
use crate::path;

/// The receiver of a function.
pub(crate) enum ReceiverKind {
    /// No receiver: a free function, or an associated function without `self`.
    Nothing,
    /// `&self`.
    Reference,
    /// `self: Arc<Self>`.
    Shared,
}

pub(crate) struct Function {
    name: LitStr,
    description: LitStr,
    options: Options,
    ident: Ident,
    is_async: bool,
    pub(crate) own: ReceiverKind,
    /// `true` for a function in an impl block, which is called as `Self::name`.
    pub(crate) is_associated: bool,
    parameters: Vec<Parameter>,
    output: ReturnType,
    /// The attributes `cfg` of the function.
    pub(crate) conditions: Vec<Attribute>,
}

/// The maximum number of extractors of a handler; all arguments of the tool together count as one extractor.
const MAX_EXTRACTORS: usize = 8;

impl Function {
    /// Parses a function, and removes from its parameters the attributes that Rust does not allow on parameters.
    pub(crate) fn take(
        options: Options,
        attributes: &[Attribute],
        signature: &mut Signature,
    ) -> syn::Result<Self> {
        check(signature)?;
        let ident = signature.ident.clone();
        let plain = syn::ext::IdentExt::unraw(&ident);
        let name =
            options.name.clone().unwrap_or_else(|| LitStr::new(&plain.to_string(), ident.span()));
        check_name(&name)?;
        let description = match &options.description {
            Some(text) => text.clone(),
            None => LitStr::new(
                &describe::text(attributes).ok_or_else(|| missing_description(&ident))?,
                ident.span(),
            ),
        };
        let (mut own, mut parameters) = (ReceiverKind::Nothing, Vec::new());
        for input in &mut signature.inputs {
            match input {
                FnArg::Receiver(receiver) => own = receiver_kind(receiver)?,
                FnArg::Typed(typed) => parameters.push(Parameter::take(typed)?),
            }
        }
        let function = Self {
            name,
            description,
            is_async: signature.asyncness.is_some(),
            options,
            ident,
            own,
            is_associated: false,
            parameters,
            output: signature.output.clone(),
            conditions: attributes
                .iter()
                .filter(|one| one.path().is_ident("cfg"))
                .cloned()
                .collect(),
        };
        function.check_parameters(signature)?;
        Ok(function)
    }

    /// Adds a prefix to the name of the tool.
    pub(crate) fn prefix(&mut self, prefix: &LitStr) -> syn::Result<()> {
        let name = format!("{}{}", prefix.value(), self.name.value());
        self.name = LitStr::new(&name, self.name.span());
        check_name(&self.name)
    }

    fn check_parameters(&self, signature: &Signature) -> syn::Result<()> {
        let takes_args = self
            .parameters
            .iter()
            .any(|one| matches!(one, Parameter::Extractor { is_args: true, .. }));
        if takes_args && self.fields().next().is_some() {
            let message = "a tool takes either `Args<T>` or plain arguments; move these into `T`";
            return Err(syn::Error::new_spanned(&signature.inputs, message));
        }
        let extractors = self.parameters.len() - self.fields().count();
        if extractors + usize::from(self.fields().next().is_some()) > MAX_EXTRACTORS {
            let message = format!(
                "a tool takes at most {MAX_EXTRACTORS} extractors; take `Context`, which has most of them"
            );
            return Err(syn::Error::new_spanned(&signature.inputs, message));
        }
        if self.options.deny_unknown_fields && self.fields().next().is_none() {
            let message = "`deny_unknown_fields` needs plain arguments; with `Args<T>` put `#[serde(deny_unknown_fields)]` on `T`";
            return Err(syn::Error::new(self.ident.span(), message));
        }
        Ok(())
    }

    fn fields(&self) -> impl Iterator<Item = &Field> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(field) => Some(&**field),
            Parameter::Extractor { .. } => None,
        })
    }

    /// Returns the arguments struct and the functions that compute default values; empty if the tool has no arguments.
    pub(crate) fn arguments_type(&self) -> TokenStream {
        let fields: Vec<_> = self.fields().map(Field::declaration).collect();
        if fields.is_empty() {
            return TokenStream::new();
        }
        let defaults = self.fields().filter_map(Field::default_function);
        let deny = self.options.deny_unknown_fields.then(|| quote!(#[serde(deny_unknown_fields)]));
        let sdk = path::sdk();
        quote! {
            #[derive(#sdk::reexports::serde::Deserialize, #sdk::reexports::schemars::JsonSchema)]
            #[serde(crate = "::mgp_server_sdk::reexports::serde")]
            #[schemars(crate = "::mgp_server_sdk::reexports::schemars")]
            #deny
            struct __Arguments {
                #(#fields),*
            }
            #(#defaults)*
        }
    }

    /// Returns code that checks the types of the parameters and of the result at compile time. An error of such a check
    /// names the wrong type, whereas an error of the builder's trait bounds would name the whole function.
    pub(crate) fn checks(&self) -> TokenStream {
        let sdk = path::sdk();
        let extractors = self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Extractor { ty, .. } => Some(&**ty),
            Parameter::Argument(_) => None,
        });
        let extractors = extractors.filter(|ty| is_nameable(ty)).map(|ty| {
            quote_spanned! {ty.span()=>
                const _: () = {
                    const fn extractor<T: #sdk::FromCall>() {}
                    extractor::<#ty>();
                };
            }
        });
        let arguments = self.fields().filter(|field| field.is_plain && is_nameable(&field.ty));
        let arguments = arguments.map(|Field { ty, .. }| {
            quote_spanned! {ty.span()=>
                const _: () = {
                    const fn argument<T: #sdk::reexports::ToolArgument>() {}
                    argument::<#ty>();
                };
            }
        });
        let result = self.result_check();
        quote!(#(#extractors)* #(#arguments)* #result)
    }

    /// Returns code that checks the type of the result; `None` if the function returns nothing, or a type that cannot
    /// be named.
    fn result_check(&self) -> Option<TokenStream> {
        let (sdk, ReturnType::Type(_, ty)) = (path::sdk(), &self.output) else { return None };
        let check = match (self.options.json, returns_result(&self.output)) {
            (false, _) => quote_spanned! {ty.span()=>
                const fn result<T: #sdk::IntoToolResult>() {}
                result::<#ty>();
            },
            (true, false) => quote_spanned! {ty.span()=>
                const fn result<T>()
                where
                    #sdk::Json<T>: #sdk::IntoToolResult,
                {
                }
                result::<#ty>();
            },
            // The type may be an alias such as `std::io::Result<T>`, so the compiler finds its parts.
            (true, true) => quote_spanned! {ty.span()=>
                const fn result<T, E>(
                    _: ::std::marker::PhantomData<fn() -> ::std::result::Result<T, E>>,
                ) where
                    ::std::result::Result<#sdk::Json<T>, E>: #sdk::IntoToolResult,
                {
                }
                result(::std::marker::PhantomData::<fn() -> #ty>);
            },
        };
        is_nameable(ty).then(|| quote_spanned! {ty.span()=> const _: () = { #check };})
    }

    /// Returns the expression that creates the tool; it uses the variable `this` if the function has a `self`.
    pub(crate) fn expression(&self) -> TokenStream {
        let (sdk, name, description) = (path::sdk(), &self.name, &self.description);
        let handler = self.handler();
        let calls = self.options.builder_calls();
        let is_blocking =
            self.options.blocking.is_some() || (!self.is_async && self.options.inline.is_none());
        let mode = if self.options.inline.is_some() {
            quote!(.inline())
        } else if is_blocking {
            quote!(.on_blocking_pool())
        } else {
            TokenStream::new()
        };
        let tool = quote!(#sdk::Tool::new(#name, #description, #handler) #mode #calls);
        if !self.is_async {
            return tool;
        }
        let check = self.send_check();
        quote!({ #check #tool })
    }

    /// Returns a closure that is never called, and that compiles only if the future of the function is `Send`. If it is
    /// not, the compiler's error names the value that the function keeps across an `await`.
    fn send_check(&self) -> TokenStream {
        let (sdk, this) = (path::sdk(), format_ident!("this", span = Span::mixed_site()));
        let (mut parameters, call) = self.call();
        if !matches!(self.own, ReceiverKind::Nothing) {
            parameters.push(quote!(#this: ::std::sync::Arc<Self>));
        }
        quote!(let _ = |#(#parameters),*| #sdk::reexports::assert_send(#call);)
    }

    /// Returns the parameters of the closure that the builder receives, and the call of the function in this closure.
    fn call(&self) -> (Vec<TokenStream>, TokenStream) {
        let sdk = path::sdk();
        let arguments = format_ident!("arguments", span = Span::mixed_site());
        let this = format_ident!("this", span = Span::mixed_site());
        let mut closure_parameters = Vec::new();
        if self.fields().next().is_some() {
            closure_parameters.push(quote!(#sdk::Args(#arguments): #sdk::Args<__Arguments>));
        }
        let mut call_arguments = Vec::new();
        match self.own {
            ReceiverKind::Nothing => {}
            ReceiverKind::Reference => call_arguments.push(quote!(&#this)),
            ReceiverKind::Shared => call_arguments.push(quote!(#this)),
        }
        for (index, parameter) in self.parameters.iter().enumerate() {
            match parameter {
                Parameter::Argument(field) => {
                    call_arguments.push(field.expression(&arguments));
                }
                Parameter::Extractor { ty, .. } => {
                    let value = format_ident!("extracted{index}", span = Span::mixed_site());
                    closure_parameters.push(quote!(#value: #ty));
                    call_arguments.push(quote!(#value));
                }
            }
        }
        let callee = self.callee();
        (closure_parameters, quote!(#callee(#(#call_arguments),*)))
    }

    fn handler(&self) -> TokenStream {
        let sdk = path::sdk();
        let is_free = matches!(self.own, ReceiverKind::Nothing);
        if is_free && self.is_async && self.fields().next().is_none() && !self.options.json {
            return self.callee();
        }
        let this = format_ident!("this", span = Span::mixed_site());
        // The errors of the builder's trait bounds are at this place: in a block of tools, it is that of the function.
        let place = Span::call_site().located_at(self.ident.span());
        let (closure_parameters, call) = self.call();
        let borrows = self.fields().any(|field| field.is_borrowed);
        if is_free && self.is_async && !self.options.json && !borrows {
            return quote_spanned!(place=> |#(#closure_parameters),*| #call);
        }
        let wait = self.is_async.then(|| quote!(.await));
        let answer = match (self.options.json, returns_result(&self.output)) {
            (false, _) => quote!(#call #wait),
            (true, false) => quote!(#sdk::Json(#call #wait)),
            (true, true) => quote!((#call #wait).map(#sdk::Json)),
        };
        if is_free {
            return quote_spanned!(place=> |#(#closure_parameters),*| async move { #answer });
        }
        quote_spanned! {place=> {
            let #this = ::std::sync::Arc::clone(&#this);
            move |#(#closure_parameters),*| {
                let #this = ::std::sync::Arc::clone(&#this);
                async move { #answer }
            }
        }}
    }

    fn callee(&self) -> TokenStream {
        let ident = &self.ident;
        if self.is_associated { quote!(Self::#ident) } else { quote!(#ident) }
    }
}

/// Checks that a function can be a tool.
fn check(signature: &Signature) -> syn::Result<()> {
    if !signature.generics.params.is_empty() {
        let message = "a tool cannot be generic: its schema is written once; name the types, or register one tool for each with the builder";
        return Err(syn::Error::new_spanned(&signature.generics, message));
    }
    let unsupported = signature
        .constness
        .map(|token| token.span())
        .or_else(|| signature.abi.as_ref().map(Spanned::span))
        .or_else(|| signature.variadic.as_ref().map(Spanned::span));
    if let Some(span) = unsupported {
        return Err(syn::Error::new(span, "a tool is a plain `fn` or `async fn`"));
    }
    match &signature.output {
        ReturnType::Type(_, ty) if borrows(ty) => {
            let message = "a result outlives its call, so it cannot borrow from `self` or an argument; return an owned value, e.g. `String`";
            Err(syn::Error::new_spanned(ty, message))
        }
        _ => Ok(()),
    }
}

/// Returns whether a type contains a reference that is not `&'static`.
fn borrows(ty: &Type) -> bool {
    let text = quote!(#ty).to_string();
    text.split('&').skip(1).any(|rest| !rest.trim_start().starts_with("'static"))
}

fn check_name(name: &LitStr) -> syn::Result<()> {
    let text = name.value();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    if text.is_empty() || text.len() > 128 || !text.bytes().all(plain) {
        let message = format!(
            "`{text}` cannot be the name of a tool: 1 to 128 of the characters A-Z a-z 0-9 _ . / -"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    let reserved = ["mgp/", "mgp.", "mgp_"];
    match reserved.iter().find(|prefix| text.starts_with(**prefix)) {
        Some(prefix) => Err(syn::Error::new(
            name.span(),
            format!(
                "names that begin with `{prefix}` are reserved by the protocol; choose another"
            ),
        )),
        None => Ok(()),
    }
}

fn missing_description(ident: &Ident) -> syn::Error {
    syn::Error::new(
        ident.span(),
        "the tool needs a description for models to choose it by; add a doc comment (`/// …`) or `description = \"…\"`",
    )
}

fn receiver_kind(receiver: &Receiver) -> syn::Result<ReceiverKind> {
    let text = quote!(#receiver).to_string().replace(' ', "");
    match &*text {
        "&self" => Ok(ReceiverKind::Reference),
        _ if text.ends_with("Arc<Self>") => Ok(ReceiverKind::Shared),
        "&mutself" => Err(syn::Error::new_spanned(
            receiver,
            "calls of a tool run concurrently; take `&self` and keep mutable state in a `Mutex` or an atomic",
        )),
        _ => Err(syn::Error::new_spanned(
            receiver,
            "a tool is called more than once; take `&self` or `self: Arc<Self>`",
        )),
    }
}

fn returns_result(output: &ReturnType) -> bool {
    let ReturnType::Type(_, ty) = output else { return false };
    let Type::Path(path) = &**ty else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "Result")
}

/// Returns whether a type can be written outside of its function, i.e. contains neither `Self` nor `impl Trait`.
fn is_nameable(ty: &Type) -> bool {
    fn is_free(tokens: TokenStream) -> bool {
        tokens.into_iter().all(|token| match token {
            TokenTree::Ident(word) => word != "Self" && word != "impl",
            TokenTree::Group(group) => is_free(group.stream()),
            _ => true,
        })
    }
    is_free(quote!(#ty))
}
