//! Reads the parameters of a JSON Schema, at any depth, without recursion (MGP §16.4).

use std::borrow::Cow;

/// The maximum nesting depth that is read; no useful parameter is nested more deeply.
const MAX_DEPTH: usize = 64;

/// The maximum number of values that are read for a parameter, and the maximum number of its formats.
const MAX_VALUES: usize = 16;

/// A parameter, i.e. a property at any depth of the schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameter<'a> {
    pub(crate) name: Cow<'a, str>,
    /// The description, or the title if the parameter has no description.
    pub(crate) description: Cow<'a, str>,
    /// The values of `format` and of the content type.
    pub(crate) kinds: Vec<Cow<'a, str>>,
    /// The values of its `enum` and `const` that are texts.
    pub(crate) values: Vec<Cow<'a, str>>,
}

/// Returns the first `most` parameters of a schema, in the order of the text. If the JSON is not valid, the result is
/// incomplete.
pub(crate) fn parameters(schema: &str, most: usize) -> Vec<Parameter<'_>> {
    let mut reader = Reader { text: schema, most, all: Vec::new(), frames: Vec::new(), key: "" };
    reader.read();
    reader.all
}

/// Removes the white space between the values of a JSON text; also returns the nesting depth of the text.
pub(crate) fn compact(json: &str) -> (Cow<'_, str>, usize) {
    let bytes = json.as_bytes();
    let (mut depth, mut deepest, mut at) = (0usize, 0, 0);
    let mut out: Option<String> = None;
    let mut kept = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.get_or_insert_with(|| String::with_capacity(json.len()))
                    .push_str(&json[kept..at]);
                kept = at + 1;
            }
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    match out {
        None => (Cow::Borrowed(json), deepest),
        Some(mut out) => {
            out.push_str(&json[kept..]);
            (Cow::Owned(out), deepest)
        }
    }
}

/// Returns the index of the closing quote of the string that begins at `at`; if it has none, the index of the last
/// byte.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => return end,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    bytes.len().saturating_sub(1)
}

/// The role of an object or array in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Schema,
    Properties,
    /// A container of schemas that are not parameters themselves, e.g. `anyOf`.
    Schemas,
    Values,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: Kind,
    /// The index in `all` of the parameter that this object or array describes.
    parameter: Option<usize>,
    is_object: bool,
    /// `true` if the next string is a key of this object, and not a value.
    at_key: bool,
}

struct Reader<'a> {
    text: &'a str,
    most: usize,
    all: Vec<Parameter<'a>>,
    frames: Vec<Frame>,
    /// The key of the next value, as it is written in the JSON text, i.e. with escapes.
    key: &'a str,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        let bytes = self.text.as_bytes();
        let mut at = 0;
        // The number of open objects and arrays below the maximum depth. They are not read, only counted, so that their
        // end is found.
        let mut below = 0usize;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'{' | b'[' if below > 0 || self.frames.len() >= MAX_DEPTH => below += 1,
                b'}' | b']' if below > 0 => below -= 1,
                b'{' | b'[' => self.open(*byte == b'{'),
                b'}' | b']' => {
                    self.frames.pop();
                }
                b',' if below == 0 => {
                    if let Some(frame) = self.frames.last_mut() {
                        frame.at_key = frame.is_object;
                    }
                }
                b'"' => {
                    let end = string_end(bytes, at);
                    // In invalid JSON the string might have no end, or `end` might not be at a character boundary.
                    // Ignore such a string.
                    let Some(text) = self.text.get(at + 1..end) else { return };
                    if below == 0 {
                        self.string(text);
                    }
                    at = end;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn open(&mut self, is_object: bool) {
        let parent = self.frames.last().copied();
        let (kind, parameter) = match parent {
            None => (Kind::Schema, None),
            Some(Frame { kind: Kind::Schema, parameter, is_object: true, .. }) => {
                let kind = match self.key {
                    "properties" | "patternProperties" => Kind::Properties,
                    "$defs" | "definitions" | "dependentSchemas" | "anyOf" | "oneOf" | "allOf"
                    | "prefixItems" => Kind::Schemas,
                    "items"
                    | "additionalProperties"
                    | "not"
                    | "if"
                    | "then"
                    | "else"
                    | "contains"
                    | "unevaluatedProperties" => Kind::Schema,
                    "enum" => Kind::Values,
                    _ => Kind::Other,
                };
                (kind, parameter)
            }
            // In older drafts `items` can be a list of schemas.
            Some(Frame { kind: Kind::Schema | Kind::Schemas, parameter, .. }) => {
                (Kind::Schema, parameter)
            }
            Some(Frame { kind: Kind::Properties, parameter, .. }) => (Kind::Schema, parameter),
            Some(Frame { parameter, .. }) => (Kind::Other, parameter),
        };
        self.frames.push(Frame { kind, parameter, is_object, at_key: is_object });
    }

    fn string(&mut self, text: &'a str) {
        let Some(frame) = self.frames.last_mut() else { return };
        if frame.at_key {
            frame.at_key = false;
            self.key = text;
            if frame.kind == Kind::Properties {
                frame.parameter = (self.all.len() < self.most).then_some(self.all.len());
                if frame.parameter.is_some() {
                    let name = unescape(text);
                    self.all.push(Parameter { name, ..Parameter::default() });
                }
            }
            return;
        }
        let Frame { kind, is_object, .. } = *frame;
        let Some(parameter) = frame.parameter.and_then(|at| self.all.get_mut(at)) else { return };
        match (kind, is_object.then_some(self.key)) {
            (Kind::Schema, Some("description")) => parameter.description = unescape(text),
            (Kind::Schema, Some("title")) if parameter.description.is_empty() => {
                parameter.description = unescape(text);
            }
            (Kind::Schema, Some("format" | "contentMediaType" | "contentEncoding"))
                if parameter.kinds.len() < MAX_VALUES =>
            {
                parameter.kinds.push(unescape(text));
            }
            (Kind::Values, None) | (Kind::Schema, Some("const"))
                if parameter.values.len() < MAX_VALUES =>
            {
                parameter.values.push(unescape(text));
            }
            _ => {}
        }
    }
}

