//! `chlog` in a pipeline without a key: where it finds the id token of the job.

use chrono::Utc;
use serde_json::{Value, json};

use super::ChlogOutput;
use changelog_tests::issuer::{Issuer, SigningKey};
use changelog_tests::receivers::{Answer, Receiver};
use changelog_tests::{TestApp, assert_contains, assert_lacks, on_one, text};

on_one!(
    process:
    github_actions_signs_a_token_for_the_server,
    a_token_is_found_in_variables_and_files,
    a_key_is_used_when_the_token_is_refused,
    doctor_explains_the_token,
    a_spooled_change_is_sent_with_what_is_valid_then,
    one_of_several_organizations_is_named,
);

struct Pipeline {
    key: SigningKey,
    issuer: Issuer,
}

impl Pipeline {
    /// Starts an issuer, and lets production of acme/shop record changes.
    async fn start(app: &TestApp) -> Self {
        let key = SigningKey::p256("k");
        let pipeline = Self {
            issuer: Issuer::start(&[&key]).await,
            key,
        };
        let (issuer, url) = (pipeline.issuer.url(), app.url());
        let mut arguments = vec!["workload", "create", "--org", &app.organization.id];
        arguments.extend(["--name", "shop", "--issuer", &issuer, "--audience", &url]);
        arguments.extend(["--claim", "repository=acme/shop"]);
        arguments.extend(["--claim", "environment=production"]);
        arguments.push("--allow-insecure-issuer");
        app.admin(&arguments);
        pipeline
    }

    fn claims(&self, app: &TestApp) -> Value {
        self.issuer.claims(&app.url(), Utc::now())
    }

    fn token(&self, app: &TestApp) -> String {
        self.key.sign(&self.claims(app))
    }
}

/// Runs `chlog` with these variables and without a key.
fn run(app: &TestApp, variables: &[(&str, &str)], arguments: &[&str]) -> ChlogOutput {
    let mut command = app.bare_chlog();
    command.env("CHLOG_URL", app.url()).args(arguments);
    for (name, value) in variables {
        command.env(name, value);
    }
    ChlogOutput::of(&mut command)
}

async fn newest(app: &TestApp) -> Value {
    app.key().body("/api/changes?per_page=1").await["data"][0].clone()
}

async fn one_of_several_organizations_is_named(app: TestApp) {
    let pipeline = Pipeline::start(&app).await;
    app.second_organization();
    let token = pipeline.token(&app);
    let token = ("CHLOG_ID_TOKEN", token.as_str());
    let log = ["log", "Deploy shop", "--strict"];
    run(&app, &[token], &log)
        .exits_with(4)
        .says("CHLOG_ORGANIZATION");
    let bad = ("CHLOG_ORGANIZATION", "Acme");
    run(&app, &[token, bad], &log)
        .exits_with(2)
        .says("CHLOG_ORGANIZATION: the id ");
    let named = ("CHLOG_ORGANIZATION", app.organization.id.as_str());
    run(&app, &[token, named], &log).succeeds();
    assert_eq!(newest(&app).await["created_by"]["name"], "github acme/shop");
}

