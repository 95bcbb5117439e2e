//! The check of the address of a page that a server asks the user to open (MCP elicitation in URL mode).

use std::net::Ipv6Addr;

use mgp_types::mcp::{ElicitParams, UrlElicitationRequiredData};
use mgp_types::service::{ServerId, is_loopback_host, shown_url};
use mgp_types::{ErrorCode, Extras, Payload, RpcError, canonical, differs_only_in_case, is_hidden};

use super::log_limit::LogLimit;
use super::offers::SHOWN_MEMBERS;

/// The maximum length of an address in bytes.
const MAX_BYTES: usize = 8 << 10;

/// The maximum number of pages that one error may name, because the caller is asked to open each of them.
const MAX_PAGES: usize = 64;

/// The counter that limits the logged refusals of this process.
static LOGGED: LogLimit = LogLimit::new();

/// The part of every refusal that names the remedy for the developer of the server.
const REMEDY: &str = "a page is opened at `https://…`, or at `http://…` on this machine";

/// Checks the address of a page before a host receives it.
///
/// Hosts open addresses with a browser or with the opener of the system, which also runs scripts (`javascript:`), opens
/// files (`file:`) and starts programs (schemes of other applications).
///
/// # Errors
/// Code −32602 (invalid params) for an address that is neither `https` nor `http` on this machine, and for an address
/// that programs or people can take for an address of another host.
pub(crate) fn check_page(address: &str, server: Option<&ServerId>) -> Result<(), RpcError> {
    refusal(address, server).map_or(Ok(()), |why| Err(RpcError::invalid_params(why)))
}

/// Replaces a server's error −32042 (URL elicitation required) by error 5000 (upstream error) if it names a page that
/// may not be opened, or cannot be read. Returns other errors unchanged.
pub(crate) fn check_pages(error: RpcError, server: Option<&ServerId>) -> RpcError {
    let Some(data) = error.as_data() else { return error };
    if error.code() != ErrorCode::URL_ELICITATION_REQUIRED {
        return error;
    }
    let refused = match read_pages(data) {
        Some(pages) => {
            let mut addresses = pages.iter().filter_map(|page| page.url.as_deref());
            addresses.find_map(|address| refusal(address, server))
        }
        None => Some(format!("its list of pages cannot be read, or has more than {MAX_PAGES}")),
    };
    let Some(why) = refused else { return error };
    let message = format!("the server needs a visit of the user to a page, but {why}");
    RpcError::new(ErrorCode::UPSTREAM_ERROR, message)
}

/// Returns the pages that the user must visit before the refused call can succeed; `None` unless the error is −32042
/// (URL elicitation required).
pub(crate) fn required_pages(error: &RpcError) -> Option<Vec<ElicitParams>> {
    let required = error.code() == ErrorCode::URL_ELICITATION_REQUIRED;
    required.then(|| error.as_data().and_then(read_pages).unwrap_or_default())
}

/// Returns the pages that an error −32042 (URL elicitation required) names. Returns `None` for data that a host could
/// read differently: data with a repeated member, or with a member whose name differs from a known name only in case.
/// Also returns `None` for more than [`MAX_PAGES`] pages.
fn read_pages(data: &Payload) -> Option<Vec<ElicitParams>> {
    canonical(data.as_str()).ok()?;
    let data: UrlElicitationRequiredData = data.get().ok()?;
    let is_clear = |members: &Extras, known: &[&str]| {
        members.iter().all(|(name, _)| !known.iter().any(|known| differs_only_in_case(name, known)))
    };
    let are_clear = is_clear(&data.extra, &["elicitations"])
        && data.elicitations.iter().all(|page| is_clear(&page.extra, &SHOWN_MEMBERS));
    (are_clear && data.elicitations.len() <= MAX_PAGES).then_some(data.elicitations)
}

/// Returns the reason why a page is refused, for its server's developer, and logs it; `None` if it may be opened.
fn refusal(address: &str, server: Option<&ServerId>) -> Option<String> {
    let fault = fault(address)?;
    let shown = shown_url(address);
    if LOGGED.admits() {
        tracing::warn!(?server, page = shown.as_str(), fault, "page of an elicitation refused");
    }
    Some(format!("the page `{shown}` is refused, because its address {fault}; {REMEDY}"))
}

/// Returns whether a host may open a page.
pub(crate) fn is_openable(page: &ElicitParams) -> bool {
    page.url.as_deref().and_then(fault).is_none()
}

