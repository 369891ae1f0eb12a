//! The event that the test button sends.

use changelog_core::{
    Change, Differences, Environment, Event, EventKind, EventOfChange, OrganizationId, Outcome,
    RiskLevel, Status, Timestamp,
};
use chrono::TimeDelta;
use uuid::Uuid;

/// Returns an event about a change that does not exist, marked as a test in its title.
/// Every kind of connection sends it. The id of the change is nil; the ids of events
/// differ.
pub fn test_event(organization: OrganizationId, now: Timestamp) -> Event {
    let started = now.plus(TimeDelta::minutes(-2));
    let change = Change {
        id: Uuid::nil().into(),
        title: "Test: this connection works".to_owned(),
        description: Some("Someone pressed the test button. Nothing was changed.".to_owned()),
        risk_level: RiskLevel::Low,
        status: Status::Completed,
        impact: None,
        outcome: Some(Outcome::Succeeded),
        service: None,
        service_ids: Vec::new(),
        services: Vec::new(),
        host_ref: None,
        environment: Some(Environment::Test),
        tags: vec!["test".to_owned()],
        links: Vec::new(),
        scheduled_for: None,
        started_at: Some(started),
        ended_at: Some(now),
        on_behalf_of: None,
        agent: None,
        commit: None,
        committed_at: None,
        occurred_at: started,
        created_by: None,
        organization_id: organization,
        created_at: now,
        updated_at: now,
        source: None,
        updated_by: None,
    };
    Event::from(EventOfChange {
        id: changelog_core::ids::uuid_v7(now, None, rand::random()),
        kind: EventKind::Created,
        at: now,
        actor: "Test".to_owned(),
        actor_id: None,
        change,
        changes: Differences::new(),
        reason: None,
    })
}
