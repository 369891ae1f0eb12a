//! Requests about changes.

use std::collections::VecDeque;

use futures_util::Stream;
use futures_util::stream::try_unfold;

use changelog_core::limits::MAX_PER_PAGE;
use changelog_core::{
    Around, AroundFilter, Change, ChangeCreated, ChangeFilter, ChangeId, ChangePatch, HostId, Link,
    NewChange, NewChanges, Page, RiskLevel, ServiceId, Status, Timestamp,
};

use crate::client::Client;
use crate::error::{Error, UnexpectedResponse};
use crate::send::Call;
use crate::watch::WatchChanges;

const PATH: &str = "changes";

/// The requests about changes.
#[derive(Clone, Debug)]
pub struct Changes {
    client: Client,
}

impl Changes {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Starts a change with this title: 3 to 300 characters.
    pub fn create(&self, title: impl Into<String>) -> CreateChange {
        self.create_from(NewChange {
            title: title.into(),
            ..NewChange::default()
        })
    }

    /// Starts a change from what was put together elsewhere.
    pub fn create_from(&self, change: NewChange) -> CreateChange {
        CreateChange {
            client: self.client.clone(),
            change,
            idempotency_key: None,
        }
    }

    /// Starts several changes at once: 1 to [`MAX_BULK_CHANGES`](crate::limits::MAX_BULK_CHANGES)
    /// of them, and at most 256 KiB as JSON.
    pub fn create_many(&self, changes: impl IntoIterator<Item = NewChange>) -> CreateChanges {
        CreateChanges {
            client: self.client.clone(),
            changes: NewChanges {
                changes: changes.into_iter().collect(),
            },
            idempotency_key: None,
        }
    }

    /// Starts a list of changes, newest first.
    pub fn list(&self) -> ListChanges {
        self.list_with(ChangeFilter::default())
    }

    /// Starts a list of the changes that a filter selects, newest first.
    pub fn list_with(&self, filter: ChangeFilter) -> ListChanges {
        ListChanges {
            client: self.client.clone(),
            filter,
        }
    }

    /// Starts to watch changes as they are recorded.
    pub fn watch(&self) -> WatchChanges {
        self.watch_with(ChangeFilter::default())
    }

    /// Starts to watch the changes that a filter selects, whatever it says about
    /// times and pages.
    pub fn watch_with(&self, filter: ChangeFilter) -> WatchChanges {
        WatchChanges::new(self.client.clone(), filter)
    }

    /// Starts to ask what changed before a moment.
    pub fn around(&self) -> AroundChanges {
        AroundChanges {
            client: self.client.clone(),
            filter: AroundFilter::default(),
        }
    }

    /// Gets one change in full.
    pub fn get(&self, id: ChangeId) -> impl Future<Output = Result<Change, Error>> + Send + use<> {
        let client = self.client.clone();
        async move {
            let call = Call::get(&[PATH, &id.to_string()]);
            client.record(&call).await
        }
    }

    /// Starts an update of one change.
    pub fn update(&self, id: ChangeId) -> UpdateChange {
        self.update_with(id, ChangePatch::default())
    }

    /// Starts an update of one change from what was put together elsewhere.
    pub fn update_with(&self, id: ChangeId, patch: ChangePatch) -> UpdateChange {
        UpdateChange {
            client: self.client.clone(),
            id,
            patch,
        }
    }
}

/// A change that is to be created; [`CreateChange::send`] does it.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateChange {
    client: Client,
    change: NewChange,
    idempotency_key: Option<String>,
}

