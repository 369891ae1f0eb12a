use changelog_core::SourceKind;
use serde_json::json;

use super::*;
use crate::kinds::testing::{changes_of, reading_of, received};

const KIND: SourceKind = SourceKind::Cloudtrail;

fn event(name: &str, second: u32) -> Value {
    json!({
        "eventVersion": "1.10", "eventCategory": "Management", "managementEvent": true,
        "eventType": "AwsApiCall", "readOnly": false, "eventSource": "s3.amazonaws.com",
        "eventName": name, "eventID": format!("id-{name}-{second}"),
        "eventTime": format!("2026-11-20T10:00:{second:02}Z"), "awsRegion": "eu-west-1",
        "recipientAccountId": "111122223333", "userAgent": "aws-cli/2.17 md/x",
        "userIdentity": { "type": "IAMUser", "userName": "ada" },
        "requestParameters": { "bucketName": "acme-logs", "policy": "hunter2" },
    })
}

fn with(mut event: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

fn title_of(event: &Value) -> String {
    let changes = changes_of(&KIND, &Settings::default(), &[(vec![], event.to_string())]);
    assert_eq!(changes.len(), 1, "{event}");
    assert!(!format!("{changes:?}").contains("hunter2"));
    changes[0].fields["title"].as_str().unwrap().to_owned()
}

#[test]
fn a_call_is_one_change_however_it_is_wrapped_and_repeated() {
    let record = event("DeleteBucket", 1);
    let bridged = json!({
        "id": "e-1", "detail-type": "AWS API Call via CloudTrail", "detail": record,
    });
    let notified = json!({
        "Type": "Notification", "MessageId": "m-1", "Message": bridged.to_string(),
    });
    let bodies = [
        record.clone(),
        json!({ "Records": [record, {}, 7] }),
        json!([bridged, notified]),
        bridged,
        notified,
    ];
    let requests = bodies.map(|body| (vec![], body.to_string()));
    let changes = changes_of(&KIND, &Settings::default(), &requests);
    assert_eq!(changes.len(), 1);
    assert_eq!(
        Value::Object(changes[0].fields.clone()),
        json!({
            "title": "Delete bucket acme-logs (s3) by ada via AWS CLI",
            "risk_level": "high", "status": "completed", "outcome": "succeeded",
            "occurred_at": "2026-11-20T10:00:01.000Z",
            "started_at": "2026-11-20T10:00:01.000Z",
            "ended_at": "2026-11-20T10:00:01.000Z",
            "on_behalf_of": "ada", "tags": ["cloudtrail", "by-hand"],
            "links": [{
                "label": "CloudTrail",
                "url": "https://eu-west-1.console.aws.amazon.com/cloudtrailv2/home?region=eu-west-1#/events/id-DeleteBucket-1",
            }],
        })
    );
}

#[test]
fn calls_of_one_session_are_one_change() {
    let records = [event("CreateBucket", 1), event("PutBucketPolicy", 9)];
    let body = json!({ "Records": records }).to_string();
    let changes = changes_of(&KIND, &Settings::default(), &[(vec![], body)]);
    assert_eq!(changes[0].fields["title"], "AWS CLI by ada: 2 calls, s3");
    assert_eq!(
        changes[0].fields["description"],
        "- `CreateBucket acme-logs (eu-west-1)`\n- `PutBucketPolicy acme-logs (eu-west-1)`"
    );
}

#[test]
fn a_call_about_one_instance_names_a_host() {
    let host_of = |parameters: Value| {
        let mut event = event("RebootInstances", 1);
        event["eventSource"] = json!("ec2.amazonaws.com");
        event["requestParameters"] = parameters;
        let requests = [(vec![], event.to_string())];
        let mut changes = changes_of(&KIND, &Settings::default(), &requests);
        changes.remove(0).hostname
    };
    let items = |ids: &[&str]| {
        let items: Vec<Value> = ids.iter().map(|id| json!({ "instanceId": id })).collect();
        json!({ "instancesSet": { "items": items } })
    };
    assert_eq!(host_of(items(&["i-1"])).as_deref(), Some("i-1"));
    assert_eq!(host_of(items(&["i-1", "i-2"])), None);
    assert_eq!(
        host_of(json!({ "instanceId": "i-1" })).as_deref(),
        Some("i-1")
    );
}

#[test]
fn titles_tell_who_did_what_with_what() {
    let role = |role: &str, session: &str| {
        json!({
            "type": "AssumedRole", "principalId": format!("AROA:{session}"),
            "sessionContext": { "sessionIssuer": { "userName": role, "arn": "arn:aws:iam::1:role/x" } },
        })
    };
    for (members, title) in [
        (
            json!({
                "eventName": "RunInstances", "eventSource": "ec2.amazonaws.com",
                "userIdentity": role("deployer", "ci-7"), "requestParameters": null,
                "userAgent": "APN/1.0 HashiCorp/1.0 Terraform/1.9.0",
                "responseElements": { "instancesSet": { "items": [{ "instanceId": "i-0abc" }, { "instanceId": "i-0abd" }] } },
            }),
            "Run instances i-0abc and 1 more (ec2) by role deployer via Terraform",
        ),
        (
            json!({ "userIdentity": role("AWSReservedSSO_Admin_0a", "ada@example.com"), "sessionCredentialFromConsole": "true", "userAgent": "x" }),
            "Delete bucket acme-logs (s3) by ada@example.com in the console",
        ),
        (
            json!({ "userIdentity": { "type": "Root" }, "userAgent": "signin.amazonaws.com" }),
            "Delete bucket acme-logs (s3) by root in the console",
        ),
        (
            json!({ "userIdentity": { "type": "IAMUser", "userName": "ci-deployer", "invokedBy": "cloudformation.amazonaws.com" }, "userAgent": "cloudformation.amazonaws.com" }),
            "Delete bucket acme-logs (s3) by ci-deployer via CloudFormation",
        ),
        (
            json!({ "eventName": "PutSecretValue", "eventSource": "secretsmanager.amazonaws.com", "userAgent": "Boto3/1.3", "requestParameters": { "secretId": "db", "secretString": "hunter2" } }),
            "Set value of secret db (secretsmanager) by ada",
        ),
        (
            json!({ "userAgent": "x", "userIdentity": null }),
            "Delete bucket acme-logs (s3)",
        ),
    ] {
        assert_eq!(title_of(&with(event("DeleteBucket", 1), &members)), title);
    }
}

#[test]
fn titles_name_what_was_changed_and_not_what_holds_it() {
    for (call, request, response, expected) in [
        (
            "CreateSubnet",
            json!({ "vpcId": "vpc-1" }),
            json!({ "subnet": { "subnetId": "subnet-1", "vpcId": "vpc-1" } }),
            "Create subnet subnet-1",
        ),
        (
            "StopInstances",
            json!({ "instancesSet": { "items": [{ "instanceId": "i-1" }] } }),
            json!(null),
            "Stop instance i-1",
        ),
        (
            "ModifyDBSnapshotAttribute",
            json!({ "dBSnapshotIdentifier": "nightly" }),
            json!(null),
            "Modify attribute of DB snapshot nightly",
        ),
        (
            "RestoreDBInstanceFromDBSnapshot",
            json!({ "dBInstanceIdentifier": "orders", "dBSnapshotIdentifier": "nightly" }),
            json!(null),
            "Restore DB instance orders",
        ),
        (
            "AttachRolePolicy",
            json!({ "policyArn": "arn:aws:iam::aws:policy/ReadOnly", "roleName": "deployer" }),
            json!(null),
            "Attach policy to role deployer",
        ),
        (
            "AddPermission20150331v2",
            json!({ "functionName": "payments", "action": "lambda:InvokeFunction" }),
            json!(null),
            "Add permission to function payments",
        ),
        (
            "CreateAccessKey",
            json!({ "userName": "ada" }),
            json!({ "accessKey": { "accessKeyId": "hunter2", "userName": "ada" } }),
            "Create access key of user ada",
        ),
        (
            "DeleteNatGateway",
            json!({ "DeleteNatGatewayRequest": { "NatGatewayId": "nat-1" } }),
            json!(null),
            "Delete NAT gateway nat-1",
        ),
        (
            "CreateTags",
            json!({ "resourcesSet": { "items": [{ "resourceId": "i-1" }, { "resourceId": "i-2" }] } }),
            json!(null),
            "Create tags of i-1 and 1 more",
        ),
    ] {
        let members = json!({
            "eventName": call, "requestParameters": request, "responseElements": response,
        });
        let title = title_of(&with(event(call, 1), &members));
        assert_eq!(title, format!("{expected} (s3) by ada via AWS CLI"));
    }
}

#[test]
fn calls_of_whom_nobody_knows_are_no_session() {
    let unknown = |second| {
        with(
            event("CreateBucket", second),
            &json!({ "userIdentity": null }),
        )
    };
    let body = json!({ "Records": [unknown(1), unknown(2)] }).to_string();
    let changes = changes_of(&KIND, &Settings::default(), &[(vec![], body)]);
    assert_eq!(changes.len(), 2);
}

#[test]
fn deliveries_of_cloudwatch_logs_and_byte_order_marks_are_taken_off() {
    let message = event("DeleteBucket", 1).to_string();
    let delivery = json!({
        "messageType": "DATA_MESSAGE", "logGroup": "trail",
        "logEvents": [{ "id": "1", "message": message }, { "id": "2", "message": "started" }],
    });
    for body in [
        delivery.to_string(),
        format!("\u{feff}{message}\n{message}\n"),
    ] {
        let changes = changes_of(&KIND, &Settings::default(), &[(vec![], body)]);
        assert_eq!(changes.len(), 1);
        assert_eq!(
            changes[0].fields["title"],
            "Delete bucket acme-logs (s3) by ada via AWS CLI"
        );
    }
}

#[test]
fn what_changes_nothing_is_ignored_with_a_reason() {
    for (members, reason) in [
        (
            json!({ "eventName": "UpdateInstanceInformation", "eventSource": "ssm.amazonaws.com" }),
            "what agents report is no change",
        ),
        (
            json!({ "eventName": "DeleteMessage", "eventSource": "ec2messages.amazonaws.com" }),
            "what agents report is no change",
        ),
        (
            json!({ "eventName": "StartQueryExecution", "eventSource": "athena.amazonaws.com" }),
            "calls that only read are no changes",
        ),
        (
            json!({ "eventName": "ObjectCreated:Put", "eventSource": "aws:s3", "eventCategory": null, "managementEvent": null }),
            "calls on data are no changes",
        ),
        (
            json!({ "readOnly": true }),
            "calls that only read are no changes",
        ),
        (
            json!({ "readOnly": "true" }),
            "calls that only read are no changes",
        ),
        (
            json!({ "readOnly": null, "eventName": "ListBuckets" }),
            "calls that only read are no changes",
        ),
        (
            json!({ "eventCategory": "Data" }),
            "calls on data are no changes",
        ),
        (
            json!({ "managementEvent": false }),
            "calls on data are no changes",
        ),
        (
            json!({ "eventCategory": "Insight" }),
            "events of the category Insight are no changes",
        ),
        (
            json!({ "errorCode": "AccessDenied" }),
            "calls that failed are no changes",
        ),
        (
            json!({ "eventName": "ConsoleLogin" }),
            "sign-ins and taken roles are no changes",
        ),
        (
            json!({ "eventName": "AssumeRoleWithSAML" }),
            "sign-ins and taken roles are no changes",
        ),
        (json!({ "eventType": "AwsServiceEvent" }), BY_AWS),
        (json!({ "userIdentity": { "type": "AWSService" } }), BY_AWS),
        (
            json!({ "userIdentity": { "invokedBy": "rds.amazonaws.com" } }),
            BY_AWS,
        ),
    ] {
        let body = with(event("DeleteBucket", 1), &members).to_string();
        let reading = reading_of(&KIND, &Settings::default(), &[], &body).unwrap();
        assert_eq!(reading, Reading::ignored(reason));
    }
    let other = json!({ "detail-type": "EC2 Instance State-change Notification", "detail": {} });
    let reading = reading_of(&KIND, &Settings::default(), &[], &other.to_string()).unwrap();
    assert_eq!(
        reading,
        Reading::ignored(
            "events of the detail type EC2 Instance State-change Notification are no changes"
        )
    );
}

#[test]
fn a_subscription_is_confirmed_by_a_person() {
    let body =
        json!({ "Type": "SubscriptionConfirmation", "SubscribeURL": "https://sns.example.com/1" });
    let body = body.to_string();
    let answer = received(&[], &body, sns::handshake);
    assert_eq!(
        answer,
        Some(crate::handshake::Handshake::Confirm(
            "https://sns.example.com/1".to_owned()
        ))
    );
}

#[test]
fn what_is_no_event_is_unreadable() {
    for body in ["", "{", "{}", "7", "nothing"] {
        assert!(
            reading_of(&KIND, &Settings::default(), &[], body).is_err(),
            "{body}"
        );
    }
}
