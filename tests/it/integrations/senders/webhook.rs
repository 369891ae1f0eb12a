//! Webhooks in the format of Standard Webhooks.

use changelog_core::{ConnectionKind, EventKind, Status};
use changelog_server::integrations::senders::{self, webhook};
use changelog_server::integrations::target::SigningSecret;
use changelog_tests::Receiver;
use changelog_tests::receivers::webhook::{check, check_public_key, events};
use chrono::TimeDelta;

use super::{change, client, event, message, moved, now, send, verdict, webhook_target};

#[tokio::test]
async fn receivers_verify_the_signatures_with_the_reference_library() {
    let receiver = Receiver::start().await;
    let target = webhook_target(receiver.url());
    let event = moved(change(), "in_progress", Status::Completed, None);
    let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
    assert_eq!(verdict(&attempt), "delivered");
    let requests = receiver.requests();
    let secret = &target.signing_secrets[0].secret;
    let genuine = check(&requests[0], secret).expect("a genuine event");
    assert_eq!(genuine.id, format!("evt_{}", event.id().simple()));
    assert_eq!(requests[0].header("webhook-timestamp"), "1768466400");
    let seed = target.ed25519_seed.as_deref().expect("a seed");
    let public_key = webhook::public_key(seed).expect("a public key");
    check_public_key(&requests[0], &public_key).expect("a genuine event");
    let other = webhook::public_key(&webhook::new_ed25519_seed()).expect("a public key");
    assert!(check_public_key(&requests[0], &other).is_err());
    assert!(check(&requests[0], &webhook::new_signing_secret()).is_err());
    insta::assert_json_snapshot!(genuine.body);
}

#[tokio::test]
async fn during_a_rotation_both_secrets_sign() {
    let receiver = Receiver::start().await;
    let mut target = webhook_target(receiver.url());
    let secret = |until: TimeDelta| SigningSecret {
        secret: webhook::new_signing_secret(),
        valid_until: Some(now().plus(until)),
    };
    target.signing_secrets.push(secret(TimeDelta::hours(1)));
    target.signing_secrets.push(secret(TimeDelta::hours(-1)));
    let event = event(EventKind::Created, change());
    send(&ConnectionKind::Webhook, &target, &event, None).await;
    let requests = receiver.requests();
    let results = target.signing_secrets.iter();
    let results: Vec<bool> = results
        .map(|secret| check(&requests[0], &secret.secret).is_ok())
        .collect();
    assert_eq!(results, [true, true, false]);
    target.signing_secrets.drain(..2);
    target.ed25519_seed = None;
    let attempt = send(&ConnectionKind::Webhook, &target, &event, None).await;
    assert_eq!(
        (verdict(&attempt), receiver.requests().len()),
        ("disabled", 1)
    );
}

#[tokio::test]
async fn an_attempt_repeats_the_id_and_the_body_at_another_time() {
    let receiver = Receiver::start().await;
    let target = webhook_target(receiver.url());
    let event = event(EventKind::Created, change());
    for minutes in [0, 5] {
        let mut message = message(&target, &event);
        message.now = now().plus(TimeDelta::minutes(minutes));
        senders::send(&client(), &ConnectionKind::Webhook, &message).await;
    }
    let requests = receiver.requests();
    assert_eq!(
        events(&requests, &target.signing_secrets[0].secret).len(),
        1
    );
    let times: Vec<&str> = requests
        .iter()
        .map(|it| it.header("webhook-timestamp"))
        .collect();
    assert_eq!(times, ["1768466400", "1768466700"]);
    assert_eq!(requests[0].body, requests[1].body);
}

#[tokio::test]
async fn long_texts_are_shortened_and_named() {
    let receiver = Receiver::start().await;
    let target = webhook_target(receiver.url());
    let mut change = change();
    change.description = Some("é\"".repeat(10_000));
    change.impact = Some("😀".repeat(20_000));
    let event = event(EventKind::Created, change);
    send(&ConnectionKind::Webhook, &target, &event, None).await;
    let requests = receiver.requests();
    let genuine = check(&requests[0], &target.signing_secrets[0].secret).expect("an event");
    let data = &genuine.body["data"];
    assert_eq!(
        data["truncated"],
        serde_json::json!(["description", "impact"])
    );
    for name in ["description", "impact"] {
        let text = genuine.change()[name].as_str().expect("a string");
        assert!(text.ends_with('…') && text.len() > 2_500, "{}", text.len());
    }
    assert!(
        requests[0].body.len() > 19_500,
        "{}",
        requests[0].body.len()
    );
}
