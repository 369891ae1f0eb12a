//! Sends the mails that are due.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;
use tokio::time::{MissedTickBehavior, interval};

use super::message::{self, Links};
use super::smtp::Mailer;
use crate::app::App;
use crate::store::{DueMailbox, MailOutcome, Mailing, StoreError};

/// How often due mails are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How many mails are sent at the same time.
const MAX_CONNECTIONS: usize = 4;

/// Sends mails for as long as this is polled. Returns at once if no mail server is
/// configured.
pub(crate) async fn run(app: App) {
    let Some(mailer) = app.mailer.clone() else {
        return;
    };
    let mut interval = interval(POLL_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        match app.store.due_mailboxes(app.now().into()).await {
            Ok(due) => {
                let sending = |due| send(&app, &mailer, due);
                iter(due)
                    .for_each_concurrent(MAX_CONNECTIONS, sending)
                    .await;
            }
            Err(error) => tracing::warn!(%error, "the mails that are due could not be read"),
        }
    }
}

async fn send(app: &App, mailer: &Mailer, due: DueMailbox) {
    if let Err(error) = try_send(app, mailer, &due).await {
        tracing::warn!(%error, "a mail could not be claimed or recorded");
    }
}

async fn try_send(app: &App, mailer: &Mailer, due: &DueMailbox) -> Result<(), StoreError> {
    let Some(mailing) = app.store.begin_mailing(due, app.now().into()).await? else {
        return Ok(());
    };
    let outcome = outcome(app, mailer, &mailing).await;
    app.metrics.count_mail(match &outcome {
        MailOutcome::Sent => "sent",
        MailOutcome::Retry(_) => "retry",
        MailOutcome::Refused(_) => "refused",
    });
    match &outcome {
        MailOutcome::Sent => tracing::debug!(id = %mailing.id, "sent a mail"),
        MailOutcome::Retry(reason) | MailOutcome::Refused(reason) => {
            let user = mailing.mailbox.user;
            tracing::warn!(id = %mailing.id, %user, reason, "a mail was not sent");
        }
    }
    app.store
        .end_mailing(&mailing, &outcome, app.now().into())
        .await
}

async fn outcome(app: &App, mailer: &Mailer, mailing: &Mailing) -> MailOutcome {
    let links = Links {
        url: &app.url(),
        host: &app.host(),
    };
    let sent = match message::notifications(mailer, mailing, links) {
        Ok(message) => mailer.send(message).await,
        Err(error) => Err(error),
    };
    match sent {
        Ok(()) => MailOutcome::Sent,
        Err(error) if error.is_permanent => MailOutcome::Refused(error.reason),
        Err(error) => MailOutcome::Retry(error.reason),
    }
}
