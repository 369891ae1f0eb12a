//! What mails say.

use askama::Template;
use changelog_core::text::printable;
use changelog_core::{ChangeId, EventKind, Timestamp};
use chrono_tz::Tz;
use lettre::Message;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder, MultiPart};
use uuid::Uuid;

use super::smtp::{MailError, Mailer};
use crate::findings;
use crate::format::line;
use crate::store::{Mailing, Notification, NotificationSubject};

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

/// A change or an incident in a mail.
struct Item {
    title: String,
    url: String,
    services: String,
    /// What happened: its status and by whom.
    event: String,
    at: String,
    /// What may have caused an incident.
    findings: Vec<ItemFinding>,
}

/// A finding about an incident.
struct ItemFinding {
    label: &'static str,
    value: String,
    /// The page of the change that it is about.
    url: Option<String>,
}

#[derive(Template)]
#[template(path = "mail/notifications.txt", escape = "none")]
struct NotificationsText<'m> {
    mail: &'m Notifications,
}

#[derive(Template)]
#[template(path = "mail/notifications.html")]
struct NotificationsHtml<'m> {
    mail: &'m Notifications,
}

/// The content of a mail about notifications.
struct Notifications {
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
pub(crate) fn notifications(
    mailer: &Mailer,
    mailing: &Mailing,
    links: Links<'_>,
) -> Result<Message, MailError> {
    let Links { url, host } = links;
    let organization = printable(&mailing.organization_name).into_owned();
    let unsubscribe = format!("{url}/unsubscribe/{}", mailing.token);
    let items = mailing.notifications.iter();
    let mail = Notifications {
        subject: subject(mailing, &organization),
        organization,
        items: items.map(|one| item(mailing, one, url)).collect(),
        has_more: mailing.has_more,
        dashboard: url.to_owned(),
        unsubscribe: unsubscribe.clone(),
    };
    let text = NotificationsText { mail: &mail }.render();
    let html = NotificationsHtml { mail: &mail }.render();
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
        [one] => match one.subject {
            NotificationSubject::Change(..) => {
                format!("{}: {}", printable(&one.title), status(one))
            }
            NotificationSubject::Incident(..) => {
                format!("Incident {}: {}", status(one), printable(&one.title))
            }
        },
        several => {
            let is_incident = |one: &&Notification| one.incident_id().is_some();
            let incidents = several.iter().filter(is_incident).count();
            counted(incidents, several.len() - incidents, mailing.has_more)
        }
    };
    shortened(&format!("[{organization}] {subject}"))
}

/// Says how many incidents and changes a mail has. What it has no room for comes last.
fn counted(incidents: usize, changes: usize, has_more: bool) -> String {
    let more = if has_more { "+" } else { "" };
    let incident = if incidents == 1 {
        "1 incident".to_owned()
    } else {
        format!("{incidents} incidents")
    };
    match (incidents, changes) {
        (_, 0) => format!("{incidents}{more} incidents"),
        (0, _) => format!("{changes}{more} changes"),
        (_, 1) if !has_more => format!("{incident}, 1 change"),
        _ => format!("{incident}, {changes}{more} changes"),
    }
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

fn item(mailing: &Mailing, notification: &Notification, url: &str) -> Item {
    let actor = line(&notification.actor);
    let status = status(notification);
    let (page, event, findings) = match &notification.subject {
        NotificationSubject::Change(id, risk) => (
            change_page(url, *id),
            format!("{risk} risk, {status}, by {actor}"),
            Vec::new(),
        ),
        NotificationSubject::Incident(id, severity) => {
            let incident = mailing.incidents.get(id);
            let found =
                incident.map(|incident| findings::findings(incident, |at| local(at, mailing.zone)));
            let found = found.unwrap_or_default().into_iter();
            (
                format!("{url}/incidents/{id}"),
                format!("{severity}, {status} by {actor}"),
                found
                    .map(|finding| ItemFinding {
                        label: finding.label,
                        value: finding.value,
                        url: finding.change.map(|change| change_page(url, change)),
                    })
                    .collect(),
            )
        }
    };
    Item {
        title: line(&notification.title),
        url: page,
        services: line(&notification.services),
        event,
        at: local(notification.at, mailing.zone),
        findings,
    }
}

fn change_page(url: &str, id: ChangeId) -> String {
    format!("{url}/changes/{id}")
}

fn local(at: Timestamp, zone: Tz) -> String {
    let at = at.to_datetime().with_timezone(&zone);
    at.format("%Y-%m-%d %H:%M %Z").to_string()
}
