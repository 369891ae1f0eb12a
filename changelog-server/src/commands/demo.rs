//! `changelog-server demo`: the whole service in one command.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use changelog_client::Client;
use changelog_core::{
    Change, Environment, NewApiKey, NewOrganization, Organization, Outcome, OwnerInput, Plan,
    Platform, RiskLevel, Status, Timestamp,
};
use chrono::TimeDelta;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rand::distr::{Alphanumeric, SampleString};
use serde::{Deserialize, Serialize};

use super::table::table;
use super::{Failure, now, org, print, serve};
use crate::app::{App, reachable};
use crate::config::{Demo, Settings};
use crate::passwords;
use crate::service::clock;
use crate::store::{Actor, Capacity, Purpose, Store, Tenant};

/// The most characters of a title in the table.
const MAX_TITLE_CHARS: usize = 48;
/// The characters that a path in a database address percent-encodes.
const ENCODED_IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

const ORGANIZATION: &str = "Demo";
const EMAIL: &str = "demo@example.com";

/// The credentials that the next start reads again; kept next to the database,
/// readable only by the file's owner.
#[derive(Serialize, Deserialize)]
struct Access {
    password: String,
    api_key: String,
}

pub(super) async fn run(demo: Demo) -> Result<(), Failure> {
    serve::start_log("warn")?;
    std::fs::create_dir_all(&demo.data_dir).map_err(|error| at_path(&demo.data_dir, &error))?;
    let path = demo.data_dir.join("changelog.db");
    let address = format!(
        "sqlite://{}",
        utf8_percent_encode(&path.to_string_lossy(), ENCODED_IN_PATH)
    );
    let (store, serve_lock) = Store::open(&address, Purpose::Serve, Capacity::default()).await?;
    let listener = crate::serve::bind(demo.listen).await?;
    let listening = listener.local_addr()?;
    let access = access(&store, &demo.data_dir).await?;

    let app = App::new(
        store.clone(),
        clock(&store, false).await?,
        Settings::default(),
        listening,
    );
    let shutdown = serve::signals()?;
    let serving = crate::run(app, listener, shutdown);
    let printing = async {
        let url = format!("http://{}", reachable(listening));
        let client = Client::builder()
            .url(&url)
            .api_key(access.api_key.as_str())
            .build()?;
        if client.changes().list().send().await?.count == 0 {
            log_samples(&client).await?;
        }
        let changes = client.changes().list().send().await?;
        print_access(&changes.data, &url, &access)?;
        writeln!(std::io::stderr(), "listening on http://{listening}")?;
        Ok::<(), Failure>(())
    };
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        printed = printing => {
            printed?;
            serving.await;
        }
    }
    store.close().await;
    drop(serve_lock);
    Ok(())
}

/// Returns the credentials of an earlier start, or creates them.
async fn access(store: &Store, data_dir: &Path) -> Result<Access, Failure> {
    let path = data_dir.join("access.json");
    let kept = std::fs::read(&path)
        .ok()
        .and_then(|json| serde_json::from_slice(&json).ok());
    let existing = store
        .organizations_named(ORGANIZATION)
        .await?
        .into_iter()
        .next();
    if let (Some(access), Some(_)) = (kept, &existing) {
        return Ok(access);
    }
    let password = Alphanumeric.sample_string(&mut rand::rng(), 16);
    let tenant = tenant(store, existing, &password).await?;
    let mut tx = store.begin().await?;
    let new = NewApiKey {
        name: "demo".to_owned(),
        expires_at: None,
    };
    let key = tx
        .insert_api_key(tenant, &Actor::operator(), &new, now())
        .await?;
    tx.commit().await?;
    let access = Access {
        password,
        api_key: key.key,
    };
    write_private(&path, &access).map_err(|error| at_path(&path, &error))?;
    Ok(access)
}

/// Creates the organization and its owner. If the organization exists, its access
/// file is lost, so the owner gets a new password.
async fn tenant(
    store: &Store,
    existing: Option<(Tenant, Organization)>,
    password: &str,
) -> Result<Tenant, Failure> {
    if let Some((tenant, _)) = existing {
        let members = store.members(tenant).await?;
        if let Some(owner) = members.iter().find(|member| member.user.email == EMAIL) {
            let mut tx = store.begin().await?;
            tx.set_password(owner.user.id, &passwords::hash_now(password, None))
                .await?;
            tx.commit().await?;
        }
        return Ok(tenant);
    }
    let organization = NewOrganization {
        name: ORGANIZATION.to_owned(),
        plan: Plan::Pro,
    };
    let owner = OwnerInput {
        email: EMAIL.to_owned(),
        name: "Demo Owner".to_owned(),
        password: password.to_owned(),
    };
    let (tenant, _, _) = org::create(store, &organization, Some(owner)).await?;
    Ok(tenant)
}