async fn github_actions_signs_a_token_for_the_server(app: TestApp) {
    let pipeline = Pipeline::start(&app).await;
    let github = Receiver::start().await;
    let token = pipeline.token(&app);
    github.answer_with(Answer::json(200, &json!({ "count": 1, "value": token })));
    let request_url = format!("{}/token?api-version=2", github.base());
    let variables = [
        ("ACTIONS_ID_TOKEN_REQUEST_URL", request_url.as_str()),
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "runner-secret"),
    ];
    let output = run(
        &app,
        &variables,
        &["log", "Deploy shop", "--status", "completed"],
    );
    output.succeeds();
    let change = newest(&app).await;
    assert_eq!(change["created_by"]["type"], "workload");
    assert_eq!(change["created_by"]["name"], "github acme/shop");
    let asked = &github.requests()[0];
    let url = url::Url::parse(&format!("http://github.test{}", asked.path)).expect("a path");
    let parameters: Vec<_> = url.query_pairs().collect();
    assert_eq!(parameters[0].0, "api-version");
    assert_eq!(parameters[1], ("audience".into(), app.url().into()));
    assert_eq!(asked.header("authorization"), "Bearer runner-secret");
    // One command asks once.
    let before = github.count();
    run(&app, &variables, &["list"]).succeeds();
    assert_eq!(github.count(), before + 1);
    let shown = run(&app, &variables, &["show", "@last"]).succeeds();
    for words in [
        "github acme/shop (pipeline",
        "acme/shop, refs/heads/main",
        "(verified)",
    ] {
        assert_contains(&shown.stdout, words);
    }
    // Without an answer of GitHub the change is kept.
    github.answer_with(Answer::status(500));
    let output = run(&app, &variables, &["log", "Kept"]);
    assert_lacks(&output.stderr, "runner-secret");
    assert_contains(&output.stderr, "500");
    github.answer_with(Answer::json(200, &json!({ "value": pipeline.token(&app) })));
    run(&app, &variables, &["spool", "flush"]).succeeds();
    assert_eq!(newest(&app).await["title"], "Kept");
}

async fn a_token_is_found_in_variables_and_files(app: TestApp) {
    let pipeline = Pipeline::start(&app).await;
    let token = pipeline.token(&app);
    let file = app.folder().join("token");
    std::fs::write(&file, format!("{token}\n")).expect("a file");
    let path = file.to_str().expect("a path");
    for variables in [
        [("CHLOG_ID_TOKEN", token.as_str())],
        [("CHLOG_ID_TOKEN_FILE", path)],
    ] {
        run(&app, &variables, &["log", variables[0].0]).succeeds();
        let change = newest(&app).await;
        assert_eq!(change["title"], variables[0].0);
        assert_eq!(change["created_by"]["type"], "workload");
        // It is not passed to the command that is run.
        let output = run(&app, &variables, &["run", "--", "env"]).succeeds();
        assert_lacks(&output.stdout, "CHLOG_ID_TOKEN");
        let status = run(&app, &variables, &["auth", "status"]).succeeds();
        assert_contains(&status.stdout, "id token (from CHLOG_ID_TOKEN");
        assert_lacks(&status.stdout, &token);
    }
    let output = run(
        &app,
        &[("CHLOG_ID_TOKEN_FILE", "/nowhere")],
        &["log", "Deploy"],
    );
    assert_contains(&output.stderr, "cannot read /nowhere");
    let output = run(&app, &[], &["log", "Deploy"]);
    assert_contains(&output.stderr, "id token");
}

async fn a_key_is_used_when_the_token_is_refused(app: TestApp) {
    let pipeline = Pipeline::start(&app).await;
    let key = app.organization.key.as_str();
    let token = pipeline.token(&app);
    // The token comes first.
    let both = [("CHLOG_ID_TOKEN", token.as_str()), ("CHLOG_API_KEY", key)];
    run(&app, &both, &["log", "by the token"]).succeeds();
    assert_eq!(newest(&app).await["created_by"]["type"], "workload");
    let mut claims = pipeline.claims(&app);
    claims["environment"] = json!("staging");
    let other = pipeline.key.sign(&claims);
    let both = [("CHLOG_ID_TOKEN", other.as_str()), ("CHLOG_API_KEY", key)];
    run(&app, &both, &["log", "by the key"]).succeeds();
    assert_eq!(newest(&app).await["created_by"]["type"], "api_key");
    let doctor = run(&app, &both, &["doctor"]).succeeds();
    assert_contains(&doctor.stdout, "until then, the API key is used");
    let alone = run(&app, &both[..1], &["log", "refused"]);
    assert_eq!(alone.code, 4, "{}", alone.stderr);
    assert_contains(
        &alone.stderr,
        "environment is \"staging\", expected \"production\"",
    );
    assert_contains(&alone.stderr, "CHLOG_ID_TOKEN");
    assert_lacks(&alone.stderr, &other);
}

