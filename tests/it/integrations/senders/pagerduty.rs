//! Change events of PagerDuty.

use changelog_core::{ConnectionKind, EventKind, Outcome, Status};
use changelog_server::integrations::senders;
use changelog_tests::receivers::pagerduty::check;
use changelog_tests::{Answer, Receiver};

use super::{change, event, moved, send, verdict, with_token};

const KIND: ConnectionKind = ConnectionKind::PagerDuty;
const KEY: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn an_ended_change_is_sent_with_its_own_time() {
    let receiver = Receiver::start().await;
    receiver.answer_with(Answer::status(202));
    let target = with_token(receiver.url(), KEY);
    let failed = moved(
        change(),
        "in_progress",
        Status::RolledBack,
        Some(Outcome::Failed),
    );
    let attempt = send(&KIND, &target, &failed, None).await;
    assert_eq!(verdict(&attempt), "delivered");
    let body = receiver.requests()[0].json();
    check(&body).expect("a change event");
    insta::assert_json_snapshot!("pagerduty", body);
}

#[tokio::test]
async fn only_the_end_of_a_change_is_sent() {
    let ended = change();
    let mut running = change();
    running.status = Status::InProgress;
    for (event, is_sent) in [
        (event(EventKind::Created, ended.clone()), true),
        (event(EventKind::Created, running.clone()), false),
        (event(EventKind::Updated, ended.clone()), false),
        (event(EventKind::Deleted, ended.clone()), false),
        (
            moved(ended.clone(), "in_progress", Status::Completed, None),
            true,
        ),
        (moved(ended, "completed", Status::RolledBack, None), false),
        (moved(running, "planned", Status::InProgress, None), false),
    ] {
        assert_eq!(senders::takes(&KIND, &event), is_sent, "{event:?}");
    }
}

#[tokio::test]
async fn answers_have_their_verdicts() {
    let receiver = Receiver::start().await;
    let target = with_token(receiver.url(), KEY);
    let ended = event(EventKind::Created, change());
    for (status, expected) in [
        (202, "delivered"),
        (400, "refused"),
        (429, "retry"),
        (500, "retry"),
    ] {
        receiver.answer_with(Answer::text(status, KEY));
        let attempt = send(&KIND, &target, &ended, None).await;
        assert_eq!(
            (attempt.status, verdict(&attempt)),
            (Some(status), expected)
        );
        assert_eq!(attempt.answer, "***");
    }
}
