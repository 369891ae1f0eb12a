//! Sources: what other systems send, through real HTTP, as changes.

mod alertmanager;
mod alerts;
mod calls;
mod coverage;
mod floods;
mod receiving;
mod runs;
mod slack_command;
