//! Channel names, and the patterns that subscriptions use (MGP §13.5).

use mgp_types::RpcError;

/// The maximum length of a channel name or pattern, in bytes.
pub(super) const MAX_NAME: usize = 128;

/// A pattern for channel names: it matches all channels, the channels with a prefix, or a single channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// All channels: `*`.
    All,
    /// All channels with a prefix: `model.*`, stored as `model.`.
    Below(String),
    /// One channel: `model.loaded`.
    Exact(String),
}

impl Pattern {
    /// Parses a pattern that a client wrote.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the text is neither a channel name, nor `*`, nor a name followed by `.*`.
    pub(super) fn parse(text: &str) -> Result<Self, RpcError> {
        if text == "*" {
            return Ok(Self::All);
        }
        let pattern = match text.strip_suffix(".*") {
            Some(name) => (name, Self::Below(format!("{name}."))),
            None => (text, Self::Exact(text.to_owned())),
        };
        if is_name(pattern.0) {
            return Ok(pattern.1);
        }
        Err(RpcError::invalid_params(format!(
            "`{}` is not a channel; use a name such as `model.loaded`, a family such as `model.*`, or `*`",
            mgp_types::clip(text, MAX_NAME)
        )))
    }

    pub(super) fn matches(&self, channel: &str) -> bool {
        match self {
            Self::All => true,
            Self::Below(prefix) => channel.starts_with(prefix.as_str()),
            Self::Exact(name) => name == channel,
        }
    }

    /// Returns whether this pattern matches every channel that the other pattern matches.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (_, Self::All) => false,
            (Self::Below(prefix), Self::Below(name) | Self::Exact(name)) => {
                name.starts_with(prefix.as_str())
            }
            (Self::Exact(name), other) => *other == Self::Exact(name.clone()),
        }
    }

    /// Parses the patterns of a subscription; sorts them, and removes repetitions.
    pub(super) fn parse_all<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Self>, RpcError> {
        let mut all =
            texts.iter().map(|text| Self::parse(text.as_ref())).collect::<Result<Vec<_>, _>>()?;
        all.sort();
        all.dedup();
        Ok(all)
    }

    /// Returns the patterns of a subscription without those that another of them covers, so that no channel matches two
    /// of them.
    pub(super) fn reduce(all: &[Self]) -> impl Iterator<Item = &Self> {
        all.iter().filter(move |one| !all.iter().any(|by| by != *one && by.covers(one)))
    }

    /// Returns whether the patterns of two subscriptions match the same channels.
    pub(super) fn is_same(one: &[Self], other: &[Self]) -> bool {
        Self::reduce(one).eq(Self::reduce(other))
    }

    /// Returns the pattern as text, in the form in which clients write it.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::All => "*".to_owned(),
            Self::Below(prefix) => format!("{prefix}*"),
            Self::Exact(name) => name.clone(),
        }
    }
}

/// Returns whether a text is the name of a channel: words separated by dots.
pub(super) fn is_name(text: &str) -> bool {
    let is_letter =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b':' | b'/');
    let is_word = |word: &[u8]| !word.is_empty() && word.iter().all(is_letter);
    text.len() <= MAX_NAME && text.as_bytes().split(|byte| *byte == b'.').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_words_and_cover_each_other() {
        let parse = |text| Pattern::parse(text).unwrap();
        assert!(parse("*").matches("model.loaded") && parse("model.*").matches("model.a.b"));
        assert!(!parse("model.*").matches("model") && !parse("model.*").matches("models.a"));
        let reduce = |all: &[&str]| {
            let all = Pattern::parse_all(all).unwrap();
            Pattern::reduce(&all).map(Pattern::to_text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(reduce(&["model.a", "model.*", "tool.b", "tool.b"]), "model.* tool.b");
        assert_eq!(reduce(&["model.a", "*", "tool.*"]), "*");
        assert_eq!(reduce(&["a.b.*", "a.*", "a.b"]), "a.*");
        for wrong in ["", "mo*el", "*.error", "a..b", ".a", "a b", "a.**", &"x".repeat(129)] {
            assert_eq!(Pattern::parse(wrong).unwrap_err().code().0, -32602, "{wrong}");
        }
    }
}
