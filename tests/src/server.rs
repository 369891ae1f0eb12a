//! One running `changelog-server serve`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// How long a server may take until it listens, on a machine that is busy.
const START: Duration = Duration::from_mins(1);
const LISTENING: &str = "listening on http://";

/// A process that serves; killed when dropped.
pub struct Server {
    child: Child,
    /// Where it listens: `127.0.0.1:40001`.
    pub address: String,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the command and waits until it says where it listens.
    ///
    /// # Errors
    /// What it said, when it ended instead.
    pub async fn start(mut command: Command) -> Result<Self, String> {
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
        let mut server = Self {
            child,
            address: String::new(),
            log,
            reader: Some(reader),
        };
        match tokio::time::timeout(START, listening).await {
            Ok(Ok(address)) => {
                server.address = address;
                Ok(server)
            }
            Ok(Err(_)) => Err(server.log()),
            Err(elapsed) => panic!("the server does not start, {elapsed}: {}", server.log()),
        }
    }

    /// Everything that it wrote on standard error so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panics with it").clone()
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, as an operator would.
    pub fn terminate(&self) {
        crate::signal(self.pid(), "TERM");
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self, most: Duration) -> Option<ExitStatus> {
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
    pub fn kill9(&mut self) {
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

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
        if std::thread::panicking() {
            // Shown with the failed test.
            eprintln!("--- the server's log\n{}", self.log());
        }
    }
}

/// Begins a command of `changelog-server` that knows nothing of this machine's
/// own settings.
pub fn command(home: &Path) -> Command {
    let mut command = Command::new(crate::programs::server());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("TZ", "UTC")
        .current_dir(home);
    command
}
