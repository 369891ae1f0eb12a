//! Slack: by an incoming webhook, which can only send, or by a bot's token, which keeps
//! one message of each change up to date.

pub(crate) mod blocks;
mod bot;
mod webhook;

use super::answer::Outcome;
use crate::integrations::http::ReceiverClient;
use crate::integrations::message::Message;

pub use bot::DEFAULT_API_URL;

pub(super) async fn send(http: &ReceiverClient, message: &Message<'_>) -> Outcome {
    match &message.target.token {
        Some(token) => bot::send(http, message, token).await,
        None => webhook::send(http, message).await,
    }
}
