//! Features that few tools use; the index looks for them once, when it adds a tool.

use mgp_types::mcp::{Meta, Tool, key};
use mgp_types::proposal::MediaSignature;

use crate::text::truncate;

/// A feature that few tools use. Code that handles the feature checks [`IndexedTool::may_use`] first, and parses the
/// definition only if the result is `true`.
///
/// [`IndexedTool::may_use`]: crate::IndexedTool::may_use
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolFeature {
    /// A schema for structured results (`outputSchema`).
    OutputSchema,
    /// Arguments that callers over HTTP repeat in headers (`x-mcp-header`).
    HeaderParams,
    /// Calls that run as tasks (`execution.taskSupport`).
    Tasks,
    /// A maximum size of the input (`max_input_size_bytes`).
    InputLimit,
    /// A page that hosts show (`ui`).
    Page,
    /// The description declares the tool deprecated.
    Deprecated,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToolFeatures(u8);

/// The number of bytes at the beginning of a description that are searched for a note of deprecation.
const MAX_BEGINNING: usize = 200;

impl ToolFeatures {
    pub(crate) fn of(tool: &Tool) -> Self {
        let schema = tool.input_schema.as_payload().as_str();
        let is_limited = |media: MediaSignature| media.max_input_size_bytes.is_some();
        let has_page =
            |meta: &Meta| meta.get(key::UI).is_some() || meta.get(key::UI_RESOURCE_URI).is_some();
        let found = [
            (ToolFeature::OutputSchema, tool.output_schema.is_some()),
            // Search the schema as text. Treat any escape as a use of the feature, because the name of the member can
            // be written with escapes.
            (
                ToolFeature::HeaderParams,
                schema.contains("x-mcp-header") || schema.contains("\\u00"),
            ),
            (ToolFeature::Tasks, tool.execution.is_some()),
            (ToolFeature::InputLimit, MediaSignature::of(tool).is_some_and(is_limited)),
            (ToolFeature::Page, tool.meta.as_ref().is_some_and(has_page)),
            (ToolFeature::Deprecated, is_deprecated(tool.description.as_deref())),
        ];
        let declared = found.into_iter().filter(|(_, is_found)| *is_found);
        Self(declared.fold(0, |set, (feature, _)| set | feature.bit()))
    }

    pub(crate) fn has(self, feature: ToolFeature) -> bool {
        self.0 & feature.bit() != 0
    }
}

impl ToolFeature {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Returns whether a description states that the tool itself is deprecated. A description of a tool that finds
/// deprecated things does not count.
fn is_deprecated(description: Option<&str>) -> bool {
    let beginning = description.map(|text| truncate(text, MAX_BEGINNING));
    beginning.is_some_and(|text| {
        ["DEPRECATED", "[deprecated]", "(deprecated)", "Deprecated:", "is deprecated"]
            .iter()
            .any(|mark| text.contains(mark))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_found_in_the_definition_that_declares_it_and_in_no_other() {
        const ALL: [ToolFeature; 6] = [
            ToolFeature::OutputSchema,
            ToolFeature::HeaderParams,
            ToolFeature::Tasks,
            ToolFeature::InputLimit,
            ToolFeature::Page,
            ToolFeature::Deprecated,
        ];
        let plain = r#""description":"outputSchema, taskSupport, ui","inputSchema":{}"#;
        for (members, expected) in [
            (plain, None),
            (r#""inputSchema":{},"outputSchema":{}"#, Some(ToolFeature::OutputSchema)),
            (
                r#""inputSchema":{"properties":{"a":{"x-mcp-header":"A"}}}"#,
                Some(ToolFeature::HeaderParams),
            ),
            (
                r#""inputSchema":{"properties":{"a":{"x\u002dmcp-header":"A"}}}"#,
                Some(ToolFeature::HeaderParams),
            ),
            (
                r#""inputSchema":{},"execution":{"taskSupport":"optional"}"#,
                Some(ToolFeature::Tasks),
            ),
            (r#""inputSchema":{},"max_input_size_bytes":9"#, Some(ToolFeature::InputLimit)),
            (
                r#""inputSchema":{},"_meta":{"ui":{"resourceUri":"ui://a"}}"#,
                Some(ToolFeature::Page),
            ),
            (r#""inputSchema":{},"_meta":{"ui/resourceUri":"ui://a"}"#, Some(ToolFeature::Page)),
            (
                r#""inputSchema":{},"description":"Reads a file. DEPRECATED: use read_text_file.""#,
                Some(ToolFeature::Deprecated),
            ),
            (r#""inputSchema":{},"description":"Finds deprecated functions""#, None),
        ] {
            let tool: Tool = serde_json::from_str(&format!(r#"{{"name":"a",{members}}}"#)).unwrap();
            let features = ToolFeatures::of(&tool);
            for feature in ALL {
                assert_eq!(
                    features.has(feature),
                    expected == Some(feature),
                    "{feature:?}: {members}"
                );
            }
        }
    }
}
