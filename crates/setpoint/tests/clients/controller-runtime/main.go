// A controller-runtime manager that owns a custom resource: it installs the definition, reconciles, and loses and finds
// its resource again while it runs.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	patience  = 50 * time.Second
	finalizer = "ships.example.io/dock"
	namespace = "default"
)

var groupVersion = schema.GroupVersion{Group: "example.io", Version: "v1"}

// Ship keeps a Deployment of as many replicas as it has masts.
type Ship struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ShipSpec   `json:"spec,omitempty"`
	Status            ShipStatus `json:"status,omitempty"`
}

type ShipSpec struct {
	Masts int32 `json:"masts"`
}

type ShipStatus struct {
	ReadyMasts int32              `json:"readyMasts"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type ShipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ship `json:"items"`
}

func (s *Ship) DeepCopyObject() runtime.Object { return s.deepCopy() }

func (s *Ship) deepCopy() *Ship {
	out := &Ship{TypeMeta: s.TypeMeta, Spec: s.Spec, Status: s.Status}
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), s.Status.Conditions...)
	return out
}

func (l *ShipList) DeepCopyObject() runtime.Object {
	out := &ShipList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].deepCopy())
	}
	return out
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	one := 1.0
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32"}
	masts := apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32", Minimum: &one}
	condition := object(map[string]apiextensionsv1.JSONSchemaProps{
		"type": text, "status": text, "reason": text, "message": text,
		"lastTransitionTime": {Type: "string", Format: "date-time"},
		"observedGeneration": {Type: "integer", Format: "int64"},
	})
	condition.Required = []string{"type", "status"}
	listType := "map"
	root := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec": object(map[string]apiextensionsv1.JSONSchemaProps{"masts": masts}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{
			"readyMasts": number,
			"conditions": {
				Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition},
				XListType: &listType, XListMapKeys: []string{"type"},
			},
		}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "ships.example.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: groupVersion.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "ships", Singular: "ship", Kind: "Ship", ListKind: "ShipList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: groupVersion.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

type reconciler struct {
	client.Client
	docked chan string
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ship := &Ship{}
	if err := r.Get(ctx, request.NamespacedName, ship); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !ship.DeletionTimestamp.IsZero() {
		if !controllerutil.RemoveFinalizer(ship, finalizer) {
			return ctrl.Result{}, nil
		}
		if err := r.Update(ctx, ship); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		r.docked <- ship.Name
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(ship, finalizer) {
		if err := r.Update(ctx, ship); err != nil {
			return ctrl.Result{}, err
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: ship.Name, Namespace: ship.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"ship": ship.Name}
		deployment.Spec.Replicas = &ship.Spec.Masts
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "mast", Image: "mast"}}
		}
		return controllerutil.SetControllerReference(ship, deployment, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := ship.deepCopy()
	ship.Status.ReadyMasts = deployment.Status.ReadyReplicas
	ready := metav1.ConditionFalse
	if ship.Status.ReadyMasts == ship.Spec.Masts {
		ready = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&ship.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: ready, Reason: "Masts", ObservedGeneration: ship.Generation,
	})
	return ctrl.Result{}, r.Status().Patch(ctx, ship, client.MergeFrom(before))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

// Waits until it holds, or fails.
func eventually(what string, holds func() (bool, error)) {
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		held, err := holds()
		if held {
			fmt.Println("held:", what)
			return
		}
		last = err
	}
	must(fmt.Errorf("never: %s (%v)", what, last))
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	log.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must(err)
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(apiextensionsv1.AddToScheme(scheme))
	scheme.AddKnownTypes(groupVersion, &Ship{}, &ShipList{})
	metav1.AddToGroupVersion(scheme, groupVersion)

	// Reads go past the cache.
	direct, err := client.New(config, client.Options{Scheme: scheme})
	must(err)
	define := func() {
		must(direct.Create(ctx, definition()))
		eventually("the definition is established", func() (bool, error) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			err := direct.Get(ctx, client.ObjectKey{Name: "ships.example.io"}, crd)
			for _, condition := range crd.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return true, nil
				}
			}
			return false, err
		})
	}
	define()
	applies(ctx, direct)

	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "ships.example.io", LeaderElectionNamespace: namespace,
	})
	must(err)
	ships := &reconciler{Client: manager.GetClient(), docked: make(chan string, 16)}
	must(ctrl.NewControllerManagedBy(manager).For(&Ship{}).Owns(&appsv1.Deployment{}).Complete(ships))
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()

	key := client.ObjectKey{Namespace: namespace, Name: "argo"}
	launch := func(masts int32) *Ship {
		ship := &Ship{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: namespace}, Spec: ShipSpec{Masts: masts}}
		must(direct.Create(ctx, ship))
		return ship
	}
	sails := func(what string, masts int32) {
		eventually(what, func() (bool, error) {
			ship, deployment := &Ship{}, &appsv1.Deployment{}
			if err := direct.Get(ctx, key, ship); err != nil {
				return false, err
			}
			if err := direct.Get(ctx, key, deployment); err != nil {
				return false, err
			}
			owned := metav1.IsControlledBy(deployment, ship) && *deployment.Spec.Replicas == masts
			ready := meta.IsStatusConditionTrue(ship.Status.Conditions, "Ready") && ship.Status.ReadyMasts == masts
			return owned && ready, fmt.Errorf("ship %+v", ship.Status)
		})
	}
	gone := func(what string, object client.Object) {
		eventually(what, func() (bool, error) {
			err := direct.Get(ctx, key, object)
			return apierrors.IsNotFound(err), err
		})
	}

	must(func() error {
		err := direct.Create(ctx, &Ship{ObjectMeta: metav1.ObjectMeta{Name: "raft", Namespace: namespace}})
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("a ship without masts: %v", err)
		}
		return nil
	}())
	ship := launch(2)
	sails("a ship has its masts", 2)
	must(direct.Patch(ctx, ship, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"masts":3}}`))))
	sails("it gets another one", 3)
	scaled := &appsv1.Deployment{}
	must(direct.Get(ctx, key, scaled))
	must(direct.Patch(ctx, scaled, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`))))
	sails("nobody takes one away", 3)
	must(direct.Delete(ctx, scaled))
	sails("nor all of them", 3)

	must(direct.Delete(ctx, ship))
	gone("the ship is gone", &Ship{})
	if name := <-ships.docked; name != key.Name {
		must(fmt.Errorf("%s docked", name))
	}
	gone("and its deployment with it", &appsv1.Deployment{})

	// The definition goes with its objects, whose finalizers the manager removes; it finds the next one by itself.
	launch(1)
	sails("a second ship", 1)
	must(direct.Delete(ctx, definition()))
	eventually("the definition is gone", func() (bool, error) {
		err := direct.Get(ctx, client.ObjectKey{Name: "ships.example.io"}, &apiextensionsv1.CustomResourceDefinition{})
		return apierrors.IsNotFound(err), err
	})
	if name := <-ships.docked; name != key.Name {
		must(fmt.Errorf("%s docked", name))
	}
	define()
	launch(2)
	sails("a third ship, of another definition", 2)

	cancel()
	must(<-ended)
	fmt.Println("all facts hold")
}
