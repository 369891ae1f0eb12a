//! Starting with an older server on the database, and before the database is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};

use changelog_tests::database::{Db, execute};
use changelog_tests::{Engine, Server, TestApp, assert_contains, on_both, on_postgres};

on_both!(
    process:
    a_newer_command_does_not_change_the_schema_of_an_older_server,
);
on_postgres!(process: a_server_waits_for_its_database);

async fn a_newer_command_does_not_change_the_schema_of_an_older_server(app: TestApp) {
    // As if this program had one more migration than the server.
    let mut db = Db::open(app.engine, &app.database).await;
    let forget = "DELETE FROM _sqlx_migrations WHERE version = 1";
    execute!(&mut db, sqlx::query(forget));
    let organization = app.organization.id.clone();
    let commands: [&[&str]; 2] = [
        &["org", "list"],
        &["key", "list", "--org", organization.as_str()],
    ];
    for arguments in commands {
        let output = app.try_admin(arguments, "");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert_contains(&stderr, "schema 0");
        assert_contains(&stderr, "changelog-server serve");
    }
    app.key().change("the server goes on").await;
    if app.engine == Engine::Sqlite {
        // A backup copies any schema.
        let copy = app.folder().join("copy.db");
        app.admin(&["backup", copy.to_str().expect("a path")]);
    }
    db.close().await;
}

/// Starts a proxy to PostgreSQL that closes the first connections, like a database that
/// is starting; returns its port.
async fn start_reluctant_proxy(port: u16, refused: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            if refused.fetch_add(1, Ordering::SeqCst) < 3 {
                continue;
            }
            tokio::spawn(async move {
                if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    own
}

async fn a_server_waits_for_its_database(app: TestApp) {
    let address: url::Url = app.database.parse().expect("an address");
    let refused = Arc::new(AtomicUsize::new(0));
    let port = start_reluctant_proxy(address.port().expect("a port"), refused.clone()).await;
    let mut through = address;
    through.set_port(Some(port)).expect("it has a host");
    let mut command = app.serve_command();
    command.env("CHANGELOG_DATABASE_URL", through.as_str());
    let server = Server::start(command).await;
    let server = server.unwrap_or_else(|stderr| panic!("serve ends: {stderr}"));
    assert_contains(&server.log(), "waiting for the database");
    assert!(refused.load(Ordering::SeqCst) > 3);
}