/// Returns the text of a JSON string without its quotes.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    serde_json::from_str(&format!("\"{text}\"")).map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(schema: &str, expected: &[&str]) {
        let found: Vec<String> = parameters(schema, 100)
            .iter()
            .map(|p| {
                let mut all = vec![format!("{}: {}", p.name, p.description)];
                all.extend(p.kinds.iter().map(|kind| format!("({kind})")));
                all.extend(p.values.iter().map(|value| format!("[{value}]")));
                all.join(" ")
            })
            .collect();
        assert_eq!(found, expected, "{schema}");
    }

    #[test]
    fn parameters_are_found_at_any_depth() {
        check(
            r#"{"type":"object","description":"not this","properties":{
                "path":{"type":"string","description":"Where \"it\" is","format":"uri"},
                "options":{"type":"object","properties":{"mode":{"enum":["r","w",1],"title":"Mode"}}},
                "list":{"type":"array","items":{"type":"object","properties":{"id":{}}}},
                "either":{"anyOf":[{"properties":{"left":true}},{"description":"Or this"}]}
            },"required":["path"]}"#,
            &[
                "path: Where \"it\" is (uri)",
                "options: ",
                "mode: Mode [r] [w]",
                "list: ",
                "id: ",
                "either: Or this",
                "left: ",
            ],
        );
        check(
            r#"{"$defs":{"A":{"properties":{"b":{"description":"c"}}}},"properties":{"description":{"default":{"properties":{"x":1}}}}}"#,
            &["b: c", "description: "],
        );
        check(r#"{"properties":{"t":{"contentMediaType":"text/csv"}}}"#, &["t:  (text/csv)"]);
        check(
            r#"{"properties":{"t":{"oneOf":[{"const":"png"},{"const":"webp"}]},"const":{"const":7}}}"#,
            &["t:  [png] [webp]", "const: "],
        );
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = r#"{"properties":{"a":"#.repeat(10_000) + "1" + &"}}".repeat(10_000);
        assert_eq!(parameters(&deep, 1000).len(), MAX_DEPTH / 2);
        assert_eq!(parameters(&deep, 5).len(), 5);
        let formats = r#"{"format":"csv"},"#.repeat(1000);
        let many = format!(r#"{{"properties":{{"a":{{"anyOf":[{formats}{{}}]}}}}}}"#);
        assert_eq!(parameters(&many, 5)[0].kinds.len(), MAX_VALUES);
        assert_eq!(compact(&deep).1, 20_000);
    }

    #[test]
    fn whitespace_is_removed_outside_of_strings() {
        let json = "{ \"a b\" :\n [1, \"c \\\" d\" ] }";
        assert_eq!(compact(json), (r#"{"a b":[1,"c \" d"]}"#.into(), 2));
        assert!(matches!(compact("{}"), (Cow::Borrowed("{}"), 1)));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in r#"([\{\}\[\],:"\\ ]|properties|description|enum|items|é|\\u00e9|1){0,60}"#) {
            parameters(&text, 8);
            compact(&text);
        }
    }
}
