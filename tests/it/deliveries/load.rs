//! Many events, servers that are killed, and several servers.

use std::time::Duration;

use changelog_tests::receivers::{Answer, Receiver};
use changelog_tests::{Engine, TestApp, on_both};

use super::{ALLOWED, allow_receivers, another_server, connect, record_and_complete, wait_for_all};

on_both!(
    a_dead_receiver_holds_up_no_other;
    process: nothing_is_lost_by_kills, several_servers_share_the_work,
);

async fn a_dead_receiver_holds_up_no_other(mut app: TestApp) {
    allow_receivers(&mut app).await;
    let healthy = [Receiver::start().await, Receiver::start().await];
    let dead = Receiver::start().await;
    dead.answer_with(Answer::hang());
    let hooks = [
        connect(&app, "one", &healthy[0]),
        connect(&app, "another", &healthy[1]),
    ];
    connect(&app, "dead", &dead);
    let ids = record_and_complete(&app, 150).await;
    for (hook, receiver) in hooks.iter().zip(&healthy) {
        let requests = wait_for_all(hook, receiver, &ids).await;
        assert_eq!(requests, ids.len() * 2, "an event was sent twice");
    }
    assert!(dead.requests().len() <= 64, "{}", dead.requests().len());
}

async fn nothing_is_lost_by_kills(mut app: TestApp) {
    app.restart_with(&ALLOWED).await;
    let receiver = Receiver::start().await;
    receiver.answer_with(Answer::ok().after(Duration::from_millis(10)));
    let hook = connect(&app, "hook", &receiver);
    let mut ids = std::collections::BTreeSet::new();
    for round in 1..=3 {
        ids.extend(record_and_complete(&app, 40).await);
        // In the middle of sending.
        receiver.wait_for(round * 10).await;
        app.restart_with(&ALLOWED).await;
    }
    if app.engine == Engine::Postgres {
        // The claims of a killed server are valid for two minutes.
        app.execute("UPDATE deliveries SET next_at = 0 WHERE state = 'pending'")
            .await;
    }
    wait_for_all(&hook, &receiver, &ids).await;
}

async fn several_servers_share_the_work(mut app: TestApp) {
    app.restart_with(&ALLOWED).await;
    if app.engine == Engine::Sqlite {
        // One server serves a SQLite file.
        return;
    }
    let _other = another_server(&app).await;
    let receiver = Receiver::start().await;
    receiver.answer_with(Answer::ok().after(Duration::from_millis(20)));
    let hook = connect(&app, "hook", &receiver);
    let ids = record_and_complete(&app, 150).await;
    let requests = wait_for_all(&hook, &receiver, &ids).await;
    assert_eq!(requests, ids.len() * 2, "an event was sent twice");
}
