//! What charts count: the changes of some scope, by risk level and status.

use std::ops::{AddAssign, SubAssign};

use changelog_core::{HostId, RiskLevel, ServiceId, Status};

use super::{HAPPENED, Scope};

/// The number of combinations of risk level and status.
pub(super) const KINDS: usize = RiskLevel::ALL.len() * HAPPENED.len();

/// What the changes of a chart have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChartScope {
    /// All changes of the organization.
    Organization,
    /// The changes of a service.
    Service(ServiceId),
    /// The changes on a host.
    Host(HostId),
}

impl From<ChartScope> for Scope<'_> {
    fn from(scope: ChartScope) -> Self {
        match scope {
            ChartScope::Organization => Self::Organization,
            ChartScope::Service(id) => Self::Service(id),
            ChartScope::Host(id) => Self::Host(id),
        }
    }
}

/// The number of changes of each risk level and status, without planned ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCounts(pub(super) [u64; KINDS]);

impl KindCounts {
    /// Adds changes of one kind; planned ones are ignored.
    pub fn add(&mut self, risk_level: &RiskLevel, status: &Status, count: u64) {
        if let Some(kind) = Self::kind(risk_level, status) {
            self.0[kind] += count;
        }
    }

    /// Returns the number of all changes.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the number of changes of a risk level.
    pub fn with_risk(&self, risk_level: &RiskLevel) -> u64 {
        HAPPENED
            .iter()
            .map(|status| self.of(risk_level, status))
            .sum()
    }

    /// Returns the number of changes of a status.
    pub fn with_status(&self, status: &Status) -> u64 {
        let counts = RiskLevel::ALL
            .iter()
            .map(|risk_level| self.of(risk_level, status));
        counts.sum()
    }

    /// Returns the number of changes of a risk level and status.
    pub fn of(&self, risk_level: &RiskLevel, status: &Status) -> u64 {
        Self::kind(risk_level, status).map_or(0, |kind| self.0[kind])
    }

    fn kind(risk_level: &RiskLevel, status: &Status) -> Option<usize> {
        let risk_level = RiskLevel::ALL
            .iter()
            .position(|known| known == risk_level)?;
        let status = HAPPENED.iter().position(|known| known == status)?;
        Some(risk_level * HAPPENED.len() + status)
    }
}

impl AddAssign for KindCounts {
    fn add_assign(&mut self, other: Self) {
        for (count, other) in self.0.iter_mut().zip(other.0) {
            *count += other;
        }
    }
}

/// Nothing is less than zero: the counts of a day and of its part are read one after the
/// other, and changes may have been recorded meanwhile.
impl SubAssign for KindCounts {
    fn sub_assign(&mut self, other: Self) {
        for (count, other) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_sub(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_changes_are_not_counted() {
        let mut day = KindCounts::default();
        day.add(&RiskLevel::High, &Status::Completed, 3);
        day.add(&RiskLevel::Low, &Status::RolledBack, 1);
        day.add(&RiskLevel::Low, &Status::Planned, 1);
        assert_eq!(
            (
                day.sum(),
                day.with_risk(&RiskLevel::High),
                day.with_status(&Status::RolledBack)
            ),
            (4, 3, 1)
        );
    }
}