fn write_private(path: &Path, access: &Access) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&serde_json::to_vec_pretty(access)?)?;
    file.sync_all()
}

/// Logs a few sample changes, some time apart.
async fn log_samples(client: &Client) -> Result<(), Failure> {
    let payments = client
        .services()
        .create("payments")
        .color("#16a34a")
        .send()
        .await?;
    let search = client
        .services()
        .create("search")
        .depends_on([payments.id])
        .send()
        .await?;
    let web = client
        .hosts()
        .create("web-1")
        .fqdn("web-1.example.com")
        .ip_address(std::net::Ipv4Addr::new(192, 0, 2, 10).into())
        .os("Debian 12")
        .platform(Platform::Aws)
        .environment(Environment::Prod)
        .send()
        .await?;
    let ago = |minutes| Timestamp::from(chrono::Utc::now() - TimeDelta::minutes(minutes));
    let changes = client.changes();
    changes
        .create("Rotate the TLS certificates")
        .status(Status::Completed)
        .host(web.id)
        .tag("security")
        .started_at(ago(27 * 60))
        .ended_at(ago(27 * 60 - 4))
        .outcome(Outcome::Succeeded)
        .send()
        .await?;
    changes
        .create("Deploy payments 2.3.0")
        .risk_level(RiskLevel::Medium)
        .status(Status::Completed)
        .service(payments.id)
        .host(web.id)
        .tag("deploy")
        .on_behalf_of("ada@example.com")
        .commit("1a2b3c4d5e6f")
        .started_at(ago(190))
        .ended_at(ago(183))
        .outcome(Outcome::Succeeded)
        .send()
        .await?;
    changes
        .create("terraform apply: 1 added, 2 changed")
        .risk_level(RiskLevel::High)
        .status(Status::RolledBack)
        .description("The database subnet could not be replaced.")
        .environment(Environment::Prod)
        .tag("terraform")
        .started_at(ago(47))
        .ended_at(ago(45))
        .outcome(Outcome::Failed)
        .send()
        .await?;
    changes
        .create("Reindex the catalogue")
        .status(Status::InProgress)
        .service(search.id)
        .environment(Environment::Staging)
        .started_at(ago(4))
        .send()
        .await?;
    changes
        .create("Upgrade PostgreSQL to 17")
        .risk_level(RiskLevel::High)
        .status(Status::Planned)
        .impact("Ten minutes of read-only mode")
        .scheduled_for(Timestamp::from(chrono::Utc::now() + TimeDelta::days(2)))
        .tag("database")
        .send()
        .await?;
    Ok(())
}

fn print_access(changes: &[Change], url: &str, access: &Access) -> Result<(), Failure> {
    let row = |change: &Change| {
        vec![
            change
                .effective_at()
                .to_datetime()
                .format("%Y-%m-%d %H:%M UTC")
                .to_string(),
            change.risk_level.to_string(),
            change.status_label().to_owned(),
            shortened(&change.title),
            change
                .environment
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            change
                .service
                .as_ref()
                .map_or_else(String::new, |service| service.name.clone()),
            change.tags.join(", "),
        ]
    };
    let header = ["WHEN", "RISK", "STATUS", "TITLE", "ENV", "SERVICE", "TAGS"];
    print(&table(&header, changes.iter().map(row)))?;
    print(&format!(
        "\nThe dashboard:  {url}/\nSign in with:   {EMAIL}\nPassword:       {}\n\n\
         For chlog in another terminal:\n\n\
         export CHLOG_URL={url}\nexport CHLOG_API_KEY={}\n\n\
         Press Ctrl-C to stop; the next start keeps the data.",
        access.password, access.api_key
    ))
}

/// Cuts a title that would make the table too wide; `…` shows that it was cut.
fn shortened(title: &str) -> String {
    match title.char_indices().nth(MAX_TITLE_CHARS) {
        Some((end, _)) => format!("{}…", title[..end].trim_end()),
        None => title.to_owned(),
    }
}

fn at_path(path: &Path, error: &std::io::Error) -> Failure {
    std::io::Error::new(error.kind(), format!("{}: {error}", path.display())).into()
}
