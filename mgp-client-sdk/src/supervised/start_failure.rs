//! The reasons why a start of a supervised server failed, and whether another start would fail in the same way.

use std::io::ErrorKind;

use mgp_lifecycle::ConnectError;
use mgp_transport::{ChildError, ExitReport};
use mgp_types::mcp::Revision;
use mgp_types::mgp::Permission;
use mgp_types::service::{Exit, HttpFailure, is_connection_lost};
use mgp_types::{ErrorCode, clip, escape_hidden};

use super::authorization::AuthorizationFailed;
use crate::error::{Error, cause_of};

/// The maximum number of bytes of a server's refusal in the log.
const MAX_LOGGED_BYTES: usize = 600;

/// The number of the error that a process has too many open files, on all Unix systems.
const EMFILE: i32 = 24;

/// Describes why a program did not start, and returns whether another start would fail in the same way.
pub(super) fn spawn_failure(error: &ChildError) -> (String, bool) {
    if let ChildError::NoDirectory(_) = error {
        return (format!("{error}; create it, or correct `cwd`"), true);
    }
    let ChildError::Start { program, source } = error else {
        return (format!("{error}{}", cause_of(error)), false);
    };
    let (remedy, is_lasting) = match source.kind() {
        ErrorKind::NotFound => ("; install it, or correct `command` or `cwd`", true),
        ErrorKind::PermissionDenied => {
            ("; run `chmod +x` on it, or correct `command` or `cwd`", true)
        }
        ErrorKind::WouldBlock => {
            ("; raise the limit of processes (`ulimit -u`, or that of the container)", false)
        }
        _ if cfg!(unix) && source.raw_os_error() == Some(EMFILE) => {
            ("; raise the limit of open files (`ulimit -n`)", false)
        }
        _ => ("", false),
    };
    let program = program.display();
    (format!("program \"{program}\" did not start: {source}{remedy}"), is_lasting)
}

/// Describes why a handshake failed, without any text from the server.
pub(super) fn failure_cause(error: &Error) -> String {
    let (Error::Connect(ConnectError::Refused(refusal)) | Error::Call(refusal)) = error else {
        // This workspace writes these texts, but an unknown revision or permission in them can be any text from the
        // server.
        let is_ours = match error {
            Error::UnsupportedVersion { requested, supported } => {
                supported.iter().chain([requested]).all(Revision::is_known)
            }
            Error::Connect(ConnectError::Rejected(names) | ConnectError::Deferred(names)) => {
                names.iter().all(|name| Permission::from(name.as_str()).is_valid())
            }
            _ => true,
        };
        if is_ours {
            return error.to_string();
        }
        return format!("the handshake failed with {}; see the log", error.code());
    };
    if let Some(failed) = AuthorizationFailed::from_error(refusal) {
        return failed.to_string();
    }
    #[cfg(feature = "auth")]
    if let Some(cause) = credentials_failure(refusal) {
        return cause;
    }
    let code = refusal.code();
    match HttpFailure::from_error(refusal) {
        Some(HttpFailure::Status(401) | HttpFailure::StatusWithError(401)) => {
            "the server requires valid credentials (HTTP 401): log in, or set or correct a header, and start it again"
                .to_owned()
        }
        Some(HttpFailure::Status(300..=399)) => {
            "the server redirects to another URL; use that one if you trust it".to_owned()
        }
        Some(HttpFailure::StatusWithError(status)) => {
            format!("the handshake was refused with HTTP {status} and code {code}")
        }
        None | Some(HttpFailure::NoAnswer) => format!("the handshake was refused with {code}"),
        // This workspace also wrote this message, except for the challenge and the text of the server at its end, so
        // cut these off.
        Some(_) => {
            let ours = refusal.message().split(" (challenge: ").next().unwrap_or_default();
            ours.split(" (server: `").next().unwrap_or_default().to_owned()
        }
    }
}

/// Describes why no credentials for a handshake could be obtained; `None` for any other error.
#[cfg(feature = "auth")]
fn credentials_failure(refusal: &mgp_types::RpcError) -> Option<String> {
    use crate::auth::AuthError;
    let error = std::error::Error::source(refusal)?.downcast_ref::<std::sync::Arc<AuthError>>()?;
    Some(match &**error {
        // Use the text of the error, because it names the file of the login and the remedy.
        AuthError::Store(error) => error.to_string(),
        _ => {
            format!("no credentials for it could be obtained ({}); see the log", refusal.code())
        }
    })
}

