//! Receivers that misbehave cost a bounded time and amount of memory.

use std::time::{Duration, Instant};

use changelog_core::{ConnectionKind, EventKind};
use changelog_server::integrations::message::{MAX_ANSWER_BYTES, Verdict};
use changelog_tests::{Answer, Receiver, assert_lacks};

use super::{change, event, send, verdict, webhook_target};

/// Returns the verdict of a webhook's attempt, with its reason.
async fn reason(receiver: &Receiver) -> String {
    let target = webhook_target(receiver.url());
    let event = event(EventKind::Created, change());
    let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
    match attempt.verdict {
        Verdict::Retry { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_attempt_ends_after_15_seconds() {
    let [hanging, dripping] = [Receiver::start().await, Receiver::start().await];
    hanging.answer_with(Answer::hang());
    dripping.answer_with(Answer::drip());
    let started = Instant::now();
    let reasons = tokio::join!(reason(&hanging), reason(&dripping));
    let timeout = "The receiver did not answer within 15 s.";
    assert_eq!(reasons, (timeout.to_owned(), timeout.to_owned()));
    let took = started.elapsed();
    let range = Duration::from_secs(14)..Duration::from_secs(20);
    assert!(range.contains(&took), "{took:?}");
}

#[tokio::test]
async fn broken_answers_are_retried() {
    let receiver = Receiver::start().await;
    for answer in [Answer::reset(), Answer::not_http()] {
        receiver.answer_with(answer);
        let expected = "The receiver closed the connection early, or its answer was not HTTP.";
        assert_eq!(reason(&receiver).await, expected);
    }
    let mut many = Answer::ok();
    for number in 0..500 {
        many = many.header(&format!("x-header-{number}"), "value");
    }
    receiver.answer_with(many);
    let expected = "The receiver closed the connection early, or its answer was not HTTP.";
    assert_eq!(reason(&receiver).await, expected);
    let url = receiver.url();
    drop(receiver);
    let target = webhook_target(url);
    let event = event(EventKind::Created, change());
    let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
    assert_eq!(verdict(&attempt), "retry");
    assert_eq!(attempt.status, None);
}

#[tokio::test]
async fn long_answers_are_cut_and_not_decompressed() {
    let receiver = Receiver::start().await;
    let target = webhook_target(receiver.url());
    let event = event(EventKind::Created, change());
    for answer in [Answer::endless(), Answer::gzip_bomb()] {
        receiver.answer_with(answer);
        let started = Instant::now();
        let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
        assert_eq!(
            (verdict(&attempt), attempt.status),
            ("delivered", Some(200))
        );
        assert!(attempt.answer.len() <= MAX_ANSWER_BYTES);
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    receiver.answer_with(Answer::gzip_bomb());
    let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
    // The first byte of gzip.
    assert!(attempt.answer.starts_with("<U+001F>"), "{}", attempt.answer);
}

#[tokio::test]
async fn statuses_have_their_verdicts() {
    let receiver = Receiver::start().await;
    let target = webhook_target(receiver.url());
    let event = event(EventKind::Created, change());
    for (answer, expected, wait) in [
        (Answer::status(204), "delivered", None),
        (Answer::status(400), "retry", None),
        (Answer::status(404), "retry", None),
        (Answer::status(410), "disabled", None),
        (Answer::too_many_requests("7"), "retry", Some(7)),
        (
            Answer::too_many_requests("Thu, 15 Jan 2026 08:41:00 GMT"),
            "retry",
            Some(60),
        ),
        (Answer::text(500, "it broke"), "retry", None),
        (
            Answer::status(503).header("retry-after", "120"),
            "retry",
            Some(120),
        ),
    ] {
        let status = answer.clone();
        receiver.answer_with(answer);
        let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
        assert_eq!(verdict(&attempt), expected, "{status:?}");
        let after = match attempt.verdict {
            Verdict::Retry { after, .. } => after,
            _ => None,
        };
        assert_eq!(after, wait.map(Duration::from_secs), "{status:?}");
    }
}

#[tokio::test]
async fn echoed_secrets_are_masked() {
    let receiver = Receiver::start().await;
    let target = webhook_target(format!(
        "{}/T00000000/B00000000/secretsecret",
        receiver.url()
    ));
    let secret = target.signing_secrets[0].secret.clone();
    let echo = format!("no {} here: {secret}", target.url);
    receiver.answer_with(Answer::text(404, &echo));
    let event = event(EventKind::Created, change());
    let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
    assert_eq!(attempt.answer, "no *** here: ***");
    let logged = format!("{attempt:?} {target:?}");
    assert_lacks(&logged, "secretsecret");
    assert_lacks(&logged, &secret);
}
