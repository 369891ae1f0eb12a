//! Slack, by webhook and by bot, and Microsoft Teams.

use std::time::Duration;

use changelog_core::{ConnectionKind, Event, EventKind, Outcome, Status};
use changelog_server::integrations::message::Verdict;
use changelog_server::integrations::senders;
use changelog_tests::receivers::slack::Channel;
use changelog_tests::receivers::{slack, teams};
use changelog_tests::{Answer, Receiver, assert_contains};
use serde_json::{Value, json};

use super::{
    change, change_of, client, event, event_of_source, message, moved, send, verdict, with_token,
};
use changelog_server::integrations::target::Target;

fn webhook(receiver: &Receiver) -> Target {
    Target {
        url: receiver.url(),
        ..Target::default()
    }
}

/// Sends events by a webhook of Slack, and returns the only message.
async fn slack_message(event: &Event, grouped: &[Event]) -> Value {
    let receiver = Receiver::start().await;
    let target = webhook(&receiver);
    let mut message = message(&target, event);
    message.grouped = grouped;
    let attempt = senders::send(&client(), &ConnectionKind::Slack, &message).await;
    assert_eq!(verdict(&attempt), "delivered");
    let body = receiver.requests()[0].json();
    slack::check(&body).unwrap_or_else(|error| panic!("{error}: {body:#}"));
    body
}

async fn teams_message(event: &Event, grouped: &[Event]) -> Value {
    let receiver = Receiver::start().await;
    receiver.answer_with(Answer::status(202));
    let target = webhook(&receiver);
    let mut message = message(&target, event);
    message.grouped = grouped;
    let attempt = senders::send(&client(), &ConnectionKind::Teams, &message).await;
    assert_eq!(verdict(&attempt), "delivered");
    let request = &receiver.requests()[0];
    teams::check(&request.body).unwrap_or_else(|error| panic!("{error}: {:#}", request.json()));
    request.json()
}

/// Returns many changes of one service.
fn burst(count: u128) -> Vec<Event> {
    let events = (0..count).map(|number| {
        let mut change = change();
        change.id = uuid::Uuid::from_u128(100 + number).into();
        change.title = format!("Deploy payments {number} *now* <!channel>");
        event(EventKind::Created, change)
    });
    events.collect()
}

#[tokio::test]
async fn slack_is_sent_blocks() {
    let created = event(EventKind::Created, change());
    insta::assert_json_snapshot!("slack_created", slack_message(&created, &[]).await);
    let failed = moved(
        change(),
        "in_progress",
        Status::RolledBack,
        Some(Outcome::Failed),
    );
    insta::assert_json_snapshot!("slack_failed", slack_message(&failed, &[]).await);
    let burst = burst(12);
    let grouped = slack_message(&burst[0], &burst[1..]).await;
    insta::assert_json_snapshot!("slack_grouped", grouped);
    let silent = Event::Source(event_of_source("Deployments", true));
    insta::assert_json_snapshot!("slack_silent", slack_message(&silent, &[]).await);
}

#[tokio::test]
async fn teams_is_sent_a_card() {
    let created = event(EventKind::Created, change());
    insta::assert_json_snapshot!("teams_created", teams_message(&created, &[]).await);
    let failed = moved(
        change(),
        "in_progress",
        Status::RolledBack,
        Some(Outcome::Failed),
    );
    insta::assert_json_snapshot!("teams_failed", teams_message(&failed, &[]).await);
    let burst = burst(12);
    let grouped = teams_message(&burst[0], &burst[1..]).await;
    insta::assert_json_snapshot!("teams_grouped", grouped);
    let heard = Event::Source(event_of_source("Deployments", false));
    insta::assert_json_snapshot!("teams_heard", teams_message(&heard, &[]).await);
}

#[tokio::test]
async fn long_bursts_end_with_how_many_more_there_are() {
    let mut burst = burst(300);
    for event in &mut burst {
        let mut change = change_of(event);
        change.title = "&".repeat(300);
        *event = super::event(EventKind::Created, change);
    }
    let slack = slack_message(&burst[0], &burst[1..]).await;
    let teams = teams_message(&burst[0], &burst[1..]).await;
    for body in [slack, teams] {
        let text = body.to_string();
        assert_contains(&text, "300 changes of payments within a minute");
        let more = text.split("and ").find_map(|rest| rest.split_once(" more"));
        let more: usize = more
            .and_then(|(count, _)| count.parse().ok())
            .expect("a count");
        assert!((200..300).contains(&more), "{more}");
    }
}

#[tokio::test]
async fn text_of_users_is_neither_formatting_nor_a_mention() {
    let mut change = change();
    change.title = "<!channel> @here *bold* _i_ ~s~ `c` a_b & <@U1> [x](http://e.com)".to_owned();
    change.description =
        Some("> quote\n# head\n- list\n1. one **b** {{DATE(2026)}} &lt;".to_owned());
    let event = event(EventKind::Created, change);
    insta::assert_json_snapshot!("slack_hostile", slack_message(&event, &[]).await);
    insta::assert_json_snapshot!("teams_hostile", teams_message(&event, &[]).await);
}

