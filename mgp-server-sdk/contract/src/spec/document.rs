//! Reads specifications in Markdown. The reader accepts any text, and reports what it cannot use as flaws.

use semver::Version;
use serde_json::Value;

use super::parts::Part;
use super::write::{DEPRECATED, UNDESCRIBED};
use crate::checker::first_violation;
use crate::contract::Contract;
use crate::lint::{Lint, LintLevel, lint};

/// The maximum number of tools in a specification.
const MAX_TOOLS: usize = 10_000;

/// The word that precedes the version of a tool, as in `**Version**: 1.2.3`.
const LABEL: &str = "version";

/// The keywords by which a JSON Schema is recognized: an object needs at least one of them.
const KEYWORDS: &[&str] =
    &["$ref", "$schema", "allOf", "anyOf", "const", "enum", "not", "oneOf", "properties", "type"];

/// The contents of a specification.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SpecDocument {
    /// The tools that have a name and an input schema.
    pub contracts: Vec<Contract>,
    /// The flaws of the specification.
    pub lints: Vec<Lint>,
    /// The line of the first section of a tool from which no contract could be read, because the name or the input
    /// schema is missing or unusable.
    pub(crate) unread: Option<usize>,
}

#[derive(Default)]
struct Section {
    line: usize,
    /// The name in the heading of the section.
    title: Option<String>,
    /// The level of the headings that begin the parts of the section; 0 before the first part.
    level: usize,
    parts: [Option<Body>; 8],
    version: Option<String>,
}

/// The content of one part of a section.
#[derive(Default)]
struct Body {
    line: usize,
    text: String,
    /// The fenced blocks of JSON, each with the number of its line.
    blocks: Vec<(usize, String)>,
}

/// Reads a specification.
///
/// ```
/// let document = mgp_contract::read_spec("## Tool: `files.read`\n### 1. Purpose\nReads a file.");
/// assert!(document.lints.iter().any(|lint| lint.message.contains("Input Schema")));
/// ```
#[must_use]
pub fn read_spec(text: &str) -> SpecDocument {
    let mut document = SpecDocument::default();
    let sections = sections(text, &mut document);
    if sections.is_empty() {
        let message = "the document describes no tool; begin each one with a heading `Tool: NAME`";
        document.lints.push(Lint::new(LintLevel::Error, "", message).at(1));
    }
    for section in sections {
        section.judge(&mut document);
    }
    document
}

/// Splits a document into one section per tool. Adds the flaws that concern no section to `document`.
fn sections(text: &str, document: &mut SpecDocument) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut part: Option<Part> = None;
    // The line at which the open fenced block begins, and its text if it is JSON.
    let mut block: Option<(usize, Option<String>)> = None;
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let trimmed = line.trim_start();
        if let Some(info) = trimmed.strip_prefix("```") {
            if let Some((line, json)) = block.take() {
                if let (Some(json), Some(body)) = (json, body_of(&mut sections, part)) {
                    body.blocks.push((line, json));
                }
            } else {
                let info = info.trim().to_ascii_lowercase();
                let is_json = info.is_empty() || info.starts_with("json");
                block = Some((number, is_json.then(String::new)));
            }
            continue;
        }
        if let Some((_, json)) = &mut block {
            if let Some(json) = json {
                json.push_str(line);
                json.push('\n');
            }
            continue;
        }
        if let Some((level, heading)) = heading(trimmed) {
            part = open(&mut sections, level, heading, number, part);
            if sections.len() > MAX_TOOLS {
                sections.pop();
                let message = format!("only the first {MAX_TOOLS} tools are read");
                document.lints.push(Lint::new(LintLevel::Error, "", message).at(number));
                document.unread = Some(number);
                return sections;
            }
            continue;
        }
        if let Some(section) = sections.last_mut() {
            section.read_version(trimmed);
        }
        if let Some(body) = body_of(&mut sections, part) {
            body.text.push_str(trimmed);
            body.text.push('\n');
        }
    }
    if let Some((line, _)) = block {
        let message = "the fenced block is not closed";
        document.lints.push(Lint::new(LintLevel::Warning, "", message).at(line));
    }
    sections
}

