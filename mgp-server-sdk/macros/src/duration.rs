//! Durations with a unit: `500ms`, `5s`, `2m`, `1h`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

/// Returns the expression of a duration.
pub(crate) fn duration(text: &LitStr) -> syn::Result<TokenStream> {
    let value = text.value();
    let wrong = || {
        let message =
            format!("`{value}` is not a valid duration; use a number and a unit: 500ms, 5s, 2m, 1h");
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
