//! A bot: one message for each change, which is edited when the change moves on.

use changelog_core::EventKind;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocks;
use crate::integrations::http::{ReceiverClient, ReceiverResponse};
use crate::integrations::message::{Message, Verdict};
use crate::integrations::senders::answer::{self, Outcome};
use crate::integrations::senders::render;
use crate::integrations::senders::request;

/// The URL of Slack's API.
pub const DEFAULT_API_URL: &str = "https://slack.com/api";

/// Slack's answer; the status is 200 even for errors.
#[derive(Deserialize)]
struct Answer {
    ok: bool,
    error: Option<String>,
    channel: Option<String>,
    ts: Option<String>,
}

/// The message about a change, by which it is edited.
#[derive(Deserialize)]
struct Posted {
    channel: String,
    ts: String,
}

pub(super) async fn send(http: &ReceiverClient, message: &Message<'_>, token: &str) -> Outcome {
    let call = Call {
        http,
        message,
        token,
    };
    let is_grouped = !message.grouped.is_empty();
    let posted = message.reference.filter(|_| !is_grouped);
    let posted = posted.and_then(|reference| Posted::deserialize(reference).ok());
    let Some(posted) = posted else {
        return call.post(is_grouped).await;
    };
    let mut body = blocks::message(message);
    body["channel"] = posted.channel.clone().into();
    body["ts"] = posted.ts.clone().into();
    let mut outcome = call.method("chat.update", &body).await;
    if outcome.is_unknown_message() {
        return call.post(is_grouped).await;
    }
    if outcome.result.verdict == Verdict::Delivered && render::is_new_failure(message.event) {
        // An edit notifies nobody.
        let mut body = blocks::reply(message);
        body["channel"] = posted.channel.clone().into();
        body["thread_ts"] = posted.ts.clone().into();
        outcome = call.method("chat.postMessage", &body).await;
    }
    let reference = json!({ "channel": posted.channel, "ts": posted.ts });
    outcome.result.reference = Some(reference);
    outcome.result
}

/// What became of a call.
struct CallOutcome {
    result: Outcome,
    error: String,
}

impl CallOutcome {
    /// Returns whether the message was removed, or is too old to be edited.
    fn is_unknown_message(&self) -> bool {
        let errors = [
            "message_not_found",
            "edit_window_closed",
            "cant_update_message",
        ];
        errors.contains(&self.error.as_str())
    }
}

struct Call<'c> {
    http: &'c ReceiverClient,
    message: &'c Message<'c>,
    token: &'c str,
}

impl Call<'_> {
    /// Posts a new message, and returns the reference to it.
    async fn post(&self, is_grouped: bool) -> Outcome {
        let Some(channel) = &self.message.target.channel else {
            return Outcome::disabled("The connection has no Slack channel.");
        };
        if *self.message.event.kind() == EventKind::Deleted && !is_grouped {
            // Nobody has read of it here.
            return Outcome::nothing_to_send();
        }
        let mut body = blocks::message(self.message);
        body["channel"] = channel.as_str().into();
        let mut outcome = self.method("chat.postMessage", &body).await.result;
        if is_grouped {
            // The message is not the one of a single change.
            outcome.reference = None;
        }
        outcome
    }

    async fn method(&self, method: &str, body: &Value) -> CallOutcome {
        let base = match self.message.target.url.trim_end_matches('/') {
            "" => DEFAULT_API_URL,
            url => url,
        };
        let url = format!("{base}/{method}");
        let request = request::authorized(request::post(&url, body), self.token);
        let response = match self.http.send(request).await {
            Ok(response) => response,
            Err(error) => {
                return CallOutcome {
                    result: Outcome::failed(&error),
                    error: String::new(),
                };
            }
        };
        let answer: Option<Answer> = serde_json::from_slice(&response.body).ok();
        let verdict = self.verdict(&response, answer.as_ref());
        let mut result = Outcome::answered(verdict, response);
        let Some(answer) = answer else {
            let error = String::new();
            return CallOutcome { result, error };
        };
        if answer.ok
            && let (Some(channel), Some(ts)) = (answer.channel, answer.ts)
        {
            result.reference = Some(json!({ "channel": channel, "ts": ts }));
        }
        let error = answer.error.unwrap_or_default();
        CallOutcome { result, error }
    }

    fn verdict(&self, response: &ReceiverResponse, answer: Option<&Answer>) -> Verdict {
        let by_status = || answer::by_status(response, self.message.now);
        let Some(answer) = answer.filter(|_| response.status != StatusCode::TOO_MANY_REQUESTS)
        else {
            return match by_status() {
                Verdict::Delivered => Verdict::Retry {
                    reason: "Slack did not confirm the message: the answer is not JSON.".to_owned(),
                    after: None,
                },
                other => other,
            };
        };
        if answer.ok {
            return by_status();
        }
        match answer.error.as_deref().unwrap_or_default() {
            "channel_not_found" | "not_in_channel" => answer::needs_person(
                "The bot cannot post to the Slack channel. Invite it to the channel, or enter the \
                 id of another one.",
            ),
            "is_archived" => answer::needs_person(
                "The Slack channel is archived. Unarchive it, or enter the id of another one.",
            ),
            "invalid_auth" | "not_authed" | "token_revoked" | "token_expired"
            | "account_inactive" => answer::needs_person(
                "Slack does not accept the bot's token. Install the app again and enter its token.",
            ),
            "missing_scope" | "not_allowed_token_type" | "no_permission" => answer::needs_person(
                "The bot's token lacks the permission chat:write. Add it to the app, and install \
                 the app again.",
            ),
            "restricted_action"
            | "restricted_action_read_only_channel"
            | "restricted_action_thread_only_channel"
            | "access_denied"
            | "ekm_access_denied"
            | "team_access_not_granted"
            | "org_login_required" => answer::needs_person(
                "An administrator of the Slack workspace has restricted posting to the channel.",
            ),
            "invalid_blocks"
            | "invalid_blocks_format"
            | "invalid_arguments"
            | "invalid_json"
            | "msg_too_long"
            | "msg_blocks_too_long"
            | "no_text" => answer::refused_message("Slack"),
            _ => Verdict::Retry {
                reason: "Slack did not accept the message.".to_owned(),
                after: answer::retry_after(response, self.message.now),
            },
        }
    }
}
