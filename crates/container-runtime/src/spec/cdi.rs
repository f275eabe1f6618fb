//! CDI: devices by name, and what a container needs for them, as files of the machine describe it.
//!
//! ```text
//!  /etc/cdi, /var/run/cdi ── specs ── devices by name ──> more devices, mounts, variables, groups of a cri::ContainerConfig
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cri::{ContainerConfig, Error, MountPropagation};
use object::Value;

use crate::error::unknown;

/// Of a file, and of files: more is nobody's description of devices.
const MOST_BYTES: u64 = 4 << 20;
const MOST_FILES: usize = 1000;

struct Device {
    /// The place of its directory.
    priority: usize,
    /// Which file describes it.
    spec: usize,
    edits: Value,
    /// Two files of the same precedence describe it: it is neither's.
    conflict: bool,
}

/// The config with all its CDI devices as what they consist of. What is in a later directory takes precedence.
pub fn inject(directories: &[&Path], config: &ContainerConfig) -> Result<ContainerConfig, Error> {
    let (mut devices, mut common) = (BTreeMap::new(), Vec::new());
    for (priority, directory) in directories.iter().enumerate() {
        for file in files(directory) {
            match read(&file) {
                Ok(spec) => add(spec, priority, &mut devices, &mut common),
                // Others may be well.
                Err(why) => tracing::warn!(file = %file.display(), why, "a CDI spec is not read"),
            }
        }
    }
    let usable = |name: &str| devices.get(name).filter(|device: &&Device| !device.conflict);
    let asked = || config.cdi_devices.iter().map(|device| device.name.as_str());
    let unresolvable: Vec<&str> = asked().filter(|name| usable(name).is_none()).collect();
    if !unresolvable.is_empty() {
        let names = unresolvable.join(", ");
        return Err(unknown(format!("CDI device injection failed: unresolvable CDI devices {names}")));
    }
    let mut edited = config.clone();
    edited.cdi_devices.clear();
    let mut specs = Vec::new();
    for device in asked().filter_map(usable) {
        // What holds for all devices of a spec is done once.
        if !specs.contains(&device.spec) {
            specs.push(device.spec);
            edit(&mut edited, &common[device.spec])?;
        }
        edit(&mut edited, &device.edits)?;
    }
    Ok(edited)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_spec = |path: &PathBuf| {
        path.extension().and_then(|end| end.to_str()).is_some_and(|end| matches!(end, "json" | "yaml"))
    };
    let mut all: Vec<PathBuf> = entries.filter(is_spec).take(MOST_FILES).collect();
    all.sort();
    all
}

fn read(file: &Path) -> Result<Value, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MOST_BYTES {
        return Err(format!("it is larger than {MOST_BYTES} bytes"));
    }
    let bytes = fs::read(file).map_err(|error| error.to_string())?;
    let spec = codec::yaml::parse_document(&bytes).map_err(|error| error.to_string())?.value;
    let kind = spec.str_at(&["kind"]).unwrap_or("");
    let named = kind.split_once('/').is_some_and(|(vendor, class)| !vendor.is_empty() && !class.is_empty());
    if !named || spec.str_at(&["cdiVersion"]).is_none() {
        return Err("it has no cdiVersion, or no kind of the form vendor/class".to_owned());
    }
    Ok(spec)
}

fn add(spec: Value, priority: usize, devices: &mut BTreeMap<String, Device>, common: &mut Vec<Value>) {
    let kind = spec.str_at(&["kind"]).unwrap_or("").to_owned();
    let of = |value: &Value| value.get("containerEdits").cloned().unwrap_or_else(Value::map);
    common.push(of(&spec));
    let at = common.len() - 1;
    for device in spec.get("devices").and_then(Value::as_list).unwrap_or_default() {
        let name = format!("{kind}={}", device.str_at(&["name"]).unwrap_or(""));
        let device = Device { priority, spec: at, edits: of(device), conflict: false };
        match devices.get_mut(&name) {
            Some(known) if known.priority == priority => known.conflict = true,
            _ => drop(devices.insert(name, device)),
        }
    }
}

