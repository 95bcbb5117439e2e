//! Proposal 1 (`manifest`): a description of a whole server in one document.

use super::{ServerRecommendation, ToolMembers};
use crate::mcp::{Meta, Tool};
use crate::record::{List, Number, RawObject, record};

record! {
    /// The identity of a server in its manifest.
    pub struct ManifestServer {
        /// The name of the server.
        req name: String,
        /// The version of the server.
        req version: String,
        /// The revision of MCP that the server implements.
        opt mcp_spec_version: Option<String>,
        /// A description of the server.
        opt description: Option<String>,
    }

    /// A tool in a manifest. Its field for unknown members also contains the members of other proposals (`cost`,
    /// `required_scopes`, `input_types` and so on).
    pub struct ManifestTool {
        /// The name of the tool.
        req name: String,
        /// A description of the tool.
        opt description: Option<String>,
        /// JSON Schema of the arguments.
        opt input_schema: Option<RawObject>,
        /// JSON Schema of the structured content.
        opt output_schema: Option<RawObject>,
    }

    /// A scope that a server can grant.
    pub struct ManifestScope {
        /// The name of the scope.
        req name: String,
        /// A description of the scope.
        opt description: Option<String>,
        /// The tools or operations that the scope allows.
        list grants: List<String>,
    }

    /// The authentication of a server.
    pub struct ManifestAuth {
        /// The supported mechanisms, e.g. `oauth2`.
        list mechanisms: List<String>,
        /// The scopes that the server can grant.
        list scopes: List<ManifestScope>,
    }

    /// A rate limit.
    pub struct ManifestRateLimit {
        /// The tool to which the limit applies; absent if it applies to the whole server.
        opt tool: Option<String>,
        /// The maximum number of calls in the period.
        opt max_requests: Option<Number>,
        /// The period for which calls are counted, in seconds.
        opt window_seconds: Option<Number>,
    }

    /// The description of a server: result of `mgp/manifest/get`.
    pub struct ServiceManifest {
        /// The version of the manifest's format.
        req manifest_version: String,
        /// The identity of the server.
        req server: ManifestServer,
        /// The tools of the server.
        req tools: Vec<ManifestTool>,
        /// The authentication of the server.
        opt auth: Option<ManifestAuth>,
        /// The names of the supported extensions.
        list supported_extensions: List<String>,
        /// The rate limits of the server.
        list rate_limits: List<ManifestRateLimit>,
        /// The servers that this server recommends.
        list recommendations: List<ServerRecommendation>,
        /// The time for which the manifest stays valid unless a notification reports a change, in seconds.
        opt manifest_ttl: Option<u64>,
    }

    /// Parameters of `mgp/manifest/get` and of `notifications/mgp.manifest.changed`.
    pub struct ManifestParams {
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

impl ManifestTool {
    /// Creates the manifest entry of a tool. Members that proposals add are copied, also those in `_meta`; MCP members
    /// for which a manifest has no member are left out.
    #[must_use]
    pub fn of(tool: &Tool) -> Self {
        let mut entry = Self::new(tool.name.as_str());
        entry.description.clone_from(&tool.description);
        entry.input_schema = Some(tool.input_schema.clone());
        entry.output_schema.clone_from(&tool.output_schema);
        entry.extra = tool.extra.clone();
        for (name, value) in ToolMembers::of(tool).in_meta() {
            entry.extra.insert(name, value.clone());
        }
        entry
    }

    /// Converts the manifest entry to a tool definition. If the entry has no schema, the definition accepts any
    /// arguments.
    #[must_use]
    pub fn to_tool(&self) -> Tool {
        let input = self.input_schema.clone().unwrap_or_else(RawObject::empty);
        let mut tool = Tool::new(self.name.as_str(), input);
        tool.description.clone_from(&self.description);
        tool.output_schema.clone_from(&self.output_schema);
        tool.extra = self.extra.clone();
        tool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_members_of_proposals_wherever_the_tool_has_them() {
        let text = r#"{"name":"export","inputSchema":{},"latency":"minutes",
            "_meta":{"cost":{"category":"metered"},"version":"1.0.0"}}"#;
        let entry = ManifestTool::of(&serde_json::from_str(text).unwrap());
        let written = serde_json::to_value(&entry).unwrap();
        assert_eq!(written["latency"], "minutes");
        assert_eq!(written["cost"]["category"], "metered");
        assert_eq!((written.get("_meta"), written.get("version")), (None, None));
    }
}
