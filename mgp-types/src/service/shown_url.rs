//! URLs in errors and logs, without possible secrets.

const MAX_BYTES: usize = 512;

/// Returns a URL for display: scheme, host, port and path, without user name, password, query and fragment.
///
/// Accepts any text. If a possible secret cannot be distinguished from the host or the path, everything after the
/// scheme is omitted.
///
/// ```
/// use mgp_types::service::shown_url;
///
/// assert_eq!(shown_url("https://me:s3cret@example.com/mcp?key=s3cret"), "https://example.com/mcp");
/// ```
#[must_use]
pub fn shown_url(url: &str) -> String {
    let url = url.trim();
    let bare = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let start = match bare.find("//") {
        Some(slashes) if bare[..slashes].bytes().all(is_of_scheme) => slashes + 2,
        _ => 0,
    };
    let (scheme, rest) = bare.split_at(start);
    let (authority, path) = rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // An `@` after the first slash can mean that the password contains a slash. The part before the slash then looks
    // like a host with a port, but is the user name and the beginning of the password, so nothing of it is shown.
    let behind = &url[start + authority.len()..];
    let is_doubtful = authority.contains(':') && behind.contains('@');
    if is_doubtful || !has_fair_port(host) {
        return format!("{scheme}…");
    }
    crate::clip(&format!("{scheme}{host}{path}"), MAX_BYTES)
}

/// Returns a URL for display as [`shown_url`] does, but with `…` instead of its path, because paths of webhooks are
/// often secrets.
///
/// ```
/// use mgp_types::service::shown_origin;
///
/// assert_eq!(shown_origin("https://hooks.example.com/in/s3cret"), "https://hooks.example.com/…");
/// ```
#[must_use]
pub fn shown_origin(url: &str) -> String {
    let shown = shown_url(url);
    let origin = shown.split_once("://").and_then(|(scheme, rest)| {
        rest.split_once(['/', '\\']).map(|(host, _)| format!("{scheme}://{host}/…"))
    });
    origin.unwrap_or(shown)
}

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.:".contains(&byte)
}

/// Returns whether the text after the host is empty or a valid port. Any other text might be a secret.
fn has_fair_port(host: &str) -> bool {
    // An IPv6 address contains colons, and so does a variable with a default (`${HOST:-x.org}`). Therefore search only
    // the text after the last closing bracket for a port.
    let after = host.rfind([']', '}']).map_or(host, |end| &host[end..]);
    after.split_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(url: &str, shown: &str) {
        assert_eq!(shown_url(url), shown, "{url}");
    }

    #[test]
    fn addresses_are_shown() {
        for url in [
            "https://example.com/mcp",
            "http://127.0.0.1:8000",
            "http://[::1]:80/a/b",
            "http://[::1]/",
            "/mcp/",
            "//example.com/x",
            "localhost:8000/mcp",
            "https://example.com/@scope/mcp",
            "https://${REGION:-eu}.example.com/mcp",
            "example",
            "",
        ] {
            check(url, url);
        }
    }

    #[test]
    fn possible_secrets_are_omitted() {
        check("https://example.com/mcp?key=k", "https://example.com/mcp");
        check("https://example.com?key=k#x", "https://example.com");
        check("/back?code=k#state", "/back");
        check("http://k@example.com/", "http://example.com/");
        check("http://me:k@k@example.com:1/a", "http://example.com:1/a");
        check("//me:k@example.com/", "//example.com/");
        check("me:k@example.com/", "example.com/");
        for url in ["http://me:k/k@example.com/", "http://me:k?x@h", "http://me:7/k@h"] {
            check(url, "http://…");
        }
        check(r"https:\\me:k@h", "…");
        check("https:/me:k@h", "…");
        check("http://h/\nX-Forged: 1", "http://h/ X-Forged: 1");
    }

    proptest! {
        #[test]
        fn any_text_is_shown(url in ".{0,40}") {
            prop_assert!(!shown_url(&url).contains(['?', '#']));
        }

        #[test]
        fn no_secret_of_a_url_is_shown(secret in "[A-Z/:@?#%0-9]{0,8}Q[A-Z/:@?#%0-9]{0,8}") {
            for url in [
                format!("http://me:{secret}@example.com/mcp"),
                format!("http://example.com/mcp?{secret}"),
                format!("http://example.com/mcp#{secret}"),
            ] {
                let shown = shown_url(&url);
                prop_assert!(!shown.contains('Q'), "{url}: {shown}");
            }
        }
    }
}
