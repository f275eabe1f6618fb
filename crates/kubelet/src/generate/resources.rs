//! What the containers of a pod ask for and may use, added up: the agent tells of it as well.

pub use node::pod::resources::*;
