//! The resources that a run or a plan changes.

use changelog_core::RiskLevel;

use crate::base::text::{first_line, shorten};

/// How many addresses are listed; the rest is counted.
pub(crate) const MAX_ADDRESSES: usize = 50;
/// The longest address, in characters.
pub(super) const MAX_ADDRESS: usize = 200;

/// What happens to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Update,
    Replace,
    Delete,
    Import,
    Move,
    Forget,
}

impl Action {
    /// Parses the word of the event stream; none if it changes nothing.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "create" => Self::Create,
            "update" => Self::Update,
            "replace" => Self::Replace,
            "delete" => Self::Delete,
            "import" => Self::Import,
            "move" => Self::Move,
            "remove" | "forget" => Self::Forget,
            _ => return None,
        })
    }

    /// Returns the verb for descriptions.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Replace => "replace",
            Self::Delete => "destroy",
            Self::Import => "import",
            Self::Move => "move",
            Self::Forget => "forget",
        }
    }

    fn risk(self) -> RiskLevel {
        match self {
            Self::Delete | Self::Replace => RiskLevel::High,
            Self::Update | Self::Forget => RiskLevel::Medium,
            Self::Create | Self::Import | Self::Move => RiskLevel::Low,
        }
    }
}

/// The progress of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Planned,
    Done,
    Failed,
}

/// A changed resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) address: String,
    pub(crate) action: Action,
    pub(crate) state: State,
}

/// The changed resources: the first ones, and the number of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) listed: Vec<Resource>,
    pub(crate) more: u64,
    /// Whether any action has a high risk.
    pub(super) has_high_risk: bool,
    /// Whether any action has a medium risk.
    pub(super) has_medium_risk: bool,
}

impl Resources {
    pub(crate) fn add(&mut self, address: &str, action: Action, state: State) {
        match action.risk() {
            RiskLevel::High => self.has_high_risk = true,
            RiskLevel::Medium => self.has_medium_risk = true,
            _ => {}
        }
        if self.listed.len() < MAX_ADDRESSES {
            let address = shown_address(address);
            self.listed.push(Resource {
                address,
                action,
                state,
            });
        } else {
            self.more += 1;
        }
    }

    /// Finds a listed resource.
    pub(crate) fn find(&mut self, address: &str) -> Option<&mut Resource> {
        let address = shown_address(address);
        self.listed.iter_mut().find(|one| one.address == address)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Returns whether all listed resources are destroyed.
    pub(crate) fn only_deletes(&self) -> bool {
        !self.is_empty() && self.listed.iter().all(|one| one.action == Action::Delete)
    }
}

/// The numbers of resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) added: u64,
    pub(crate) changed: u64,
    pub(crate) destroyed: u64,
    pub(crate) imported: u64,
}

impl Counts {
    /// Counts an action that is done or planned.
    pub(crate) fn count(&mut self, action: Action) {
        match action {
            Action::Create => self.added += 1,
            Action::Update => self.changed += 1,
            Action::Delete => self.destroyed += 1,
            Action::Import => self.imported += 1,
            Action::Replace => {
                self.added += 1;
                self.destroyed += 1;
            }
            Action::Move | Action::Forget => {}
        }
    }

    /// Formats the numbers that are not zero; none if all are. `words` follow the
    /// added, changed, destroyed and imported resources.
    pub(super) fn text(self, words: [&str; 4]) -> Option<String> {
        let counts = [self.added, self.changed, self.destroyed, self.imported];
        let parts: Vec<String> = counts
            .iter()
            .zip(words)
            .filter(|(count, _)| **count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Returns an address as it is listed: on one line, shortened.
pub(super) fn shown_address(address: &str) -> String {
    shorten(&first_line(address).unwrap_or_default(), MAX_ADDRESS)
}
