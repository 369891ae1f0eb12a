//! Slash commands of Slack and the buttons of their answers:
//! <https://docs.slack.dev/interactivity/implementing-slash-commands>. They are answered at
//! once ([`crate::SlackRequest`]), so that nothing is read later.

use super::Kind;
use crate::observation::Unreadable;
use crate::proof::Proof;

pub(super) const KIND: Kind = Kind {
    proofs: &[Proof::Slack],
    is_signed: true,
    ..Kind::new(|_, _| Err(Unreadable("commands are answered at once".to_owned())))
};

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;

    use crate::kinds::testing::received_bytes;
    use crate::verify;

    #[test]
    fn the_signature_of_the_documentation_holds_for_five_minutes() {
        // The example of https://docs.slack.dev/authentication/verifying-requests-from-slack.
        let secret = "8f742231b10e8888abcd99yyyzzz85a5";
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
            &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
            &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com\
            %2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
            &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        let holds = |signature: &str, time: &str, body: &[u8], late: i64| {
            let headers = [
                ("x-slack-signature", signature),
                ("x-slack-request-timestamp", time),
            ];
            received_bytes(&headers, body, |received| {
                let at = changelog_core::Timestamp::from_millis((1_531_420_618 + late) * 1_000);
                let received = crate::Received { at, ..*received };
                verify(&SourceKind::SlackCommand, Some(secret), &received).is_ok()
            })
        };
        let time = "1531420618";
        assert!(holds(signature, time, body, 0));
        assert!(holds(signature, time, body, 299));
        assert!(!holds(signature, time, body, 301));
        assert!(!holds(signature, time, body, -301));
        assert!(!holds(signature, "1531420619", body, 0));
        assert!(!holds(signature, "", body, 0));
        assert!(!holds(&signature.replace("v0=", "v1="), time, body, 0));
        assert!(!holds(signature, time, b"text=other", 0));
    }
}
