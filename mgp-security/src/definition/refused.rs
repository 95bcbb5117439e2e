//! Refusals of tool calls because of the tool's definition, and of operators' decisions about definitions.

use mgp_types::Object;
use mgp_types::service::{Authority, Principal, Rule, ServerId};

use super::DefinitionState;
use super::diff::{Difference, top};
use super::review::{Finding, Rule as ReviewRule, Severity};

/// The reason for the refusal of a tool whose server announces changes faster than its tools can be listed.
const UNSETTLED: &str = "its server announced changes of its tools while they were listed";

/// The reason for the refusal of a new tool of a server that has reached the limits of its list.
pub(super) const CROWDED: &str =
    "its server has listed more than 10,000 different tools in all, or 16 MiB at once";

/// The text shown in place of a finding that names another server, because the caller may not be allowed to know that
/// server.
const LIKE_ANOTHER: &str = "its name or the id of its server can be mistaken for another one";

/// The error for a tool that cannot be called because its definition changed, waits for an operator, or is
/// unusable.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{tool}` of `{server}` is disabled: {}", why_not_callable(.standing))]
pub struct DefinitionRefused {
    server: ServerId,
    tool: String,
    standing: DefinitionState,
    /// The parts of the definition that the error is allowed to show to this caller.
    reads: Reads,
    #[source]
    rule: Rule,
}

/// The parts of a definition that an error shows to its caller.
///
/// An error must not pass the text of a definition to a model if the definition waits for an operator because it
/// instructs models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// The locations of the changes, without any text written by the server.
    Places,
    /// The locations and the changed texts.
    Everything,
}

impl DefinitionRefused {
    pub(crate) fn new(
        server: &ServerId,
        tool: &str,
        standing: DefinitionState,
        by: &Principal,
    ) -> Self {
        let reads = match by.authority() {
            Authority::Operator => Reads::Everything,
            _ => Reads::Places,
        };
        let rule =
            Rule::new(format!("definition {} for `{tool}` of `{server}`", standing.as_str()));
        Self { server: server.clone(), tool: tool.to_owned(), standing, reads, rule }
    }

    /// Creates the refusal of a call whose tool has a definition that changes at this moment.
    pub(crate) fn unsettled(server: &ServerId, tool: &str, by: &Principal) -> Self {
        let finding = Finding::about(ReviewRule::Unreadable, "", UNSETTLED, "");
        Self::new(server, tool, DefinitionState::Refused(vec![finding].into()), by)
    }

    pub(crate) fn details(&self) -> Object {
        let mut details = Object::new()
            .with("server_id", self.server.as_str())
            .with("tool", &self.tool)
            .with("status", &format!("definition_{}", self.standing.as_str()));
        let mut findings: &[Finding] = &[];
        match &self.standing {
            DefinitionState::Changed(held) | DefinitionState::Flagged(held) => {
                findings = &held.findings;
                let pinned = held.pinned.as_ref().map(ToString::to_string);
                let differences: Vec<Difference> = match self.reads {
                    Reads::Everything => held.differences.clone(),
                    Reads::Places => {
                        let mut places: Vec<_> =
                            held.differences.iter().map(Difference::place).collect();
                        places.dedup();
                        places
                    }
                };
                let left_out = Some(&held.differences_left_out).filter(|left_out| **left_out > 0);
                details = details
                    .with("hash", &held.fingerprint.to_string())
                    .with_optional("pinned_hash", pinned.as_ref())
                    .with("differences", &differences)
                    .with_optional("differences_left_out", left_out);
            }
            // The server's list is the reason, not the definition, so the error lists no findings.
            DefinitionState::Refused(found)
                if is_only(found, UNSETTLED) || is_only(found, CROWDED) => {}
            DefinitionState::Refused(found) => findings = found,
            DefinitionState::Unseen | DefinitionState::Pinned => {}
        }
        let found: Vec<String> = findings
            .iter()
            .map(|one| match self.reads {
                Reads::Everything => one.to_string(),
                Reads::Places if names_another(one) => LIKE_ANOTHER.to_owned(),
                Reads::Places if one.at.is_empty() => one.what.clone(),
                Reads::Places => format!("{} in {}", one.what, top(&one.at)),
            })
            .collect();
        details.with("findings", &found).with("remedy", remedy(&self.standing))
    }
}

/// Returns the reason why a tool with a definition in this state cannot be called.
pub(crate) fn why_not_callable(standing: &DefinitionState) -> &'static str {
    match standing {
        DefinitionState::Changed(held) if held.rejected_by.is_some() => {
            "its definition changed, and an operator rejected the change"
        }
        DefinitionState::Changed(_) => {
            "its definition changed since it was approved, and waits for an operator"
        }
        DefinitionState::Flagged(held) if held.rejected_by.is_some() => {
            "an operator rejected its definition"
        }
        DefinitionState::Flagged(_) => "an operator must review the text of its definition first",
        DefinitionState::Refused(found) if is_only_locked(found) => {
            "its definition is not the one in mgp.lock"
        }
        DefinitionState::Refused(found) if is_only(found, UNSETTLED) => UNSETTLED,
        DefinitionState::Refused(found) if is_only(found, CROWDED) => CROWDED,
        DefinitionState::Refused(found) if is_of_server(found) => {
            "the id of its server cannot be used"
        }
        DefinitionState::Refused(_) => "its definition cannot be used",
        DefinitionState::Unseen | DefinitionState::Pinned => "its definition is not known",
    }
}

