//! The names of what operations of Azure are about.

use crate::kinds::calls::{is_name, last_part};

/// Common types of resources and actions whose words cannot be separated in exports, which
/// write all letters alike.
const NAMES: [&str; 75] = [
    "accessPolicies",
    "actionGroups",
    "agentPools",
    "alertRules",
    "alertsSuppressionRules",
    "applicationGateways",
    "automationAccounts",
    "availabilitySets",
    "azureFirewalls",
    "beginGetAccess",
    "blobServices",
    "clusterRoleBindings",
    "clusterRoles",
    "containerApps",
    "containerGroups",
    "databaseAccounts",
    "deletedVaults",
    "diagnosticSettings",
    "dnsZones",
    "eventHubs",
    "federatedIdentityCredentials",
    "fileServices",
    "firewallPolicies",
    "firewallRules",
    "flexibleServers",
    "hostNameBindings",
    "hostRuntime",
    "immutabilityPolicies",
    "loadBalancers",
    "managedClusters",
    "managedEnvironments",
    "managedInstances",
    "metricAlerts",
    "natGateways",
    "networkInterfaces",
    "networkSecurityGroups",
    "networkWatchers",
    "packetCaptures",
    "policyAssignments",
    "policyDefinitions",
    "powerOff",
    "privateDnsZones",
    "privateEndpoints",
    "protectionContainers",
    "publicIPAddresses",
    "regenerateKey",
    "resourceGroups",
    "restorePointCollections",
    "roleAssignments",
    "roleBindings",
    "roleDefinitions",
    "rotateClusterCertificates",
    "routeTables",
    "runCommand",
    "scheduledQueryRules",
    "securityContacts",
    "securityRules",
    "serialPorts",
    "serverFarms",
    "slotsSwap",
    "startPacketCapture",
    "staticSites",
    "stopPacketCapture",
    "storageAccounts",
    "syncFunctionTriggers",
    "userAssignedIdentities",
    "virtualHubs",
    "virtualMachines",
    "virtualMachineScaleSets",
    "virtualNetworkGateways",
    "virtualNetworkPeerings",
    "virtualNetworks",
    "virtualWans",
    "vpnConnections",
    "vpnGateways",
];

/// Returns a name with capitals where its words begin, if it is a common one.
pub(super) fn cased(name: &str) -> &str {
    let known = NAMES.iter().find(|known| known.eq_ignore_ascii_case(name));
    known.copied().unwrap_or(name)
}

/// Returns the name of a resource from its path, with those of the resources that it is in:
/// `orders/images` of `…/storageAccounts/orders/blobServices/default/containers/images`. A path
/// that ends with a provider, or with the subscription, names nothing.
pub(super) fn name_of(path: &str) -> Option<String> {
    let lower = path.to_ascii_lowercase();
    let parts: Vec<&str> = match lower.rfind("/providers/") {
        Some(at) => path.get(at..)?.split('/').skip(3).collect(),
        None if last_part(lower.rsplit_once('/')?.0) == "subscriptions" => Vec::new(),
        None => path
            .rsplit('/')
            .take(2)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect(),
    };
    // Types and names take turns, and some resources are in one that is always called the same.
    let (pairs, rest) = parts.as_chunks::<2>();
    let names = pairs
        .iter()
        .filter(|[kind, _]| !kind.eq_ignore_ascii_case("locations"));
    let names: Vec<&str> = names.map(|[_, name]| *name).collect();
    let own = names.iter().copied().filter(|name| *name != "default");
    let own: Vec<&str> = own.collect();
    let name = match rest {
        [] if own.is_empty() => names.join("/"),
        [] => own.join("/"),
        _ => last_part(path).to_owned(),
    };
    is_name(&name).then_some(name)
}
