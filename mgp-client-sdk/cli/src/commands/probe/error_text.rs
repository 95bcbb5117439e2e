//! The texts of errors of probed servers, with remedies for users of this program.

use std::error::Error as _;
use std::sync::Arc;

use mgp_client_sdk::auth::AuthError;
use mgp_client_sdk::gateway::AuthorizationFailed;
use mgp_types::service::{FetchError, HttpFailure, ServerId};

use super::SentCredentials;

/// The redirect URI of a client that was registered by hand, and of logins whose browser runs on another device.
pub(in crate::commands) const REDIRECT_URI: &str = "http://127.0.0.1:8976/callback";

/// Returns the text of an error and of its sources, without repeated sentences.
pub(in crate::commands) fn error_chain(
    error: &mgp_client_sdk::Error,
    id: &ServerId,
    sent: SentCredentials,
) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(failed) = error.downcast_ref::<AuthorizationFailed>() {
            return failed.to_string();
        }
        if let Some(error) = error.downcast_ref::<Arc<AuthError>>()
            && matches!(
                **error,
                AuthError::NoClient { .. }
                    | AuthError::Registration { .. }
                    | AuthError::ForeignIssuer { .. }
                    | AuthError::IssuerMismatch { .. }
                    | AuthError::Fetch(_)
            )
        {
            return login_error(error, id);
        }
        // Replace the SDK's text: it names functions of the SDK, which users of the program do not know.
        let status = error.downcast_ref::<HttpFailure>();
        if let Some(HttpFailure::Status(401) | HttpFailure::StatusWithError(401)) = status {
            return sent.refused_by(id);
        }
        let sentence = error.to_string();
        if !text.contains(&sentence) {
            text = format!("{text}: {sentence}");
        }
        source = error.source();
    }
    text
}

/// Returns the text of a login error. It names a remedy for users of this program, in place of the SDK's remedy for
/// programmers.
pub(in crate::commands) fn login_error(error: &AuthError, id: &ServerId) -> String {
    match error {
        AuthError::NoClient { issuer } => format!(
            "`{issuer}` accepts no registrations: register `mgp` there by hand with the redirect URI {REDIRECT_URI}, and write its `client_id` into `auth` of `{id}`"
        ),
        // If the registration endpoint failed with a status 5xx, a later attempt may succeed. So do not advise to
        // register by hand then.
        AuthError::Registration { error: status, .. } if !status.starts_with("status 5") => {
            format!(
                "{error}; register `mgp` there by hand with the redirect URI {REDIRECT_URI}, and write its `client_id` into `auth` of `{id}`"
            )
        }
        AuthError::IssuerMismatch { asked, found }
            if asked.strip_suffix('/') == Some(found.as_str())
                && found.matches('/').count() == 2 =>
        {
            format!("{error}; write `issuer = \"{found}\"` into `auth` of `{id}`")
        }
        AuthError::Fetch(FetchError::Failed { .. }) => format!(
            "{error}; check that this address can be reached, which a login at `{id}` needs"
        ),
        AuthError::Fetch(FetchError::Forbidden { .. }) => format!(
            "{error}; if you trust an issuer at that host, write it as `issuer` into `auth` of `{id}`"
        ),
        AuthError::ForeignIssuer { expected, found } => format!(
            "the client of `{id}` is registered at `{expected}`, but the server now names {found}; if you trust the change, write the new one as `issuer` into its `auth`"
        ),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_registration_names_the_key_for_a_client_and_a_failed_one_does_not() {
        for (error, is_refused) in [("invalid_client_metadata", true), ("status 503", false)] {
            let (issuer, error) = ("https://one.example".to_owned(), error.to_owned());
            let error = AuthError::Registration { issuer, error, description: String::new() };
            let text = login_error(&error, &"tracker".into());
            assert!(text.contains("refused to register"), "{text}");
            assert_eq!(text.contains("into `auth` of `tracker`"), is_refused, "{text}");
        }
    }

    #[test]
    fn an_address_that_fails_is_to_be_checked_and_a_private_one_to_be_configured() {
        let (url, why) = ("https://one.example".to_owned(), "no".to_owned());
        let failed = FetchError::Failed { url: url.clone(), why: why.clone() };
        for (error, remedy) in [
            (failed, "check that this address can be reached"),
            (FetchError::Forbidden { url, why }, "as `issuer` into `auth` of `tracker`"),
        ] {
            let text = login_error(&error.into(), &"tracker".into());
            assert!(text.contains("https://one.example") && text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn an_issuer_that_differs_by_the_slash_after_its_host_is_an_error_with_the_remedy() {
        for (asked, found, has_remedy) in [
            ("https://one.example/", "https://one.example", true),
            ("https://one.example/t/", "https://one.example/t", false),
            ("https://one.example", "https://one.example/", false),
        ] {
            let (asked, found) = (asked.to_owned(), found.to_owned());
            let text = login_error(&AuthError::IssuerMismatch { asked, found }, &"tracker".into());
            assert!(text.contains("must be identical"), "{text}");
            assert_eq!(text.contains("`issuer = \"https://one.example\"`"), has_remedy, "{text}");
        }
    }
}
