//! Permissions of credentials (MGP §5): they narrow what entries allow, and never widen it.
//!
//! An API key has permissions, a token has scopes; these have a meaning here:
//!
//! | word | what it permits |
//! |---|---|
//! | `tools.call` | to call every tool, and to see it; resources, prompts and completion too |
//! | `tools.call:NAME`, `tools.call:SERVER.NAME` | to call one tool, of any server or of this one, and to see it |
//! | `tools.list` | to see every tool in lists |
//! | `tools.read:NAME`, `tools.read:SERVER.NAME` | to see one tool in lists |
//! | `admin.write` | an operator: to grant and revoke |
//! | `admin.read` | an operator: to ask about others |
//!
//! Credentials without any `tools.` word restrict no tool.
//! With one, tools are restricted to what these words permit; an unknown word permits nothing.
//! Credentials without any `tools.` or `admin.` word restrict no administration;
//! with one, it takes the `admin.` word, since a key that was made for tools was not made to administer.
//! Names are compared letter by letter.

use mgp_types::service::{Context, CredentialGrant, Rule};

const TOOLS: &str = "tools.";
const ADMIN: &str = "admin.";
const CALL: &str = "tools.call";
const CALL_ONE: &str = "tools.call:";
const LIST: &str = "tools.list";
const READ_ONE: &str = "tools.read:";
const ADMIN_READ: &str = "admin.read";
const ADMIN_WRITE: &str = "admin.write";

/// A use that credentials must permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// Calling a tool.
    Call(&'a str),
    /// Seeing a tool in a list.
    See(&'a str),
    /// Seeing every tool there is.
    SeeAll,
    /// Using what belongs to a whole server.
    Server,
    /// Querying the entries of others.
    Read,
    /// Granting and revoking.
    Write,
}

/// Credentials that ended while they were in use.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the credentials no longer hold; get new ones")]
pub struct CredentialsExpired {
    #[source]
    rule: Rule,
}

impl CredentialsExpired {
    fn new() -> Self {
        Self { rule: Rule::new("pass ended") }
    }
}

/// Credentials that permit less than what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pass without {word}")]
pub(crate) struct Lacking {
    word: String,
}

/// The credentials of a call; a call without any is not restricted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials<'a>(Option<&'a CredentialGrant>);

impl<'a> Credentials<'a> {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) fn of(cx: &'a Context) -> Self {
        Self(cx.extensions.get::<CredentialGrant>())
    }

    /// Refuses credentials that have ended.
    #[inline]
    pub(crate) fn check_end(self) -> Result<(), CredentialsExpired> {
        match self.0 {
            Some(pass) if !pass.is_valid() => Err(CredentialsExpired::new()),
            _ => Ok(()),
        }
    }

    /// Refuses what they do not permit.
    #[inline]
    pub(super) fn permit(self, need: Need<'_>, server: Option<&str>) -> Result<(), Lacking> {
        match self.0 {
            Some(pass) if !need.is_met(pass.permissions(), server) => {
                Err(Lacking { word: need.word() })
            }
            _ => Ok(()),
        }
    }
}

impl Need<'_> {
    fn is_met(self, words: &[String], server: Option<&str>) -> bool {
        let any = |is: &dyn Fn(&str) -> bool| words.iter().any(|word| is(word));
        let one = |prefix: &str, name: &str| {
            let of_server =
                |word: &str| word.strip_prefix(server?)?.strip_prefix('.').map(|tool| tool == name);
            any(&|word| {
                word.strip_prefix(prefix)
                    .is_some_and(|word| word == name || of_server(word) == Some(true))
            })
        };
        let for_tools = || any(&|word| word.starts_with(TOOLS));
        match self {
            Self::Call(tool) => !for_tools() || any(&|word| word == CALL) || one(CALL_ONE, tool),
            Self::SeeAll => !for_tools() || any(&|word| word == CALL || word == LIST),
            Self::Server => !for_tools() || any(&|word| word == CALL),
            Self::See(tool) => {
                Self::SeeAll.is_met(words, server) || one(CALL_ONE, tool) || one(READ_ONE, tool)
            }
            Self::Read | Self::Write => {
                let is_open = !for_tools() && !any(&|word| word.starts_with(ADMIN));
                is_open
                    || any(&|word| word == ADMIN_WRITE)
                    || (self == Self::Read && any(&|word| word == ADMIN_READ))
            }
        }
    }

    /// The word that would permit it.
    fn word(self) -> String {
        match self {
            Self::Call(tool) => format!("{CALL_ONE}{tool}"),
            Self::See(tool) => format!("{READ_ONE}{tool}"),
            Self::SeeAll => LIST.to_owned(),
            Self::Server => CALL.to_owned(),
            Self::Read => ADMIN_READ.to_owned(),
            Self::Write => ADMIN_WRITE.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], need: Need<'_>, expected: bool) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(need.is_met(&words, Some("srv")), expected, "{words:?} {need:?}");
    }

    #[test]
    fn words_permit_what_they_name() {
        use Need::{Call, Read, See, SeeAll, Server, Write};
        for need in [Call("a"), See("a"), SeeAll, Server, Read, Write] {
            check(&[], need, true);
            check(&["files.read"], need, true);
            check(&["tools.cal"], need, false);
        }
        check(&["tools.call:a"], Call("a"), true);
        check(&["tools.call:a"], See("a"), true);
        check(&["tools.call:a"], Call("ab"), false);
        check(&["tools.call:srv.a"], Call("a"), true);
        check(&["tools.call:other.a"], Call("a"), false);
        check(&["tools.call:srv.a"], Call("b"), false);
        check(&["tools.call:a"], SeeAll, false);
        check(&["tools.call"], Call("b"), true);
        check(&["tools.call"], SeeAll, true);
        check(&["tools.call"], Server, true);
        check(&["admin.write"], Server, true);
        check(&["tools.call:a"], Server, false);
        check(&["tools.list"], Server, false);
        check(&["tools.list"], See("b"), true);
        check(&["tools.list"], Call("b"), false);
        check(&["tools.read:a"], See("a"), true);
        check(&["tools.read:a"], See("b"), false);
        check(&["tools.read:a"], Call("a"), false);
        check(&["tools.call"], Write, false);
        check(&["admin.write"], Call("a"), true);
        check(&["admin.write"], Read, true);
        check(&["admin.read"], Read, true);
        check(&["admin.read"], Write, false);
    }
}
