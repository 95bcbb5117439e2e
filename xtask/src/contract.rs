//! The seam to the Rust types of the messages: which type reads an example, and what is generated from the types.
//!
//! Everything else here works without building `mgp-types`; these need its features `schema` and `service`.

#[cfg(not(feature = "types"))]
use crate::run::Failure;
use crate::run::Outcome;
#[cfg(feature = "types")]
use std::path::Path;
use std::path::PathBuf;

/// Reads an example with the Rust type its name asks for; returns the name of that type.
#[cfg(feature = "types")]
pub(crate) fn check_example(file: &str, text: &str) -> Outcome<String> {
    use crate::run::Context;
    let checked = mgp_types::spec::check_example(file, text);
    checked.map(str::to_owned).context(file)
}

/// Every file that is made from the types: its path and its text.
#[cfg(feature = "types")]
pub(crate) fn generated() -> Outcome<Vec<(PathBuf, String)>> {
    let mut files = vec![("docs/methods.md".into(), mgp_types::schema::methods_markdown())];
    for (file, schema) in mgp_types::schema::message_schemas() {
        let text = serde_json::to_string_pretty(&schema)?;
        files.push((Path::new("docs/schema").join(file), text + "\n"));
    }
    Ok(files)
}

/// Without the types, no example can be read.
#[cfg(not(feature = "types"))]
pub(crate) fn check_example(file: &str, _: &str) -> Outcome<String> {
    Err(without_types(file))
}

/// Without the types, there is nothing to make files from.
#[cfg(not(feature = "types"))]
pub(crate) fn generated() -> Outcome<Vec<(PathBuf, String)>> {
    Err(without_types("docs"))
}

#[cfg(not(feature = "types"))]
fn without_types(what: &str) -> Failure {
    Failure::new(format!("{what}: built without the feature `types` of xtask"))
}
