//! Exports tools as JSON: a catalogue of all tools, or one document per tool with examples.

use serde_json::{Map, Value, json};

use crate::contract::Contract;
use crate::example::examples;

/// Returns a catalogue of tools, which [`read_contracts`](crate::read_contracts) can read.
///
/// `generated_at` is the time in RFC 3339.
#[must_use]
pub fn catalog(tools: &[Contract], generated_at: &str) -> Value {
    let entry = |tool: &Contract| {
        let mut entry = tool.definition.clone();
        if let Some(entry) = entry.as_object_mut() {
            entry.entry("description").or_insert_with(|| "".into());
            entry.insert("tags".to_owned(), tags(tool));
        }
        entry
    };
    let tools: Vec<Value> = tools.iter().map(entry).collect();
    json!({ "tools": tools, "version": "1.0.0", "generated_at": generated_at })
}

/// Returns the schema of a tool's arguments, examples that fit it, and the tool's metadata.
#[must_use]
pub fn tool_export(tool: &Contract) -> Value {
    let mut export = json!({
        "name": tool.name,
        "schema": tool.input,
        "examples": examples(&tool.input).unwrap_or_default(),
        "metadata": metadata(tool),
    });
    if let Some(output) = &tool.output {
        export["output_schema"] = output.clone();
    }
    export
}

fn tags(tool: &Contract) -> Value {
    let own = tool.definition.get("tags").or_else(|| tool.meta("tags"));
    own.filter(|tags| tags.is_array()).cloned().unwrap_or_else(|| json!([]))
}

fn metadata(tool: &Contract) -> Value {
    let mut metadata = Map::new();
    for member in ["category", "author", "documentation_url"] {
        if let Some(text) = tool.meta(member).filter(|text| text.is_string()) {
            metadata.insert(member.to_owned(), text.clone());
        }
    }
    if let Some(version) = tool.version() {
        metadata.insert("version".to_owned(), version.to_string().into());
    }
    metadata.insert("deprecated".to_owned(), tool.is_deprecated().into());
    metadata.insert("tags".to_owned(), tags(tool));
    Value::Object(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_contracts;

    fn tool() -> Contract {
        Contract::from_definition(json!({
            "name": "FinancialAnalyzer",
            "description": "Analyzes stock data.",
            "inputSchema": { "type": "object", "properties": {
                "ticker_symbol": { "type": "string", "pattern": "^[A-Z]{1,5}$" },
                "period_days": { "type": "integer", "minimum": 1, "maximum": 365 },
                "analysis_type": { "type": "string", "enum": ["technical", "fundamental"], "default": "technical" },
            }, "required": ["ticker_symbol", "period_days"] },
            "_meta": { "version": "1.2.0", "category": "finance", "tags": ["financial"], "deprecated": { "in": "1.2.0" } },
        }))
        .unwrap()
    }

    #[test]
    fn a_catalogue_is_read_again_without_loss() {
        let text = catalog(&[tool()], "2026-01-15T10:30:00Z").to_string();
        let read = read_contracts(&text).unwrap();
        assert_eq!((read[0].input.clone(), read[0].version()), (tool().input, tool().version()));
        assert_eq!(catalog(&read, "2026-01-15T10:30:00Z").to_string(), text);
    }

    #[test]
    fn an_export_has_examples_and_metadata() {
        let export = tool_export(&tool());
        assert_eq!(
            export["examples"][0],
            json!({ "ticker_symbol": "A", "period_days": 1, "analysis_type": "technical" })
        );
        assert_eq!(export["examples"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            export["metadata"],
            json!({ "category": "finance", "version": "1.2.0", "deprecated": true, "tags": ["financial"] })
        );
    }
}
