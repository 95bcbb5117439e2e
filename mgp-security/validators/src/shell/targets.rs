//! URLs and hosts to which network programs connect, checked by the rules of `network_restricted`.

use super::argv::{Args, Refusal, long_name};
use crate::network::NetworkRules;
use crate::words::{Words, has};
use url::{Host, Url};

/// A program that connects to targets that its arguments name.
struct Client {
    names: &'static str,
    /// Short options whose value does not name a target.
    valued: &'static str,
    /// Long options whose value does not name a target.
    long: &'static str,
    /// The form of the command's operands.
    operands: Operands,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// The operands are URLs, with or without a scheme.
    Urls,
    /// The operands are a host, followed by other words.
    Host,
    /// The operands are hosts or remote paths, e.g. `user@host` or `host:path`; the host can be an alias from the
    /// program's configuration.
    Remotes,
    /// The targets are the words that begin with a scheme, and remote paths with a user, e.g. `git@host:path`.
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
    Client { names, valued, long, operands }
}

const CLIENTS: &[Client] = &[
    client(
        "curl",
        "dHuoFAebcCmrTwXyYzQEtUKP",
        "data data-raw data-binary data-ascii data-urlencode json header user output form form-string \
        user-agent referer cookie cookie-jar continue-at max-time range upload-file write-out request \
        cert key cacert capath config url-query connect-timeout retry retry-delay retry-max-time \
        limit-rate ciphers output-dir max-redirs max-filesize speed-limit speed-time interface \
        stderr trace trace-ascii dump-header",
        Operands::Urls,
    ),
    client(
        "wget",
        "oOaPUtTQBADRIXwliS",
        "output-document output-file append-output directory-prefix user-agent header post-data \
        body-data method user password http-user http-password tries timeout wait limit-rate level \
        accept reject domains referer quota cut-dirs load-cookies save-cookies input-file",
        Operands::Urls,
    ),
    client(
        "aria2c axel lwp-request lwp-download httrack",
        "odjxskUHn",
        "out dir header",
        Operands::Urls,
    ),
    client("lynx w3m links elinks links2 browsh", "T", "", Operands::Urls),
    client(
        "http https xh xhs httpie",
        "apsovA",
        "auth print session output verify timeout",
        Operands::Host,
    ),
    client(
        "nc ncat netcat nc.traditional nc.openbsd telnet rlogin rsh nping hping nmap masscan",
        "pswiXIOTqgGPSDmc",
        "source-port wait",
        Operands::Host,
    ),
    client("ftp lftp tftp ncftp ncftpget smbclient", "ueopPc", "", Operands::Urls),
    client(
        "ssh scp sftp autossh mosh rsync sshfs ssh-copy-id ssh-keyscan",
        "pPiloFcbmeEILRDOQSwBfT",
        "",
        Operands::Remotes,
    ),
    client("git hg svn", "mCcbSFLn", "message branch depth author", Operands::Schemes),
    client(
        "ffmpeg ffprobe mpv vlc yt-dlp youtube-dl gallery-dl wkhtmltopdf wkhtmltoimage chromium \
        google-chrome chrome firefox weasyprint pandoc convert magick rclone aws grpcurl websocat wscat \
        ab wrk hey siege k6 vegeta oha nikto sqlmap ffuf gobuster dirb wfuzz pip npm yarn pnpm go cargo \
        podman docker helm kubectl gh glab openssl",
        "odmHtTc",
        "header output data message",
        Operands::Schemes,
    ),
    client("socat", "bTtx", "", Operands::Parts),
];

/// Long options of any client whose value is a target or contains one.
static TARGETS: Words = Words::new(
    "\
    proxy preproxy socks4 socks4a socks5 socks5-hostname proxy1.0 resolve connect-to doh-url url \
    base endpoint endpoint-url index-url extra-index-url registry host connect server",
);

/// Checks the targets in the arguments of a network program.
///
/// # Errors
/// A description of the reason why a target is refused.
pub(super) fn check(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let Some(client) = CLIENTS.iter().find(|client| has(client.names, name)) else { return Ok(()) };
    let refused = |why: String| format!("`{name}` connects to a place that is not public: {why}");
    if name == "openssl" {
        openssl(args).map_err(refused)?;
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
            match value {
                Some(value) if TARGETS.has(long) => named(value).map_err(refused)?,
                Some(value) if !has(client.long, long) => with_scheme(value).map_err(refused)?,
                _ => {}
            }
        } else if word.len() > 1 && word.starts_with('-') {
            short(client, word, &mut words).map_err(refused)?;
        } else {
            operands += 1;
            operand(client.operands, operands, word).map_err(refused)?;
        }
    }
    Ok(())
}

