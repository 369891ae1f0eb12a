//! A server with a certificate of a private authority.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An HTTPS server whose certificate is signed by the authority in `ca.pem` of its folder,
/// which no system trusts. It responds to `GET /api/health`, and is killed when it is
/// dropped.
pub struct TlsServer {
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

impl TlsServer {
    /// Starts a server that keeps its files in a folder. It needs `openssl` in `PATH`.
    pub fn start(folder: &Path) -> Self {
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
        let body =
            r#"{"status":"ok","db":"ok","latency_ms":0,"timestamp":"2026-11-21T08:30:00.000Z"}"#;
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
        Self { process, port }
    }

    /// Returns the URL of the server, without a path.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }
}
