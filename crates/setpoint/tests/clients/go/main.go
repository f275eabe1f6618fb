// A program as people write them on client-go: discovery, a typed informer, retries on conflict, the dynamic client.
// Its arguments are the kubeconfig and the content type to speak. It prints one line a fact and ends with 0 only if all of them held.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
)

const namespace = "go-client"

type event struct {
	verb, name, value string
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check("kubeconfig", err)
	config.QPS = -1
	config.ContentType = os.Args[2]
	if config.ContentType != runtime.ContentTypeJSON {
		config.AcceptContentTypes = config.ContentType + "," + runtime.ContentTypeJSON
	}
	client, err := kubernetes.NewForConfig(config)
	check("client", err)

	discovery(client)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	check("create a namespace", err)
	informer(ctx, client)
	conflicts(ctx, client)
	refusals(ctx, client)
	typedObjects(ctx, client)
	workloads(ctx, client)
	applies(ctx, client)
	metadataOnly(ctx, config)
	// The dynamic client knows no types and always speaks JSON.
	dynamicObjects(ctx, config)
	dynamicApplies(ctx, config)
	check("delete the namespace", client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	fmt.Println("all facts hold")
}

func discovery(client *kubernetes.Clientset) {
	version, err := client.Discovery().ServerVersion()
	check("server version", err)
	expect("the minor version", version.Minor, "36")
	groups, resources, err := client.Discovery().ServerGroupsAndResources()
	check("discovery", err)
	if len(groups) < 15 {
		fail("only %d groups", len(groups))
	}
	kinds := map[string]bool{}
	for _, list := range resources {
		for _, served := range list.APIResources {
			kinds[list.GroupVersion+"/"+served.Name] = true
		}
	}
	for _, want := range []string{"v1/configmaps", "v1/pods/status", "apps/v1/deployments/scale", "rbac.authorization.k8s.io/v1/roles"} {
		if !kinds[want] {
			fail("discovery lacks %s", want)
		}
	}
}

// An informer sees what was there, then every change, once and in order.
func informer(ctx context.Context, client *kubernetes.Clientset) {
	maps := client.CoreV1().ConfigMaps(namespace)
	_, err := maps.Create(ctx, configMap("before", "0"), metav1.CreateOptions{})
	check("create before the informer", err)

	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	shared := factory.Core().V1().ConfigMaps()
	events := make(chan event, 100)
	send := func(verb string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		m := object.(*corev1.ConfigMap)
		events <- event{verb, m.Name, m.Data["value"]}
	}
	_, err = shared.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send("add", object) },
		UpdateFunc: func(_, object any) { send("update", object) },
		DeleteFunc: func(object any) { send("delete", object) },
	})
	check("add a handler", err)
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	if !cache.WaitForCacheSync(ctx.Done(), shared.Informer().HasSynced) {
		fail("the informer does not sync")
	}
	next(ctx, events, event{"add", "before", "0"})

	made, err := maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
	check("create", err)
	next(ctx, events, event{"add", "a", "1"})
	made.Data["value"] = "2"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	check("update", err)
	next(ctx, events, event{"update", "a", "2"})
	_, err = maps.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{"data":{"value":"3"}}`), metav1.PatchOptions{})
	check("strategic merge patch", err)
	next(ctx, events, event{"update", "a", "3"})
	check("delete", maps.Delete(ctx, "a", metav1.DeleteOptions{}))
	next(ctx, events, event{"delete", "a", "3"})

	cached, err := shared.Lister().ConfigMaps(namespace).Get("before")
	check("read the informer's store", err)
	live, err := maps.Get(ctx, "before", metav1.GetOptions{})
	check("get", err)
	expect("the cached resourceVersion", cached.ResourceVersion, live.ResourceVersion)
}

// Many writers with RetryOnConflict: no increment is lost.
func conflicts(ctx context.Context, client *kubernetes.Clientset) {
	maps := client.CoreV1().ConfigMaps(namespace)
	stale, err := maps.Create(ctx, configMap("counter", ""), metav1.CreateOptions{})
	check("create the counter", err)
	const writers, each = 5, 4
	results := make(chan error, writers)
	// As many retries as there can be other writers' successes, so that none gives up.
	patient := retry.DefaultRetry
	patient.Steps = writers*each + 1
	for range writers {
		go func() {
			for range each {
				err := retry.RetryOnConflict(patient, func() error {
					current, err := maps.Get(ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					current.Data["value"] += "x"
					_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	for range writers {
		check("increment", <-results)
	}
	counter, err := maps.Get(ctx, "counter", metav1.GetOptions{})
	check("get the counter", err)
	expect("increments", len(counter.Data["value"]), writers*each)
	_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
	if !apierrors.IsConflict(err) {
		fail("an update with an old resourceVersion gave %v", err)
	}
}

func refusals(ctx context.Context, client *kubernetes.Clientset) {
	maps := client.CoreV1().ConfigMaps(namespace)
	_, err := maps.Get(ctx, "missing", metav1.GetOptions{})
	expect("get of a missing object is NotFound", apierrors.IsNotFound(err), true)
	_, err = maps.Create(ctx, configMap("before", ""), metav1.CreateOptions{})
	expect("a second create is AlreadyExists", apierrors.IsAlreadyExists(err), true)
	_, err = maps.Create(ctx, configMap("Not A Name", ""), metav1.CreateOptions{})
	expect("a wrong name is Invalid", apierrors.IsInvalid(err), true)
	_, err = maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "not-a-number"})
	expect("a wrong resourceVersion is refused", err != nil, true)
}

// Pods and deployments as structs: what is written comes back, in lists and watches too.
func typedObjects(ctx context.Context, client *kubernetes.Clientset) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		check("create the default service account", err)
	}
	pods := client.CoreV1().Pods(namespace)
	limit := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	spec := corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "busybox", Command: []string{"sleep", "9"},
		Resources: corev1.ResourceRequirements{Limits: limit},
		Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("web")}}},
	}}}
	labels := map[string]string{"app": "typed"}
	pod, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "typed", Labels: labels}, Spec: spec}, metav1.CreateOptions{})
	check("create a pod", err)
	expect("a defaulted field", pod.Spec.RestartPolicy, corev1.RestartPolicyAlways)
	expect("a quantity", pod.Spec.Containers[0].Resources.Limits.Cpu().String(), "250m")
	expect("an int or string", pod.Spec.Containers[0].LivenessProbe.HTTPGet.Port.StrVal, "web")
	watch, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: pod.ResourceVersion, AllowWatchBookmarks: true})
	check("watch pods", err)
	defer watch.Stop()
	pod.Annotations = map[string]string{"note": "ü"}
	pod, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
	check("update a pod", err)
	pod.Status.Phase = corev1.PodRunning
	pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	check("update a pod's status", err)
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
		select {
		case change := <-watch.ResultChan():
			seen, ok := change.Object.(*corev1.Pod)
			expect("the watch brings pods", ok, true)
			expect("the phase in an event", seen.Status.Phase, phase)
		case <-ctx.Done():
			fail("no event of the pod")
		}
	}
	got, err := pods.Get(ctx, "typed", metav1.GetOptions{})
	check("get a pod", err)
	expect("what was written is read", equality.Semantic.DeepEqual(got, pod), true)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=typed", Limit: 10})
	check("list pods", err)
	expect("pods listed", len(list.Items), 1)
	expect("an item is the object", list.Items[0].UID, pod.UID)
	zero := int64(0)
	check("delete the pod", pods.Delete(ctx, "typed", metav1.DeleteOptions{GracePeriodSeconds: &zero}))

	deployments := client.AppsV1().Deployments(namespace)
	replicas := int32(2)
	made, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "typed"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
	}}, metav1.CreateOptions{})
	check("create a deployment", err)
	expect("a defaulted percentage", made.Spec.Strategy.RollingUpdate.MaxSurge.StrVal, "25%")
	scale, err := deployments.GetScale(ctx, "typed", metav1.GetOptions{})
	check("get a scale", err)
	scale.Spec.Replicas = 0
	_, err = deployments.UpdateScale(ctx, "typed", scale, metav1.UpdateOptions{})
	check("update a scale", err)
	all, err := deployments.List(ctx, metav1.ListOptions{})
	check("list deployments", err)
	expect("replicas after a scale", *all.Items[0].Spec.Replicas, int32(0))
	check("delete the deployment", deployments.Delete(ctx, "typed", metav1.DeleteOptions{}))

	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}},
	}, metav1.CreateOptions{})
	check("review access", err)
	expect("the administrator may", review.Status.Allowed, true)
}

// What the garbage collector reads: the metadata of objects of any kind. Its client asks for protobuf by itself.
// Services, jobs and quotas: allotted, completed, counted.
func workloads(ctx context.Context, client *kubernetes.Clientset) {
	const own = "go-workloads"
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}, metav1.CreateOptions{})
	check("create a namespace for workloads", err)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	_, err = client.CoreV1().ResourceQuotas(own).Create(ctx, quota, metav1.CreateOptions{})
	check("create a quota", err)

	containers := []corev1.Container{{Name: "c", Image: "nginx"}}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: containers}}
	}
	made, err := client.CoreV1().Pods(own).Create(ctx, pod("p"), metav1.CreateOptions{})
	check("create a pod in a quota", err)
	expect("the pod's account", made.Spec.ServiceAccountName, "default")
	_, err = client.CoreV1().Pods(own).Create(ctx, pod("over"), metav1.CreateOptions{})
	expect("a pod over the quota is forbidden", apierrors.IsForbidden(err), true)
	counted, err := client.CoreV1().ResourceQuotas(own).Get(ctx, "q", metav1.GetOptions{})
	check("get a quota", err)
	used := counted.Status.Used[corev1.ResourcePods]
	expect("pods used", used.String(), "1")

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}
	reached, err := client.CoreV1().Services(own).Create(ctx, service, metav1.CreateOptions{})
	check("create a service", err)
	expect("a service has an address", reached.Spec.ClusterIP != "" && reached.Spec.ClusterIP == reached.Spec.ClusterIPs[0], true)
	expect("a service has a node port", reached.Spec.Ports[0].NodePort >= 30000, true)

	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: containers}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{Template: template}}
	begun, err := client.BatchV1().Jobs(own).Create(ctx, job, metav1.CreateOptions{})
	check("create a job", err)
	expect("a job's completions", *begun.Spec.Completions, 1)

	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: own}}
	check("evict a pod", client.PolicyV1().Evictions(own).Evict(ctx, eviction))
	_, err = client.CoreV1().Pods(own).Get(ctx, "p", metav1.GetOptions{})
	expect("an evicted pod is gone", apierrors.IsNotFound(err), true)
}

func metadataOnly(ctx context.Context, config *rest.Config) {
	client, err := metadata.NewForConfig(config)
	check("metadata client", err)
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	check("list metadata", err)
	if len(list.Items) == 0 || list.Items[0].UID == "" {
		fail("metadata without objects: %v", list)
	}
	watch, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	check("watch metadata", err)
	defer watch.Stop()
	_, err = maps.Patch(ctx, "before", types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"true"}}}`), metav1.PatchOptions{})
	check("patch metadata", err)
	select {
	case change := <-watch.ResultChan():
		seen, ok := change.Object.(*metav1.PartialObjectMetadata)
		expect("the watch brings metadata", ok, true)
		expect("a label in an event", seen.Labels["seen"], "true")
	case <-ctx.Done():
		fail("no event of the metadata")
	}
}

