//! Incidents on timelines.

use changelog_core::{Incident, IncidentFilter, IncidentStatus};
use chrono::TimeDelta;

use crate::app::App;
use crate::dashboard::parts::timeline::{Band, Range};
use crate::store::{StoreError, Tenant};

/// Resolved incidents that started at most this long before a range are drawn if they reach
/// into it.
const EARLIER: TimeDelta = TimeDelta::days(1);
/// The limits on open and on resolved incidents of a range.
const MAX_OPEN: u64 = 10;
const MAX_RESOLVED: u64 = 20;

/// Reads the incidents of a range, open ones first, then by their start, the latest first.
pub(in crate::dashboard) async fn within(
    app: &App,
    tenant: Tenant,
    range: Range,
) -> Result<Vec<Incident>, StoreError> {
    let until = Some(range.to.plus(TimeDelta::milliseconds(1)));
    let open = IncidentFilter {
        status: Some(IncidentStatus::Open),
        until,
        limit: MAX_OPEN,
        ..IncidentFilter::default()
    };
    let resolved = IncidentFilter {
        status: Some(IncidentStatus::Resolved),
        since: Some(range.from.plus(-EARLIER)),
        until,
        limit: MAX_RESOLVED,
        ..IncidentFilter::default()
    };
    let (mut incidents, resolved) = tokio::try_join!(
        app.store.incidents(tenant, &open),
        app.store.incidents(tenant, &resolved),
    )?;
    incidents.extend(resolved);
    Ok(incidents)
}

/// Returns incidents as a timeline shows them.
pub(in crate::dashboard) fn bands(incidents: &[Incident]) -> Vec<Band> {
    let band = |incident: &Incident| Band {
        from: incident.started_at,
        until: incident.resolved_at,
        label: incident.title.clone(),
        address: format!("/incidents/{}", incident.id),
    };
    incidents.iter().map(band).collect()
}