fn remedy(standing: &DefinitionState) -> &'static str {
    match standing {
        DefinitionState::Refused(found) if is_only_locked(found) => {
            "an operator can check the definition, and lock it with `mgp lock`"
        }
        DefinitionState::Refused(found) if is_only(found, UNSETTLED) => {
            "call it again; if that fails too, its server must announce only real changes"
        }
        DefinitionState::Refused(found) if is_only(found, CROWDED) => {
            "its server must list fewer tools; then an operator can remove the server, and add it again"
        }
        DefinitionState::Refused(found) if is_of_server(found) => {
            "an operator must give its server another id"
        }
        DefinitionState::Refused(_) => "its author must mend the definition",
        _ => "an operator can compare the definitions and approve the new one by its hash",
    }
}

/// Returns whether a definition is refused only for the reason `reason`.
pub(super) fn is_only(found: &[Finding], reason: &str) -> bool {
    matches!(found, [one] if one.what == reason)
}

/// Returns whether the text of a finding can contain the id or a tool of another server.
fn names_another(finding: &Finding) -> bool {
    finding.rule == ReviewRule::Likeness.id()
        || finding.rule == ReviewRule::Name.id() && finding.at.is_empty()
}

/// Returns whether a tool is refused because of the id of its server. A flaw of its own name has the place `/name`.
fn is_of_server(found: &[Finding]) -> bool {
    matches!(found, [one] if one.rule == ReviewRule::Name.id() && one.at.is_empty())
}

/// Returns whether a definition is refused only because it differs from the lock file.
pub(super) fn is_only_locked(found: &[Finding]) -> bool {
    let mut refusing = found.iter().filter(|one| one.severity == Severity::Refused).peekable();
    refusing.peek().is_some() && refusing.all(|one| one.rule == ReviewRule::Locked.id())
}

/// The reason why an operator's decision about a definition is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionRefused {
    /// No definition of this tool waits for a decision.
    #[error("no definition of `{tool}` of `{server}` waits for a decision")]
    Nothing {
        /// The server whose tool the decision is about.
        server: ServerId,
        /// The tool about which the operator decided.
        tool: String,
    },
    /// The operator decided about an earlier definition, and another definition waits now.
    #[error(
        "the definition of `{tool}` changed again; look at it and decide about `{waiting}` instead"
    )]
    Another {
        /// The tool about which the operator decided.
        tool: String,
        /// The fingerprint of the definition that waits now.
        waiting: String,
    },
    /// The operator approved a waiting definition, but another operator has rejected it.
    #[error("the definition of `{tool}` is rejected already, by {by}")]
    Rejected {
        /// The tool about which the operator decided.
        tool: String,
        /// The operator who rejected the definition.
        by: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_author_is_named_only_for_a_fault_of_the_definition() {
        let author = "its author must mend the definition";
        let lock = "an operator can check the definition, and lock it with `mgp lock`";
        for (rules, expected) in [
            (&[ReviewRule::Locked][..], lock),
            (&[ReviewRule::Locked, ReviewRule::Override][..], lock),
            (&[ReviewRule::Locked, ReviewRule::Hidden][..], author),
            (&[ReviewRule::Hidden][..], author),
        ] {
            let found: Vec<_> =
                rules.iter().map(|rule| Finding::about(*rule, "", "it is so", "")).collect();
            assert_eq!(remedy(&DefinitionState::Refused(found.into())), expected, "{rules:?}");
        }
    }

    #[test]
    fn the_operator_is_named_for_the_id_of_the_server() {
        let ann = Principal::new("local", "ann");
        for (at, expected) in [("", "an operator"), ("/name", "its author")] {
            let flaw = Finding::about(ReviewRule::Name, at, "it is reserved", "");
            let state = DefinitionState::Refused(vec![flaw].into());
            let details =
                DefinitionRefused::new(&ServerId::from("core"), "read", state, &ann).details();
            let remedy: Option<String> = details.decode("remedy").ok().flatten();
            assert!(remedy.is_some_and(|remedy| remedy.starts_with(expected)), "{at}");
        }
    }

    #[test]
    fn only_operators_read_which_other_server_a_name_resembles() {
        let flaw =
            Finding::about(ReviewRule::Likeness, "/name", "it is already that of `hidden`", "");
        let state = DefinitionState::Refused(vec![flaw].into());
        let ann = Principal::new("local", "ann");
        for (by, is_shown) in [(ann.clone(), false), (ann.operator(), true)] {
            let refused = DefinitionRefused::new(&ServerId::from("a"), "b.c", state.clone(), &by);
            let found: Option<Vec<String>> = refused.details().decode("findings").ok().flatten();
            assert_eq!(found.unwrap()[0].contains("hidden"), is_shown);
        }
    }

    #[test]
    fn a_tool_beyond_the_limits_of_a_list_is_not_reported_as_faulty() {
        let state = super::super::server_listing::refused(CROWDED);
        let ann = Principal::new("local", "ann");
        let refused = DefinitionRefused::new(&ServerId::from("many"), "read", state, &ann);
        assert_eq!(refused.to_string(), format!("`read` of `many` is disabled: {CROWDED}"));
        let remedy: Option<String> = refused.details().decode("remedy").ok().flatten();
        assert!(remedy.is_some_and(|remedy| remedy.contains("list fewer tools")));
    }

    #[test]
    fn a_definition_that_is_only_announced_too_often_is_not_reported_as_faulty() {
        let ann = Principal::new("local", "ann");
        let refused = DefinitionRefused::unsettled(&ServerId::from("files"), "read", &ann);
        assert_eq!(refused.to_string(), format!("`read` of `files` is disabled: {UNSETTLED}"));
        let details = refused.details();
        let remedy: Option<String> = details.decode("remedy").ok().flatten();
        assert!(remedy.is_some_and(|remedy| remedy.starts_with("call it again")));
        let findings: Option<Vec<String>> = details.decode("findings").ok().flatten();
        assert_eq!(findings, Some(Vec::new()));
    }
}