func dynamicObjects(ctx context.Context, config *rest.Config) {
	client, err := dynamic.NewForConfig(config)
	check("dynamic client", err)
	deployments := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "labels": map[string]any{"app": "web"}},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "busybox"}}},
			},
		},
	}}
	made, err := deployments.Create(ctx, object, metav1.CreateOptions{})
	check("dynamic create", err)
	expect("generation of a new object", made.GetGeneration(), int64(1))
	watch, err := deployments.Watch(ctx, metav1.ListOptions{ResourceVersion: made.GetResourceVersion(), LabelSelector: "app=web"})
	check("dynamic watch", err)
	defer watch.Stop()
	_, err = deployments.Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{})
	check("dynamic patch", err)
	select {
	case change := <-watch.ResultChan():
		expect("the watch's event", string(change.Type), "MODIFIED")
	case <-ctx.Done():
		fail("no event of the dynamic watch")
	}
	list, err := deployments.List(ctx, metav1.ListOptions{LabelSelector: "app=web", FieldSelector: "metadata.name=web"})
	check("dynamic list", err)
	expect("objects listed", len(list.Items), 1)
	expect("generation after a change of spec", list.Items[0].GetGeneration(), int64(2))
	check("dynamic delete", deployments.Delete(ctx, "web", metav1.DeleteOptions{}))
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
}

// kube-root-ca.crt and others may be made by controllers: only our own names count.
func next(ctx context.Context, events <-chan event, want event) {
	for {
		select {
		case got := <-events:
			if got.name != "before" && got.name != "a" {
				continue
			}
			expect("the informer's event", got, want)
			return
		case <-ctx.Done():
			fail("no event; wanted %v", want)
		}
	}
}

func expect[T comparable](what string, got, want T) {
	if got != want {
		fail("%s: got %v, want %v", what, got, want)
	}
	fmt.Println("ok:", what)
}

func check(what string, err error) {
	if err != nil {
		fail("%s: %v", what, err)
	}
	fmt.Println("ok:", what)
}

func fail(format string, args ...any) {
	fmt.Printf("FAILED: "+format+"\n", args...)
	os.Exit(1)
}
