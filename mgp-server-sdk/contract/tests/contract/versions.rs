//! Tests which part of the version each kind of change raises, with two pairs of definitions per kind.

use mgp_contract::{Bump, Contract, compare, compare_all, read_contracts};
use serde_json::{Value, json};

use Bump::{Major, Minor, None as Same, Patch};

/// Returns a tool whose arguments or result have a member `x` with this schema.
fn tool(place: &str, schema: &str) -> Contract {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let mut definition =
        json!({ "name": "t", "description": "T.", "inputSchema": { "type": "object" } });
    match place {
        "in" => definition["inputSchema"] = schema,
        "out" => definition["outputSchema"] = schema,
        _ => {
            for (name, member) in schema.as_object().unwrap() {
                definition[name] = member.clone();
            }
        }
    }
    Contract::from_definition(definition).unwrap()
}

/// Rows: the place (arguments, result or whole definition), the old text, the new text, and the part
/// of the version to raise.
#[rustfmt::skip]
const PAIRS: &[(&str, &str, &str, Bump)] = &[
    // Nothing changed.
    ("in", r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, r#"{"properties":{"a":{"type":"string"}},"type":"object"}"#, Same),
    ("in", r#"{"type":"object","required":["a","b"]}"#, r#"{"type":"object","required":["b","a"]}"#, Same),
    // A required argument is added.
    ("in", r#"{"type":"object"}"#, r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#, Major),
    ("in", r#"{"properties":{"p":{"type":"object","properties":{}}}}"#,
        r#"{"properties":{"p":{"type":"object","properties":{"a":{}},"required":["a"]}}}"#, Major),
    // An optional argument is added.
    ("in", r#"{"type":"object"}"#, r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, Minor),
    ("in", r#"{"properties":{"l":{"items":{"properties":{"a":{}}}}}}"#, r#"{"properties":{"l":{"items":{"properties":{"a":{},"b":{}}}}}}"#, Minor),
    // An argument is removed.
    ("in", r#"{"properties":{"a":{},"b":{}}}"#, r#"{"properties":{"a":{}}}"#, Major),
    ("in", r#"{"properties":{"a":{}},"required":["a"]}"#, r#"{"properties":{}}"#, Major),
    // An argument becomes required, or optional.
    ("in", r#"{"properties":{"a":{}}}"#, r#"{"properties":{"a":{}},"required":["a"]}"#, Major),
    ("in", r#"{"properties":{"a":{},"b":{}},"required":["a"]}"#, r#"{"properties":{"a":{},"b":{}},"required":["a","b"]}"#, Major),
    ("in", r#"{"properties":{"a":{}},"required":["a"]}"#, r#"{"properties":{"a":{}}}"#, Minor),
    ("in", r#"{"properties":{"a":{}},"required":["a"]}"#, r#"{"properties":{"a":{}},"required":[]}"#, Minor),
    // The type of an argument changes, or allows more or fewer values.
    ("in", r#"{"properties":{"a":{"type":"string"}}}"#, r#"{"properties":{"a":{"type":"integer"}}}"#, Major),
    ("in", r#"{"properties":{"a":{"type":"object"}}}"#, r#"{"properties":{"a":{"type":["array","string"]}}}"#, Major),
    ("in", r#"{"properties":{"a":{"type":"integer"}}}"#, r#"{"properties":{"a":{"type":"number"}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"type":"string"}}}"#, r#"{"properties":{"a":{"type":["string","null"]}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"type":"number"}}}"#, r#"{"properties":{"a":{"type":"integer"}}}"#, Major),
    ("in", r#"{"properties":{"a":{}}}"#, r#"{"properties":{"a":{"type":"string"}}}"#, Major),
    // The list of allowed values (`enum` or `const`) changes.
    ("in", r#"{"enum":["a","b"]}"#, r#"{"enum":["a"]}"#, Major),
    ("in", r#"{"properties":{"a":{"type":"string"}}}"#, r#"{"properties":{"a":{"type":"string","enum":["x"]}}}"#, Major),
    ("in", r#"{"enum":["a"]}"#, r#"{"enum":["a","b"]}"#, Minor),
    ("in", r#"{"properties":{"a":{"const":1}}}"#, r#"{"properties":{"a":{"enum":[1,2]}}}"#, Minor),
    // A bound of a number or a length is added, removed or changed.
    ("in", r#"{"properties":{"a":{"minimum":1}}}"#, r#"{"properties":{"a":{"minimum":2}}}"#, Major),
    ("in", r#"{"properties":{"a":{"type":"string"}}}"#, r#"{"properties":{"a":{"type":"string","maxLength":9}}}"#, Major),
    ("in", r#"{"properties":{"a":{"maximum":1}}}"#, r#"{"properties":{"a":{"maximum":2}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"minItems":1}}}"#, r#"{"properties":{"a":{}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"multipleOf":2}}}"#, r#"{"properties":{"a":{"multipleOf":4}}}"#, Major),
    ("in", r#"{"properties":{"a":{"multipleOf":4}}}"#, r#"{"properties":{"a":{"multipleOf":2}}}"#, Minor),
    // A pattern, a format or `uniqueItems` is added, removed or changed.
    ("in", r#"{"properties":{"a":{"pattern":"^a"}}}"#, r#"{"properties":{"a":{"pattern":"^b"}}}"#, Major),
    ("in", r#"{"properties":{"a":{}}}"#, r#"{"properties":{"a":{"format":"uuid"}}}"#, Major),
    ("in", r#"{"properties":{"a":{"pattern":"^a"}}}"#, r#"{"properties":{"a":{}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"uniqueItems":true}}}"#, r#"{"properties":{"a":{"uniqueItems":false}}}"#, Minor),
    // Further members become allowed, or are no longer allowed.
    ("in", r#"{"properties":{}}"#, r#"{"properties":{},"additionalProperties":false}"#, Major),
    ("in", r#"{"additionalProperties":{"type":"number"}}"#, r#"{"additionalProperties":{"type":"string"}}"#, Major),
    ("in", r#"{"additionalProperties":false}"#, r#"{"additionalProperties":true}"#, Minor),
    ("in", r#"{"additionalProperties":false}"#, r#"{"additionalProperties":{"type":"string"}}"#, Minor),
    // An alternative is added or removed.
    ("in", r#"{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}"#, r#"{"properties":{"a":{"anyOf":[{"type":"string"}]}}}"#, Major),
    ("in", r#"{"oneOf":[{"required":["a"]}]}"#, r#"{"oneOf":[{"required":["a"]},{"required":["b"]}]}"#, Major),
    ("out", r#"{"oneOf":[{"required":["a"]},{"required":["b"]}]}"#, r#"{"oneOf":[{"required":["a"]}]}"#, Major),
    // Alternatives change their order, or a schema changes to which one refers.
    ("in", r#"{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"},{"type":"string"}]}}}"#,
        r#"{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string"},{"type":"string"}]}}}"#, Same),
    ("in", r#"{"anyOf":[{"required":["a"]},{"maxProperties":3},{"required":["b"]}]}"#,
        r#"{"anyOf":[{"maxProperties":4},{"required":["b"]},{"required":["a"]}]}"#, Minor),
    ("in", r##"{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/x"},{"type":"null"}]}},"$defs":{"x":{"type":"string"}}}"##,
        r##"{"properties":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/x"}]}},"$defs":{"x":{"type":"integer"}}}"##, Major),
    // A value that fits two alternatives of `oneOf` is not valid, unless no value can fit two.
    ("in", r#"{"properties":{"a":{"oneOf":[{"type":"string","maxLength":3},{"minLength":5}]}}}"#,
        r#"{"properties":{"a":{"oneOf":[{"type":"string","maxLength":9},{"minLength":5}]}}}"#, Major),
    ("in", r#"{"properties":{"a":{"oneOf":[{"type":"string","maxLength":3},{"type":"null"}]}}}"#,
        r#"{"properties":{"a":{"oneOf":[{"type":"string","maxLength":9},{"type":"null"}]}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"oneOf":[{"type":"object","required":["k"],"properties":{"k":{"const":"x"},"n":{"maximum":3}}},{"type":"object","required":["k"],"properties":{"k":{"const":"y"}}}]}}}"#,
        r#"{"properties":{"a":{"oneOf":[{"type":"object","required":["k"],"properties":{"k":{"const":"x"},"n":{"maximum":9}}},{"type":"object","required":["k"],"properties":{"k":{"const":"y"}}}]}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"null"}]}}}"#,
        r#"{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"null"},{"type":"null"}]}}}"#, Major),
    // A definition is compared again for an alternative of `oneOf`, and a new member there can make two fit.
    ("in", r##"{"properties":{"a":{"$ref":"#/$defs/x"},"b":{"oneOf":[{"$ref":"#/$defs/x"},{"minLength":5}]}},"$defs":{"x":{"type":"string","maxLength":3}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/x"},"b":{"oneOf":[{"$ref":"#/$defs/x"},{"minLength":5}]}},"$defs":{"x":{"type":"string","maxLength":9}}}"##, Major),
    ("in", r#"{"properties":{"a":{"oneOf":[{"properties":{"m":{}},"additionalProperties":false},{"properties":{"n":{}},"required":["n"]}]}}}"#,
        r#"{"properties":{"a":{"oneOf":[{"properties":{"m":{},"n":{}},"additionalProperties":false},{"properties":{"n":{}},"required":["n"]}]}}}"#, Major),
    // The `additionalProperties` of one schema do not know the `properties` of another.
    ("in", r#"{"properties":{"a":{"properties":{"m":{}},"additionalProperties":false}}}"#,
        r#"{"properties":{"a":{"allOf":[{"properties":{"m":{}}},{"additionalProperties":false}]}}}"#, Major),
    // A member is removed with the schema that describes it.
    ("in", r#"{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}"#, r#"{"allOf":[{"properties":{"a":{}}}]}"#, Major),
    ("in", r#"{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}"#, r#"{"properties":{"a":{}}}"#, Major),
    ("in", r#"{"type":"object","allOf":[{"properties":{"b":{}}}]}"#, r#"{"type":"object"}"#, Major),
    // The target of a reference by name, or by a pointer that is percent-encoded, changed.
    ("in", r##"{"properties":{"a":{"$ref":"#x"},"b":{"anyOf":[{"const":"c","$defs":{"x":{"$anchor":"x","type":"string"}}},{"const":"d"}]}}}"##,
        r##"{"properties":{"a":{"$ref":"#x"},"b":{"anyOf":[{"const":"c","$defs":{"x":{"$anchor":"x","type":"integer"}}},{"const":"d"}]}}}"##, Major),
    ("in", r##"{"properties":{"a":{"$ref":"#/properties/b/any%4ff/0"},"b":{"anyOf":[{"const":"c"},{"const":"d"}]}}}"##,
        r##"{"properties":{"a":{"$ref":"#/properties/b/any%4ff/0"},"b":{"anyOf":[{"const":"d"},{"const":"c"}]}}}"##, Major),
    ("in", r#"{"properties":{"a":{"const":"b"}}}"#, r#"{"properties":{"a":{"const":"b","enum":["c"]}}}"#, Major),
    // A list is replaced by members that restrict the values in another way, or a default of JSON Schema applies again.
    ("in", r#"{"anyOf":[{"properties":{"a":{"type":"string"}}},{"minProperties":1}]}"#, r#"{"properties":{"a":{"type":"integer"}}}"#, Major),
    ("in", r#"{"properties":{"a":{"contains":{},"minContains":0}}}"#, r#"{"properties":{"a":{"contains":{}}}}"#, Major),
    ("in", r#"{"allOf":[{"minProperties":1}]}"#, r#"{"allOf":[{"minProperties":1},{"maxProperties":3}]}"#, Major),
    ("in", r#"{"properties":{"a":{"anyOf":[{"maxLength":3},{}]}}}"#, r#"{"properties":{"a":{"anyOf":[{"maxLength":5},{}]}}}"#, Minor),
    // The same values are described in another form, as by another version of a generator, or in such a form a value
    // becomes valid or invalid.
    ("in", r#"{"properties":{"a":{"enum":["x"]}}}"#, r#"{"properties":{"a":{"type":"string","enum":["x"]}}}"#, Same),
    ("in", r#"{"properties":{"a":{"enum":["x"]}}}"#, r#"{"properties":{"a":{"type":"string"}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"const":"x"}}}"#, r#"{"properties":{"a":{"type":"string","enum":["x","y"]}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"enum":[1]}}}"#, r#"{"properties":{"a":{"enum":[1.0]}}}"#, Same),
    ("in", r#"{"properties":{"a":{"type":"string"}}}"#, r#"{"properties":{"a":{"type":"string","minLength":0}}}"#, Same),
    ("in", r#"{"properties":{"a":{"minimum":1}}}"#, r#"{"properties":{"a":{"exclusiveMinimum":0}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"minimum":1}}}"#, r#"{"properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}"#, Major),
    ("in", r#"{"properties":{"a":{"type":"integer","minimum":1}}}"#,
        r#"{"properties":{"a":{"type":"integer","exclusiveMinimum":0}}}"#, Patch),
    ("in", r##"{"properties":{"a":{"allOf":[{"$ref":"#/$defs/x"}],"default":"d","title":"A"}},"$defs":{"x":{"type":"string"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/x","default":"d","title":"A"}},"$defs":{"x":{"type":"string"}}}"##, Same),
    ("in", r#"{"properties":{"a":{"type":["string","null"],"minLength":1}}}"#,
        r#"{"properties":{"a":{"anyOf":[{"type":"string","minLength":1},{"type":"null"}]}}}"#, Patch),
    ("in", r#"{"properties":{"a":{"type":["string","null"]}}}"#,
        r#"{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}}}"#, Minor),
    ("in", r#"{"properties":{"a":{"oneOf":[{"const":"x","title":"X"},{"const":"y"}]}}}"#,
        r#"{"properties":{"a":{"enum":["x","y"]}}}"#, Patch),
    ("in", r#"{"properties":{"a":{"allOf":[{"type":"string"},{"minLength":2}]}}}"#,
        r#"{"properties":{"a":{"type":"string","minLength":2}}}"#, Patch),
    ("in", r#"{"properties":{"a":{"anyOf":[{"type":"integer","minimum":3},{"type":"number"}]}}}"#,
        r#"{"properties":{"a":{"type":"number","minimum":3}}}"#, Major),
    ("in", r#"{"properties":{"a":{"anyOf":[{"type":"string","title":"A"},{"type":"null"}]}}}"#,
        r#"{"properties":{"a":{"anyOf":[{"type":"string","title":"B"},{"type":"integer"},{"type":"null"}]}}}"#, Minor),
    // A default value is changed, added or removed.
    ("in", r#"{"properties":{"a":{"default":1}}}"#, r#"{"properties":{"a":{"default":2}}}"#, Major),
    ("in", r#"{"properties":{"a":{}}}"#, r#"{"properties":{"a":{"default":2}}}"#, Minor),
    // Members beside a reference change.
    ("in", r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/x","maxLength":9}},"$defs":{"x":{"type":"string"}}}"##, Major),
    ("in", r##"{"properties":{"a":{"$ref":"#/$defs/x","maxLength":9}},"$defs":{"x":{"type":"string"}}}"##, r#"{"properties":{"a":{"type":"string"}}}"#, Major),
    ("in", r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/y"},"y":{}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/y","type":"string"},"y":{}}}"##, Major),
    ("in", r#"{"properties":{"a":{"type":"string"}}}"#,
        r##"{"properties":{"a":{"$ref":"#/$defs/x","description":"A."}},"$defs":{"x":{"type":"string"}}}"##, Same),
    // The schemas of the first items change their order or their number.
    ("in", r#"{"properties":{"a":{"prefixItems":[{"type":"string"},{"type":"number"}]}}}"#,
        r#"{"properties":{"a":{"prefixItems":[{"type":"number"},{"type":"string"}]}}}"#, Major),
    ("in", r#"{"properties":{"a":{"prefixItems":[{"type":"string"},{"type":"number"}]}}}"#,
        r#"{"properties":{"a":{"prefixItems":[{"type":"number"}]}}}"#, Major),
    ("in", r#"{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":{"type":"number"}}}}"#,
        r#"{"properties":{"a":{"prefixItems":[{"type":"string"},{"type":"number"}],"items":{"type":"number"}}}}"#, Same),
    ("in", r#"{"properties":{"a":{"prefixItems":[{"type":"string"},{"type":"number"}]}}}"#,
        r#"{"properties":{"a":{"prefixItems":[{"type":"string"}]}}}"#, Minor),
    // A schema is replaced by a reference to it, or the referenced schema changes.
    ("in", r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}"##, r#"{"properties":{"a":{"type":"string"}}}"#, Same),
    ("in", r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"number"}}}"##, Major),
    ("in", r##"{"properties":{"n":{"$ref":"#"},"a":{"type":"integer"}}}"##, r##"{"properties":{"n":{"$ref":"#"},"a":{"type":"number"}}}"##, Minor),
    ("in", r##"{"properties":{"a":{"$ref":"#/$defs/My%20T"}},"$defs":{"My T":{"type":"string"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/My%20T"}},"$defs":{"My T":{"type":"integer"}}}"##, Major),
    // A reference changes that has no target in the schema, or is an anchor.
    ("in", r##"{"properties":{"a":{"$ref":"#A"}},"$defs":{"x":{"$anchor":"A"},"y":{"$anchor":"B","type":"null"}}}"##,
        r##"{"properties":{"a":{"$ref":"#B"}},"$defs":{"x":{"$anchor":"A"},"y":{"$anchor":"B","type":"null"}}}"##, Major),
    ("out", r#"{"properties":{"a":{"$ref":"https://a.example/1.json"}}}"#, r#"{"properties":{"a":{"$ref":"https://a.example/2.json"}}}"#, Major),
    // A keyword changes whose content is not compared in detail.
    ("in", r#"{"not":{"required":["a"]}}"#, r#"{"not":{"required":["b"]}}"#, Major),
    ("in", r#"{"dependentRequired":{"a":["b"]}}"#, "{}", Minor),
    // Members of the result are removed or added.
    ("out", r#"{"properties":{"a":{},"b":{}}}"#, r#"{"properties":{"a":{}}}"#, Major),
    ("out", r#"{"items":{"properties":{"a":{}}}}"#, r#"{"items":{"properties":{}}}"#, Major),
    ("out", r#"{"properties":{"a":{}}}"#, r#"{"properties":{"a":{},"b":{}}}"#, Minor),
    ("out", r#"{"properties":{"a":{}}}"#, r#"{"properties":{"a":{},"b":{}},"required":["b"]}"#, Minor),
    ("out", r#"{"properties":{"a":{}},"required":["a"]}"#, r#"{"properties":{"a":{}}}"#, Major),
    ("out", r#"{"properties":{"a":{}}}"#, r#"{"properties":{"a":{}},"required":["a"]}"#, Minor),
    ("out", r#"{"properties":{"a":{"type":"integer"}}}"#, r#"{"properties":{"a":{"type":"number"}}}"#, Major),
    ("out", r#"{"properties":{"a":{"type":["string","null"]}}}"#, r#"{"properties":{"a":{"type":"string"}}}"#, Minor),
    ("out", r#"{"enum":["a"]}"#, r#"{"enum":["a","b"]}"#, Major),
    ("out", r#"{"enum":["a","b"]}"#, r#"{"enum":["a"]}"#, Minor),
    ("out", r#"{"properties":{"a":{"default":1}}}"#, r#"{"properties":{"a":{"default":2}}}"#, Patch),
    ("", r#"{"outputSchema":{"type":"object"}}"#, "{}", Major),
    ("", "{}", r#"{"outputSchema":{"type":"object"}}"#, Minor),
    // Only texts change.
    ("", r#"{"description":"A."}"#, r#"{"description":"B."}"#, Patch),
    ("", "{}", r#"{"title":"T"}"#, Patch),
    ("in", r#"{"properties":{"a":{"description":"A."}}}"#, r#"{"properties":{"a":{"description":"B."}}}"#, Patch),
    ("in", r#"{"examples":[1]}"#, r#"{"examples":[2],"$comment":"c"}"#, Patch),
    // The hints in `annotations` change.
    ("", r#"{"annotations":{"readOnlyHint":true}}"#, "{}", Major),
    ("", r#"{"annotations":{"destructiveHint":false}}"#, r#"{"annotations":{"destructiveHint":true}}"#, Major),
    ("", "{}", r#"{"annotations":{"idempotentHint":true}}"#, Minor),
    ("", "{}", r#"{"annotations":{"openWorldHint":false}}"#, Minor),
    // The security metadata changes.
    ("", r#"{"security":{"risk_level":"safe"}}"#, r#"{"security":{"risk_level":"moderate"}}"#, Major),
    ("", r#"{"security":{"risk_level":"safe"}}"#, r#"{"security":{"risk_level":"safe","permissions_required":["network"]}}"#, Major),
    ("", r#"{"security":{"risk_level":"dangerous"}}"#, r#"{"security":{"risk_level":"safe"}}"#, Minor),
    ("", r#"{"_meta":{"dev.cloto/mgp":{"security":{"risk_level":"safe"}}}}"#, "{}", Major),
    ("", "{}", r#"{"security":{"risk_level":"safe","validator":"none"}}"#, Minor),
    ("", "{}", r#"{"security":{"risk_level":"safe","validator":"sandbox"}}"#, Major),
    ("", "{}", r#"{"security":{"risk_level":"dangerous","permissions_required":["shell.execute"]}}"#, Major),
    // The declared effect of repeated calls changes.
    ("", r#"{"_meta":{"idempotency":"yes"}}"#, r#"{"_meta":{"idempotency":"no"}}"#, Major),
    ("", r#"{"_meta":{"idempotency":"no"}}"#, r#"{"_meta":{"idempotency":"partial"}}"#, Minor),
    ("", "{}", r#"{"_meta":{"idempotency":"yes"}}"#, Minor),
    // Calls must be confirmed, or need other scopes.
    ("", r#"{"security":{"risk_level":"safe"}}"#, r#"{"security":{"risk_level":"safe","confirmation_required":true}}"#, Major),
    ("", r#"{"_meta":{"requires_confirmation":true}}"#, r#"{"requires_confirmation":true}"#, Same),
    ("", r#"{"_meta":{"requires_confirmation":true}}"#, "{}", Minor),
    ("", r#"{"_meta":{"required_scopes":["a"]}}"#, r#"{"_meta":{"required_scopes":["a","b"]}}"#, Major),
    ("", r#"{"_meta":{"required_scopes":["a","b"]}}"#, r#"{"required_scopes":["b"]}"#, Minor),
    ("", r#"{"security":{"risk_level":"safe"}}"#, r#"{"security":{"risk_level":"safe","validator":"sandboxed"}}"#, Major),
    // The support for tasks, or the deprecation, changes.
    ("", "{}", r#"{"execution":{"taskSupport":"required"}}"#, Major),
    ("", "{}", r#"{"execution":{"taskSupport":"optional"}}"#, Minor),
    ("", "{}", r#"{"_meta":{"deprecated":{"in":"1.2.0"}}}"#, Minor),
    ("", r#"{"_meta":{"deprecated":{"in":"1.2.0"}}}"#, "{}", Patch),
    // A change of mcp-server-fetch: the description of `max_length`, and its upper bound.
    ("in", r#"{"properties":{"url":{"type":"string","format":"uri","minLength":1},"max_length":{"type":"integer","default":5000,"exclusiveMaximum":1000000,"exclusiveMinimum":0,"description":"Maximum number of characters to return."}},"required":["url"],"type":"object"}"#,
        r#"{"properties":{"url":{"type":"string","format":"uri","minLength":1},"max_length":{"type":"integer","default":5000,"exclusiveMaximum":1000000,"exclusiveMinimum":0,"description":"The number of characters."},"raw":{"type":"boolean","default":false}},"required":["url"],"type":"object"}"#, Minor),
    // A change of server-filesystem: `read_file` gets `head` and `tail`, and `edit_file` no longer accepts further
    // arguments.
    ("in", r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#,
        r#"{"type":"object","properties":{"path":{"type":"string"},"tail":{"type":"number"},"head":{"type":"number"}},"required":["path"],"additionalProperties":false}"#, Minor),
    ("in", r#"{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"]}}},"required":["path","edits"]}"#,
        r#"{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"],"additionalProperties":false}}},"required":["path","edits"]}"#, Major),
    // A change of mcp-server-git: `context_lines` is added, and `git_add` no longer accepts a single text.
    ("in", r#"{"properties":{"repo_path":{"type":"string"}},"required":["repo_path"]}"#,
        r#"{"properties":{"repo_path":{"type":"string"},"context_lines":{"type":"integer","default":3}},"required":["repo_path"]}"#, Minor),
    ("in", r#"{"properties":{"files":{"type":"string"}},"required":["files"]}"#,
        r#"{"properties":{"files":{"type":"array","items":{"type":"string"}}},"required":["files"]}"#, Major),
];

#[test]
fn each_kind_of_change_demands_its_version() {
    assert!(PAIRS.len() >= 60, "{} pairs", PAIRS.len());
    for (place, old, new, expected) in PAIRS {
        let found = compare(&tool(place, old), &tool(place, new));
        assert_eq!(found.bump, *expected, "{place}\n{old}\n{new}\n{:#?}", found.changes);
        // A comparison of a definition with itself finds no change.
        assert_eq!(compare(&tool(place, new), &tool(place, new)).bump, Same, "{new}");
    }
}

#[test]
fn a_compatible_change_reversed_is_breaking() {
    for (place, old, new, expected) in PAIRS.iter().filter(|pair| pair.3 == Minor) {
        // The end of a deprecation breaks no caller; that of a default value does, because calls then act differently.
        if !new.contains("deprecated") {
            let found = compare(&tool(place, new), &tool(place, old));
            assert_eq!(found.bump, Major, "{expected}\n{old}\n{new}\n{:#?}", found.changes);
        }
    }
}

#[test]
fn added_and_removed_tools_are_changes_of_the_list() {
    let list = |names: &[&str]| {
        let tools = names.iter().map(|name| json!({ "name": name, "inputSchema": {} }));
        let text =
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools.collect::<Vec<_>>() } });
        read_contracts(&text.to_string()).unwrap()
    };
    let found = compare_all(&list(&["a", "b"]), &list(&["b", "c"]));
    let found: Vec<_> = found.iter().map(|one| (one.tool.as_str(), one.bump)).collect();
    assert_eq!(found, [("a", Major), ("c", Minor)]);
}

#[test]
fn texts_that_are_not_tools_are_refused_with_the_reason() {
    for (text, expected) in [
        ("", "neither JSON nor"),
        ("{}", "has no tools"),
        (r#"{"tools":[{"name":"a"}]}"#, "entry 1"),
        ("[1]", "entry 1"),
    ] {
        let error = read_contracts(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_breaking_change_after_hundreds_of_others_counts_and_is_listed() {
    let schema = |text: &str, last: &str| {
        let arguments = (0..250).map(|number| (format!("a{number}"), json!({ "title": text })));
        let mut properties: serde_json::Map<_, _> = arguments.collect();
        properties.insert("z".to_owned(), json!({ "type": last }));
        json!({ "type": "object", "properties": properties }).to_string()
    };
    let (old, new) = (schema("one", "string"), schema("two", "integer"));
    let found = compare(&tool("in", &old), &tool("in", &new));
    assert_eq!((found.bump, found.changes.len(), found.changes[0].bump), (Major, 200, Major));
}
