//! The permissions of credentials (MGP §5): they restrict what access entries allow, and never extend it.
//!
//! An API key has permissions, and a token has scopes. The following permissions and scopes are enforced here:
//!
//! | permission | what it permits |
//! |---|---|
//! | `tools.call` | to call every tool, and to see it; resources, prompts and completion too |
//! | `tools.call:NAME`, `tools.call:SERVER.NAME` | to call the tool, of any server or of SERVER only, and to see it |
//! | `tools.list` | to see every tool in lists |
//! | `tools.read:NAME`, `tools.read:SERVER.NAME` | to see the tool in lists, of any server or of SERVER only |
//! | `admin.write` | for operators only: to grant and revoke access, and to query the access of other agents |
//! | `admin.read` | for operators only: to query the access of other agents |
//!
//! Both are called permissions below. Credentials without any `tools.` permission do not restrict tools. Credentials
//! with at least one permit only the tools that these permissions name; an unknown `tools.` permission permits nothing.
//! Credentials without any `tools.` or `admin.` permission do not restrict administration. Credentials with at least
//! one of them need the matching `admin.` permission for administration, because a key issued for tools is not meant
//! for it. Names are compared exactly.

use mgp_types::service::{Context, CredentialGrant, Rule};

const TOOLS: &str = "tools.";
const ADMIN: &str = "admin.";
const CALL: &str = "tools.call";
const CALL_ONE: &str = "tools.call:";
const LIST: &str = "tools.list";
const READ_ONE: &str = "tools.read:";
const ADMIN_READ: &str = "admin.read";
const ADMIN_WRITE: &str = "admin.write";

/// An action that the credentials of a call must permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// Calling the tool with this name.
    Call(&'a str),
    /// Seeing the tool with this name in a list.
    See(&'a str),
    /// Seeing every tool in a list, whatever its name.
    SeeAll,
    /// Seeing any tool in a list; the names of the tools need not be known.
    SeeAny,
    /// Using a server as a whole, i.e. its resources, prompts and completions.
    Server,
    /// Querying the access entries of other agents.
    Read,
    /// Granting and revoking access.
    Write,
}

/// The error for credentials that expired or were revoked after the request was admitted.
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

/// The error for credentials that do not permit what the caller requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credentials without the permission `{word}`")]
pub(crate) struct Lacking {
    word: String,
}

/// The permissions of a call's credentials; a call without credentials (`None`) is not restricted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials<'a>(Option<&'a CredentialGrant>);

impl<'a> Credentials<'a> {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) fn of(cx: &'a Context) -> Self {
        Self(cx.extensions.get::<CredentialGrant>())
    }

    /// Returns an error if the credentials have expired or were revoked.
    #[inline]
    pub(crate) fn check_end(self) -> Result<(), CredentialsExpired> {
        match self.0 {
            Some(pass) if !pass.is_valid() => Err(CredentialsExpired::new()),
            _ => Ok(()),
        }
    }

    /// Returns an error if the credentials do not permit the action `need`.
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
            Self::SeeAny => {
                let names_one =
                    |word: &str| word.starts_with(CALL_ONE) || word.starts_with(READ_ONE);
                Self::SeeAll.is_met(words, server) || any(&names_one)
            }
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

    /// Returns the permission that the credentials would need, for the error message.
    fn word(self) -> String {
        match self {
            Self::Call(tool) => format!("{CALL_ONE}{tool}"),
            Self::See(tool) => format!("{READ_ONE}{tool}"),
            Self::SeeAll | Self::SeeAny => LIST.to_owned(),
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
        use Need::{Call, Read, See, SeeAll, SeeAny, Server, Write};
        for need in [Call("a"), See("a"), SeeAll, SeeAny, Server, Read, Write] {
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
        for word in ["tools.call", "tools.list", "tools.call:a", "tools.read:a"] {
            check(&[word], SeeAny, true);
        }
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
