//! The ways to send a message to a person: a desktop notification, an ntfy topic, a webhook, an e-mail.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use mgp_client_sdk::GuardedFetch;
use mgp_discovery::{EmailConfig, NotifyConfig, NotifyWay};
use mgp_types::service::FetchRequest;
use tokio::process::Command;
use tokio::time::timeout;

use super::super::deliveries::{Attempt, LateText, SenderContext, TIMEOUT, post};
use super::super::webhooks::signed;
use super::message::Message;

/// The time within which a mail server must accept an e-mail. Mail servers delay their greeting on purpose, since
/// senders of spam do not wait for it.
const MAIL_TIMEOUT: Duration = Duration::from_mins(1);

/// A sender of messages to one configured place.
pub(in crate::events) struct Messenger {
    way: Way,
    /// The address of the console in the configuration.
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

/// A URL to which messages are sent.
struct Receiver {
    url: String,
    fetch: GuardedFetch,
    secret: Option<String>,
}

struct MailSender {
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
            let fetch = sender.fetch(&url, config.allow_loopback)?;
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

    /// Returns the address of the console: the configured one, or else the one at which this process serves it.
    pub(super) fn console(&self) -> Option<String> {
        self.console.clone().or_else(|| self.served.get().cloned())
    }

    /// Returns the option with which commands of the program reach this kernel, if they need one.
    pub(super) fn command_option(&self) -> Option<&str> {
        self.command_option.get().map(String::as_str)
    }

    /// Sends a message once.
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
            Way::Webhook(receiver) => match serde_json::to_string(message) {
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
        let builder = if is_encrypted {
            AsyncSmtpTransport::<Tokio1Executor>::relay(host)
        } else if is_here {
            // The connection stays on this machine, so no other machine can read it.
            Ok(AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host))
        } else {
            AsyncSmtpTransport::<Tokio1Executor>::starttls_relay(host)
        };
        let mut builder = builder.map_err(|error| error.to_string())?.timeout(Some(TIMEOUT));
        if let Some(port) = uri.port_u16() {
            builder = builder.port(port);
        }
        if let (Some(user), Some(password)) = (&email.user, password) {
            builder = builder.credentials(Credentials::new(user.clone(), password));
        }
        let head = lettre::Message::builder()
            .from(mailbox(&email.from)?)
            .to(mailbox(&email.to)?)
            .header(ContentType::TEXT_PLAIN);
        Ok(Self { server: builder.build(), head })
    }

    async fn send(&self, message: &Message) -> Attempt {
        let mail = self.head.clone().subject(message.title.clone()).body(message.text());
        let mail = match mail {
            Ok(mail) => mail,
            Err(error) => return Attempt::Refused(error.to_string()),
        };
        // The time-out of `lettre` ends with the connection attempt, so a silent server would hold up all messages.
        match timeout(MAIL_TIMEOUT, self.server.send(mail)).await {
            Ok(Ok(_)) => Attempt::Accepted,
            Ok(Err(error)) if error.is_permanent() => Attempt::Refused(error.to_string()),
            Ok(Err(error)) => Attempt::Failed(error.to_string()),
            Err(_) => Attempt::Failed("the mail server did not answer".to_owned()),
        }
    }
}

fn mailbox(address: &str) -> Result<Mailbox, String> {
    address.parse().map_err(|error| format!("`{address}` is not an e-mail address: {error}"))
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
        let escaped =
            message.text().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
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
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_mail_server_does_not_hold_up_messages() {
        // Connections are established by the operating system, and no program answers them.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1")
            .port(listener.local_addr().unwrap().port())
            .timeout(Some(TIMEOUT))
            .build();
        let head = lettre::Message::builder()
            .from(mailbox("ada@example.com").unwrap())
            .to(mailbox("ada@example.com").unwrap());
        let sender = MailSender { server, head };
        let sent = timeout(2 * MAIL_TIMEOUT, sender.send(&Message::test(None))).await;
        let Ok(Attempt::Failed(why)) = sent else { panic!("the attempt did not fail in time") };
        assert_eq!(why, "the mail server did not answer");
    }
}
