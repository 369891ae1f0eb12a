//! Running the service: admin commands, processes, databases, overload.

mod admin_commands;
mod checks;
mod clock_changes;
mod connections;
mod demo;
mod durability;
mod erasure;
mod export;
mod late_answers;
mod metrics;
mod no_secrets_written;
mod organization_fairness;
mod packages;
mod poll_times;
mod poolers;
mod proxies;
mod readiness;
mod restore;
mod retention;
mod several_servers;
mod sqlite_other_processes;
mod sqlite_wal;
mod startup;
mod systemd;
mod three_servers;
mod unread_responses;
