//! Content blocks: what tools, prompts and models say (MCP `ContentBlock`, MGP §12.4).
//!
//! Applies to: both.

use super::{Meta, ResourceContents};
use crate::Payload;
use crate::record::{List, Number, RawObject, open_enum, record, tagged};

open_enum! {
    /// Who speaks.
    pub enum Role {
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

record! {
    /// Hints on how to use content.
    pub struct Annotations {
        /// Whom it is for.
        list audience: List<Role>,
        /// How important it is, 0 to 1.
        opt priority: Option<Number>,
        /// When it changed last.
        opt last_modified as "lastModified": Option<String>,
    }

    /// A picture of a tool, server or resource.
    pub struct Icon {
        /// Where it is.
        req src: String,
        /// Its media type.
        opt mime_type as "mimeType": Option<String>,
        /// Sizes such as `48x48` or `any`.
        opt sizes: Option<Payload>,
        /// `light` or `dark`.
        opt theme: Option<String>,
    }

    /// Text.
    pub struct TextContent tagged "type" = "text" {
        /// The text.
        req text: String,
        /// Hints.
        opt annotations: Option<Annotations>,
        /// Beside the content.
        opt meta as "_meta": Option<Meta>,
    }

    /// A picture.
    pub struct ImageContent tagged "type" = "image" {
        /// Base64.
        req data: String,
        /// Its media type.
        req mime_type as "mimeType": String,
        /// Hints.
        opt annotations: Option<Annotations>,
        /// Beside the content.
        opt meta as "_meta": Option<Meta>,
    }

    /// Sound.
    pub struct AudioContent tagged "type" = "audio" {
        /// Base64.
        req data: String,
        /// Its media type.
        req mime_type as "mimeType": String,
        /// Hints.
        opt annotations: Option<Annotations>,
        /// Beside the content.
        opt meta as "_meta": Option<Meta>,
    }

    /// A resource that can be read.
    pub struct ResourceLink tagged "type" = "resource_link" {
        /// Where it is.
        req uri: String,
        /// Name for programs.
        req name: String,
        /// Name for people.
        opt title: Option<String>,
        /// What it is.
        opt description: Option<String>,
        /// Its media type.
        opt mime_type as "mimeType": Option<String>,
        /// Its size in bytes.
        opt size: Option<u64>,
        /// Pictures.
        list icons: List<Icon>,
        /// Hints.
        opt annotations: Option<Annotations>,
        /// Beside the content.
        opt meta as "_meta": Option<Meta>,
    }

    /// A resource with its content.
    pub struct EmbeddedResource tagged "type" = "resource" {
        /// The content.
        req resource: ResourceContents,
        /// Hints.
        opt annotations: Option<Annotations>,
        /// Beside the content.
        opt meta as "_meta": Option<Meta>,
    }

    /// The model wants to use a tool (sampling, 2025-11-25).
    pub struct ToolUseContent tagged "type" = "tool_use" {
        /// Names this use.
        req id: String,
        /// The tool.
        req name: String,
        /// Its arguments.
        req input: RawObject,
        /// Beside the content.
        opt meta as "_meta": Option<Meta>,
    }

    /// What a tool said to the model (sampling, 2025-11-25).
    pub struct ToolResultContent tagged "type" = "tool_result" {
        /// The use it answers.
        req tool_use_id as "toolUseId": String,
        /// What it said.
        req content: Vec<ContentBlock>,
        /// The same as data.
        opt structured_content as "structuredContent": Option<Payload>,
        /// Whether the tool failed.
        opt is_error as "isError": Option<bool>,
        /// Beside the content.
        opt meta as "_meta": Option<Meta>,
    }
}

tagged! {
    /// A piece of content.
    pub enum ContentBlock by "type" {
        /// Text.
        "text" => Text(TextContent),
        /// A picture.
        "image" => Image(ImageContent),
        /// Sound.
        "audio" => Audio(AudioContent),
        /// A resource that can be read.
        "resource_link" => ResourceLink(ResourceLink),
        /// A resource with its content.
        "resource" => Resource(EmbeddedResource),
        /// The model wants to use a tool (sampling).
        "tool_use" => ToolUse(ToolUseContent),
        /// What a tool said to the model (sampling).
        "tool_result" => ToolResult(ToolResultContent),
    }
}

impl ContentBlock {
    /// Makes a text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text.into()))
    }

    /// Borrows the text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_nested_without_end_is_refused() {
        let open = r#"{"type":"tool_result","toolUseId":"u","content":["#;
        for (depth, fits) in [(4, true), (100, false), (20_000, false)] {
            let text = format!("{}{}", open.repeat(depth), "]}".repeat(depth));
            assert_eq!(serde_json::from_str::<ContentBlock>(&text).is_ok(), fits, "{depth}");
        }
        assert_eq!(ContentBlock::text("still counting from 0").as_text().map(str::len), Some(21));
        assert!(serde_json::from_str::<ContentBlock>(r#"{"type":"text","text":""}"#).is_ok());
    }
}
