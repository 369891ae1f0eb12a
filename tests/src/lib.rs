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
pub mod event_stream;
pub mod faulty_proxy;
pub mod installed;
pub mod openapi;
pub mod postgres;
mod process;
pub mod programs;
pub mod raw_connection;
pub mod server;
pub mod shapes;
pub mod watchdog;

pub use app::{Engine, KEY_NAME, Organization, TestApp, sign_in};
pub use client::{TestClient, TestResponse, each, form, keys, send, text};
pub use database::Db;
pub use faulty_proxy::{FaultyProxy, Mode};
pub use postgres::Postgres;
pub use process::{run, signal};
pub use raw_connection::RawConnection;
pub use server::Server;

/// Runs each story on SQLite and on PostgreSQL, as `sqlite::name` and
/// `postgres::name`.
#[macro_export]
macro_rules! on_both {
    ($($story:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                if let Some(app) = $crate::TestApp::new($crate::Engine::Sqlite).await {
                    super::$story(app).await;
                }
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                if let Some(app) = $crate::TestApp::new($crate::Engine::Postgres).await {
                    super::$story(app).await;
                }
            })+
        }
    };
}
