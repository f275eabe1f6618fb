use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";

fn load(text: &str) -> Result<AdmissionConfiguration, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admission.yaml");
    std::fs::write(&path, text).unwrap();
    std::fs::write(folder.path().join("quota.yaml"), QUOTA_FILE).unwrap();
    let loaded = AdmissionConfiguration::load(&path);
    let shown = folder.path().display().to_string();
    loaded.map_err(|error| error.to_string().replace(&shown, "DIR"))
}

const QUOTA_FILE: &str = "apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- resource: pods
  matchScopes: [{scopeName: PriorityClass, operator: In, values: [high]}]
- apiGroup: apps
  resource: deployments
  matchContains: [count/]
";

#[test]
fn plugins_are_configured_by_path_or_in_place() {
    let text = format!(
        "{HEAD}plugins:
- name: ResourceQuota
  path: quota.yaml
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {{enforce: baseline}}
    exemptions: {{usernames: [jane]}}
- name: LimitRanger
"
    );
    let loaded = load(&text).unwrap();
    let [pods, deployments] = &loaded.plugins.limited_resources[..] else { panic!("two") };
    assert_eq!((&*pods.plural, pods.scopes[0].to_string()), ("pods", "{PriorityClass In [high]}".to_owned()));
    assert_eq!((&*deployments.group, &deployments.names[..]), ("apps", &["count/".to_owned()][..]));
    assert!(loaded.mutating_webhooks.is_none());
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let inline = |name: &str, configuration: &str| {
        format!("{HEAD}plugins:\n- name: {name}\n  configuration: {configuration}\n")
    };
    let security = |rest: &str| {
        inline(
            "PodSecurity",
            &format!(
                "{{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, {rest}}}"
            ),
        )
    };
    let hooks = |rest: &str| {
        inline(
            "MutatingAdmissionWebhook",
            &format!(
                "{{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, {rest}}}"
            ),
        )
    };
    let inits = "couldn't init admission plugin";
    let place = "DIR/admission.yaml: plugins[0].configuration";
    for (text, error) in [
        (
            "kind: AdmissionConfiguration".to_owned(),
            "DIR/admission.yaml: Object 'apiVersion' is missing: write `apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration`".to_owned(),
        ),
        (
            format!("{HEAD}plugin: []"),
            "DIR/admission.yaml: strict decoding error: unknown field \"plugin\"".to_owned(),
        ),
        (
            inline("EventRateLimit", "{}"),
            "DIR/admission.yaml: plugins[0].name: the admission plugin EventRateLimit is not part of this version of setpoint: remove its entry".to_owned(),
        ),
        (
            format!("{HEAD}plugins: [{{name: ResourceQuota, path: gone.yaml}}]"),
            format!("{inits} \"ResourceQuota\": DIR/gone.yaml: open DIR/gone.yaml: no such file or directory"),
        ),
        (
            security("defaults: {enforce: loose, warn-version: v2}"),
            format!("{inits} \"PodSecurity\": {place}: [defaults.enforce: Invalid value: \"loose\": must be one of privileged, baseline, restricted, defaults.warn-version: Invalid value: \"v2\": must be \"latest\" or \"v1.x\"]"),
        ),
        (
            security("exemptions: {usernames: [a, a]}"),
            format!("{inits} \"PodSecurity\": {place}: exemptions.usernames[1]: Duplicate value: \"a\""),
        ),
        (
            security("exemptions: {namespaces: a}"),
            format!("{inits} \"PodSecurity\": {place}: strict decoding error: field \"exemptions.namespaces\" must be a list"),
        ),
        (
            inline("PodSecurity", "{apiVersion: v1, kind: Pod}"),
            format!("{inits} \"PodSecurity\": {place}: no kind \"Pod\" is registered for version \"v1\" here: write `apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration`"),
        ),
        (
            hooks("kubeConfigFile: relative"),
            format!("{inits} \"MutatingAdmissionWebhook\": {place}: kubeConfigFile: Invalid value: \"relative\": must be an absolute file path"),
        ),
        (
            hooks("staticManifestsDir: /etc"),
            format!("{inits} \"MutatingAdmissionWebhook\": {place}: staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled"),
        ),
    ] {
        assert_eq!(load(&text).err().unwrap(), error, "{text}");
    }
    let unknown = load(&inline("PodSecurty", "{}")).err().unwrap();
    assert!(unknown.contains("plugins[0].name: unknown admission plugin: \"PodSecurty\"; there are: "));
    let missing = AdmissionConfiguration::load(Path::new("/nowhere/a.yaml")).err().unwrap().to_string();
    let opened = "[open /nowhere/a.yaml: no such file or directory]";
    assert_eq!(
        missing,
        format!("unable to read admission control configuration from \"/nowhere/a.yaml\" {opened}")
    );
}
