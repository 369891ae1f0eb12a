//! The flags of `chlog terraform` and its subcommands.

use changelog_core::limits::{MAX_LINKS, MAX_TAGS};
use changelog_core::{Input, NewChange};
use clap::Args;

use crate::base::time;
use crate::environment::context::ContextArgs;
use crate::input::flags::ChangeFields;
use crate::recording::submit::SubmitArgs;

/// The flags of all subcommands.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Title; by default such as "terraform apply: 2 added"
    #[arg(long, value_name = "TITLE", help_heading = "The change")]
    pub(super) title: Option<String>,
    #[command(flatten)]
    pub(super) fields: ChangeFields,
    /// Record a run that changes nothing
    #[arg(long, help_heading = "Behaviour")]
    pub(super) always: bool,
    #[command(flatten)]
    pub(super) submit: SubmitArgs,
    #[command(flatten)]
    pub(super) context: ContextArgs,
}

impl Flags {
    /// Returns the flags without invalid values.
    pub(super) fn without_invalid(&self) -> Self {
        let now = time::now();
        let is_valid = |change: NewChange| {
            let mut change = change;
            if change.title.is_empty() {
                "A valid title".clone_into(&mut change.title);
            }
            change.checked(now).is_ok()
        };
        let text = |text: &Option<String>, of: fn(String) -> NewChange| {
            text.clone().filter(|text| is_valid(of(text.clone())))
        };
        let fields = &self.fields;
        let tags = fields.tags.iter().flatten().filter(|tag| {
            is_valid(NewChange {
                tags: vec![(*tag).clone()],
                ..NewChange::default()
            })
        });
        let links = fields.links.iter().flatten().filter(|link| {
            is_valid(NewChange {
                links: vec![(*link).clone()],
                ..NewChange::default()
            })
        });
        Self {
            title: text(&self.title, |title| NewChange {
                title,
                ..NewChange::default()
            }),
            fields: ChangeFields {
                tags: Some(tags.take(MAX_TAGS).cloned().collect()),
                links: Some(links.take(MAX_LINKS).cloned().collect()),
                description: text(&fields.description, |text| NewChange {
                    description: Some(text),
                    ..NewChange::default()
                }),
                agent: fields.agent.clone().filter(|agent| {
                    is_valid(NewChange {
                        agent: Some(agent.clone()),
                        ..NewChange::default()
                    })
                }),
                texts: fields.texts.retain_valid(is_valid),
                ..fields.clone()
            },
            ..self.clone()
        }
    }
}
