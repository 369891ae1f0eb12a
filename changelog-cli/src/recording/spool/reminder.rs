//! A reminder, once a day, of changes that have waited for more than an hour:
//! a mistyped or retired URL never answers, and a key of the right organization
//! may never be used here again.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::folder;
use crate::base::failure::warn;
use crate::base::text::plural;
use crate::base::time;

/// How long a change waits before the user is reminded.
const REMIND_AFTER: Duration = Duration::from_hours(1);
/// The time between two reminders.
const REMIND_EVERY: Duration = Duration::from_hours(24);

/// Prints the reminder if it is due.
pub(crate) fn remind() {
    let Some(directory) = folder::directory() else {
        return;
    };
    let Ok(paths) = folder::paths(&directory) else {
        return;
    };
    let now = SystemTime::now();
    // The names hold the times and are sorted by them: no file is read.
    let ages = paths.iter().filter_map(|path| age(path, now));
    let old: Vec<Duration> = ages.filter(|age| *age > REMIND_AFTER).collect();
    let Some(oldest) = old.first() else { return };
    if !take_turn(&directory.join("reminded"), now) {
        return;
    }
    let has = if old.len() == 1 { "has" } else { "have" };
    warn(&format!(
        "{} {has} been queued for more than an hour (the longest for {}); `chlog spool status` shows why, `chlog spool flush` sends what can be sent",
        plural(old.len() as u64, "change"),
        time::duration(*oldest)
    ));
}

/// Returns how long a file has waited; none if its name holds no time.
fn age(path: &Path, now: SystemTime) -> Option<Duration> {
    let id: Uuid = folder::id_of(path).parse().ok()?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    let kept = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    now.duration_since(kept).ok()
}

/// Returns whether a reminder is due, and stores that it was given. If that
/// cannot be stored, no reminder is due: it would come with every command.
fn take_turn(path: &Path, now: SystemTime) -> bool {
    let Ok(file) = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
    else {
        return false;
    };
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    // An empty file was created just now. A time in the future is from before
    // the clock was set back.
    let last = metadata.modified().ok().filter(|_| metadata.len() > 0);
    let is_recent =
        last.is_some_and(|last| now.duration_since(last).is_ok_and(|ago| ago < REMIND_EVERY));
    if is_recent {
        return false;
    }
    (&file).write_all(b"reminded\n").is_ok() && file.set_modified(now).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reminder_is_due_once_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reminded");
        let now = SystemTime::now();
        assert!(take_turn(&path, now));
        assert!(!take_turn(&path, now + Duration::from_hours(23)));
        assert!(take_turn(&path, now + Duration::from_hours(25)));
        // The clock was set back.
        assert!(take_turn(&path, now - Duration::from_hours(1)));
        assert!(!take_turn(&path, now));
        assert!(!take_turn(Path::new("/nowhere/at/all"), now));
    }

    #[test]
    fn the_age_of_a_file_is_in_its_name() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let name = "00000007-a120-7000-8000-000000000000.json"; // 500 s
        assert_eq!(age(Path::new(name), now), Some(Duration::from_secs(500)));
        assert_eq!(age(Path::new("torn.json"), now), None);
    }
}
