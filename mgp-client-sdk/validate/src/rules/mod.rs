//! The rules about servers, by section.

mod base;
mod discovery;
mod errors;
mod events;
mod extensions;
mod features;
mod lifecycle;
mod modern;
mod negotiation;
mod proposals;
mod security;
mod streaming;
mod tools;

use crate::rule::Rule;

/// Returns all rules about servers, in the order they are checked.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    [
        base::RULES,
        tools::RULES,
        features::RULES,
        modern::RULES,
        extensions::RULES,
        negotiation::RULES,
        security::RULES,
        lifecycle::RULES,
        streaming::RULES,
        events::RULES,
        errors::RULES,
        discovery::RULES,
        proposals::RULES,
    ]
    .into_iter()
    .flatten()
}