#[tokio::test]
async fn a_bot_edits_one_message_and_replies_to_a_failure() {
    let receiver = Receiver::start().await;
    let channel = Channel::serve(&receiver);
    let target = with_token(receiver.base(), "xoxb-test");
    let kind = ConnectionKind::Slack;
    let mut change = change();
    change.status = Status::InProgress;
    change.outcome = None;
    let created = send(
        &kind,
        &target,
        &event(EventKind::Created, change.clone()),
        None,
    )
    .await;
    assert_eq!(verdict(&created), "delivered");
    let reference = created.reference.expect("a reference");
    assert_eq!(
        reference,
        json!({ "channel": "C0123456789", "ts": "1764000000.000000" })
    );
    let failed = moved(
        change.clone(),
        "in_progress",
        Status::RolledBack,
        Some(Outcome::Failed),
    );
    let attempt = send(&kind, &target, &failed, Some(&reference)).await;
    assert_eq!(verdict(&attempt), "delivered");
    assert_eq!(attempt.reference.as_ref(), Some(&reference));
    let message = &channel.messages()["1764000000.000000"];
    assert!(
        message["text"]
            .as_str()
            .is_some_and(|text| text.starts_with('❌')),
        "{message}"
    );
    let replies = channel.replies();
    assert_eq!((channel.messages().len(), replies.len()), (1, 1));
    assert_eq!(replies[0]["thread_ts"], reference["ts"]);
    insta::assert_json_snapshot!("slack_reply", replies[0]);

    // What moves no status replies nothing; a deleted change is shown as deleted.
    let updated = event(EventKind::Updated, change_of(&failed));
    send(&kind, &target, &updated, Some(&reference)).await;
    let deleted = event(EventKind::Deleted, change_of(&failed));
    send(&kind, &target, &deleted, Some(&reference)).await;
    assert_eq!((channel.messages().len(), channel.replies().len()), (1, 1));
    let message = channel.messages()["1764000000.000000"].to_string();
    assert_contains(&message, "Deleted from the change log");

    // A person has removed the message: there is another one.
    channel.clear();
    let attempt = send(&kind, &target, &updated, Some(&reference)).await;
    assert_eq!(
        (verdict(&attempt), channel.messages().len()),
        ("delivered", 1)
    );
}

#[tokio::test]
async fn answers_of_slack_have_their_verdicts() {
    let receiver = Receiver::start().await;
    let target = webhook(&receiver);
    let created = event(EventKind::Created, change());
    for (status, body, expected) in [
        (200, "ok", "delivered"),
        (200, "<html>sign in</html>", "retry"),
        (400, "invalid_payload", "refused"),
        (400, "invalid_blocks", "refused"),
        (403, "action_prohibited", "disabled"),
        (403, "invalid_token", "disabled"),
        (404, "channel_not_found", "disabled"),
        (404, "no_service", "disabled"),
        (410, "channel_is_archived", "disabled"),
        (500, "rollup_error", "retry"),
    ] {
        receiver.answer_with(Answer::text(status, body));
        let attempt = send(&ConnectionKind::Slack, &target, &created, None).await;
        assert_eq!((verdict(&attempt), &*attempt.answer), (expected, body));
        assert_eq!(attempt.status, Some(status));
    }
    let target = with_token(receiver.base(), "xoxb-test");
    for (error, expected) in [
        ("channel_not_found", "disabled"),
        ("not_in_channel", "disabled"),
        ("is_archived", "disabled"),
        ("invalid_auth", "disabled"),
        ("token_revoked", "disabled"),
        ("missing_scope", "disabled"),
        ("invalid_blocks", "refused"),
        ("msg_too_long", "refused"),
        ("internal_error", "retry"),
        ("something_new", "retry"),
    ] {
        receiver.answer_with(Answer::json(200, &json!({ "ok": false, "error": error })));
        let attempt = send(&ConnectionKind::Slack, &target, &created, None).await;
        assert_eq!(verdict(&attempt), expected, "{error}");
    }
    let limited = json!({ "ok": false, "error": "ratelimited" });
    receiver.answer_with(Answer::json(429, &limited).header("retry-after", "30"));
    let attempt = send(&ConnectionKind::Slack, &target, &created, None).await;
    let Verdict::Retry { after, .. } = attempt.verdict else {
        panic!("{attempt:?}");
    };
    assert_eq!(after, Some(Duration::from_secs(30)));
    receiver.answer_with(Answer::text(200, "<html>"));
    let attempt = send(&ConnectionKind::Slack, &target, &created, None).await;
    assert_eq!(verdict(&attempt), "retry");
}

#[tokio::test]
async fn answers_of_teams_have_their_verdicts() {
    let receiver = Receiver::start().await;
    let target = webhook(&receiver);
    let created = event(EventKind::Created, change());
    for (status, expected) in [
        (202, "delivered"),
        (400, "refused"),
        (401, "disabled"),
        (403, "disabled"),
        (404, "disabled"),
        (410, "disabled"),
        (413, "refused"),
        (429, "retry"),
        (502, "retry"),
    ] {
        receiver.answer_with(Answer::status(status));
        let attempt = send(&ConnectionKind::Teams, &target, &created, None).await;
        assert_eq!(
            (attempt.status, verdict(&attempt)),
            (Some(status), expected)
        );
    }
}

#[tokio::test]
async fn a_test_is_marked_as_one() {
    let organization = uuid::Uuid::from_u128(1).into();
    let event = senders::test_event(organization, super::now());
    for kind in ConnectionKind::ALL {
        assert!(senders::takes(kind, &event), "{kind}");
    }
    let text = slack_message(&event, &[]).await.to_string();
    assert_contains(&text, "|Test: this connection works>");
    teams_message(&event, &[]).await;
}