/// Checks the targets of `openssl`, whose options have long names after one dash.
fn openssl(args: Args<'_>) -> Result<(), Refusal> {
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
            with_scheme(value)
        } else {
            place(value)
        }
    })
}

/// Checks a group of short options. If the last of them needs a value, takes it from the next argument.
fn short<'a>(
    client: &Client,
    word: &str,
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<(), Refusal> {
    let letters = &word[1..];
    for (at, letter) in letters.char_indices() {
        let is_target = matches!(letter, 'x' | 'J') && client.operands != Operands::Schemes;
        if !client.valued.contains(letter) && !is_target {
            continue;
        }
        let rest = &letters[at + letter.len_utf8()..];
        let value = if rest.is_empty() { words.next().unwrap_or_default() } else { rest };
        return if is_target { named(value) } else { Ok(()) };
    }
    Ok(())
}

fn operand(form: Operands, at: usize, word: &str) -> Result<(), Refusal> {
    if word.contains("://") {
        return with_scheme(word);
    }
    match form {
        Operands::Urls => place(word.split(['/', '?', '#']).next().unwrap_or(word)),
        // An HTTP method can precede the host; `:8080` is a port of the local machine.
        Operands::Host if at <= 2 => {
            if word.starts_with(':') {
                return Err(format!("`{word}` is a port of this machine"));
            }
            place(word.split(['/', '?', '#']).next().unwrap_or(word))
        }
        Operands::Remotes | Operands::Schemes => match word.split_once(':') {
            // This is a remote path such as `git@host:path`. A local path has no colon, or only after a slash.
            Some((host, _))
                if !host.contains('/') && (form == Operands::Remotes || host.contains('@')) =>
            {
                place(host)
            }
            None if form == Operands::Remotes && !word.contains('/') => place(word),
            _ => Ok(()),
        },
        Operands::Parts => word.split([':', ',']).skip(1).try_for_each(place),
        Operands::Host => Ok(()),
    }
}

/// Checks the value of an option that contains a target, e.g. `example.com:80:10.0.0.1` of `--resolve`.
fn named(value: &str) -> Result<(), Refusal> {
    if value.contains("://") {
        with_scheme(value)
    } else {
        value.split([':', ',']).try_for_each(place)
    }
}

/// Checks the host of a URL with any scheme; does nothing if a word is not a URL.
fn with_scheme(word: &str) -> Result<(), Refusal> {
    let Ok(url) = Url::parse(word) else {
        // The word can be a URL pattern of curl, e.g. `http://10.0.0.[1-9]/`.
        let rest = word.split_once("://").map_or("", |(_, rest)| rest);
        return place(
            rest.split(['/', '?', '#', '[', '{']).next().unwrap_or(rest).trim_end_matches('.'),
        );
    };
    match (url.scheme(), url.host_str()) {
        ("file" | "data", _) | (_, None) => Ok(()),
        (_, Some(host)) => place(host),
    }
}

/// Checks a host, which can have a user and a port.
///
/// A name without a dot can be an alias from the program's configuration, so of these names only `localhost` and
/// similar ones are refused.
fn place(text: &str) -> Result<(), Refusal> {
    let host = text.rsplit('@').next().unwrap_or(text);
    let bare = host.trim_start_matches('[').split(']').next().unwrap_or(host);
    let host = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => {
            name
        }
        _ => bare,
    };
    // A small number is not an address but a port, a time or a count.
    if host.is_empty() || host.parse::<u32>().is_ok_and(|number| number < 1 << 24) {
        return Ok(());
    }
    let parsed = match bare.parse() {
        Ok(address) => Host::Ipv6(address),
        Err(_) => match Host::parse(host) {
            Ok(parsed) => parsed,
            Err(_) => return Ok(()),
        },
    };
    let is_alias = matches!(&parsed, Host::Domain(name) if !name.trim_end_matches('.').contains('.') && !is_own(name));
    if is_alias { Ok(()) } else { NetworkRules::new().check_host(&parsed.to_string()) }
}

/// Returns whether a name is that of the local machine or of a metadata service.
fn is_own(name: &str) -> bool {
    matches!(
        name.trim_end_matches('.').to_ascii_lowercase().as_str(),
        "localhost" | "ip6-localhost" | "ip6-loopback" | "metadata" | "instance-data"
    )
}
