//! The service in a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// How long a server may take until it listens, on a machine that is busy.
const START: Duration = Duration::from_mins(1);
const LISTENING: &str = "listening on http://";

/// A process that serves; killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl ServerProcess {
    /// Starts the command and waits until it says where it listens.
    ///
    /// # Errors
    /// What it said, when it ended instead.
    pub(crate) async fn start(mut command: Command) -> Result<(Self, String), String> {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server is built");
        crate::watchdog::server(child.id());
        let log = Arc::new(Mutex::new(String::new()));
        let (said, listening) = oneshot::channel();
        let stderr = child.stderr.take().expect("a pipe");
        let reader = std::thread::spawn({
            let log = log.clone();
            move || {
                let mut said = Some(said);
                for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    if let Some((_, address)) = line.split_once(LISTENING)
                        && let Some(said) = said.take()
                    {
                        let _ = said.send(address.trim().to_owned());
                    }
                    let mut log = log.lock().expect("nobody panics with it");
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
        match tokio::time::timeout(START, listening).await {
            Ok(Ok(address)) => Ok((server, address)),
            Ok(Err(_)) => Err(server.log()),
            Err(elapsed) => panic!("the server does not start, {elapsed}: {}", server.log()),
        }
    }

    /// Everything that it wrote on standard error so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("nobody panics with it").clone()
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self, most: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + most;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                self.read_all();
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills it without a warning.
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
