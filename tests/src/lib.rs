//! The harness that the workspace's tests and benchmarks share.
//!
//! [`TestApp`] is the service on a database of its own, with an organization,
//! its owner and an API key. [`TestClient`] sends requests to it.

#![allow(
    clippy::missing_panics_doc,
    reason = "a harness panics where an expectation fails"
)]

mod app;
pub mod chromium;
pub mod client;
pub mod database;
mod demo;
pub mod event_stream;
pub mod faulty_proxy;
mod holding_proxy;
pub mod installed;
pub mod openapi;
pub mod pgbouncer;
pub mod postgres;
mod process;
pub mod programs;
pub mod raw_connection;
pub mod receivers;
pub mod server;
mod server_process;
mod server_thread;
pub mod shapes;
pub mod smtp;
mod template;
pub mod test_clock;
mod tls_server;
mod transaction_pooler;
pub mod watchdog;

pub use app::{Engine, KEY_NAME, Organization, TestApp, sign_in};
pub use client::{TestClient, TestResponse, each, form, keys, send, text};
pub use database::Db;
pub use demo::Demo;
pub use faulty_proxy::{FaultyProxy, ProxyMode};
pub use holding_proxy::HoldingProxy;
pub use pgbouncer::{PgBouncer, PoolMode};
pub use postgres::Postgres;
pub use process::{run, server_command, signal};
pub use raw_connection::RawConnection;
pub use receivers::{Answer, Received, Receiver};
pub use server::Server;
pub use smtp::{SmtpMail, SmtpMode, SmtpServer};
pub use test_clock::TestClock;
pub use tls_server::TlsServer;
pub use transaction_pooler::{NamedStatements, TransactionPooler, UnknownParameters};

/// Runs each test on SQLite and on PostgreSQL, as `sqlite::name` and
/// `postgres::name`.
///
/// The service runs in the test process; for the tests behind `process:` it runs in a
/// process of its own, which they can kill and whose log they can read.
#[macro_export]
macro_rules! on_both {
    (process: $($with_process:ident),+ $(,)?) => {
        $crate::on_both!(; process: $($with_process),+);
    };
    ($($test:ident),* $(,)? $(; process: $($with_process:ident),+ $(,)?)?) => {
        mod sqlite {
            $($crate::test_on!($test, new, $crate::Engine::Sqlite);)*
            $($($crate::test_on!($with_process, with_process, $crate::Engine::Sqlite);)+)?
        }
        mod postgres {
            $($crate::test_on!($test, new, $crate::Engine::Postgres);)*
            $($($crate::test_on!($with_process, with_process, $crate::Engine::Postgres);)+)?
        }
    };
}

/// Runs each test on SQLite only, as `one_engine::name`, where the database is
/// not the subject; `CHANGELOG_TEST_ENGINES=all` runs them on PostgreSQL too.
#[macro_export]
macro_rules! on_one {
    (process: $($with_process:ident),+ $(,)?) => {
        $crate::on_one!(; process: $($with_process),+);
    };
    ($($test:ident),* $(,)? $(; process: $($with_process:ident),+ $(,)?)?) => {
        mod one_engine {
            $($crate::test_on!($test, new, $crate::Engine::Sqlite, $crate::Engine::Postgres);)*
            $($($crate::test_on!(
                $with_process,
                with_process,
                $crate::Engine::Sqlite,
                $crate::Engine::Postgres
            );)+)?
        }
    };
}

/// Defines a test that runs on one engine, and on a second one if all engines are
/// requested.
#[doc(hidden)]
#[macro_export]
macro_rules! test_on {
    ($test:ident, $start:ident, $engine:expr $(, $second:expr)?) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            if let Some(app) = $crate::TestApp::$start($engine).await {
                super::$test(app).await;
            }
            $(if $crate::runs_all_engines()
                && let Some(app) = $crate::TestApp::$start($second).await
            {
                super::$test(app).await;
            })?
        }
    };
}

/// Returns whether `CHANGELOG_TEST_ENGINES=all` requests every test on both engines.
pub fn runs_all_engines() -> bool {
    std::env::var("CHANGELOG_TEST_ENGINES").is_ok_and(|engines| engines == "all")
}
