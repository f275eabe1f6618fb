// A webhook server as operators have it: controller-runtime's, with a defaulter, a validator and a handler of its own. It is
// configured by URL and CA bundle, asked by the API server, and told apart by what becomes of the objects.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	patience  = 30 * time.Second
	namespace = "default"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func holds(condition bool, what string, shown ...any) {
	if !condition {
		must(fmt.Errorf("%s: %v", what, shown))
	}
}

// pods is a defaulter and a validator of pods.
type pods struct{}

func (pods) Default(ctx context.Context, pod *corev1.Pod) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["defaulted-by"] = request.UserInfo.Username
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].ImagePullPolicy == corev1.PullAlways {
			pod.Spec.Containers[i].ImagePullPolicy = corev1.PullIfNotPresent
		}
	}
	return nil
}

func (pods) ValidateCreate(_ context.Context, pod *corev1.Pod) (admission.Warnings, error) {
	if pod.Annotations["defaulted-by"] == "" {
		return nil, errors.New("not defaulted")
	}
	if strings.HasPrefix(pod.Name, "bad") {
		return admission.Warnings{"about to refuse"}, fmt.Errorf("%s is a bad name", pod.Name)
	}
	return admission.Warnings{"created with care"}, nil
}

func (pods) ValidateUpdate(_ context.Context, before, after *corev1.Pod) (admission.Warnings, error) {
	if before.Labels["fixed"] != after.Labels["fixed"] {
		return nil, apierrors.NewConflict(corev1.Resource("pods"), after.Name, errors.New("fixed is fixed"))
	}
	return nil, nil
}

func (pods) ValidateDelete(_ context.Context, pod *corev1.Pod) (admission.Warnings, error) {
	if pod.Labels["keep"] == "yes" {
		return nil, errors.New("it is kept")
	}
	return nil, nil
}

// maps answers by hand, as handlers do that know no type.
type maps struct {
	mu   sync.Mutex
	seen []string
}

func (m *maps) Handle(_ context.Context, request admission.Request) admission.Response {
	m.mu.Lock()
	m.seen = append(m.seen, fmt.Sprintf("%s %s", request.Operation, request.Name))
	m.mu.Unlock()
	if request.Operation == "DELETE" {
		return admission.Allowed("")
	}
	var object corev1.ConfigMap
	if err := json.Unmarshal(request.Object.Raw, &object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	switch object.Name {
	case "denied":
		return admission.Denied("by hand").WithWarnings("look out")
	case "errored":
		return admission.Errored(http.StatusTeapot, errors.New("short and stout"))
	}
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	object.Data["seen"] = string(request.Operation)
	changed, err := json.Marshal(&object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

// certificate writes a key and a certificate of its own, and returns the latter.
func certificate(dir string) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(os.WriteFile(filepath.Join(dir, "tls.crt"), bundle, 0o600))
	must(os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return bundle
}

func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func rules(resource string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: operations,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}}
}

type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.text, "; ")
	w.text = nil
	return text
}

