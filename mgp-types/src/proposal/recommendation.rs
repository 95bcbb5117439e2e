//! Proposal 13 (`server_recommendations`): servers of a registry that could meet a need.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::record::{open_enum, record, schema_of};

open_enum! {
    /// The confidence that a server meets the need.
    pub enum MatchConfidence {
        /// The registry entry of the server names the need.
        High = "high",
        /// The registry entry of the server names a part of the need.
        Medium = "medium",
        /// The registry entry of the server is only related to the need.
        Low = "low",
    }
}

/// A [`MatchConfidence`] that is encoded as a word, and decoded from a word or from a number between 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MatchLevel(pub MatchConfidence);

impl<'de> Deserialize<'de> for MatchLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) => Ok(Self(word.as_str().into())),
            Value::Number(number) => Ok(Self::of_share(number.as_f64().unwrap_or_default())),
            _ => Err(serde::de::Error::custom("a confidence is a word or a number")),
        }
    }
}

schema_of!(MatchLevel as inline "MatchLevel", {"enum": ["high", "medium", "low"]});

impl MatchLevel {
    /// Returns the confidence level that corresponds to a number between 0 and 1.
    #[must_use]
    pub fn of_share(share: f64) -> Self {
        Self(match share {
            0.75.. => MatchConfidence::High,
            0.4.. => MatchConfidence::Medium,
            _ => MatchConfidence::Low,
        })
    }
}

record! {
    /// Parameters of `mgp/servers/recommend`.
    pub struct RecommendServersParams {
        /// The need, in natural language.
        req capability_needed: String,
        /// The maximum number of recommendations.
        opt max_results read whole: Option<u64>,
    }

    /// A server that could meet a need of an agent but is not connected yet. An operator decides whether to connect it.
    pub struct ServerRecommendation {
        /// The name of the server in the registry.
        req server: String,
        /// The page of the server in the registry.
        opt registry_url: Option<String>,
        /// The way to obtain credentials, e.g. `oauth2_device`.
        opt auth_flow: Option<String>,
        /// The confidence that the server meets the need.
        opt match_confidence: Option<MatchLevel>,
        /// A description of the server.
        opt description: Option<String>,
    }

    /// Result of `mgp/servers/recommend`.
    pub struct RecommendServersResult {
        /// The need that the request names.
        req capability_needed: String,
        /// The servers, best first.
        def recommendations: Vec<ServerRecommendation>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confidence_is_read_as_a_word_or_as_a_number() {
        for (text, expected) in [
            (r#""high""#, r#""high""#),
            ("0.9", r#""high""#),
            ("0.5", r#""medium""#),
            ("0", r#""low""#),
            (r#""sure""#, r#""sure""#),
        ] {
            let level: MatchLevel = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&level).unwrap(), expected);
        }
        assert!(serde_json::from_str::<MatchLevel>("[]").is_err());
    }
}
