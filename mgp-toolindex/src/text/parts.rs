//! What of a tool is searched: the texts it and its server say (MGP §16.4).
//!
//! Applies to: inbound.

use std::borrow::Cow;

use mgp_types::mcp::Tool;

use super::schema::{Parameter, parameters};

/// The texts of a tool, each cut at its bound.
#[derive(Clone, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) name: &'a str,
    pub(crate) title: Option<&'a str>,
    pub(crate) description: &'a str,
    pub(crate) parameters: Vec<Parameter<'a>>,
    pub(crate) outputs: Vec<Parameter<'a>>,
    pub(crate) server_id: &'a str,
    pub(crate) server_name: Option<&'a str>,
    pub(crate) server_description: Option<&'a str>,
    pub(crate) categories: Vec<&'a str>,
    pub(crate) keywords: Vec<&'a str>,
}

/// How much of a tool is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes of a description.
    pub(crate) description: usize,
    /// Bytes of what is said of one parameter.
    pub(crate) parameter: usize,
    /// Parameters.
    pub(crate) parameters: usize,
}

impl<'a> Parts<'a> {
    /// The texts of a tool; who else has a say is filled in after.
    pub(crate) fn of(tool: &'a Tool, server_id: &'a str, bounds: Bounds) -> Self {
        let schema = tool.input_schema.as_payload().as_str();
        let output = tool.output_schema.as_ref().map_or("", |schema| schema.as_payload().as_str());
        let title = tool.title.as_deref().or_else(|| tool.annotations.as_ref()?.title.as_deref());
        Self {
            name: &tool.name,
            title: title.map(|title| cut(title, bounds.parameter)),
            description: cut(tool.description.as_deref().unwrap_or_default(), bounds.description),
            parameters: bounded(parameters(schema, bounds.parameters), bounds),
            outputs: bounded(parameters(output, bounds.parameters), bounds),
            server_id,
            server_name: None,
            server_description: None,
            categories: Vec::new(),
            keywords: Vec::new(),
        }
    }
}

fn bounded(mut all: Vec<Parameter<'_>>, bounds: Bounds) -> Vec<Parameter<'_>> {
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
        *text = Cow::Owned(cut(text, most).to_owned());
    }
}

/// The beginning of a text, at most so many bytes of it.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
