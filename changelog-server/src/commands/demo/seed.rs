//! Records the demo's data through the SDK, as its users would.

use changelog_client::Client;
use changelog_core::limits::MAX_BULK_CHANGES;
use changelog_core::{NewApiKey, NewChange, Permissions, Timestamp};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::organization::{self, By};
use super::{ORGANIZATION, incident, year};
use crate::commands::{Failure, now};
use crate::store::{Actor, Store};

/// The seed of the random numbers: every demo has the same year.
const SEED: u64 = 1420;

/// The clients of the demo, one for each API key, so that changes have different authors.
pub(super) struct Seed {
    /// People with `chlog`.
    pub(super) people: Client,
    /// The pipeline that deploys.
    pub(super) pipeline: Client,
    /// The pipeline that runs Terraform.
    pub(super) terraform: Client,
}

impl Seed {
    /// Creates the keys of the pipelines; `people` has one already.
    pub(super) async fn new(store: &Store, url: &str, people: Client) -> Result<Self, Failure> {
        Ok(Self {
            people,
            pipeline: client(store, url, "ci-pipeline").await?,
            terraform: client(store, url, "terraform").await?,
        })
    }

    /// Records services, hosts, a year of changes and the incident. Returns when the
    /// incident happened.
    pub(super) async fn record_everything(&self) -> Result<Timestamp, Failure> {
        organization::create(&self.people).await?;
        let now = Timestamp::from(now());
        let incident_at = incident::last(now);
        let mut random = StdRng::seed_from_u64(SEED);
        let mut changes = year::changes(&mut random, now, incident_at);
        changes.extend(incident::before(incident_at));
        changes.extend(incident::after(incident_at, now));
        changes.extend(incident::unfinished(now));
        changes.sort_by_key(|(_, change)| change.started_at);
        for by in [By::People, By::Pipeline, By::Terraform] {
            let of_author = changes.iter().filter(|(author, _)| *author == by);
            let of_author: Vec<NewChange> = of_author.map(|(_, change)| change.clone()).collect();
            // Half of the maximum, because of the size of a request.
            for part in of_author.chunks(MAX_BULK_CHANGES / 2) {
                let changes = self.client(by).changes();
                changes.create_many(part.iter().cloned()).send().await?;
            }
        }
        incident::roll_back(&self.pipeline, incident_at, now).await?;
        Ok(incident_at)
    }

    fn client(&self, by: By) -> &Client {
        match by {
            By::People => &self.people,
            By::Pipeline => &self.pipeline,
            By::Terraform => &self.terraform,
        }
    }
}

/// Creates an API key, and a client that uses it.
async fn client(store: &Store, url: &str, name: &str) -> Result<Client, Failure> {
    let organizations = store.organizations_named(ORGANIZATION).await?;
    let tenant = organizations.into_iter().next().map(|(tenant, _)| tenant);
    let tenant = tenant.ok_or_else(|| std::io::Error::other("the demo has no organization"))?;
    let new = NewApiKey {
        name: name.to_owned(),
        expires_at: None,
        permissions: Permissions::default(),
    };
    let mut tx = store.begin().await?;
    let created = tx
        .insert_api_key(tenant, &Actor::operator(), &new, now())
        .await?;
    tx.commit().await?;
    let client = Client::builder().url(url).api_key(created.key.as_str());
    Ok(client.build()?)
}
