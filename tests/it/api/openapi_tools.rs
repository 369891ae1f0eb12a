//! What tools make of the OpenAPI document: clients in Python and in TypeScript, which go
//! through a story of ten calls, and Schemathesis, which sends what the document allows and
//! forbids. `tests/openapi` has the stories, the rules that a schema cannot express, and the
//! versions of the tools.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use changelog_tests::{TestApp, installed, on_one, run};

on_one!(
    a_python_client_is_generated_and_works,
    a_typescript_client_is_generated_and_works,
    schemathesis_finds_no_failure_and_has_no_warning,
);

/// The folder with the stories.
pub(super) const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi");

/// Runs a tool in the folder of an app, and returns what it printed.
#[track_caller]
pub(super) fn succeed(app: &TestApp, mut command: Command) -> String {
    command
        .current_dir(app.folder())
        .env("CHLOG_URL", app.url())
        .env("CHLOG_API_KEY", &app.organization.key);
    let output = run(command, "");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(output.status.success(), "{printed}");
    printed
}

async fn a_python_client_is_generated_and_works(app: TestApp) {
    let Some(bin) = installed::api_tool("python/bin") else {
        return;
    };
    let document = app.at("/api/openapi.json");
    let mut generate = Command::new(bin.join("openapi-python-client"));
    // It formats the client with ruff, which it looks for in PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    generate
        .env("PATH", format!("{}:{path}", bin.display()))
        .args(["generate", "--meta", "none", "--output-path", "client"])
        .args(["--url", &document]);
    let printed = succeed(&app, generate);
    assert!(!printed.contains("Warning"), "{printed}");
    let python = || Command::new(bin.join("python"));
    let mut compile = python();
    compile.args(["-m", "compileall", "-q", "client"]);
    succeed(&app, compile);
    let mut story = python();
    story.arg(format!("{SOURCES}/story.py")).arg(app.folder());
    assert_eq!(succeed(&app, story).trim(), "10 calls");
}

async fn a_typescript_client_is_generated_and_works(app: TestApp) {
    let Some(modules) = installed::api_tool("node/node_modules") else {
        return;
    };
    symlink(&modules, app.folder().join("node_modules")).expect("a link");
    for name in ["package.json", "story.ts", "tsconfig.json"] {
        std::fs::copy(Path::new(SOURCES).join(name), app.folder().join(name)).expect("a copy");
    }
    let node = |script: &str| {
        let mut node = Command::new("node");
        node.arg(script);
        node
    };
    let mut generate = node("node_modules/openapi-typescript/bin/cli.js");
    generate.arg(app.at("/api/openapi.json"));
    generate.args(["--output", "api.ts"]);
    succeed(&app, generate);
    succeed(&app, node("node_modules/typescript/bin/tsc"));
    assert_eq!(succeed(&app, node("story.js")).trim(), "10 calls");
}

async fn schemathesis_finds_no_failure_and_has_no_warning(app: TestApp) {
    let Some(program) = installed::api_tool("python/bin/schemathesis") else {
        return;
    };
    let key = app.key();
    let ids = [
        key.service("payments").await,
        key.service("mail").await,
        key.host("web-1").await,
        key.change("Deploy payments").await,
    ];
    let mut command = Command::new(program);
    command
        .env("EXISTING_IDS", ids.join(","))
        .env("PYTHONPATH", SOURCES)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .args(["--config-file", &format!("{SOURCES}/schemathesis.toml")])
        .args(["run", &app.at("/api/openapi.json"), "--no-color"])
        .args(["--header", &format!("x-api-key:{}", app.organization.key)]);
    let printed = succeed(&app, command);
    assert!(!printed.contains("WARNINGS"), "{printed}");
}
