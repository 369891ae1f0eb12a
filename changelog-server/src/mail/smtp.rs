//! The connection to the operator's mail server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use changelog_core::text::printable;
use clap::Args;
use lettre::message::Mailbox;
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use url::Url;

type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// How long the mail server may take for each command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take for a mail; less than a server's claim of a mail lasts.
const MAIL_TIMEOUT: Duration = Duration::from_mins(1);
/// The answers that refuse this service rather than one mail: sign-in needed or wrong.
const SIGN_IN_CODES: [u16; 4] = [530, 534, 535, 538];
/// The limit on characters of what is shown of an error.
const MAX_ERROR_CHARS: usize = 300;

/// The mail server, and how to sign in there.
#[derive(Clone, Debug, Default, Args)]
pub struct MailSettings {
    /// The mail server that mails are sent with; without it, no mails are offered
    #[arg(
        long,
        help = "The mail server: smtp://USER:PASSWORD@HOST:587?tls=required or \
                smtps://USER:PASSWORD@HOST; without it, no mails are offered",
        env = "CHANGELOG_SMTP_URL",
        hide_env_values = true,
        value_name = "URL",
        requires = "mail_from"
    )]
    pub smtp_url: Option<SmtpUrl>,
    /// A file with the password for the mail server
    #[arg(long, env = "CHANGELOG_SMTP_PASSWORD_FILE", value_name = "PATH")]
    pub smtp_password_file: Option<PathBuf>,
    /// The sender of mails, such as "Change log <changes@example.com>"
    #[arg(long, env = "CHANGELOG_MAIL_FROM", value_name = "ADDRESS")]
    pub mail_from: Option<Mailbox>,
}

/// The URL of a mail server, with a password, which is not shown.
#[derive(Clone)]
pub struct SmtpUrl(Url);

impl FromStr for SmtpUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        if !matches!(url.scheme(), "smtp" | "smtps") || !url.has_host() {
            return Err("must be smtp:// or smtps:// and a host".to_owned());
        }
        Transport::from_url(text).map_err(|error| error.to_string())?;
        Ok(Self(url))
    }
}

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SmtpUrl").finish_non_exhaustive()
    }
}

/// Sends mails; cheap to clone.
#[derive(Clone)]
pub struct Mailer {
    transport: Transport,
    from: Mailbox,
}

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailer").finish_non_exhaustive()
    }
}

/// Why a mail was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MailError {
    /// Whether the mail server will never accept it.
    pub(crate) is_permanent: bool,
    /// Why, for people.
    pub(crate) reason: String,
}

impl MailError {
    /// Returns the error for a mail that cannot be written.
    pub(crate) fn permanent(error: &impl fmt::Display) -> Self {
        Self {
            is_permanent: true,
            reason: error.to_string(),
        }
    }

    fn temporary(reason: &str) -> Self {
        Self {
            is_permanent: false,
            reason: reason.to_owned(),
        }
    }

    fn of_smtp(error: &lettre::transport::smtp::Error) -> Self {
        let code = error.status().map(u16::from);
        let is_about_sign_in = code.is_some_and(|code| SIGN_IN_CODES.contains(&code));
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !reason.contains(&cause_text) {
                reason = format!("{reason}: {cause_text}");
            }
            source = cause.source();
        }
        let reason = printable(&reason).chars().take(MAX_ERROR_CHARS).collect();
        Self {
            is_permanent: error.is_permanent() && !is_about_sign_in,
            reason,
        }
    }
}

impl MailSettings {
    /// Returns what sends mails, if a mail server is configured. `host` is how this service
    /// introduces itself.
    ///
    /// # Errors
    /// If the file with the password cannot be read.
    pub(crate) fn mailer(&self, host: &str) -> std::io::Result<Option<Mailer>> {
        let (Some(SmtpUrl(url)), Some(from)) = (&self.smtp_url, &self.mail_from) else {
            return Ok(None);
        };
        let mut url = url.clone();
        if let Some(path) = &self.smtp_password_file {
            let password = std::fs::read_to_string(path).map_err(|error| {
                let message = format!("{}: {error}", path.display());
                std::io::Error::new(error.kind(), message)
            })?;
            let password = password.trim_end_matches(['\r', '\n']);
            if url.set_password(Some(password)).is_err() {
                return Err(std::io::Error::other("the SMTP URL cannot have a password"));
            }
        }
        let builder = Transport::from_url(url.as_str()).map_err(std::io::Error::other)?;
        let transport = builder
            .hello_name(ClientId::Domain(host.to_owned()))
            .timeout(Some(COMMAND_TIMEOUT))
            .build();
        Ok(Some(Mailer {
            transport,
            from: from.clone(),
        }))
    }
}

impl Mailer {
    /// Returns the sender of mails.
    pub(crate) fn from(&self) -> &Mailbox {
        &self.from
    }

    /// Sends a mail.
    pub(crate) async fn send(&self, message: Message) -> Result<(), MailError> {
        self.send_within(message, MAIL_TIMEOUT).await
    }

    /// Sends a mail, and gives up after a time.
    pub(crate) async fn send_within(
        &self,
        message: Message,
        timeout: Duration,
    ) -> Result<(), MailError> {
        match tokio::time::timeout(timeout, self.transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(MailError::of_smtp(&error)),
            Err(_) => Err(MailError::temporary(
                "the mail server did not answer in time",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_and_their_passwords_hidden() {
        for text in [
            "smtp://mail.example.com",
            "smtps://ada:secret@mail.example.com:465",
            "smtp://ada:secret@mail.example.com:587?tls=required",
        ] {
            let url: SmtpUrl = text.parse().expect("a URL");
            assert!(!format!("{url:?}").contains("secret"), "{url:?}");
        }
        for text in [
            "",
            "mail.example.com",
            "http://mail.example.com",
            "smtp://",
            "smtp://mail.example.com?tls=perhaps",
        ] {
            text.parse::<SmtpUrl>().expect_err(text);
        }
    }
}