/// Returns the fault of an address; `None` if a host may open it.
fn fault(address: &str) -> Option<&'static str> {
    if address.len() > MAX_BYTES {
        return Some("is longer than 8 KiB");
    }
    // Refuse addresses that programs read differently. Browsers read `\` as a slash, and drop blanks and control
    // characters. System openers may read a quote as the end of the address. After the host, letters of all languages
    // are usual, so they are accepted.
    let is_refused =
        |c: char| matches!(c, '\\' | '"' | '<' | '>') || c.is_whitespace() || is_hidden(c);
    if address.contains(is_refused) {
        return Some("has a space, `\\` or another character that is written as `%XX` in a URL");
    }
    let Some((scheme, rest)) = address.split_once("://") else {
        return Some("does not begin with `https://`");
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains('@') {
        return Some("contains a user name, which looks like a host");
    }
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if !is_host(host) || !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Some("has no valid host and port (other letters in a host are written as `xn--…`)");
    }
    if scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Some("is neither `https` nor `http`");
    }
    (!is_loopback_host(host)).then_some("is `http`, but not on this machine")
}

/// Returns whether a host consists of characters that no browser decodes or maps to others.
fn is_host(host: &str) -> bool {
    if let Some(bracketed) = host.strip_prefix('[') {
        return bracketed.strip_suffix(']').is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !host.is_empty() && host.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_a_browser_opens_safely_reach_a_host() {
        for address in [
            "https://example.com/in?a=b#c",
            "HTTPS://example.com:8443",
            "https://example.com/réunion/日本?q=ü&r={a|b}#é",
            "https://xn--mnchen-3ya.example/@ann?mail=a@b.example",
            "http://127.0.0.1:8000/in",
            "http://localhost/in",
            "http://[::1]:80/in",
        ] {
            assert_eq!(fault(address), None, "{address}");
        }
        for address in [
            "javascript:alert(1)",
            "javascript://example.com/%0aalert(1)",
            "data:text/html,<script>alert(1)</script>",
            "file:///etc/passwd",
            "vscode://a.b/c",
            "http://example.com/in",
            "http://localhost.example/in",
            "https:example.com",
            "https:///in",
            "https://user@example.com/",
            "https://example.com\\@evil.example/",
            "https://exa\u{301}mple.com/",
            "https://exa%6dple.com/",
            "https://example.com／in",
            "https://[example.com]/",
            "https://example.com/\u{202e}a",
            "https://example.com/\"&calc",
            " https://example.com/",
            "https://example.com/\n",
            "https://example.com:x/",
            "//example.com/",
            "",
        ] {
            assert!(fault(address).is_some(), "{address}");
        }
        assert!(fault(&format!("https://example.com/{}", "a".repeat(MAX_BYTES))).is_some());
    }

    #[test]
    fn a_refusal_that_names_too_many_pages_loses_its_pages() {
        let page = r#"{"mode":"url","message":"?","url":"https://example.com/in"}"#;
        for (count, number) in [(MAX_PAGES, Some(MAX_PAGES)), (MAX_PAGES + 1, None)] {
            let data = format!(r#"{{"elicitations":[{}]}}"#, vec![page; count].join(","));
            let pages = read_pages(&Payload::from_trusted(data));
            assert_eq!(pages.map(|pages| pages.len()), number);
        }
    }

    #[test]
    fn a_refusal_that_names_a_script_as_a_page_loses_its_pages() {
        let refusal = |data: &str| {
            RpcError::new(ErrorCode::URL_ELICITATION_REQUIRED, "log in first")
                .data(Payload::from_trusted(data.to_owned()))
        };
        let pages = |url: &str| {
            format!(r#"{{"elicitations":[{{"mode":"url","message":"?","url":"{url}"}}]}}"#)
        };
        let passed = check_pages(refusal(&pages("https://example.com/in")), None);
        assert_eq!(passed.code(), ErrorCode::URL_ELICITATION_REQUIRED);
        let unreadable = r#"{"elicitations":[{"url":"file:///a"}]}"#.to_owned();
        let (good, bad) = ("https://example.com/in", "javascript:alert(1)");
        let twice = pages(&format!(r#"{bad}","url":"{good}"#));
        let other_case = pages(&format!(r#"{good}","URL":"{bad}"#));
        let other_list = pages(good).replacen('{', r#"{"Elicitations":[],"#, 1);
        for data in [pages(bad), unreadable, twice, other_case, other_list] {
            let refused = check_pages(refusal(&data), None);
            assert_eq!(refused.code(), ErrorCode::UPSTREAM_ERROR, "{data}");
            assert!(refused.as_data().is_none(), "{data}");
        }
    }
}
