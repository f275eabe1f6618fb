//! `--cluster-cidr`, `--node-cidr-mask-size` and what they must hold to.

use super::cidr::{Cidr, bits};

/// Of IPv6 upstream allows this many bits between the cluster's CIDR and a block; of IPv4, all of them.
const MOST_V6: u8 = 16;
const DEFAULT_V4: u8 = 24;
const DEFAULT_V6: u8 = 64;

/// What to allocate from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIpam {
    /// Each with the prefix length of its blocks; one, or one of each family.
    pub(super) clusters: Vec<(Cidr, u8)>,
    /// Never given to nodes: the services', and those of nodes that choose for themselves.
    pub(super) reserved: Vec<Cidr>,
    /// Only nodes that a kubelet has registered get any, and no simulated ones.
    pub(super) kubelets_only: bool,
}

/// `--node-cidr-mask-size`, and the same by family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskSizes {
    pub any: Option<u8>,
    pub v4: Option<u8>,
    pub v6: Option<u8>,
}

impl NodeIpam {
    /// The error is upstream's.
    pub fn new(cluster_cidr: &str, sizes: MaskSizes, services: Vec<Cidr>) -> Result<NodeIpam, String> {
        if cluster_cidr.trim().is_empty() {
            return Err("Must specify --cluster-cidr if --allocate-node-cidrs is set".to_owned());
        }
        let mut clusters = Vec::new();
        for text in cluster_cidr.trim().split(',') {
            let invalid = || format!("invalid CIDR[{}]: {text}", clusters.len());
            clusters.push(Cidr::parse(text).ok_or_else(invalid)?);
        }
        let v6 = clusters.iter().filter(|cidr| cidr.is_v6).count();
        if clusters.len() > 1 && (v6 == 0 || v6 == clusters.len()) {
            return Err(format!(
                "len of ClusterCIDRs=={} and they are not configured as dual stack (at least one from each IPFamily",
                clusters.len()
            ));
        }
        if clusters.len() > 2 {
            return Err(format!("length of clusterCIDRs is:{} more than max allowed of 2", clusters.len()));
        }
        let (size_v4, size_v6) = sizes.of(clusters.len() > 1, v6 > 0)?;
        let sized = |cidr: Cidr| (cidr, if cidr.is_v6 { size_v6 } else { size_v4 });
        let clusters: Vec<(Cidr, u8)> = clusters.into_iter().map(sized).collect();
        for (cidr, size) in &clusters {
            if cidr.size > *size || *size > bits(cidr.is_v6) {
                return Err("Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family".to_owned());
            }
            if cidr.is_v6 && size - cidr.size > MOST_V6 {
                return Err("New CIDR set failed; the node CIDR size is too big".to_owned());
            }
        }
        Ok(NodeIpam { clusters, reserved: services, kubelets_only: false })
    }

    /// Leaves alone nodes that have no use for addresses: simulated ones, and objects that no kubelet has registered.
    pub fn kubelets_only(self) -> NodeIpam {
        NodeIpam { kubelets_only: true, ..self }
    }

    /// Never gives these to a node.
    pub fn reserve(&mut self, cidrs: impl IntoIterator<Item = Cidr>) {
        self.reserved.extend(cidrs);
    }
}

impl MaskSizes {
    /// The sizes of both families.
    fn of(self, dual_stack: bool, single_v6: bool) -> Result<(u8, u8), String> {
        let by_family = (self.v4.unwrap_or(DEFAULT_V4), self.v6.unwrap_or(DEFAULT_V6));
        let refused = match self {
            MaskSizes { any: Some(_), .. } if dual_stack => {
                "usage of --node-cidr-mask-size is not allowed with dual-stack clusters"
            }
            _ if dual_stack => return Ok(by_family),
            MaskSizes { any: Some(size), v4: None, v6: None } => return Ok((size, size)),
            MaskSizes { any: Some(_), .. } => {
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
            }
            MaskSizes { v4: Some(_), .. } if single_v6 => {
                "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster"
            }
            MaskSizes { v6: Some(_), .. } if !single_v6 => {
                "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster"
            }
            _ => return Ok(by_family),
        };
        Err(refused.to_owned())
    }
}
