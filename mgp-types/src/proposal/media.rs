//! Proposal 10 (`multimodal_signatures`): the media types and sizes that a tool accepts and returns.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::mcp::{Tool, key};
use crate::record::{Extras, List, Object, open_enum, record};
use crate::wire::{ErrorCode, Payload, Recovery, RpcError};

open_enum! {
    /// A way to send binary data other than as base64 in JSON.
    pub enum BinaryTransport {
        /// Parts of a multipart body over HTTP.
        Multipart = "multipart",
    }
}

record! {
    /// The media types and sizes that a tool accepts and returns, as members of its definition.
    ///
    /// The types are hints for a search: a tool might accept others.
    pub struct MediaSignature {
        /// The media types that the tool accepts, e.g. `image/png` or `image/*`.
        list input_types: List<String>,
        /// The media types that the tool returns.
        list output_types: List<String>,
        /// The maximum size of the input in bytes.
        opt max_input_size_bytes: Option<u64>,
        /// A way to send binary data other than as base64 in JSON.
        opt binary_transport: Option<BinaryTransport>,
    }
}

/// The name of the member of `_meta["dev.cloto/mgp"]` in which [`MediaSignature::fold`] stores the signature of a tool.
const FOLDED: &str = "media";

impl MediaSignature {
    /// The names of the members of a tool's definition that make up its signature.
    pub const MEMBERS: [&'static str; 4] =
        ["input_types", "output_types", "max_input_size_bytes", "binary_transport"];

    /// Returns the signature that a tool declares: the members in its definition or, if it has none of these members,
    /// those in its `_meta`, or else the signature that [`fold`](Self::fold) moved there. Malformed members count as
    /// absent.
    #[must_use]
    pub fn of(tool: &Tool) -> Option<Self> {
        let in_meta = || tool.meta.as_ref().and_then(|meta| Self::of_members(&meta.0));
        Self::of_members(&tool.extra).or_else(in_meta).or_else(|| Self::folded(tool))
    }

    fn of_members(place: &Extras) -> Option<Self> {
        fn read<T: DeserializeOwned>(place: &Extras, name: &str) -> Option<T> {
            place.decode(name).ok().flatten()
        }
        let [input_types, output_types, max_input_size_bytes, binary_transport] = Self::MEMBERS;
        let mut signature = Self::new();
        signature.input_types = read(place, input_types).unwrap_or_default();
        signature.output_types = read(place, output_types).unwrap_or_default();
        signature.max_input_size_bytes = read(place, max_input_size_bytes);
        signature.binary_transport = read(place, binary_transport);
        (signature != Self::default()).then_some(signature)
    }

    /// Returns the signature that [`fold`](Self::fold) moved to the `_meta` of a tool.
    fn folded(tool: &Tool) -> Option<Self> {
        let mirror: Object = tool.meta.as_ref()?.get(key::MGP)?.get().ok()?;
        mirror.get(FOLDED)?.get().ok()
    }

    /// Moves the signature from the definition of a tool to `_meta["dev.cloto/mgp"].media`. A gateway uses this for the
    /// tools of a server that negotiated the proposal. It restores the signature with [`unfold`](Self::unfold) for
    /// callers that negotiated the proposal too.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the signature cannot be written as JSON.
    pub fn fold(tool: &mut Tool) -> Result<(), RpcError> {
        let Some(signature) = Self::of_members(&tool.extra) else { return Ok(()) };
        Self::remove(tool);
        let mut mirror: Object =
            tool.meta.as_ref().and_then(|meta| meta.get(key::MGP)?.get().ok()).unwrap_or_default();
        mirror.encode(FOLDED, &signature)?;
        tool.meta.get_or_insert_default().encode(key::MGP, &mirror)?;
        Ok(())
    }

    /// Removes the signature that [`fold`](Self::fold) moved to the `_meta` of a tool, and returns it. Returns `None`
    /// if the `_meta` has no such signature.
    pub fn unfold(tool: &mut Tool) -> Option<Self> {
        let signature = Self::folded(tool)?;
        let meta = tool.meta.as_mut()?;
        let mut mirror: Object = meta.get(key::MGP)?.get().ok()?;
        mirror.remove(FOLDED);
        if mirror.is_empty() {
            meta.remove(key::MGP);
        } else {
            // Cannot fail: the object was decoded from JSON, so it can be encoded again.
            let _ = meta.encode(key::MGP, &mirror);
        }
        if meta.is_empty() {
            tool.meta = None;
        }
        Some(signature)
    }

    /// Writes the members of the signature into a tool's definition. Unknown members of the signature are left out: a
    /// server could otherwise replace any part of the definition, e.g. the description, after its approval.
    pub fn put(&self, tool: &mut Tool) {
        let members = Payload::of(self).and_then(|text| text.get::<Object>()).unwrap_or_default();
        for name in Self::MEMBERS {
            if let Some(value) = members.get(name) {
                tool.extra.insert(name, value.clone());
            }
        }
    }

    /// Removes the members of the signature from a tool's definition.
    pub fn remove(tool: &mut Tool) {
        for name in Self::MEMBERS {
            tool.extra.remove(name);
        }
    }
}

/// Refuses arguments that are longer than `max` bytes, the [`max_input_size_bytes`] of the tool.
///
/// Counts the bytes of the arguments' JSON text. For an argument whose schema has `contentEncoding: "base64"`, the size
/// of the decoded data counts instead.
///
/// # Errors
/// Returns 3001 (resource exhausted), with the size and the limit in its details.
///
/// [`max_input_size_bytes`]: MediaSignature::max_input_size_bytes
pub fn check_input_size(tool: &Tool, arguments: &str, max: u64) -> Result<(), RpcError> {
    // Decoding Base64 only makes a text shorter, so arguments whose text is within the limit need no further check.
    if arguments.len() as u64 <= max {
        return Ok(());
    }
    let size = (arguments.len() as u64).saturating_sub(saved_by_decoding(tool, arguments));
    if size <= max {
        return Ok(());
    }
    let name = &tool.name;
    let message = format!("the input has {size} bytes, and `{name}` takes {max}; send less");
    let details = Object::new()
        .with("limit", &max)
        .with("size", &size)
        .with("of", "input")
        .with("started", &false);
    // Forbid a retry, which the default hints of the code permit: the same arguments would be too long again.
    let hints = Recovery::default_for(ErrorCode::RESOURCE_EXHAUSTED).unwrap_or_default().no_retry();
    Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message).recovery(hints.details(details)))
}