func main() {
	log.SetLogger(zap.New())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must(err)
	warned := &warnings{}
	own := rest.CopyConfig(config)
	own.WarningHandler = warned
	c, err := client.New(own, client.Options{})
	must(err)

	dir, err := os.MkdirTemp("", "webhook")
	must(err)
	defer os.RemoveAll(dir)
	bundle, port := certificate(dir), freePort()
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir})
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: clientgoscheme.Scheme, WebhookServer: server, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	must(err)
	must(ctrl.NewWebhookManagedBy(manager, &corev1.Pod{}).WithDefaulter(pods{}).WithValidator(pods{}).Complete())
	handler := &maps{}
	server.Register("/maps", &webhook.Admission{Handler: handler})
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	started, deadline := server.StartedChecker(), time.Now().Add(patience)
	for started(nil) != nil {
		holds(time.Now().Before(deadline), "the webhook server did not start")
		time.Sleep(20 * time.Millisecond)
	}

	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	at := func(path string) admissionregistrationv1.WebhookClientConfig {
		// envtest joins with a double slash.
		url := fmt.Sprintf("https://127.0.0.1:%d/%s", port, path)
		return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: bundle}
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "go"}, Webhooks: []admissionregistrationv1.MutatingWebhook{
		{Name: "pods.example.com", ClientConfig: at("/mutate--v1-pod"), Rules: rules("pods", "CREATE"), SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}},
		{Name: "maps.example.com", ClientConfig: at("maps"), Rules: rules("configmaps", "*"), SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1", "v1beta1"}},
	}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "go"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{
		{Name: "pods.example.com", ClientConfig: at("/validate--v1-pod"), Rules: rules("pods", "CREATE", "UPDATE", "DELETE"), SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}},
	}}
	must(c.Create(ctx, mutating))
	must(c.Create(ctx, validating))

	// Pods: defaulted, then validated.
	pod := func(name string, labels map[string]string) *corev1.Pod {
		container := corev1.Container{Name: "c", Image: "i:latest"}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
	}
	good := pod("good", map[string]string{"fixed": "1", "keep": "yes"})
	must(c.Create(ctx, good))
	holds(good.Annotations["defaulted-by"] != "", "the defaulter did nothing", good.Annotations)
	holds(good.Spec.Containers[0].ImagePullPolicy == corev1.PullIfNotPresent, "the policy is", good.Spec.Containers[0].ImagePullPolicy)
	text := warned.take()
	holds(text == "created with care", "the warning is", text)
	err = c.Create(ctx, pod("bad-one", nil))
	holds(apierrors.IsForbidden(err) && strings.Contains(err.Error(), `admission webhook "pods.example.com" denied the request: bad-one is a bad name`), "the refusal is", err)
	text = warned.take()
	holds(text == "about to refuse", "the warning is", text)
	err = c.Patch(ctx, good.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"fixed":"2"}}}`)))
	holds(apierrors.IsConflict(err) && strings.Contains(err.Error(), "fixed is fixed"), "the conflict is", err)
	err = c.Delete(ctx, good)
	holds(apierrors.IsForbidden(err) && strings.Contains(err.Error(), "it is kept"), "the refusal is", err)
	must(c.Patch(ctx, good, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"keep":null}}}`))))
	must(c.Delete(ctx, good, client.GracePeriodSeconds(0)))

	// Config maps: by hand, for every operation.
	configMap := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	}
	object := configMap("m")
	must(c.Create(ctx, object))
	holds(object.Data["seen"] == "CREATE", "the data is", object.Data)
	must(c.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"more":"x"}}`))))
	holds(object.Data["seen"] == "UPDATE" && object.Data["more"] == "x", "the data is", object.Data)
	err = c.Create(ctx, configMap("denied"))
	holds(apierrors.IsForbidden(err) && strings.Contains(err.Error(), `admission webhook "maps.example.com" denied the request: by hand`), "the refusal is", err)
	text = warned.take()
	holds(text == "look out", "the warning is", text)
	err = c.Create(ctx, configMap("errored"))
	var status apierrors.APIStatus
	holds(errors.As(err, &status) && status.Status().Code == http.StatusTeapot && strings.Contains(err.Error(), "short and stout"), "the error is", err)
	dry := configMap("dry")
	must(c.Create(ctx, dry, client.DryRunAll))
	holds(dry.Data["seen"] == "CREATE", "the data is", dry.Data)
	must(c.Delete(ctx, object))
	handler.mu.Lock()
	seen := strings.Join(handler.seen, ", ")
	handler.mu.Unlock()
	holds(seen == "CREATE m, UPDATE m, CREATE denied, CREATE errored, CREATE dry, DELETE m", "the handler saw", seen)

	// A server that is gone: the failure policy counts.
	stop()
	must(<-ended)
	err = c.Create(context.Background(), configMap("late"))
	holds(apierrors.IsInternalError(err) && strings.Contains(err.Error(), `failed calling webhook "maps.example.com": failed to call webhook: Post "https://127.0.0.1:`), "the failure is", err)
	must(c.Delete(context.Background(), mutating))
	must(c.Delete(context.Background(), validating))
	must(c.Create(context.Background(), configMap("late")))
	fmt.Println("all facts hold")
}
