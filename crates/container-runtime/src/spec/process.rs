//! What is executed: the pod's command or the image's, its environment, and as whom.

use container::config::{Process, User, Variable};
use cri::{Error, SupplementalGroupsPolicy};

use super::{Parts, security};
use crate::error::{invalid, unknown};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub fn build(parts: &Parts<'_>) -> Result<Process, Error> {
    let context = parts.context();
    let (config, of_image) = (parts.config, &parts.image.config);
    let linux = config.linux.clone().unwrap_or_default();
    let resources = linux.resources.unwrap_or_default();
    let cwd = [&*config.working_dir, &*of_image.working_dir, "/"];
    let hostname = parts.sandbox.record.config().hostname;
    let hostname = if hostname.is_empty() { parts.runtime.env.hostname().to_owned() } else { hostname };
    let adjust = i32::try_from(resources.oom_score_adj).unwrap_or_default();
    Ok(Process {
        args: args(config, of_image)?,
        env: env(config, of_image, &hostname),
        cwd: cwd.into_iter().find(|cwd| !cwd.is_empty()).unwrap_or_default().into(),
        user: user(&context, &of_image.user)?,
        terminal: config.tty,
        capabilities: security::capabilities(&context)?,
        ambient: security::ambient(&context)?,
        no_new_privileges: context.no_new_privs,
        // Compiled when it starts.
        seccomp: Vec::new(),
        apparmor: parts.runtime.apparmor.profile(&context)?,
        oom_score_adj: Some(adjust.clamp(-1000, 1000)),
        rlimits: Vec::new(),
    })
}

/// A command of the pod takes the place of both the image's; arguments alone only of its command.
fn args(config: &cri::ContainerConfig, image: &image::Config) -> Result<Vec<String>, Error> {
    let mut args = config.command.clone();
    if args.is_empty() {
        if image.entrypoint != [""] {
            args.extend(image.entrypoint.iter().cloned());
        }
        if config.args.is_empty() {
            args.extend(image.cmd.iter().cloned());
        }
    }
    args.extend(config.args.iter().cloned());
    if args.is_empty() { Err(unknown("no command specified")) } else { Ok(args) }
}

/// The image's, then the pod's; of one name the last counts.
fn env(config: &cri::ContainerConfig, image: &image::Config, hostname: &str) -> Vec<Variable> {
    let mut all = vec![PATH.into()];
    if config.tty {
        all.push("TERM=xterm".into());
    }
    all.push(Variable::new("HOSTNAME", hostname.as_bytes()));
    all.extend(image.env.iter().map(|pair| pair.as_str().into()));
    all.extend(config.envs.iter().map(|one| Variable::new(&one.key, &one.value)));
    all
}

pub fn user(context: &cri::LinuxContainerSecurityContext, of_image: &str) -> Result<User, Error> {
    let group = context.run_as_group.as_ref().map(|group| group.value.to_string());
    let user = match (&context.run_as_user, &*context.run_as_username) {
        (Some(user), _) => Some(user.value.to_string()),
        (None, "") => None,
        (None, name) => Some(name.to_owned()),
    };
    let (user, group) = match (user, group) {
        (Some(user), group) => (user, group.unwrap_or_default()),
        (None, Some(_)) => return Err(invalid("user group is specified without user")),
        (None, None) => {
            let (user, group) = of_image.split_once(':').unwrap_or((of_image, ""));
            (user.to_owned(), group.to_owned())
        }
    };
    let additional = context.supplemental_groups.iter().map(|group| {
        u32::try_from(*group).map_err(|_| invalid(format!("invalid supplemental group {group}")))
    });
    Ok(User {
        user,
        group,
        additional_groups: additional.collect::<Result<_, _>>()?,
        merge_groups: context.supplemental_groups_policy() == SupplementalGroupsPolicy::Merge,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn the_command_is_the_pods_or_the_images() {
        let image = image::Config {
            entrypoint: strings(&["/entry"]),
            cmd: strings(&["image", "arg"]),
            ..image::Config::default()
        };
        for (command, arguments, expected) in [
            (vec![], vec![], vec!["/entry", "image", "arg"]),
            (vec![], vec!["x"], vec!["/entry", "x"]),
            (vec!["/cmd"], vec![], vec!["/cmd"]),
            (vec!["/cmd"], vec!["x"], vec!["/cmd", "x"]),
        ] {
            let config = cri::ContainerConfig {
                command: strings(&command),
                args: strings(&arguments),
                ..Default::default()
            };
            assert_eq!(args(&config, &image).unwrap(), expected);
        }
        let none = args(&cri::ContainerConfig::default(), &image::Config::default()).unwrap_err();
        assert_eq!(none.message, "no command specified");
    }

    #[test]
    fn the_user_is_the_pods_or_the_images() {
        let number = |value| Some(cri::Int64Value { value });
        let mut context = cri::LinuxContainerSecurityContext::default();
        let shown = |context: &_| {
            user(context, "web:www").map(|user| (user.user, user.group, user.merge_groups)).ok()
        };
        assert_eq!(shown(&context), Some(("web".to_owned(), "www".to_owned(), true)));
        context.run_as_group = number(5);
        assert_eq!(shown(&context), None);
        context.run_as_user = number(7);
        context.supplemental_groups_policy = SupplementalGroupsPolicy::Strict.into();
        assert_eq!(shown(&context), Some(("7".to_owned(), "5".to_owned(), false)));
        context.run_as_group = None;
        assert_eq!(shown(&context), Some(("7".to_owned(), String::new(), false)));
    }

    #[test]
    fn variables_of_the_pod_come_last() {
        let image = image::Config { env: strings(&["PATH=/x", "A=1"]), ..image::Config::default() };
        let config = cri::ContainerConfig {
            envs: vec![cri::KeyValue { key: "A".to_owned(), value: b"2".to_vec() }],
            tty: true,
            ..Default::default()
        };
        let all = env(&config, &image, "web-0");
        assert_eq!(all[1..], ["TERM=xterm", "HOSTNAME=web-0", "PATH=/x", "A=1", "A=2"].map(Variable::from));
    }
}
