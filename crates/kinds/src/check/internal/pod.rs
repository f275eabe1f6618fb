//! The fields of a pod's template as upstream's own types name and order them.

use object::Value;

use super::Go::{Inline, Leaf, List, Pointer, Struct};
use super::volume::{
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE, AZURE_DISK_VOLUME_SOURCE, AZURE_FILE_VOLUME_SOURCE,
    CEPH_FS_VOLUME_SOURCE, CINDER_VOLUME_SOURCE, CONFIG_MAP_VOLUME_SOURCE, CSI_VOLUME_SOURCE,
    DOWNWARD_API_VOLUME_SOURCE, EMPTY_DIR_VOLUME_SOURCE, EPHEMERAL_VOLUME_SOURCE, FC_VOLUME_SOURCE,
    FLEX_VOLUME_SOURCE, FLOCKER_VOLUME_SOURCE, GCE_PERSISTENT_DISK_VOLUME_SOURCE, GIT_REPO_VOLUME_SOURCE,
    GLUSTERFS_VOLUME_SOURCE, HOST_PATH_VOLUME_SOURCE, IMAGE_VOLUME_SOURCE, ISCSI_VOLUME_SOURCE,
    NFS_VOLUME_SOURCE, PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE, PHOTON_PERSISTENT_DISK_VOLUME_SOURCE,
    PORTWORX_VOLUME_SOURCE, PROJECTED_VOLUME_SOURCE, QUOBYTE_VOLUME_SOURCE, RBD_VOLUME_SOURCE,
    SCALE_IO_VOLUME_SOURCE, SECRET_VOLUME_SOURCE, STORAGE_OS_VOLUME_SOURCE,
    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
};
use super::{FALSE, Field, NULL, TEXT, ZERO};

/// Upstream's own types keep what a pod shares with its node in its security context.
const HOST_NAMESPACES: [&str; 5] =
    ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// A pod's spec with what it shares with its node where upstream's own types have it.
pub(crate) fn with_host_namespaces(spec: &Value) -> Value {
    let mut copy = spec.clone();
    let context = copy.map_at(&["securityContext"]);
    for name in HOST_NAMESPACES {
        if let Some(value) = spec.get(name).filter(|v| !v.is_null()) {
            context.set(name, value.clone());
        }
    }
    copy
}

