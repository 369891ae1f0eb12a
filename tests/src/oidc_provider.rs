//! A real identity provider: the npm package `oidc-provider`, by `tests/oidc/provider.mjs`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::{TestApp, TestClient, installed, watchdog};

/// The id of the client that the service is.
const CLIENT_ID: &str = "change-log";
/// A secret with characters that have to be encoded.
const CLIENT_SECRET: &str = "secret:with/odd+characters%&=";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/oidc/provider.mjs");

/// A running provider with people who sign in by any password.
pub struct OidcProvider {
    /// The issuer.
    pub issuer: String,
    process: Child,
    /// Kept open: the provider prints warnings.
    _output: BufReader<ChildStdout>,
}

impl OidcProvider {
    /// Starts a provider that returns people to a service; `None` if it is not installed.
    /// `people` are their claims by their subjects.
    pub async fn start(app: &TestApp, people: Value) -> Option<Self> {
        let modules = installed::api_tool("node/node_modules")?;
        installed::api_tool("node/node_modules/oidc-provider")?;
        // Node looks for packages next to the script.
        let script = app.folder().join("provider.mjs");
        std::fs::copy(SCRIPT, &script).expect("a copy");
        let _ = std::os::unix::fs::symlink(&modules, app.folder().join("node_modules"));
        let mut process = Command::new("node")
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        watchdog::server(process.id());
        let id = &app.organization.id;
        let callback = app.at("/sso/callback");
        let settings = json!({
            "port": 0,
            "people": people,
            "clients": [{
                "client_id": CLIENT_ID,
                "client_secret": CLIENT_SECRET,
                "redirect_uris": [callback, format!("{callback}/{id}")],
                "backchannel_logout_uri": app.at(&format!("/sso/backchannel-logout/{id}")),
                "backchannel_logout_session_required": true,
                "post_logout_redirect_uris": [app.at("/sign-in")],
            }],
        });
        let input = process.stdin.as_mut().expect("its input");
        writeln!(input, "{settings}").expect("it reads");
        let output = process.stdout.take().expect("its output");
        let first = tokio::task::spawn_blocking(move || {
            let (mut reader, mut line) = (BufReader::new(output), String::new());
            reader.read_line(&mut line).expect("its address");
            (reader, line.trim().to_owned())
        });
        let (output, issuer) = first.await.expect("a thread");
        assert!(issuer.starts_with("http://"), "the provider does not start");
        Some(Self {
            issuer,
            process,
            _output: output,
        })
    }

    /// Connects the organization of an app to the provider by the command, with more flags.
    pub fn connect(&self, app: &TestApp, flags: &[&str]) -> Value {
        let id = &app.organization.id;
        let set = ["sso", "set", "--org", id, "--issuer", &self.issuer];
        let client = ["--client-id", CLIENT_ID, "--client-secret-file", "-"];
        let insecure = ["--allow-insecure-issuer"];
        let all = [&set[..], &client, &insecure, flags].concat();
        app.admin_with(&all, CLIENT_SECRET)
    }

    /// Replaces the people.
    pub async fn set_people(&self, people: Value) {
        self.client().post("/test/people", people).await.is(200);
    }

    /// Replaces the keys by which it signs.
    pub async fn rotate_keys(&self) {
        self.client().post("/test/rotate", json!({})).await.is(200);
    }

    fn client(&self) -> TestClient {
        TestClient::new(self.issuer.trim_start_matches("http://"))
    }
}

impl Drop for OidcProvider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
