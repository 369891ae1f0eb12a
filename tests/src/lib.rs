//! The harness that the workspace's tests and benchmarks share.
//!
//! [`TestApp`] is the service on a database of its own, with an organization,
//! its owner and an API key. [`TestClient`] sends requests to it.

#![allow(
    clippy::missing_panics_doc,
    reason = "a harness panics where an expectation fails"
)]

pub mod alertmanager;
mod app;
pub mod bench;
pub mod chromium;
pub mod client;
pub mod database;
mod demo;
pub mod event_stream;
pub mod faulty_proxy;
mod holding_proxy;
pub mod installed;
pub mod issuer;
mod oidc_provider;
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
mod source;
mod template;
pub mod test_clock;
mod tls_server;
mod transaction_pooler;
pub mod watchdog;

pub use app::{Engine, KEY_NAME, Organization, TestApp, sign_in};
pub use client::{
    TestClient, TestResponse, assert_contains, assert_lacks, each, form, keys, send, text, try_send,
};
pub use database::Db;
pub use demo::Demo;
pub use faulty_proxy::{FaultyProxy, ProxyMode};
pub use holding_proxy::HoldingProxy;
pub use oidc_provider::OidcProvider;
pub use pgbouncer::{PgBouncer, PoolMode};
pub use postgres::Postgres;
pub use process::{run, server_command, signal};
pub use raw_connection::RawConnection;
pub use receivers::{Answer, Received, Receiver};
pub use server::Server;
pub use smtp::{SmtpMail, SmtpMode, SmtpServer};
pub use source::TestSource;
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
    ($($tests:tt)*) => {
        mod sqlite {
            $crate::tests_on!(std::iter::once($crate::Engine::Sqlite); $($tests)*);
        }
        mod postgres {
            $crate::tests_on!(std::iter::once($crate::Engine::Postgres); $($tests)*);
        }
    };
}

/// Runs tests of what only SQLite does, as `sqlite_only::name`, like [`on_both!`].
#[macro_export]
macro_rules! on_sqlite {
    ($($tests:tt)*) => {
        mod sqlite_only {
            $crate::tests_on!(std::iter::once($crate::Engine::Sqlite); $($tests)*);
        }
    };
}

/// Runs tests of what only PostgreSQL does, as `postgres_only::name`, like [`on_both!`].
#[macro_export]
macro_rules! on_postgres {
    ($($tests:tt)*) => {
        mod postgres_only {
            $crate::tests_on!(std::iter::once($crate::Engine::Postgres); $($tests)*);
        }
    };
}

/// Runs each test on SQLite only, as `one_engine::name`, where the database is
/// not the subject; `CHANGELOG_TEST_ENGINES=all` runs them on PostgreSQL too.
#[macro_export]
macro_rules! on_one {
    ($($tests:tt)*) => {
        mod one_engine {
            $crate::tests_on!($crate::engines(); $($tests)*);
        }
    };
}

/// Runs each test as `in_browser::name` with a Chromium, on the engines of [`on_one!`];
/// those behind `without_scripts:` as `without_scripts::name` with JavaScript disabled.
#[macro_export]
macro_rules! in_browser {
    (without_scripts: $($test:ident),+ $(,)?) => {
        mod without_scripts {
            $($crate::test_in!($test, without_scripts);)+
        }
    };
    ($($test:ident),+ $(,)?) => {
        mod in_browser {
            $($crate::test_in!($test, start);)+
        }
    };
}

/// Defines tests that run on engines.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_on {
    ($engines:expr; process: $($test:ident),+ $(,)?) => {
        $($crate::test_on!($test, with_process, $engines);)+
    };
    ($engines:expr; $($test:ident),* $(,)? $(; process: $($with_process:ident),+ $(,)?)?) => {
        $($crate::test_on!($test, new, $engines);)*
        $($($crate::test_on!($with_process, with_process, $engines);)+)?
    };
}

/// Defines a test that runs on engines.
#[doc(hidden)]
#[macro_export]
macro_rules! test_on {
    ($test:ident, $start:ident, $engines:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            for engine in $engines {
                if let Some(app) = $crate::TestApp::$start(engine).await {
                    super::$test(app).await;
                }
            }
        }
    };
}

/// Defines a test that uses a browser.
#[doc(hidden)]
#[macro_export]
macro_rules! test_in {
    ($test:ident, $start:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            for engine in $crate::engines() {
                if let Some(browser) = $crate::chromium::Chromium::$start().await
                    && let Some(app) = $crate::TestApp::new(engine).await
                {
                    super::$test(app, browser).await;
                }
            }
        }
    };
}

/// Returns the engine of tests whose subject is not the database; both if
/// `CHANGELOG_TEST_ENGINES=all` requests them.
pub fn engines() -> Vec<Engine> {
    let mut engines = vec![Engine::Sqlite];
    if std::env::var("CHANGELOG_TEST_ENGINES").is_ok_and(|engines| engines == "all") {
        engines.push(Engine::Postgres);
    }
    engines
}
