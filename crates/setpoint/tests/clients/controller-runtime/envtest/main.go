// controller-runtime's envtest with the binaries in KUBEBUILDER_ASSETS: a custom resource, a mutating and a validating
// webhook served by a manager, users, and a restart of the API server.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const patience = 50 * time.Second

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	environment := &envtest.Environment{
		CRDs:                  []*apiextensionsv1.CustomResourceDefinition{definition()},
		WebhookInstallOptions: webhooks(),
	}
	err := run(environment)
	if stopped := environment.Stop(); err == nil {
		err = stopped
	}
	if err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("all facts hold")
}

func run(environment *envtest.Environment) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begun := time.Now()
	config, err := environment.Start()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first", Namespace: "default"}}
	if err := c.Create(ctx, first); err != nil {
		return fmt.Errorf("the first object: %w", err)
	}
	fmt.Println("from start to first object, with a CRD and webhooks:", time.Since(begun).Round(time.Millisecond))
	if err := serveWebhooks(ctx, environment); err != nil {
		return err
	}
	if err := shipsAreJudged(ctx, c); err != nil {
		return err
	}
	if err := usersHaveTheirRights(ctx, environment); err != nil {
		return err
	}
	return objectsOutliveTheAPIServer(ctx, environment)
}

// Both are served by the manager, at the URL and with the certificate that envtest made.
func serveWebhooks(ctx context.Context, environment *envtest.Environment) error {
	options := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host:    options.LocalServingHost,
			Port:    options.LocalServingPort,
			CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		return err
	}
	server := manager.GetWebhookServer()
	server.Register("/mutate", &admission.Webhook{Handler: admission.HandlerFunc(oneMastAtLeast)})
	server.Register("/validate", &admission.Webhook{Handler: admission.HandlerFunc(notTooManyMasts)})
	go func() {
		if err := manager.Start(ctx); err != nil {
			fmt.Println("manager:", err)
		}
	}()
	for server.StartedChecker()(nil) != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the webhook server does not start")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func oneMastAtLeast(_ context.Context, request admission.Request) admission.Response {
	ship, err := decode(request)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(ship.Object, "spec", "masts"); !found {
		_ = unstructured.SetNestedField(ship.Object, int64(1), "spec", "masts")
	}
	changed, err := json.Marshal(ship.Object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

func notTooManyMasts(_ context.Context, request admission.Request) admission.Response {
	ship, err := decode(request)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if masts, _, _ := unstructured.NestedInt64(ship.Object, "spec", "masts"); masts > 7 {
		return admission.Denied("no ship has that many masts")
	}
	return admission.Allowed("").WithWarnings("mind the wind")
}

func decode(request admission.Request) (*unstructured.Unstructured, error) {
	ship := &unstructured.Unstructured{}
	return ship, ship.UnmarshalJSON(request.Object.Raw)
}

func shipsAreJudged(ctx context.Context, c client.Client) error {
	small := ship("small", nil)
	if err := c.Create(ctx, small); err != nil {
		return fmt.Errorf("a ship: %w", err)
	}
	if masts, _, _ := unstructured.NestedInt64(small.Object, "spec", "masts"); masts != 1 {
		return fmt.Errorf("the mutating webhook was not called: %v", small.Object)
	}
	err := c.Create(ctx, ship("large", map[string]any{"masts": int64(8)}))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no ship has that many masts") {
		return fmt.Errorf("the validating webhook was not called: %v", err)
	}
	err = c.Create(ctx, ship("odd", map[string]any{"masts": "many"}))
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("the schema was not checked: %v", err)
	}
	return nil
}

// A certificate of envtest's CA makes a user; RBAC says what they may.
func usersHaveTheirRights(ctx context.Context, environment *envtest.Environment) error {
	nobody, err := environment.AddUser(envtest.User{Name: "nobody"}, nil)
	if err != nil {
		return err
	}
	c, err := client.New(nobody.Config(), client.Options{})
	if err != nil {
		return err
	}
	if err := c.List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"nobody"`) {
		return fmt.Errorf("a user without rights reads secrets: %v", err)
	}
	return nil
}

// The API server alone is restarted: as with etcd, what was stored is still there.
func objectsOutliveTheAPIServer(ctx context.Context, environment *envtest.Environment) error {
	server := environment.ControlPlane.GetAPIServer()
	if err := server.Stop(); err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	admin, err := environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	c, err := client.New(admin.Config(), client.Options{})
	if err != nil {
		return err
	}
	found := ship("small", nil)
	if err := c.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
		return fmt.Errorf("after a restart: %w", err)
	}
	return nil
}

func ship(name string, spec map[string]any) *unstructured.Unstructured {
	object := map[string]any{
		"apiVersion": "example.io/v1",
		"kind":       "Ship",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
		"spec":       map[string]any{},
	}
	if spec != nil {
		object["spec"] = spec
	}
	return &unstructured.Unstructured{Object: object}
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	masts := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"masts": {Type: "integer"},
	}}
	schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": masts,
	}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "ships.example.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.io",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "ships", Singular: "ship", Kind: "Ship", ListKind: "ShipList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
			}},
		},
	}
}

// As kubebuilder generates them: with a Service, which envtest replaces by a URL.
func webhooks() envtest.WebhookInstallOptions {
	service := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{
			Service: &admissionv1.ServiceReference{Namespace: "system", Name: "webhook-service", Path: &path},
		}
	}
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{"example.io"}, APIVersions: []string{"v1"}, Resources: []string{"ships"}},
	}}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "mutating"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "mutate.ships.example.io", ClientConfig: service("/mutate"), Rules: rules,
				SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "validating"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "validate.ships.example.io", ClientConfig: service("/validate"), Rules: rules,
				SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}
