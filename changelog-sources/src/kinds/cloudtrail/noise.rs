//! What CloudTrail reports that is no change.

use serde_json::Value;

use crate::json::text;
use crate::kinds::calls::{NoCall, ignored, reads};

/// The calls that sign in or assume a role, including the variants that S3 and others use.
const SIGN_INS: [&str; 16] = [
    "AdminInitiateAuth",
    "AdminRespondToAuthChallenge",
    "Authenticate",
    "Authorize",
    "ConsoleLogin",
    "CreateOAuth2Token",
    "CreateSession",
    "CreateToken",
    "Federate",
    "InitiateAuth",
    "Logout",
    "RegisterClient",
    "RespondToAuthChallenge",
    "RevokeToken",
    "StartDeviceAuthorization",
    "SwitchRole",
];

/// The calls by which agents on instances and in containers report, and fetch what to do, all
/// of which are said to write: of Systems Manager, CloudWatch, ECS, ECR, EFS and Auto Scaling.
const AGENT_CALLS: [&str; 26] = [
    "AcknowledgeMessage",
    "CompleteLayerUpload",
    "CreateControlChannel",
    "CreateDataChannel",
    "CreateLogStream",
    "DiscoverPollEndpoint",
    "FailMessage",
    "InitiateLayerUpload",
    "NewClientConnection",
    "OpenControlChannel",
    "OpenDataChannel",
    "Poll",
    "PutComplianceItems",
    "PutConfigurePackageResult",
    "PutInventory",
    "RecordLifecycleActionHeartbeat",
    "RegisterContainerInstance",
    "SendReply",
    "StartTelemetrySession",
    "SubmitAttachmentStateChanges",
    "SubmitContainerStateChange",
    "SubmitTaskStateChange",
    "UpdateInstanceAssociationStatus",
    "UpdateInstanceInformation",
    "UpdateInstanceCustomAttributes",
    "UploadLayerPart",
];

/// The services that only agents call, and the terminal in the console, which calls for itself.
const AGENT_SERVICES: [&str; 5] = [
    "cloudshell",
    "codedeploy-commands",
    "codedeploy-commands-secure",
    "ec2messages",
    "ssmmessages",
];

/// The calls on the data of S3, Lambda and others, for records of before there was a category.
const DATA_CALLS: [&str; 16] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObject",
    "DeleteObjects",
    "Invoke",
    "InvokeExecution",
    "PutLogEvents",
    "PutMetricData",
    "PutObject",
    "PutObjectAcl",
    "PutObjectTagging",
    "PutSystemLogEvents",
    "PutTraceSegments",
    "UploadPart",
];

/// Rejects events that are not changes, regardless of who caused them.
pub(super) fn ignore(event: &Value, name: &str, service: &str) -> Result<(), NoCall> {
    let of = |pointer: &str| text(event, pointer);
    let flag = |name: &str| match event.get(name) {
        Some(Value::Bool(is_set)) => Some(*is_set),
        Some(Value::String(word)) => word.to_ascii_lowercase().parse().ok(),
        _ => None,
    };
    let category = of("/eventCategory");
    let kind = of("/eventType").unwrap_or_default();
    let is_sign_in = kind == "AwsConsoleSignIn"
        || matches!(service, "signin" | "sts")
        || name.starts_with("AssumeRole")
        || SIGN_INS.contains(&name);
    let is_data = match &category {
        Some(category) => category == "Data",
        None => DATA_CALLS.contains(&name),
    };
    if is_sign_in {
        return ignored("sign-ins and taken roles are no changes");
    }
    // Notifications of S3 about objects look alike, with the source `aws:s3`.
    if is_data || service.starts_with("aws:") || flag("managementEvent") == Some(false) {
        return ignored("calls on data are no changes");
    }
    if let Some(category) = category.filter(|category| category != "Management") {
        return ignored(format!("events of the category {category} are no changes"));
    }
    let only_reads = ["Describe", "Get", "Head", "List"]
        .iter()
        .any(|verb| name.starts_with(verb))
        || is_query(name)
        || flag("readOnly").unwrap_or_else(|| reads(name) || name.starts_with("GenerateDataKey"));
    if only_reads {
        return ignored("calls that only read are no changes");
    }
    if AGENT_CALLS.contains(&name) || AGENT_SERVICES.contains(&service) {
        return ignored("what agents report is no change");
    }
    if of("/errorCode").is_some() || of("/errorMessage").is_some() {
        return ignored("calls that failed are no changes");
    }
    if kind == "AwsServiceEvent" {
        return ignored(BY_AWS);
    }
    Ok(())
}

/// Returns whether a call runs a query, as those of Athena and of logs, which are said to write.
fn is_query(name: &str) -> bool {
    matches!(
        name,
        "StartQuery" | "StopQuery" | "StartQueryExecution" | "StopQueryExecution"
    )
}

pub(super) const BY_AWS: &str = "what AWS services do for themselves is no change";
