//! The environment variables of CI systems.

use changelog_core::Environment;

use super::run::Ref;
use super::target;
use crate::base::text::{first_line, without_controls};
use crate::environment::repository::{Repository, web_url};

/// Returns the value of a variable, if it is set.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of the environment that are not empty.
pub(super) struct Variables<'a>(pub(super) Lookup<'a>);

impl Variables<'_> {
    pub(super) fn get(&self, name: &str) -> Option<String> {
        without_controls(&(self.0)(name)?)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns a URL without the parts that may be secret.
    pub(super) fn page(&self, name: &str) -> Option<String> {
        web_url(&self.get(name)?).map(Into::into)
    }

    pub(super) fn branch(&self, name: &str) -> Option<Ref> {
        self.get(name).map(Ref::Branch)
    }

    pub(super) fn tag(&self, name: &str) -> Option<Ref> {
        self.get(name).map(Ref::Tag)
    }

    /// Returns the environment that a variable names.
    pub(super) fn environment(&self, name: &str) -> Option<Environment> {
        target::environment(&self.get(name)?)
    }

    pub(super) fn first_line(&self, name: &str) -> Option<String> {
        first_line(&(self.0)(name)?)
    }

    pub(super) fn remote(&self, name: &str) -> Option<Repository> {
        Repository::of_remote(&self.get(name)?)
    }
}
