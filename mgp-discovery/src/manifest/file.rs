//! Reads a manifest from a file, and checks it.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mgp_types::proposal::ServiceManifest;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The maximum size of a manifest or a registry in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

const MAX_TOOLS: usize = 10_000;

/// The reason why a manifest or a registry is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The file cannot be read.
    #[error("`{path}` cannot be read: {source}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is too long.
    #[error("`{path}` is longer than {MAX_BYTES} bytes")]
    TooLong {
        /// The path of the file.
        path: PathBuf,
    },
    /// The content of the file is not a valid manifest or registry.
    #[error("`{path}`: {what}")]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the content is not valid.
        what: String,
    },
}

/// Reads the manifest in a file.
///
/// # Errors
/// [`ManifestError`] if the file cannot be read, or its content is not a valid manifest.
///
/// ```
/// let path = std::env::temp_dir().join(format!("manifest-{}.json", std::process::id()));
/// let text = r#"{"manifest_version": "0.1.0", "server": {"name": "clock", "version": "1"},
///     "tools": [{"name": "now", "input_schema": {"type": "object"}}]}"#;
/// std::fs::write(&path, text).unwrap();
/// let manifest = mgp_discovery::read_manifest(&path).unwrap();
/// assert_eq!(manifest.tools[0].to_tool().name, "now");
/// # std::fs::remove_file(path).unwrap();
/// ```
pub fn read_manifest(path: &Path) -> Result<ServiceManifest, ManifestError> {
    let invalid = |what| ManifestError::Invalid { path: path.to_owned(), what };
    let mut value: Value = read_json(path)?;
    respell(&mut value);
    let manifest: ServiceManifest =
        serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
    check(&manifest).map_err(invalid)?;
    Ok(manifest)
}

/// Alternative names of a tool's members, which MCP and the examples of the extension use, each with the standard name.
const SPELLINGS: [(&str, &str); 4] = [
    ("tool", "name"),
    ("inputSchema", "input_schema"),
    ("parameters", "input_schema"),
    ("outputSchema", "output_schema"),
];

/// Renames the members of each tool to the names in the schema of the extension.
fn respell(manifest: &mut Value) {
    let tools = manifest.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten();
    for tool in tools.filter_map(Value::as_object_mut) {
        for (other, name) in SPELLINGS {
            if !tool.contains_key(name)
                && let Some(value) = tool.remove(other)
            {
                tool.insert(name.to_owned(), value);
            }
        }
    }
}

fn check(manifest: &ServiceManifest) -> Result<(), String> {
    if manifest.tools.len() > MAX_TOOLS {
        let tools = manifest.tools.len();
        return Err(format!("the manifest has {tools} tools; at most {MAX_TOOLS} are allowed"));
    }
    let mut names = HashSet::new();
    for (at, tool) in manifest.tools.iter().enumerate() {
        if tool.name.trim().is_empty() {
            return Err(format!("`tools[{at}].name` is empty; give the tool its name"));
        }
        if !names.insert(tool.name.as_str()) {
            return Err(format!("there are two tools `{}`; remove one", tool.name));
        }
    }
    Ok(())
}

/// Reads a JSON file of limited size; it may begin with a byte order mark.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ManifestError> {
    let io = |source| ManifestError::Io { path: path.to_owned(), source };
    // Check this before opening the file: opening a named pipe would block until it has a writer.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        let what = "it is not a plain file".to_owned();
        return Err(ManifestError::Invalid { path: path.to_owned(), what });
    }
    let file = std::fs::File::open(path).map_err(io)?;
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(io)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(ManifestError::TooLong { path: path.to_owned() });
    }
    serde_json::from_slice(text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text))
        .map_err(|error| ManifestError::Invalid { path: path.to_owned(), what: error.to_string() })
}

#[cfg(test)]
mod tests {
    use mgp_testkit::temp_dir;

    use super::*;

    #[track_caller]
    fn read(text: &str) -> Result<ServiceManifest, String> {
        let folder = temp_dir();
        let path = folder.path().join("manifest.json");
        std::fs::write(&path, text).unwrap();
        read_manifest(&path).map_err(|error| error.to_string())
    }

    fn with_tools(tools: &str) -> String {
        format!(
            r#"{{"manifest_version":"0.1.0","server":{{"name":"a","version":"1"}},"tools":[{tools}]}}"#
        )
    }

    #[test]
    fn a_manifest_is_read_in_each_of_three_spellings() {
        for (name, schema) in
            [("name", "input_schema"), ("name", "inputSchema"), ("tool", "parameters")]
        {
            let tool =
                format!(r#"{{"{name}":"t","{schema}":{{"type":"object","x":1}},"cost":{{}}}}"#);
            let manifest = read(&format!("\u{feff}{}", with_tools(&tool))).unwrap();
            let tool = manifest.tools[0].to_tool();
            assert_eq!(tool.name, "t");
            assert!(tool.input_schema.as_payload().as_str().contains(r#""x":1"#), "{schema}");
            assert!(tool.extra.get("cost").is_some());
        }
    }

    #[test]
    fn a_file_that_is_no_manifest_is_refused_with_the_reason() {
        for (text, expected) in [
            ("{".to_owned(), "EOF"),
            ("{}".to_owned(), "manifest_version"),
            (with_tools(r#"{"name":" "}"#), "`tools[0].name` is empty"),
            (with_tools(r#"{"name":"t"},{"name":"t"}"#), "two tools `t`"),
            // The text exceeds the size limit, and the limit falls in the middle of a character.
            ("é".repeat(2_100_000), "is longer than 4194304 bytes"),
        ] {
            let refused = read(&text).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        assert!(read_manifest(Path::new("/nowhere")).is_err());
        let refused = read_manifest(temp_dir().path()).unwrap_err().to_string();
        assert!(refused.contains("not a plain file"), "{refused}");
    }
}
