//! One reminder a day of what has waited for long, whatever it is bound to: an
//! address that is mistyped or retired never answers, and the key of another
//! organization may never be used here again.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{directory, name_of, paths};
use crate::base::failure::warn;
use crate::base::time;

/// How long something has waited before anybody is reminded.
const LONG: Duration = Duration::from_hours(1);
/// How long it is until the next reminder.
const PAUSE: Duration = Duration::from_hours(24);

/// Reminds of what has waited for longer than an hour, once a day.
pub(crate) fn remind() {
    let Some(directory) = directory() else { return };
    let Ok(paths) = paths(&directory) else { return };
    let now = SystemTime::now();
    // The names sort by time, and say it: nothing is read.
    let ages = paths.iter().filter_map(|path| age(path, now));
    let old: Vec<Duration> = ages.filter(|age| *age > LONG).collect();
    let Some(oldest) = old.first() else { return };
    let Some(count) = due(&directory.join("reminded"), now).then_some(old.len()) else {
        return;
    };
    let changes = if count == 1 {
        "change has"
    } else {
        "changes have"
    };
    warn(&format!(
        "{count} {changes} waited for more than an hour to be sent (the longest for {}); \
         `chlog spool status` shows why, `chlog spool flush` sends what can be sent",
        time::span(*oldest)
    ));
}

/// Returns for how long a file has waited; none where its name does not say.
fn age(path: &Path, now: SystemTime) -> Option<Duration> {
    let id: Uuid = name_of(path).parse().ok()?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    let kept = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    now.duration_since(kept).ok()
}

/// Returns whether a reminder is due, and notes that it was given. Where that
/// cannot be noted there is none, or it would come with every command.
fn due(path: &Path, now: SystemTime) -> bool {
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
    // A file that was made just now has not reminded anybody. One from the
    // future is from before the clock was set back.
    let last = metadata.modified().ok().filter(|_| metadata.len() > 0);
    let is_recent = last.is_some_and(|last| now.duration_since(last).is_ok_and(|ago| ago < PAUSE));
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
        assert!(due(&path, now));
        assert!(!due(&path, now + Duration::from_hours(23)));
        assert!(due(&path, now + Duration::from_hours(25)));
        // The clock was set back.
        assert!(due(&path, now - Duration::from_hours(1)));
        assert!(!due(&path, now));
        assert!(!due(Path::new("/nowhere/at/all"), now));
    }

    #[test]
    fn names_say_for_how_long_a_change_has_waited() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let name = "00000007-a120-7000-8000-000000000000.json"; // 500 s
        assert_eq!(age(Path::new(name), now), Some(Duration::from_secs(500)));
        assert_eq!(age(Path::new("torn.json"), now), None);
    }
}
