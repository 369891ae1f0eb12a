//! Where an organization's changes come from, and when a source or an API key has been silent
//! for too long: what the API and the dashboard show, and the events that receivers are sent.

use std::collections::HashMap;

use changelog_core::coverage::API_KEY_KIND;
use changelog_core::{
    ApiKeyId, Coverage, CoveredSource, EventKind, EventOfSource, Gap, SilentSource, Timestamp,
};
use chrono::TimeDelta;
use futures_util::future::try_join;

use crate::app::App;
use crate::last_used::Recording;
use crate::store::{
    Actor, Heard, Overdue, Reporter, Source, Store, StoreError, Tenant, Tx, existing, new_id,
};

/// How long after its start a server reports what fell silent while perhaps no server ran:
/// senders that try again have this time.
const STARTUP_PATIENCE: TimeDelta = TimeDelta::minutes(15);

/// Returns what the changes of an organization come from now, and the gaps after a time.
pub(crate) async fn coverage(
    app: &App,
    tenant: Tenant,
    since: Timestamp,
) -> Result<Coverage, StoreError> {
    let now: Timestamp = app.now().into();
    let (stored, sources) =
        try_join(app.store.heard(tenant, now), app.store.sources(tenant)).await?;
    let stored = stored.into_iter().map(|heard| (heard.reporter, heard));
    let mut heard: HashMap<Reporter, Heard> = stored.collect();
    for (key, at) in app.last_used.recording_keys(tenant) {
        let key = Reporter::Key(key);
        let known = heard.entry(key).or_insert_with(|| Heard::first(key, at));
        known.hear(at);
    }
    let keys = heard.keys().filter_map(|reporter| match reporter {
        Reporter::Key(key) => Some(*key),
        Reporter::Source(_) => None,
    });
    let names = app.store.valid_key_names(tenant, keys, now).await?;
    let keys = names
        .into_iter()
        .map(|(id, name)| (Reporter::Key(id), name, API_KEY_KIND.to_owned()));
    let sources = sources
        .into_iter()
        .filter(|source| source.disabled_at.is_none() && source.kind.has_rhythm())
        .map(|source| {
            (
                Reporter::Source(source.id),
                source.name,
                source.kind.to_string(),
            )
        });
    let mut coverage = Coverage::default();
    for (reporter, name, kind) in sources.chain(keys) {
        let heard = heard.get(&reporter);
        let gaps = heard.into_iter().flat_map(|heard| heard.gaps_at(now));
        let gaps = gaps.filter(|(_, until)| until.is_none_or(|until| until > since));
        coverage.gaps.extend(gaps.map(|(since, until)| Gap {
            name: name.clone(),
            since,
            until,
        }));
        coverage.sources.push(CoveredSource {
            name,
            kind,
            last_seen_at: heard.map(|heard| heard.last_seen_at),
            expected_by: heard.and_then(|heard| heard.expected_by),
        });
    }
    coverage
        .sources
        .sort_by_cached_key(|source| source.name.to_lowercase());
    coverage
        .gaps
        .sort_by_key(|gap| std::cmp::Reverse(gap.since));
    Ok(coverage)
}

/// Records that requests of a source arrived at these times. Alerts have no rhythm: their
/// silence is no gap.
pub(crate) async fn hear_source(
    tx: &mut Tx,
    source: &Source,
    actor: &Actor,
    times: &[Timestamp],
) -> Result<(), StoreError> {
    if !source.kind.has_rhythm() {
        return Ok(());
    }
    hear(tx, source.tenant, silent_source(source), actor, times).await
}

/// Records when keys of an organization have recorded changes.
pub(crate) async fn hear_keys(
    store: &Store,
    recordings: &[((Tenant, ApiKeyId), Recording)],
) -> Result<(), StoreError> {
    let Some(((tenant, _), _)) = recordings.first() else {
        return Ok(());
    };
    let mut tx = store.begin_for(*tenant).await?;
    for ((_, key), Recording { actor, at, .. }) in recordings {
        let name = actor
            .author()
            .map_or_else(String::new, |author| author.name);
        let key = (Reporter::Key(*key), name, API_KEY_KIND.to_owned());
        hear(&mut tx, *tenant, key, actor, &[*at]).await?;
    }
    tx.commit().await
}

/// Who is heard, with the name and the kind.
type Named = (Reporter, String, String);

fn silent_source(source: &Source) -> Named {
    let kind = source.kind.to_string();
    (Reporter::Source(source.id), source.name.clone(), kind)
}

async fn hear(
    tx: &mut Tx,
    tenant: Tenant,
    named: Named,
    actor: &Actor,
    times: &[Timestamp],
) -> Result<(), StoreError> {
    let Some(since) = tx.hear(tenant, named.0, times).await? else {
        return Ok(());
    };
    let until = times.iter().copied().filter(|at| *at > since).min();
    let now = times.iter().copied().max().unwrap_or(since);
    record_event(tx, tenant, named, actor, (since, until), now).await
}

/// Records the event of a silence that has begun or ended.
async fn record_event(
    tx: &mut Tx,
    tenant: Tenant,
    (reporter, name, kind): Named,
    actor: &Actor,
    (since, until): (Timestamp, Option<Timestamp>),
    now: Timestamp,
) -> Result<(), StoreError> {
    let event = EventOfSource {
        id: new_id(now.to_datetime()),
        kind: match until {
            None => EventKind::SourceSilent,
            Some(_) => EventKind::SourceHeard,
        },
        at: now,
        source: SilentSource {
            id: reporter.id(),
            name,
            kind,
            since,
            until,
        },
    };
    tx.record_event(tenant, actor, now, &event).await
}

/// Records events of the sources and the keys that should have been heard by now.
pub(crate) async fn report_silence(app: &App, started: Timestamp) -> Result<(), StoreError> {
    let now: Timestamp = app.now().into();
    let is_patient = now < started.plus(STARTUP_PATIENCE);
    let after = if is_patient {
        started
    } else {
        Timestamp::EPOCH
    };
    loop {
        let overdue = app.store.overdue(after, now).await?;
        if overdue.is_empty() {
            return Ok(());
        }
        for one in &overdue {
            report(app, one, now).await?;
        }
    }
}

async fn report(app: &App, overdue: &Overdue, now: Timestamp) -> Result<(), StoreError> {
    let Overdue {
        tenant, reporter, ..
    } = *overdue;
    let named = match reporter {
        Reporter::Source(id) => {
            let source = existing(app.store.source_of(tenant, id).await)?;
            let source = source.filter(|source| source.disabled_at.is_none());
            source.as_ref().map(silent_source)
        }
        Reporter::Key(id) => {
            let names = app.store.valid_key_names(tenant, [id], now).await?;
            let name = names.into_values().next();
            name.map(|name| (reporter, name, API_KEY_KIND.to_owned()))
        }
    };
    let actor = Actor {
        has_receivers: app.store.has_receivers(tenant).await?,
        ..Actor::service()
    };
    let mut tx = app.store.begin_for(tenant).await?;
    match named {
        // Nothing is expected of it any more.
        None => tx.forget_rhythm(tenant, reporter).await?,
        Some(named) => {
            if tx.miss(overdue).await? {
                let silence = (overdue.last_seen_at, None);
                record_event(&mut tx, tenant, named, &actor, silence, now).await?;
            }
        }
    }
    tx.commit().await
}