async fn doctor_explains_the_token(app: TestApp) {
    let pipeline = Pipeline::start(&app).await;
    let doctor = |token: &str| {
        let output = run(&app, &[("CHLOG_ID_TOKEN", token)], &["doctor", "--json"]);
        assert_lacks(&output.stdout, token);
        let report: Value = serde_json::from_str(&output.stdout).expect("JSON");
        (output.code, report)
    };
    let check = |report: &Value, name: &str| {
        let checks = report["checks"].as_array().expect("checks").clone();
        let found = checks.into_iter().find(|check| check["check"] == name);
        found.unwrap_or_else(|| panic!("{name} is not in {report}"))
    };
    let (code, report) = doctor(&pipeline.token(&app));
    assert_eq!((code, &report["works"]), (0, &json!(true)), "{report}");
    let claims = check(&report, "claims");
    assert_contains(
        &text(&claims["found"]),
        "repository=acme/shop, environment=production",
    );
    let token = check(&report, "id token");
    assert_contains(
        &text(&token["found"]),
        "accepted as the workload identity shop",
    );

    let mut claims = pipeline.claims(&app);
    claims["repository"] = json!("acme/other");
    let (code, report) = doctor(&pipeline.key.sign(&claims));
    assert_eq!(code, 4, "{report}");
    let token = check(&report, "id token");
    assert_eq!(token["verdict"], "failed");
    assert_contains(
        &text(&token["found"]),
        "repository is \"acme/other\", expected \"acme/shop\"",
    );

    let mut claims = pipeline.claims(&app);
    claims["aud"] = json!("https://elsewhere.example");
    let (_, report) = doctor(&pipeline.key.sign(&claims));
    assert_contains(
        &text(&check(&report, "audience")["found"]),
        "the token is for \"https://elsewhere.example\"",
    );
    let (code, report) = doctor("no token");
    assert_eq!(code, 4, "{report}");
}

async fn a_spooled_change_is_sent_with_what_is_valid_then(mut app: TestApp) {
    app.move_to_own_address().await;
    let pipeline = Pipeline::start(&app).await;
    let mut claims = pipeline.claims(&app);
    claims["actor"] = json!("alan");
    claims["sha"] = json!("0b".repeat(20));
    let token = pipeline.key.sign(&claims);
    let only_token = [("CHLOG_ID_TOKEN", token.as_str())];
    let run_of = [
        ("CHLOG_ID_TOKEN", token.as_str()),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_REPOSITORY", "acme/shop"),
        ("GITHUB_SHA", "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"),
        ("GITHUB_ACTOR", "grace"),
    ];
    // The provider is away: the token cannot be checked.
    pipeline.issuer.server.answer_with(Answer::status(503));
    let output = run(&app, &run_of, &["log", "Kept for later"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // What nothing but the token names, it claims.
    for line in [
        &["log", "Of a token"][..],
        &["log", "Of a token", "--no-context"],
    ] {
        run(&app, &only_token, line).succeeds();
    }
    assert_eq!(app.key().body("/api/changes").await["count"], 0);
    // Later, another job of the repository sends it with its own token.
    pipeline.issuer.publish(&[&pipeline.key]);
    // The service remembers the failure for some seconds, but not longer than it runs.
    app.restart_in_place().await;
    let later = pipeline.token(&app);
    let next = [("CHLOG_ID_TOKEN", later.as_str())];
    run(&app, &next, &["spool", "flush"]).succeeds();
    let changes = app.key().body("/api/changes").await;
    let sha = text(&claims["sha"]);
    let by_token = ("Of a token", "alan", sha.as_str());
    let by_variables = ("Kept for later", "grace", run_of[3].1);
    let kept = [by_token, by_token, by_variables];
    let found = changes["data"].as_array().expect("a list");
    for (change, (title, actor, commit)) in found.iter().zip(kept) {
        assert_eq!(change["title"], title);
        assert_eq!(change["on_behalf_of"], actor);
        assert_eq!(change["commit"], commit);
        assert_eq!(change["created_by"]["verified"]["actor"], "ada");
    }
    assert_eq!(changes["count"], 3);
}
