//! A Prometheus Alertmanager that sends its notifications to a webhook.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::signal;
use crate::{TestClient, installed, postgres, try_send, watchdog};

/// How long a start, an end or a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running Alertmanager. It groups alerts by `alertname`, and repeats each second.
pub struct Alertmanager {
    program: PathBuf,
    port: u16,
    folder: TempDir,
    process: Option<Child>,
}

impl Alertmanager {
    /// Starts one that sends to an address with a credential, and to a chat what a template
    /// makes of `text`; `None` if it is not installed.
    pub async fn start(
        webhook: &str,
        credentials: &str,
        chat: &str,
        (template, text): (&str, &str),
    ) -> Option<Self> {
        // Debian's name, and that of the project.
        let names = ["prometheus-alertmanager", "alertmanager"];
        let Some(program) = names.into_iter().find_map(installed::in_path) else {
            installed::missing("alertmanager", "Alertmanager of Prometheus");
            return None;
        };
        let folder = tempfile::Builder::new()
            .prefix("changelog-alertmanager-")
            .tempdir()
            .expect("a temporary folder");
        watchdog::folder(folder.path());
        let settings = format!(
            r##"
templates: [changes.tmpl]
route:
  receiver: changes
  group_by: [alertname]
  group_wait: 10ms
  group_interval: 1s
  repeat_interval: 1s
receivers:
  - name: changes
    webhook_configs:
      - url: "{webhook}"
        send_resolved: true
        http_config:
          authorization:
            credentials: "{credentials}"
    slack_configs:
      - api_url: "{chat}"
        channel: "#oncall"
        text: '{text}'
"##
        );
        fs::write(folder.path().join("changes.tmpl"), template).expect("a writable folder");
        fs::write(folder.path().join("alertmanager.yml"), settings).expect("a writable folder");
        let mut alertmanager = Self {
            program,
            port: postgres::free_port(),
            folder,
            process: None,
        };
        alertmanager.run().await;
        Some(alertmanager)
    }

    async fn run(&mut self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"));
        let process = Command::new(&self.program)
            .arg("--config.file=alertmanager.yml")
            .arg("--storage.path=data")
            .arg(format!("--web.listen-address=127.0.0.1:{}", self.port))
            .arg("--cluster.listen-address=")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a writable folder"))
            .spawn()
            .expect("Alertmanager runs");
        watchdog::server(process.id());
        self.process = Some(process);
        let started = Instant::now();
        while !self.is_ready().await {
            assert!(started.elapsed() < TIMEOUT, "Alertmanager does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        let answer = try_send(self.client().request("GET", "/-/ready")).await;
        answer.is_ok_and(|answer| answer.status == 200)
    }

    fn client(&self) -> TestClient {
        TestClient::new(&format!("127.0.0.1:{}", self.port))
    }

    /// Ends it as an operator does, and starts it again with what it has stored.
    pub async fn restart(&mut self) {
        if let Some(mut process) = self.process.take() {
            signal(process.id(), "TERM");
            let ended = tokio::task::spawn_blocking(move || process.wait());
            let ended = tokio::time::timeout(TIMEOUT, ended).await;
            ended
                .expect("Alertmanager ends")
                .expect("a thread")
                .expect("a status");
        }
        self.run().await;
    }

    /// Sends alerts, as Prometheus does.
    pub async fn alert(&self, alerts: &Value) {
        let answer = self.client().post("/api/v2/alerts", alerts.clone()).await;
        answer.is(200);
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
