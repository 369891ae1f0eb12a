//! `--cacert` and `CHLOG_CA_FILE`: the certificate of a private authority.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::chlog::ChlogOutput;
use changelog_tests::{TestApp, installed, on_one};

on_one!(certificates_of_a_private_authority_are_trusted_on_request);

/// A server that is killed when it is dropped.
struct TlsServer {
    process: Child,
    port: String,
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
        .expect("openssl runs");
    assert!(
        output.status.success(),
        "{arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Starts an HTTPS server whose certificate is signed by the authority in `ca.pem`, and
/// which responds to `GET /api/health`.
fn start(folder: &Path) -> TlsServer {
    openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 1 -subj /CN=authority",
    );
    openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.pem -days 1 -subj \
         /CN=localhost -addext subjectAltName=DNS:localhost -addext \
         basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey ca.key",
    );
    fs::create_dir(folder.join("api")).expect("a folder");
    let body = r#"{"status":"ok","db":"ok","latency_ms":0,"timestamp":"2026-11-21T08:30:00.000Z"}"#;
    let response = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    fs::write(folder.join("api/health"), response).expect("a file");
    let mut process = Command::new("openssl")
        .args(["s_server", "-HTTP", "-accept", "127.0.0.1:0"])
        .args(["-cert", "server.pem", "-key", "server.key"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl runs");
    let stdout = process.stdout.take().expect("a pipe");
    let line = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("ACCEPT "))
        .expect("it listens");
    let port = line.rsplit(':').next().expect("a port").to_owned();
    TlsServer { process, port }
}

async fn certificates_of_a_private_authority_are_trusted_on_request(app: TestApp) {
    if installed::in_path("openssl").is_none() {
        return installed::missing("openssl", "openssl");
    }
    let server = start(app.folder());
    let url = format!("https://localhost:{}", server.port);
    let file = app.folder().join("ca.pem");
    let path = file.to_str().expect("a path");
    let health = |arguments: &[&str], variable: &str| {
        let mut command = app.bare_chlog();
        command.env("CHLOG_CA_FILE", variable);
        ChlogOutput::of(command.args(["health", "--url", &url]).args(arguments))
    };
    let output = health(&[], "");
    assert_ne!(output.code, 0);
    assert!(output.stderr.contains("certificate"), "{}", output.stderr);
    health(&["--cacert", path], "").succeeds();
    health(&[], path).succeeds();
    // The flag overrides the variable.
    health(&["--cacert", path], "/nowhere/at/all").succeeds();
    for wrong in ["/nowhere/at/all", "server.key"] {
        let wrong = app.folder().join(wrong);
        let wrong = wrong.to_str().expect("a path");
        let output = health(&["--cacert", wrong], path).exits_with(2);
        assert!(output.stderr.contains("certificates"), "{}", output.stderr);
    }
}
