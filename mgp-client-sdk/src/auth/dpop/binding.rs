//! Whether tokens are to be bound to a key: what the user, the server and its authorization server say
//! (RFC 9449 §5.1, §7.1, RFC 9728 §2).
//!
//! Applies to: outbound.

use super::key::ALGORITHM;
use crate::auth::challenge::Demand;
use crate::auth::discovery::Discovered;
use crate::auth::error::AuthError;
use crate::auth::store::TokenKind;

/// When a client has its tokens bound to a key (RFC 9449), so that who steals one cannot use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dpop {
    /// Where the authorization server offers it and the server does not take bearers only, and wherever the server
    /// requires it.
    #[default]
    Offered,
    /// Always: a token that is not bound is not used.
    Always,
    /// Never: a server that requires it cannot be used.
    Never,
}

/// What is done about it in one request for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::auth) enum Binding {
    /// No proof is sent.
    None,
    /// A proof is sent, and the authorization server may give a bearer token all the same.
    Wanted,
    /// A proof is sent, and a bearer token is not used.
    Must,
}

/// The schemes a refusal names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::auth) enum Schemes {
    /// None that we know.
    #[default]
    Unsaid,
    /// Bearers only.
    Bearer,
    /// Proofs only.
    Dpop,
    /// Either.
    Both,
}

/// What a server says of the proofs it can check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::auth) enum Signs {
    /// Nothing.
    #[default]
    Unsaid,
    /// Ours.
    Ours,
    /// Others.
    Others,
}

impl Signs {
    pub(in crate::auth) fn of<'a>(list: Option<impl IntoIterator<Item = &'a str>>) -> Self {
        match list {
            None => Self::Unsaid,
            Some(list) => {
                let has_ours = list.into_iter().any(|one| one == ALGORITHM);
                if has_ours { Self::Ours } else { Self::Others }
            }
        }
    }
}

/// Settles whether tokens are to be bound; `before` is what kind those are that the server was shown so far.
pub(in crate::auth) fn binding(
    mode: Dpop,
    found: &Discovered,
    demand: &Demand,
    before: Option<TokenKind>,
) -> Result<Binding, AuthError> {
    let is_required = found.requires_dpop || demand.schemes == Schemes::Dpop;
    let refuse = |why| AuthError::NoDpop { issuer: found.server.issuer.clone(), why };
    if mode == Dpop::Never {
        let why = "the server requires it, and this client was told never to use it";
        return if is_required { Err(refuse(why)) } else { Ok(Binding::None) };
    }
    let signs = [found.server.proofs(), found.proofs, demand.proofs];
    let is_unfit = signs.contains(&Signs::Others);
    // What was bound stays bound, unless the server says what it takes now.
    let was_bound = before == Some(TokenKind::Dpop) && demand.schemes == Schemes::Unsaid;
    if is_required || was_bound || mode == Dpop::Always {
        let why = "no proofs are taken that are signed with `ES256`";
        return if is_unfit { Err(refuse(why)) } else { Ok(Binding::Must) };
    }
    let is_taken = match demand.schemes {
        Schemes::Both | Schemes::Dpop => true,
        Schemes::Bearer => found.proofs == Signs::Ours,
        Schemes::Unsaid => before.is_none() || found.proofs == Signs::Ours,
    };
    let is_offered = found.server.proofs() == Signs::Ours && !is_unfit;
    Ok(if is_taken && is_offered { Binding::Wanted } else { Binding::None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::metadata::AuthServer;

    fn found(server: Signs, resource: Signs, requires_dpop: bool) -> Discovered {
        let mut found = Discovered {
            resource: String::new(),
            metadata: None,
            scopes: None,
            requires_dpop,
            proofs: resource,
            server: AuthServer::unpublished("https://a.example"),
        };
        found.server.dpop_signing_alg_values_supported = match server {
            Signs::Unsaid => None,
            Signs::Ours => Some(vec!["RS256".to_owned(), "ES256".to_owned()]),
            Signs::Others => Some(vec!["RS256".to_owned()]),
        };
        found
    }

    #[test]
    fn tokens_are_bound_where_it_is_offered_and_required() {
        use Binding::{Must, None as No, Wanted};
        use Schemes::{Bearer, Both, Dpop as Only, Unsaid};
        use Signs::{Others, Ours, Unsaid as Quiet};
        let (bearer, bound) = (Some(TokenKind::Bearer), Some(TokenKind::Dpop));
        // (mode, authorization server, resource, required, challenge, tokens) -> binding; `Err` is refused
        let cases = [
            (Dpop::Offered, Quiet, Quiet, false, Unsaid, None, Ok(No)),
            (Dpop::Offered, Ours, Quiet, false, Unsaid, None, Ok(Wanted)),
            (Dpop::Offered, Ours, Quiet, false, Unsaid, bearer, Ok(No)),
            (Dpop::Offered, Ours, Ours, false, Unsaid, bearer, Ok(Wanted)),
            (Dpop::Offered, Quiet, Quiet, false, Unsaid, bound, Ok(Must)),
            (Dpop::Offered, Ours, Quiet, false, Both, bound, Ok(Wanted)),
            (Dpop::Offered, Ours, Quiet, false, Bearer, bound, Ok(No)),
            (Dpop::Offered, Ours, Quiet, false, Bearer, None, Ok(No)),
            (Dpop::Offered, Ours, Ours, false, Bearer, None, Ok(Wanted)),
            (Dpop::Offered, Ours, Quiet, false, Both, bearer, Ok(Wanted)),
            (Dpop::Offered, Ours, Others, false, Both, None, Ok(No)),
            (Dpop::Offered, Others, Quiet, false, Both, None, Ok(No)),
            (Dpop::Offered, Ours, Quiet, false, Only, bearer, Ok(Must)),
            (Dpop::Offered, Quiet, Quiet, false, Only, None, Ok(Must)),
            (Dpop::Offered, Quiet, Quiet, true, Bearer, bearer, Ok(Must)),
            (Dpop::Offered, Others, Quiet, true, Unsaid, None, Err(())),
            (Dpop::Offered, Ours, Others, true, Unsaid, None, Err(())),
            (Dpop::Always, Quiet, Quiet, false, Bearer, bearer, Ok(Must)),
            (Dpop::Always, Others, Quiet, false, Both, None, Err(())),
            (Dpop::Never, Ours, Ours, false, Both, None, Ok(No)),
            (Dpop::Never, Ours, Ours, true, Both, None, Err(())),
            (Dpop::Never, Ours, Ours, false, Only, None, Err(())),
        ];
        for (mode, server, resource, required, schemes, before, expected) in cases {
            let found = found(server, resource, required);
            let demand = Demand { schemes, ..Demand::default() };
            let settled = binding(mode, &found, &demand, before).map_err(|_| ());
            assert_eq!(
                settled, expected,
                "{mode:?} {server:?} {resource:?} {required} {schemes:?}"
            );
        }
    }
}
