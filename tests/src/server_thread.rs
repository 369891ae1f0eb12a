//! The service in the test process, on a runtime of its own: a test that
//! blocks its threads does not block the service.

use std::sync::mpsc;
use std::thread::JoinHandle;

use changelog_server::config::{Arguments, Command};
use changelog_server::service::Service;
use changelog_server::store::Store;
use clap::Parser;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::test_clock::TestClock;

/// A service on a thread; stopped when dropped.
pub(crate) struct ServerThread {
    runtime: Handle,
    store: Option<Store>,
    drain: Option<oneshot::Sender<()>>,
    /// Stops the service at once when dropped.
    kill: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Starts the service and returns it with its address.
    ///
    /// # Errors
    /// The error message.
    pub(crate) async fn start(
        database: &str,
        flags: &[&str],
        clock: &TestClock,
    ) -> Result<(Self, String), String> {
        let command = ["changelog-server", "serve", "--listen", "127.0.0.1:0"];
        let arguments = Arguments::try_parse_from(command.iter().chain(flags));
        let Command::Serve(serve) = arguments.map_err(|error| error.to_string())?.command else {
            return Err(format!("{flags:?} are not flags of serve"));
        };
        let database = database.to_owned();
        let clock = clock.clock();
        let (started, starting) = oneshot::channel();
        let (drain, drained) = oneshot::channel::<()>();
        let (kill, killed) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let service = match Service::start_at(&database, *serve, clock).await {
                    Ok(service) => service,
                    Err(error) => return drop(started.send(Err(error.to_string()))),
                };
                let store = service.store().clone();
                let address = service.address().to_string();
                let _ = started.send(Ok((address, store, Handle::current())));
                let shutdown = async {
                    if drained.await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    () = service.run(shutdown) => {}
                    _ = killed => {}
                }
            });
            runtime.shutdown_background();
        });
        let started = starting.await.expect("the service does not panic");
        let (address, store, runtime) = started?;
        let server = Self {
            runtime,
            store: Some(store),
            drain: Some(drain),
            kill: Some(kill),
            thread: Some(thread),
        };
        Ok((server, address))
    }

    /// Shuts the service down as after SIGTERM.
    pub(crate) fn drain(&mut self) {
        if let Some(drain) = self.drain.take() {
            let _ = drain.send(());
        }
    }

    /// Stops the service at once and closes its database.
    pub(crate) fn kill(&mut self) {
        self.store = None;
        self.kill = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Runs work on the store, on the service's own runtime.
    pub(crate) fn with_store<T, F>(&self, work: impl FnOnce(Store) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let store = self.store.clone().expect("the service runs");
        let (done, result) = mpsc::channel();
        let work = work(store);
        self.runtime.spawn(async move {
            let _ = done.send(work.await);
        });
        result.recv().expect("the work does not panic")
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.kill();
    }
}
