//! The seam to the Rust types of the messages: which type reads an example, and what is generated from the types.
//!
//! Everything else here works without building `mgp-types`; these three need its features `schema` and `service`.

#[cfg(not(feature = "types"))]
use crate::run::Failure;
use crate::run::Outcome;

/// Reads an example with the Rust type its name asks for; returns the name of that type.
#[cfg(feature = "types")]
pub(crate) fn check_example(file: &str, text: &str) -> Outcome<String> {
    use crate::run::Context;
    let checked = mgp_types::spec::check_example(file, text);
    checked.map(str::to_owned).context(file)
}

/// The JSON Schemas of the messages: file name and text.
#[cfg(feature = "types")]
pub(crate) fn schemas() -> Outcome<Vec<(String, String)>> {
    let schemas = mgp_types::schema::message_schemas().into_iter();
    let texts = schemas.map(|(file, schema)| {
        let mut text = serde_json::to_string_pretty(&schema)?;
        text.push('\n');
        Ok((file, text))
    });
    texts.collect()
}

/// The text of `docs/methods.md`.
#[cfg(feature = "types")]
pub(crate) fn methods_markdown() -> Outcome<String> {
    Ok(mgp_types::schema::methods_markdown())
}

/// Without the types, no example can be read.
#[cfg(not(feature = "types"))]
pub(crate) fn check_example(file: &str, _: &str) -> Outcome<String> {
    Err(without_types(file))
}

/// Without the types, there are no schemas.
#[cfg(not(feature = "types"))]
pub(crate) fn schemas() -> Outcome<Vec<(String, String)>> {
    Err(without_types("docs/schema"))
}

/// Without the types, there is no table of methods.
#[cfg(not(feature = "types"))]
pub(crate) fn methods_markdown() -> Outcome<String> {
    Err(without_types("docs/methods.md"))
}

#[cfg(not(feature = "types"))]
fn without_types(what: &str) -> Failure {
    Failure::new(format!("{what}: built without the feature `types` of xtask"))
}
