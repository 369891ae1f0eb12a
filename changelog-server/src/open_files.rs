//! The limit of open files, and how many connections it allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections in all, where the limit of open files allows it.
const MAX_CONNECTIONS: usize = 4_096;
/// Connections beyond these, which are answered that there are too many.
const SURPLUS_CONNECTIONS: usize = 64;
/// Open files that are not connections: the database's and the system's.
const OTHER_FILES: usize = 128;
/// The fewest connections that are served, whatever the limit of open files.
const MIN_CONNECTIONS: usize = 32;
/// How many open files the service asks for when it starts.
const WANTED_FILES: u64 = 8_192;

/// Raises the limit of open files to what the service needs, or as far as the
/// system allows.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(WANTED_FILES, |most| most.min(WANTED_FILES));
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let raised = Rlimit {
        current: Some(wanted),
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Returns how many connections are served at once, and how many more are answered
/// that there are too many.
pub(crate) fn connections() -> (usize, usize) {
    let files = getrlimit(Resource::Nofile).current;
    connections_for(files.map_or(usize::MAX, |files| {
        usize::try_from(files).unwrap_or(usize::MAX)
    }))
}

fn connections_for(files: usize) -> (usize, usize) {
    let room = files.saturating_sub(OTHER_FILES).max(MIN_CONNECTIONS);
    let surplus = SURPLUS_CONNECTIONS.min(room / 8);
    (MAX_CONNECTIONS.min(room - surplus), surplus)
}

/// Returns how many connections are served at once.
pub(crate) fn max_connections() -> usize {
    connections().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        assert_eq!(connections_for(usize::MAX), (4_096, 64));
        assert_eq!(connections_for(1_024), (832, 64));
        assert_eq!(connections_for(10), (28, 4), "the fewest");
    }
}