impl CreateChange {
    /// Sets what was done, in full: at most 20000 characters.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.change.description = Some(text.into());
        self
    }

    /// Sets how dangerous it is; `low` when not set.
    pub fn risk_level(mut self, risk: RiskLevel) -> Self {
        self.change.risk_level = Some(risk);
        self
    }

    /// Sets where it stands; `planned` when not set.
    pub fn status(mut self, status: Status) -> Self {
        self.change.status = Some(status);
        self
    }

    /// Sets what to expect from it: at most 20000 characters.
    pub fn impact(mut self, text: impl Into<String>) -> Self {
        self.change.impact = Some(text.into());
        self
    }

    /// Links it to a service.
    pub fn service(mut self, id: ServiceId) -> Self {
        self.change.service_id = Some(id);
        self
    }

    /// Links it to a host.
    pub fn host(mut self, id: HostId) -> Self {
        self.change.host_id = Some(id);
        self
    }

    /// Adds a tag: 1 to 100 characters, at most 20 of them.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.change.tags.push(tag.into());
        self
    }

    /// Adds tags.
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.change.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Adds something to look at beside it: at most 10 of them.
    pub fn link(mut self, label: impl Into<String>, url: impl Into<String>) -> Self {
        self.change.links.push(Link {
            label: label.into(),
            url: url.into(),
        });
        self
    }

    /// Sets when it is scheduled.
    pub fn scheduled_for(mut self, at: Timestamp) -> Self {
        self.change.scheduled_for = Some(at);
        self
    }

    /// Sets when it happened, if not now.
    pub fn occurred_at(mut self, at: Timestamp) -> Self {
        self.change.occurred_at = Some(at);
        self
    }

    /// Sets the idempotency key: 1 to 255 printable ASCII characters. Two
    /// creates with one key and one content are one change. Without it, each
    /// call of [`CreateChange::send`] takes a random one for all its attempts.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Creates the change.
    pub async fn send(self) -> Result<ChangeCreated, Error> {
        let call = Call::create(&[PATH], &self.change, self.idempotency_key)?;
        self.client.record(&call).await
    }
}

/// Several changes that are to be created; [`CreateChanges::send`] does it.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct CreateChanges {
    client: Client,
    changes: NewChanges,
    idempotency_key: Option<String>,
}

impl CreateChanges {
    /// Sets the idempotency key of all of them together: 1 to 255 printable
    /// ASCII characters. Without it, each call of [`CreateChanges::send`] takes
    /// a random one for all its attempts.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Creates all of them, in the order given, or none when one of them breaks
    /// a rule; the [`Violation`](crate::Violation)s of the error then
    /// say which: `/changes/3/title` is the title of the fourth.
    pub async fn send(self) -> Result<Vec<ChangeCreated>, Error> {
        let call = Call::create(&[PATH, "bulk"], &self.changes, self.idempotency_key)?;
        self.client.record(&call).await
    }
}

/// A list of changes that is to be read: a page of it by
/// [`ListChanges::send`], all of it by [`ListChanges::stream`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send` or `stream`"]
pub struct ListChanges {
    client: Client,
    filter: ChangeFilter,
}

impl ListChanges {
    /// Only those whose title has, for every word of this, a word that begins so.
    pub fn q(mut self, words: impl Into<String>) -> Self {
        self.filter.q = Some(words.into());
        self
    }

    /// Only of this service.
    pub fn service(mut self, id: ServiceId) -> Self {
        self.filter.service_id = Some(id);
        self
    }

    /// Only on this host.
    pub fn host(mut self, id: HostId) -> Self {
        self.filter.host_id = Some(id);
        self
    }

    /// Only of this risk.
    pub fn risk_level(mut self, risk: RiskLevel) -> Self {
        self.filter.risk_level = Some(risk);
        self
    }

    /// Only of this status.
    pub fn status(mut self, status: Status) -> Self {
        self.filter.status = Some(status);
        self
    }

    /// Only with this tag; set more than once, only with all of them.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.filter.tags.push(tag.into());
        self
    }

    /// Only what happened then or later.
    pub fn since(mut self, at: Timestamp) -> Self {
        self.filter.since = Some(at);
        self
    }

    /// Only what happened before then.
    pub fn until(mut self, at: Timestamp) -> Self {
        self.filter.until = Some(at);
        self
    }

    /// Only what comes after this change in the list: older ones.
    pub fn before(mut self, id: ChangeId) -> Self {
        self.filter.before = Some(id);
        self
    }

    /// Sets the page, from 1; the first when not set.
    pub fn page(mut self, page: u64) -> Self {
        self.filter.page = page;
        self
    }

    /// Sets how many a page: 1 to 100, 25 when not set.
    pub fn per_page(mut self, count: u64) -> Self {
        self.filter.per_page = count;
        self
    }

    /// Reads one page.
    pub async fn send(self) -> Result<Page<Change>, Error> {
        let call = Call::get(&[PATH]).query(self.filter.to_query());
        self.client.send(&call).await
    }

    /// Reads everything that matches, a hundred at a time, newest first.
    ///
    /// It continues after the last change that it has seen and not at a page
    /// number, so that nothing comes twice or is left out when changes are
    /// logged meanwhile. `page` and `per_page` do not count here. After an
    /// error the stream has ended.
    pub fn stream(self) -> impl Stream<Item = Result<Change, Error>> + Send + Unpin {
        let walk = Walk {
            client: self.client,
            filter: ChangeFilter {
                page: 1,
                per_page: MAX_PER_PAGE,
                ..self.filter
            },
            ready: VecDeque::new(),
            ended: false,
        };
        Box::pin(try_unfold(walk, |mut walk| async move {
            if walk.ready.is_empty() && !walk.ended {
                walk.fetch().await?;
            }
            Ok(walk.ready.pop_front().map(|change| (change, walk)))
        }))
    }
}