pub(super) const LOCAL_OBJECT_REFERENCE: &[Field] = &[("name", "Name", TEXT)];
#[rustfmt::skip]
pub(super) const OBJECT_FIELD_SELECTOR: &[Field] = &[
    ("apiVersion", "APIVersion", TEXT), ("fieldPath", "FieldPath", TEXT),
];
#[rustfmt::skip]
pub(super) const RESOURCE_FIELD_SELECTOR: &[Field] = &[
    ("containerName", "ContainerName", TEXT), ("resource", "Resource", TEXT), ("divisor", "Divisor", Leaf("\"0\"")),
];
#[rustfmt::skip]
const VOLUME: &[Field] = &[
    ("name", "Name", TEXT), ("hostPath", "HostPath", Pointer(HOST_PATH_VOLUME_SOURCE)),
    ("emptyDir", "EmptyDir", Pointer(EMPTY_DIR_VOLUME_SOURCE)),
    ("gcePersistentDisk", "GCEPersistentDisk", Pointer(GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
    ("awsElasticBlockStore", "AWSElasticBlockStore", Pointer(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
    ("gitRepo", "GitRepo", Pointer(GIT_REPO_VOLUME_SOURCE)), ("secret", "Secret", Pointer(SECRET_VOLUME_SOURCE)),
    ("nfs", "NFS", Pointer(NFS_VOLUME_SOURCE)), ("iscsi", "ISCSI", Pointer(ISCSI_VOLUME_SOURCE)),
    ("glusterfs", "Glusterfs", Pointer(GLUSTERFS_VOLUME_SOURCE)),
    ("persistentVolumeClaim", "PersistentVolumeClaim", Pointer(PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
    ("rbd", "RBD", Pointer(RBD_VOLUME_SOURCE)), ("quobyte", "Quobyte", Pointer(QUOBYTE_VOLUME_SOURCE)),
    ("flexVolume", "FlexVolume", Pointer(FLEX_VOLUME_SOURCE)), ("cinder", "Cinder", Pointer(CINDER_VOLUME_SOURCE)),
    ("cephfs", "CephFS", Pointer(CEPH_FS_VOLUME_SOURCE)), ("flocker", "Flocker", Pointer(FLOCKER_VOLUME_SOURCE)),
    ("downwardAPI", "DownwardAPI", Pointer(DOWNWARD_API_VOLUME_SOURCE)), ("fc", "FC", Pointer(FC_VOLUME_SOURCE)),
    ("azureFile", "AzureFile", Pointer(AZURE_FILE_VOLUME_SOURCE)),
    ("configMap", "ConfigMap", Pointer(CONFIG_MAP_VOLUME_SOURCE)),
    ("vsphereVolume", "VsphereVolume", Pointer(VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
    ("azureDisk", "AzureDisk", Pointer(AZURE_DISK_VOLUME_SOURCE)),
    ("photonPersistentDisk", "PhotonPersistentDisk", Pointer(PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
    ("projected", "Projected", Pointer(PROJECTED_VOLUME_SOURCE)),
    ("portworxVolume", "PortworxVolume", Pointer(PORTWORX_VOLUME_SOURCE)),
    ("scaleIO", "ScaleIO", Pointer(SCALE_IO_VOLUME_SOURCE)),
    ("storageos", "StorageOS", Pointer(STORAGE_OS_VOLUME_SOURCE)), ("csi", "CSI", Pointer(CSI_VOLUME_SOURCE)),
    ("ephemeral", "Ephemeral", Pointer(EPHEMERAL_VOLUME_SOURCE)), ("image", "Image", Pointer(IMAGE_VOLUME_SOURCE)),
];
#[rustfmt::skip]
const CONTAINER_PORT: &[Field] = &[
    ("name", "Name", TEXT), ("hostPort", "HostPort", ZERO), ("containerPort", "ContainerPort", ZERO),
    ("protocol", "Protocol", TEXT), ("hostIP", "HostIP", TEXT),
];
const CONFIG_MAP_ENV_SOURCE: &[Field] = &[("name", "Name", TEXT), ("optional", "Optional", NULL)];
const SECRET_ENV_SOURCE: &[Field] = &[("name", "Name", TEXT), ("optional", "Optional", NULL)];
#[rustfmt::skip]
const ENV_FROM_SOURCE: &[Field] = &[
    ("prefix", "Prefix", TEXT), ("configMapRef", "ConfigMapRef", Pointer(CONFIG_MAP_ENV_SOURCE)),
    ("secretRef", "SecretRef", Pointer(SECRET_ENV_SOURCE)),
];
#[rustfmt::skip]
const CONFIG_MAP_KEY_SELECTOR: &[Field] = &[
    ("name", "Name", TEXT), ("key", "Key", TEXT), ("optional", "Optional", NULL),
];
#[rustfmt::skip]
const SECRET_KEY_SELECTOR: &[Field] = &[
    ("name", "Name", TEXT), ("key", "Key", TEXT), ("optional", "Optional", NULL),
];
#[rustfmt::skip]
const FILE_KEY_SELECTOR: &[Field] = &[
    ("volumeName", "VolumeName", TEXT), ("path", "Path", TEXT), ("key", "Key", TEXT),
    ("optional", "Optional", NULL),
];
#[rustfmt::skip]
const ENV_VAR_SOURCE: &[Field] = &[
    ("fieldRef", "FieldRef", Pointer(OBJECT_FIELD_SELECTOR)),
    ("resourceFieldRef", "ResourceFieldRef", Pointer(RESOURCE_FIELD_SELECTOR)),
    ("configMapKeyRef", "ConfigMapKeyRef", Pointer(CONFIG_MAP_KEY_SELECTOR)),
    ("secretKeyRef", "SecretKeyRef", Pointer(SECRET_KEY_SELECTOR)),
    ("fileKeyRef", "FileKeyRef", Pointer(FILE_KEY_SELECTOR)),
];
#[rustfmt::skip]
const ENV_VAR: &[Field] = &[
    ("name", "Name", TEXT), ("value", "Value", TEXT), ("valueFrom", "ValueFrom", Pointer(ENV_VAR_SOURCE)),
];
const RESOURCE_CLAIM: &[Field] = &[("name", "Name", TEXT), ("request", "Request", TEXT)];
#[rustfmt::skip]
const RESOURCE_REQUIREMENTS: &[Field] = &[
    ("limits", "Limits", NULL), ("requests", "Requests", NULL), ("claims", "Claims", List(RESOURCE_CLAIM)),
];
#[rustfmt::skip]
const CONTAINER_RESIZE_POLICY: &[Field] = &[
    ("resourceName", "ResourceName", TEXT), ("restartPolicy", "RestartPolicy", TEXT),
];
#[rustfmt::skip]
const CONTAINER_RESTART_RULE_ON_EXIT_CODES: &[Field] = &[
    ("operator", "Operator", TEXT), ("values", "Values", NULL),
];
#[rustfmt::skip]
const CONTAINER_RESTART_RULE: &[Field] = &[
    ("action", "Action", TEXT), ("exitCodes", "ExitCodes", Pointer(CONTAINER_RESTART_RULE_ON_EXIT_CODES)),
];
#[rustfmt::skip]
const VOLUME_MOUNT: &[Field] = &[
    ("name", "Name", TEXT), ("readOnly", "ReadOnly", FALSE), ("recursiveReadOnly", "RecursiveReadOnly", NULL),
    ("mountPath", "MountPath", TEXT), ("subPath", "SubPath", TEXT), ("mountPropagation", "MountPropagation", NULL),
    ("subPathExpr", "SubPathExpr", TEXT),
];
const VOLUME_DEVICE: &[Field] = &[("name", "Name", TEXT), ("devicePath", "DevicePath", TEXT)];
const EXEC_ACTION: &[Field] = &[("command", "Command", NULL)];
const HTTP_HEADER: &[Field] = &[("name", "Name", TEXT), ("value", "Value", TEXT)];
#[rustfmt::skip]
const HTTP_GET_ACTION: &[Field] = &[
    ("path", "Path", TEXT), ("port", "Port", ZERO), ("host", "Host", TEXT), ("scheme", "Scheme", TEXT),
    ("httpHeaders", "HTTPHeaders", List(HTTP_HEADER)),
];
const TCP_SOCKET_ACTION: &[Field] = &[("port", "Port", ZERO), ("host", "Host", TEXT)];
const GRPC_ACTION: &[Field] = &[("port", "Port", ZERO), ("service", "Service", NULL)];
#[rustfmt::skip]
const PROBE: &[Field] = &[
    ("exec", "Exec", Pointer(EXEC_ACTION)), ("httpGet", "HTTPGet", Pointer(HTTP_GET_ACTION)),
    ("tcpSocket", "TCPSocket", Pointer(TCP_SOCKET_ACTION)), ("grpc", "GRPC", Pointer(GRPC_ACTION)),
    ("initialDelaySeconds", "InitialDelaySeconds", ZERO), ("timeoutSeconds", "TimeoutSeconds", ZERO),
    ("periodSeconds", "PeriodSeconds", ZERO), ("successThreshold", "SuccessThreshold", ZERO),
    ("failureThreshold", "FailureThreshold", ZERO),
    ("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds", NULL),
];
const SLEEP_ACTION: &[Field] = &[("seconds", "Seconds", ZERO)];
#[rustfmt::skip]
const LIFECYCLE_HANDLER: &[Field] = &[
    ("exec", "Exec", Pointer(EXEC_ACTION)), ("httpGet", "HTTPGet", Pointer(HTTP_GET_ACTION)),
    ("tcpSocket", "TCPSocket", Pointer(TCP_SOCKET_ACTION)), ("sleep", "Sleep", Pointer(SLEEP_ACTION)),
];
#[rustfmt::skip]
const LIFECYCLE: &[Field] = &[
    ("postStart", "PostStart", Pointer(LIFECYCLE_HANDLER)), ("preStop", "PreStop", Pointer(LIFECYCLE_HANDLER)),
    ("stopSignal", "StopSignal", NULL),
];
const CAPABILITIES: &[Field] = &[("add", "Add", NULL), ("drop", "Drop", NULL)];
#[rustfmt::skip]
const SE_LINUX_OPTIONS: &[Field] = &[
    ("user", "User", TEXT), ("role", "Role", TEXT), ("type", "Type", TEXT), ("level", "Level", TEXT),
];
#[rustfmt::skip]
const WINDOWS_SECURITY_CONTEXT_OPTIONS: &[Field] = &[
    ("gmsaCredentialSpecName", "GMSACredentialSpecName", NULL), ("gmsaCredentialSpec", "GMSACredentialSpec", NULL),
    ("runAsUserName", "RunAsUserName", NULL), ("hostProcess", "HostProcess", NULL),
];
#[rustfmt::skip]
pub(crate) const SECCOMP_PROFILE: &[Field] = &[
    ("type", "Type", TEXT), ("localhostProfile", "LocalhostProfile", NULL),
];
#[rustfmt::skip]
const APP_ARMOR_PROFILE: &[Field] = &[
    ("type", "Type", TEXT), ("localhostProfile", "LocalhostProfile", NULL),
];
#[rustfmt::skip]
pub(crate) const SECURITY_CONTEXT: &[Field] = &[
    ("capabilities", "Capabilities", Pointer(CAPABILITIES)), ("privileged", "Privileged", NULL),
    ("seLinuxOptions", "SELinuxOptions", Pointer(SE_LINUX_OPTIONS)),
    ("windowsOptions", "WindowsOptions", Pointer(WINDOWS_SECURITY_CONTEXT_OPTIONS)),
    ("runAsUser", "RunAsUser", NULL), ("runAsGroup", "RunAsGroup", NULL), ("runAsNonRoot", "RunAsNonRoot", NULL),
    ("readOnlyRootFilesystem", "ReadOnlyRootFilesystem", NULL),
    ("allowPrivilegeEscalation", "AllowPrivilegeEscalation", NULL), ("procMount", "ProcMount", NULL),
    ("seccompProfile", "SeccompProfile", Pointer(SECCOMP_PROFILE)),
    ("appArmorProfile", "AppArmorProfile", Pointer(APP_ARMOR_PROFILE)),
];
#[rustfmt::skip]
const CONTAINER: &[Field] = &[
    ("name", "Name", TEXT), ("image", "Image", TEXT), ("command", "Command", NULL), ("args", "Args", NULL),
    ("workingDir", "WorkingDir", TEXT), ("ports", "Ports", List(CONTAINER_PORT)),
    ("envFrom", "EnvFrom", List(ENV_FROM_SOURCE)), ("env", "Env", List(ENV_VAR)),
    ("resources", "Resources", Struct(RESOURCE_REQUIREMENTS)),
    ("resizePolicy", "ResizePolicy", List(CONTAINER_RESIZE_POLICY)), ("restartPolicy", "RestartPolicy", NULL),
    ("restartPolicyRules", "RestartPolicyRules", List(CONTAINER_RESTART_RULE)),
    ("volumeMounts", "VolumeMounts", List(VOLUME_MOUNT)), ("volumeDevices", "VolumeDevices", List(VOLUME_DEVICE)),
    ("livenessProbe", "LivenessProbe", Pointer(PROBE)), ("readinessProbe", "ReadinessProbe", Pointer(PROBE)),
    ("startupProbe", "StartupProbe", Pointer(PROBE)), ("lifecycle", "Lifecycle", Pointer(LIFECYCLE)),
    ("terminationMessagePath", "TerminationMessagePath", TEXT),
    ("terminationMessagePolicy", "TerminationMessagePolicy", TEXT), ("imagePullPolicy", "ImagePullPolicy", TEXT),
    ("securityContext", "SecurityContext", Pointer(SECURITY_CONTEXT)), ("stdin", "Stdin", FALSE),
    ("stdinOnce", "StdinOnce", FALSE), ("tty", "TTY", FALSE),
];
#[rustfmt::skip]
pub(crate) const EPHEMERAL_CONTAINER: &[Field] = &[
    ("name", "Name", TEXT), ("image", "Image", TEXT), ("command", "Command", NULL), ("args", "Args", NULL),
    ("workingDir", "WorkingDir", TEXT), ("ports", "Ports", List(CONTAINER_PORT)),
    ("envFrom", "EnvFrom", List(ENV_FROM_SOURCE)), ("env", "Env", List(ENV_VAR)),
    ("resources", "Resources", Struct(RESOURCE_REQUIREMENTS)),
    ("resizePolicy", "ResizePolicy", List(CONTAINER_RESIZE_POLICY)), ("restartPolicy", "RestartPolicy", NULL),
    ("restartPolicyRules", "RestartPolicyRules", List(CONTAINER_RESTART_RULE)),
    ("volumeMounts", "VolumeMounts", List(VOLUME_MOUNT)), ("volumeDevices", "VolumeDevices", List(VOLUME_DEVICE)),
    ("livenessProbe", "LivenessProbe", Pointer(PROBE)), ("readinessProbe", "ReadinessProbe", Pointer(PROBE)),
    ("startupProbe", "StartupProbe", Pointer(PROBE)), ("lifecycle", "Lifecycle", Pointer(LIFECYCLE)),
    ("terminationMessagePath", "TerminationMessagePath", TEXT),
    ("terminationMessagePolicy", "TerminationMessagePolicy", TEXT), ("imagePullPolicy", "ImagePullPolicy", TEXT),
    ("securityContext", "SecurityContext", Pointer(SECURITY_CONTEXT)), ("stdin", "Stdin", FALSE),
    ("stdinOnce", "StdinOnce", FALSE), ("tty", "TTY", FALSE), ("targetContainerName", "TargetContainerName", TEXT),
];
const SYSCTL: &[Field] = &[("name", "Name", TEXT), ("value", "Value", TEXT)];
#[rustfmt::skip]
const POD_SECURITY_CONTEXT: &[Field] = &[
    ("hostNetwork", "HostNetwork", FALSE), ("hostPID", "HostPID", FALSE), ("hostIPC", "HostIPC", FALSE),
    ("shareProcessNamespace", "ShareProcessNamespace", NULL), ("hostUsers", "HostUsers", NULL),
    ("seLinuxOptions", "SELinuxOptions", Pointer(SE_LINUX_OPTIONS)),
    ("windowsOptions", "WindowsOptions", Pointer(WINDOWS_SECURITY_CONTEXT_OPTIONS)),
    ("runAsUser", "RunAsUser", NULL), ("runAsGroup", "RunAsGroup", NULL), ("runAsNonRoot", "RunAsNonRoot", NULL),
    ("supplementalGroups", "SupplementalGroups", NULL),
    ("supplementalGroupsPolicy", "SupplementalGroupsPolicy", NULL), ("fsGroup", "FSGroup", NULL),
    ("fsGroupChangePolicy", "FSGroupChangePolicy", NULL), ("sysctls", "Sysctls", List(SYSCTL)),
    ("seccompProfile", "SeccompProfile", Pointer(SECCOMP_PROFILE)),
    ("appArmorProfile", "AppArmorProfile", Pointer(APP_ARMOR_PROFILE)),
    ("seLinuxChangePolicy", "SELinuxChangePolicy", NULL),
];
#[rustfmt::skip]
const NODE_SELECTOR_REQUIREMENT: &[Field] = &[
    ("key", "Key", TEXT), ("operator", "Operator", TEXT), ("values", "Values", NULL),
];
#[rustfmt::skip]
pub(crate) const NODE_SELECTOR_TERM: &[Field] = &[
    ("matchExpressions", "MatchExpressions", List(NODE_SELECTOR_REQUIREMENT)),
    ("matchFields", "MatchFields", List(NODE_SELECTOR_REQUIREMENT)),
];
pub(crate) const NODE_SELECTOR: &[Field] =
    &[("nodeSelectorTerms", "NodeSelectorTerms", List(NODE_SELECTOR_TERM))];
#[rustfmt::skip]
const PREFERRED_SCHEDULING_TERM: &[Field] = &[
    ("weight", "Weight", ZERO), ("preference", "Preference", Struct(NODE_SELECTOR_TERM)),
];
#[rustfmt::skip]
const NODE_AFFINITY: &[Field] = &[
   
    ("requiredDuringSchedulingIgnoredDuringExecution", "RequiredDuringSchedulingIgnoredDuringExecution", Pointer(NODE_SELECTOR)),
    ("preferredDuringSchedulingIgnoredDuringExecution", "PreferredDuringSchedulingIgnoredDuringExecution", List(PREFERRED_SCHEDULING_TERM)),
];
#[rustfmt::skip]
const POD_AFFINITY_TERM: &[Field] = &[
    ("labelSelector", "LabelSelector", NULL), ("namespaces", "Namespaces", NULL),
    ("topologyKey", "TopologyKey", TEXT), ("namespaceSelector", "NamespaceSelector", NULL),
    ("matchLabelKeys", "MatchLabelKeys", NULL), ("mismatchLabelKeys", "MismatchLabelKeys", NULL),
];
#[rustfmt::skip]
const WEIGHTED_POD_AFFINITY_TERM: &[Field] = &[
    ("weight", "Weight", ZERO), ("podAffinityTerm", "PodAffinityTerm", Struct(POD_AFFINITY_TERM)),
];
#[rustfmt::skip]
const POD_AFFINITY: &[Field] = &[
   
    ("requiredDuringSchedulingIgnoredDuringExecution", "RequiredDuringSchedulingIgnoredDuringExecution", List(POD_AFFINITY_TERM)),
    ("preferredDuringSchedulingIgnoredDuringExecution", "PreferredDuringSchedulingIgnoredDuringExecution", List(WEIGHTED_POD_AFFINITY_TERM)),
];
#[rustfmt::skip]
const POD_ANTI_AFFINITY: &[Field] = &[
   
    ("requiredDuringSchedulingIgnoredDuringExecution", "RequiredDuringSchedulingIgnoredDuringExecution", List(POD_AFFINITY_TERM)),
    ("preferredDuringSchedulingIgnoredDuringExecution", "PreferredDuringSchedulingIgnoredDuringExecution", List(WEIGHTED_POD_AFFINITY_TERM)),
];
#[rustfmt::skip]
const AFFINITY: &[Field] = &[
    ("nodeAffinity", "NodeAffinity", Pointer(NODE_AFFINITY)), ("podAffinity", "PodAffinity", Pointer(POD_AFFINITY)),
    ("podAntiAffinity", "PodAntiAffinity", Pointer(POD_ANTI_AFFINITY)),
];
#[rustfmt::skip]
pub(crate) const TOLERATION: &[Field] = &[
    ("key", "Key", TEXT), ("operator", "Operator", TEXT), ("value", "Value", TEXT), ("effect", "Effect", TEXT),
    ("tolerationSeconds", "TolerationSeconds", NULL),
];
const HOST_ALIAS: &[Field] = &[("ip", "IP", TEXT), ("hostnames", "Hostnames", NULL)];
const POD_DNS_CONFIG_OPTION: &[Field] = &[("name", "Name", TEXT), ("value", "Value", NULL)];
#[rustfmt::skip]
const POD_DNS_CONFIG: &[Field] = &[
    ("nameservers", "Nameservers", NULL), ("searches", "Searches", NULL),
    ("options", "Options", List(POD_DNS_CONFIG_OPTION)),
];
const POD_READINESS_GATE: &[Field] = &[("conditionType", "ConditionType", TEXT)];
#[rustfmt::skip]
const TOPOLOGY_SPREAD_CONSTRAINT: &[Field] = &[
    ("maxSkew", "MaxSkew", ZERO), ("topologyKey", "TopologyKey", TEXT),
    ("whenUnsatisfiable", "WhenUnsatisfiable", TEXT), ("labelSelector", "LabelSelector", NULL),
    ("minDomains", "MinDomains", NULL), ("nodeAffinityPolicy", "NodeAffinityPolicy", NULL),
    ("nodeTaintsPolicy", "NodeTaintsPolicy", NULL), ("matchLabelKeys", "MatchLabelKeys", NULL),
];
const POD_OS: &[Field] = &[("name", "Name", TEXT)];
const POD_SCHEDULING_GATE: &[Field] = &[("name", "Name", TEXT)];
#[rustfmt::skip]
pub(crate) const POD_RESOURCE_CLAIM: &[Field] = &[
    ("name", "Name", TEXT), ("resourceClaimName", "ResourceClaimName", NULL),
    ("resourceClaimTemplateName", "ResourceClaimTemplateName", NULL),
];
const POD_SCHEDULING_GROUP: &[Field] = &[("podGroupName", "PodGroupName", NULL)];
#[rustfmt::skip]
pub(crate) const POD_SPEC: &[Field] = &[
    ("volumes", "Volumes", List(VOLUME)), ("initContainers", "InitContainers", List(CONTAINER)),
    ("containers", "Containers", List(CONTAINER)),
    ("ephemeralContainers", "EphemeralContainers", List(EPHEMERAL_CONTAINER)),
    ("restartPolicy", "RestartPolicy", TEXT),
    ("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds", NULL),
    ("activeDeadlineSeconds", "ActiveDeadlineSeconds", NULL), ("dnsPolicy", "DNSPolicy", TEXT),
    ("nodeSelector", "NodeSelector", NULL), ("serviceAccountName", "ServiceAccountName", TEXT),
    ("automountServiceAccountToken", "AutomountServiceAccountToken", NULL), ("nodeName", "NodeName", TEXT),
    ("securityContext", "SecurityContext", Pointer(POD_SECURITY_CONTEXT)),
    ("imagePullSecrets", "ImagePullSecrets", List(LOCAL_OBJECT_REFERENCE)), ("hostname", "Hostname", TEXT),
    ("subdomain", "Subdomain", TEXT), ("setHostnameAsFQDN", "SetHostnameAsFQDN", NULL),
    ("affinity", "Affinity", Pointer(AFFINITY)), ("schedulerName", "SchedulerName", TEXT),
    ("tolerations", "Tolerations", List(TOLERATION)), ("hostAliases", "HostAliases", List(HOST_ALIAS)),
    ("priorityClassName", "PriorityClassName", TEXT), ("priority", "Priority", NULL),
    ("preemptionPolicy", "PreemptionPolicy", NULL), ("dnsConfig", "DNSConfig", Pointer(POD_DNS_CONFIG)),
    ("readinessGates", "ReadinessGates", List(POD_READINESS_GATE)), ("runtimeClassName", "RuntimeClassName", NULL),
    ("overhead", "Overhead", NULL), ("enableServiceLinks", "EnableServiceLinks", NULL),
    ("topologySpreadConstraints", "TopologySpreadConstraints", List(TOPOLOGY_SPREAD_CONSTRAINT)),
    ("os", "OS", Pointer(POD_OS)), ("schedulingGates", "SchedulingGates", List(POD_SCHEDULING_GATE)),
    ("resourceClaims", "ResourceClaims", List(POD_RESOURCE_CLAIM)),
    ("resources", "Resources", Pointer(RESOURCE_REQUIREMENTS)), ("hostnameOverride", "HostnameOverride", NULL),
    ("schedulingGroup", "SchedulingGroup", Pointer(POD_SCHEDULING_GROUP)),
];
pub(crate) const POD_TEMPLATE_SPEC: &[Field] =
    &[("metadata", "", Inline), ("spec", "Spec", Struct(POD_SPEC))];
