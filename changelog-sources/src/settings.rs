//! What an organization sets for a source.

pub use changelog_core::source::{
    AlertTemplates, GenericTemplates, RiskRules, SourceSettings as Settings,
};