/// How far a stream has come.
struct Walk {
    client: Client,
    filter: ChangeFilter,
    ready: VecDeque<Change>,
    ended: bool,
}

impl Walk {
    /// Reads the changes after the last one seen.
    async fn fetch(&mut self) -> Result<(), Error> {
        let page = self
            .client
            .changes()
            .list_with(self.filter.clone())
            .send()
            .await?;
        let last = page.data.last().map(|change| change.id);
        if last.is_some() && last == self.filter.before {
            // A service that does not know `before` would be walked for ever.
            return Err(UnexpectedResponse {
                status: 200,
                request_id: None,
                message: "the list does not continue after the change asked for".to_owned(),
                excerpt: String::new(),
            }
            .into());
        }
        self.ended = (page.data.len() as u64) < page.per_page.max(1);
        self.filter.before = last.or(self.filter.before);
        self.ready = page.data.into();
        Ok(())
    }
}

/// What changed before a moment, to be asked for by [`AroundChanges::send`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct AroundChanges {
    client: Client,
    filter: AroundFilter,
}

impl AroundChanges {
    /// Sets the moment; now when not set.
    pub fn at(mut self, at: Timestamp) -> Self {
        self.filter.at = Some(at);
        self
    }

    /// Sets the service that was affected.
    pub fn service(mut self, id: ServiceId) -> Self {
        self.filter.service_id = Some(id);
        self
    }

    /// Sets the host that was affected.
    pub fn host(mut self, id: HostId) -> Self {
        self.filter.host_id = Some(id);
        self
    }

    /// Sets how many minutes to look back: 1 to 10080 (7 days), 120 when not set.
    pub fn window_minutes(mut self, minutes: u64) -> Self {
        self.filter.window_minutes = minutes;
        self
    }

    /// Sets how many changes to answer: 1 to 100, 20 when not set.
    pub fn limit(mut self, count: u64) -> Self {
        self.filter.limit = count;
        self
    }

    /// Asks, and returns the changes, the most suspicious first.
    pub async fn send(self) -> Result<Around, Error> {
        let call = Call::get(&[PATH, "around"]).query(self.filter.to_query());
        self.client.send(&call).await
    }
}

/// An update of a change that is to be made; what is not set stays as it is.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent until `send`"]
pub struct UpdateChange {
    client: Client,
    id: ChangeId,
    patch: ChangePatch,
}

impl UpdateChange {
    /// Sets the title: 3 to 300 characters.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.patch.title = Some(title.into());
        self
    }

    /// Sets the description, or takes it away.
    pub fn description(mut self, text: Option<String>) -> Self {
        self.patch.description = Some(text);
        self
    }

    /// Sets how dangerous it is.
    pub fn risk_level(mut self, risk: RiskLevel) -> Self {
        self.patch.risk_level = Some(risk);
        self
    }

    /// Sets where it stands.
    pub fn status(mut self, status: Status) -> Self {
        self.patch.status = Some(status);
        self
    }

    /// Sets what to expect from it, or takes that away.
    pub fn impact(mut self, text: Option<String>) -> Self {
        self.patch.impact = Some(text);
        self
    }

    /// Links it to a service, or to none.
    pub fn service(mut self, id: Option<ServiceId>) -> Self {
        self.patch.service_id = Some(id);
        self
    }

    /// Links it to a host, or to none.
    pub fn host(mut self, id: Option<HostId>) -> Self {
        self.patch.host_id = Some(id);
        self
    }

    /// Replaces all tags.
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.patch.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }

    /// Replaces all links.
    pub fn links(mut self, links: impl IntoIterator<Item = Link>) -> Self {
        self.patch.links = Some(links.into_iter().collect());
        self
    }

    /// Sets when it is scheduled, or that it is not.
    pub fn scheduled_for(mut self, at: Option<Timestamp>) -> Self {
        self.patch.scheduled_for = Some(at);
        self
    }

    /// Makes the update, and returns the change as it is then.
    pub async fn send(self) -> Result<Change, Error> {
        let call = Call::update(&[PATH, &self.id.to_string()], &self.patch)?;
        self.client.record(&call).await
    }
}
