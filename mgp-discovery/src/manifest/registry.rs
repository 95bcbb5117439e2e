//! Reads a file with the entries of a registry, each in the form of `server.json`.

use std::path::Path;

use mgp_types::proposal::ServerRecommendation;
use serde::Deserialize;
use serde_json::Value;

use super::file::{ManifestError, read_json};
use crate::import::is_withdrawn;

/// The maximum number of servers that are read from a registry.
const MAX_SERVERS: usize = 20_000;

/// A server that a registry lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryServer {
    /// The name of the server, e.g. `io.github.example/figma`.
    pub name: String,
    /// The display name of the server.
    pub title: Option<String>,
    /// A description of the server.
    pub description: String,
    /// Words that help searches find the server.
    pub keywords: Vec<String>,
    /// The URL of a page about the server.
    pub url: Option<String>,
    /// The way to obtain credentials for the server.
    pub auth_flow: Option<String>,
}

impl RegistryServer {
    /// Returns the server as a recommendation; its `match_confidence` is not set yet.
    #[must_use]
    pub fn recommendation(&self) -> ServerRecommendation {
        let mut recommendation = ServerRecommendation::new(self.name.as_str());
        recommendation.registry_url.clone_from(&self.url);
        recommendation.auth_flow.clone_from(&self.auth_flow);
        let description = Some(&self.description).filter(|text| !text.is_empty());
        recommendation.description = description.cloned();
        recommendation
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerJson {
    #[serde(alias = "server", alias = "server_name")]
    name: String,
    title: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default, alias = "capabilities", alias = "tags")]
    keywords: Vec<String>,
    #[serde(alias = "registry_url")]
    registry_url: Option<String>,
    website_url: Option<String>,
    repository: Option<Repository>,
    #[serde(alias = "auth_flow")]
    auth_flow: Option<String>,
}

#[derive(Deserialize)]
struct Repository {
    url: Option<String>,
}

/// Reads a registry file: a list of `server.json` entries, or a registry's response, which is an object with the member
/// `servers`. Skips entries in any other form, entries beyond the maximum number, and servers that the registry marks
/// as deprecated or deleted.
///
/// # Errors
/// [`ManifestError`] if the file cannot be read or has neither form.
pub fn read_registry(path: &Path) -> Result<Vec<RegistryServer>, ManifestError> {
    let mut entries = match read_json::<Value>(path)? {
        Value::Array(entries) => entries,
        Value::Object(mut page) => match page.remove("servers") {
            Some(Value::Array(entries)) => entries,
            _ => return Err(invalid(path)),
        },
        _ => return Err(invalid(path)),
    };
    entries.retain(|entry| !is_withdrawn(entry));
    let total = entries.len();
    let servers: Vec<_> = entries.into_iter().take(MAX_SERVERS).filter_map(entry).collect();
    if servers.len() < total {
        tracing::warn!(
            file = %path.display(),
            left_out = total - servers.len(),
            "registry entries left out"
        );
    }
    Ok(servers)
}

fn invalid(path: &Path) -> ManifestError {
    let what = "this is neither a list of `server.json` entries nor an object with `servers`";
    ManifestError::Invalid { path: path.to_owned(), what: what.to_owned() }
}

fn entry(mut value: Value) -> Option<RegistryServer> {
    // A registry wraps each entry: `{"server": {…}, "_meta": {…}}`.
    if value.get("server").is_some_and(Value::is_object) {
        value = value.get_mut("server")?.take();
    }
    let server: ServerJson = serde_json::from_value(value).ok()?;
    let url = server.registry_url.or(server.website_url);
    Some(RegistryServer {
        name: Some(server.name).filter(|name| !name.trim().is_empty())?,
        title: server.title,
        description: server.description,
        keywords: server.keywords,
        url: url.or_else(|| server.repository.and_then(|repository| repository.url)),
        auth_flow: server.auth_flow,
    })
}

#[cfg(test)]
mod tests {
    use mgp_testkit::temp_dir;

    use super::*;

    #[test]
    fn entries_are_read_from_a_list_and_from_the_answer_of_a_registry() {
        let one = r#"{"name":"io.example/figma","description":"Designs","websiteUrl":"https://f.example",
            "auth_flow":"oauth2_device","keywords":["design"]}"#;
        let folder = temp_dir();
        let path = folder.path().join("registry.json");
        for text in [
            format!("[{one},7]"),
            format!(r#"{{"servers":[{{"server":{one},"_meta":{{}}}}]}}"#),
            format!(r#"{{"servers":[{one}]}}"#),
        ] {
            std::fs::write(&path, &text).unwrap();
            let servers = read_registry(&path).unwrap();
            assert_eq!(servers.len(), 1, "{text}");
            let recommendation = servers[0].recommendation();
            assert_eq!(recommendation.server, "io.example/figma");
            assert_eq!(recommendation.registry_url.as_deref(), Some("https://f.example"));
            assert_eq!(recommendation.auth_flow.as_deref(), Some("oauth2_device"));
        }
        std::fs::write(&path, "{}").unwrap();
        assert!(read_registry(&path).unwrap_err().to_string().contains("neither"));
    }

    #[test]
    fn a_server_that_the_registry_withdrew_is_left_out() {
        let folder = temp_dir();
        let path = folder.path().join("registry.json");
        let entry = |name: &str, status: &str| {
            let meta = format!(r#"{{"io.modelcontextprotocol.registry/official":{status}}}"#);
            format!(r#"{{"server":{{"name":"{name}"}},"_meta":{meta}}}"#)
        };
        let entries = [
            entry("active", r#"{"status":"active"}"#),
            entry("deleted", r#"{"status":"deleted"}"#),
            entry("deprecated", r#"{"status":"deprecated"}"#),
        ];
        std::fs::write(&path, format!(r#"{{"servers":[{}]}}"#, entries.join(","))).unwrap();
        let names: Vec<_> = read_registry(&path).unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["active"]);
    }
}
