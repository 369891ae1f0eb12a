//! How many of the changes that ended were rolled back or failed.

use askama::Template;
use changelog_core::Status;

use crate::dashboard::parts::format;
use crate::store::KindCounts;

/// What is wrong with the counted changes.
pub(super) const UNDONE: &str = "rolled back or failed";
/// From these rates in percent on, a rate is elevated and high.
const ELEVATED: u64 = 5;
const HIGH: u64 = 15;

/// The share of rolled back and failed changes in those that ended, as a figure and a bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Template)]
#[template(path = "charts/rate.html")]
pub(crate) struct RollbackRate {
    undone: u64,
    ended: u64,
}

impl RollbackRate {
    /// Fewer finished changes than this have no rate.
    const MIN_ENDED: u64 = 5;

    pub(super) fn of(counts: impl Iterator<Item = KindCounts>) -> Self {
        counts.fold(Self::default(), |rate, counts| {
            let undone = counts.with_status(&Status::RolledBack);
            Self {
                undone: rate.undone + undone,
                ended: rate.ended + undone + counts.with_status(&Status::Completed),
            }
        })
    }

    /// Returns the rate in percent, if enough changes have ended.
    fn percent(&self) -> Option<u64> {
        (self.ended >= Self::MIN_ENDED).then(|| self.rounded())
    }

    fn rounded(&self) -> u64 {
        let ended = self.ended.max(1);
        (self.undone * 100 + ended / 2) / ended
    }

    /// Returns the CSS class of the figure, and the word next to it.
    fn level(&self) -> &'static str {
        match self.rounded() {
            HIGH.. => "high",
            ELEVATED.. => "elevated",
            _ => "",
        }
    }

    /// Returns whether many of these changes were rolled back or failed, even if there are
    /// few changes.
    pub(super) fn is_high(&self) -> bool {
        self.rounded() >= HIGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::parts::charts::tests::counts;
    use changelog_core::RiskLevel;

    fn rate(completed: u64, undone: u64) -> RollbackRate {
        let day = counts(&[
            (RiskLevel::Low, Status::Completed, completed),
            (RiskLevel::High, Status::RolledBack, undone),
            (RiskLevel::High, Status::InProgress, 100),
        ]);
        RollbackRate::of([day, KindCounts::default()].into_iter())
    }

    #[test]
    fn a_rate_needs_enough_changes() {
        assert_eq!(rate(3, 1).percent(), None);
        assert_eq!(rate(4, 1).percent(), Some(20));
        assert_eq!(rate(0, 5).percent(), Some(100));
        let html = rate(3, 1).render().unwrap();
        assert!(
            html.contains("Not enough data yet (shown from 5 finished changes)"),
            "{html}"
        );
    }

    #[test]
    fn a_bad_rate_does_not_look_good() {
        for (completed, undone, level, words) in [
            (96, 4, "", "4%"),
            (95, 5, "elevated", "5%"),
            (1_645, 126, "elevated", "126 of 1,771 finished changes"),
            (85, 15, "high", "15%"),
        ] {
            let rate = rate(completed, undone);
            assert_eq!(rate.level(), level, "{undone} of {completed}");
            let html = rate.render().unwrap();
            assert!(html.contains(words), "{html}");
            assert_eq!(
                html.contains(&format!(">{level}</span>")),
                !level.is_empty(),
                "{html}"
            );
        }
    }
}
