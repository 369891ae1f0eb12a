//! What mails say.

use askama::Template;
use changelog_core::text::printable;
use changelog_core::{EventKind, Timestamp};
use chrono_tz::Tz;
use lettre::Message;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder, MultiPart};
use uuid::Uuid;

use super::smtp::{MailError, Mailer};
use crate::store::{Mailing, Notification};

/// The longest subject, in characters.
const MAX_SUBJECT_CHARS: usize = 150;

/// The addresses that mails have links to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links<'l> {
    /// The URL of the dashboard, without a slash at the end.
    pub(crate) url: &'l str,
    /// Its host.
    pub(crate) host: &'l str,
}

/// A change in a mail.
struct Item {
    title: String,
    url: String,
    services: String,
    /// What happened: its status and by whom.
    event: String,
    at: String,
}

#[derive(Template)]
#[template(path = "mail/changes.txt", escape = "none")]
struct ChangesText<'m> {
    mail: &'m Changes,
}

#[derive(Template)]
#[template(path = "mail/changes.html")]
struct ChangesHtml<'m> {
    mail: &'m Changes,
}

/// The content of a mail about notifications.
struct Changes {
    subject: String,
    organization: String,
    items: Vec<Item>,
    has_more: bool,
    dashboard: String,
    unsubscribe: String,
}

#[derive(Template)]
#[template(path = "mail/invitation.txt", escape = "none")]
struct InvitationText<'m> {
    mail: &'m Invited<'m>,
}

#[derive(Template)]
#[template(path = "mail/invitation.html")]
struct InvitationHtml<'m> {
    mail: &'m Invited<'m>,
}

/// An invitation that is mailed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invited<'m> {
    /// The address of the invited person.
    pub(crate) email: &'m str,
    /// The name of the organization.
    pub(crate) organization: &'m str,
    /// The name of the person who invites.
    pub(crate) by: &'m str,
    /// The role.
    pub(crate) role: &'m str,
    /// The link that accepts the invitation.
    pub(crate) link: &'m str,
}

/// Writes the mail about notifications.
pub(crate) fn changes(
    mailer: &Mailer,
    mailing: &Mailing,
    links: Links<'_>,
) -> Result<Message, MailError> {
    let Links { url, host } = links;
    let organization = printable(&mailing.organization_name).into_owned();
    let unsubscribe = format!("{url}/unsubscribe/{}", mailing.token);
    let items = mailing.notifications.iter();
    let mail = Changes {
        subject: subject(mailing, &organization),
        organization,
        items: items.map(|one| item(one, url, mailing.zone)).collect(),
        has_more: mailing.has_more,
        dashboard: url.to_owned(),
        unsubscribe: unsubscribe.clone(),
    };
    let text = ChangesText { mail: &mail }.render();
    let html = ChangesHtml { mail: &mail }.render();
    let list = format!("<changes.{}.{host}>", mailing.mailbox.tenant().id());
    let builder = builder(mailer, mailing.id, host, &mailing.email, &mailing.name)?
        .subject(&mail.subject)
        .raw_header(header("List-Id", list))
        .raw_header(header("List-Unsubscribe", format!("<{unsubscribe}>")))
        .raw_header(header(
            "List-Unsubscribe-Post",
            "List-Unsubscribe=One-Click".to_owned(),
        ));
    finish(builder, text, html)
}

/// Writes the mail with the link of an invitation.
pub(crate) fn invitation(
    mailer: &Mailer,
    invited: &Invited<'_>,
    host: &str,
) -> Result<Message, MailError> {
    let text = InvitationText { mail: invited }.render();
    let html = InvitationHtml { mail: invited }.render();
    let subject = format!("Invitation to join {}", printable(invited.organization));
    let builder = builder(mailer, Uuid::new_v4(), host, invited.email, "")?;
    finish(builder.subject(shortened(&subject)), text, html)
}

fn builder(
    mailer: &Mailer,
    id: Uuid,
    host: &str,
    email: &str,
    name: &str,
) -> Result<MessageBuilder, MailError> {
    let address = email
        .parse()
        .map_err(|error| MailError::permanent(&error))?;
    let name = Some(printable(name).into_owned()).filter(|name| !name.is_empty());
    Ok(Message::builder()
        .message_id(Some(format!("<{id}@{host}>")))
        .date_now()
        .from(mailer.from().clone())
        .to(Mailbox::new(name, address))
        .raw_header(header("Auto-Submitted", "auto-generated".to_owned())))
}

fn finish(
    builder: MessageBuilder,
    text: askama::Result<String>,
    html: askama::Result<String>,
) -> Result<Message, MailError> {
    let text = text.map_err(|error| MailError::permanent(&error))?;
    let html = html.map_err(|error| MailError::permanent(&error))?;
    let parts = MultiPart::alternative_plain_html(text, html);
    let message = builder.multipart(parts);
    message.map_err(|error| MailError::permanent(&error))
}

fn header(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value)
}

fn subject(mailing: &Mailing, organization: &str) -> String {
    let subject = match mailing.notifications.as_slice() {
        [one] => format!("{}: {}", printable(&one.title), status(one)),
        several => format!(
            "{}{} changes",
            several.len(),
            if mailing.has_more { "+" } else { "" }
        ),
    };
    shortened(&format!("[{organization}] {subject}"))
}

/// Returns a subject in one line, at most 150 characters.
fn shortened(subject: &str) -> String {
    let line = subject.chars().filter(|c| !c.is_control());
    line.take(MAX_SUBJECT_CHARS).collect()
}

fn status(notification: &Notification) -> &str {
    match notification.kind {
        EventKind::Deleted => "deleted",
        _ => &notification.status,
    }
}

fn item(notification: &Notification, url: &str, zone: Tz) -> Item {
    let event = format!(
        "{} risk, {}, by {}",
        notification.risk_level,
        status(notification),
        printable(&notification.actor)
    );
    Item {
        title: printable(&notification.title).into_owned(),
        url: format!("{url}/changes/{}", notification.change_id),
        services: printable(&notification.services).into_owned(),
        event,
        at: local(notification.at, zone),
    }
}

fn local(at: Timestamp, zone: Tz) -> String {
    let at = at.to_datetime().with_timezone(&zone);
    at.format("%Y-%m-%d %H:%M %Z").to_string()
}