fn body_of(sections: &mut [Section], part: Option<Part>) -> Option<&mut Body> {
    sections.last_mut()?.parts[part?.index()].as_mut()
}

/// Returns the level and the text of a heading; `None` if the line is not a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line[level..].trim();
    ((1..=6).contains(&level) && line[level..].starts_with(' ')).then_some((level, text))
}

/// Begins the section or part to which a heading belongs; returns the part to which the following lines belong.
fn open(
    sections: &mut Vec<Section>,
    level: usize,
    heading: &str,
    line: usize,
    current: Option<Part>,
) -> Option<Part> {
    let is_tool = heading.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("tool:"));
    if is_tool {
        let name = heading[5..].trim().trim_matches('`').trim();
        let title = (!name.is_empty()).then(|| name.to_owned());
        sections.push(Section { line, title, ..Section::default() });
        return None;
    }
    // A heading of a deeper level than the parts belongs to the current part, whatever its text is.
    let is_deeper =
        sections.last().is_some_and(|section| section.level > 0 && level > section.level);
    if is_deeper && current.is_some() {
        return current;
    }
    // A heading of level 1 is the title of the document, and does not begin a part.
    let part = Part::of_heading(heading).filter(|_| level > 1)?;
    let is_new = sections.last().is_none_or(|section| section.parts[part.index()].is_some());
    if is_new && (sections.is_empty() || part.index() == 0) {
        sections.push(Section { line, ..Section::default() });
    }
    let section = sections.last_mut()?;
    if section.level == 0 {
        section.level = level;
    }
    section.parts[part.index()].get_or_insert_with(|| Body { line, ..Body::default() });
    Some(part)
}

impl Section {
    /// Reads a line such as `**Version**: 1.2.3`.
    fn read_version(&mut self, line: &str) {
        // Remove marks such as `**` only at the ends, because a pre-release such as 1.0.0-rc.1 contains one of these
        // characters.
        let is_mark = |c: char| "*`-_ \t".contains(c);
        let line = line.trim_start_matches(is_mark);
        let Some((label, rest)) = line.split_at_checked(LABEL.len()) else { return };
        let version = rest.trim_start_matches(|c: char| is_mark(c) || c == ':');
        if label.eq_ignore_ascii_case(LABEL)
            && self.version.is_none()
            && version.starts_with(|c: char| c.is_ascii_digit())
        {
            let version = version.split_whitespace().next().unwrap_or_default();
            self.version = Some(version.trim_end_matches(is_mark).to_owned());
        }
    }

    fn part(&self, part: Part) -> Option<&Body> {
        self.parts[part.index()].as_ref()
    }

    fn name(&self) -> Option<String> {
        let quoted = |body: &Body| {
            let mut pieces = body.text.split('`');
            pieces.nth(1).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
        };
        self.part(Part::Name).and_then(quoted).or_else(|| self.title.clone())
    }

    /// Creates the contract of the section, and adds it and the flaws of the section to a document.
    fn judge(self, document: &mut SpecDocument) {
        let name = self.name();
        let shown = name.clone().unwrap_or_default();
        let mut lints = Vec::new();
        let mut add = |level, line, message: String| {
            lints.push(Lint::new(level, &shown, message).at(line));
        };
        for (part, heading, _) in Part::ALL {
            match self.part(part) {
                None => {
                    let message = format!("part {}, `{heading}`, is missing", part.index() + 1);
                    add(LintLevel::Error, self.line, message);
                }
                Some(body) if body.text.trim().is_empty() && body.blocks.is_empty() => {
                    add(LintLevel::Error, body.line, format!("`{heading}` is empty"));
                }
                Some(_) => {}
            }
        }
        match &name {
            None => {
                add(LintLevel::Error, self.line, "it has no invocation name in backquotes".into());
            }
            Some(name) if !is_dotted(name) => {
                let message = "the name is not of the form `module.tool` in lower case";
                add(LintLevel::Warning, self.line, message.into());
            }
            Some(_) => {}
        }
        match self.version.as_deref().map(Version::parse) {
            None => add(LintLevel::Warning, self.line, "it has no `**Version**: X.Y.Z`".into()),
            Some(Err(error)) => add(LintLevel::Warning, self.line, format!("the version: {error}")),
            Some(Ok(_)) => {}
        }
        let input = self.schema(Part::Input, LintLevel::Error, &mut add);
        let output = self.schema(Part::Output, LintLevel::Warning, &mut add);
        if let Some(input) = &input {
            self.judge_examples(name.as_deref(), input, &mut add);
        }
        // A section with neither a name nor an input schema, e.g. an `Overview` before the first tool, is not a tool.
        let is_tool = name.is_some() || self.part(Part::Input).is_some();
        if is_tool && (name.is_none() || input.is_none()) {
            document.unread = document.unread.or(Some(self.line));
        }
        if let (Some(name), Some(input)) = (&name, input) {
            let contract = self.contract(name, input, output);
            let is_version = |lint: &Lint| lint.message.contains("_meta.version");
            let is_output = |lint: &Lint| lint.message.contains("no output schema");
            let own = lint(&contract).into_iter();
            // Add the flaws that `lint` finds in the contract, except those of the version and the output schema, which
            // the code above already reported with their lines.
            lints.extend(own.filter(|lint| !is_version(lint) && !is_output(lint)));
            document.contracts.push(contract);
        }
        document.lints.append(&mut lints);
    }

