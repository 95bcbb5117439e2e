//! Reads the YAML frontmatter at the beginning of a Markdown file as JSON (Agent Skills).
//!
//! The text may come from a peer: its size, depth and number of values are bounded, and aliases are refused.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Number, Value};

const MAX_BYTES: usize = 64 * 1024;
const MAX_DEPTH: usize = 16;
const MAX_VALUES: usize = 10_000;

/// The reason why a Markdown file has no valid frontmatter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrontmatterError {
    /// The file does not begin with frontmatter between two lines `---`.
    #[error("the file must begin with `---`, YAML, and another `---`")]
    Missing,
    /// The frontmatter is too large or nested too deeply, or has too many values.
    #[error("the frontmatter is too large; use at most 64 KiB, 16 levels and 10 000 values")]
    TooLarge,
    /// The frontmatter has an alias (`*name`), which repeats another value of the YAML text.
    #[error("the frontmatter has an alias; write the value again")]
    Alias,
    /// The frontmatter is not a single mapping, or a mapping has a key that is repeated or not a text.
    #[error("the frontmatter must be a mapping whose keys are texts, each of them used once")]
    Shape,
    /// The frontmatter is not YAML.
    #[error("the frontmatter is not YAML: {0}")]
    Yaml(#[from] ScanError),
}

/// Returns the frontmatter of a Markdown file as a JSON object.
///
/// ```
/// let text = "---\nname: tea\ntags: [hot, green]\n---\n# Tea\n";
/// let frontmatter = mgp_types::frontmatter(text).unwrap();
/// assert_eq!(serde_json::Value::from(frontmatter).to_string(), r#"{"name":"tea","tags":["hot","green"]}"#);
/// ```
///
/// # Errors
/// Returns the reason why the file has no valid frontmatter.
pub fn frontmatter(markdown: &str) -> Result<Map<String, Value>, FrontmatterError> {
    let yaml = yaml_of(markdown).ok_or(FrontmatterError::Missing)?;
    if yaml.len() > MAX_BYTES {
        return Err(FrontmatterError::TooLarge);
    }
    let mut builder = Builder::default();
    // Pull the parser's events one by one. Loading a whole document with the parser would be recursive, so deep nesting
    // could overflow the stack.
    for event in Parser::new_from_str(yaml) {
        builder.take(event?.0)?;
    }
    match builder.root {
        Some(Value::Object(map)) => Ok(map),
        _ => Err(FrontmatterError::Shape),
    }
}

fn yaml_of(markdown: &str) -> Option<&str> {
    let rest = markdown.strip_prefix("---")?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return rest.get(..at);
        }
        at += line.len();
    }
    None
}

/// The builder of a JSON value from the events of the YAML parser.
#[derive(Default)]
struct Builder {
    root: Option<Value>,
    open: Vec<Open>,
    values: usize,
}

/// A list or mapping whose end the parser has not reported yet.
enum Open {
    List(Vec<Value>),
    Mapping(Map<String, Value>, Option<String>),
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), FrontmatterError> {
        match event {
            Event::Alias(_) => Err(FrontmatterError::Alias),
            Event::Scalar(text, style, ..) => self.scalar(&text, style),
            Event::SequenceStart(..) => self.open(Open::List(Vec::new())),
            Event::MappingStart(..) => self.open(Open::Mapping(Map::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(list)) => self.put(Value::Array(list)),
                Some(Open::Mapping(map, None)) => self.put(Value::Object(map)),
                _ => Err(FrontmatterError::Shape),
            },
            _ => Ok(()),
        }
    }

    fn open(&mut self, open: Open) -> Result<(), FrontmatterError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(FrontmatterError::TooLarge);
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle) -> Result<(), FrontmatterError> {
        if let Some(Open::Mapping(map, key @ None)) = self.open.last_mut() {
            if map.contains_key(text) {
                return Err(FrontmatterError::Shape);
            }
            *key = Some(text.to_owned());
            return Ok(());
        }
        let value = if style == ScalarStyle::Plain { plain(text) } else { text.into() };
        self.put(value)
    }

    fn put(&mut self, value: Value) -> Result<(), FrontmatterError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(FrontmatterError::TooLarge);
        }
        match self.open.last_mut() {
            None if self.root.is_none() => self.root = Some(value),
            Some(Open::List(list)) => list.push(value),
            Some(Open::Mapping(map, key)) => {
                map.insert(key.take().ok_or(FrontmatterError::Shape)?, value);
            }
            None => return Err(FrontmatterError::Shape),
        }
        Ok(())
    }
}

/// Returns the value of a scalar without quotes (YAML 1.2 core schema).
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return true.into(),
        "false" | "False" | "FALSE" => return false.into(),
        _ => {}
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_or_else(|_| text.into(), Value::from);
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).map_or_else(|_| text.into(), Value::from);
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return text.into();
    }
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    // Texts such as `1e5` are numbers in YAML. Rust would also parse `inf` and `nan`, but texts that begin with a
    // letter have returned above.
    let float = text.parse::<f64>().ok().and_then(Number::from_f64);
    float.map_or_else(|| text.into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn frontmatter_becomes_json() {
        let text = "---\nname: tea\ndescription: >-\n  Steeps\n  tea\nlicense: \"MIT\"\nmetadata:\n  version: '2.1'\n  hot: true\n  cups: 3\n  share: 0.5\n  when: 2026-01-02\n  none:\n  # a comment\n  list: [a, 1, ~]\n---\n---\nx: 1\n";
        let expected = json!({
            "name": "tea", "description": "Steeps tea", "license": "MIT",
            "metadata": { "version": "2.1", "hot": true, "cups": 3, "share": 0.5, "when": "2026-01-02",
                "none": null, "list": ["a", 1, null] },
        });
        assert_eq!(Value::Object(frontmatter(text).unwrap()), expected);
        let windows = frontmatter("---\r\nname: tea\r\n---\r\n").unwrap();
        assert_eq!(Value::Object(windows), json!({ "name": "tea" }));
    }

    #[test]
    fn hostile_frontmatter_is_refused() {
        let deep = format!("---\na: {}\n---\n", "[".repeat(40_000));
        let bomb = "---\na: &a [x, x]\nb: [*a, *a]\n---\n".to_owned();
        let long = format!("---\na: {}\n---\n", "x".repeat(70_000));
        for text in [
            "",
            "---",
            "---\na: 1\n",
            "# Tea\n---\na: 1\n---\n",
            "---\n- a\n---\n",
            "---\na: 1\na: 2\n---\n",
        ] {
            assert!(frontmatter(text).is_err(), "{text}");
        }
        for text in [deep, bomb, long] {
            assert!(frontmatter(&text).is_err());
        }
    }
}
