//! Mails: to whom and about what is the store's business, how they look and how they are
//! sent is that of this module.

pub(crate) mod message;
mod smtp;
mod worker;

pub use smtp::{MailSettings, Mailer, SmtpUrl};
pub(crate) use worker::run;
