//! The tools of a server that its host lets a model use (MGP §15.2).

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::config::limits;

const MAX_NAME_BYTES: usize = 256;

/// The maximum number of tools that a message names.
const MAX_SHOWN: usize = 8;

/// The members that list the only tools that a model may use: of Copilot CLI, Goose, Gemini CLI, Codex and Droid.
const ONLY: &[&str] =
    &["tools", "available_tools", "includeTools", "enabled_tools", "enabledTools"];

/// The members that list the tools that a model may not use: of Gemini CLI, Codex, and of Windsurf and others.
const EXCEPT: &[&str] = &["excludeTools", "disabled_tools", "disabledTools"];

/// The tools of a server that its host lets a model use; the default is all tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolLimit {
    /// Only these tools.
    Only(BTreeSet<String>),
    /// All tools but these.
    Except(BTreeSet<String>),
}

impl ToolLimit {
    /// Returns whether a model may use all tools.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a model may use a tool.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        match self {
            Self::Only(tools) => tools.contains(tool),
            Self::Except(tools) => !tools.contains(tool),
        }
    }

    /// Returns a limit that allows the tools that at least one of the two limits allows.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Only(one), Self::Only(other)) => Self::Only(one | other),
            (Self::Except(one), Self::Except(other)) => Self::Except(one & other),
            (Self::Only(only), Self::Except(except)) | (Self::Except(except), Self::Only(only)) => {
                Self::Except(except - only)
            }
        }
    }
}

impl Default for ToolLimit {
    fn default() -> Self {
        Self::Except(BTreeSet::new())
    }
}

impl fmt::Display for ToolLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, tools) = match self {
            Self::Except(tools) if tools.is_empty() => return f.write_str("all"),
            Self::Only(tools) => ("only", tools),
            Self::Except(tools) => ("all but", tools),
        };
        let shown = tools.iter().take(MAX_SHOWN).map(|tool| tool.escape_debug().to_string());
        write!(f, "{words} {}", shown.collect::<Vec<_>>().join(", "))?;
        match tools.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[derive(Default)]
pub(super) struct ToolLists {
    only: Option<BTreeSet<String>>,
    except: BTreeSet<String>,
}

impl ToolLists {
    /// Reads a member of an entry; returns `false` if the member does not limit tools.
    pub(super) fn read(&mut self, member: &str, value: &Value) -> Result<bool, String> {
        let is_except = EXCEPT.contains(&member);
        // Ignore the table `tools` of Codex: it has settings of single tools and is not a list of allowed tools.
        let is_settings = member == "tools" && value.is_object();
        if is_settings || !is_except && !ONLY.contains(&member) {
            return Ok(false);
        }
        if value.is_null() {
            return Ok(true);
        }
        let tools = names(member, value)?;
        // In Goose, an empty list means all tools.
        let is_all = tools.contains("*") || (member == "available_tools" && tools.is_empty());
        if is_except {
            if tools.iter().any(|tool| tool != "*" && tool.contains(['*', '?'])) {
                return Err(format!("`{member}` has a pattern, which only its host can apply"));
            }
            self.except.extend(tools);
        } else if !is_all {
            self.only = Some(tools);
        }
        Ok(true)
    }

    /// Combines all lists that were read to a limit; returns `None` if no tool can be used.
    pub(super) fn limit(self) -> Option<ToolLimit> {
        if self.except.contains("*") {
            return None;
        }
        let Some(only) = self.only else { return Some(ToolLimit::Except(self.except)) };
        let only = &only - &self.except;
        (!only.is_empty()).then_some(ToolLimit::Only(only))
    }
}

/// Returns the names in a list of tools. Gemini CLI also accepts a name with arguments in brackets.
fn names(member: &str, value: &Value) -> Result<BTreeSet<String>, String> {
    let list = value.as_array().ok_or_else(|| format!("`{member}` is not a list"))?;
    if list.len() > limits::MAX_ENTRIES {
        return Err(format!("`{member}` has more than {} tools", limits::MAX_ENTRIES));
    }
    let each = list.iter().map(|tool| {
        let name = tool.as_str().and_then(|tool| tool.split('(').next()).unwrap_or_default();
        let fits =
            !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control);
        let wrong = || format!("`{member}` has something that is not the name of a tool");
        fits.then(|| name.to_owned()).ok_or_else(wrong)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn two_limits_together_allow_what_one_of_them_allows() {
        let limits = [
            ToolLimit::default(),
            ToolLimit::Only(tools(&["a", "b"])),
            ToolLimit::Only(tools(&["c"])),
            ToolLimit::Except(tools(&["a", "c"])),
            ToolLimit::Except(tools(&["b"])),
        ];
        for one in &limits {
            for other in &limits {
                let both = one.union(other);
                for tool in ["a", "b", "c", "d"] {
                    let expected = one.allows(tool) || other.allows(tool);
                    assert_eq!(both.allows(tool), expected, "{one}; {other}: {both} of {tool}");
                }
            }
        }
    }

    #[test]
    fn a_message_names_the_first_tools() {
        let many: BTreeSet<String> = (0..10).map(|number| number.to_string()).collect();
        assert_eq!(ToolLimit::Only(many).to_string(), "only 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
        assert_eq!(ToolLimit::Except(tools(&["a\n"])).to_string(), "all but a\\n");
        assert_eq!(ToolLimit::default().to_string(), "all");
    }
}
