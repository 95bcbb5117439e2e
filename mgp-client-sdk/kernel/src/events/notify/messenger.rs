//! Sends messages to people: as a desktop notification, to an ntfy topic, to a webhook, or as an e-mail.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::{Error as SmtpError, SMTP_PORT, SUBMISSION_PORT, SUBMISSIONS_PORT};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use mgp_client_sdk::GuardedFetch;
use mgp_discovery::{EmailConfig, NotifyConfig, NotifyWay};
use mgp_types::Timestamp;
use mgp_types::service::FetchRequest;
use tokio::process::Command;
use tokio::time::timeout;

use super::super::deliveries::{Attempt, LateText, SenderContext, TIMEOUT, post};
use super::super::webhooks::signed;
use super::message::{Message, escape_markup};

/// The time within which a mail server must accept an e-mail. Some mail servers delay their greeting on purpose,
/// because senders of spam do not wait for it.
const MAIL_TIMEOUT: Duration = Duration::from_mins(1);

/// A sender of messages in one configured way, e.g. by e-mail.
pub(in crate::events) struct Messenger {
    way: Way,
    /// The address of the console that the configuration sets.
    console: Option<String>,
    served: LateText,
    command_option: LateText,
}

enum Way {
    Desktop,
    Ntfy(Receiver),
    Webhook(Receiver),
    Email(Box<MailSender>),
}

/// A URL that receives messages.
struct Receiver {
    url: String,
    fetch: GuardedFetch,
    secret: Option<String>,
}

struct MailSender {
    /// The host and the port of the mail server, for error messages.
    address: String,
    server: AsyncSmtpTransport<Tokio1Executor>,
    head: MessageBuilder,
}

impl Messenger {
    pub(in crate::events) fn new(
        sender: &SenderContext,
        config: &NotifyConfig,
        console: Option<String>,
    ) -> Result<Self, String> {
        let secret = sender.expand(config.secret.as_deref())?;
        let receiver = |url: &str, secret| {
            let url = sender.expand(Some(url))?.unwrap_or_default();
            let fetch = sender.fetch(&url, config.allow_loopback, config.allow_private)?;
            Ok::<_, String>(Receiver { url, fetch, secret })
        };
        let way = match &config.way {
            NotifyWay::Ntfy(url) => Way::Ntfy(receiver(url, secret)?),
            NotifyWay::Webhook(url) => Way::Webhook(receiver(url, secret)?),
            NotifyWay::Email(email) => Way::Email(Box::new(MailSender::new(email, secret)?)),
            _ => Way::Desktop,
        };
        let (served, option) = (Arc::clone(&sender.served), Arc::clone(&sender.command_option));
        Ok(Self { way, console, served, command_option: option })
    }

    /// Returns the address of the console: the configured one, or else that of the console that this process serves.
    pub(super) fn console(&self) -> Option<String> {
        self.console.clone().or_else(|| self.served.get().cloned())
    }

    /// Returns the option that commands of the program need to reach this kernel, if any.
    pub(super) fn command_option(&self) -> Option<&str> {
        self.command_option.get().map(String::as_str)
    }

    pub(super) async fn send(&self, message: &Message) -> Attempt {
        match &self.way {
            Way::Desktop => desktop(message).await,
            Way::Ntfy(receiver) => {
                let request = FetchRequest::post(&receiver.url, message.text())
                    .header("content-type", "text/plain; charset=utf-8")
                    .header("title", message.title.clone());
                let request = match &receiver.secret {
                    Some(token) => request.header("authorization", format!("Bearer {token}")),
                    None => request,
                };
                let request = match &message.link {
                    Some(link) => request.header("click", link.clone()),
                    None => request,
                };
                post(&receiver.fetch, request).await
            }
            Way::Webhook(receiver) => match message.to_json() {
                Ok(json) => {
                    let request = signed(&receiver.url, &json, receiver.secret.as_deref());
                    post(&receiver.fetch, request).await
                }
                Err(error) => Attempt::Refused(error.to_string()),
            },
            Way::Email(mail) => mail.send(message).await,
        }
    }
}

impl MailSender {
    fn new(email: &EmailConfig, password: Option<String>) -> Result<Self, String> {
        let uri: http::Uri = email
            .server
            .parse()
            .map_err(|_| format!("`{}` is not the URL of a mail server", email.server))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_here = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_encrypted = uri.scheme_str() == Some("smtps");
        let (builder, port) = if is_encrypted {
            (AsyncSmtpTransport::<Tokio1Executor>::relay(host), SUBMISSIONS_PORT)
        } else if is_here {
            // Use no TLS: the connection stays on this machine, so no other machine can read it.
            (Ok(AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)), SMTP_PORT)
        } else {
            (AsyncSmtpTransport::<Tokio1Executor>::starttls_relay(host), SUBMISSION_PORT)
        };
        let port = uri.port_u16().unwrap_or(port);
        let builder = builder.map_err(|error| error.to_string())?;
        let mut builder = builder.timeout(Some(TIMEOUT)).port(port);
        if let (Some(user), Some(password)) = (&email.user, password) {
            builder = builder.credentials(Credentials::new(user.clone(), password));
        }
        let head = lettre::Message::builder()
            .from(mailbox(&email.from)?)
            .to(mailbox(&email.to)?)
            .header(ContentType::TEXT_PLAIN);
        let address = format!("{}:{port}", uri.host().unwrap_or_default());
        Ok(Self { address, server: builder.build(), head })
    }

    async fn send(&self, message: &Message) -> Attempt {
        let head = self.head.clone().message_id(None).date(mail_date(SystemTime::now()));
        let head = head.subject(message.title.clone());
        let mail = match head.body(message.text()) {
            Ok(mail) => mail,
            Err(error) => return Attempt::Refused(error.to_string()),
        };
        // Limit the time here, because the time-out of `lettre` covers only the connection attempt: a server that then
        // stays silent would delay all messages.
        match timeout(MAIL_TIMEOUT, self.server.send(mail)).await {
            Ok(Ok(_)) => Attempt::Accepted,
            Ok(Err(error)) if error.is_permanent() => Attempt::Refused(self.describe(&error)),
            Ok(Err(error)) => Attempt::Failed(self.describe(&error)),
            Err(_) => Attempt::Failed(format!(
                "mail server `{}`: it did not answer in time; check `smtp`",
                self.address
            )),
        }
    }

    /// Returns the text of an error, with the server and the configuration keys that might need a change.
    fn describe(&self, error: &SmtpError) -> String {
        let remedy = match error.status().map(u16::from) {
            // The server requires a login, or refuses the given one.
            Some(530 | 534 | 535 | 538) => "; check `user` and `secret`",
            // The server refuses the recipient or the sender of the mail.
            Some(550 | 551 | 553) => "; check `email` and `from`",
            Some(_) => "",
            None => "; check `smtp`",
        };
        format!("mail server `{}`: {error}{remedy}", self.address)
    }
}