/// Returns the text of the server's refusal of the handshake, for the log; `None` if the server sent none, or if
/// `cause` already contains the whole text.
pub(super) fn refusal_text(error: &Error, cause: &str) -> Option<String> {
    let text = match error {
        Error::UnsupportedVersion { .. }
        | Error::Connect(ConnectError::Rejected(_) | ConnectError::Deferred(_)) => {
            error.to_string()
        }
        Error::Connect(ConnectError::Refused(refusal)) | Error::Call(refusal)
            if !is_connection_lost(refusal) =>
        {
            refusal.message().to_owned()
        }
        _ => return None,
    };
    let text = escape_hidden(&clip(&text, MAX_LOGGED_BYTES));
    (text != cause).then_some(text)
}

/// Returns whether another handshake would fail in the same way, e.g. without credentials.
pub(super) fn is_permanent(error: &Error) -> bool {
    let (Error::Connect(ConnectError::Refused(refusal)) | Error::Call(refusal)) = error else {
        use ConnectError::{Deferred, TimedOut};
        return !matches!(error, Error::Connect(TimedOut(_) | Deferred(_)) | Error::Unaudited(_));
    };
    if AuthorizationFailed::from_error(refusal).is_some() {
        // An internal error, e.g. because the disk is full, may pass; a missing login stays.
        return refusal.code() != ErrorCode::INTERNAL_ERROR;
    }
    match HttpFailure::from_error(refusal) {
        Some(HttpFailure::Status(status) | HttpFailure::StatusWithError(status)) => {
            matches!(status, 300..=399 | 401 | 403 | 407)
        }
        // The server cannot be reached, and the error's hints do not allow a retry, e.g. because the server's
        // certificate is not trusted.
        Some(HttpFailure::Unreachable) => {
            refusal.as_recovery().is_some_and(|hints| !hints.is_retryable())
        }
        Some(_) => false,
        None => matches!(refusal.code(), ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED),
    }
}

pub(super) fn exit(report: ExitReport) -> Exit {
    let how = format!("the server {report}");
    if report.is_success() { Exit::success(how) } else { Exit::failure(how) }
}

#[cfg(test)]
mod tests {
    use mgp_types::RpcError;

    use super::*;

    #[test]
    fn words_that_only_the_server_knows_are_logged_but_are_not_in_the_cause() {
        let unsupported = |revision: &str| ConnectError::Unsupported(revision.into());
        let rejected = |name: &str| ConnectError::Rejected(vec![name.to_owned()]);
        for (error, word, is_known) in [
            (unsupported("2024-11-05"), "2024-11-05", true),
            (unsupported("theirs"), "theirs", false),
            (rejected("camera"), "camera", true),
            (rejected("theirs, now"), "theirs", false),
        ] {
            let error = Error::from(error);
            let cause = failure_cause(&error);
            assert_eq!(cause.contains(word), is_known, "{cause}");
            let logged = refusal_text(&error, &cause);
            assert_eq!(logged.is_some_and(|text| text.contains(word)), !is_known, "{word}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_start_that_a_limit_refused_names_the_limit_and_is_repeated() {
        for (source, limit) in [
            (std::io::Error::from_raw_os_error(EMFILE), "`ulimit -n`"),
            (ErrorKind::WouldBlock.into(), "`ulimit -u`"),
        ] {
            let (text, is_lasting) =
                spawn_failure(&ChildError::Start { program: "x".into(), source });
            assert!(text.contains(limit) && !is_lasting, "{text}");
        }
    }

    #[test]
    fn a_refused_header_is_to_be_corrected() {
        let error = RpcError::new(ErrorCode::AUTH_REQUIRED, "theirs");
        let cause = failure_cause(&Error::Call(error.because(HttpFailure::Status(401))));
        assert!(cause.contains("set or correct a header") && !cause.contains("theirs"), "{cause}");
    }

    #[cfg(feature = "auth")]
    #[test]
    fn a_lack_of_credentials_is_not_a_refusal_and_a_login_that_cannot_be_read_is_named() {
        use crate::auth::{AuthError, TokenStoreError};
        let cause = |error: AuthError| {
            let refusal = RpcError::from(&error).because(std::sync::Arc::new(error));
            failure_cause(&Error::Call(refusal))
        };
        let url = "https://theirs.example".to_owned();
        let (what, why) = ("it", "theirs".to_owned());
        let unfit = cause(AuthError::Document { what, url, why });
        assert!(unfit.contains("no credentials for it") && !unfit.contains("theirs"), "{unfit}");
        let unread = cause(TokenStoreError::Other("t.json is empty".to_owned()).into());
        assert!(unread.contains("t.json is empty"), "{unread}");
    }
}
