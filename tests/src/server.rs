//! A running service: in the test process, or in a process of its own.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use changelog_server::store::Store;

use crate::server_process::ServerProcess;
use crate::server_thread::ServerThread;
use crate::test_clock::TestClock;

/// A running service; stopped when dropped.
pub struct Server {
    /// The address that it listens on, such as `127.0.0.1:40001`.
    pub address: String,
    kind: Kind,
}

enum Kind {
    Thread(Box<ServerThread>),
    Process(Box<ServerProcess>),
}

impl Server {
    /// Starts the service in this process, with these flags of `serve`.
    ///
    /// # Errors
    /// The error message.
    pub async fn start_in_process(database: &str, flags: &[&str]) -> Result<Self, String> {
        // All servers that share a database have the same key.
        let key = std::env::temp_dir().join(format!("changelog-tests-{}.key", std::process::id()));
        Self::start_with(database, flags, &key, &TestClock::default()).await
    }

    /// Starts the service in this process, with the key of stored secrets in this file and
    /// with this clock.
    ///
    /// # Errors
    /// The error message.
    pub(crate) async fn start_with(
        database: &str,
        flags: &[&str],
        key: &Path,
        clock: &TestClock,
    ) -> Result<Self, String> {
        let key = key.to_string_lossy();
        let flags: Vec<&str> = ["--secrets-key-file", &key]
            .into_iter()
            .chain(flags.iter().copied())
            .collect();
        let (thread, address) = ServerThread::start(database, &flags, clock).await?;
        Ok(Self {
            address,
            kind: Kind::Thread(Box::new(thread)),
        })
    }

    /// Starts a process and waits until it reports its address.
    ///
    /// # Errors
    /// The log of the process, if it exits instead.
    pub async fn start(command: Command) -> Result<Self, String> {
        let (process, address) = ServerProcess::start(command).await?;
        Ok(Self {
            address,
            kind: Kind::Process(Box::new(process)),
        })
    }

    /// Whether the service runs in a process of its own.
    pub fn is_process(&self) -> bool {
        matches!(self.kind, Kind::Process(_))
    }

    /// Returns everything that the process has written to standard error so far.
    #[track_caller]
    pub fn log(&self) -> String {
        self.process().log()
    }

    /// Returns the process id.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Asks the service to shut down, as SIGTERM does.
    pub fn terminate(&mut self) {
        match &mut self.kind {
            Kind::Thread(thread) => thread.drain(),
            Kind::Process(process) => crate::signal(process.pid(), "TERM"),
        }
    }

    /// Waits for the process to exit; `None` when it still runs after this time.
    pub async fn wait_for_exit(&mut self, timeout: Duration) -> Option<ExitStatus> {
        match &mut self.kind {
            Kind::Thread(_) => panic!("{NOT_A_PROCESS}"),
            Kind::Process(process) => process.wait_for_exit(timeout).await,
        }
    }

    /// Kills the service.
    pub fn kill9(&mut self) {
        match &mut self.kind {
            Kind::Thread(thread) => thread.kill(),
            Kind::Process(process) => process.kill9(),
        }
    }

    /// Runs work on the store of a service in this process.
    ///
    /// A second store must not open a SQLite file that this process serves:
    /// when it closes the file, the system drops all locks that the process
    /// has on it.
    pub(crate) fn with_store<T, F>(&self, work: impl FnOnce(Store) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        match &self.kind {
            Kind::Thread(thread) => Some(thread.with_store(work)),
            Kind::Process(_) => None,
        }
    }

    #[track_caller]
    fn process(&self) -> &ServerProcess {
        match &self.kind {
            Kind::Thread(_) => panic!("{NOT_A_PROCESS}"),
            Kind::Process(process) => process,
        }
    }
}

const NOT_A_PROCESS: &str =
    "the service runs in the test process: list the test behind `process:` in its macro";