fn mailbox(address: &str) -> Result<Mailbox, String> {
    address.parse().map_err(|error| format!("`{address}` is not an e-mail address: {error}"))
}

/// Returns the nearest time that `lettre` can write as a date; it panics at a time before 1970 or after 9999.
fn mail_date(now: SystemTime) -> SystemTime {
    Timestamp::from(now).to_system_time().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Shows a message on the desktop with a program of the operating system.
async fn desktop(message: &Message) -> Attempt {
    let mut command = if cfg!(target_os = "macos") {
        let script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run";
        let mut command = Command::new("osascript");
        command.args(["-e", script, &message.title, &message.text()]);
        command
    } else {
        // Notification servers interpret the text as markup, so it must be escaped.
        let escaped = escape_markup(&message.text());
        let mut command = Command::new("notify-send");
        command.args(["--app-name=mgp", "--", &message.title, &escaped]);
        command
    };
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    match timeout(TIMEOUT, command.status()).await {
        Ok(Ok(status)) if status.success() => Attempt::Accepted,
        Ok(Ok(status)) => Attempt::Failed(format!("`{program}` ended with {status}")),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            Attempt::Refused(format!("there is no program `{program}` to show notifications"))
        }
        Ok(Err(error)) => Attempt::Failed(format!("`{program}`: {error}")),
        Err(_) => Attempt::Failed(format!("`{program}` did not end")),
    }
}

#[cfg(test)]
mod tests {
    use mgp_discovery::Config;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_mail_has_a_date_although_the_clock_is_wrong() {
        use lettre::message::header::Date;
        let date = |now| SystemTime::from(Date::new(mail_date(now)));
        let (first, second) = (SystemTime::UNIX_EPOCH, Duration::from_secs(1));
        let last = first + Duration::from_secs(253_402_300_799);
        assert_eq!((date(first - second), date(first + second)), (first, first + second));
        assert_eq!((date(last + second), date(last)), (last, last));
    }

    /// Sends a message to a mail server that answers the login with this refusal. Returns the error without its
    /// beginning, and checks that the beginning names the server.
    async fn refusal(reply: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            stream.write_all(b"220 mail.test\r\n").await.unwrap();
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                let is_hello = line.starts_with("EHLO");
                let answer = if is_hello { "250-mail.test\r\n250 AUTH PLAIN" } else { reply };
                let _ = stream.write_all(format!("{answer}\r\n").as_bytes()).await;
                line.clear();
            }
        });
        let text = format!(
            "[kernel.notify.x]\nemail = 'a@b'\nsmtp = 'smtp://{address}'\nuser = 'a'\nsecret = 'b'"
        );
        let config = Config::parse("mgp.toml", &text).unwrap().config;
        let NotifyWay::Email(email) = &config.kernel.notify["x"].way else { panic!("no e-mail") };
        let sender = MailSender::new(email, Some("b".to_owned())).unwrap();
        let (Attempt::Failed(why) | Attempt::Refused(why)) =
            sender.send(&Message::test(None)).await
        else {
            panic!("the message was accepted")
        };
        why.strip_prefix(&format!("mail server `{address}`: ")).expect(&why).to_owned()
    }

    #[tokio::test]
    async fn errors_name_the_mail_server_its_reason_and_the_keys_to_check() {
        let login = "permanent error (535): 5.7.8 wrong password; check `user` and `secret`";
        assert_eq!(refusal("535 5.7.8 wrong password").await, login);
        let person = "permanent error (550): unknown; check `email` and `from`";
        assert_eq!(refusal("550 unknown").await, person);
        assert_eq!(refusal("451 try later").await, "transient error (451): try later");
        let other = refusal("no reply of SMTP").await;
        assert!(other.ends_with("; check `smtp`"), "{other}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_mail_server_does_not_hold_up_messages() {
        // The operating system accepts connections to this listener, but no program answers them.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1")
            .port(listener.local_addr().unwrap().port())
            .timeout(Some(TIMEOUT))
            .build();
        let head = lettre::Message::builder()
            .from(mailbox("ada@example.com").unwrap())
            .to(mailbox("ada@example.com").unwrap());
        let sender = MailSender { address: "mail.example:25".to_owned(), server, head };
        let sent = timeout(2 * MAIL_TIMEOUT, sender.send(&Message::test(None))).await;
        let Ok(Attempt::Failed(why)) = sent else { panic!("the attempt did not fail in time") };
        let expected = "mail server `mail.example:25`: it did not answer in time; check `smtp`";
        assert_eq!(why, expected);
    }
}
