//! Where a node asks for its certificate from: known here only, and told to whoever approves the request, as part of the requester.

use std::net::IpAddr;
use std::sync::Arc;

use auth::node::SOURCE_ADDRESS;
use auth::{Attributes, UserInfo, node};

/// The user, with the address for a node that makes a CertificateSigningRequest. Nobody can send one along: the requester in a request
/// is the one that was authenticated.
pub(crate) fn of_node(
    user: Arc<UserInfo>,
    attributes: &Attributes<'_>,
    peer: Option<IpAddr>,
) -> Arc<UserInfo> {
    let asks = attributes.resource == "certificatesigningrequests" && attributes.verb == "create";
    let Some(peer) = peer.filter(|_| asks && node::name_of(&user).is_some()) else { return user };
    let mut user = UserInfo::clone(&user);
    user.extra.insert(SOURCE_ADDRESS.to_owned(), vec![peer.to_canonical().to_string()]);
    Arc::new(user)
}
