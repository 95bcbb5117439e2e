//! The protected server of the script.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mgp_client_sdk::auth::OAuth;
use mgp_transport::http::{CredentialRefusal, Credentials as _, RequestTarget};
use mgp_types::RpcError;
use mgp_types::service::{FetchRequest, FetchResponse};
use url::form_urlencoded;

use super::{SERVER, World, words};
use crate::proofs::{NonceRule, ProofResult};

/// The result of checking a request's credentials: the scopes of its token. The error is `None` if the token is not
/// valid; if its proof is refused, the error contains the error code and the nonce to send.
type Judged = Result<BTreeSet<String>, Option<(&'static str, Option<String>)>>;

impl World {
    /// Returns credentials of a person with which a request has succeeded.
    pub(crate) async fn logged_in(self: &Arc<Self>) -> OAuth {
        let oauth = self.oauth();
        self.call(&oauth, "").await.unwrap();
        oauth
    }

    /// Sends a request that needs scopes, as the HTTP transport does: again after each refusal that was handled.
    pub(crate) async fn call(&self, oauth: &OAuth, needs: &str) -> Result<String, RpcError> {
        for times in 1..=32 {
            // The URL has a query, to show that proofs do not cover it.
            let url = format!("{SERVER}?key=value");
            let shown = oauth.for_request(RequestTarget::new("POST", &url)).await?;
            let header = shown.headers.iter().find(|(name, _)| *name == "dpop");
            let proof = header.map(|(_, proof)| proof.as_str());
            let authorization = shown.authorization.as_deref().unwrap_or_default();
            let (scheme, token) = authorization.split_once(' ').unwrap_or_default();
            let refusal = match self.judge(scheme, token, proof) {
                Ok(granted) if words(needs).is_subset(&granted) => {
                    if self.switches().server_wants == NonceRule::Rotated {
                        self.state().at_server.rotate();
                        oauth.handle_nonce(&self.state().at_server.nonce());
                    }
                    return Ok(token.to_owned());
                }
                Ok(_) => {
                    let challenge = self.challenge(Some(needs));
                    CredentialRefusal::new(403, vec![challenge], shown.authorization)
                }
                Err(None) => {
                    let challenge = self.challenge(self.switches().challenge_scope);
                    CredentialRefusal::new(401, vec![challenge], shown.authorization)
                }
                Err(Some((error, nonce))) => {
                    let challenge = format!("DPoP error=\"{error}\", algs=\"ES256\"");
                    CredentialRefusal::new(401, vec![challenge], shown.authorization).nonce(nonce)
                }
            };
            oauth.handle_refusal(refusal.attempts(times)).await?;
        }
        panic!("the client never gives up");
    }

    fn judge(&self, scheme: &str, token: &str, proof: Option<&str>) -> Judged {
        let switches = self.switches();
        let (granted, key) = self.state().access.get(token).cloned().ok_or(None)?;
        if !switches.schemes.contains(&scheme) {
            return Err(None);
        }
        let Some(key) = key else {
            if scheme != "Bearer" || proof.is_some() {
                self.fault(format!("a bearer token shown as {scheme}"));
            }
            return Ok(granted);
        };
        if scheme != "DPoP" {
            self.fault(format!("a bound token shown as {scheme}"));
        }
        let wants = switches.server_wants;
        let mut state = self.state();
        let proved =
            state.at_server.check(proof.unwrap_or_default(), ("POST", SERVER), Some(token), wants);
        if let Some((error, nonce)) = switches.proof_fault {
            return Err(Some((error, nonce.map(str::to_owned))));
        }
        match proved {
            Ok(ProofResult::Key(found)) if found == key => Ok(granted),
            Ok(ProofResult::Nonce) => {
                let nonce = state.at_server.nonce();
                if wants == NonceRule::Endless {
                    state.at_server.rotate();
                }
                Err(Some(("use_dpop_nonce", Some(nonce))))
            }
            wrong => {
                let why = wrong.err().unwrap_or_else(|| "another key".to_owned());
                state.faults.push(format!("proof at the server: {why}"));
                Err(Some(("invalid_dpop_proof", None)))
            }
        }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    /// Answers a request to the revocation endpoint of an issuer (RFC 7009).
    pub(super) fn revoke_token(&self, issuer: &str, request: &FetchRequest) -> FetchResponse {
        let form: BTreeMap<String, String> =
            form_urlencoded::parse(&request.body).into_owned().collect();
        if self.client(issuer, request, &form).is_none() {
            return FetchResponse::new(401, r#"{"error":"invalid_client"}"#);
        }
        let mut state = self.state();
        let is_known = match form["token_type_hint"].as_str() {
            "refresh_token" => state.refresh.remove(&form["token"]).is_some(),
            _ => state.access.remove(&form["token"]).is_some(),
        };
        if !is_known {
            state.faults.push("revocation of an unknown token".to_owned());
        }
        FetchResponse::new(200, "")
    }

    fn challenge(&self, scope: Option<&str>) -> String {
        let switches = self.switches();
        let mut challenge = format!("{} realm=\"x\"", switches.schemes.join(", "));
        if let Some(path) = switches.metadata_at.filter(|_| switches.challenge_names_metadata) {
            challenge += ", resource_metadata=\"https://mcp.example";
            challenge += path;
            challenge.push('"');
        }
        if let Some(scope) = scope {
            challenge += ", scope=\"";
            challenge += scope;
            challenge.push('"');
        }
        challenge
    }
}
