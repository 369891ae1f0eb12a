//! The service in a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// How long a server may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);
const LISTENING: &str = "listening on http://";

/// A server process; killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl ServerProcess {
    /// Starts the command and waits until it prints its address.
    ///
    /// # Errors
    /// Its log, if it exits instead.
    pub(crate) async fn start(mut command: Command) -> Result<(Self, String), String> {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server is built");
        crate::watchdog::server(child.id());
        let log = Arc::new(Mutex::new(String::new()));
        let (address_sender, listening) = oneshot::channel();
        let stderr = child.stderr.take().expect("a pipe");
        let reader = std::thread::spawn({
            let log = log.clone();
            move || {
                let mut address_sender = Some(address_sender);
                for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    if let Some((_, address)) = line.split_once(LISTENING)
                        && let Some(address_sender) = address_sender.take()
                    {
                        let _ = address_sender.send(address.trim().to_owned());
                    }
                    let mut log = log.lock().expect("an unpoisoned lock");
                    log.push_str(&line);
                    log.push('\n');
                }
            }
        });
        let server = Self {
            child,
            log,
            reader: Some(reader),
        };
        match tokio::time::timeout(START_TIMEOUT, listening).await {
            Ok(Ok(address)) => Ok((server, address)),
            Ok(Err(_)) => Err(server.log()),
            Err(elapsed) => panic!("the server does not start, {elapsed}: {}", server.log()),
        }
    }

    /// Returns everything that it has written to standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("an unpoisoned lock").clone()
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for it to exit.
    pub(crate) async fn wait_for_exit(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                self.read_all();
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills it.
    pub(crate) fn kill9(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.read_all();
    }

    fn read_all(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill9();
        if std::thread::panicking() {
            // Shown with the failed test.
            eprintln!("--- the server's log\n{}", self.log());
        }
    }
}
