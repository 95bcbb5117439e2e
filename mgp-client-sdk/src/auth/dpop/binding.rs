//! Decides whether tokens are bound to a key, from the user's configuration, the server and its authorization server
//! (RFC 9449 §5.1, §7.1, RFC 9728 §2).

use super::key::ALGORITHM;
use crate::auth::challenge::Demand;
use crate::auth::discovery::Discovered;
use crate::auth::error::AuthError;
use crate::auth::store::TokenKind;

/// The condition under which tokens are bound to a key (RFC 9449). A bound token is useless to a thief without the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DpopMode {
    /// Tokens are bound if the server requires it. They are also bound if the authorization server offers it, unless
    /// the server has shown that it accepts only bearer tokens.
    #[default]
    Offered,
    /// Tokens are always bound; a token that is not bound is not used.
    Always,
    /// Tokens are never bound to a key; a server that requires bound tokens cannot be used.
    Never,
}

/// The way one token request asks for a token that is bound to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::auth) enum Binding {
    /// No proof is sent.
    None,
    /// The client sends a proof, and accepts a bearer token too.
    Wanted,
    /// The client sends a proof, and refuses a bearer token.
    Must,
}

/// The authentication schemes that a refusal names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::auth) enum Schemes {
    /// The refusal names no supported scheme.
    #[default]
    Unstated,
    /// The refusal names bearer tokens only.
    Bearer,
    /// The refusal names bound tokens only.
    Dpop,
    /// The refusal names bearer tokens and bound tokens.
    Both,
}

/// The support of a server for this client's proofs of possession, as metadata or a challenge declares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::auth) enum ProofSupport {
    /// No algorithms are listed.
    #[default]
    Unstated,
    /// The algorithm of this client is listed.
    Supported,
    /// Only other algorithms are listed.
    Unsupported,
}

impl ProofSupport {
    pub(in crate::auth) fn of<'a>(list: Option<impl IntoIterator<Item = &'a str>>) -> Self {
        match list {
            None => Self::Unstated,
            Some(list) => {
                let has_ours = list.into_iter().any(|one| one == ALGORITHM);
                if has_ours { Self::Supported } else { Self::Unsupported }
            }
        }
    }
}

/// Decides whether tokens are bound; `before` is the kind of the tokens in use so far.
pub(in crate::auth) fn binding(
    mode: DpopMode,
    found: &Discovered,
    demand: &Demand,
    before: Option<TokenKind>,
) -> Result<Binding, AuthError> {
    let is_required = found.requires_dpop || demand.schemes == Schemes::Dpop;
    let refuse = |why| AuthError::NoDpop { issuer: found.server.issuer.clone(), why };
    if mode == DpopMode::Never {
        let why = "the server requires it, but this client is configured never to use it";
        return if is_required { Err(refuse(why)) } else { Ok(Binding::None) };
    }
    let signs = [found.server.proofs(), found.proofs, demand.proofs];
    let is_unfit = signs.contains(&ProofSupport::Unsupported);
    // The next tokens are bound too if the earlier tokens were bound, unless the challenge states which schemes the
    // server accepts.
    let was_bound = before == Some(TokenKind::Dpop) && demand.schemes == Schemes::Unstated;
    if is_required || was_bound || mode == DpopMode::Always {
        let why = "proofs signed with `ES256` are not accepted";
        return if is_unfit { Err(refuse(why)) } else { Ok(Binding::Must) };
    }
    let is_accepted = match demand.schemes {
        Schemes::Both | Schemes::Dpop => true,
        Schemes::Bearer => found.proofs == ProofSupport::Supported,
        Schemes::Unstated => before.is_none() || found.proofs == ProofSupport::Supported,
    };
    let is_offered = found.server.proofs() == ProofSupport::Supported && !is_unfit;
    Ok(if is_accepted && is_offered { Binding::Wanted } else { Binding::None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::metadata::AuthServer;

    fn found(server: ProofSupport, resource: ProofSupport, requires_dpop: bool) -> Discovered {
        let mut found = Discovered {
            resource: String::new(),
            metadata: None,
            scopes: None,
            requires_dpop,
            proofs: resource,
            server: AuthServer::without_metadata("https://a.example"),
        };
        found.server.dpop_signing_alg_values_supported = match server {
            ProofSupport::Unstated => None,
            ProofSupport::Supported => Some(vec!["RS256".to_owned(), "ES256".to_owned()]),
            ProofSupport::Unsupported => Some(vec!["RS256".to_owned()]),
        };
        found
    }

    #[test]
    fn tokens_are_bound_where_it_is_offered_and_required() {
        use Binding::{Must, None as No, Wanted};
        use ProofSupport::{Supported, Unstated as Quiet, Unsupported};
        use Schemes::{Bearer, Both, Dpop as Only, Unstated};
        let (bearer, bound) = (Some(TokenKind::Bearer), Some(TokenKind::Dpop));
        // (mode, authorization server, resource, required, challenge, tokens) -> binding, or `Err` if none is possible
        let cases = [
            (DpopMode::Offered, Quiet, Quiet, false, Unstated, None, Ok(No)),
            (DpopMode::Offered, Supported, Quiet, false, Unstated, None, Ok(Wanted)),
            (DpopMode::Offered, Supported, Quiet, false, Unstated, bearer, Ok(No)),
            (DpopMode::Offered, Supported, Supported, false, Unstated, bearer, Ok(Wanted)),
            (DpopMode::Offered, Quiet, Quiet, false, Unstated, bound, Ok(Must)),
            (DpopMode::Offered, Supported, Quiet, false, Both, bound, Ok(Wanted)),
            (DpopMode::Offered, Supported, Quiet, false, Bearer, bound, Ok(No)),
            (DpopMode::Offered, Supported, Quiet, false, Bearer, None, Ok(No)),
            (DpopMode::Offered, Supported, Supported, false, Bearer, None, Ok(Wanted)),
            (DpopMode::Offered, Supported, Quiet, false, Both, bearer, Ok(Wanted)),
            (DpopMode::Offered, Supported, Unsupported, false, Both, None, Ok(No)),
            (DpopMode::Offered, Unsupported, Quiet, false, Both, None, Ok(No)),
            (DpopMode::Offered, Supported, Quiet, false, Only, bearer, Ok(Must)),
            (DpopMode::Offered, Quiet, Quiet, false, Only, None, Ok(Must)),
            (DpopMode::Offered, Quiet, Quiet, true, Bearer, bearer, Ok(Must)),
            (DpopMode::Offered, Unsupported, Quiet, true, Unstated, None, Err(())),
            (DpopMode::Offered, Supported, Unsupported, true, Unstated, None, Err(())),
            (DpopMode::Always, Quiet, Quiet, false, Bearer, bearer, Ok(Must)),
            (DpopMode::Always, Unsupported, Quiet, false, Both, None, Err(())),
            (DpopMode::Never, Supported, Supported, false, Both, None, Ok(No)),
            (DpopMode::Never, Supported, Supported, true, Both, None, Err(())),
            (DpopMode::Never, Supported, Supported, false, Only, None, Err(())),
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
