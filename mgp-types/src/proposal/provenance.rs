//! Proposal 7 (`provenance`): the sources of a result, and the gateways through which it passed.

use serde::{Deserialize, Serialize};

use super::Member;
use crate::Timestamp;
use crate::mcp::CallToolResult;
use crate::mgp::Extension;
use crate::record::{Number, OneOrMany, open_enum, record};
use crate::wire::Payload;

open_enum! {
    /// The way in which a value was derived from its source.
    pub enum Confidence {
        /// Copied from the source.
        Exact = "exact",
        /// Computed from the source.
        Derived = "derived",
        /// The server estimated the value from the source.
        Estimated = "estimated",
        /// The server does not know how good the value is.
        Uncertain = "uncertain",
    }
}

record! {
    /// A place within a source.
    pub struct SourceLocation {
        /// The page, from 1.
        opt page: Option<Number>,
        /// The paragraph, from 1.
        opt paragraph: Option<Number>,
        /// The line, from 1.
        opt line: Option<Number>,
        /// The cell of a table, e.g. `B7`.
        opt cell: Option<String>,
        /// The path in a JSON document.
        opt json_path: Option<String>,
        /// The fragment of a URL.
        opt url_fragment: Option<String>,
    }

    /// A source of a result, as the server claims it. The claim is not proved.
    pub struct Provenance {
        /// The document, URL or system.
        req source: String,
        /// The place in the source.
        opt location: Option<SourceLocation>,
        /// The time at which the server read the source.
        opt retrieved_at: Option<Timestamp>,
        /// The version of the source.
        opt version: Option<String>,
        /// The reliability of the result: copied, computed, estimated or uncertain.
        opt confidence: Option<Confidence>,
        /// A description of what the server did with the source.
        opt transformation: Option<String>,
    }

    /// A server from which a gateway received a result.
    pub struct ProvenanceHop {
        /// The id of the server in the configuration of the gateway.
        req server_id: String,
        /// The trace id of the call.
        opt trace_id: Option<String>,
    }
}

/// The sources of a result, as the member `provenance` of its `_meta`: one object or a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sources(pub OneOrMany<Provenance>);

/// The gateways through which a result passed: the member `provenance_hops`. Each gateway appends one hop, which names
/// the server from which it received the result. So the gateway next to the tool's server has appended the first hop.
///
/// The hops have a member of their own, so that gateways need not change the sources that the server declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProvenanceHops(pub Vec<ProvenanceHop>);

impl Member for Sources {
    const EXTENSION: Extension = Extension::Provenance;
    const NAME: &'static str = "provenance";
}

impl Member for ProvenanceHops {
    const EXTENSION: Extension = Extension::Provenance;
    const NAME: &'static str = "provenance_hops";
}

impl From<Vec<Provenance>> for Sources {
    fn from(all: Vec<Provenance>) -> Self {
        Self(OneOrMany::Many(all))
    }
}

impl Sources {
    /// Returns the sources that a result names in its `_meta`. If there are none there, returns the sources in
    /// structured content of the form `{result, provenance}`. Malformed sources count as absent.
    #[must_use]
    pub fn of_result(result: &CallToolResult) -> Vec<Provenance> {
        let in_meta = Self::read(result.meta.as_ref()).ok().flatten();
        let found = in_meta.or_else(|| Self::of_wrapper(result.structured_content.as_ref()?));
        found.map_or_else(Vec::new, |sources| sources.0.as_slice().to_vec())
    }

    fn of_wrapper(content: &Payload) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wrapper {
            #[serde(rename = "result")]
            _result: Payload,
            provenance: Sources,
        }
        content.get::<Wrapper>().ok().map(|wrapper| wrapper.provenance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_from_each_form_and_kept_as_sent() {
        let one = r#"{"source":"invoice.pdf","location":{"page":3,"x":1},"confidence":"guess"}"#;
        for (text, count) in [
            (format!(r#"{{"content":[],"_meta":{{"provenance":{one}}}}}"#), 1),
            (format!(r#"{{"content":[],"_meta":{{"provenance":[{one},{one}]}}}}"#), 2),
            (
                format!(
                    r#"{{"content":[],"structuredContent":{{"result":7,"provenance":[{one}]}}}}"#
                ),
                1,
            ),
            (r#"{"content":[],"structuredContent":{"provenance":"France"}}"#.to_owned(), 0),
            (r#"{"content":[],"_meta":{"provenance":7}}"#.to_owned(), 0),
            (r#"{"content":[]}"#.to_owned(), 0),
        ] {
            let result: CallToolResult = serde_json::from_str(&text).unwrap();
            let sources = Sources::of_result(&result);
            assert_eq!(sources.len(), count, "{text}");
            for source in &sources {
                assert_eq!(serde_json::to_string(source).unwrap(), one);
            }
        }
    }
}
