//! The wrapping of Amazon SNS: <https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html>.
//!
//! Its signatures are made with a certificate at an address of Amazon, which cannot be
//! fetched from everywhere: the token in the address is the proof.

use crate::handshake::Handshake;
use crate::json::{parse, text};
use crate::received::Received;

/// Answers SNS, which asks whether a subscription is wanted: the link is for an admin.
pub(super) fn handshake(received: &Received<'_>) -> Option<Handshake> {
    let body = parse(received.body).ok()?;
    let is_question = text(&body, "/Type").as_deref() == Some("SubscriptionConfirmation");
    text(&body, "/SubscribeURL")
        .filter(|_| is_question)
        .map(Handshake::Confirm)
}
