//! `[kernel.notify.NAME]`: the channels that notify a person when decisions wait (MGP §4.4).

use std::collections::BTreeMap;
use std::time::Duration;

use super::addresses;
use super::table_reader::Reader;

/// The maximum number of tables `[kernel.notify.NAME]`.
pub(super) const MAX_PLACES: usize = 16;

/// The time that a decision waits before a notification is sent, if the configuration sets none.
const AFTER: Duration = Duration::from_secs(10);

const DAY: u16 = 24 * 60;

/// A table `[kernel.notify.NAME]`: a channel that notifies a person when decisions wait.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotifyConfig {
    /// The channel of the notifications.
    pub way: NotifyWay,
    /// The secret for the channel: an access token, a signature key or a password; `${…}` in it is not yet expanded.
    pub secret: Option<String>,
    /// The time that a decision waits before a notification is sent.
    pub after: Duration,
    /// The hours without notifications.
    pub quiet: Option<QuietHours>,
    /// If set, the URL of the channel may be an address of this machine.
    pub allow_loopback: bool,
    /// If set, the host of the channel's URL may have any address, e.g. one of a private network.
    pub allow_private: bool,
}

// Omits the secret.
mgp_types::opaque_debug!(NotifyConfig { way, after, quiet, allow_loopback, allow_private });

/// A channel for notifying a person.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotifyWay {
    /// A notification on the desktop of the user who runs the kernel.
    Desktop,
    /// The URL of a topic on an ntfy server.
    Ntfy(String),
    /// A URL that receives each notification in a signed POST request.
    Webhook(String),
    /// An e-mail with these settings is sent to the person.
    Email(EmailConfig),
}

/// The settings for notifications by e-mail: the addresses and the mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmailConfig {
    /// The recipient's e-mail address.
    pub to: String,
    /// The sender's e-mail address.
    pub from: String,
    /// The mail server: `smtps://HOST[:PORT]` or `smtp://HOST[:PORT]`.
    pub server: String,
    /// The user name at the mail server.
    pub user: Option<String>,
}

/// A period of each day in minutes since midnight; it can extend past midnight.
///
/// ```
/// use mgp_discovery::QuietHours;
///
/// let night = QuietHours::parse("22:00-07:30").unwrap();
/// assert_eq!(night.minutes_left(23 * 60), Some(8 * 60 + 30));
/// assert_eq!(night.minutes_left(12 * 60), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietHours {
    begin: u16,
    end: u16,
}

impl QuietHours {
    /// Parses a period such as `22:00-07:00`; returns `None` if it is not valid, or empty.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let minute = |time: &str| {
            let (hours, minutes) = time.trim().split_once(':')?;
            let is_number = |part: &str| {
                (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
            };
            if !is_number(hours) || minutes.len() != 2 || !is_number(minutes) {
                return None;
            }
            let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
            (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
        };
        let (begin, end) = text.split_once('-')?;
        let (begin, end) = (minute(begin)?, minute(end)?);
        (begin != end).then_some(Self { begin, end })
    }

    /// Returns the number of minutes from `minute`, a minute of the day, to the end of the period; `None` if `minute`
    /// is outside the period.
    #[must_use]
    pub fn minutes_left(self, minute: u16) -> Option<u16> {
        let since = (minute + DAY - self.begin) % DAY;
        let length = (self.end + DAY - self.begin) % DAY;
        (since < length).then(|| length - since)
    }
}

/// Reads the address of the console, with which links in notifications begin. Reports an address with a query or a user
/// name, which could contain a secret. A link only appends the id of the waiting item.
pub(super) fn console_url(kernel: &mut Reader<'_, '_, '_>) -> Option<String> {
    let url = kernel.text("console_url")?;
    if addresses::is_page(&url) {
        return Some(url.trim_end_matches('/').to_owned());
    }
    let remedy = addresses::url_remedy(&url, "write `https://HOST/console`");
    kernel.error("console_url", "is not the address of a page", Some(remedy));
    None
}

/// Reads the tables `[kernel.notify.NAME]`.
pub(super) fn places(kernel: &mut Reader<'_, '_, '_>) -> BTreeMap<String, NotifyConfig> {
    const PATH: &str = "kernel.notify.*";
    let mut all = BTreeMap::new();
    for (name, table) in kernel.named_tables("notify", PATH, MAX_PLACES) {
        let mut reader = Reader::of_entry(kernel.report, PATH, &name, table);
        let Some(way) = way(&mut reader) else { continue };
        let secret = reader.text("secret");
        if let NotifyWay::Email(email) = &way {
            check_login(&mut reader, email, secret.as_deref());
        }
        let place = NotifyConfig {
            way,
            secret,
            after: reader.duration("after").unwrap_or(AFTER),
            quiet: quiet(&mut reader),
            allow_loopback: reader.switch("allow_loopback").unwrap_or_default(),
            allow_private: reader.switch("allow_private").unwrap_or_default(),
        };
        all.insert(name, place);
    }
    all
}

/// Reads the kind of a channel; each table must have exactly one kind.
fn way(reader: &mut Reader<'_, '_, '_>) -> Option<NotifyWay> {
    let desktop = reader.switch("desktop").unwrap_or_default().then_some(NotifyWay::Desktop);
    let to = addresses::mailbox(reader, "email");
    let has_email = to.is_some();
    let ways = [
        desktop,
        reader.url("ntfy").map(NotifyWay::Ntfy),
        reader.url("webhook").map(NotifyWay::Webhook),
        to.map(|to| {
            let from = addresses::mailbox(reader, "from").unwrap_or_else(|| to.clone());
            let server = reader.text("smtp").unwrap_or_default();
            NotifyWay::Email(EmailConfig { to, from, server, user: reader.text("user") })
        }),
    ];
    let mut given = ways.into_iter().flatten();
    let (Some(way), None) = (given.next(), given.next()) else {
        let remedy = "write one of `desktop`, `ntfy`, `webhook` and `email`".to_owned();
        let key = if has_email { "email" } else { "desktop" };
        reader.error(key, "must be the only way of its place", Some(remedy));
        return None;
    };
    if let NotifyWay::Email(email) = &way
        && !addresses::is_mail_server(&email.server)
    {
        let remedy = "write `smtp = \"smtps://HOST\"`, or `smtp://HOST` for STARTTLS";
        let remedy = addresses::url_remedy(&email.server, remedy);
        let (key, what) = if email.server.is_empty() {
            ("email", "has no `smtp`")
        } else {
            ("smtp", "is not a mail server")
        };
        reader.error(key, what, Some(remedy));
        return None;
    }
    Some(way)
}

/// Reports a user without a password, and a password without a user: a login at the mail server needs both.
fn check_login(reader: &mut Reader<'_, '_, '_>, email: &EmailConfig, secret: Option<&str>) {
    let (has, lacks, remedy) = match (&email.user, secret) {
        (Some(_), None) => ("user", "secret", "write the password of the user, e.g. as `${NAME}`"),
        (None, Some(_)) => ("secret", "user", "write the name of the user at the mail server"),
        _ => return,
    };
    let remedy = format!("{remedy}, or leave out `{has}`");
    reader.error(has, format!("has no `{lacks}`"), Some(remedy));
}

fn quiet(reader: &mut Reader<'_, '_, '_>) -> Option<QuietHours> {
    let text = reader.text("quiet")?;
    let hours = QuietHours::parse(&text);
    if hours.is_none() {
        let remedy = "write two times of the day, e.g. `\"22:00-07:00\"`".to_owned();
        reader.error("quiet", "is not a range of hours", Some(remedy));
    }
    hours
}
