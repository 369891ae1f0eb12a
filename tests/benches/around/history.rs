//! A history of changes, and the incidents that some of them caused.

/// The changes of one organization.
pub(crate) struct History {
    pub(crate) name: String,
    /// The names of the services.
    pub(crate) services: Vec<String>,
    /// Which service (the first number) depends on which.
    pub(crate) dependencies: Vec<(usize, usize)>,
    /// The changes, oldest first.
    pub(crate) changes: Vec<Change>,
    /// The incidents, oldest first.
    pub(crate) incidents: Vec<Incident>,
}

/// A change.
pub(crate) struct Change {
    /// When it happened, in milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) title: String,
    /// The numbers of its services, without duplicates.
    pub(crate) services: Vec<usize>,
    pub(crate) environment: Option<&'static str>,
    /// When it was undone, in milliseconds since 1970.
    pub(crate) undone_at: Option<i64>,
}

/// Something that broke.
pub(crate) struct Incident {
    /// When the question is asked, in milliseconds since 1970: a minute before the change
    /// that undoes the cause.
    pub(crate) at: i64,
    /// The numbers of the changes that caused it; finding any of them counts.
    pub(crate) culprits: Vec<usize>,
    /// The first service of the cause.
    pub(crate) service: usize,
    /// Another service that the cause touched.
    pub(crate) other: Option<usize>,
    /// A service that depends on that of the cause, and was not changed by it.
    pub(crate) dependent: Option<usize>,
    /// What was written about it afterwards.
    pub(crate) symptom: Option<String>,
}

impl History {
    /// Returns the number of changes that happened at or before a time.
    pub(crate) fn until(&self, at: i64) -> usize {
        self.changes.partition_point(|change| change.at <= at)
    }
}
