//! Extracts the text of doc comments.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the text of the doc comments among attributes; `None` if there are none.
pub(crate) fn text(attributes: &[Attribute]) -> Option<String> {
    let lines: Vec<_> = attributes.iter().filter_map(line).collect();
    // Remove the space that usually follows the slashes of a doc comment.
    let lines = lines.iter().flat_map(|text| text.split('\n'));
    let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let text = lines.join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}

pub(crate) fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
}

fn line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    match &meta.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if is_doc(attribute) => Some(text.value()),
        _ => None,
    }
}