    fn contract(&self, name: &str, input: Value, output: Option<Value>) -> Contract {
        let text = self.part(Part::Purpose).map_or("", |body| body.text.as_str());
        let is_note =
            |line: &str| [DEPRECATED, UNDESCRIBED].contains(&line) || line.contains("**Version**");
        let lines = text.lines().filter_map(|line| match line.strip_prefix('>') {
            Some(quoted) => Some(quoted.strip_prefix(' ').unwrap_or(quoted)),
            None => Some(line.trim()).filter(|line| !is_note(line)),
        });
        let description = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
        let mut contract = Contract::from_parts(name, &description, input, output);
        if let Some(version) = &self.version {
            contract.definition["_meta"] = serde_json::json!({ "version": version });
        }
        contract
    }

    /// Returns the schema in a part: the first JSON block that is an empty object, or an object with a keyword of JSON
    /// Schema. If the part lacks such a block, reports a flaw.
    fn schema(
        &self,
        part: Part,
        missing: LintLevel,
        add: &mut impl FnMut(LintLevel, usize, String),
    ) -> Option<Value> {
        let body = self.part(part)?;
        let mut broken = None;
        for (line, block) in &body.blocks {
            match serde_json::from_str::<Value>(block) {
                Ok(Value::Object(members))
                    if members.is_empty()
                        || KEYWORDS.iter().any(|keyword| members.contains_key(*keyword)) =>
                {
                    return Some(members.into());
                }
                Ok(_) => {}
                Err(error) => broken = broken.or(Some((*line, error.to_string()))),
            }
        }
        if let Some((line, error)) = broken {
            add(LintLevel::Error, line, format!("the block is not JSON: {error}"));
        } else {
            let message = format!("`{}` has no JSON Schema in a fenced block", part.heading());
            add(missing, body.line, message);
        }
        None
    }

    fn judge_examples(
        &self,
        name: Option<&str>,
        input: &Value,
        add: &mut impl FnMut(LintLevel, usize, String),
    ) {
        let Some(body) = self.part(Part::Examples) else { return };
        let mut calls = 0;
        for (line, block) in &body.blocks {
            let Ok(example) = serde_json::from_str::<Value>(block) else {
                add(LintLevel::Warning, *line, "the example is not JSON".into());
                continue;
            };
            let Some(arguments) = example.get("arguments") else { continue };
            calls += 1;
            let called = example.get("tool_name").or_else(|| example.get("name"));
            if called.and_then(Value::as_str).is_some_and(|called| Some(called) != name) {
                add(LintLevel::Warning, *line, "the example calls another tool".into());
            }
            if let Some(violation) = first_violation(input, arguments) {
                add(LintLevel::Error, *line, format!("the example does not fit: {violation}"));
            }
        }
        if calls == 0 {
            add(LintLevel::Warning, body.line, "there is no example of a call in JSON".into());
        }
    }
}

/// Returns whether a name has the form `module.tool` in lower case.
fn is_dotted(name: &str) -> bool {
    let permits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(permits);
    name.contains('.') && name.split('.').all(is_part)
}
