//! Access to the Rust types of the messages, to check examples and to generate documents. The commands `spec`, `schema`
//! and `accept` use it.

use crate::run::{Context, Outcome};
use std::path::{Path, PathBuf};

/// Reads an example with the Rust type that its file name and contents select; returns the name of the type.
pub(crate) fn check_example(file: &str, text: &str) -> Outcome<String> {
    mgp_types::spec::check_example(file, text).map(str::to_owned).context(file)
}

/// Returns the path and the text of every generated file.
pub(crate) fn generated() -> Outcome<Vec<(PathBuf, String)>> {
    let mut files = vec![
        ("docs/methods.md".into(), mgp_types::schema::methods_markdown()),
        ("docs/config.md".into(), mgp_discovery::config_markdown()),
        (
            "docs/schema/mgp.toml.json".into(),
            serde_json::to_string_pretty(&mgp_discovery::config_schema())? + "\n",
        ),
    ];
    for (file, schema) in mgp_types::schema::message_schemas() {
        let text = serde_json::to_string_pretty(&schema)?;
        files.push((Path::new("docs/schema").join(file), text + "\n"));
    }
    Ok(files)
}
