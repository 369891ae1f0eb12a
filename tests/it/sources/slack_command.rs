//! Slash commands of Slack: signed requests, answered at once.

use std::time::{Duration, Instant};

use changelog_tests::receivers::{Answer, Receiver, slack};
use changelog_tests::{
    TestApp, TestResponse, assert_contains, assert_lacks, each, on_both, send, text,
};
use chrono::{TimeDelta, Utc};
use ring::hmac;
use serde_json::{Value, json};

on_both!(
    a_command_answers_with_suspects,
    a_change_is_logged_once_for_its_person,
    an_answer_is_shown_to_the_channel,
    slack_is_sent_what_is_shown_to_the_channel,
    only_slack_is_answered,
    what_cannot_be_read_is_answered_with_help,
);

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
/// How long Slack waits for an answer.
const SLACK_TIMEOUT: Duration = Duration::from_secs(3);

/// An app of Slack that has the address of a source.
struct Slack<'a> {
    app: &'a TestApp,
    source: String,
    path: String,
}

impl<'a> Slack<'a> {
    fn new(app: &'a TestApp) -> Self {
        let source = app.source("slack-command", "Slack", Some(SECRET));
        Self {
            app,
            source: source.id.clone(),
            path: source.path.clone(),
        }
    }

    /// Sends a form as Slack does, at a time, with a signature by a secret.
    async fn post(&self, body: String, seconds: i64, secret: &str) -> TestResponse {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = hmac::sign(&key, format!("v0:{seconds}:{body}").as_bytes());
        let digits: Vec<String> = tag
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let request = self.app.anonymous().request("POST", &self.path);
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .header("x-slack-request-timestamp", seconds.to_string())
            .header("x-slack-signature", format!("v0={}", digits.concat()));
        send(request.body(body)).await
    }

    async fn form(&self, fields: &[(&str, &str)]) -> Value {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let body = form.extend_pairs(fields).finish();
        let started = Instant::now();
        let answer = self.post(body, Utc::now().timestamp(), SECRET).await;
        assert!(started.elapsed() < SLACK_TIMEOUT);
        answer.body(200)
    }

    async fn command(&self, words: &str, trigger: &str) -> Value {
        self.form(&[
            ("command", "/changes"),
            ("text", words),
            ("user_id", "U2CERLKJA"),
            ("user_name", "ada"),
            ("trigger_id", trigger),
            ("response_url", "https://hooks.slack.com/commands/T1/2/3"),
        ])
        .await
    }

    /// Presses the button of an answer.
    async fn press(&self, value: &str, response_url: &str) -> Value {
        let payload = json!({
            "type": "block_actions", "user": { "id": "U1", "username": "grace" },
            "response_url": response_url,
            "actions": [{ "action_id": "show", "type": "button", "value": value }],
        });
        self.form(&[("payload", &payload.to_string())]).await
    }
}

