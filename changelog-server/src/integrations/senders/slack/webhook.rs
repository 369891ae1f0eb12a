//! Incoming webhooks.

use http::StatusCode;

use super::blocks;
use crate::integrations::http::{ReceiverClient, ReceiverResponse};
use crate::integrations::message::{Message, Verdict};
use crate::integrations::senders::answer::{self, Outcome};
use crate::integrations::senders::request;

pub(super) async fn send(http: &ReceiverClient, message: &Message<'_>) -> Outcome {
    let body = blocks::message(message);
    match http.send(request::post(&message.target.url, &body)).await {
        Ok(response) => Outcome::answered(verdict(message, &response), response),
        Err(error) => Outcome::failed(&error),
    }
}

fn verdict(message: &Message<'_>, response: &ReceiverResponse) -> Verdict {
    let body = String::from_utf8_lossy(&response.body);
    let code = body.trim();
    match (response.status, code) {
        (StatusCode::OK, "ok") => Verdict::Delivered,
        // A page of a proxy or a sign-in, for example.
        (status, _) if status.is_success() => Verdict::Retry {
            reason: "Slack did not confirm the message: the answer is not ok.".to_owned(),
            after: None,
        },
        (_, "action_prohibited") => answer::needs_person(
            "An administrator of the Slack workspace has restricted posting to the channel.",
        ),
        (_, "channel_not_found") => answer::needs_person(
            "The Slack channel no longer exists. Create a webhook for another channel.",
        ),
        (_, "channel_is_archived") => answer::needs_person(
            "The Slack channel is archived. Unarchive it, or create a webhook for another channel.",
        ),
        (_, "posting_to_general_channel_denied") => answer::needs_person(
            "The Slack workspace does not let this webhook post to its general channel.",
        ),
        (_, "no_service" | "no_service_id" | "no_team" | "team_disabled" | "user_not_found")
        | (StatusCode::NOT_FOUND | StatusCode::GONE, _) => answer::needs_person(
            "The Slack webhook no longer exists. Create another one and enter its address.",
        ),
        (_, "invalid_token") | (StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED, _) => {
            answer::needs_person(
                "Slack does not accept the address of the webhook. Enter it again.",
            )
        }
        (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE, _) => {
            answer::refused_message("Slack")
        }
        _ => answer::by_status(response, message.now),
    }
}
