//! The rules of the review: the id of each, its consequence and what it finds. `docs/governance.md` lists them.

use super::finding::Severity;

macro_rules! rules {
    ($($name:ident $id:literal $severity:ident $what:literal)*) => {
        /// A rule of the review.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(in crate::definition) enum Rule { $($name),* }

        impl Rule {
            /// All rules of the review.
            pub(super) const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the rule's id, which each finding contains.
            pub(in crate::definition) fn id(self) -> &'static str {
                match self { $(Self::$name => $id),* }
            }

            /// Returns the consequence of a finding of this rule.
            pub(super) fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity),* }
            }

            /// Returns the description of the flaw; empty if each finding describes its own.
            pub(super) fn what(self) -> &'static str {
                match self { $(Self::$name => $what),* }
            }
        }
    };
}

rules! {
    Unreadable "definition.unreadable" Refused ""
    Long "definition.long" Held "the definition is so long that it crowds out everything else"
    Many "definition.many" Held "so many texts were found suspicious that the others were not reviewed"
    Locked "definition.locked" Refused ""
    Name "name.invalid" Refused ""
    Twice "name.twice" Refused "the server lists the tool twice, with two definitions"
    Likeness "name.likeness" Held ""
    Hidden "text.hidden" Refused ""
    Letters "text.letters" Held "letters of another alphabet stand for Latin ones"
    Size "text.long" Held "the text is so long that it crowds out everything else"
    Override "text.override" Held "overrides the instructions of the model"
    Conceal "text.conceal" Held "hides something from the user"
    Secrets "text.secrets" Held "asks for secrets"
    Conversation "text.conversation" Held "asks for the conversation, or for what the model was told"
    Exfiltrate "text.exfiltrate" Held "sends something somewhere else"
    Shadow "text.shadow" Held "says how other tools are to be used"
    Precedence "text.precedence" Held "wants to come before or instead of everything else"
    Model "text.model" Held "speaks to the model"
    Consent "text.consent" Held "claims or waives the consent of the user"
    Trigger "text.trigger" Held "behaves differently after some time"
    Unrelated "text.unrelated" Held "orders something that the tool does not need"
    Authority "text.authority" Held "claims authority or urgency"
    Role "text.role" Held "marks itself as a message of the system"
    Markup "text.markup" Held "hides text in markup"
    Address "text.address" Held "holds an address that runs code"
    Decode "text.decode" Held "wants something decoded and followed"
    Encoded "text.encoded" Held "holds encoded text"
    Parameter "parameter.asks" Held "a parameter asks for what the tool is not about"
    Schema "schema.broken" Refused ""
    Reference "schema.reference" Held "a reference leads nowhere"
    Pattern "schema.pattern" Held "a pattern takes forever on some texts"
    ReadOnly "capability.read-only" Held "the tool claims to be harmless, but its name does not"
    Execute "capability.execute" Held "an argument runs code, which the tool does not claim to do"
    Reach "capability.reach" Flagged "an argument reaches files or addresses, which the tool does not mention"
    Mention "shadow.mention" Held "steers the use of a tool of another server"
}

#[cfg(test)]
mod tests {
    use super::Rule;

    #[test]
    fn the_documentation_lists_every_rule() {
        let page = include_str!("../../../../docs/governance.md");
        for rule in Rule::ALL {
            let line = format!("| `{}` | {} |", rule.id(), rule.severity());
            assert!(page.contains(&line), "docs/governance.md lacks the line {line}");
        }
    }
}
