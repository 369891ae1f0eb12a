//! Databases with an organization, its owner and a key, prepared once for each engine and
//! copied for each test.

use std::fs;
use std::path::{Path, PathBuf};

use changelog_core::{NewApiKey, NewOrganization, OwnerInput, Permissions, Plan};
use changelog_server::passwords;
use changelog_server::store::{Actor, Capacity, Purpose, Store};
use chrono::Utc;
use sqlx::Connection;
use sqlx_sqlite::SqliteConnection;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::app::{KEY_NAME, Organization};
use crate::watchdog;

/// The SQLite file that tests copy.
struct SqliteTemplate {
    organization: Organization,
    file: PathBuf,
    _folder: TempDir,
}

/// Copies the prepared SQLite database to a file, and returns its organization.
pub(crate) async fn copy_sqlite(to: &Path) -> Organization {
    static TEMPLATE: OnceCell<SqliteTemplate> = OnceCell::const_new();
    let template = TEMPLATE
        .get_or_init(|| async {
            let folder = tempfile::tempdir().expect("a temporary folder");
            watchdog::folder(folder.path());
            let file = folder.path().join("changelog.db");
            let url = format!("sqlite://{}", file.display());
            let organization = prepare(&url).await;
            // Moves everything from the write-ahead log into the file.
            let mut connection = SqliteConnection::connect(&url).await.expect("a connection");
            sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                .execute(&mut connection)
                .await
                .expect("the log is copied");
            connection.close().await.expect("a closed connection");
            SqliteTemplate {
                organization,
                file,
                _folder: folder,
            }
        })
        .await;
    fs::copy(&template.file, to).expect("the template is copied");
    template.organization.clone()
}

/// Migrates an empty database and creates the first organization in it.
pub(crate) async fn prepare(database: &str) -> Organization {
    let (store, _) = Store::open(database, Purpose::Create, Capacity::default())
        .await
        .expect("the database opens");
    let organization = create_organization(&store, "Acme", "ada").await;
    store.close().await;
    organization
}

/// Creates an organization on the Pro plan with an owner and a key.
pub(crate) async fn create_organization(store: &Store, name: &str, owner: &str) -> Organization {
    let email = format!("{owner}@example.com");
    let owner_name = format!("{owner} of {name}");
    // Unique, so that tests can search for it where it must not appear.
    let password = format!("plum-{}", uuid::Uuid::new_v4());
    let new = NewOrganization {
        name: name.to_owned(),
        plan: Plan::Pro,
    };
    let input = OwnerInput {
        email: email.clone(),
        name: owner_name.clone(),
        password: password.clone(),
    };
    let hash = passwords::hash_now(&password, None);
    let mut tx = store.begin().await.expect("a transaction");
    let made = tx
        .create_organization(&new, Some((&input, &hash)), Utc::now())
        .await;
    let (tenant, organization, user) = made.expect("the organization is new");
    let new_key = NewApiKey {
        name: KEY_NAME.to_owned(),
        expires_at: None,
        permissions: Permissions::default(),
    };
    let key = tx
        .insert_api_key(tenant, &Actor::operator(), &new_key, Utc::now())
        .await
        .expect("the key is new");
    tx.commit().await.expect("a commit");
    Organization {
        id: organization.id.to_string(),
        name: name.to_owned(),
        owner_id: user.expect("an owner").id.to_string(),
        owner_name,
        email,
        password,
        key_id: key.id.to_string(),
        key: key.key,
    }
}
