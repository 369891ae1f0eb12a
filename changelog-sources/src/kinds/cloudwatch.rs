//! Alarms of Amazon CloudWatch, through SNS:
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/AlarmThatSendsEmail.html>.
//!
//! The alarm is JSON in the text of the message, or the body itself where SNS delivers raw
//! messages. An alarm fires in the state `ALARM` and is resolved in the state `OK`.

use super::{Kind, sns};
use crate::alert::{Alert, Labels};
use crate::json::{list, parse, required, text, time};
use crate::observation::{Reading, Unreadable};
use crate::received::Received;
use crate::settings::Settings;

pub(super) const KIND: Kind = Kind {
    handshake: sns::handshake,
    request_id: |received| text(&parse(received.body).ok()?, "/MessageId"),
    ..Kind::new(read)
};

/// The dimensions that name what is affected, after the labels of the source.
const DIMENSIONS: [&str; 8] = [
    "ServiceName",
    "FunctionName",
    "ApiName",
    "DBInstanceIdentifier",
    "DBClusterIdentifier",
    "QueueName",
    "TableName",
    "ClusterName",
];

fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let alarm = match text(&body, "/Message") {
        Some(message) => match parse(message.as_bytes()) {
            Ok(alarm) => alarm,
            Err(_) => return Ok(Reading::ignored("the message is text, not an alarm")),
        },
        None => body,
    };
    let name = required(&alarm, "/AlarmName", "the message")?;
    let state = required(&alarm, "/NewStateValue", "the alarm")?;
    let is_firing = match state.as_str() {
        "ALARM" => true,
        "OK" => false,
        other => {
            let reason = format!("the state {other} neither alerts nor recovers");
            return Ok(Reading::ignored(reason));
        }
    };
    let mut labels = Labels::default();
    let dimensions = list(&alarm, "/Trigger/Dimensions").iter();
    labels.extend(
        dimensions
            .filter_map(|one| Some((text(one, "/name")?, text(one, "/value")?)))
            .collect(),
    );
    let mut services = labels.services(settings);
    services.extend(labels.named(DIMENSIONS));
    let mut places = labels.places(settings);
    places.extend([name.clone()]);
    places.extend(text(&alarm, "/AWSAccountId"));
    let arn = text(&alarm, "/AlarmArn");
    let account = text(&alarm, "/AWSAccountId").unwrap_or_default();
    let region = text(&alarm, "/Region").unwrap_or_default();
    Ok(Alert {
        url: arn.as_deref().and_then(|arn| console(arn, &name)),
        key: arn.unwrap_or_else(|| format!("{account}/{region}/{name}")),
        at: time(&alarm, "/StateChangeTime").unwrap_or(received.at),
        told_at: None,
        is_firing,
        title: text(&alarm, "/AlarmDescription").unwrap_or(name),
        severity: labels.severity(),
        services,
        places,
        started_at: None,
    }
    .into())
}

/// Returns the alarm's page in the console of its region.
fn console(arn: &str, name: &str) -> Option<String> {
    let region = arn.split(':').nth(3).filter(|region| !region.is_empty())?;
    let is_region = region
        .chars()
        .all(|one| one.is_ascii_alphanumeric() || one == '-');
    let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    is_region.then(|| {
        format!("https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#alarmsV2:alarm/{name}")
    })
}

#[cfg(test)]
mod tests {
    use changelog_core::SourceKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::handshake::Handshake;
    use crate::kinds::testing::{alerts_of, id_of, ignored, received, withstands_garbage};

    const KIND: SourceKind = SourceKind::Cloudwatch;

    fn alarm(state: &str) -> Value {
        json!({
            "AlarmName": "payments-prod-5xx", "AlarmDescription": null,
            "AWSAccountId": "123456789012", "NewStateValue": state, "OldStateValue": "OK",
            "NewStateReason": "Threshold Crossed", "Region": "EU (Ireland)",
            "StateChangeTime": "2026-11-25T10:00:00.123+0000",
            "AlarmArn": "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:payments-prod-5xx",
            "Trigger": { "MetricName": "5XXError", "Namespace": "AWS/ECS", "Dimensions": [
                { "name": "ClusterName", "value": "eu" },
                { "name": "ServiceName", "value": "payments" },
            ]},
        })
    }

    fn notification(alarm: &Value) -> Value {
        json!({
            "Type": "Notification", "MessageId": "m-1", "TopicArn": "arn:aws:sns:eu-west-1:1:t",
            "Subject": "ALARM", "Message": alarm.to_string(), "SignatureVersion": "1",
        })
    }

    #[test]
    fn an_alarm_fires_until_it_is_ok() {
        for (state, is_firing) in [("ALARM", true), ("OK", false)] {
            for body in [alarm(state), notification(&alarm(state))] {
                let alerts = alerts_of(&KIND, &Settings::default(), &[], &body.to_string());
                let alert = &alerts[0];
                assert_eq!(alert.is_firing, is_firing);
                assert_eq!(alert.title, "payments-prod-5xx");
                assert_eq!(alert.services, ["payments", "eu"]);
                assert_eq!(alert.places, ["payments-prod-5xx", "123456789012"]);
                assert_eq!(alert.at, "2026-11-25T10:00:00.123Z".parse().unwrap());
                let url = alert.url.as_deref().unwrap();
                assert!(url.ends_with("?region=eu-west-1#alarmsV2:alarm/payments-prod-5xx"));
            }
        }
        let body = notification(&alarm("INSUFFICIENT_DATA"));
        let reason = "the state INSUFFICIENT_DATA neither alerts nor recovers";
        assert_eq!(ignored(&KIND, &[], &body), [reason]);
        assert_eq!(id_of(&KIND, &[], &body).as_deref(), Some("m-1"));
        let hello = json!({ "Type": "Notification", "Message": "hello" });
        assert_eq!(
            ignored(&KIND, &[], &hello),
            ["the message is text, not an alarm"]
        );
        withstands_garbage(&KIND, &[], &alarm("ALARM"));
    }

    #[test]
    fn a_subscription_is_confirmed_by_an_admin() {
        let link = "https://sns.example.com/1";
        let body = json!({ "Type": "SubscriptionConfirmation", "SubscribeURL": link }).to_string();
        let answer = received(&[], &body, |received| {
            super::super::handshake(&KIND, received)
        });
        assert_eq!(answer, Some(Handshake::Confirm(link.to_owned())));
    }
}
