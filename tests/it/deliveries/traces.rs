//! The trace of a request reaches the log and the receivers of its events.

use changelog_tests::{Receiver, TestApp, assert_contains, on_both, send};
use serde_json::json;

use super::{ALLOWED, connect};

on_both!(process: the_trace_of_a_request_reaches_receivers);

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn the_trace_of_a_request_reaches_receivers(mut app: TestApp) {
    let mut command = app.serve_command();
    command.args(ALLOWED);
    command.env("CHANGELOG_LOG", "info,changelog_server=debug");
    app.server.kill9();
    app.server = changelog_tests::Server::start(command)
        .await
        .expect("it starts");
    let receiver = Receiver::start().await;
    connect(&app, "hook", &receiver);
    let key = app.key();
    // Events of changes with a service are stored again, with its name.
    let service = key.service("payments").await;
    let header = |number: u8| format!("00-{TRACE_ID}-00f067aa0ba902b{number}-01");
    let create = key
        .request("POST", "/api/changes")
        .header("traceparent", header(1))
        .json(&json!({ "title": "Deploy", "service_id": service }));
    let id = send(create).await.data(201)["id"].clone();
    let path = format!("/api/changes/{}", id.as_str().expect("an id"));
    let update = key
        .request("PATCH", &path)
        .header("traceparent", header(2))
        .json(&json!({ "title": "Deploy 2" }));
    send(update).await.is(200);
    let invalid = key
        .request("PATCH", &path)
        .header("traceparent", "00-none")
        .json(&json!({ "title": "Deploy 3" }));
    send(invalid).await.is(200);
    let requests = receiver.wait_for(3).await;
    let traces: Vec<&str> = requests
        .iter()
        .map(|one| one.header("traceparent"))
        .collect();
    assert_eq!(traces, [header(1).as_str(), &header(2), ""]);
    assert_contains(&app.server.log(), format!("trace_id=\"{TRACE_ID}\""));
}