/// Returns by how many bytes the Base64 texts in the arguments are longer than the data that they encode.
fn saved_by_decoding(tool: &Tool, arguments: &str) -> u64 {
    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        properties: Object,
    }
    #[derive(Deserialize)]
    struct Property<'a> {
        #[serde(borrow, rename = "contentEncoding")]
        encoding: Option<Cow<'a, str>>,
    }
    let schema = tool.input_schema.get::<Schema>();
    let values = serde_json::from_str::<Object>(arguments);
    let (Ok(schema), Ok(values)) = (schema, values) else { return 0 };
    let is_base64 = |text: &Payload| {
        serde_json::from_str::<Property<'_>>(text.as_str())
            .is_ok_and(|property| property.encoding.as_deref() == Some("base64"))
    };
    let encoded = schema.properties.iter().filter(|(_, property)| is_base64(property));
    let values: HashMap<_, _> = values.iter().collect();
    let texts = encoded.filter_map(|(name, _)| values.get(name)?.get::<String>().ok());
    texts.map(|text| (text.len() - text.trim_end_matches('=').len() * 3 / 4) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RawObject;

    #[test]
    fn a_signature_is_read_from_the_definition_and_from_meta() {
        for (rest, max) in [
            (r#","max_input_size_bytes":10,"input_types":["image/png"]"#, Some(10)),
            (r#","_meta":{"max_input_size_bytes":10}"#, Some(10)),
            (r#","max_input_size_bytes":"ten""#, None),
            (r#","max_input_size_bytes":10,"input_types":"png""#, Some(10)),
            ("", None),
        ] {
            let text = format!(r#"{{"name":"t","inputSchema":{{}}{rest}}}"#);
            let tool: Tool = serde_json::from_str(&text).unwrap();
            let found = MediaSignature::of(&tool);
            assert_eq!(found.and_then(|media| media.max_input_size_bytes), max, "{text}");
        }
        let mut media = MediaSignature::new();
        media.max_input_size_bytes = Some(10);
        media.input_types = vec!["image/png".to_owned()].into();
        let mut tool = Tool::new("t", RawObject::empty());
        let plain = tool.clone();
        media.put(&mut tool);
        assert_eq!(MediaSignature::of(&tool), Some(media.clone()));
        MediaSignature::fold(&mut tool).unwrap();
        assert!(tool.extra.is_empty());
        assert_eq!(MediaSignature::of(&tool), Some(media.clone()));
        assert_eq!(MediaSignature::unfold(&mut tool), Some(media));
        assert_eq!(tool, plain);
    }

    #[test]
    fn a_signature_in_meta_cannot_replace_other_members() {
        let text = r#"{"name":"t","inputSchema":{},"_meta":{"dev.cloto/mgp":{"media":{"max_input_size_bytes":10,"description":"other"}}}}"#;
        let mut tool: Tool = serde_json::from_str(text).unwrap();
        MediaSignature::unfold(&mut tool).unwrap().put(&mut tool);
        assert_eq!(
            serde_json::to_string(&tool).unwrap(),
            r#"{"name":"t","inputSchema":{},"max_input_size_bytes":10}"#
        );
    }

    #[test]
    fn base64_counts_with_the_bytes_that_it_encodes() {
        let text = r#"{"name":"t","inputSchema":{"properties":{
            "image":{"type":"string","contentEncoding":"base64"},"note":{"type":"string"}}}}"#;
        let tool: Tool = serde_json::from_str(text).unwrap();
        // The 12 characters of the Base64 text encode 8 bytes, and the rest of the arguments, `{"image":""}`, has 12
        // bytes.
        let image = r#"{"image":"AAAAAAAAAAA="}"#;
        assert!(check_input_size(&tool, image, 20).is_ok());
        let refused = check_input_size(&tool, image, 19).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(refused.message(), "the input has 20 bytes, and `t` takes 19; send less");
        let hints = refused.as_recovery().unwrap();
        assert_eq!(
            (hints.retryable, hints.retry_after_ms, hints.max_retries),
            (Some(false), None, None)
        );
        // Base64 in an argument without `contentEncoding` counts with its full length, so these arguments are too long.
        assert!(check_input_size(&tool, r#"{"note":"AAAAAAAAAAA="}"#, 20).is_err());
        assert!(check_input_size(&tool, "[", 0).is_err());
    }
}
