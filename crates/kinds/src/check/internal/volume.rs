//! The fields of volumes, and of claims for them, as upstream's own types name and order them.

use super::Go::{Inline, List, Pointer, Struct};
use super::pod::{LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};
use super::{FALSE, Field, NULL, TEXT, ZERO};

pub(super) const HOST_PATH_VOLUME_SOURCE: &[Field] = &[("path", "Path", TEXT), ("type", "Type", NULL)];
#[rustfmt::skip]
pub(super) const EMPTY_DIR_VOLUME_SOURCE: &[Field] = &[
    ("medium", "Medium", TEXT), ("sizeLimit", "SizeLimit", NULL),
];
#[rustfmt::skip]
pub(super) const GCE_PERSISTENT_DISK_VOLUME_SOURCE: &[Field] = &[
    ("pdName", "PDName", TEXT), ("fsType", "FSType", TEXT), ("partition", "Partition", ZERO),
    ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: &[Field] = &[
    ("volumeID", "VolumeID", TEXT), ("fsType", "FSType", TEXT), ("partition", "Partition", ZERO),
    ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const GIT_REPO_VOLUME_SOURCE: &[Field] = &[
    ("repository", "Repository", TEXT), ("revision", "Revision", TEXT), ("directory", "Directory", TEXT),
];
const KEY_TO_PATH: &[Field] = &[("key", "Key", TEXT), ("path", "Path", TEXT), ("mode", "Mode", NULL)];
#[rustfmt::skip]
pub(super) const SECRET_VOLUME_SOURCE: &[Field] = &[
    ("secretName", "SecretName", TEXT), ("items", "Items", List(KEY_TO_PATH)), ("defaultMode", "DefaultMode", NULL),
    ("optional", "Optional", NULL),
];
#[rustfmt::skip]
pub(super) const NFS_VOLUME_SOURCE: &[Field] = &[
    ("server", "Server", TEXT), ("path", "Path", TEXT), ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const ISCSI_VOLUME_SOURCE: &[Field] = &[
    ("targetPortal", "TargetPortal", TEXT), ("iqn", "IQN", TEXT), ("lun", "Lun", ZERO),
    ("iscsiInterface", "ISCSIInterface", TEXT), ("fsType", "FSType", TEXT), ("readOnly", "ReadOnly", FALSE),
    ("portals", "Portals", NULL), ("chapAuthDiscovery", "DiscoveryCHAPAuth", FALSE),
    ("chapAuthSession", "SessionCHAPAuth", FALSE), ("secretRef", "SecretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
    ("initiatorName", "InitiatorName", NULL),
];
#[rustfmt::skip]
pub(super) const GLUSTERFS_VOLUME_SOURCE: &[Field] = &[
    ("endpoints", "EndpointsName", TEXT), ("path", "Path", TEXT), ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: &[Field] = &[
    ("claimName", "ClaimName", TEXT), ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const RBD_VOLUME_SOURCE: &[Field] = &[
    ("monitors", "CephMonitors", NULL), ("image", "RBDImage", TEXT), ("fsType", "FSType", TEXT),
    ("pool", "RBDPool", TEXT), ("user", "RadosUser", TEXT), ("keyring", "Keyring", TEXT),
    ("secretRef", "SecretRef", Pointer(LOCAL_OBJECT_REFERENCE)), ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const QUOBYTE_VOLUME_SOURCE: &[Field] = &[
    ("registry", "Registry", TEXT), ("volume", "Volume", TEXT), ("readOnly", "ReadOnly", FALSE),
    ("user", "User", TEXT), ("group", "Group", TEXT), ("tenant", "Tenant", TEXT),
];
#[rustfmt::skip]
pub(super) const FLEX_VOLUME_SOURCE: &[Field] = &[
    ("driver", "Driver", TEXT), ("fsType", "FSType", TEXT),
    ("secretRef", "SecretRef", Pointer(LOCAL_OBJECT_REFERENCE)), ("readOnly", "ReadOnly", FALSE),
    ("options", "Options", NULL),
];
#[rustfmt::skip]
pub(super) const CINDER_VOLUME_SOURCE: &[Field] = &[
    ("volumeID", "VolumeID", TEXT), ("fsType", "FSType", TEXT), ("readOnly", "ReadOnly", FALSE),
    ("secretRef", "SecretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
];
#[rustfmt::skip]
pub(super) const CEPH_FS_VOLUME_SOURCE: &[Field] = &[
    ("monitors", "Monitors", NULL), ("path", "Path", TEXT), ("user", "User", TEXT),
    ("secretFile", "SecretFile", TEXT), ("secretRef", "SecretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
    ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const FLOCKER_VOLUME_SOURCE: &[Field] = &[
    ("datasetName", "DatasetName", TEXT), ("datasetUUID", "DatasetUUID", TEXT),
];
#[rustfmt::skip]
const DOWNWARD_API_VOLUME_FILE: &[Field] = &[
    ("path", "Path", TEXT), ("fieldRef", "FieldRef", Pointer(OBJECT_FIELD_SELECTOR)),
    ("resourceFieldRef", "ResourceFieldRef", Pointer(RESOURCE_FIELD_SELECTOR)), ("mode", "Mode", NULL),
];
#[rustfmt::skip]
pub(super) const DOWNWARD_API_VOLUME_SOURCE: &[Field] = &[
    ("items", "Items", List(DOWNWARD_API_VOLUME_FILE)), ("defaultMode", "DefaultMode", NULL),
];
#[rustfmt::skip]
pub(super) const FC_VOLUME_SOURCE: &[Field] = &[
    ("targetWWNs", "TargetWWNs", NULL), ("lun", "Lun", NULL), ("fsType", "FSType", TEXT),
    ("readOnly", "ReadOnly", FALSE), ("wwids", "WWIDs", NULL),
];
#[rustfmt::skip]
pub(super) const AZURE_FILE_VOLUME_SOURCE: &[Field] = &[
    ("secretName", "SecretName", TEXT), ("shareName", "ShareName", TEXT), ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const CONFIG_MAP_VOLUME_SOURCE: &[Field] = &[
    ("name", "Name", TEXT), ("items", "Items", List(KEY_TO_PATH)), ("defaultMode", "DefaultMode", NULL),
    ("optional", "Optional", NULL),
];
#[rustfmt::skip]
pub(super) const VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE: &[Field] = &[
    ("volumePath", "VolumePath", TEXT), ("fsType", "FSType", TEXT),
    ("storagePolicyName", "StoragePolicyName", TEXT), ("storagePolicyID", "StoragePolicyID", TEXT),
];
#[rustfmt::skip]
pub(super) const AZURE_DISK_VOLUME_SOURCE: &[Field] = &[
    ("diskName", "DiskName", TEXT), ("diskURI", "DataDiskURI", TEXT), ("cachingMode", "CachingMode", NULL),
    ("fsType", "FSType", NULL), ("readOnly", "ReadOnly", NULL), ("kind", "Kind", NULL),
];
#[rustfmt::skip]
pub(super) const PHOTON_PERSISTENT_DISK_VOLUME_SOURCE: &[Field] = &[
    ("pdID", "PdID", TEXT), ("fsType", "FSType", TEXT),
];
#[rustfmt::skip]
const SECRET_PROJECTION: &[Field] = &[
    ("name", "Name", TEXT), ("items", "Items", List(KEY_TO_PATH)), ("optional", "Optional", NULL),
];
const DOWNWARD_API_PROJECTION: &[Field] = &[("items", "Items", List(DOWNWARD_API_VOLUME_FILE))];
#[rustfmt::skip]
const CONFIG_MAP_PROJECTION: &[Field] = &[
    ("name", "Name", TEXT), ("items", "Items", List(KEY_TO_PATH)), ("optional", "Optional", NULL),
];
#[rustfmt::skip]
const SERVICE_ACCOUNT_TOKEN_PROJECTION: &[Field] = &[
    ("audience", "Audience", TEXT), ("expirationSeconds", "ExpirationSeconds", ZERO), ("path", "Path", TEXT),
];
#[rustfmt::skip]
const CLUSTER_TRUST_BUNDLE_PROJECTION: &[Field] = &[
    ("name", "Name", NULL), ("signerName", "SignerName", NULL), ("labelSelector", "LabelSelector", NULL),
    ("optional", "Optional", NULL), ("path", "Path", TEXT),
];
#[rustfmt::skip]
const POD_CERTIFICATE_PROJECTION: &[Field] = &[
    ("signerName", "SignerName", TEXT), ("keyType", "KeyType", TEXT),
    ("maxExpirationSeconds", "MaxExpirationSeconds", NULL), ("credentialBundlePath", "CredentialBundlePath", TEXT),
    ("keyPath", "KeyPath", TEXT), ("certificateChainPath", "CertificateChainPath", TEXT),
    ("userAnnotations", "UserAnnotations", NULL),
];
#[rustfmt::skip]
const VOLUME_PROJECTION: &[Field] = &[
    ("secret", "Secret", Pointer(SECRET_PROJECTION)),
    ("downwardAPI", "DownwardAPI", Pointer(DOWNWARD_API_PROJECTION)),
    ("configMap", "ConfigMap", Pointer(CONFIG_MAP_PROJECTION)),
    ("serviceAccountToken", "ServiceAccountToken", Pointer(SERVICE_ACCOUNT_TOKEN_PROJECTION)),
    ("clusterTrustBundle", "ClusterTrustBundle", Pointer(CLUSTER_TRUST_BUNDLE_PROJECTION)),
    ("podCertificate", "PodCertificate", Pointer(POD_CERTIFICATE_PROJECTION)),
];
#[rustfmt::skip]
pub(super) const PROJECTED_VOLUME_SOURCE: &[Field] = &[
    ("sources", "Sources", List(VOLUME_PROJECTION)), ("defaultMode", "DefaultMode", NULL),
];
#[rustfmt::skip]
pub(super) const PORTWORX_VOLUME_SOURCE: &[Field] = &[
    ("volumeID", "VolumeID", TEXT), ("fsType", "FSType", TEXT), ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const SCALE_IO_VOLUME_SOURCE: &[Field] = &[
    ("gateway", "Gateway", TEXT), ("system", "System", TEXT),
    ("secretRef", "SecretRef", Pointer(LOCAL_OBJECT_REFERENCE)), ("sslEnabled", "SSLEnabled", FALSE),
    ("protectionDomain", "ProtectionDomain", TEXT), ("storagePool", "StoragePool", TEXT),
    ("storageMode", "StorageMode", TEXT), ("volumeName", "VolumeName", TEXT), ("fsType", "FSType", TEXT),
    ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
pub(super) const STORAGE_OS_VOLUME_SOURCE: &[Field] = &[
    ("volumeName", "VolumeName", TEXT), ("volumeNamespace", "VolumeNamespace", TEXT), ("fsType", "FSType", TEXT),
    ("readOnly", "ReadOnly", FALSE), ("secretRef", "SecretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
];
#[rustfmt::skip]
pub(super) const CSI_VOLUME_SOURCE: &[Field] = &[
    ("driver", "Driver", TEXT), ("readOnly", "ReadOnly", NULL), ("fsType", "FSType", NULL),
    ("volumeAttributes", "VolumeAttributes", NULL),
    ("nodePublishSecretRef", "NodePublishSecretRef", Pointer(LOCAL_OBJECT_REFERENCE)),
];
#[rustfmt::skip]
const VOLUME_RESOURCE_REQUIREMENTS: &[Field] = &[
    ("limits", "Limits", NULL), ("requests", "Requests", NULL),
];
#[rustfmt::skip]
const TYPED_LOCAL_OBJECT_REFERENCE: &[Field] = &[
    ("apiGroup", "APIGroup", NULL), ("kind", "Kind", TEXT), ("name", "Name", TEXT),
];
#[rustfmt::skip]
const TYPED_OBJECT_REFERENCE: &[Field] = &[
    ("apiGroup", "APIGroup", NULL), ("kind", "Kind", TEXT), ("name", "Name", TEXT),
    ("namespace", "Namespace", NULL),
];
#[rustfmt::skip]
pub(crate) const PERSISTENT_VOLUME_CLAIM_SPEC: &[Field] = &[
    ("accessModes", "AccessModes", NULL), ("selector", "Selector", NULL),
    ("resources", "Resources", Struct(VOLUME_RESOURCE_REQUIREMENTS)), ("volumeName", "VolumeName", TEXT),
    ("storageClassName", "StorageClassName", NULL), ("volumeMode", "VolumeMode", NULL),
    ("dataSource", "DataSource", Pointer(TYPED_LOCAL_OBJECT_REFERENCE)),
    ("dataSourceRef", "DataSourceRef", Pointer(TYPED_OBJECT_REFERENCE)),
    ("volumeAttributesClassName", "VolumeAttributesClassName", NULL),
];
#[rustfmt::skip]
const PERSISTENT_VOLUME_CLAIM_TEMPLATE: &[Field] = &[
    ("metadata", "", Inline), ("spec", "Spec", Struct(PERSISTENT_VOLUME_CLAIM_SPEC)),
];
#[rustfmt::skip]
pub(super) const EPHEMERAL_VOLUME_SOURCE: &[Field] = &[
    ("volumeClaimTemplate", "VolumeClaimTemplate", Pointer(PERSISTENT_VOLUME_CLAIM_TEMPLATE)),
];
#[rustfmt::skip]
pub(super) const IMAGE_VOLUME_SOURCE: &[Field] = &[
    ("reference", "Reference", TEXT), ("pullPolicy", "PullPolicy", TEXT),
];
#[rustfmt::skip]
const GLUSTERFS_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("endpoints", "EndpointsName", TEXT), ("path", "Path", TEXT), ("readOnly", "ReadOnly", FALSE),
    ("endpointsNamespace", "EndpointsNamespace", NULL),
];
const SECRET_REFERENCE: &[Field] = &[("name", "Name", TEXT), ("namespace", "Namespace", TEXT)];
#[rustfmt::skip]
const RBD_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("monitors", "CephMonitors", NULL), ("image", "RBDImage", TEXT), ("fsType", "FSType", TEXT),
    ("pool", "RBDPool", TEXT), ("user", "RadosUser", TEXT), ("keyring", "Keyring", TEXT),
    ("secretRef", "SecretRef", Pointer(SECRET_REFERENCE)), ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
const ISCSI_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("targetPortal", "TargetPortal", TEXT), ("iqn", "IQN", TEXT), ("lun", "Lun", ZERO),
    ("iscsiInterface", "ISCSIInterface", TEXT), ("fsType", "FSType", TEXT), ("readOnly", "ReadOnly", FALSE),
    ("portals", "Portals", NULL), ("chapAuthDiscovery", "DiscoveryCHAPAuth", FALSE),
    ("chapAuthSession", "SessionCHAPAuth", FALSE), ("secretRef", "SecretRef", Pointer(SECRET_REFERENCE)),
    ("initiatorName", "InitiatorName", NULL),
];
#[rustfmt::skip]
const FLEX_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("driver", "Driver", TEXT), ("fsType", "FSType", TEXT), ("secretRef", "SecretRef", Pointer(SECRET_REFERENCE)),
    ("readOnly", "ReadOnly", FALSE), ("options", "Options", NULL),
];
#[rustfmt::skip]
const CINDER_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("volumeID", "VolumeID", TEXT), ("fsType", "FSType", TEXT), ("readOnly", "ReadOnly", FALSE),
    ("secretRef", "SecretRef", Pointer(SECRET_REFERENCE)),
];
#[rustfmt::skip]
const CEPH_FS_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("monitors", "Monitors", NULL), ("path", "Path", TEXT), ("user", "User", TEXT),
    ("secretFile", "SecretFile", TEXT), ("secretRef", "SecretRef", Pointer(SECRET_REFERENCE)),
    ("readOnly", "ReadOnly", FALSE),
];
#[rustfmt::skip]
const AZURE_FILE_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("secretName", "SecretName", TEXT), ("shareName", "ShareName", TEXT), ("readOnly", "ReadOnly", FALSE),
    ("secretNamespace", "SecretNamespace", NULL),
];
#[rustfmt::skip]
const SCALE_IO_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("gateway", "Gateway", TEXT), ("system", "System", TEXT), ("secretRef", "SecretRef", Pointer(SECRET_REFERENCE)),
    ("sslEnabled", "SSLEnabled", FALSE), ("protectionDomain", "ProtectionDomain", TEXT),
    ("storagePool", "StoragePool", TEXT), ("storageMode", "StorageMode", TEXT), ("volumeName", "VolumeName", TEXT),
    ("fsType", "FSType", TEXT), ("readOnly", "ReadOnly", FALSE),
];
const LOCAL_VOLUME_SOURCE: &[Field] = &[("path", "Path", TEXT), ("fsType", "FSType", NULL)];
#[rustfmt::skip]
const OBJECT_REFERENCE: &[Field] = &[
    ("kind", "Kind", TEXT), ("namespace", "Namespace", TEXT), ("name", "Name", TEXT), ("uid", "UID", TEXT),
    ("apiVersion", "APIVersion", TEXT), ("resourceVersion", "ResourceVersion", TEXT),
    ("fieldPath", "FieldPath", TEXT),
];
#[rustfmt::skip]
const STORAGE_OS_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("volumeName", "VolumeName", TEXT), ("volumeNamespace", "VolumeNamespace", TEXT), ("fsType", "FSType", TEXT),
    ("readOnly", "ReadOnly", FALSE), ("secretRef", "SecretRef", Pointer(OBJECT_REFERENCE)),
];
#[rustfmt::skip]
const CSI_PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("driver", "Driver", TEXT), ("volumeHandle", "VolumeHandle", TEXT), ("readOnly", "ReadOnly", FALSE),
    ("fsType", "FSType", TEXT), ("volumeAttributes", "VolumeAttributes", NULL),
    ("controllerPublishSecretRef", "ControllerPublishSecretRef", Pointer(SECRET_REFERENCE)),
    ("nodeStageSecretRef", "NodeStageSecretRef", Pointer(SECRET_REFERENCE)),
    ("nodePublishSecretRef", "NodePublishSecretRef", Pointer(SECRET_REFERENCE)),
    ("controllerExpandSecretRef", "ControllerExpandSecretRef", Pointer(SECRET_REFERENCE)),
    ("nodeExpandSecretRef", "NodeExpandSecretRef", Pointer(SECRET_REFERENCE)),
];
#[rustfmt::skip]
pub(crate) const PERSISTENT_VOLUME_SOURCE: &[Field] = &[
    ("gcePersistentDisk", "GCEPersistentDisk", Pointer(GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
    ("awsElasticBlockStore", "AWSElasticBlockStore", Pointer(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
    ("hostPath", "HostPath", Pointer(HOST_PATH_VOLUME_SOURCE)),
    ("glusterfs", "Glusterfs", Pointer(GLUSTERFS_PERSISTENT_VOLUME_SOURCE)),
    ("nfs", "NFS", Pointer(NFS_VOLUME_SOURCE)), ("rbd", "RBD", Pointer(RBD_PERSISTENT_VOLUME_SOURCE)),
    ("quobyte", "Quobyte", Pointer(QUOBYTE_VOLUME_SOURCE)),
    ("iscsi", "ISCSI", Pointer(ISCSI_PERSISTENT_VOLUME_SOURCE)),
    ("flexVolume", "FlexVolume", Pointer(FLEX_PERSISTENT_VOLUME_SOURCE)),
    ("cinder", "Cinder", Pointer(CINDER_PERSISTENT_VOLUME_SOURCE)),
    ("cephfs", "CephFS", Pointer(CEPH_FS_PERSISTENT_VOLUME_SOURCE)), ("fc", "FC", Pointer(FC_VOLUME_SOURCE)),
    ("flocker", "Flocker", Pointer(FLOCKER_VOLUME_SOURCE)),
    ("azureFile", "AzureFile", Pointer(AZURE_FILE_PERSISTENT_VOLUME_SOURCE)),
    ("vsphereVolume", "VsphereVolume", Pointer(VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
    ("azureDisk", "AzureDisk", Pointer(AZURE_DISK_VOLUME_SOURCE)),
    ("photonPersistentDisk", "PhotonPersistentDisk", Pointer(PHOTON_PERSISTENT_DISK_VOLUME_SOURCE)),
    ("portworxVolume", "PortworxVolume", Pointer(PORTWORX_VOLUME_SOURCE)),
    ("scaleIO", "ScaleIO", Pointer(SCALE_IO_PERSISTENT_VOLUME_SOURCE)),
    ("local", "Local", Pointer(LOCAL_VOLUME_SOURCE)),
    ("storageos", "StorageOS", Pointer(STORAGE_OS_PERSISTENT_VOLUME_SOURCE)),
    ("csi", "CSI", Pointer(CSI_PERSISTENT_VOLUME_SOURCE)),
];
