package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server-side apply as controllers on controller-runtime write it: typed, and of a resource without types; the object and its status.
func applies(ctx context.Context, direct client.Client) {
	labels := map[string]string{"app": "applied"}
	pod := coreac.PodSpec().WithContainers(coreac.Container().WithName("c").WithImage("i"))
	wanted := func(replicas int32) *appsac.DeploymentApplyConfiguration {
		return appsac.Deployment("applied", namespace).WithSpec(appsac.DeploymentSpec().WithReplicas(replicas).
			WithSelector(metaac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreac.PodTemplateSpec().WithLabels(labels).WithSpec(pod)))
	}
	must(direct.Apply(ctx, wanted(1), client.FieldOwner("one")))
	if err := direct.Apply(ctx, wanted(2), client.FieldOwner("two")); !apierrors.IsConflict(err) {
		must(fmt.Errorf("another's replicas are no conflict: %v", err))
	}
	forced := wanted(2)
	must(direct.Apply(ctx, forced, client.FieldOwner("two"), client.ForceOwnership))
	if forced.UID == nil || forced.Spec.RevisionHistoryLimit == nil {
		must(fmt.Errorf("the answer is not read back: %v", forced))
	}
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: namespace, Name: "applied"}
	must(direct.Get(ctx, key, deployment))
	own, err := appsac.ExtractDeployment(deployment, "one")
	must(err)
	if own.Spec.Replicas != nil || *deployment.Spec.Replicas != 2 {
		must(fmt.Errorf("the replicas were not taken over: %v", own.Spec))
	}
	must(direct.Delete(ctx, deployment))

	ship := func(part string, content map[string]any) runtime.ApplyConfiguration {
		return client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": groupVersion.String(), "kind": "Ship",
			"metadata": map[string]any{"name": key.Name, "namespace": namespace}, part: content}})
	}
	must(direct.Apply(ctx, ship("spec", map[string]any{"masts": int64(2)}), client.FieldOwner("one")))
	if err := direct.Apply(ctx, ship("spec", map[string]any{"masts": int64(3)}), client.FieldOwner("two")); !apierrors.IsConflict(err) {
		must(fmt.Errorf("another's masts are no conflict: %v", err))
	}
	ready := []any{map[string]any{"type": "Ready", "status": "True"}}
	calm := []any{map[string]any{"type": "Calm", "status": "True"}}
	must(direct.Status().Apply(ctx, ship("status", map[string]any{"conditions": ready}), client.FieldOwner("one")))
	must(direct.Status().Apply(ctx, ship("status", map[string]any{"conditions": calm}), client.FieldOwner("two")))
	applied := &Ship{}
	must(direct.Get(ctx, key, applied))
	if applied.Spec.Masts != 2 || len(applied.Status.Conditions) != 2 {
		must(fmt.Errorf("two managers, two conditions: %+v", applied))
	}
	must(direct.Status().Apply(ctx, ship("status", map[string]any{"readyMasts": int64(2)}), client.FieldOwner("one")))
	must(direct.Get(ctx, key, applied))
	if conditions := applied.Status.Conditions; len(conditions) != 1 || conditions[0].Type != "Calm" || applied.Status.ReadyMasts != 2 {
		must(fmt.Errorf("a condition was given up: %+v", applied.Status))
	}
	must(direct.Delete(ctx, applied))
}
