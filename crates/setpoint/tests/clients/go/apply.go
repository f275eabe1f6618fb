package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingac "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Server-side apply by apply configurations: what a manager wants, what it finds of its own again, and what belongs to others.
func applies(ctx context.Context, client *kubernetes.Clientset) {
	deployments := client.AppsV1().Deployments(namespace)
	labels := map[string]string{"app": "applied"}
	wanted := func(replicas int32) *appsac.DeploymentApplyConfiguration {
		pod := coreac.PodSpec().WithContainers(coreac.Container().WithName("c").WithImage("nginx"))
		return appsac.Deployment("applied", namespace).WithLabels(labels).WithSpec(appsac.DeploymentSpec().
			WithReplicas(replicas).
			WithSelector(metaac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreac.PodTemplateSpec().WithLabels(labels).WithSpec(pod)))
	}
	one := metav1.ApplyOptions{FieldManager: "one"}
	made, err := deployments.Apply(ctx, wanted(2), one)
	check("create by applying", err)
	expect("replicas", *made.Spec.Replicas, int32(2))
	again, err := deployments.Apply(ctx, wanted(2), one)
	check("apply the same", err)
	expect("the version of an apply that changes nothing", again.ResourceVersion, made.ResourceVersion)

	_, err = deployments.Apply(ctx, wanted(3), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		fail("another's fields are no conflict: %v", err)
	}
	forced, err := deployments.Apply(ctx, wanted(3), metav1.ApplyOptions{FieldManager: "two", Force: true})
	check("force", err)
	expect("replicas by force", *forced.Spec.Replicas, int32(3))

	// What a manager owns is read back from the object: it adds to that, and takes away.
	own, err := appsac.ExtractDeployment(forced, "one")
	check("extract", err)
	if own.Spec.Replicas != nil {
		fail("replicas belong to another by now: %v", *own.Spec.Replicas)
	}
	expect("an image of its own", *own.Spec.Template.Spec.Containers[0].Image, "nginx")
	own.WithAnnotations(map[string]string{"note": "x"})
	own.Spec.WithPaused(true)
	paused, err := deployments.Apply(ctx, own, one)
	check("apply what was extracted", err)
	expect("paused", paused.Spec.Paused, true)
	own, err = appsac.ExtractDeployment(paused, "one")
	check("extract again", err)
	own.Spec.Paused = nil
	own.Annotations = nil
	resumed, err := deployments.Apply(ctx, own, one)
	check("give up fields", err)
	expect("paused after it was given up", resumed.Spec.Paused, false)
	expect("an annotation that was given up", resumed.Annotations["note"], "")

	status := appsac.Deployment("applied", namespace).WithStatus(appsac.DeploymentStatus().
		WithConditions(appsac.DeploymentCondition().WithType("Mine").WithStatus("True")))
	stated, err := deployments.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "stater"})
	check("apply a status", err)
	expect("a condition", stated.Status.Conditions[0].Type, appsv1.DeploymentConditionType("Mine"))
	mine, err := appsac.ExtractDeploymentStatus(stated, "stater")
	check("extract a status", err)
	expect("the condition that was extracted", *mine.Status.Conditions[0].Type, appsv1.DeploymentConditionType("Mine"))

	scale := autoscalingac.Scale().WithName("applied").WithNamespace(namespace).WithSpec(autoscalingac.ScaleSpec().WithReplicas(4))
	_, err = deployments.ApplyScale(ctx, "applied", scale, metav1.ApplyOptions{FieldManager: "scaler"})
	if !apierrors.IsConflict(err) {
		fail("a scale is no conflict with the replicas: %v", err)
	}
	scaled, err := deployments.ApplyScale(ctx, "applied", scale, metav1.ApplyOptions{FieldManager: "scaler", Force: true})
	check("apply a scale", err)
	expect("the scale", scaled.Spec.Replicas, int32(4))
	check("delete what was applied", deployments.Delete(ctx, "applied", metav1.DeleteOptions{}))
}

func dynamicApplies(ctx context.Context, config *rest.Config) {
	client, err := dynamic.NewForConfig(config)
	check("dynamic client", err)
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	configured := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "dynamic-applied"}, "data": map[string]any{"k": value}}}
	}
	_, err = maps.Apply(ctx, "dynamic-applied", configured("1"), metav1.ApplyOptions{FieldManager: "one"})
	check("dynamic apply", err)
	_, err = maps.Apply(ctx, "dynamic-applied", configured("2"), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) {
		fail("a dynamic apply is no conflict: %v", err)
	}
	taken, err := maps.Apply(ctx, "dynamic-applied", configured("2"), metav1.ApplyOptions{FieldManager: "two", Force: true})
	check("dynamic force", err)
	value, _, _ := unstructured.NestedString(taken.Object, "data", "k")
	expect("a value by force", value, "2")
	managers := taken.GetManagedFields()
	if len(managers) != 1 || managers[0].Manager != "two" || managers[0].Operation != metav1.ManagedFieldsOperationApply {
		fail("managers %v", managers)
	}
}
