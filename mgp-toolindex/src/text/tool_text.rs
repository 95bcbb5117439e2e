//! The searchable texts of a tool and its server (MGP §16.4).

use std::borrow::Cow;

use mgp_types::mcp::Tool;
use mgp_types::proposal::MediaSignature;

use super::schema::{Parameter, parameters};

/// The texts of a tool, each truncated to its limit.
#[derive(Clone, Debug)]
pub(crate) struct ToolText<'a> {
    pub(crate) name: &'a str,
    pub(crate) title: Option<&'a str>,
    pub(crate) description: &'a str,
    pub(crate) parameters: Vec<Parameter<'a>>,
    pub(crate) outputs: Vec<Parameter<'a>>,
    pub(crate) media: Option<MediaSignature>,
    pub(crate) server_id: &'a str,
    pub(crate) server_name: Option<&'a str>,
    pub(crate) server_description: Option<&'a str>,
    pub(crate) categories: Vec<&'a str>,
    pub(crate) keywords: Vec<&'a str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TextLimits {
    pub(crate) description: usize,
    /// The maximum number of bytes of a parameter's name, its description, and each of its values.
    pub(crate) parameter: usize,
    pub(crate) parameters: usize,
}

impl<'a> ToolText<'a> {
    /// Collects the texts of a tool; the caller adds the texts of the server and the operator.
    pub(crate) fn of(tool: &'a Tool, server_id: &'a str, bounds: TextLimits) -> Self {
        let schema = tool.input_schema.as_payload().as_str();
        let output = tool.output_schema.as_ref().map_or("", |schema| schema.as_payload().as_str());
        let title = tool.title.as_deref().or_else(|| tool.annotations.as_ref()?.title.as_deref());
        Self {
            name: &tool.name,
            title: title.map(|title| truncate(title, bounds.parameter)),
            description: truncate(
                tool.description.as_deref().unwrap_or_default(),
                bounds.description,
            ),
            parameters: truncated(parameters(schema, bounds.parameters), bounds),
            outputs: truncated(parameters(output, bounds.parameters), bounds),
            media: MediaSignature::of(tool),
            server_id,
            server_name: None,
            server_description: None,
            categories: Vec::new(),
            keywords: Vec::new(),
        }
    }
}

fn truncated(mut all: Vec<Parameter<'_>>, bounds: TextLimits) -> Vec<Parameter<'_>> {
    for parameter in &mut all {
        shorten(&mut parameter.name, bounds.parameter);
        shorten(&mut parameter.description, bounds.parameter);
        parameter.kinds.iter_mut().for_each(|kind| shorten(kind, bounds.parameter));
        parameter.values.iter_mut().for_each(|value| shorten(value, bounds.parameter));
    }
    all
}

fn shorten(text: &mut Cow<'_, str>, most: usize) {
    if text.len() > most {
        *text = Cow::Owned(truncate(text, most).to_owned());
    }
}

/// Returns the first `most` bytes of a text, or fewer bytes if a character would be split.
pub(crate) fn truncate(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
