//! Checks the URLs and hosts to which network programs connect, by the rules of `network_restricted`.

use super::{
    argv::{Args, Refusal, long_name},
    forwards, git, settings,
};
use crate::network::{NetworkRules, check_range, is_ambiguous, port_of};
use crate::words::{Words, has};
use std::net::{Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// A program that connects to targets that its arguments name.
struct Client {
    names: &'static str,
    /// Short options whose value does not name a target.
    valued: &'static str,
    /// The options in `valued` whose value is data, so that even a URL in the value is not a target.
    data: &'static str,
    /// Short options whose value is a target.
    targets: &'static str,
    /// Short options whose value is a forwarding of `ssh`.
    forwards: &'static str,
    /// Long options whose value does not name a target.
    long: &'static str,
    /// The form of the command's operands.
    operands: Operands,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// The operands are URLs, with or without a scheme, or hosts.
    Urls,
    /// The operands are a host, followed by other words.
    Host,
    /// The operands are a URL, possibly after an HTTP method, followed by other words.
    Request,
    /// The operands are hosts or remote paths, e.g. `user@host` or `host:path`; the host can be an alias from the
    /// program's configuration.
    Remotes,
    /// Each operand is a URL, a remote path such as `host:path`, or a local path.
    Paths,
    /// Only the words that begin with a scheme, and remote paths with a user, e.g. `git@host:path`, are targets.
    Schemes,
    /// The operands are addresses such as `TCP:host:port`.
    Parts,
}

const fn client(
    names: &'static str,
    valued: &'static str,
    long: &'static str,
    operands: Operands,
) -> Client {
    Client { names, valued, data: "", targets: "", forwards: "", long, operands }
}

const CLIENTS: &[Client] = &[
    Client {
        data: "de",
        targets: "x",
        ..client(
            "curl",
            "dHuoFAebcCmrTwXyYzQEtUKPD",
            "data data-raw data-binary data-ascii data-urlencode json header user output form form-string \
            user-agent referer cookie cookie-jar continue-at max-time range upload-file write-out request \
            cert key cacert capath config url-query connect-timeout retry retry-delay retry-max-time \
            limit-rate ciphers output-dir max-redirs max-filesize speed-limit speed-time interface \
            stderr trace trace-ascii dump-header alt-svc aws-sigv4 cert-type create-file-mode crlfile \
            curves delegation dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers etag-compare \
            etag-save expect100-timeout ftp-account ftp-method ftp-port happy-eyeballs-timeout-ms \
            haproxy-clientip help hostpubmd5 hostpubsha256 hsts ip-tos keepalive-cnt keepalive-time \
            key-type krb libcurl local-port login-options mail-auth mail-from mail-rcpt netrc-file noproxy \
            oauth2-bearer parallel-max pass pinnedpubkey proto proto-default proto-redir proxy-cacert \
            proxy-capath proxy-cert proxy-cert-type proxy-ciphers proxy-crlfile proxy-header proxy-key \
            proxy-key-type proxy-pass proxy-pinnedpubkey proxy-service-name proxy-tls13-ciphers \
            proxy-tlsauthtype proxy-tlspassword proxy-tlsuser proxy-user pubkey quote random-file rate \
            request-target sasl-authzid service-name telnet-option tftp-blksize time-cond tls-max \
            tls13-ciphers tlsauthtype tlspassword tlsuser trace-config variable vlan-priority",
            Operands::Urls,
        )
    },
    Client {
        data: "e",
        ..client(
            "wget",
            "oOaPUtTQBADRIXwlie",
            "output-document output-file append-output directory-prefix user-agent header post-data \
            body-data method user password http-user http-password ftp-user ftp-password tries timeout \
            dns-timeout connect-timeout read-timeout wait waitretry limit-rate level accept reject \
            accept-regex reject-regex regex-type domains exclude-domains include-directories \
            exclude-directories follow-tags ignore-tags referer quota cut-dirs load-cookies save-cookies \
            input-file execute bind-address max-redirect progress report-speed prefer-family compression \
            certificate certificate-type private-key private-key-type ca-certificate ca-directory crl-file \
            secure-protocol pinnedpubkey ciphers start-pos default-page local-encoding remote-encoding \
            rejected-log hsts-file proxy-user proxy-password warc-file warc-header warc-max-size",
            Operands::Urls,
        )
    },
    client(
        "aria2c",
        "dojsxklauitmTMO",
        "out dir header split max-connection-per-server min-split-size max-concurrent-downloads \
        seed-time seed-ratio timeout connect-timeout max-tries retry-wait user-agent referer \
        load-cookies save-cookies http-user http-passwd max-download-limit max-overall-download-limit \
        max-upload-limit max-overall-upload-limit lowest-speed-limit input-file log checksum \
        listen-port dht-listen-port bt-max-peers file-allocation select-file",
        Operands::Urls,
    ),
    client("axel lwp-request lwp-download httrack", "osOUHn", "out dir header", Operands::Urls),
    client("lynx w3m links elinks links2 browsh", "T", "", Operands::Urls),
    client(
        "http https xh xhs httpie",
        "apPsoA",
        "auth auth-type print style session session-read-only output verify timeout max-redirects \
        cert cert-key ssl ciphers raw boundary response-charset response-mime history-print",
        Operands::Request,
    ),
    Client {
        targets: "x",
        ..client(
            "nc ncat netcat nc.traditional nc.openbsd",
            "pswiIXOTqgGPmMVWo",
            "source source-port wait delay idle-timeout output hex-dump max-conns proxy-type proxy-auth",
            Operands::Host,
        )
    },
    client("telnet", "SXbekln", "", Operands::Host),
    client("rlogin rsh", "ekl", "", Operands::Host),
    // The options `s` and `P` of nmap only occur in groups such as `-sS` and `-Pn`.
    client(
        "nmap masscan",
        "psPSTegDboiM",
        "exclude excludefile max-retries min-rate max-rate rate host-timeout scan-delay max-scan-delay \
        top-ports port-ratio version-intensity min-parallelism max-parallelism min-hostgroup \
        max-hostgroup min-rtt-timeout max-rtt-timeout initial-rtt-timeout source-port data-length ttl \
        dns-servers script-args stylesheet mtu exclude-ports max-os-tries spoof-mac",
        Operands::Urls,
    ),
    client("nping hping", "pscgiaIdtwMLNEeCKom89", "", Operands::Urls),
    client("ftp", "oPrqsTN", "", Operands::Urls),
    client("lftp ncftp ncftpget", "upPoefcj", "", Operands::Urls),
    client("tftp", "m", "", Operands::Urls),
    Client {
        targets: "I",
        ..client("smbclient", "RMUAdslOnWimptDcb", "user workgroup port", Operands::Urls)
    },
    Client {
        targets: "J",
        forwards: "LRDW",
        ..client("ssh", "BbcEeFIilmOoPpQSw", "", Operands::Remotes)
    },
    Client {
        targets: "J",
        forwards: "LRDW",
        ..client("autossh", "MBbcEeFIilmOoPpQSw", "", Operands::Remotes)
    },
    Client {
        targets: "J",
        ..client("mosh sftp ssh-copy-id", "BbcDEeFIiLlmOoPpQRSWw", "", Operands::Remotes)
    },
    client("ssh-keyscan", "fpTtO", "", Operands::Remotes),
    Client { targets: "J", ..client("scp", "cDFiloPSX", "", Operands::Paths) },
    Client { targets: "J", ..client("sshfs", "opF", "", Operands::Paths) },
    client(
        "rsync",
        "efTBM@",
        "exclude exclude-from include include-from files-from filter temp-dir partial-dir backup-dir \
        suffix chmod chown usermap groupmap bwlimit max-size min-size max-delete timeout contimeout \
        port block-size out-format compare-dest copy-dest link-dest info debug compress-level \
        skip-compress modify-window sockopts iconv password-file",
        Operands::Paths,
    ),
    Client {
        data: "mS",
        ..client("git hg svn", "mCcbSFL", "message branch depth author grep", Operands::Schemes)
    },
    client(
        "ffmpeg ffprobe mpv vlc yt-dlp youtube-dl gallery-dl wkhtmltopdf wkhtmltoimage chromium \
        google-chrome chrome firefox weasyprint pandoc convert magick rclone aws grpcurl websocat wscat \
        ab wrk hey siege k6 vegeta oha nikto sqlmap ffuf gobuster dirb wfuzz pip npm yarn pnpm go cargo \
        podman helm gh glab openssl invoke-webrequest iwr invoke-restmethod irm start-bitstransfer",
        "odmHtTc",
        "header output data message body title notes",
        Operands::Schemes,
    ),
    Client {
        targets: "H",
        ..client("docker nerdctl", "odmtTc", "data message body title notes", Operands::Schemes)
    },
    Client {
        targets: "s",
        ..client("kubectl oc", "odmHtTc", "output data message body", Operands::Schemes)
    },
    client("socat", "bTtx", "", Operands::Parts),
];

/// Subcommands of git that connect to the repository that they name.
const TRANSFERS: &str = "clone fetch pull push ls-remote remote submodule";
/// The form of the arguments that the subcommands in [`TRANSFERS`] have. In the arguments of other subcommands, e.g.
/// `show`, a colon can also follow the name of a commit.
static TRANSFER: Client = client(
    "git",
    "CcbojX",
    "branch depth origin jobs reference filter shallow-since shallow-exclude separate-git-dir template \
    server-option",
    Operands::Paths,
);

/// Long options of any client whose value is a target or contains one.
static TARGETS: Words = Words::new(
    "\
    proxy preproxy socks4 socks4a socks5 socks5-hostname proxy1.0 resolve connect-to doh-url url \
    base endpoint endpoint-url index-url extra-index-url registry host connect server kube-apiserver \
    dns-servers http-proxy https-proxy ftp-proxy all-proxy",
);
/// Long options of any client whose value is data, so that even a URL in it is not a target.
static DATA: Words = Words::new(
    "\
    data data-raw data-binary data-ascii data-urlencode json form form-string header proxy-header \
    referer user-agent cookie url-query post-data body-data raw message variable write-out \
    body title notes grep",
);

/// Checks the targets in the arguments of a network program.
///
/// # Errors
/// A description of the reason why a target is refused.
pub(super) fn check(name: &str, args: Args<'_>, rules: NetworkRules<'_>) -> Result<(), Refusal> {
    settings::check(name, args, rules)?;
    let Some(client) = client_of(name, args) else { return Ok(()) };
    let refused = |why: String| format!("`{name}` connects to a place that is not public: {why}");
    forwards::sockets(name, args).map_err(refused)?;
    if name == "openssl" {
        openssl(args, rules).map_err(refused)?;
    }
    let mut operands = 0;
    let mut words = args.texts();
    while let Some(word) = words.next() {
        if let Some(long) = long_name(word) {
            let value = match word.split_once('=') {
                Some((_, value)) => Some(value),
                None if has(client.long, long) || TARGETS.has(long) => words.next(),
                None => None,
            };
            if let Some(value) = value {
                option(client, long, value, rules).map_err(refused)?;
            }
        } else if word.len() > 1 && word.starts_with('-') {
            short(client, word, &mut words, rules).map_err(refused)?;
        } else {
            operands += 1;
            operand(client.operands, operands, word, rules).map_err(refused)?;
        }
    }
    Ok(())
}

/// Returns whether a program is a network program, or sets variables for one.
pub(super) fn is_client(name: &str) -> bool {
    settings::sets_variables(name) || CLIENTS.iter().any(|client| has(client.names, name))
}

/// Returns the form of the arguments of a network program.
fn client_of(name: &str, args: Args<'_>) -> Option<&'static Client> {
    if name == "git" && has(TRANSFERS, git::parts(args).1) {
        return Some(&TRANSFER);
    }
    CLIENTS.iter().find(|client| has(client.names, name))
}

/// Checks the value of a long option.
fn option(client: &Client, long: &str, value: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    if long == "url" {
        operand(client.operands, 1, value, rules)?;
    }
    if TARGETS.has(long) {
        named(value, rules)
    } else if !has(client.long, long) || is_url(value) && !DATA.has(long) {
        with_scheme(value, rules)
    } else {
        Ok(())
    }
}

/// Checks the targets of `openssl`, whose options have long names after one dash.
fn openssl(args: Args<'_>, rules: NetworkRules<'_>) -> Result<(), Refusal> {
    let before = [""].into_iter().chain(args.texts());
    before.zip(args.texts()).try_for_each(|(before, text)| {
        let (option, value) = match text.split_once('=') {
            Some(given) if text.starts_with('-') => given,
            _ => (before, text),
        };
        let is_target = matches!(
            option.trim_start_matches('-'),
            "connect" | "proxy" | "host" | "server" | "s_client"
        );
        if !is_target || value.starts_with('-') {
            Ok(())
        } else if value.contains("://") {
            with_scheme(value, rules)
        } else {
            place(value, true, rules)
        }
    })
}

/// Checks a group of short options. If the last option of the group needs a value, removes the value from `words`.
fn short<'a>(
    client: &Client,
    word: &str,
    words: &mut impl Iterator<Item = &'a str>,
    rules: NetworkRules<'_>,
) -> Result<(), String> {
    let letters = &word[1..];
    for (at, letter) in letters.char_indices() {
        let is_target = client.targets.contains(letter);
        let is_forward = client.forwards.contains(letter);
        if !client.valued.contains(letter) && !is_target && !is_forward {
            continue;
        }
        let rest = &letters[at + letter.len_utf8()..];
        let value = if rest.is_empty() { words.next().unwrap_or_default() } else { rest };
        return if is_target {
            named(value.strip_prefix('=').unwrap_or(value), rules)
        } else if is_forward {
            forwards::check(letter, value, rules)
        } else if letter == 'o' && client.targets == "J" {
            forwards::settings(value, rules)
        } else if is_url(value) && !client.data.contains(letter) {
            // The value is a file or a list, which some programs also read from a URL, so check it if it is a URL.
            with_scheme(value, rules)
        } else {
            Ok(())
        };
    }
    Ok(())
}

fn operand(form: Operands, at: usize, word: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    if matches!(form, Operands::Urls | Operands::Host | Operands::Request)
        && let Some(url) = with_slashes(word)
    {
        with_scheme(&url, rules)?;
    }
    if form == Operands::Urls {
        single(word)?;
    }
    if word.contains("://") {
        with_scheme(word, rules)?;
        if has_scheme(word) {
            return Ok(());
        }
    }
    match form {
        Operands::Urls => place(authority(word), true, rules.for_bare_url(word)),
        // The host is the first or second operand, because an HTTP method can precede it.
        Operands::Host | Operands::Request if at <= 2 => {
            let rules = rules.for_bare_url(word);
            if word.starts_with(':') {
                return own_port(word, rules);
            }
            place(authority(word), at == 1 || form == Operands::Request, rules)
        }
        Operands::Host | Operands::Request => Ok(()),
        Operands::Remotes if user_removed(word).parse::<Ipv6Addr>().is_ok() => {
            place(word, true, rules)
        }
        Operands::Remotes | Operands::Paths | Operands::Schemes => match remote_host(word) {
            Some(host) if form != Operands::Schemes || host.contains('@') => {
                place(host, true, rules)
            }
            None if form == Operands::Remotes && !word.contains('/') => {
                // The words after the host are a command for the remote machine, in which `0` is a number.
                place(word, at == 1 || word.contains('@'), rules)
            }
            _ => Ok(()),
        },
        Operands::Parts => {
            let address = word.split(',').next().unwrap_or(word);
            // Split at the last colon: the last part is the port, and the host before it can be an IPv6 address with
            // colons.
            let target = address.split_once(':').and_then(|(_, rest)| rest.rsplit_once(':'));
            target.map_or(Ok(()), |(host, _)| place(host, true, rules))?;
            word.split([':', ',']).skip(1).try_for_each(|part| place(part, false, rules))
        }
    }
}

/// Checks a word such as `:8080` or `:8080/path`, which some clients read as a port of this machine.
fn own_port(word: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let port = &authority(word)[1..];
    let is_port = port.bytes().all(|b| b.is_ascii_digit());
    let checked = is_port.then(|| place(&format!("localhost:{port}"), true, rules));
    match checked {
        Some(Ok(())) => Ok(()),
        _ => Err(format!("`{word}` is a port of this machine")),
    }
}

/// Returns the host of a remote path such as `git@host:path` or `[::1]:path`. In a local path, a colon can only follow
/// a slash.
fn remote_host(word: &str) -> Option<&str> {
    let (host, _) = word.split_once("]:").or_else(|| word.split_once(':'))?;
    (!host.contains('/')).then_some(host)
}

/// Returns the part that contains the host, for a URL without a scheme.
fn authority(word: &str) -> &str {
    word.split(['/', '?', '#']).next().unwrap_or(word)
}

/// Returns a text without the user in front of a host, e.g. `host` for `user@host`.
fn user_removed(text: &str) -> &str {
    text.rsplit('@').next().unwrap_or(text)
}

/// Returns the URL with two slashes that clients would read in a word such as `http:/host` or `//host`; `None` for
/// other words.
fn with_slashes(word: &str) -> Option<String> {
    let (scheme, rest) = match word.split_once(":/") {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
        _ => ("http", word.strip_prefix("//").or_else(|| word.strip_prefix("\\\\"))?),
    };
    Some(format!("{scheme}://{}", rest.trim_start_matches(['/', '\\'])))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Returns whether a word begins with a scheme. In `10.0.0.1/?next=http://example.com`, clients connect to the address
/// in front of the path, and in `localhost://path`, `scp` connects to `localhost`.
fn has_scheme(word: &str) -> bool {
    let scheme = word.split_once("://").map_or("", |(scheme, _)| scheme);
    is_scheme(scheme) && !scheme.contains('.') && !is_own(scheme)
}

/// Refuses a pattern such as `http://10.0.0.[1-9]/` or `{a,b}.example`, from which curl makes several hosts.
fn single(word: &str) -> Result<(), String> {
    let (scheme, rest) = word.split_once("://").unwrap_or(("", word));
    let given = authority(rest);
    let (user, host) = given.rsplit_once('@').unwrap_or(("", given));
    let host = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((address, port)) if without_zone(address).parse::<Ipv6Addr>().is_ok() => port,
        _ => host,
    };
    // `xargs` replaces `{}`.
    let is_pattern = |part: &str| part.replace("{}", "").contains(['[', ']', '{', '}']);
    if [scheme, user, host].into_iter().any(is_pattern) {
        return Err(format!("`{word}` is a pattern of several hosts"));
    }
    Ok(())
}

/// Returns an IPv6 address without its zone, e.g. `fe80::1` for `fe80::1%eth0`.
fn without_zone(address: &str) -> &str {
    address.split('%').next().unwrap_or(address)
}

/// Returns whether a text is a URL of a server and nothing else.
fn is_url(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["http://", "https://", "ftp://"].iter().any(|scheme| lower.starts_with(scheme))
        && !text.contains(char::is_whitespace)
}

/// Checks the value of an option that contains a target, e.g. `example.com:80:10.0.0.1` of `--resolve`.
pub(super) fn named(value: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    if let Some(url) = with_slashes(value) {
        with_scheme(&url, rules)?;
    }
    if value.contains("://") {
        with_scheme(value, rules)?;
        if has_scheme(value) {
            return Ok(());
        }
    }
    // Check the texts in brackets separately, because brackets enclose an IPv6 address.
    let mut in_brackets = value.split('[').skip(1).filter_map(|part| part.split(']').next());
    in_brackets.try_for_each(|part| place(part, true, rules))?;
    value.split(',').try_for_each(|one| {
        let mut parts = one.split(':').peekable();
        while let Some(part) = parts.next() {
            // A number behind a host is its port.
            let is_port =
                |next: &&&str| !next.is_empty() && next.bytes().all(|b| b.is_ascii_digit());
            let whole = match parts.peek().filter(is_port) {
                Some(port) => format!("{part}:{port}"),
                None => part.to_owned(),
            };
            place(&whole, true, rules)?;
            // Also check the host in front of a path, in which an `@` does not end a user.
            place(authority(&whole), true, rules.for_place(&whole))?;
        }
        Ok(())
    })
}

/// Checks the host of a URL with any scheme. Accepts a word that is not a URL.
fn with_scheme(word: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let Ok(url) = Url::parse(word) else {
        let rest = word.split_once("://").map_or("", |(_, rest)| rest);
        let host = user_removed(authority(rest));
        // The word cannot be parsed: it can be a URL pattern of curl, e.g. `http://10.0.0.[1-9]/`, or have an IPv6
        // address with a zone. So check its host as text. It is not clear which host and port such a word means, so
        // none is a local host.
        let is_address = host.starts_with('[');
        let host = if is_address { host } else { host.split(['[', '{']).next().unwrap_or(host) };
        return place(host.trim_end_matches('.'), true, NetworkRules::new());
    };
    match (url.scheme(), url.host_str()) {
        ("file" | "data", _) | (_, None) => Ok(()),
        _ if is_ambiguous(word) => {
            Err(format!("clients can read the host of `{word}` in different ways"))
        }
        (scheme, Some(host)) => {
            let place_of = |port: u16| format!("{host}:{port}");
            let text = url.port_or_known_default().map_or_else(|| host.to_owned(), place_of);
            let has_user = !url.username().is_empty() || url.password().is_some();
            let rules = match scheme {
                "http" | "https" | "ws" | "wss" if has_user => rules.without_local_hosts(),
                "http" | "https" | "ws" | "wss" => rules.for_bare_url(&text),
                _ => rules,
            };
            place(&text, true, rules)
        }
    }
}

/// Checks a host, which can have a user and a port. `is_host` is `false` if the word can also be a number, e.g. a port.
///
/// Among names without a dot, refuses only `localhost` and similar names: any other name can be an alias from the
/// program's configuration.
pub(super) fn place(text: &str, is_host: bool, rules: NetworkRules<'_>) -> Result<(), String> {
    let host = user_removed(text);
    let port = port_of(host);
    let bare = host.trim_start_matches('[').split(']').next().unwrap_or(host);
    let host = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => {
            name
        }
        _ => bare,
    };
    let number = host.parse::<u32>();
    if number == Ok(0) && (is_host || host != text) {
        return rules.check_parsed(&Host::Ipv4(Ipv4Addr::UNSPECIFIED), port);
    }
    // A small number is not an address but a port, a time or a count, so it passes.
    if host.is_empty() || number.is_ok_and(|number| number < 1 << 24) {
        return Ok(());
    }
    let parsed = match without_zone(bare).parse() {
        Ok(address) => Host::Ipv6(address),
        Err(_) => match Host::parse(host) {
            Ok(parsed) => parsed,
            Err(_) => return check_range(host),
        },
    };
    let is_alias = matches!(&parsed, Host::Domain(name) if !name.trim_end_matches('.').contains('.') && !is_own(name));
    if is_alias { Ok(()) } else { rules.check_parsed(&parsed, port) }
}

/// Returns whether a name belongs to the local machine or to a metadata service.
fn is_own(name: &str) -> bool {
    matches!(
        name.trim_end_matches('.').to_ascii_lowercase().as_str(),
        "localhost" | "ip6-localhost" | "ip6-loopback" | "metadata" | "instance-data"
    )
}