/// Returns the texts of an answer.
fn texts(answer: &Value) -> String {
    let sections = answer["blocks"].as_array().expect("blocks").iter();
    let texts = sections.filter_map(|block| block["text"]["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the value of the button of an answer.
fn button(answer: &Value) -> String {
    let actions = answer["blocks"].as_array().expect("blocks").last();
    text(&actions.expect("a block")["elements"][0]["value"])
}

async fn a_command_answers_with_suspects(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    key.service("search").await;
    let deploy = |title: &str, minutes, service: Option<&str>| {
        let at = Utc::now() - TimeDelta::minutes(minutes);
        json!({ "title": title, "status": "completed", "started_at": at, "ended_at": at,
                "service_id": service })
    };
    let cause = deploy("Deploy <!channel> payments & *more*", 30, Some(&service));
    let cause = key.create("/api/changes", cause).await;
    key.create("/api/changes", deploy("Rotate the logs", 20, None))
        .await;
    let slack = Slack::new(&app);
    let answer = slack.command("20m Payments", "1").await;
    assert_eq!(answer["response_type"], "ephemeral");
    let shown = texts(&answer);
    assert_contains(&shown, "1. *<");
    assert_contains(
        &shown,
        format!("/changes/{cause}|Deploy &lt;!channel&gt; payments &amp; "),
    );
    assert_contains(&shown, "same service: payments");
    assert_lacks(&shown, "<!channel>");
    assert_contains(&shown, "/around?at=");
    // Without words: what changed lately.
    assert_contains(&texts(&slack.command("", "2").await), "Rotate the logs");
    let nothing = texts(&slack.command("2020-01-01 search", "3").await);
    assert_contains(&nothing, "*No change of search* between <!date^");
    // Nothing waits in the queue.
    let events = app.admin(&["source", "events", &slack.source]);
    assert_eq!(events, json!([]));
}

async fn a_change_is_logged_once_for_its_person(app: TestApp) {
    let key = app.key();
    let service = key.service("payments").await;
    let slack = Slack::new(&app);
    let words = "log Deploy payments 4.2";
    let answer = slack.command(words, "13345224609.738474920").await;
    assert_eq!(answer["response_type"], "ephemeral");
    assert_contains(&texts(&answer), "|Deploy payments 4.2>*");
    // Slack sends it again.
    let again = slack.command(words, "13345224609.738474920").await;
    assert_eq!(button(&again), button(&answer));
    let list = key.body("/api/changes").await;
    assert_eq!(list["count"], 1);
    let change = &list["data"][0];
    assert_eq!(change["status"], "completed");
    assert_eq!(change["on_behalf_of"], "ada");
    assert_eq!(change["service"]["id"], service.as_str());
    assert_eq!(change["created_by"]["type"], "source");
    assert_eq!(change["source"]["kind"], "slack-command");
    // The same words in another command are another change.
    slack.command(words, "13345224609.738474921").await;
    assert_eq!(key.body("/api/changes").await["count"], 2);
}

async fn an_answer_is_shown_to_the_channel(app: TestApp) {
    let slack = Slack::new(&app);
    // Private addresses are refused: the service sends nothing to itself.
    let url = format!("{}/api/health", app.url());
    for words in ["log Deploy payments 4.2", ""] {
        let answer = slack.command(words, "1").await;
        let shown = slack.press(&button(&answer), &url).await;
        assert_eq!(shown["response_type"], "in_channel");
        assert_eq!(shown["delete_original"], true);
        assert_contains(&texts(&shown), "Deploy payments 4.2");
        let blocks = shown["blocks"].as_array().expect("blocks");
        assert_eq!(
            each(&shown["blocks"], "type").last(),
            Some(&&json!("context"))
        );
        assert_contains(
            &blocks.last().expect("a block").to_string(),
            "Shown by grace",
        );
        assert!(blocks.iter().all(|block| block["type"] != "actions"));
    }
    let deleted = "change 018f4e9a-7b1c-7d3e-9a51-2f6c8b7d1e90";
    assert_contains(&texts(&slack.press(deleted, &url).await), "was deleted");
    for wrong in ["", "change", "changes yesterday", "drop 1"] {
        assert_eq!(slack.press(wrong, &url).await, json!({}), "{wrong}");
    }
}

async fn slack_is_sent_what_is_shown_to_the_channel(mut app: TestApp) {
    app.restart_with(&["--allow-receivers", "127.0.0.0/8"])
        .await;
    let receiver = Receiver::start().await;
    let slack = Slack::new(&app);
    let answer = slack.command("log Deploy payments 4.2", "1").await;
    assert_eq!(receiver.count(), 0, "commands are answered directly");
    let shown = slack.press(&button(&answer), &receiver.url()).await;
    let requests = receiver.wait_for(1).await;
    let sent = &requests[0];
    assert_eq!((&*sent.method, &*sent.path), ("POST", "/receive"));
    assert_eq!(sent.header("content-type"), "application/json");
    let sent = sent.json();
    assert_eq!(sent, shown);
    assert_eq!(sent["response_type"], "in_channel");
    assert_eq!(sent["delete_original"], true);
    assert_contains(&texts(&sent), "|Deploy payments 4.2>*");
    slack::check_blocks(&sent).expect("blocks that Slack takes");
    // An address that has expired, as Slack's do after half an hour, is no failure of the press.
    receiver.answer_with(Answer::text(404, "expired_url"));
    let again = slack.press(&button(&answer), &receiver.url()).await;
    assert_eq!(again["response_type"], "in_channel");
    receiver.wait_for(2).await;
}

async fn only_slack_is_answered(app: TestApp) {
    let slack = Slack::new(&app);
    let body = || "command=%2Fchanges&text=log+Deploy&user_name=ada&trigger_id=1".to_owned();
    let now = Utc::now().timestamp();
    for (seconds, secret, reason) in [
        (now, "another", "does not fit the secret"),
        (now - 400, "another", "does not fit the secret"),
        (now - 400, SECRET, "compare the clocks"),
        (now + 400, SECRET, "compare the clocks"),
    ] {
        let answer = slack.post(body(), seconds, secret).await;
        let problem = answer.problem(401, "unauthorized");
        assert_contains(&text(&problem["detail"]), reason);
    }
    let unsigned = app.anonymous().request("POST", &slack.path).body(body());
    send(unsigned).await.problem(401, "unauthorized");
    assert_eq!(app.key().body("/api/changes").await["count"], 0);
}

async fn what_cannot_be_read_is_answered_with_help(app: TestApp) {
    app.key().service("payments").await;
    let slack = Slack::new(&app);
    for (words, expected) in [
        ("help", "records a change that was made"),
        ("log", "the title of the change is missing"),
        ("log ab", "title"),
        ("14:20 paymnets", "payments"),
        ("in 2h", "in the future"),
        ("<!here>", "&lt;!here&gt;"),
        ("a\u{0}b", "could not be read"),
        ("log \u{0}\u{0}\u{0}", "could not be read"),
    ] {
        let answer = slack.command(words, "1").await;
        assert_eq!(answer["response_type"], "ephemeral", "{words}");
        assert_contains(&texts(&answer), expected);
        assert_contains(&texts(&answer), "`/changes 14:20 payments`");
    }
    for long in [
        "x".repeat(5_000),
        "x ".repeat(5_000),
        format!("log {}", "é".repeat(5_000)),
    ] {
        let answer = slack.command(&long, "1").await;
        for block in answer["blocks"].as_array().expect("blocks") {
            let text = block["text"]["text"].as_str().unwrap_or_default();
            assert!(text.chars().count() <= 3_000, "{}", text.len());
        }
    }
    // Other requests of Slack have nothing to answer.
    for fields in [
        &[("ssl_check", "1")][..],
        &[("payload", "{")],
        &[("payload", "[]")],
    ] {
        assert_eq!(slack.form(fields).await, json!({}));
    }
    let now = Utc::now().timestamp();
    let garbage = slack
        .post("\u{fffd}%ff=%zz&&=".to_owned(), now, SECRET)
        .await;
    assert_eq!(garbage.body(200), json!({}));
    assert_eq!(app.key().body("/api/changes").await["count"], 0);
}
