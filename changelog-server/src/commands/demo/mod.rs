//! `changelog-server demo`: the whole service in one command, with a year of changes
//! and an incident to look into.

mod incident;
mod organization;
mod seed;
mod sources;
mod year;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

use changelog_client::Client;
use changelog_core::{
    Change, NewApiKey, NewOrganization, Organization, OwnerInput, Permissions, Plan, Status,
    Timestamp,
};
use chrono::{Local, SecondsFormat};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rand::distr::{Alphanumeric, SampleString};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use self::seed::Seed;
use super::table::table;
use super::{Failure, now, org, print, serve};
use crate::app::App;
use crate::clock::Clock;
use crate::config::{Demo, Settings};
use crate::passwords;
use crate::secrets::Secrets;
use crate::service::set_clock;
use crate::store::{Actor, Capacity, Purpose, Store, Tenant};

/// The most characters of a title in the table.
const MAX_TITLE_CHARS: usize = 48;
/// The characters that a path in a database address percent-encodes.
const ENCODED_IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

const ACCESS_FILE: &str = "access.json";
const ORGANIZATION: &str = "Demo";
const EMAIL: &str = "demo@example.com";

/// The credentials that the next start reads again; kept next to the database,
/// readable only by the file's owner.
#[derive(Serialize, Deserialize)]
struct Access {
    password: String,
    api_key: String,
    /// When the incident happened; absent until it is recorded.
    incident_at: Option<Timestamp>,
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
    let listener = crate::serve::bind(demo.listen, "--listen").await?;
    let listening = listener.local_addr()?;
    let mut access = access(&store, &demo.data_dir).await?;

    let clock = Clock::system();
    set_clock(&clock, &store, false).await?;
    let secrets = Secrets::open(&path.with_extension("db.key"))?;
    let settings = Settings::default();
    let url = settings.url(listening);
    let app = App::new(store.clone(), clock, settings, secrets, None, listening);
    let signals = serve::signals()?;
    let (recorded, is_recorded) = oneshot::channel();
    let shutdown = async {
        tokio::select! {
            () = signals => {}
            Ok(()) = is_recorded => {}
        }
    };
    let serving = crate::run(app.clone(), listener, shutdown, Duration::ZERO);
    let preparing = async {
        let client = Client::builder()
            .url(&url)
            .api_key(access.api_key.as_str())
            .build()?;
        if client.changes().list().send().await?.count == 0 {
            let organizations = store.organizations_named(ORGANIZATION).await?;
            for (tenant, _) in &organizations {
                sources::create(&app, *tenant).await?;
            }
            let seed = Seed::new(&store, &url, client.clone()).await?;
            let incident_at = seed.record_everything().await?;
            for (tenant, _) in &organizations {
                sources::alert(&app, *tenant, incident_at).await?;
            }
            access.incident_at = Some(incident_at);
            write_access(&demo.data_dir, &access)?;
            return Ok(recorded.send(()).is_ok());
        }
        let changes = client.changes().list().send().await?;
        print_access(&changes.data, changes.count, &url, &access)?;
        writeln!(std::io::stderr(), "listening on http://{listening}")?;
        Ok::<bool, Failure>(false)
    };
    let mut serving = std::pin::pin!(serving);
    let starts_again = tokio::select! {
        () = &mut serving => false,
        prepared = preparing => {
            let starts_again = prepared?;
            serving.await;
            starts_again
        }
    };
    store.close().await;
    drop(serve_lock);
    if starts_again {
        // The allocator keeps what recording a year took, as much as the service itself needs.
        let mut command = std::process::Command::new(std::env::current_exe()?);
        return Err(command.args(std::env::args_os().skip(1)).exec().into());
    }
    Ok(())
}

/// Returns the credentials of an earlier start, or creates them.
async fn access(store: &Store, data_dir: &Path) -> Result<Access, Failure> {
    let kept = std::fs::read(data_dir.join(ACCESS_FILE))
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
        permissions: Permissions::default(),
    };
    let key = tx
        .insert_api_key(tenant, &Actor::operator(), &new, now())
        .await?;
    tx.commit().await?;
    let access = Access {
        password,
        api_key: key.key,
        incident_at: None,
    };
    write_access(data_dir, &access)?;
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

fn write_access(data_dir: &Path, access: &Access) -> Result<(), Failure> {
    let path = data_dir.join(ACCESS_FILE);
    write_private(&path, access).map_err(|error| at_path(&path, &error))
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

fn print_access(changes: &[Change], count: u64, url: &str, access: &Access) -> Result<(), Failure> {
    let row = |change: &Change| {
        let scheduled = change.scheduled_for;
        let when = scheduled.filter(|_| change.status == Status::Planned);
        vec![
            local(when.unwrap_or(change.effective_at()), "%Y-%m-%d %H:%M"),
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
        ]
    };
    let header = ["WHEN", "RISK", "STATUS", "TITLE", "ENV", "SERVICE"];
    print(&table(&header, changes.iter().map(row)))?;
    let shown = changes.len();
    print(&format!("The newest {shown} of {count} changes.\n"))?;
    print(&format!(
        "The dashboard:  {url}/\nSign in with:   {EMAIL}\nPassword:       {}\n\n\
         For chlog in another terminal:\n\n\
         export CHLOG_URL={url}\nexport CHLOG_API_KEY={}\n",
        access.password, access.api_key
    ))?;
    if let Some(at) = access.incident_at {
        let utc = at.to_datetime().to_rfc3339_opts(SecondsFormat::Secs, true);
        let (clock, minute) = (local(at, "%H:%M"), local(at, "%Y-%m-%d %H:%M"));
        print(&format!(
            "{service} broke at {clock} ({minute}). What had changed?\n\n\
             {url}/around?at={utc}&service={service}\n\
             {url}/incidents\n\
             chlog around \"{minute}\" --service {service}\n",
            service = incident::SERVICE,
        ))?;
    }
    print("Press Ctrl-C to stop; the next start keeps the data.")
}

/// Formats a time in the zone of this machine.
fn local(at: Timestamp, format: &str) -> String {
    let local = at.to_datetime().with_timezone(&Local);
    local.format(format).to_string()
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
