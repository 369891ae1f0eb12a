//! How many connections a process uses, and for what.

/// Connections for health checks, for keys and sessions, and for single rows.
pub(super) const HEALTH_CONNECTIONS: usize = 1;
pub(super) const SYSTEM_CONNECTIONS: usize = 2;
pub(super) const POINT_CONNECTIONS: usize = 2;

/// How much of the database this process uses, and how much of that is for one
/// organization.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// PostgreSQL's connections, at least [`Capacity::MIN_CONNECTIONS`].
    pub postgres_connections: u32,
    /// The share of lists, searches and writes under way that one organization
    /// may have, in percent.
    pub organization_share: u8,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            postgres_connections: Self::DEFAULT_CONNECTIONS,
            organization_share: Self::DEFAULT_SHARE,
        }
    }
}

impl Capacity {
    /// PostgreSQL's connections by default.
    pub const DEFAULT_CONNECTIONS: u32 = 24;
    /// The fewest connections that every kind of work has one of.
    pub const MIN_CONNECTIONS: u32 = 10;
    /// An organization's share by default, in percent.
    pub const DEFAULT_SHARE: u8 = 50;

    /// Returns how many of `all` are for one organization.
    pub(super) fn share_of(self, all: usize) -> usize {
        (all * usize::from(self.organization_share) / 100).clamp(1, all)
    }

    /// Returns how many connections SQLite reads lists on: enough that the share of
    /// one organization keeps the processors busy.
    pub(super) fn sqlite_lists() -> usize {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        (4 * processors).clamp(8, 32)
    }
}
