//! Receivers that fail, refuse and ask for pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use changelog_tests::receivers::{Answer, Received, Receiver, webhook};
use changelog_tests::{TestApp, on_both};
use serde_json::json;

use super::{TIMEOUT, allow_receivers, connect, text};

on_both!(
    ten_attempts_follow_the_schedule,
    a_limit_of_the_receiver_costs_no_attempts,
    a_receiver_that_is_gone_is_disabled,
    pauses_are_kept,
    what_never_succeeds_is_set_aside,
    one_refused_message_keeps_its_schedule,
    five_days_of_failures_disable_a_connection,
);

/// The delays of Standard Webhooks, in seconds.
const DELAYS: [u64; 9] = [
    5,
    5 * 60,
    30 * 60,
    2 * 3_600,
    5 * 3_600,
    10 * 3_600,
    14 * 3_600,
    20 * 3_600,
    24 * 3_600,
];

/// How many messages a receiver with a limit takes between two pauses.
const TAKEN: usize = 5;

async fn a_limit_of_the_receiver_costs_no_attempts(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let (room, rounds) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let left = Arc::clone(&room);
    receiver.answer_by(move |_| {
        let taken = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        taken.map_or(Answer::too_many_requests("20"), |_| Answer::ok())
    });
    let hook = connect(&app, "hook", &receiver);
    for number in 0..8 * TAKEN {
        app.key().change(&format!("Deploy {number}")).await;
    }
    let delivered = || TAKEN * rounds.load(Ordering::SeqCst) - room.load(Ordering::SeqCst);
    // The first pause, and as many as the receiver needs for all of them.
    for pause in 0..=8 {
        let deadline = Instant::now() + TIMEOUT;
        while delivered() < TAKEN * pause {
            assert!(
                Instant::now() < deadline,
                "pause {pause}: {} sent",
                delivered()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        rounds.fetch_add(1, Ordering::SeqCst);
        room.store(TAKEN, Ordering::SeqCst);
        app.clock.advance(Duration::from_secs(21));
    }
    let attempts = hook.deliveries(&app);
    let most = attempts
        .iter()
        .filter_map(|one| one["attempts"].as_i64())
        .max();
    assert!(most <= Some(4), "{most:?} attempts for one");
    assert!(
        receiver.count() < 8 * TAKEN * 3,
        "{} requests",
        receiver.count()
    );
}

async fn ten_attempts_follow_the_schedule(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    receiver.answer_with(Answer::text(500, "out of order"));
    let hook = connect(&app, "hook", &receiver);
    app.key().change("Deploy").await;
    for (index, delay) in DELAYS.into_iter().enumerate() {
        let attempts = i64::try_from(index + 1).expect("few");
        receiver.wait_for(index + 1).await;
        let failed = hook
            .newest(&app, |one| {
                one["state"] == "pending" && one["attempts"] == attempts
            })
            .await;
        assert_eq!(failed["status"], 500);
        assert_eq!(failed["answer"], "out of order");
        // Not a second too early.
        app.clock.advance(Duration::from_secs(delay - 2));
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(receiver.requests().len(), index + 1, "{attempts}");
        app.clock.advance(Duration::from_secs(2 + delay / 10 + 1));
    }
    let requests = receiver.wait_for(10).await;
    let dead = hook.newest(&app, |one| one["state"] == "dead").await;
    assert_eq!(dead["attempts"], 10);
    assert!(hook.shown(&app)["failing_since"].is_string());
    app.clock.advance(Duration::from_hours(48));
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(receiver.requests().len(), 10, "it was sent again");
    // The attempts differ by their times only.
    let events: Vec<_> = requests
        .iter()
        .map(|request| webhook::check(request, &hook.secret).expect("it is genuine"))
        .collect();
    assert!(events.iter().all(|event| event.id == events[0].id));
    let times: Vec<&str> = requests
        .iter()
        .map(|request| request.header("webhook-timestamp"))
        .collect();
    assert!(times.windows(2).all(|two| two[0] < two[1]), "{times:?}");

    // Repaired, and replayed by hand.
    receiver.answer_with(Answer::ok());
    app.admin(&["integration", "replay", &text(&dead["id"])]);
    let requests = receiver.wait_for(11).await;
    let event = webhook::check(&requests[10], &hook.secret).expect("it is genuine");
    assert_eq!(event.id, events[0].id);
    let delivered = hook.newest(&app, |one| one["state"] == "delivered").await;
    assert_eq!(delivered["status"], 200);
    assert!(hook.shown(&app)["failing_since"].is_null());
}

async fn a_receiver_that_is_gone_is_disabled(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    receiver.answer_with(Answer::text(410, "gone"));
    let hook = connect(&app, "hook", &receiver);
    let key = app.key();
    key.change("first").await;
    hook.newest(&app, |one| one["status"] == 410).await;
    let shown = hook.shown(&app);
    assert!(shown["disabled_at"].is_string(), "{shown}");
    assert!(shown["disabled_reason"].is_string(), "{shown}");
    // Nothing is queued for it.
    key.change("second").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(hook.deliveries(&app).len(), 1);
    let owner = app.browser().await;
    let entry = owner.get("/api/activity?resource=integration").await;
    let entry = entry.json()["items"][0].clone();
    assert_eq!(entry["action"], "updated", "{entry}");
    // Enabled again, it gets what was not delivered, and what is recorded from now on.
    receiver.answer_with(Answer::ok());
    app.admin(&["integration", "enable", &hook.id]);
    receiver.wait_for(2).await;
    key.change("third").await;
    let requests = receiver.wait_for(3).await;
    let titles: Vec<_> = requests
        .iter()
        .map(|request| request.json()["data"]["change"]["title"].clone())
        .collect();
    assert_eq!(json!(titles), json!(["first", "first", "third"]));
}

async fn pauses_are_kept(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    receiver.answer_next(Answer::too_many_requests("120"));
    let hook = connect(&app, "hook", &receiver);
    let key = app.key();
    key.change("first").await;
    receiver.wait_for(1).await;
    hook.newest(&app, |one| one["status"] == 429).await;
    key.change("second").await;
    // Neither the retry, which the schedule has after five seconds, nor another event.
    app.clock.advance(Duration::from_secs(100));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(receiver.requests().len(), 1);
    app.clock.advance(Duration::from_secs(21));
    receiver.wait_for(3).await;
    hook.newest(&app, |one| one["state"] == "delivered").await;
    assert!(hook.shown(&app)["failing_since"].is_null());
}

async fn what_never_succeeds_is_set_aside(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let target = Receiver::start().await;
    receiver.answer_by({
        let url = target.url();
        move |_| Answer::redirect(301, &url)
    });
    let hook = connect(&app, "hook", &receiver);
    app.key().change("first").await;
    let failed = hook.newest(&app, |one| one["status"] == 301).await;
    assert!(failed["reason"].is_string(), "{failed}");
    assert_eq!(target.connections(), 0, "a redirect was followed");
    // A later event of another change is not held up by it.
    receiver.answer_with(Answer::ok());
    app.clock.advance(Duration::from_secs(2));
    app.key().change("second").await;
    let newest = hook.newest(&app, |one| one["state"] == "delivered").await;
    assert_eq!(newest["title"], "second");
}

async fn one_refused_message_keeps_its_schedule(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    let is_bad = |request: &Received| request.json()["data"]["change"]["title"] == "bad";
    receiver.answer_by(move |request| {
        if is_bad(request) {
            Answer::status(500)
        } else {
            Answer::ok()
        }
    });
    connect(&app, "hook", &receiver);
    let key = app.key();
    let bad = || {
        let requests = receiver.requests();
        requests.iter().filter(|request| is_bad(request)).count()
    };
    key.change("bad").await;
    receiver.wait_for(1).await;
    // A tenth of the first delay is half a second, of the second one half a minute.
    for number in 0..12 {
        app.clock.advance(Duration::from_secs(2));
        key.change(&format!("good {number}")).await;
        let deadline = Instant::now() + TIMEOUT;
        while receiver.count() - bad() <= number {
            assert!(Instant::now() < deadline, "it is held up");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert!((1..=2).contains(&bad()), "{} attempts", bad());
    app.clock.advance(Duration::from_secs(40));
    key.change("good at last").await;
    let deadline = Instant::now() + TIMEOUT;
    while bad() < 3 {
        assert!(Instant::now() < deadline, "it waits for its full delay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn five_days_of_failures_disable_a_connection(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let receiver = Receiver::start().await;
    receiver.answer_with(Answer::status(503));
    let hook = connect(&app, "hook", &receiver);
    app.key().change("first").await;
    hook.newest(&app, |one| one["status"] == 503).await;
    let first = hook.shown(&app)["failing_since"].clone();
    // After a time without attempts, failures count from the next one on.
    app.clock.advance(Duration::from_hours(6 * 24));
    app.key().change("second").await;
    hook.newest(&app, |one| one["title"] == "second" && one["status"] == 503)
        .await;
    let shown = hook.shown(&app);
    assert!(shown["disabled_at"].is_null(), "{shown}");
    assert!(text(&shown["failing_since"]) > text(&first), "{shown}");
    for day in 1..=4 {
        app.clock.advance(Duration::from_hours(24));
        let title = format!("day {day}");
        app.key().change(&title).await;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let newest = hook.deliveries(&app).swap_remove(0);
            if newest["title"] == title.as_str() && newest["status"] == 503 {
                break;
            }
            assert!(Instant::now() < deadline, "{newest}");
            // Until the next attempt at something that is due.
            app.clock.advance(Duration::from_mins(1));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    app.clock.advance(Duration::from_hours(24));
    let deadline = Instant::now() + TIMEOUT;
    while hook.shown(&app)["disabled_at"].is_null() {
        assert!(Instant::now() < deadline, "{}", hook.shown(&app));
        app.clock.advance(Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let reason = text(&hook.shown(&app)["disabled_reason"]);
    assert!(reason.contains("five days"), "{reason}");
}