fn edit(config: &mut ContainerConfig, edits: &Value) -> Result<(), Error> {
    let list = |name: &str| edits.get(name).and_then(Value::as_list).unwrap_or_default();
    // Differs from containerd: these would be left out in silence otherwise, and the device would not work.
    for name in ["hooks", "intelRdt", "netDevices"] {
        if edits.get(name).is_some_and(|given| !given.is_null() && given.as_list() != Some(&[])) {
            return Err(unknown(format!(
                "CDI device injection failed: {name} are not supported by this runtime"
            )));
        }
    }
    for variable in list("env").iter().filter_map(Value::as_str) {
        let (key, value) = variable.split_once('=').unwrap_or((variable, ""));
        config.envs.retain(|one| one.key != key);
        config.envs.push(cri::KeyValue { key: key.to_owned(), value: value.as_bytes().to_vec() });
    }
    for node in list("deviceNodes") {
        let path = text(node, "path");
        let host = Some(text(node, "hostPath")).filter(|host| !host.is_empty()).unwrap_or(path);
        config.devices.retain(|device| device.container_path != path);
        config.devices.push(cri::Device {
            container_path: path.to_owned(),
            host_path: host.to_owned(),
            permissions: text(node, "permissions").to_owned(),
        });
    }
    for mount in list("mounts") {
        let options = mount.get("options").and_then(Value::as_list).unwrap_or_default();
        let has = |names: &[&str]| options.iter().filter_map(Value::as_str).any(|one| names.contains(&one));
        let propagation = match () {
            () if has(&["shared", "rshared"]) => MountPropagation::Bidirectional,
            () if has(&["slave", "rslave"]) => MountPropagation::HostToContainer,
            () => MountPropagation::Private,
        };
        config.mounts.push(cri::Mount {
            container_path: text(mount, "containerPath").to_owned(),
            host_path: text(mount, "hostPath").to_owned(),
            readonly: has(&["ro"]),
            propagation: propagation as i32,
            ..cri::Mount::default()
        });
    }
    let groups = list("additionalGids").iter().filter_map(Value::as_int).filter(|group| *group > 0);
    let groups: Vec<i64> = groups.collect();
    if !groups.is_empty() {
        let linux = config.linux.get_or_insert_default();
        linux.security_context.get_or_insert_default().supplemental_groups.extend(groups);
    }
    Ok(())
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.str_at(&[name]).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"
cdiVersion: 0.6.0
kind: example.com/thing
containerEdits:
  env: [ALL=1]
devices:
- name: zero
  containerEdits:
    deviceNodes: [{path: /dev/thing0, hostPath: /dev/zero, permissions: rw}, {path: /dev/full}]
    mounts: [{hostPath: /opt/thing, containerPath: /lib/thing, options: [ro, nosuid, bind]}]
    env: [THING=zero, PATH=/thing]
    additionalGids: [0, 44]
- name: hooked
  containerEdits: {hooks: [{hookName: createContainer, path: /bin/x}]}
- name: one
  containerEdits: {env: [THING=one]}
"#;

    fn asked(names: &[&str]) -> ContainerConfig {
        let device = |name: &&str| cri::CDIDevice { name: (*name).to_owned() };
        ContainerConfig {
            envs: vec![cri::KeyValue { key: "PATH".to_owned(), value: b"/bin".to_vec() }],
            cdi_devices: names.iter().map(device).collect(),
            ..ContainerConfig::default()
        }
    }

    fn inject_from(folders: &[&Path], names: &[&str]) -> Result<ContainerConfig, String> {
        inject(folders, &asked(names)).map_err(|error| error.message)
    }

    fn variables(config: &ContainerConfig) -> Vec<String> {
        let text = |one: &cri::KeyValue| format!("{}={}", one.key, String::from_utf8_lossy(&one.value));
        config.envs.iter().map(text).collect()
    }

    #[test]
    fn a_device_is_what_its_spec_says() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thing.yaml"), SPEC).unwrap();
        fs::write(folder.path().join("broken.json"), "{").unwrap();
        fs::write(folder.path().join("notes.txt"), "not one").unwrap();
        let names = ["example.com/thing=zero", "example.com/thing=one"];
        let config = inject_from(&[folder.path(), Path::new("/no/such")], &names).unwrap();
        assert!(config.cdi_devices.is_empty());
        assert_eq!(variables(&config), ["ALL=1", "PATH=/thing", "THING=one"]);
        let devices: Vec<_> =
            config.devices.iter().map(|d| (&*d.container_path, &*d.host_path, &*d.permissions)).collect();
        assert_eq!(devices, [("/dev/thing0", "/dev/zero", "rw"), ("/dev/full", "/dev/full", "")]);
        let mount = &config.mounts[0];
        assert_eq!(
            (&*mount.host_path, &*mount.container_path, mount.readonly),
            ("/opt/thing", "/lib/thing", true)
        );
        let groups = config.linux.unwrap().security_context.unwrap().supplemental_groups;
        assert_eq!(groups, [44]);
    }

    #[test]
    fn what_cannot_be_had_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thing.yaml"), SPEC).unwrap();
        let refused = |names: &[&str]| inject_from(&[folder.path()], names).unwrap_err();
        assert_eq!(
            refused(&["example.com/thing=zero", "example.com/thing=two", "other.com/thing=zero"]),
            "CDI device injection failed: unresolvable CDI devices example.com/thing=two, other.com/thing=zero"
        );
        assert_eq!(
            refused(&["example.com/thing=hooked"]),
            "CDI device injection failed: hooks are not supported by this runtime"
        );
    }

    #[test]
    fn the_later_directory_counts_and_of_two_files_neither() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let spec = |value: &str| {
            format!(
                r#"{{"cdiVersion":"0.5.0","kind":"a.b/c","devices":[{{"name":"d","containerEdits":{{"env":["X={value}"]}}}}]}}"#
            )
        };
        fs::write(first.path().join("a.json"), spec("first")).unwrap();
        fs::write(first.path().join("b.json"), spec("other")).unwrap();
        assert!(inject_from(&[first.path()], &["a.b/c=d"]).is_err());
        fs::write(second.path().join("a.json"), spec("second")).unwrap();
        let config = inject_from(&[first.path(), second.path()], &["a.b/c=d"]).unwrap();
        assert_eq!(variables(&config), ["PATH=/bin", "X=second"]);
    }
}
